"""What judges a finished piece of work: one file per way of grading, and the router that runs many at once."""
