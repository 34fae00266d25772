"""Small tasks from real small functions: chosen, watched while a package's own tests call them, broken, and proven."""
