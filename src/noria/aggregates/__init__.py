"""Aggregates: how the per-token losses of a batch become one number. One file each."""
