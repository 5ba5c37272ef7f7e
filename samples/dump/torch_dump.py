"""Dump queries before and after the rotation of a torch model; q is (batch, heads, L, D)."""

import numpy as np


def dump(q_before, q_after, path="dump.npz"):
    tensors = {"q_before": q_before, "q_after": q_after}
    arrays = {name: tensor.detach().float().cpu().numpy() for name, tensor in tensors.items()}
    np.savez(path, **arrays)
