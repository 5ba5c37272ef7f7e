"""The known mistakes of schemes on a grid or at listed positions, which the search for reasons
tries.

`mistaken_schemes` lists other schemes that someone might have computed instead, each with the edits
(differences in parameters, expected and found) that lead to it. Expected lists and positions are
written by hand for grids of 2 × 2 points.
"""

from typing import Any

import pytest

from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.explain.known_mistakes import mistaken_schemes

GRID = Rope(grid=(2, 2), dim=16, style="eva")
EVERY = [
    Sinusoidal(grid=(2, 3), dim=16, style="mae"),
    Rope(positions=((0, 1), (0, 2), (0, 3)), dim=8, mrope_section=(1, 2, 1)),
]


def wrong_parameters(scheme: Scheme) -> list[str]:
    """Return the name of the parameter that each known mistake has wrong."""
    return [mistake.edits[0].subject for mistake in mistaken_schemes(scheme)]


def schemes_with_wrong(scheme: Scheme, subject: str) -> list[Any]:
    """Return the schemes that have one parameter wrong."""
    return [each.scheme for each in mistaken_schemes(scheme) if each.edits[0].subject == subject]


def wrong_values(scheme: Scheme, subject: str) -> list[Any]:
    """Return the wrong values of one parameter."""
    edits = [mistake.edits[0] for mistake in mistaken_schemes(scheme)]
    return [edit.found for edit in edits if edit.subject == subject]


@pytest.mark.parametrize("scheme", EVERY, ids=str)
def test_a_known_mistake_has_edits_and_makes_another_table(scheme: Scheme) -> None:
    """`mistaken_schemes` lists schemes that someone might have computed instead, each with its edits. An
    edit has a value that is expected and another one that is found, and the tables of the wrong
    scheme differ from the right ones in some byte.
    """
    right_bytes = {name: table.tobytes() for name, table in scheme.tables().items()}
    mistakes = [*mistaken_schemes(scheme)]

    assert mistakes
    for edits, wrong in mistakes:
        wrong_bytes = {name: table.tobytes() for name, table in wrong.tables().items()}
        assert edits
        assert all(edit.expected != edit.found for edit in edits)
        assert wrong_bytes != right_bytes


@pytest.mark.parametrize("scheme", [Alibi(7, 4), Rope(4, 8), LearnedInit(16, 8)], ids=str)
def test_schemes_with_counted_positions_have_no_mistakes_of_axes(scheme: Scheme) -> None:
    """`mistaken_schemes` lists mistakes of grids and listed positions. Positions 0, 1, 2, … have no axes
    that could be exchanged, so there are none.
    """
    assert [*mistaken_schemes(scheme)] == []


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [({}, ["freq_shift"]), ({"scale": 2.0}, ["freq_shift", "scale"])],
    ids=str,
)
def test_known_mistakes_of_a_sinusoidal_grid_begin_with_the_parameters_of_its_frequencies(
    parameters: dict[str, Any], expected: list[str]
) -> None:
    """`wrong_parameters` lists what each known mistake has wrong, in the order of trial: freq_shift
    changes the exponents, and comes first; a scale is mistaken only if the scheme has one.
    """
    scheme = Sinusoidal(grid=(2, 2), dim=16, style="mae", **parameters)
    assert wrong_parameters(scheme)[: len(expected)] == expected


def test_known_mistakes_of_mrope_are_its_sections_and_axes() -> None:
    """M-RoPE gives sections of the pairs, here 1, 2 and 1, to time, row and column. Someone may
    interleave them, give them other sizes, or let them follow other axes of the positions.
    """
    rope = Rope(positions=((0, 1), (0, 2), (0, 3)), dim=8, mrope_section=(1, 2, 1))
    assert {*wrong_parameters(rope)} == {"mrope_interleaved", "mrope_section", "axes of positions"}


