"""Which tensors of a file are tables of the model, of which layers they are, and what is reported
of wrong ones.

COS and SIN are NumPy's for 12 positions, 16 channels and base 500000, the config of CONFIG;
TWO_LAYER_KINDS is a Gemma 3 with base 100 in sliding and 500000 in full attention. Expected
sentences are written by hand.
"""

from typing import Any

import numpy as np
import pytest

import pecli
from tests.checks.queries import BEFORE, TWO_LAYER_KINDS
from tests.checks.rope_dumps import ATOL, CONFIG, COS, INV_FREQ, ROPE, SIN, cosines_and_sines
from tests.checks.waves import Array

SLIDING_ATTENTION = "sliding_attention"
FULL_ATTENTION = "full_attention"
LLAMA = {"model_type": "llama", "hidden_size": 32, "num_attention_heads": 2}


@pytest.mark.parametrize("name", ["vision.cos", "pos_embed"])
def test_tables_of_other_parts_are_listed_as_unchecked(name: str) -> None:
    """Beside right cosines, the dump has a table of a vision tower, or a learned one, neither of
    which the Llama of CONFIG has.
    """
    dump = {"cos": COS, name: np.ones((3, 5), "f4")}
    assert pecli.verify(dump, CONFIG, atol=1e-6).unchecked == (name,)


def test_tensors_beside_the_tables_do_not_fail() -> None:
    """«junk» holds three ones; it is listed as unchecked."""
    dump = {"cos": COS, "sin": SIN, "rotary_emb.junk": np.ones(3, "f4")}
    result = pecli.verify(dump, CONFIG, atol=1e-6)

    assert result.unchecked == ("rotary_emb.junk",)
    assert result.passed


def test_a_file_without_tables_is_refused() -> None:
    """The error says what else the file could be compared as, and how to dump tables or queries."""
    dump = {"a": np.ones((3, 5), "f4"), "b": np.ones(7, "f4")}
    with pytest.raises(pecli.PecliError) as caught:
        pecli.verify(dump, CONFIG)
    assert str(caught.value) == (
        "arrays: has no positional tables of rope (2 tensors: a, b); modern checkpoints compute "
        "them: use a dump, or name a tensor, FILE:NAME; queries or keys after the rotation go with "
        "--before FILE; to dump them: numpy.savez('dump.npz', q_before=…, q_after=…), see samples/dump"
    )


def test_a_file_with_tables_of_no_layer_type_is_refused() -> None:
    """Gemma 3 has two layer types; the file is tried with each, and has tables of neither."""
    with pytest.raises(pecli.PecliError, match=r"has no positional tables of rope \(2 tensors"):
        pecli.verify({"a": np.ones((3, 5), "f4"), "b": np.ones(7, "f4")}, "gemma-3-1b")


def test_a_grid_for_a_model_without_one_needs_a_style() -> None:
    """A Llama has no rule for channels on a grid."""
    with pytest.raises(pecli.ParameterError, match="the grid 4x4 needs a style"):
        pecli.verify({"cos": COS}, CONFIG, grid=(4, 4))


def test_a_table_without_a_name_is_found_by_its_values() -> None:
    """The tensors are called «a» and «b», which says nothing: a holds the model's cosines, b ones."""
    dump = {"a": COS, "b": np.ones((3, 5), "f4")}
    readings = pecli.verify(dump, CONFIG, atol=1e-6).readings

    assert readings == {"a": "cos, one column per frequency"}


def test_a_table_is_held_against_the_layers_that_it_fits_best() -> None:
    """Sliding layers have base 100, full ones the 500000 of this table."""
    readings = pecli.verify(cosines_and_sines(np.copy), TWO_LAYER_KINDS, atol=1e-6).readings
    fit = "full_attention layers, which it fits best, one column per frequency"

    assert readings["cos"] == fit


def test_a_table_of_other_layers_is_named() -> None:
    """The tensors for full and for sliding attention both hold the table of the former."""
    dump = {"full_attention_cos": COS, "sliding_attention_cos": COS}
    diagnosis = pecli.verify(dump, TWO_LAYER_KINDS, atol=1e-6).diagnosis

    assert diagnosis == ("sliding_attention_cos: right for full_attention layers",)


def test_tables_of_layers_that_are_not_asked_for_are_not_checked() -> None:
    """With layer_type, only tables of full attention are compared."""
    dump = {"full_attention_cos": COS, "sliding_attention_cos": COS}
    result = pecli.verify(dump, TWO_LAYER_KINDS, layer_type=FULL_ATTENTION, atol=1e-6)

    assert result.unchecked == ("sliding_attention_cos",)


