"""Buckets of relative positions, against the formulas in arbitrary precision."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb

from pecli.engine.schemes.relative import Relative
from pecli.engine.schemes.scheme import Scheme


def ratio(a: int, b: int, c: int, d: int, times: int) -> arb:
    """ln(a/b) / ln(c/d) · times."""
    return (arb(a) / b).log() / (arb(c) / d).log() * times


def near_whole(value: arb) -> int | None:
    """The integer that a ball cannot be told from."""
    whole = round(float(value.mid()))
    return whole if value.contains(whole) else None


def t5(r: int, buckets: int, limit: int, causal: bool) -> int:
    first = 0
    if causal:
        n = max(-r, 0)
    else:
        buckets //= 2
        first, n = buckets * (r > 0), abs(r)
    e = buckets // 2
    if n < e:
        return first + n
    value = ratio(n, e, limit, e, buckets - e)
    whole = near_whole(value)
    return first + min(buckets - 1, e + (math.floor(float(value.mid())) if whole is None else whole))


def deberta(r: int, buckets: int, limit: int) -> int:
    m, n = buckets // 2, abs(r)
    if n <= m:
        return r
    value = ratio(n, m, limit - 1, m, m - 1)
    whole = near_whole(value)
    return (m + (math.ceil(float(value.mid())) if whole is None else whole)) * (1 if r > 0 else -1)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("buckets", "limit"), [(32, 128), (32, 129), (64, 100), (10, 1000), (12, 81)])
def test_t5(buckets: int, limit: int, causal: bool) -> None:
    found = Relative("t5", 300, buckets, limit, causal).tables()["index"]
    assert found.dtype == np.int32
    assert found[0].tolist() == [t5(j, buckets, limit, causal) for j in range(300)]
    assert found[:, 0].tolist() == [t5(-i, buckets, limit, causal) for i in range(300)]
    assert np.array_equal(found[1:, 1:], found[:-1, :-1])


@pytest.mark.parametrize(("buckets", "limit"), [(32, 64), (256, 512), (16, 65), (6, 1000)])
def test_deberta(buckets: int, limit: int) -> None:
    found = Relative("deberta", 700, buckets, limit).tables()["index"]
    assert found[:, 0].tolist() == [deberta(i, buckets, limit) for i in range(700)]
    assert found[0].tolist() == [deberta(-j, buckets, limit) for j in range(700)]


def test_rows_alone_are_rows_of_the_table() -> None:
    for scheme in (Relative("t5", 50), Relative("swin", grid=(4, 7))):
        whole = scheme.tables()["index"]
        assert np.array_equal(scheme.tensors()[0].read(11, 17), whole[11:17])


def test_specs() -> None:
    for scheme in (Relative("t5", 5, causal=True), Relative("swin", grid=(3, 4)), Relative("deberta", 9)):
        assert Scheme.from_spec(scheme.spec()) == scheme
