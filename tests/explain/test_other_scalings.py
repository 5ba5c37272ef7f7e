"""A scaling in place of another: the reason names the one that made the table, whatever the model's is.

Tables are the engine's, which tests/engine/scalings compares with arbitrary precision.
"""

import math
from itertools import permutations
from typing import Any

import pytest

import pecli
from pecli.engine.edits import Parameter

SCALINGS: dict[str, dict[str, Any]] = {
    "none": {},
    "linear": {"factor": 2.5},
    "ntk": {"factor": 8.0},
    "yarn": {"factor": 8.0, "original_max_position_embeddings": 16384},
    "yarn as gpt-oss has it": {
        "factor": 32.0,
        "original_max_position_embeddings": 4096,
        "truncate": False,
    },
    "llama3": {
        "factor": 32.0,
        "original_max_position_embeddings": 8192,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    },
}


def name_of(scaling: str) -> str:
    """Return the first word: `yarn` for «yarn as gpt-oss has it»."""
    return scaling.split()[0]


def rope(scaling: str) -> pecli.Rope:
    name = name_of(scaling)
    return pecli.Rope(300, 64, base=500000.0, scaling=name, **SCALINGS[scaling])


OTHER_KINDS = [pair for pair in permutations(SCALINGS, 2) if name_of(pair[0]) != name_of(pair[1])]


@pytest.mark.parametrize(("expected", "found"), OTHER_KINDS)
@pytest.mark.sample(6)
def test_a_scaling_of_another_kind_is_named_with_its_numbers(expected: str, found: str) -> None:
    """The tables are scaled by `found`, in float32 and of 300 positions, and the spec by `expected`.
    The first explanation names both kinds, and each number of `found` as it is in SCALINGS, such as
    the factor 8 of «yarn».
    """
    tables = {name: rope(found).tables()[name] for name in ("cos", "sin")}
    (first, *_) = pecli.verify(tables, rope(expected), atol=1e-4).explanations

    scaling, *numbers = first.edits
    assert scaling == Parameter("scaling", name_of(expected), name_of(found))
    for number in numbers:
        assert isinstance(number, Parameter)
        assert number.found == SCALINGS[found][number.name]


@pytest.mark.thorough
@pytest.mark.parametrize("length", [512, 1024])
def test_a_factor_and_an_attention_factor_that_follows_from_it_are_named(length: int) -> None:
    """The spec scales by 40 with both mscales, as DeepSeek does, so its attention factor is 1. The
    port scales by 8 without them: its attention factor is 0.1 ln 8 + 1 = 1.2079442.

    Both scale by YaRN, so that the scaling itself is not reported as another one.
    """
    spec = pecli.Rope(
        length, 128, scaling="yarn", factor=40.0, original_max_position_embeddings=4096,
        mscale=1.0, mscale_all_dim=1.0,
    )  # fmt: skip
    port = pecli.Rope(
        length, 128, scaling="yarn", factor=8.0, original_max_position_embeddings=4096
    )
    tables = {name: port.tables()[name] for name in ("cos", "sin")}
    (first, *_) = pecli.verify(tables, spec).explanations

    assert first.edits == (
        Parameter("factor", 40.0, 8.0),
        Parameter("attention_factor", 1.0, pytest.approx(0.1 * math.log(8) + 1)),
    )
