"""Showing things to people."""
