"""Carriers, protocols, recipes, the registry, run folders, faults and statistics."""
