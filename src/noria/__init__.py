"""Noria turns a model's own failures into the next model."""

__version__ = "0.1.0"
