"""The commonest slip of hand-written sinusoidal tables: an exponent that counts channels where pairs are meant."""

from __future__ import annotations

import numpy as np

from pecli.checks.diagnose.sample import samples
from pecli.engine.numerics.rounding import widened
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.engine.table import Table

_FAR = 4096
"""Positions below this are looked at: beyond, float32 phases may be off by more than is allowed."""
_CLOSE = 5e-3


def own_frequencies(scheme: Sinusoidal, table: Table) -> str:
    """Words about a table whose channels all have a frequency of their own; nothing where they have not."""
    if table.dtype.startswith("complex") or scheme.dim < 4:
        return ""
    channel = np.arange(scheme.dim)
    for sample in samples(table, scheme.seq_len):
        near = sample.rows < _FAR
        if sample.array.ndim != 2 or sample.array.shape[1] != scheme.dim or sample.length < 2:
            continue
        found = widened(sample.array[near])
        for words, exponent in (("2k/D", 2 * channel / scheme.dim), ("k/D", channel / scheme.dim)):
            positions = (sample.rows[near] + scheme.offset) * scheme.scale
            angles = np.multiply.outer(positions, scheme.base**-exponent)
            sines = channel % 2 == int(scheme.cos_first)
            made = scheme.amplitude * np.where(sines, np.sin(angles), np.cos(angles))
            if np.abs(made - found).max() <= _CLOSE * scheme.amplitude:
                return (
                    f"every channel k has a frequency of its own, base^(−{words}); the sine and the cosine of a pair "
                    "share one, base^(−2·(k // 2)/D)"
                )
    return ""
