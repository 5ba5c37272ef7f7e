"""Recorded runs of models, compared with what their configurations require."""
