"""Work on tensors that lie in files: encodings applied, rows moved, cast or resampled, block by block."""
