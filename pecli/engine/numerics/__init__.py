"""Exact numbers: fixed point, double-double, phases, tables of cosines and sines, correct rounding."""
