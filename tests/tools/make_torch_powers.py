"""Writes torch_powers.npz: powers as PyTorch computes them in float32 (torch 2.13, x86-64 with AVX-512)."""

from pathlib import Path

import numpy as np

BASES = (0.5, 7.7, 25000.3, 77123.25, 150000.0, 1e20)
DIMS = (6, 64, 80, 256)

if __name__ == "__main__":
    import torch

    found = {f"{base!r},{dim}": base ** (torch.arange(0, dim, 2).float() / dim) for base in BASES for dim in DIMS}
    file = Path(__file__).parents[1] / "engine/numerics/torch_powers.npz"
    np.savez_compressed(file, **{name: each.numpy() for name, each in found.items()})
