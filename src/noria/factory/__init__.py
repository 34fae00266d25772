"""The factory of software tasks: sources -> layers -> bugs -> proof -> statements -> a dataset."""
