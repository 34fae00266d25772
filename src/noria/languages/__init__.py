"""Programming languages as the task factory needs them: find sources and tests, build, run, read a report."""
