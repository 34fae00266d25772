"""The report of a run, written from its folder alone."""
