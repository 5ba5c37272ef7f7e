"""Failures of several layers: layers with the same mistake share a reason, which names them.

The tables of layer k are `layers.k.cos` and `layers.k.sin`, NumPy's for 12 positions and 16
channels, with another base where a mistake is planted.
"""

import numpy as np
import pytest

import pecli
from tests.checks.rope_dumps import BASE, CONFIG, LENGTH
from tests.checks.small_models import TWO_LAYER_TYPES
from tests.checks.waves import Array, cos_and_sin_tables, inverse_frequencies

FOUR_LAYERS = {
    **TWO_LAYER_TYPES,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
}
"""A Gemma 3 whose layers 0 and 2 slide, with base 100."""
SLIDING_BASE = 100.0


def tables_of(*bases: float) -> dict[str, Array]:
    """Return the tables of several layers, each with a base."""
    tables = {}
    for layer, base in enumerate(bases):
        for name, table in cos_and_sin_tables(LENGTH, inverse_frequencies(base, 16)).items():
            tables[f"layers.{layer}.{name}"] = table
    return tables


def test_the_layers_that_fail_are_named() -> None:
    """Of layers 0, 1 and 2, the last two have base 10000."""
    sentence, command = pecli.verify(tables_of(BASE, 10000.0, 10000.0), CONFIG).diagnosis

    assert sentence == "layers 1, 2 cos, sin: base is 10000 (the spec says 500000); exact"
    assert command == "layers 1, 2: reproduce with pecli rope --seq-len 12 --dim 16"


@pytest.mark.parametrize(
    ("bases", "layers"),
    [
        ((77.0, BASE, SLIDING_BASE, BASE), "sliding_attention layer 0"),
        ((77.0, BASE, 77.0, BASE), "sliding_attention"),
    ],
)
def test_layers_of_one_type_are_named_unless_all_of_that_type_fail(
    bases: tuple[float, ...], layers: str
) -> None:
    """Layer 0, or both sliding layers, have base 77."""
    sentence, _ = pecli.verify(tables_of(*bases), FOUR_LAYERS).diagnosis
    assert sentence == f"{layers} cos, sin: base is 77 (the spec says 100); exact"


def test_only_the_first_groups_of_layers_with_equal_tables_are_explained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Layers 0, 1 and 2 have the bases 50, 70 and 90 instead of 500000, and so three different
    tables. The search for a reason takes up to two seconds per table, so that only as many as
    MAX_EXPLAINED_GROUPS are explained; with a limit of 1, layers 1 and 2 fail without a line.
    """
    monkeypatch.setattr("pecli.checks.failures.MAX_EXPLAINED_GROUPS", 1)
    result = pecli.verify(tables_of(50.0, 70.0, 90.0), CONFIG)

    assert not any(tensor.passed for tensor in result.tensors)
    assert result.diagnosis == (
        "layer 0 cos, sin: base is 50 (the spec says 500000); exact",
        "layer 0: reproduce with pecli rope --seq-len 12 --dim 16 --theta 50",
    )


def test_tables_of_the_other_layer_type_need_no_search() -> None:
    """By the config, layers 0 and 2 slide and have base 100, and layers 1 and 3 have BASE. Here
    layer 0 has BASE as well. Comparing it with the tables of both types shows this, without a
    search for reasons (`reasons=False`).
    """
    result = pecli.verify(tables_of(BASE, BASE, SLIDING_BASE, BASE), FOUR_LAYERS, reasons=False)
    assert result.diagnosis == ("layers.0.cos, layers.0.sin: right for full_attention layers",)


FAR_AWAY = 70_000
"""A position at which angles of float32 are off by up to 0.004."""


def frequencies_in(dtype: type) -> Array:
    """Return 1 / base^(2i/16), computed in a dtype as transformers does it."""
    exponents = np.arange(0, 16, 2, dtype=dtype) / dtype(16)
    return dtype(1) / dtype(BASE) ** exponents


def cosines_and_sines_far_away(angle_dtype: type) -> dict[str, Array]:
    """Return tables from position FAR_AWAY on, in float32, of angles that are computed in a dtype."""
    frequencies = frequencies_in(angle_dtype)
    positions = FAR_AWAY + np.arange(LENGTH, dtype=angle_dtype)
    angles = np.outer(positions, frequencies)
    cosines = np.cos(angles.astype(float)).astype(np.float32)
    sines = np.sin(angles.astype(float)).astype(np.float32)
    return {"cos": cosines, "sin": sines}


def recipes_advised_for(tables: dict[str, Array]) -> list[str]:
    """Return the lines of advice on a recipe for tables that fail."""
    tolerance = pecli.Tolerance(atol=1e-5)
    lines = pecli.verify(tables, CONFIG, offset=FAR_AWAY, tolerance=tolerance).diagnosis
    return [line for line in lines if line.startswith("verify with --recipe")]


def test_a_recipe_of_all_tables_is_advised() -> None:
    """Cosines, sines and frequencies are all made in float32."""
    tables = cosines_and_sines_far_away(np.float32)
    tables["inv_freq"] = frequencies_in(np.float32)
    assert recipes_advised_for(tables) == ["verify with --recipe float32"]


def test_a_recipe_of_one_table_among_exact_ones_is_not_advised() -> None:
    """Only the sines have angles of float32: with `--recipe float32`, the cosines would fail."""
    tables = cosines_and_sines_far_away(np.float64)
    tables["sin"] = cosines_and_sines_far_away(np.float32)["sin"]
    assert recipes_advised_for(tables) == []


def test_a_recipe_of_one_table_is_not_advised_beside_a_table_with_a_mistake() -> None:
    """The sines have angles of float32, and the cosines are negated."""
    tables = cosines_and_sines_far_away(np.float32)
    tables["cos"] = -cosines_and_sines_far_away(np.float64)["cos"]
    assert recipes_advised_for(tables) == []


def test_a_bias_of_zeros_needs_no_search() -> None:
    """A file of zeros (here without the slopes, which ALiBi also has) has no bias, which is said at
    once. A single element of 1 makes it a wrong bias, for which nothing is said without a search.
    """
    scheme = pecli.Alibi(4, 8)
    tables = scheme.tables()
    zeros = {name: 0 * table for name, table in tables.items() if name != "slopes"}
    almost = {name: table.copy() for name, table in zeros.items()}
    next(iter(almost.values())).flat[-1] = 1

    diagnosis = pecli.verify(zeros, scheme, reasons=False).diagnosis
    assert diagnosis == ("bias: all values are 0: there is no bias",)
    assert pecli.verify(almost, scheme, reasons=False).diagnosis == ()
