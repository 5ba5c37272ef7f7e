"""Tables of text on narrow terminals."""

import numpy as np

from pecli.views.text_table import print_table


def test_tables_that_are_too_wide_have_lines_below_for_text_and_columns_below_for_numbers(
    turn_to_terminal,
) -> None:
    shown = turn_to_terminal(60)
    name = "model.language_model.layers.31.self_attn.rotary_embedding"
    print_table(["name", "dtype", "shape"], [[name, "float32", "4096 × 64"], ["b", "float64", "8"]])

    assert [line.strip() for line in shown.plain()[:4]] == [
        "name",
        "dtype  shape",
        name,
        "float32  4096 × 64",
    ]

    shown = turn_to_terminal(60)
    print_table(["a", "b"], [["x" * 50, "y" * 8], ["x" * 50, "y" * 9]])
    # All of 60 columns, and one more than there are.
    assert [len(line) for line in shown.plain()[1:]] == [60, 50, 11]

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
