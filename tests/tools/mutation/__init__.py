"""The parts of `tests/tools/mutate.py`: finding changes, switching them, and trying them."""
