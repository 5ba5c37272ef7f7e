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
from tests.checks.waves import Array, cos_and_sin_tables, inverse_frequencies

SLIDING_ATTENTION = "sliding_attention"
FULL_ATTENTION = "full_attention"
LLAMA = {"model_type": "llama", "hidden_size": 32, "num_attention_heads": 2}


@pytest.mark.parametrize("name", ["vision.cos", "pos_embed"])
def test_tables_of_parts_that_the_model_does_not_have_are_listed_as_unchecked(name: str) -> None:
    """CONFIG is a Llama, and COS its cosines. Beside them, the dump has a table of a vision tower,
    or a learned one, neither of which a Llama has.
    """
    dump = {"cos": COS, name: np.ones((3, 5), "f4")}
    assert pecli.verify(dump, CONFIG, atol=1e-6).unchecked == (name,)


def test_a_learned_table_beside_other_weights_fails_if_it_has_another_width() -> None:
    """GPT-2 adds the rows of `wpe`, here 12 positions of 6 channels, of which the file has 5. `wte` is
    the embedding of tokens, which is not checked.
    """
    gpt2 = {"model_type": "gpt2", "n_positions": 12, "n_embd": 6, "n_head": 2}
    weights = {"wpe.weight": np.ones((12, 5), "f4"), "wte.weight": np.ones((12, 6), "f4")}
    result = pecli.verify(weights, gpt2)

    assert result.problems == ("wpe.weight: its shape is (12, 5) where (12, 6) is expected",)


def test_tensors_beside_the_tables_do_not_fail() -> None:
    """COS and SIN are the tables of CONFIG. «rotary_emb.junk» holds three ones, and is listed as
    unchecked.
    """
    dump = {"cos": COS, "sin": SIN, "rotary_emb.junk": np.ones(3, "f4")}
    result = pecli.verify(dump, CONFIG, atol=1e-6)

    assert result.unchecked == ("rotary_emb.junk",)
    assert result.passed


def test_a_name_that_means_nothing_does_not_mean_the_axes_of_pairs() -> None:
    """The scheme of an image has a table `axis`, a number for each of the 16 pairs. «junk» holds five
    ones, and nothing says that they are axes: it is listed as unchecked.
    """
    image = pecli.Rope(grid=(4, 4), dim=32, style="eva")
    tables = image.tables()
    dump = {"cos": tables["cos"], "sin": tables["sin"], "junk": np.ones(5)}
    result = pecli.verify(dump, image)

    assert result.unchecked == ("junk",)
    assert result.passed


def test_a_file_without_tables_is_refused() -> None:
    """CONFIG is a Llama; the file has neither its tables nor their shapes. The error lists what the
    file has, and how tables or queries can be dumped.
    """
    dump = {"a": np.ones((3, 5), "f4"), "b": np.ones(7, "f4")}
    with pytest.raises(pecli.PecliError) as caught:
        pecli.verify(dump, CONFIG)
    assert str(caught.value) == (
        "arrays: has no positional tables of rope (2 tensors: a, b); modern checkpoints compute "
        "them: use a dump, or name a tensor, FILE:NAME; queries or keys after the rotation go with "
        "--before FILE; to dump them: numpy.savez('dump.npz', q_before=…, q_after=…), see samples/dump"
    )


def test_a_file_with_tables_of_no_layer_type_is_refused() -> None:
    """Gemma 3 has two types of layers; the file is compared with each, and has tables of
    neither.
    """
    with pytest.raises(pecli.PecliError, match=r"has no positional tables of rope \(2 tensors"):
        pecli.verify({"a": np.ones((3, 5), "f4"), "b": np.ones(7, "f4")}, "gemma-3-1b")


def test_a_grid_for_a_model_without_one_needs_a_style() -> None:
    """CONFIG is a Llama, which has no rule for channels on a grid of rows and columns; a style,
    such as that of a vision model, would be one.
    """
    with pytest.raises(pecli.ParameterError, match="the grid 4x4 needs a style"):
        pecli.verify({"cos": COS}, CONFIG, grid=(4, 4))


