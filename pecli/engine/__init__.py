"""Positional encodings as mathematics: NumPy in, NumPy out; no files, no printing."""

__version__ = "0.2.0"
