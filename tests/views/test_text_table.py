"""Tables of text on terminals that are too narrow for them. Expected lines are written by hand."""

import numpy as np

from pecli.views.text_table import print_table


def test_a_row_of_text_that_is_too_wide_is_continued_below(turn_to_terminal) -> None:
    """The name takes 57 of 60 columns, so that the columns dtype and shape follow in a line below
    it, as they do in the heading.
    """
    shown = turn_to_terminal(columns=60)
    name = "model.language_model.layers.31.self_attn.rotary_embedding"
    print_table(["name", "dtype", "shape"], [[name, "float32", "4096 × 64"], ["b", "float64", "8"]])

    assert [line.strip() for line in shown.plain()[:4]] == [
        "name",
        "dtype  shape",
        name,
        "float32  4096 × 64",
    ]


def test_only_the_row_that_is_too_wide_is_continued_below(turn_to_terminal) -> None:
    """Columns are two spaces apart: 50 + 2 + 8 characters just fit into 60, and 50 + 2 + 9 do not.
    The 9 characters are in a line of their own, which is indented by two.
    """
    shown = turn_to_terminal(columns=60)
    print_table(["a", "b"], [["x" * 50, "y" * 8], ["x" * 50, "y" * 9]])
    _, row_that_fits, start_of_row, rest_of_row = shown.plain()

    assert len(row_that_fits) == 50 + 2 + 8
    assert len(start_of_row) == 50
    assert len(rest_of_row) == 2 + 9


def test_columns_of_numbers_that_do_not_fit_are_printed_in_blocks_with_the_first_column(
    turn_to_terminal,
) -> None:
    """A table has the rows 3 and 4 and 20 columns, multiples of π with 7 digits, of which a
    terminal of 80 columns shows some at a time. A block has three lines: the columns' names, row 3
    and row 4.
    """
    values = np.pi * np.arange(40.0).reshape(2, 20)
    shown = turn_to_terminal()
    print_table(
        ["", *map(str, range(20))],
        [[str(3 + row), *(f"{value:.7g}" for value in values[row])] for row in range(2)],
        right=True,
    )
    lines = [line.split() for line in shown.plain()]

    assert [word for line in lines[0::3] for word in line] == [str(k) for k in range(20)]
    for row, start in enumerate((1, 2)):
        assert {line[0] for line in lines[start::3]} == {str(3 + row)}
        assert [word for line in lines[start::3] for word in line[1:]] == [
            f"{value:.7g}" for value in values[row]
        ]
