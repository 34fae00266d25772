"""Worlds: tasks, tools, verifier and reference solution. One file or folder per world."""
