"""Wrong shapes are reported with those that are expected; learned tables fail if their values
cannot be right.

CONFIG is a Llama with heads of 16 channels, so that it has 8 frequencies, in one column or two
columns each; GPT2 has 8 rows of 8 channels, and SMALL_GPT2 3 rows of 2. Expected sentences are
written by hand.
"""

from typing import Any

import numpy as np
import pytest

import pecli
from tests.checks.rope_dumps import CONFIG, ROPE, SIN
from tests.checks.waves import Array

BLOOM = {"model_type": "bloom", "n_head": 8}
MARIAN = {"model_type": "marian", "d_model": 8, "max_position_embeddings": 16}
M2M100 = {"model_type": "m2m_100", "d_model": 8, "max_position_embeddings": 16}
GPT2 = {"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_positions": 8}
SMALL_GPT2 = {"model_type": "gpt2", "n_embd": 2, "n_positions": 3, "n_head": 1}
LEARNED_TABLE = np.random.default_rng(0).normal(size=(8, 8))


@pytest.mark.parametrize(
    ("dump", "spec", "problem"),
    [
        (
            np.ones((3, 3)),
            BLOOM,
            "array: its shape is (3, 3) where (8) or (8, …, positions) is expected",
        ),
        (
            {"inv_freq": np.ones(3)},
            CONFIG,
            "inv_freq: its shape is (3) where (8), (positions, 8) or (positions, 16) is expected",
        ),
        (
            np.ones((3, 0)),
            CONFIG,
            "array: its shape is (3, 0) where (8), (positions, 8) or (positions, 16) is expected",
        ),
        ({"wpe": np.ones(3)}, "gpt2", "wpe: its shape is (3) where (1024, 768) is expected"),
        (
            {"pe": np.ones((64, 1152))},
            "pixart-xl-2-1024",
            "pe: its shape is (64, 1152) where (4096, 1152) of the grid 64x64 (or give --grid) "
            "is expected",
        ),
        ({"pe": np.ones(3)}, MARIAN, "pe: its shape is (3) where (positions, 8) is expected"),
        (np.ones(5), pecli.Rope(6, 8), "cos: its shape is (5) where (6, 4) is expected"),
        (np.ones(5), pecli.Alibi(6, 8), "bias: its shape is (5) where (6, 8, 8) is expected"),
    ],
    ids=[
        "slopes of a model", "frequencies", "an empty table", "a learned table", "a grid",
        "sinusoidal", "a rotary scheme", "a bias",
    ],
)  # fmt: skip
def test_the_expected_shape_is_in_the_problem(dump: Any, spec: Any, problem: str) -> None:
    """The dump has a shape that no table of the model or scheme has.

    BLOOM has 8 heads, and so 8 slopes. CONFIG is a Llama with heads of 16 channels, which have 8
    frequencies, in one column or two columns each. GPT-2 has 1024 positions of 768 channels, MARIAN
    8 channels, and PixArt-XL 1024 a table of 64 × 64 = 4096 patches.
    """
    assert pecli.verify(dump, spec, reasons=False).problems == (problem,)


def test_an_array_wider_than_any_table_has_the_wrong_shape() -> None:
    """The array is as wide as logits of a vocabulary of 70,000; a table has at most 65,536 columns.
    CONFIG is a Llama with 8 frequencies, in one column or two columns each.
    """
    logits = np.random.default_rng(0).normal(size=(2, 70_000)).astype(np.float32)
    result = pecli.verify(logits, CONFIG, reasons=False)

    assert result.problems == (
        "array: its shape is (2, 70000) where (8), (positions, 8) or (positions, 16) is expected",
    )


def test_every_wrong_shape_is_a_problem() -> None:
    """The scheme has tables of 6 positions and 8 / 2 = 4 pairs. Neither a vector of 5 nor SIN, a
    table of 12 × 8, has this shape, and each is reported.
    """
    dump = {"cos": np.ones(5), "sin": SIN}
    result = pecli.verify(dump, pecli.Rope(seq_len=6, dim=8), reasons=False)
    assert result.problems == (
        "cos: its shape is (5) where (6, 4) is expected",
        "sin: its shape is (12, 8) where (6, 4) is expected",
    )