@pytest.mark.parametrize(
    ("style", "grid", "channels", "pairs"),
    [("eva", (2, 2), 16, (8, 8)), ("flux", (1, 2, 2), "4,14,14", (2, 7, 7))],
)
def test_a_known_mistake_divides_exponents_by_the_whole_dim_instead_of_the_channels_of_an_axis(
    style: str, grid: tuple[int, ...], channels: object, pairs: tuple[int, ...]
) -> None:
    """Each axis should have frequencies 10000^(-2i/c) over its own channels c: 16 and 16 of EVA, and
    4, 14 and 14 of FLUX. The mistake is 10000^(-2i/32), over all 32; `pairs` is c/2 of each axis.
    """
    rope = Rope(grid=grid, dim=32, style=style)
    edits = [mistake.edits[0] for mistake in mistaken_schemes(rope)]
    (edit,) = [edit for edit in edits if edit.subject == "exponent_dim"]

    assert edit.expected == channels
    assert edit.found == 32

    (wrong,) = schemes_with_wrong(rope, "exponent_dim")
    wrong_frequencies = [10000 ** (-2 * i / 32) for count in pairs for i in range(count)]
    assert wrong.inverse_frequencies() == pytest.approx(wrong_frequencies, rel=1e-12)


@pytest.mark.parametrize(
    "rope",
    [
        Rope(grid=(2, 2), dim=32, style="pixtral"),
        Rope(4, 16),
    ],
    ids=str,
)
def test_exponents_over_the_whole_dim_have_no_mistake_of_another_dim(rope: Rope) -> None:
    """Pixtral's axes share the frequencies of the whole dim, and counted positions are one axis: to
    divide by the whole dim is right there, and no known mistake.
    """
    assert schemes_with_wrong(rope, "exponent_dim") == []


PARTIAL: dict[str, Any] = {"seq_len": 4, "dim": 16, "partial_rotary_factor": 0.5, "base": 10000.0}
"""8 of 16 channels rotate, so that the frequencies should be 10000^(-2i/8)."""


@pytest.mark.parametrize(
    ("scaling", "divisor"),
    [
        pytest.param({}, 1.0, id="no scaling"),
        pytest.param({"scaling": "linear", "factor": 4.0}, 4.0, id="linear by 4"),
    ],
)
def test_exponents_over_the_whole_dim_are_a_known_mistake_of_partial_rotation(
    scaling: dict[str, Any], divisor: float
) -> None:
    """The mistake is 10000^(-2i/16), over all 16 channels instead of the 8 that rotate. Linear scaling
    divides these wrong frequencies by its factor, as it does the right ones.
    """
    rope = Rope(**PARTIAL, **scaling)
    assert wrong_parameters(rope) == ["exponent_dim"]

    (wrong,) = schemes_with_wrong(rope, "exponent_dim")
    wrong_frequencies = [10000 ** (-2 * i / 16) / divisor for i in range(4)]
    assert wrong.inverse_frequencies() == pytest.approx(wrong_frequencies, rel=1e-12)


@pytest.mark.parametrize(
    "scaling",
    [
        pytest.param({"scaling": "ntk", "factor": 4.0}, id="ntk"),
        pytest.param(
            {"scaling": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}, id="yarn"
        ),
    ],
)
def test_exponents_over_the_whole_dim_are_no_known_mistake_of_scaling_that_depends_on_the_base(
    scaling: dict[str, Any],
) -> None:
    """The mistake is supposed as another base: 10000^(-2i/16) is 100^(-2i/8). That would also change
    what NTK's factor adds to the base, and which pairs YaRN divides, so it is not supposed there.
    """
    assert wrong_parameters(Rope(**PARTIAL, **scaling)) == []


