"""Positional encodings: exact tables, and proof of them."""

__version__ = "0.1.0"
