"""Graders for tests of the router."""
