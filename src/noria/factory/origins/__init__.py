"""Where repositories come from; one file per kind."""
