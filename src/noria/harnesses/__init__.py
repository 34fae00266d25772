"""What plays rollouts where the house's own loop does not: harnesses of somebody else's. One file per kind."""
