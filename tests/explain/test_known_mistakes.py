"""Schemes on a grid or at listed positions whose rows are misplaced, named by the edits between them."""

from typing import Any

import pytest

from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.explain.known_mistakes import neighbours

GRID = Rope(grid=(2, 2), dim=16, style="eva")
EVERY = [
    Sinusoidal(grid=(2, 3), dim=16, style="mae"),
    Rope(positions=((0, 1), (0, 2), (0, 3)), dim=8, mrope_section=(1, 2, 1)),
]


def wrong_parameters(scheme: Scheme) -> list[str]:
    """Return the name of the parameter that each known mistake has wrong."""
    return [mistake.edits[0].subject for mistake in neighbours(scheme)]


def schemes_with_wrong(scheme: Scheme, subject: str) -> list[Any]:
    """Return the schemes that have one parameter wrong."""
    return [each.scheme for each in neighbours(scheme) if each.edits[0].subject == subject]


def wrong_values(scheme: Scheme, subject: str) -> list[Any]:
    """Return the wrong values of one parameter."""
    edits = [mistake.edits[0] for mistake in neighbours(scheme)]
    return [edit.found for edit in edits if edit.subject == subject]


@pytest.mark.parametrize("scheme", EVERY, ids=str)
def test_a_known_mistake_has_edits_and_makes_another_table(scheme: Scheme) -> None:
    tables = {name: table.tobytes() for name, table in scheme.tables().items()}
    mistakes = [*neighbours(scheme)]

    assert mistakes
    for edits, wrong in mistakes:
        assert edits
        assert all(edit.expected != edit.found for edit in edits)
        assert {name: table.tobytes() for name, table in wrong.tables().items()} != tables


@pytest.mark.parametrize("scheme", [Alibi(7, 4), Rope(4, 8), LearnedInit(16, 8)], ids=str)
def test_rows_that_are_counted_cannot_be_misplaced(scheme: Scheme) -> None:
    """Positions 0, 1, 2, … have no axes that could be exchanged."""
    assert [*neighbours(scheme)] == []


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [({}, ["freq_shift"]), ({"scale": 2.0}, ["freq_shift", "scale"])],
    ids=str,
)
def test_parameters_of_added_tables_on_grids(
    parameters: dict[str, Any], expected: list[str]
) -> None:
    scheme = Sinusoidal(grid=(2, 2), dim=16, style="mae", **parameters)
    assert wrong_parameters(scheme)[: len(expected)] == expected


def test_sections_are_mistaken_if_axes_have_their_own_positions() -> None:
    rope = Rope(positions=((0, 1), (0, 2), (0, 3)), dim=8, mrope_section=(1, 2, 1))
    assert {*wrong_parameters(rope)} == {"mrope_interleaved", "mrope_section", "axes of positions"}


@pytest.mark.parametrize(
    ("style", "grid", "channels", "pairs"),
    [("eva", (2, 2), 16, (8, 8)), ("flux", (1, 2, 2), "4,14,14", (2, 7, 7))],
)
def test_the_exponent_of_every_axis_over_the_whole_dim(
    style: str, grid: tuple[int, ...], channels: object, pairs: tuple[int, ...]
) -> None:
    """Each axis should have frequencies over its own channels; the mistake is over all 32 of them."""
    rope = Rope(grid=grid, dim=32, style=style)
    (edit,) = [
        each.edits[0] for each in neighbours(rope) if each.edits[0].subject == "exponent_dim"
    ]

    assert edit.expected == channels
    assert edit.found == 32

    (wrong,) = schemes_with_wrong(rope, "exponent_dim")
    expected = [10000 ** (-i / 16) for count in pairs for i in range(count)]
    assert wrong.inverse_frequencies() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "rope",
    [
        Rope(grid=(2, 2), dim=32, style="pixtral"),  # Its axes share the frequencies of the dim.
        Rope(4, 16),
    ],
    ids=str,
)
def test_exponents_that_cannot_be_over_another_dim(rope: Rope) -> None:
    assert schemes_with_wrong(rope, "exponent_dim") == []


@pytest.mark.parametrize(
    ("parameters", "wrong"),
    [({"style": "llama4-vision"}, 0), ({"style": "eva"}, 1), ({"style": "eva", "keep": 1}, 0)],
)
def test_rows_beside_a_grid_are_missing_or_added(parameters: dict[str, Any], wrong: int) -> None:
    """«keep» counts rows for other tokens, such as a class token."""
    assert wrong_values(Rope(grid=(2, 2), dim=16, **parameters), "keep") == [wrong]


def test_listed_positions_may_have_other_axes_or_another_style() -> None:
    rope = Rope(positions=((0, 1, 5), (2, 3, 7)), dim=16, style="eva")
    assert {*wrong_parameters(rope)} == {"exponent_dim", "style", "axes of positions"}


def test_positions_of_a_grid_are_shifted_along_an_axis() -> None:
    """Rows of a grid of 2 x 2 at 1 and 2 instead of 0 and 1."""
    moved = schemes_with_wrong(GRID, "positions along h")[0]
    assert tuple(moved.positions) == ((1, 1, 2, 2), (0, 1, 0, 1))


def test_positions_of_a_grid_are_at_the_middles_of_patches() -> None:
    moved = schemes_with_wrong(GRID, "positions along h and w")[2]
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
