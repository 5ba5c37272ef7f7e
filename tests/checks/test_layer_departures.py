"""Dumps of two runs of a model: the first layer that departs is named, and what its rotation does
differently.

A run has queries of layers 0 and 1 before and after the rotation (random numbers, rotated by this
package with base 500000 from position 0 on); in B some of them are changed. Expected sentences are
written by hand.
"""

import numpy as np
import pytest

import pecli
from tests.checks.queries import BEFORE, rotated_queries
from tests.checks.waves import Array

DUMP_OF_TWO_LAYERS = {
    "layers.0.q.before": BEFORE,
    "layers.0.q.after": rotated_queries(),
    "layers.1.q.before": BEFORE,
    "layers.1.q.after": rotated_queries(),
}
QUERIES_AND_KEYS = {
    **DUMP_OF_TWO_LAYERS,
    **{name.replace(".q.", ".k."): array for name, array in DUMP_OF_TWO_LAYERS.items()},
}
"""The same with keys that equal the queries."""
ANGLES = np.outer(np.arange(12), 500000.0 ** (-np.arange(8) / 8))
"""Position times frequency, for 12 positions and 8 pairs."""
LAYER_1_DEPARTS = "layer 1 is the first that departs, by layers.1.q.after; layers.1.q.before agrees"


def diagnosis_of_changes(changes: dict[str, Array], *, reasons: bool = True) -> tuple[str, ...]:
    """Return the diagnosis of a run of two layers, some tensors of which are changed."""
    return pecli.diff(
        DUMP_OF_TWO_LAYERS, {**DUMP_OF_TWO_LAYERS, **changes}, atol=1e-6, reasons=reasons
    ).diagnosis


