"""Enriched trajectories: other tool schemas, plans and better reasoning, all of it proved by replay."""
