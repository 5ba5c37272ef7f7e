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
def test_a_preview_of_more_than_seven_rows_leaves_out_the_middle(rows: int) -> None:
    """Each row has its position as a label, and the numbers of the table; the row that stands for
    those left out has no label and no numbers.
    """
    scheme = pecli.Sinusoidal(seq_len=rows, dim=4)
    _, shown = preview.corner(scheme.tensors()[0])
    labels = [row.label for row in shown]

    assert labels[0] == "0"
    assert labels[-1] == str(rows - 1)
    assert ("" in labels) == (rows > 7)

    table = scheme.tables()["pe"]
    for label, values in shown:
        assert values == (table[int(label)].tolist() if label else [None, None, None, None])


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("scheme", [pecli.Sinusoidal, pecli.Rope, pecli.Alibi, pecli.LearnedInit])
def test_a_preview_fits_a_terminal_of_80_columns(turn_to_terminal, scheme, dtype) -> None:
    """The first two arguments of each scheme, 64 and 512, are rows and channels, or heads and rows:
    not all columns fit. «…» stands for those left out, once per line; more than one would mean that
    a number was cut.
    """
    shown = turn_to_terminal()
    preview.show(scheme(64, 512, dtype=dtype))
    lines = shown.plain()

    assert len(lines) > 8
    assert max(map(len, lines)) <= 80
    rows = [line for line in lines if line.strip()[:1].isdigit()]
    assert all(row.count("…") <= 1 for row in rows)


@pytest.mark.parametrize("width", [30, 40, 60, 79])
def test_a_narrow_terminal_shows_some_columns_at_a_time_and_cuts_no_number(
    turn_to_terminal, width: int
) -> None:
    """A table of 200 positions and 64 channels is printed in blocks of some columns, and each block
    has a line for the rows 1 and 199. By the paper's formula, channel 0 is sin(p), and the last
    channel is cos(p / 10000^(62/64)).
    """
    shown = turn_to_terminal(columns=width)
    preview.show(pecli.Sinusoidal(seq_len=200, dim=64))

    assert max(map(len, shown.plain())) <= width

    lines = [line.split() for line in shown.plain()]
    blocks_of_row_1 = [line for line in lines if line[:1] == ["1"]]
    blocks_of_row_199 = [line for line in lines if line[:1] == ["199"]]

    assert blocks_of_row_1[0][1] == f"{math.sin(1):.4f}"
    assert blocks_of_row_199[0][1] == f"{math.sin(199):.4f}"
    assert blocks_of_row_199[-1][-1] == f"{math.cos(199 / 10000 ** (62 / 64)):.4f}"


def test_columns_of_a_preview_have_their_numbers_above_them() -> None:
    """The table has the columns 0 to 19. In a pipe, dots stand for those that are left out between
    the first five and the last two.
    """
    lines = said(preview.show, pecli.Sinusoidal(seq_len=2, dim=20)).splitlines()
    (heading,) = [number for number, line in enumerate(lines) if line.startswith("pe ")]

    assert lines[heading + 1].split() == ["0", "1", "2", "3", "4", "...", "18", "19"]


def test_rows_of_a_tensor_of_three_axes_are_labelled_with_two_indices() -> None:
    """The bias of 2 heads is 2 × 3 × 3: a label has the head and the query of a row."""
    bias = pecli.Alibi(heads=2, seq_len=3).tensors()[0]
    labels = [row.label for row in preview.corner(bias).rows]

    assert labels == ["0,0", "0,1", "0,2", "1,0", "1,1", "1,2"]


DIM, BLUE, END = "\x1b[2m", "\x1b[38;5;32m", "\x1b[0m"
"""Escape sequences that begin and end a style. Negative numbers are blue."""


def test_infinities_and_zeros_are_dim(turn_to_terminal) -> None:
    """A causal bias is 0 for the key at the query itself, the slope times the distance for earlier
    keys, and −inf for later ones. Rows are labelled «head,query», which is dim as well; numbers are
    set to the right in columns 7, 7 and 4 wide. The slope of a single head is 2^−8 = 0.0039.
    """
    shown = turn_to_terminal()
    preview.show(pecli.Alibi(heads=1, seq_len=3, form="causal"))
    lines = shown.getvalue().splitlines()

    query_1 = f"{DIM}0,1{END}  {BLUE}-0.0039{END}  {DIM}      0{END}  {DIM}-inf{END}"
    query_2 = f"{DIM}0,2{END}  {BLUE}-0.0078{END}  {BLUE}-0.0039{END}  {DIM}   0{END}"
    assert query_1 in lines
    assert query_2 in lines


def test_a_preview_of_a_huge_table_computes_only_the_rows_that_it_shows() -> None:
    """The table has 2^40 rows, too many to compute; the preview ends with the last, number 2^40 −
    1.
    """
    table = pecli.Rope(seq_len=2**40, dim=4).tensors()[0]
    assert preview.corner(table).rows[-1].label == str(2**40 - 1)


def test_previews_of_layer_types_have_their_names_and_a_blank_line_between_them() -> None:
    """A bundle is one scheme per type of layer: full attention with base 10000, and sliding
    attention with base 100. Below its name, a scheme has the preview that it has by itself.
    """
    full = pecli.Rope(2, 4)
    lines = said(preview.show, Bundle((("full", full), ("sliding", pecli.Rope(2, 4, base=100.0)))))
    first, second = lines.split("\n\nsliding\n")

    assert first.startswith("full\nrope seq_len=2 dim=4 base=10000 ")
    assert second.startswith("rope seq_len=2 dim=4 base=100 ")
    assert said(preview.show, full) == first.removeprefix("full\n") + "\n"


def test_slopes_are_printed_one_per_line_in_a_pipe() -> None:
    """By ALiBi's paper, 4 heads have the slopes 2^−2, 2^−4, 2^−6 and 2^−8. 3 heads have those of 2,
    2^−4 and 2^−8, and then the first of 4, 2^−2.
    """
    of_4_heads = said(preview.show_slopes, pecli.Alibi(4, slopes=True))
    assert of_4_heads == "0.25\n0.0625\n0.015625\n0.00390625\n"

    in_bfloat16 = pecli.Alibi(3, slopes=True, dtype="bfloat16")
    assert said(preview.show_slopes, in_bfloat16) == "0.0625\n0.00390625\n0.25\n"


def test_slopes_are_a_table_on_a_terminal(turn_to_terminal) -> None:
    """By ALiBi's paper, the slopes of 2 heads are 2^−4 = 0.0625 and 2^−8 = 0.00390625."""
    shown = turn_to_terminal()
    preview.show_slopes(pecli.Alibi(2, slopes=True))
    lines = [line.split() for line in shown.plain()]

    assert lines == [["head", "slope"], ["0", "0.0625"], ["1", "0.00390625"]]