@pytest.mark.parametrize(
    ("parameters", "wrong_keep"),
    [({"style": "llama4-vision"}, 0), ({"style": "eva"}, 1), ({"style": "eva", "keep": 1}, 0)],
    ids=["Llama 4 keeps a row", "EVA keeps none", "EVA with a row that is given"],
)
def test_a_known_mistake_has_no_row_beside_the_grid_for_one_or_one_for_none(
    parameters: dict[str, Any], wrong_keep: int
) -> None:
    """«keep» counts rows beside the grid, such as that of a class token. The only wrong value is 0
    if the scheme has such a row, and 1 if it has none.
    """
    assert wrong_values(Rope(grid=(2, 2), dim=16, **parameters), "keep") == [wrong_keep]


@pytest.mark.parametrize(
    ("scheme", "is_tried"),
    [
        (Rope(grid=(2, 2), dim=16, style="eva", keep=1), True),
        (Sinusoidal(grid=(2, 2), dim=16, style="mae", keep=1), False),
    ],
    ids=["rotary", "added"],
)
def test_positions_beside_a_class_token_are_mistaken_in_rotary_tables_only(
    scheme: Scheme, is_tried: bool
) -> None:
    """A wrong scheme has a list of positions instead of the grid. EVA's class token can be listed, at
    position 0, which does not rotate it. MAE's is a row of zeros, which no position has.
    """
    assert ("positions along h" in wrong_parameters(scheme)) == is_tried


def test_known_mistakes_at_listed_positions_are_exponents_axes_and_styles() -> None:
    """Three points are listed by coordinates, (0, 2), (1, 3) and (5, 7). EVA's known mistakes are
    exponents over the whole dim, another style, and exchanged axes; none of a grid's size.
    """
    rope = Rope(positions=((0, 1, 5), (2, 3, 7)), dim=16, style="eva")
    assert {*wrong_parameters(rope)} == {"exponent_dim", "style", "axes of positions"}


def test_a_known_mistake_shifts_the_positions_of_a_grid_by_one_along_an_axis() -> None:
    """The right rows (h) of a grid of 2 × 2 points are 0, 0, 1, 1, and its columns (w) 0, 1, 0, 1.
    The first mistake of «positions along h» has rows one higher.
    """
    moved = schemes_with_wrong(GRID, "positions along h")[0]
    assert tuple(moved.positions) == ((1, 1, 2, 2), (0, 1, 0, 1))


def test_a_known_mistake_puts_positions_at_the_middles_of_patches() -> None:
    """Patches of a 2 × 2 grid have positions 0 and 1 along both axes; some code takes their
    middles, 0.5 and 1.5. It is the third mistake of both axes, after ± 1.
    """
    moved = schemes_with_wrong(GRID, "positions along h and w")[2]
    assert tuple(moved.positions) == ((0.5, 0.5, 1.5, 1.5), (0.5, 1.5, 0.5, 1.5))


@pytest.mark.parametrize(("count", "names"), [(2, "h,w"), (3, "t,h,w"), (4, "0,1,2,3")])
def test_axes_of_positions_are_named_t_h_w_or_numbered(count: int, names: str) -> None:
    """Two axes are row and column, three time, row and column; four have no usual names."""
    positions = ((0, 1), (0, 2), (0, 3), (0, 4))[:count]
    rope = Rope(positions=positions, axes=(4,) * count)
    edits = [mistake.edits[0] for mistake in mistaken_schemes(rope)]
    right_axes = {edit.expected for edit in edits if edit.subject == "axes of positions"}

    assert right_axes == {names}


@pytest.mark.parametrize(("parameters", "base"), [({}, 10000.0), ({"base": 500.0}, 500.0)])
def test_the_mistake_of_another_style_has_its_base_unless_one_was_given(
    parameters: dict[str, Any], base: float
) -> None:
    """The style should be DINOv3, of base 100, and is mistaken for EVA, of base 10000. A base of 500
    that was given for DINOv3 is kept.
    """
    rope = Rope(grid=(2, 2), dim=16, style="dinov3", **parameters)
    mistakes = mistaken_schemes(rope)
    (eva,) = [mistake.scheme for mistake in mistakes if mistake.edits[0].found == "eva"]

    assert eva.value_of("base") == base