def queries_rotated_by(cos: Array, sin: Array) -> Array:
    """Return BEFORE, each pair of channels (i, i + 8) rotated as Hugging Face's `rotate_half` does."""
    first = BEFORE[..., :8]
    second = BEFORE[..., 8:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


@pytest.mark.parametrize("wrong", ["cos", "sin"])
def test_the_rotation_of_the_first_layer_that_departs_is_explained_as_tables(wrong: str) -> None:
    """In layer 1 of B, queries were rotated with cosines, or sines, of the other sign. `diff` derives
    both tables from the queries before and after the rotation, and names the one that is wrong.
    """
    tables = {"cos": np.cos(ANGLES), "sin": np.sin(ANGLES)}
    right = queries_rotated_by(**tables)
    negated = queries_rotated_by(**{**tables, wrong: -tables[wrong]})

    np.testing.assert_allclose(right, rotated_queries(), atol=1e-12)
    assert diagnosis_of_changes({"layers.1.q.after": negated}) == (
        "layer 1 is the first that departs, by layers.1.q.after; layers.1.q.before agrees",
        f"the rotation of layers.1.q.after, as tables: {wrong}: in B, the sign is flipped; exact",
    )


def test_rotated_queries_of_the_other_sign_are_explained_as_tables_of_the_other_sign() -> None:
    """−(x · cos − y · sin) is a rotation by −cos and −sin. The reason names both tables."""
    assert diagnosis_of_changes({"layers.1.q.after": -rotated_queries()}) == (
        LAYER_1_DEPARTS,
        "the rotation of layers.1.q.after, as tables: cos, sin: in B, the sign is flipped; exact",
    )


def test_cosines_and_sines_that_differ_in_other_ways_have_a_statement_each() -> None:
    """In layer 1 of B, queries were rotated with 2 · cos and −sin. A factor, which may also be a
    parameter of the scheme, comes last.
    """
    changed = queries_rotated_by(2 * np.cos(ANGLES), -np.sin(ANGLES))

    assert diagnosis_of_changes({"layers.1.q.after": changed}) == (
        LAYER_1_DEPARTS,
        "the rotation of layers.1.q.after, as tables: "
        "sin: in B, the sign is flipped; exact; cos: in B, values are scaled by 2; exact",
    )


def test_queries_and_keys_that_share_only_one_wrong_table_have_a_sentence_each() -> None:
    """In layer 1 of B, queries were rotated with −cos and −sin, and keys with −cos and sin."""
    changes = {
        "layers.1.q.after": -rotated_queries(),
        "layers.1.k.after": queries_rotated_by(-np.cos(ANGLES), np.sin(ANGLES)),
    }
    b = {**QUERIES_AND_KEYS, **changes}
    _, of_queries, of_keys = pecli.diff(QUERIES_AND_KEYS, b, atol=1e-6).diagnosis

    assert of_queries == (
        "the rotation of layers.1.q.after, as tables: cos, sin: in B, the sign is flipped; exact"
    )
    assert of_keys == (
        "the rotation of layers.1.k.after, as tables: cos: in B, the sign is flipped; exact"
    )


def test_the_first_of_two_layers_that_depart_is_named() -> None:
    """In B, layer 0 is rotated from position 4 on and layer 1 from position 3 on; layer 0 comes
    first.
    """
    changes = {
        "layers.1.q.after": rotated_queries(offset=3),
        "layers.0.q.after": rotated_queries(offset=4),
    }
    first = "layer 0 is the first that departs, by layers.0.q.after; layers.0.q.before agrees"

    assert diagnosis_of_changes(changes)[0] == first


def test_the_first_position_of_a_layer_that_rotates_from_position_3_on_is_named() -> None:
    """In B, the queries of layer 1 are rotated from position 3 on. `diff` derives the tables from
    the queries before and after the rotation, and names their first position.
    """
    explained = diagnosis_of_changes({"layers.1.q.after": rotated_queries(offset=3)})[1]
    tables = "the rotation of layers.1.q.after, as tables"

    assert explained.startswith(f"{tables}: cos, sin: in B, positions start at 3 (in A 0);")


@pytest.mark.parametrize("order", ["qk", "kq"])
@pytest.mark.sample(1)
def test_queries_and_keys_are_explained_in_the_order_of_the_file(order: str) -> None:
    """In layer 1 of B, queries are rotated from position 3 on and keys from 4 on. The file lists
    queries before keys, or keys before queries, and so does the diagnosis.
    """
    starts = {"q": 3, "k": 4}
    a = {}
    b = {}
    for part in order:
        for name, array in DUMP_OF_TWO_LAYERS.items():
            a[name.replace(".q.", f".{part}.")] = array
            b[name.replace(".q.", f".{part}.")] = array
        b[f"layers.1.{part}.after"] = rotated_queries(offset=starts[part])
    _, *explained = pecli.diff(a, b, atol=1e-6).diagnosis

    assert [sentence.partition(";")[0] for sentence in explained] == [
        f"the rotation of layers.1.{part}.after, as tables: "
        f"cos, sin: in B, positions start at {starts[part]} (in A 0)"
        for part in order
    ]


def test_without_reasons_only_the_first_layer_that_departs_is_named() -> None:
    """In B, the queries of layer 1 are rotated from position 3 on. With reasons=False, the
    diagnosis says only that layer 1 is the first to depart.
    """
    changes = {"layers.1.q.after": rotated_queries(offset=3)}
    assert diagnosis_of_changes(changes, reasons=False) == (
        "layer 1 is the first that departs, by layers.1.q.after; layers.1.q.before agrees",
    )


def test_a_layer_that_departs_before_the_rotation_is_explained_there() -> None:
    """In B, layer 1 has twice the queries of A before the rotation already; the diagnosis explains
    these, and not those after it, which follow.
    """
    changes = {"layers.1.q.after": 2 * BEFORE, "layers.1.q.before": 2 * BEFORE}
    assert diagnosis_of_changes(changes) == (
        "layer 1 is the first that departs, by layers.1.q.before, layers.1.q.after",
        "layers.1.q.before: in B, values are scaled by 2; exact",
    )


def test_a_run_of_one_layer_has_no_first_layer_that_departs() -> None:
    """Only layer 1 was dumped, and in B it is rotated from position 3 on. Of earlier layers nothing
    is known, so that nothing is said about the first that departs, nor about its rotation. If layer
    0 was dumped and agrees, layer 1 is the first.
    """
    a = {"layers.1.q.before": BEFORE, "layers.1.q.after": rotated_queries()}
    b = {"layers.1.q.before": BEFORE, "layers.1.q.after": rotated_queries(offset=3)}
    of_one_layer = pecli.diff(a, b, atol=1e-6)
    of_two_layers = pecli.diff({**DUMP_OF_TWO_LAYERS, **a}, {**DUMP_OF_TWO_LAYERS, **b}, atol=1e-6)

    assert not of_one_layer.passed
    assert of_one_layer.diagnosis == ()
    assert of_two_layers.diagnosis[0] == LAYER_1_DEPARTS


@pytest.mark.parametrize(
    "rotated",
    [BEFORE[:2], BEFORE * np.nan, BEFORE * np.inf, rotated_queries(layout="interleaved")],
    ids=["fewer heads", "not numbers", "infinities", "a rotation of neighbours"],
)
def test_values_that_are_no_rotation_of_halves_are_not_explained_as_tables(rotated: Array) -> None:
    """No cosines and sines can be derived from queries that are not those before, rotated in halves.
    Then «the rotation of layers.1.q.after, as tables: …», as for a flipped sign, is not said.
    """
    explained = "the rotation of layers.1.q.after, as tables"
    flipped = diagnosis_of_changes({"layers.1.q.after": -rotated_queries()})
    diagnosis = diagnosis_of_changes({"layers.1.q.after": rotated})

    assert any(explained in sentence for sentence in flipped)
    assert "layers.1.q.after" in diagnosis[0]
    assert not any("as tables" in sentence for sentence in diagnosis)


@pytest.mark.parametrize(
    "before",
    [BEFORE[..., :3], BEFORE[0, 0], BEFORE + 0j],
    ids=["an odd number of channels", "a vector", "complex numbers"],
)
def test_queries_without_pairs_of_channels_are_not_explained_as_tables(before: Array) -> None:
    """Vectors, 3 channels and complex numbers have no pairs of channels that could be rotated. In B,
    1 is added to those of layer 1 after the rotation. Only the layer is named; the second sentence
    that pairs get, «the rotation of layers.1.q.after, as tables: …», is missing.
    """
    a = dict.fromkeys(DUMP_OF_TWO_LAYERS, before)
    b = {**a, "layers.1.q.after": before + 1}

    assert pecli.diff(a, b, atol=1e-6).diagnosis == (LAYER_1_DEPARTS,)


def test_rows_that_only_one_run_has_are_not_explained_as_tables() -> None:
    """A has no positions, B has twelve in layer 1 after the rotation: the sentence that names the
    layer is the last one, and no sentence about tables follows.
    """
    a = dict.fromkeys(DUMP_OF_TWO_LAYERS, BEFORE[..., :0, :])
    b = {**a, "layers.1.q.after": BEFORE}

    assert pecli.diff(a, b).diagnosis[-1] == LAYER_1_DEPARTS


@pytest.mark.parametrize("side", ["before", "after"])
def test_no_layer_departs_without_queries_on_both_sides_of_the_rotation(side: str) -> None:
    """Both dumps have only queries before the rotation, or only those after it. In B, those of
    layer 1 differ, which is reported as for any tensors: no layer is called the first that departs.
    """
    a = {name: array for name, array in DUMP_OF_TWO_LAYERS.items() if name.endswith(side)}
    b = {**a, f"layers.1.q.{side}": rotated_queries(offset=3)}
    diagnosis = pecli.diff(a, b, atol=1e-6).diagnosis

    assert not any("departs" in sentence for sentence in diagnosis)
