"""Comparing arrays: how a table lies in an array, and how far the array is from what it should be."""