@pytest.mark.parametrize(("dtype", "passed"), [("f2", False), ("f4", True), ("f8", True)])
def test_frequencies_in_half_precision_fail_within_any_tolerance(dtype: str, passed: bool) -> None:
    """A tolerance is for tables; frequencies that are off by a thousandth are wrong at large
    positions, whatever tables of few rows show.
    """
    dump = {"inv_freq": INV_FREQ.astype(dtype)}
    assert pecli.verify(dump, CONFIG, atol=1, reasons=False).passed == passed


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("model.layers.5.cos", FULL_ATTENTION),
        ("blk.4.cos", SLIDING_ATTENTION),
        ("cos_local", SLIDING_ATTENTION),
        ("vision.layers.5.cos", None),
    ],
)
def test_the_name_of_a_tensor_says_which_kind_of_layer_it_is_of(
    name: str, kind: str | None
) -> None:
    """Gemma 3: layer 5 has full attention, layer 4 slides; «local» is a name of sliding layers, and
    a vision tower has neither.
    """
    assert pecli.load_model("gemma-3-4b").layer_named(name) == kind


def test_numbers_of_layers_can_be_left_out() -> None:
    """Layer 5 of Gemma 3 has full attention, which its number says, if numbers count."""
    model = pecli.load_model("gemma-3-4b")
    assert model.layer_named("layers.5.cos", by_number=False) is None


@pytest.mark.parametrize(
    ("changes", "layers"),
    [
        ({}, [SLIDING_ATTENTION, FULL_ATTENTION]),
        ({"layer_types": None}, [SLIDING_ATTENTION] * 5 + [FULL_ATTENTION]),
        ({"layer_types": [], "sliding_window_pattern": 2}, [SLIDING_ATTENTION, FULL_ATTENTION] * 3),
        (
            {"layer_types": [], "sliding_window_pattern": "LLG"},
            [SLIDING_ATTENTION] * 5 + [FULL_ATTENTION],
        ),
        (
            {"layer_types": [], "sliding_window_pattern": -1},
            [SLIDING_ATTENTION] * 5 + [FULL_ATTENTION],
        ),
    ],
    ids=["a list", "no key", "every second", "a pattern of letters", "a pattern below zero"],
)
def test_layers_are_those_of_a_key_or_else_of_the_family(
    changes: dict[str, Any], layers: list[str]
) -> None:
    """The key layer_types lists the types; Gemma 3's default is full attention in every sixth
    layer, and keys that make no sense count as missing.
    """
    assert [*pecli.load_config({**TWO_LAYER_KINDS, **changes}).layers[:6]] == layers


def test_every_sixth_layer_of_gemma_3_has_full_attention() -> None:
    """The published config has the pattern of five sliding layers and a full one: layers 5, 11, …
    are full.
    """
    layers = pecli.load_model("gemma-3-4b").layers
    assert layers[:7] == (
        SLIDING_ATTENTION,
        SLIDING_ATTENTION,
        SLIDING_ATTENTION,
        SLIDING_ATTENTION,
        SLIDING_ATTENTION,
        FULL_ATTENTION,
        SLIDING_ATTENTION,
    )


@pytest.mark.parametrize(
    ("kinds", "diagnosis"),
    [
        ((SLIDING_ATTENTION, FULL_ATTENTION), ()),
        (
            (SLIDING_ATTENTION, SLIDING_ATTENTION),
            ("layers.1.cos, layers.1.sin: right for sliding_attention layers",),
        ),
        (
            (FULL_ATTENTION, SLIDING_ATTENTION),
            (
                "layers.0.cos, layers.0.sin: right for full_attention layers",
                "layers.1.cos, layers.1.sin: right for sliding_attention layers",
            ),
        ),
    ],
    ids=["right", "sliding everywhere", "exchanged"],
)
def test_tables_are_held_against_the_kind_of_their_layer(
    kinds: tuple[str, ...], diagnosis: tuple[str, ...]
) -> None:
    """Layer 0 slides with base 100, layer 1 has full attention with base 500000."""
    model = pecli.load_config(TWO_LAYER_KINDS)
    dump = {}
    for layer, kind in enumerate(kinds):
        tables = model.one(kind).rope(12).tables()
        dump[f"layers.{layer}.cos"] = tables["cos"]
        dump[f"layers.{layer}.sin"] = tables["sin"]

    assert pecli.verify(dump, TWO_LAYER_KINDS, atol=1e-6).diagnosis == diagnosis


