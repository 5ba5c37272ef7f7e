"""Which seed drew a table: the first draws of very many seeds at once, held against the table's first elements.

What is compared holds for every standard deviation and for every distribution: signs, and which of two elements is the
larger one; for torch's normal numbers, the angle between the two of a pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import Flags, Floats, Ints
from pecli.engine.schemes import random_streams

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint32]


PHILOX_SEEDS = 1 << 19
MERSENNE_SEEDS = 1 << 16
_FAVOURITES = (1234567, 12345678, 123456789, 31415926, 271828, 20202020, 19260817, 3407, 0xDEADBEEF, 2**32 - 1)
"""Seeds that people choose beyond those that are tried one by one."""
_BATCH = 1 << 13
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_APART = 1.02
"""Elements closer than this may change places when they are rounded."""


def philox_seeds(first: Floats) -> Iterator[int]:
    """The seeds of pecli's own generator that agree with the first elements of a table."""
    for seeds in _batches(PHILOX_SEEDS):
        for block in range(min(4, len(first) // 4)):
            seeds = seeds[_alike(_philox(seeds, block), first[4 * block : 4 * block + 4])]
        yield from map(int, seeds)


def mersenne_seeds(first: Floats, *, normal: bool) -> Iterator[int]:
    """The seeds of torch's generator that agree with the first sixteen elements of a table."""
    agree: Callable[[Floats], Flags] = lambda u: _paired(u, first) if normal else _alike(u, first)  # noqa: E731
    for seeds in _batches(MERSENNE_SEEDS):
        few = seeds[_alike(_mersenne(seeds, 4), first[:4])] if not normal else seeds[agree(_mersenne(seeds, 16))]
        for seed in map(int, few):
            if agree(random_streams.Mersenne(seed).uniform(16).astype(np.float64)[None])[0]:
                yield seed


def _batches(count: int) -> Iterator[Ints]:
    for start in range(0, count, _BATCH):
        yield np.arange(start, min(start + _BATCH, count), dtype=np.uint64)
    yield np.array([seed for seed in _FAVOURITES if seed >= count], np.uint64)


def _alike(u: Floats, elements: Floats) -> Flags:
    """Where uniform numbers lie on the sides of one half, and in the order of distance from it, of the elements."""
    centred, size = u - 0.5, np.abs(elements)
    agree: Flags = ((centred > 0) == (elements > 0)).all(axis=1)
    for a in range(len(elements)):
        for b in range(a):
            if size[a] > _APART * size[b]:
                agree &= np.abs(centred[:, a]) > np.abs(centred[:, b])
            elif size[b] > _APART * size[a]:
                agree &= np.abs(centred[:, b]) > np.abs(centred[:, a])
    return agree


def _paired(u: Floats, elements: Floats) -> Flags:
    """Where the angles 2π·u of the second eight are those of the pairs (j, j + 8) of the elements."""
    turns = np.arctan2(elements[8:16], elements[:8]) / (2 * np.pi)
    off = u[:, 8:16] - turns
    return np.asarray((np.abs(off - np.rint(off)) < 0.002).all(axis=1))


def _philox(seeds: Ints, block: int) -> Floats:
    """Draws 4·block … 4·block + 3 of every seed, as `randomness.uniform` makes them: (seeds, 4)."""
    counter = [np.full(len(seeds), block + 1, np.uint64), *(np.zeros(len(seeds), np.uint64) for _ in range(3))]
    key, other = seeds.copy(), np.uint64(0)
    for _ in range(10):
        high0, low0 = _product(np.uint64(0xD2E7470EE14C6C93), counter[0])
        high1, low1 = _product(np.uint64(0xCA5A826395121157), counter[2])
        counter = [high1 ^ counter[1] ^ key, low1, high0 ^ counter[3] ^ other, low0]
        key = key + np.uint64(0x9E3779B97F4A7C15)
        other = np.uint64((int(other) + 0xBB67AE8584CAA73B) & 0xFFFFFFFFFFFFFFFF)
    draws: Floats = (np.stack(counter, axis=1) >> np.uint64(12)).astype(np.float64)
    return (draws + 0.5) * 2.0**-52


def _product(a: np.uint64, b: Ints) -> tuple[Ints, Ints]:
    """The upper and the lower 64 bits of a · b."""
    a0, a1, b0, b1 = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    low = a0 * b0
    middle = a1 * b0 + (low >> _HALF)
    cross = a0 * b1 + (middle & _LOW)
    return a1 * b1 + (middle >> _HALF) + (cross >> _HALF), b * a


def _mersenne(seeds: Ints, count: int) -> Floats:
    """The first draws of every seed as `randomness.Mersenne` makes uniform numbers: (seeds, count)."""
    state: Words = (seeds & _LOW).astype(np.uint32)
    kept: dict[int, Words] = {0: state}
    for k in range(1, 397 + count):
        state = np.uint32(1812433253) * (state ^ (state >> np.uint32(30))) + np.uint32(k)
        if k <= count or k >= 397:
            kept[k] = state
    out = np.empty((len(seeds), count))
    for k in range(count):
        mixed = (kept[k] & np.uint32(0x80000000)) | (kept[k + 1] & np.uint32(0x7FFFFFFF))
        word = kept[397 + k] ^ (mixed >> np.uint32(1)) ^ np.where(mixed & np.uint32(1), np.uint32(0x9908B0DF), 0)
        word = word ^ (word >> np.uint32(11))
        word = word ^ ((word << np.uint32(7)) & np.uint32(0x9D2C5680))
        word = word ^ ((word << np.uint32(15)) & np.uint32(0xEFC60000))
        word = word ^ (word >> np.uint32(18))
        out[:, k] = (word & np.uint32(0xFFFFFF)) * 2.0**-24
    return out
