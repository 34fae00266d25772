"""Causal language models in memory: loading, what they can do, their weights as files and bytes, adapters."""