@pytest.mark.parametrize(
    ("kinds", "verdicts"),
    [
        ((SLIDING_ATTENTION, FULL_ATTENTION), [True, True]),
        ((FULL_ATTENTION, FULL_ATTENTION), [False, True]),
    ],
    ids=["right", "full attention everywhere"],
)
def test_queries_are_held_against_the_kind_of_their_layer(
    kinds: tuple[str, ...], verdicts: list[bool]
) -> None:
    """Layer 0 slides with base 100, layer 1 has full attention with base 500000."""
    dump = {}
    for layer, kind in enumerate(kinds):
        dump[f"layers.{layer}.q"] = pecli.apply(BEFORE, TWO_LAYER_KINDS, layer_type=kind)
    before = dict.fromkeys(dump, BEFORE)
    result = pecli.verify(dump, TWO_LAYER_KINDS, before=before, atol=1e-6, reasons=False)

    assert [tensor.passed for tensor in result.tensors] == verdicts


def tables_from(offsets: tuple[int, ...]) -> dict[str, Array]:
    """Return the tables of some layers, each of which begins at a position of its own."""
    dump = {}
    for layer, offset in enumerate(offsets):
        tables = pecli.Rope(64, 16, 10000.0, offset=offset).tables()
        dump[f"layers.{layer}.cos"] = tables["cos"]
        dump[f"layers.{layer}.sin"] = tables["sin"]
    return dump


def test_layers_with_the_same_mistake_share_a_sentence() -> None:
    """Of four layers, 1 and 2 begin at position 2, and layer 3 at position 5: two sentences."""
    diagnosis = pecli.verify(tables_from((0, 2, 2, 5)), LLAMA, atol=1e-6).diagnosis
    reasons = [sentence.partition(";")[0] for sentence in diagnosis if "reproduce" not in sentence]

    assert reasons == [
        "layers 1, 2 cos, sin: positions start at 2 (the spec says 0)",
        "layer 3 cos, sin: positions start at 5 (the spec says 0)",
    ]


def test_the_only_layer_that_is_wrong_is_named() -> None:
    """A dump has tables of two layers; those of layer 1 begin at position 2 instead of 0."""
    diagnosis = pecli.verify(tables_from((0, 2)), LLAMA, atol=1e-6).diagnosis
    reason = "layer 1 cos, sin: positions start at 2 (the spec says 0);"

    assert diagnosis[0].startswith(reason)


@pytest.mark.parametrize(("row", "passed"), [(0, True), (1, False)])
def test_a_table_of_one_row_is_taken_for_position_0(row: int, passed: bool) -> None:
    """A dump of one row without positions passes if it is row 0 of the model's tables, and fails if
    it is row 1.
    """
    dump = cosines_and_sines(lambda table: table[row : row + 1])
    assert pecli.verify(dump, CONFIG, atol=1e-6, reasons=False).passed == passed


def test_the_place_of_a_wrong_element_is_in_the_json_without_a_search_for_reasons() -> None:
    """2 sequences, 4 heads, 12 positions, 16 columns; element [1, 2, 5, 3] of the cosines is 2."""
    cos = np.tile(COS, (2, 4, 1, 2))
    cos[1, 2, 5, 3] = 2
    dump = {"cos": cos, "sin": SIN}
    result = pecli.verify(dump, ROPE, atol=ATOL, reasons=False).as_json()

    assert result["where"] == {
        "rows": [[5, 5]],
        "columns": [[3, 3]],
        "heads": [[2, 2]],
        "batch": [[1, 1]],
    }
    assert result["tensors"][0]["worst_index"] == [1, 2, 5, 3]
    assert result["tensors"][1]["worst_index"] is None
    assert result["explanations"] == []


def test_the_place_of_wrong_elements_is_printed_without_a_reason() -> None:
    """Columns 3 and 7 of row 5 hold 0.1, among 64 × 8 elements."""
    cos = pecli.Rope(64, 16).tables()["cos"].copy()
    cos[5, [3, 7]] = 0.1
    result = pecli.verify({"cos": cos}, pecli.Rope(64, 16), atol=1e-6, reasons=False)
    place = "2 of 512 out of tolerance, all in row 5, columns 3, 7, the first at [5, 3]"

    assert f"      {place}" in str(result).splitlines()
