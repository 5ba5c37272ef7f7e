"""Formats of checkpoints that other programs write: read, never written."""
