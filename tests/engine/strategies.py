"""Schemes of all kinds, small enough to make many."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from pecli.engine.schemes import BIAS_RECIPE, RECIPES
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import STYLES, Sinusoidal

quick = settings(
    deadline=None,
    max_examples=120,
    derandomize=True,  # the same examples every time
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

dtypes = st.sampled_from(["float64", "float32", "float16", "bfloat16"])
bases = st.sampled_from([10000.0, 500000.0, 1e6, 100.0, 2.0, 1.0, 0.5, 1e20, 9999.9])
offsets = st.one_of(st.integers(0, 3000), st.integers(10**6 - 50, 10**6 + 50), st.integers(2**40 - 3000, 2**40 - 400))
recipes = st.one_of(st.just("exact"), st.sampled_from(sorted(RECIPES)))
lengths = st.one_of(st.integers(1, 40), st.integers(41, 400))


@st.composite
def sinusoidal(draw: Any) -> Sinusoidal:
    dim = draw(st.integers(2, 40))
    return Sinusoidal(
        draw(lengths),
        dim if dim % 2 == 0 else dim - 1 + draw(st.sampled_from([0, 1])),
        base=draw(bases),
        layout=draw(st.sampled_from(["interleaved", "halves"])),
        cos_first=draw(st.booleans()),
        freq_shift=draw(st.sampled_from([0.0, 0.5])),
        offset=draw(offsets),
        scale=draw(st.sampled_from([1.0, 0.25, 1000.0, 0.1])),
        amplitude=draw(st.sampled_from([1.0, 0.125, 0.3, 7.5])),
        padding_idx=draw(st.sampled_from([None, 0, 1, 10**6])),
        recipe=draw(recipes),
        dtype=draw(dtypes),
    )


@st.composite
def styled(draw: Any) -> Sinusoidal:
    return Sinusoidal(draw(lengths), 2 * draw(st.integers(1, 20)), style=draw(st.sampled_from(sorted(STYLES))))


@st.composite
def rope(draw: Any) -> Rope:
    return Rope(
        draw(lengths),
        2 * draw(st.integers(1, 20)),
        base=draw(bases),
        offset=draw(offsets),
        layout=draw(st.sampled_from(["compact", "halves", "interleaved"])),
        recipe=draw(recipes),
        dtype=draw(dtypes),
    )


@st.composite
def alibi(draw: Any) -> Alibi:
    return Alibi(
        draw(st.integers(1, 9)),
        draw(st.one_of(st.none(), st.integers(1, 30))),
        rule=draw(st.sampled_from(["paper", "naive"])),
        max_bias=draw(st.sampled_from([8.0, 16.0, 0.3])),
        form=draw(st.sampled_from(["symmetric", "causal", "key", "key-last"])),
        slopes=draw(st.booleans()),
        recipe=draw(st.sampled_from(BIAS_RECIPE.options)),
        dtype=draw(dtypes),
    )


@st.composite
def learned(draw: Any) -> LearnedInit:
    inits = ["normal", "uniform", "xavier-uniform", "zeros", "sinusoidal", "trunc-normal"]
    return LearnedInit(
        draw(st.integers(1, 60)),
        draw(st.integers(1, 12)),
        init=draw(st.sampled_from(inits)),
        std=draw(st.sampled_from([0.02, 1.0, 0.3])),
        seed=draw(st.sampled_from([0, 1, 2**32, 2**64 - 1])),
        dtype=draw(dtypes),
    )


def schemes() -> st.SearchStrategy[Scheme]:
    return st.one_of(sinusoidal(), styled(), rope(), alibi(), learned())
