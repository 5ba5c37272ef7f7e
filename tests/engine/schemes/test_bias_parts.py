"""Biases of one shard of heads, and of the last queries: parts of the whole table, to the bit."""

from typing import Any

import numpy as np
import pytest

import pecli
from pecli import Alibi, Relative
from pecli.errors import KindError, ParameterError

WEIGHTS = np.random.default_rng(4).standard_normal((32, 12))
ALIBI_12_HEADS = {"heads": 12, "seq_len": 10}
T5_10_POSITIONS = {"style": "t5", "seq_len": 10, "weights": WEIGHTS}


@pytest.mark.parametrize("heads", [(0, 3), (3, 6), (9, 12), (5, 6), (0, 12)])
@pytest.mark.parametrize("queries", [None, 1, 4, 10])
@pytest.mark.parametrize("form", ["symmetric", "causal"])
def test_a_shard_of_alibi_is_a_part_of_the_whole(
    heads: tuple[int, int], queries: int | None, form: str
) -> None:
    whole = Alibi(**ALIBI_12_HEADS, form=form).tables()
    part = Alibi(**ALIBI_12_HEADS, form=form, head_range=heads, queries=queries).tables()
    rows = slice(-(queries or 10), None)

    assert np.array_equal(part["bias"], whole["bias"][slice(*heads), rows])
    assert np.array_equal(part["slopes"], whole["slopes"][slice(*heads)])


@pytest.mark.parametrize("form", ["key", "key-last"])
def test_key_forms_have_a_shard_and_no_queries(form: str) -> None:
    whole = Alibi(**ALIBI_12_HEADS, form=form).tables()["bias"]
    part = Alibi(**ALIBI_12_HEADS, form=form, head_range=(6, 9)).tables()["bias"]

    assert np.array_equal(part, whole[6:9])
    with pytest.raises(ParameterError, match="one row for all queries"):
        Alibi(**ALIBI_12_HEADS, form=form, queries=1)


@pytest.mark.parametrize("queries", [None, 1, 7])
@pytest.mark.parametrize("heads", [None, (4, 8)])
def test_a_shard_of_a_learned_bias_is_a_part_of_the_whole(
    heads: tuple[int, int] | None, queries: int | None
) -> None:
    whole = Relative(**T5_10_POSITIONS).tables()["bias"]
    part = Relative(**T5_10_POSITIONS, head_range=heads, queries=queries).tables()["bias"]
    chosen = slice(*heads) if heads else slice(None)

    assert np.array_equal(part, whole[chosen, -(queries or 10) :])


@pytest.mark.parametrize(
    "style", [{"style": "t5", "seq_len": 12}, {"style": "swin", "grid": (3, 4)}]
)
def test_the_last_queries_have_the_last_rows_of_an_index(style: dict[str, Any]) -> None:
    whole = Relative(**style).tables()["index"]
    assert np.array_equal(Relative(**style, queries=5).tables()["index"], whole[-5:])


def test_a_shard_is_added_to_scores() -> None:
    scores = np.random.default_rng(5).standard_normal((2, 3, 4, 10))
    shard = Alibi(**ALIBI_12_HEADS, head_range="3:6", queries=4, dtype="float64")
    added = pecli.apply(scores, shard) - scores

    assert np.abs(added - shard.tables()["bias"]).max() < 1e-15


@pytest.mark.parametrize(
    "scheme", [Alibi(**ALIBI_12_HEADS, head_range="3:6", queries=2), Alibi(**ALIBI_12_HEADS)]
)
def test_a_spec_makes_the_same_scheme(scheme: Alibi) -> None:
    assert Alibi.from_spec(scheme.spec()) == scheme


def test_older_specs_have_no_parts() -> None:
    parameters = Alibi(**ALIBI_12_HEADS).spec()["parameters"]
    assert "head_range" not in parameters
    assert "queries" not in parameters


MISTAKEN_PARTS = {
    "another shard": (
        Alibi(**ALIBI_12_HEADS, head_range=(0, 3)),
        "head_range is 0:3 (the spec says 3:6)",
    ),
    "counted by the shard": (Alibi(3, 10), "heads is 3 (the spec says 12)"),
    "another form": (
        Alibi(**ALIBI_12_HEADS, head_range=(3, 6), form="causal"),
        "form is causal (the spec says symmetric)",
    ),
}


@pytest.mark.parametrize("name", MISTAKEN_PARTS)
def test_mistakes_of_a_shard_are_named(name: str) -> None:
    """The spec is heads 3 to 5 of 12."""
    made, words = MISTAKEN_PARTS[name]
    bias = {"bias": made.tables()["bias"]}
    result = pecli.verify(bias, Alibi(**ALIBI_12_HEADS, head_range=(3, 6)), atol=1e-6)

    assert not result.passed
    assert words in result.diagnosis[0]


def test_another_shard_of_a_learned_bias_is_named() -> None:
    bias = Relative(**T5_10_POSITIONS, head_range=(0, 4)).tables()
    result = pecli.verify(bias, Relative(**T5_10_POSITIONS, head_range=(4, 8)), atol=1e-6)

    assert "head_range is 0:4 (the spec says 4:8)" in result.diagnosis[0]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Alibi(**ALIBI_12_HEADS, head_range=(3, 13)), "there are 12 heads, 0 … 11"),
        (lambda: Alibi(**ALIBI_12_HEADS, head_range=(6, 6)), "it must be A:B"),
        (lambda: Alibi(**ALIBI_12_HEADS, head_range="3-6"), "it must be A:B"),
        (lambda: Alibi(**ALIBI_12_HEADS, queries=11), "there are 10 in all"),
        (lambda: Alibi(12, queries=1), "slopes have none"),
        (lambda: Relative("t5", 10, head_range=(0, 2)), "the index has no heads"),
        (lambda: Relative(**T5_10_POSITIONS, head_range=(0, 13)), "there are 12 heads"),
        (lambda: Relative(**T5_10_POSITIONS, queries=11), "there are 10 in all"),
    ],
    ids=["beyond", "empty", "a dash", "queries", "slopes", "index", "weights", "rows"],
)
def test_ranges_that_do_not_fit_are_refused(make: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        make()


def test_a_number_is_no_range() -> None:
    with pytest.raises(KindError, match="it must be A:B"):
        Alibi(**ALIBI_12_HEADS, head_range=3)
