"""Previews of tables: their first and last rows and columns, on terminals and in pipes.

Expected numbers are elements of the tables, and sines of single angles.
"""

import math

import pytest

import pecli
from pecli.engine.schemes.bundle import Bundle
from pecli.views import preview
from tests.views.conftest import said


@pytest.mark.parametrize("rows", [1, 6, 7, 8, 500])
def test_a_corner_holds_the_first_and_last_rows(rows: int) -> None:
    """More than seven rows are cut in the middle."""
    scheme = pecli.Sinusoidal(rows, 4)
    _, shown = preview.corner(scheme.tensors()[0])
    labels = [row.label for row in shown]

    assert labels[0] == "0"
    assert labels[-1] == str(rows - 1)
    assert ("" in labels) == (rows > 7)

    table = scheme.tables()["pe"]
    for label, values in shown:
        assert values == (table[int(label)].tolist() if label else [None] * 4)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("scheme", [pecli.Sinusoidal, pecli.Rope, pecli.Alibi, pecli.LearnedInit])
def test_a_terminal_of_80_columns_is_enough(turn_to_terminal, scheme, dtype) -> None:
    """64 rows of 512 channels (or heads) do not fit; «…» stands for the columns left out, once per
    line.
    """
    shown = turn_to_terminal()
    preview.show(scheme(64, 512, dtype=dtype))
    lines = shown.plain()

    assert len(lines) > 8
    assert max(map(len, lines)) <= 80
    assert all(line.count("…") <= 1 for line in lines if line.strip()[:1].isdigit()), (
        "a number was cut"
    )


@pytest.mark.parametrize("width", [30, 40, 60, 79])
def test_a_narrow_terminal_shows_some_columns_at_a_time_and_cuts_no_number(
    turn_to_terminal, width: int
) -> None:
    """The expected values are sin(p) and cos(p / 10000^(62/64)), by the paper's formula."""
    shown = turn_to_terminal(width)
    preview.show(pecli.Sinusoidal(200, 64))

    assert max(map(len, shown.plain())) <= width

    lines = [line.split() for line in shown.plain()]
    first = [line for line in lines if line[:1] == ["1"]]
    last = [line for line in lines if line[:1] == ["199"]]

    assert first[0][1] == f"{math.sin(1):.4f}"
    assert last[0][1] == f"{math.sin(199):.4f}"
    assert last[-1][-1] == f"{math.cos(199 / 10000 ** (62 / 64)):.4f}"


def test_rows_of_higher_tensors_are_labelled_with_their_indices() -> None:
    """The bias of 2 heads is 2 × 3 × 3: a label has the head and the query of a row."""
    bias = pecli.Alibi(2, 3).tensors()[0]
    labels = [row.label for row in preview.corner(bias).rows]

    assert labels == ["0,0", "0,1", "0,2", "1,0", "1,1", "1,2"]


@pytest.mark.parametrize(("row", "cell"), [("0,1", "-inf"), ("0,2", "0")])
def test_infinities_and_zeros_are_dim(turn_to_terminal, row: str, cell: str) -> None:
    """Keys after the query have −inf, and a key at the query 0; both are at the end of a row."""
    shown = turn_to_terminal()
    preview.show(pecli.Alibi(1, 3, form="causal"))
    (line,) = [line for line in shown.getvalue().splitlines() if f"{row}\x1b" in line]

    assert line.endswith(f"\x1b[2m{cell.rjust(4)}\x1b[0m")


def test_the_corner_of_a_huge_table_reads_only_its_rows() -> None:
    """The table has 2^40 rows, too many to compute; the corner ends with the last of them, 2^40 −
    1.
    """
    table = pecli.Rope(2**40, 4).tensors()[0]
    assert preview.corner(table).rows[-1].label == str(2**40 - 1)


def test_layers_have_their_names_and_a_blank_line_between_them() -> None:
    full = pecli.Rope(2, 4)
    lines = said(preview.show, Bundle((("full", full), ("sliding", pecli.Rope(2, 4, base=100.0)))))
    first, second = lines.split("\n\nsliding\n")

    assert first.startswith("full\nrope seq_len=2 dim=4 base=10000 ")
    assert second.startswith("rope seq_len=2 dim=4 base=100 ")
    assert said(preview.show, full) == first.removeprefix("full\n") + "\n"


def test_slopes_are_printed_one_per_line_in_a_pipe() -> None:
    """Three heads have the slopes of four, of which every second one comes last."""
    assert (
        said(preview.show_slopes, pecli.Alibi(4, slopes=True))
        == "0.25\n0.0625\n0.015625\n0.00390625\n"
    )
    in_bfloat16 = pecli.Alibi(3, slopes=True, dtype="bfloat16")
    assert said(preview.show_slopes, in_bfloat16) == "0.0625\n0.00390625\n0.25\n"


def test_slopes_are_a_table_on_a_terminal(turn_to_terminal) -> None:
    shown = turn_to_terminal()
    preview.show_slopes(pecli.Alibi(2, slopes=True))
    lines = [line.split() for line in shown.plain()]

    assert lines == [["head", "slope"], ["0", "0.0625"], ["1", "0.00390625"]]
