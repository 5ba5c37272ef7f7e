"""Applying an encoding to tensors, as a model's layer would: tables in, tables out, made block by block."""
