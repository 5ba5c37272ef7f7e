"""The maths: NumPy in, NumPy out; no files, no printing."""
