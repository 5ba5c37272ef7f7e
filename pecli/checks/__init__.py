"""Holding tables against tables."""
