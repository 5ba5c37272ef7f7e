"""Parts of a bias: one shard of the heads (head_range), or the last queries only, are bytes of the
whole table.

The whole tables are those of the same scheme without these parameters, which test_alibi.py and
test_relative.py hold against formulas: ALiBi with 12 heads and 10 positions, and T5's buckets for
10 positions with random weights (32 buckets, 12 heads).
"""

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
    """ALIBI_12_HEADS is a bias of 12 heads, 10 queries and 10 keys, of which a process of tensor
    parallelism makes its own heads: head_range=(3, 6) are heads 3, 4 and 5, and queries=4 are the
    last 4 of 10 rows.
    """
    whole = Alibi(**ALIBI_12_HEADS, form=form).tables()
    part = Alibi(**ALIBI_12_HEADS, form=form, head_range=heads, queries=queries).tables()
    rows = slice(-(queries or 10), None)

    assert np.array_equal(part["bias"], whole["bias"][slice(*heads), rows])
    assert np.array_equal(part["slopes"], whole["slopes"][slice(*heads)])


@pytest.mark.parametrize("form", ["key", "key-last"])
def test_a_shard_of_a_form_by_key_is_a_part_of_the_whole(form: str) -> None:
    """Tensor parallelism gives a process heads 6, 7 and 8 of 12; their bias must be that part of
    the bias of all heads.
    """
    whole = Alibi(**ALIBI_12_HEADS, form=form).tables()["bias"]
    part = Alibi(**ALIBI_12_HEADS, form=form, head_range=(6, 9)).tables()["bias"]

    assert np.array_equal(part, whole[6:9])


@pytest.mark.parametrize("form", ["key", "key-last"])
def test_a_form_by_key_refuses_a_number_of_queries(form: str) -> None:
    """Its bias has one row that serves all queries, so there are no last ones."""
    with pytest.raises(ParameterError, match="one row for all queries"):
        Alibi(**ALIBI_12_HEADS, form=form, queries=1)


@pytest.mark.parametrize("queries", [None, 1, 7])
@pytest.mark.parametrize("heads", [None, (4, 8)])
def test_a_shard_of_a_learned_bias_is_a_part_of_the_whole(
    heads: tuple[int, int] | None, queries: int | None
) -> None:
    """T5_10_POSITIONS is T5's bias with weights of 12 heads, for 10 queries and 10 keys. A shard has
    heads 4 to 7 of them, and the last 1 or 7 queries.
    """
    whole = Relative(**T5_10_POSITIONS).tables()["bias"]
    part = Relative(**T5_10_POSITIONS, head_range=heads, queries=queries).tables()["bias"]
    chosen = slice(*heads) if heads else slice(None)

    assert np.array_equal(part, whole[chosen, -(queries or 10) :])


@pytest.mark.parametrize(
    "style", [{"style": "t5", "seq_len": 12}, {"style": "swin", "grid": (3, 4)}]
)
def test_the_last_queries_have_the_last_rows_of_an_index(style: dict[str, Any]) -> None:
    """The index of a relative bias holds the bucket of each query and key: 12 queries of T5, or the
    12 points of a 3 × 4 window of Swin. queries=5 makes the rows of the last 5.
    """
    whole = Relative(**style).tables()["index"]
    assert np.array_equal(Relative(**style, queries=5).tables()["index"], whole[-5:])


def test_the_bias_of_a_shard_is_added_to_scores_of_its_heads_and_queries() -> None:
    """Scores of 3 heads and 4 queries fit the shard of heads 3 to 5 and the last 4 queries of 10
    keys; head_range may be the text "3:6". One rounding of float64 is below 1e-15.
    """
    scores = np.random.default_rng(5).standard_normal((2, 3, 4, 10))
    shard = Alibi(**ALIBI_12_HEADS, head_range="3:6", queries=4, dtype="float64")
    added = pecli.apply(scores, shard) - scores

    assert np.abs(added - shard.tables()["bias"]).max() < 1e-15


@pytest.mark.parametrize(
    "scheme", [Alibi(**ALIBI_12_HEADS, head_range="3:6", queries=2), Alibi(**ALIBI_12_HEADS)]
)
def test_a_spec_of_a_part_makes_the_same_scheme(scheme: Alibi) -> None:
    """A spec is the scheme as plain data, as files carry it. One scheme is heads 3 to 5 and the last 2
    queries of ALIBI_12_HEADS, the other is the whole.
    """
    assert Alibi.from_spec(scheme.spec()) == scheme


def test_a_spec_of_a_whole_bias_does_not_mention_parts() -> None:
    """Parts (head_range, queries) were added later: without them, a spec is byte for byte the one that
    older versions wrote and read.
    """
    parameters = Alibi(**ALIBI_12_HEADS).spec()["parameters"]
    assert "head_range" not in parameters
    assert "queries" not in parameters


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (
            Alibi(**ALIBI_12_HEADS, head_range=(0, 3)),
            "head_range is 0:3 (the spec says 3:6)",
        ),
        (Alibi(3, 10), "heads is 3 (the spec says 12)"),
        (
            Alibi(**ALIBI_12_HEADS, head_range=(3, 6), form="causal"),
            "form is causal (the spec says symmetric)",
        ),
    ],
    ids=["another shard", "counted by the shard", "another form"],
)
def test_verify_names_the_parameter_that_makes_a_shard_wrong(made: Alibi, words: str) -> None:
    """The spec is heads 3 to 5 of 12. The bias was made by mistake for another shard, for a model with
    3 heads in all, or in the causal form; the diagnosis of `verify` names that parameter.
    """
    dump = {"bias": made.tables()["bias"]}
    result = pecli.verify(dump, Alibi(**ALIBI_12_HEADS, head_range=(3, 6)), atol=1e-6)

    assert not result.passed
    assert words in result.diagnosis[0]


def test_verify_names_the_heads_of_another_shard_of_a_learned_bias() -> None:
    """The table has heads 0 to 3 of T5's bias (12 heads in all), and the spec heads 4 to 7."""
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
def test_a_range_of_heads_or_queries_that_does_not_fit_the_bias_is_refused(
    make: Any, words: str
) -> None:
    """ALIBI_12_HEADS and T5_10_POSITIONS have 12 heads and 10 queries; slopes alone have no queries,
    and an index has no heads.
    """
    with pytest.raises(ParameterError, match=words):
        make()


def test_a_number_is_refused_as_a_range_of_heads() -> None:
    """An int is of the wrong kind, which is a TypeError as well; a text of a wrong form is not."""
    with pytest.raises(KindError, match="it must be A:B"):
        Alibi(**ALIBI_12_HEADS, head_range=3)
