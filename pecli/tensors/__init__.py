"""Work on tensors that lie in files: their rows moved, cast or resampled, block by block."""
