"""Known mistakes: schemes that are easily taken for another one, named by the edits between them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.explain.known_mistakes import neighbours

YARN = Rope(64, 32, 500000.0, scaling="yarn", factor=8.0, original_max_position_embeddings=16)
LONG = Rope(
    8,
    4,
    500000.0,
    scaling="longrope",
    factor=4.0,
    original_max_position_embeddings=16,
    short_factor=(1.0, 1.5),
    long_factor=(2.0, 8.0),
)
GRID = Rope(grid=(2, 2), dim=16, style="eva")
EVERY = [
    Sinusoidal(16, 8, style="whisper"),
    Rope(16, 8, layout="halves", mrope_section=(1, 2, 1)),
    YARN,
    LONG,
    Alibi(6, 12),
    Alibi(6, 12, form="key"),
    Alibi(6),
    LearnedInit(16, 8),
]


def subjects(scheme: Scheme) -> list[str]:
    """Return the name of the parameter that each known mistake has wrong."""
    return [mistake.edits[0].subject for mistake in neighbours(scheme)]


def mistaken(scheme: Scheme, subject: str) -> list[Any]:
    """Return the schemes that have one parameter wrong."""
    return [each.scheme for each in neighbours(scheme) if each.edits[0].subject == subject]


def wrong_values(scheme: Scheme, subject: str) -> list[Any]:
    """Return the wrong values of one parameter."""
    edits = [mistake.edits[0] for mistake in neighbours(scheme)]
    return [edit.found for edit in edits if edit.subject == subject]


@pytest.mark.parametrize("scheme", EVERY, ids=str)
def test_a_known_mistake_has_edits_and_makes_another_table(scheme: Scheme) -> None:
    tables = {name: table.tobytes() for name, table in scheme.tables().items()}
    mistakes = neighbours(scheme)
    assert mistakes
    for edits, wrong in mistakes:
        assert edits
        assert all(edit.expected != edit.found for edit in edits)
        assert {name: table.tobytes() for name, table in wrong.tables().items()} != tables


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        (Alibi(8, 4), ["form"] * 3),  # Both rules agree if heads are a power of two.
        (Alibi(7, 4), ["rule"] + ["form"] * 3),
        (Alibi(8, 4, max_bias=4.0, slopes=True), ["max_bias"]),
        (
            Sinusoidal(4, 8, base=500.0),
            ["layout", "cos_first", "freq_shift", "base", "offset"],
        ),
        (
            Sinusoidal(4, 8, offset=3, scale=2.0, amplitude=3.0, padding_idx=2),
            ["layout", "cos_first", "freq_shift", "scale", "amplitude", "offset", "offset"],
        ),
        (
            Rope(4, 8, scaling="proportional", partial_rotary_factor=0.5),
            ["offset", "scaling"],
        ),
        (
            Rope(4, 8, scaling="proportional", partial_rotary_factor=0.5, factor=2.0),
            ["offset", "scaling", "factor"],
        ),
        (
            Rope(
                4,
                8,
                scaling="yarn",
                original_max_position_embeddings=64,
                max_position_embeddings=128,
            ),
            ["offset", "scaling", "attention_factor", "attention_factor", "truncate"],
        ),
        (Rope(4, 8, mrope_section=(1, 2, 1)), ["offset"]),
    ],
    ids=str,
)
def test_the_parameters_that_are_mistaken(scheme: Scheme, expected: list[str]) -> None:
    assert subjects(scheme) == expected


def test_sections_are_mistaken_if_axes_have_their_own_positions() -> None:
    rope = Rope(positions=((0, 1), (0, 2), (0, 3)), dim=8, mrope_section=(1, 2, 1))
    assert {*subjects(rope)} == {"mrope_interleaved", "mrope_section", "axes of positions"}


def test_yarn_is_mistaken_for_these_neighbours() -> None:
    assert wrong_values(YARN, "base") == [10000.0]
    assert wrong_values(YARN, "offset") == [1]
    assert wrong_values(YARN, "scaling") == ["none"]
    assert wrong_values(YARN, "truncate") == [False]
    assert wrong_values(YARN, "factor") == [4, 16]
    attention = 0.1 * np.log(8) + 1
    expected = pytest.approx([1.0, attention**2], rel=1e-12)
    assert wrong_values(YARN, "attention_factor") == expected
    assert all(len(edits) == 1 for edits, _ in neighbours(YARN))


def test_a_linear_factor_is_squared_and_an_offset_is_off_by_one() -> None:
    rope = Rope(4, 8, offset=3, scaling="linear", factor=4.0)
    assert 16.0 in wrong_values(rope, "factor")
    assert wrong_values(rope, "offset") == [2, 4]


def test_longrope_with_the_other_list() -> None:
    (wrong,) = mistaken(LONG, "length")
    assert wrong.inverse_frequencies() == pytest.approx([0.5, 500000.0**-0.5 / 8], rel=1e-15)


@pytest.mark.parametrize(("length", "wrong"), [(15, 17), (16, 17), (17, 16)])
def test_longrope_takes_the_long_list_beyond_the_original_length(length: int, wrong: int) -> None:
    assert wrong_values(replace(LONG, length=length), "length") == [wrong]


def test_the_exponent_over_the_whole_head() -> None:
    (wrong,) = mistaken(Rope(4, 16, 500000.0, partial_rotary_factor=0.5), "exponent_dim")
    expected = [500000.0 ** (-2 * i / 16) for i in range(4)]
    assert wrong.inverse_frequencies() == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("style", "grid", "channels", "pairs"),
    [("eva", (2, 2), 16, (8, 8)), ("flux", (1, 2, 2), "4,14,14", (2, 7, 7))],
)
def test_the_exponent_of_every_axis_over_the_whole_dim(
    style: str, grid: tuple[int, ...], channels: object, pairs: tuple[int, ...]
) -> None:
    rope = Rope(grid=grid, dim=32, style=style)
    (edit,) = [
        each.edits[0] for each in neighbours(rope) if each.edits[0].subject == "exponent_dim"
    ]
    assert edit.expected == channels
    assert edit.found == 32
    (wrong,) = mistaken(rope, "exponent_dim")
    expected = [10000 ** (-i / 16) for count in pairs for i in range(count)]
    assert wrong.inverse_frequencies() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "rope",
    [
        Rope(4, 8),
        Rope(grid=(2, 2), dim=32, style="pixtral"),  # Its axes share the frequencies of the dim.
        Rope(4, 16, partial_rotary_factor=0.5, scaling="ntk", factor=2.0),
        Rope(4, 16, 1.0, partial_rotary_factor=0.5),
    ],
    ids=str,
)
def test_exponents_that_cannot_be_over_another_dim(rope: Rope) -> None:
    assert mistaken(rope, "exponent_dim") == []


def test_linear_scaling_keeps_the_mistake_in_the_exponent() -> None:
    rope = Rope(4, 16, partial_rotary_factor=0.5, scaling="linear", factor=2.0)
    assert wrong_values(rope, "exponent_dim") == [16]


@pytest.mark.parametrize(
    ("parameters", "wrong"),
    [({"style": "llama4-vision"}, 0), ({"style": "eva"}, 1), ({"style": "eva", "keep": 1}, 0)],
)
def test_rows_beside_a_grid_are_missing_or_added(parameters: dict[str, Any], wrong: int) -> None:
    assert wrong_values(Rope(grid=(2, 2), dim=16, **parameters), "keep") == [wrong]


def test_listed_positions_may_have_other_axes_or_another_style() -> None:
    rope = Rope(positions=((0, 1, 5), (2, 3, 7)), dim=16, style="eva")
    assert {*subjects(rope)} == {"exponent_dim", "style", "axes of positions"}


def test_positions_of_a_grid_are_shifted_along_an_axis() -> None:
    moved = mistaken(GRID, "positions along h")[0]
    assert tuple(moved.positions) == ((1, 1, 2, 2), (0, 1, 0, 1))


def test_positions_of_a_grid_are_at_the_middles_of_patches() -> None:
    moved = mistaken(GRID, "positions along h and w")[2]
    assert tuple(moved.positions) == ((0.5, 0.5, 1.5, 1.5), (0.5, 1.5, 0.5, 1.5))


@pytest.mark.parametrize(("count", "names"), [(2, "h,w"), (3, "t,h,w"), (4, "0,1,2,3")])
def test_axes_of_positions_are_named_t_h_w_or_numbered(count: int, names: str) -> None:
    positions = ((0, 1), (0, 2), (0, 3), (0, 4))[:count]
    rope = Rope(positions=positions, axes=(4,) * count)
    edits = [each.edits[0] for each in neighbours(rope)]
    assert {edit.expected for edit in edits if edit.subject == "axes of positions"} == {names}


@pytest.mark.parametrize(("parameters", "base"), [({}, 10000.0), ({"base": 500.0}, 500.0)])
def test_another_style_brings_its_base_unless_one_was_given(
    parameters: dict[str, Any], base: float
) -> None:
    rope = Rope(grid=(2, 2), dim=16, style="dinov3", **parameters)
    (wrong,) = [each.scheme for each in neighbours(rope) if each.edits[0].found == "eva"]
    assert wrong.value_of("base") == base
