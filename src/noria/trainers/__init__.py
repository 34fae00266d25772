"""Forward, backward and the optimiser's step. One file per trainer."""