def table_of_diffusers(dim: int, patches: int, base_size: int) -> Array:
    """Return the table of patches × patches rows by diffusers' get_2d_sincos_pos_embed, in NumPy.

    Neighbouring patches are base_size / patches apart. A row has sines and cosines of the patch's
    place from left to right, then those of its place from top to bottom.
    """
    places = np.arange(patches) * base_size / patches
    angles = np.outer(places, 10000.0 ** (-np.arange(dim // 4) / (dim // 4)))
    one_axis = np.hstack([np.sin(angles), np.cos(angles)])
    return np.hstack([np.tile(one_axis, (patches, 1)), np.repeat(one_axis, patches, axis=0)])


@pytest.mark.parametrize(
    ("dim", "passed"), [(1536, True), (1152, False)], ids=["SD3 medium", "narrower"]
)
def test_a_grid_that_is_given_is_expected_in_place_of_the_models(dim: int, passed: bool) -> None:
    """The table of SD3 medium has 192 × 192 patches; grid="8x8" expects one of 8 × 8. Of the model are
    still the base size (sample_size // patch_size = 64), and the width (24 heads of 64 channels,
    1536 in all): 1152 channels fail.
    """
    table = table_of_diffusers(dim, patches=8, base_size=64)
    result = pecli.verify({"pe": table}, "sd3-medium", grid="8x8", atol=1e-6, reasons=False)

    assert result.passed == passed


def test_the_problem_of_a_transposed_table_states_that_it_fits_when_transposed() -> None:
    """SMALL_GPT2 has a learned table of 3 positions and 2 channels; the dump is 2 × 3."""
    dump = {"wpe.weight": np.arange(6.0, dtype="f4").reshape(2, 3)}
    (tensor,) = pecli.verify(dump, SMALL_GPT2, reasons=False).tensors

    assert tensor.problem.endswith("expected; transposed, it fits")


def test_the_problem_of_a_shape_that_never_fits_does_not_mention_transposing() -> None:
    """SMALL_GPT2 has a learned table of 3 positions and 2 channels. The dump is 2 × 4, and so would be
    4 × 2 if it were transposed, which is wrong as well.
    """
    dump = {"wpe.weight": np.ones((2, 4), "f4")}
    (tensor,) = pecli.verify(dump, SMALL_GPT2, reasons=False).tensors

    assert tensor.problem == "its shape is (2, 4) where (3, 2) is expected"


@pytest.mark.parametrize(
    "table",
    [LEARNED_TABLE, np.vstack([LEARNED_TABLE[:7], np.zeros((1, 8))])],
    ids=["random", "one row of zeros"],
)
def test_a_learned_table_of_varied_values_passes(table: Array) -> None:
    """GPT2 is a model with a learned table of 8 × 8. Any values could be learned, and the row of a
    padding token may be zeros.
    """
    assert pecli.verify({"wpe.weight": table}, GPT2).passed


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (np.nan, "it holds values that are infinite or not numbers"),
        (np.inf, "it holds values that are infinite or not numbers"),
        (0.0, "all its values are 0"),
        (0.25, "all its values are 0.25"),
        (1.0, "all its values are 1"),
    ],
)
def test_a_learned_table_of_one_value_fails(value: float, problem: str) -> None:
    """GPT2 is a model with a learned table of 8 × 8. No training makes all its values the same;
    such a table was never loaded. Values that are not finite are lost.
    """
    result = pecli.verify({"wpe.weight": np.full_like(LEARNED_TABLE, value)}, GPT2)
    assert not result.passed
    assert result.problems == (f"wpe.weight: {problem}",)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_learned_table_with_a_row_that_is_not_finite_fails(value: float) -> None:
    """GPT2 is a model with a learned table of 8 × 8; the last row holds NaN or infinity."""
    table = np.vstack([LEARNED_TABLE[:7], np.full((1, 8), value)])
    result = pecli.verify({"wpe.weight": table}, GPT2)
    problem = "wpe.weight: it holds values that are infinite or not numbers"

    assert not result.passed
    assert result.problems == (problem,)


def test_all_elements_are_compared_although_two_columns_of_one_frequency_differ() -> None:
    """The scheme has 8 frequencies in 16 columns: columns 3 and 11 = 8 + 3 are copies. In the dump,
    column 11 holds 0.5. This is not reported as a wrong shape, of 16 frequencies, but all elements
    are compared: the wrong base of the dump, 500000 in place of 10000, counts as well.

    Wrong elements are counted by NumPy: those with |found − cos(position · 10000^(−i/8))| > 0.1.
    """
    tables = pecli.Rope(seq_len=64, dim=16, base=5e5, layout="halves").tables()
    dump = {name: np.where(np.arange(16) == 11, 0.5, tables[name]) for name in ("cos", "sin")}
    scheme = pecli.Rope(seq_len=64, dim=16, base=1e4, layout="halves")
    cos = pecli.verify(dump, scheme, atol=0.1, reasons=False).tensors[0]
    frequencies = 10000.0 ** (-np.arange(8) / 8)
    expected = np.tile(np.cos(np.outer(np.arange(64), frequencies)), 2)
    is_wrong = np.abs(dump["cos"] - expected) > 0.1
    in_other_columns = np.delete(is_wrong, 11, axis=1)

    assert cos.problem == ""
    assert cos.mismatched == is_wrong.sum()
    assert in_other_columns.any()


def test_a_spec_may_be_given_as_a_dictionary() -> None:
    """A spec is a scheme as JSON, with the version of pecli, for example; the scheme's name and
    parameters are enough.
    """
    spec = ROPE.spec()
    shortened = {"scheme": spec["scheme"], "parameters": spec["parameters"]}

    assert pecli.verify(ROPE.tables(), shortened).passed


@pytest.mark.parametrize(
    ("scheme", "config", "reading"),
    [
        (
            pecli.Sinusoidal(6, 8, style="m2m100", offset=2),
            M2M100,
            "as in m2m100, from position 2",
        ),
        (pecli.Sinusoidal(6, 8, style="marian"), MARIAN, "as in marian"),
    ],
    ids=["m2m100", "marian"],
)
def test_the_style_of_a_sinusoidal_table_is_noted(
    scheme: Any, config: dict[str, Any], reading: str
) -> None:
    """A style is the formula of a project, which its models have. M2M-100 counts positions from 2
    on, after the rows 0 and 1, of which 1 is for padding.
    """
    assert pecli.verify(scheme.tables()["pe"], config).readings == {"pe": reading}
