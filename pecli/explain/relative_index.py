"""Tables of integers by query and key: whose buckets, or which window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pecli.engine.arrays import Indices
from pecli.engine.schemes.relative import Relative
from pecli.errors import ParameterError
from pecli.explain.edits import Explanation
from pecli.explain.sample import Sample

BUCKETS = (32, 256, 64, 128, 16, 512, 320, 8, 24, 48, 96, 192, 1024)
DISTANCES = (128, 512, 64, 256, 1024, 800, 2048, 32, 16, 20, 100, 200, 4096)
"""What models have, the likeliest first."""
MAX_LENGTH = 2048


def recognise_index(name: str, one: Sample) -> Iterator[Explanation]:
    """The scheme of relative positions that makes a table."""
    values = one.values
    if values.ndim != 2 or values.shape[0] != values.shape[1] or not 3 <= len(values) <= MAX_LENGTH or not one.whole:
        return
    if np.iscomplexobj(values) or not np.array_equal(values, np.rint(values)) or not values.any():
        return
    for scheme in _candidates(values.astype(np.intp)):
        if np.array_equal(scheme.rows(0, len(values)), values):
            yield Explanation((), scheme, 0.0, 0.0, (name,))
            return


def _candidates(index: Indices) -> Iterator[Relative]:
    length = len(index)
    if np.array_equal(index[1:, 1:], index[:-1, :-1]):
        after, before = index[0], index[:, 0]
        buckets = 2 * (int(after[1]) - 1) if after[1] else 0
        causal = not after.any()
        styles: list[dict[str, Any]] = [{"style": "t5", "causal": causal}]
        if after[1] == -1:
            styles = [{"style": "deberta"}]
        for style in styles:
            for count in (buckets,) if buckets > 0 else BUCKETS:
                for distance in (*DISTANCES, *(range(3, 4 * length) if length <= 128 else ())):
                    scheme = _made(seq_len=length, buckets=count, max_distance=distance, **style)
                    if scheme is None or not np.array_equal(scheme.rows(0, 1)[0], after):
                        continue
                    if np.array_equal(scheme.rows(length - 1, length)[0][::-1], before):
                        yield scheme
    for height in range(1, length + 1):
        if length % height == 0:
            scheme = _made(style="swin", grid=(height, length // height))
            if scheme is not None:
                yield scheme


def _made(**parameters: Any) -> Relative | None:
    try:
        return Relative(**parameters)
    except ParameterError:
        return None
