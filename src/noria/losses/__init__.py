"""Objectives: (log-probabilities, streams) to (sum, denominator, metrics). One file per term."""