def test_a_table_without_a_name_is_found_by_its_values() -> None:
    """The names «a» and «b» mean nothing. a holds the cosines of CONFIG, and b ones."""
    dump = {"a": COS, "b": np.ones((3, 5), "f4")}
    readings = pecli.verify(dump, CONFIG, atol=1e-6).readings

    assert readings == {"a": "cos, one column per frequency"}


def test_a_table_whose_name_states_no_layers_is_compared_with_the_layers_that_it_fits_best() -> (
    None
):
    """TWO_LAYER_KINDS is a Gemma 3 whose sliding attention has base 100, and whose full attention
    has base 500000. COS and SIN are NumPy's of base 500000.
    """
    dump = {"cos": COS, "sin": SIN}
    readings = pecli.verify(dump, TWO_LAYER_KINDS, atol=1e-6).readings
    fit = "full_attention layers, which it fits best, one column per frequency"

    assert readings == {"cos": fit, "sin": fit}


@pytest.mark.parametrize(("kind", "base"), [(SLIDING_ATTENTION, 100.0), (FULL_ATTENTION, 500000.0)])
def test_a_wrong_table_is_compared_with_the_layers_from_which_fewest_elements_differ(
    kind: str, base: float
) -> None:
    """The name `cos` states no layers. The cosines have the base of one kind of TWO_LAYER_KINDS, and
    one wrong element: nearly all elements differ from those of the other kind.
    """
    cosines = cos_and_sin_tables(12, inverse_frequencies(base, 16))["cos"]
    cosines[3, 2] += 0.01
    result = pecli.verify({"cos": cosines}, TWO_LAYER_KINDS, atol=1e-6, reasons=False)

    assert result.readings["cos"].startswith(f"{kind} layers, which it fits best")
    assert result.tensors[0].mismatched == 1


def test_a_table_that_is_right_for_another_type_of_layer_is_named() -> None:
    """TWO_LAYER_KINDS has base 500000 in full attention, as COS, and base 100 in sliding attention.
    COS is under the names of both.
    """
    dump = {"full_attention_cos": COS, "sliding_attention_cos": COS}
    diagnosis = pecli.verify(dump, TWO_LAYER_KINDS, atol=1e-6).diagnosis

    assert diagnosis == ("sliding_attention_cos: right for full_attention layers",)


def test_with_a_layer_type_tables_of_other_layers_are_not_checked() -> None:
    """TWO_LAYER_KINDS has full attention, whose cosines COS are, and sliding attention. With
    layer_type, only tables of full attention are compared.
    """
    dump = {"full_attention_cos": COS, "sliding_attention_cos": COS}
    result = pecli.verify(dump, TWO_LAYER_KINDS, layer_type=FULL_ATTENTION, atol=1e-6)

    assert result.unchecked == ("sliding_attention_cos",)


