"""The cases of `tests/tools/compare_versions.py`.

This package is imported by the worker processes of both versions, so it uses only public names of
pecli and builds its inputs with NumPy: the same seed is the same input in every version.
"""
