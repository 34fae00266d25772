"""Advantages, token weights and rewards of groups: they only annotate. One file per signal."""