@pytest.mark.parametrize(("dtype", "passed"), [("f2", False), ("f4", True), ("f8", True)])
def test_frequencies_in_half_precision_fail_within_any_tolerance(dtype: str, passed: bool) -> None:
    """INV_FREQ is 500000^(−i/8), as CONFIG requires. In float16 it is off by 2^−11 = 5e-4 of
    itself: at large positions the angles would be wrong by turns. The tolerance atol=1 is for
    tables, and does not apply to frequencies.
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
def test_the_name_of_a_tensor_states_the_type_of_its_layer(name: str, kind: str | None) -> None:
    """In Gemma 3, every sixth layer has full attention, the first of which is layer 5; layer 4 has
    sliding attention. «local» is a name of sliding layers, and a vision tower has neither.
    """
    assert pecli.load_model("gemma-3-4b").layer_named(name) == kind


def test_without_by_number_the_number_of_a_layer_states_no_type() -> None:
    """Layer 5 of Gemma 3 has full attention, which follows from nothing but its number."""
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
    """TWO_LAYER_KINDS is a Gemma 3 with the key layer_types: sliding, then full attention. Without
    it, sliding_window_pattern counts, and without that Gemma 3's default: full attention in every
    sixth layer. Patterns that are not a positive number count as missing.
    """
    model = pecli.load_config({**TWO_LAYER_KINDS, **changes})
    assert [*model.layers[:6]] == layers


def test_every_sixth_layer_of_gemma_3_has_full_attention() -> None:
    """By the published config, five layers of sliding attention are followed by one of full
    attention: layers 5, 11, … are full.
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
def test_tables_are_compared_with_the_type_of_their_numbered_layer(
    kinds: tuple[str, ...], diagnosis: tuple[str, ...]
) -> None:
    """In TWO_LAYER_KINDS, layer 0 has sliding attention with base 100, and layer 1 full attention
    with base 500000. `kinds` are the types whose tables are dumped under the names of layers 0 and
    1.
    """
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
def test_queries_are_compared_with_the_type_of_their_numbered_layer(
    kinds: tuple[str, ...], verdicts: list[bool]
) -> None:
    """In TWO_LAYER_KINDS, layer 0 has sliding attention with base 100, and layer 1 full attention
    with base 500000. `kinds` are the types as which the queries of layers 0 and 1 were rotated.
    """
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


def test_layers_with_the_same_mistake_share_a_sentence_and_a_command() -> None:
    """`tables_from` has the tables of four layers, each from a position on. Layer 0 begins at 0, as
    it should; layers 1 and 2 begin at position 2, and layer 3 at position 5.
    """
    diagnosis = pecli.verify(tables_from((0, 2, 2, 5)), LLAMA, atol=1e-6).diagnosis

    assert diagnosis == (
        "layers 1, 2 cos, sin: positions start at 2 (the spec says 0); exact",
        "layers 1, 2: reproduce with pecli rope --seq-len 64 --dim 16 --offset 2",
        "layer 3 cos, sin: positions start at 5 (the spec says 0); exact",
        "layer 3: reproduce with pecli rope --seq-len 64 --dim 16 --offset 5",
    )


def test_the_only_layer_that_is_wrong_is_named() -> None:
    """`tables_from` has the tables of two layers; those of layer 1 begin at position 2 instead of
    0.
    """
    diagnosis = pecli.verify(tables_from((0, 2)), LLAMA, atol=1e-6).diagnosis
    reason = "layer 1 cos, sin: positions start at 2 (the spec says 0);"

    assert diagnosis[0].startswith(reason)


@pytest.mark.parametrize(("row", "passed"), [(0, True), (1, False)])
def test_a_table_of_one_row_is_taken_for_position_0(row: int, passed: bool) -> None:
    """The dump has one row of the cosines and sines of CONFIG, and no positions are given: row 0
    passes, row 1 fails.
    """
    dump = cosines_and_sines(lambda table: table[row : row + 1])
    assert pecli.verify(dump, CONFIG, atol=1e-6, reasons=False).passed == passed


def test_the_place_of_a_wrong_element_is_in_the_json_without_a_search_for_reasons() -> None:
    """COS is repeated for 2 sequences, 4 heads, 12 positions and 16 columns, and one element is 2:
    that of sequence 1, head 2, position 5 and column 3. Places are ranges from the first to the
    last.
    """
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
    """A table of 64 positions and 8 pairs has 512 elements. Columns 3 and 7 of row 5 hold 0.1,
    which is not the cosine there.
    """
    scheme = pecli.Rope(seq_len=64, dim=16)
    cos = scheme.tables()["cos"].copy()
    cos[5, [3, 7]] = 0.1
    result = pecli.verify({"cos": cos}, scheme, atol=1e-6, reasons=False)
    place = "2 of 512 out of tolerance, all in row 5, columns 3, 7, the first at [5, 3]"

    assert f"      {place}" in str(result).splitlines()
