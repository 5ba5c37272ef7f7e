"""Numbers as ports print them, to a terminal or a log: tensors, initialisers, rows, log lines and
lists in JSON.

A port is an implementation of a model in another language or framework. The texts were written by
hand in the forms that PyTorch, NumPy, JAX, C, Rust, Swift and JavaScript print; nearly all hold the
rows (1.5, 0.5) and (−2, 0.25), which float32 holds exactly.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.errors import FileError
from pecli.files.load import load_file
from pecli.files.text_labels import split_indexed_row, split_label
from pecli.notes import passed_to
from tests.exit_codes import SUCCESS

pytestmark = pytest.mark.usefixtures("working_folder")

TWO_ROWS = [[1.5, 0.5], [-2.0, 0.25]]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("tensor([[ 1.5000,  0.5000],\n        [-2.0000,  0.2500]])\n", id="PyTorch"),
        pytest.param(
            "tensor([[ 1.5, 0.5],\n  [-2., 0.25]], device='cuda:0', dtype=torch.bfloat16,\n"
            "       grad_fn=<MulBackward0>)\n",
            id="PyTorch with device, dtype and gradient",
        ),
        pytest.param(
            "Parameter containing:\ntensor([[1.5, 0.5], [-2., 0.25]], requires_grad=True)",
            id="a parameter of PyTorch",
        ),
        pytest.param("[[ 1.5   0.5 ]\n [-2.    0.25]]\n", id="print of NumPy"),
        pytest.param(
            "array([[ 1.5 ,  0.5 ],\n       [-2.  ,  0.25]], dtype=float32)", id="repr of NumPy"
        ),
        pytest.param(
            "Array([[ 1.5 ,  0.5 ], [-2.  ,  0.25]], dtype=float32, weak_type=True)", id="JAX"
        ),
        pytest.param("1.5 0.5\n-2 0.25\n", id="spaces"),
        pytest.param("1.5, 0.5\r\n-2, 0.25\r\n", id="commas and line ends of Windows"),
        pytest.param("1.5,0.5,\n-2,0.25,\n", id="a comma after each number"),
        pytest.param("1.5;0.5\n-2;0.25\n", id="semicolons"),
        pytest.param("1.5\t0.5\n\n-2\t0.25\n", id="tabs and an empty line"),
        pytest.param("# from np.savetxt\n1.5e+00 5.0e-01\n-2.0e+00 2.5e-01\n", id="np.savetxt"),
        pytest.param("[1.5, 0.5]\n[-2.0, 0.25]\n", id="a list per line"),
        pytest.param("0: 1.5 0.5\n1: -2 0.25\n", id="numbered lines"),
        pytest.param("row 0: 1.5 0.5\nrow 1: -2 0.25\n", id="numbered rows"),
        pytest.param("Dim1=0: 1.5 0.5\nDim1=1: -2 0.25\n", id="a numbered axis"),
        pytest.param("{{1.5f, 0.5f}, {-2.f, .25F}}", id="initialiser of C"),
        pytest.param("{ {0x1.8p+0, 0x1p-1}, {-0x1p+1, 0x1p-2} };", id="hexadecimal floats of C"),
        pytest.param("[[1.5,0.5],[-2.0,0.25]]", id="JSON"),
        pytest.param("((1.5, 0.5), (-2.0, 0.25))", id="tuples of Python"),
        pytest.param("(\n (1.5, 0.5),\n (-2.0, 0.25),\n)", id="tuples of Python, one per line"),
        pytest.param("[(1.5, 0.5), (-2.0, 0.25)]", id="a list of tuples"),
        pytest.param("((1.5, 0.5), [-2.0, 0.25])", id="a tuple and a list"),
        pytest.param("[[1.5, (0.5)], [(-2.0), (0.25)]]", id="numbers in parentheses"),
        pytest.param(
            "[[np.float32(1.5), np.float32(0.5)], [np.float32(-2.0), np.float32(0.25)]]",
            id="lists of NumPy's scalars",
        ),
        pytest.param(
            "((np.float64(1.5), np.float64(0.5)), (np.float64(-2.0), np.float64(0.25)))",
            id="tuples of NumPy's scalars",
        ),
    ],
)
def test_one_table_is_read_from_every_printed_form(text: str) -> None:
    """All forms print the rows (1.5, 0.5) and (−2, 0.25)."""
    Path("x.txt").write_text(text)
    assert pecli.load("x.txt")["array"].tolist() == [[1.5, 0.5], [-2.0, 0.25]]


def assert_named_table(text: str, name: str) -> None:
    """Assert that a text is read as one tensor of this name, with the numbers of TWO_ROWS.

    Some texts print the four numbers as a flat list.
    """
    Path("x.log").write_text(text)
    tensors = pecli.load("x.log")
    assert [*tensors] == [name]
    assert tensors[name].reshape(2, 2).tolist() == TWO_ROWS


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param("cos[0] = 1.5 0.5\ncos[1] = -2 0.25\n", "cos", id="indices of rows"),
        pytest.param("cos[0]: [1.5, 0.5]\ncos[1]: [-2, 0.25]\n", "cos", id="colons and brackets"),
        pytest.param(
            "q[0][0] = 1.5\nq[0][1] = 0.5\nq[1][0] = -2\nq[1][1] = 0.25\n",
            "q",
            id="indices of numbers",
        ),
        pytest.param("q = tensor([[1.5, 0.5],\n            [-2., 0.25]])\n", "q", id="a tensor"),
        pytest.param(
            "layer 3 q: 1.5 0.5\nlayer 3 q: -2 0.25\n", "layers.3.q", id="the number of a layer"
        ),
        pytest.param(
            "model.layers.3.self_attn.q = [[1.5, 0.5], [-2, 0.25]]",
            "model.layers.3.self_attn.q",
            id="a name of a checkpoint",
        ),
        pytest.param(
            "layers[3].q = [[1.5, 0.5], [-2, 0.25]]", "layers[3].q", id="an expression of Python"
        ),
    ],
)
def test_the_label_before_printed_numbers_names_the_tensor(text: str, name: str) -> None:
    """Indices of rows or numbers at the end are not part of the name. «layer 3 q» becomes layers.3.q,
    as checkpoints name it; a label that is an expression stays as it is.
    """
    assert_named_table(text, name)


@pytest.mark.parametrize(
    ("title", "name"),
    [
        pytest.param("cos:", "cos", id="a name and a colon"),
        pytest.param("q", "q", id="a name"),
        pytest.param("q after rope:", "q_after_rope", id="three words"),
        pytest.param("the second query rotated:", "the_second_query_rotated", id="four words"),
        pytest.param("the second query, rotated twice:", "array", id="five words are no name"),
    ],
)
def test_a_line_of_up_to_four_words_above_printed_numbers_names_the_tensor(
    title: str, name: str
) -> None:
    """Underscores join the words. Longer lines are sentences; «array» is a tensor without a name."""
    assert_named_table(f"{title}\n1.5 0.5\n-2 0.25\n", name)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param(
            "static const float cos[2][2] = {{1.5f, 0.5f}, {-2.0f, 0.25f}};", "cos", id="C, nested"
        ),
        pytest.param("float cos[2][2] = {1.5f, 0.5f, -2.0f, 0.25f};", "cos", id="C, flat"),
        pytest.param(
            "pub const COS: [[f32; 2]; 2] = [[1.5, 0.5], [-2.0, 0.25_f32]];", "COS", id="Rust"
        ),
        pytest.param("let cos: [[Float]] = [[1.5, 0.5], [-2.0, 0.25]]", "cos", id="Swift"),
        pytest.param("const cos = new Float32Array([1.5, 0.5, -2, 0.25]);", "cos", id="JavaScript"),
        pytest.param("bf16 q = [[1.5, 0.5], [-2, 0.25]]", "q", id="a dtype before the name"),
    ],
)
def test_a_declaration_names_the_tensor_without_its_type(text: str, name: str) -> None:
    """The name is that of the variable; its type and its sides stand beside it."""
    assert_named_table(text, name)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "[INFO] 12:03:11 q[0] 1.5 0.5\n[INFO] 12:03:12 q[1] -2 0.25\n", id="level and time"
        ),
        pytest.param("12:03:11.5 q: 1.5 0.5\n12:03:11.6 q: -2 0.25\n", id="time of each row"),
        pytest.param("12:03:11 q:\n1.5 0.5\n-2 0.25\n", id="time of a title"),
    ],
)
def test_the_time_and_level_of_a_log_line_are_left_out_of_the_name(text: str) -> None:
    """A logger writes them before the message, in which the label is q."""
    assert_named_table(text, "q")


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        (">>> print(cos[:2])", "cos"),
        (">>> rope.cos", "rope.cos"),
        ("In [3]: cos[0, :2]", "cos"),
        (">>> import torch", "array"),
        ('>>> cos = torch.load("8.pt")', "array"),
    ],
)
def test_a_line_typed_at_a_prompt_names_what_it_prints(typed: str, name: str) -> None:
    """A terminal is pasted with its prompts. A line that prints nothing names nothing, and its numbers
    are none of the tensor.
    """
    Path("paste.txt").write_text(f"{typed}\ntensor([[ 1.5,  0.5],\n        [-2.0,  0.25]])\n")
    tensors = load_file("paste.txt").tensors
    assert {key: table.tolist() for key, table in tensors.items()} == {name: TWO_ROWS}


def test_tuples_over_several_lines_have_the_shape_of_their_parentheses() -> None:
    """Python's pprint writes nested tuples so. q has three levels of parentheses, which are two
    matrices of 2 × 2, and k has two levels, which are one matrix.
    """
    text = "q = (((1, 2),\n      (3, 4)),\n     ((5, 6),\n      (7, 8)))\nk = ((9, 10), (11, 12))\n"
    Path("x.txt").write_text(text)
    tensors = pecli.load("x.txt")

    assert tensors["q"].tolist() == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    assert tensors["k"].tolist() == [[9, 10], [11, 12]]


def test_tensors_that_are_printed_in_tuples_are_separate_tensors() -> None:
    """The text is written as `print(past_key_values)` of transformers: a tuple per layer, which has keys and values."""
    Path("x.txt").write_text(
        "((tensor([[1.5]]), tensor([[0.5]])), (tensor([[-2.]]), tensor([[2.]])))"
    )
    values = [tensor.item() for tensor in pecli.load("x.txt").values()]
    assert values == [1.5, 0.5, -2, 2]


@pytest.mark.parametrize("name", ["x.txt", "x.csv"])
def test_cosines_that_were_printed_with_six_digits_are_verified(name: str) -> None:
    """C++'s `std::cout << x` and MLX print six significant digits, as %g does. The text has NumPy's
    cosines of 8 positions and frequencies 10000^(-2i/64).
    """
    angles = np.arange(8)[:, None] * 1e4 ** (-np.arange(0, 64, 2) / 64)
    rows = [",".join(f"{value:g}" for value in row) for row in np.cos(angles)]
    Path(name).write_text("\n".join(rows))
    assert pecli.verify(name, pecli.Rope(8, 64)).passed


def test_frequencies_that_torch_printed_are_verified() -> None:
    """`print(model.rotary_emb.inv_freq)` has four decimals after the leading digit: 7.4989e-01."""
    frequencies = 1e4 ** (-np.arange(0, 64, 2) / 64)
    text = ", ".join(f"{frequency:.4e}" for frequency in frequencies)
    Path("x.txt").write_text(f"inv_freq = tensor([{text}])\n")
    assert pecli.verify("x.txt", pecli.Rope(8, 64)).passed


def test_printed_frequencies_of_another_base_fail() -> None:
    """The frequencies have base 10100 instead of 10000, by which the last one is 1 % smaller; printed
    are five digits.
    """
    frequencies = 10_100 ** (-np.arange(0, 64, 2) / 64)
    text = ", ".join(f"{frequency:.4e}" for frequency in frequencies)
    Path("x.txt").write_text(f"inv_freq = tensor([{text}])\n")
    assert not pecli.verify("x.txt", pecli.Rope(8, 64)).passed


def test_rows_of_two_tensors_that_alternate_are_read_as_two_tables() -> None:
    """A loop over positions 0, 1 and 2 prints a line of cos and a line of sin for each."""
    lines = [f"cos[{row}] = {row}.5 1\nsin[{row}] = {row}.25 2\n" for row in range(3)]
    Path("x.txt").write_text("".join(lines))
    tensors = pecli.load("x.txt")

    assert tensors["cos"].tolist() == [[0.5, 1], [1.5, 1], [2.5, 1]]
    assert tensors["sin"].tolist() == [[0.25, 2], [1.25, 2], [2.25, 2]]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "q[0][0] = 1.5 2\nq[0][1] = 3 4\nq[1][0] = 5 6\nq[1][1] = 7 8.5\n",
            id="indices of a head and a row",
        ),
        pytest.param(
            "q[0][0] = 1.5 2\nq[1][0] = 5 6\nq[0][1] = 3 4\nq[1][1] = 7 8.5\n",
            id="heads in turn",
        ),
        pytest.param(
            "q head 0 pos 0: 1.5 2\nq head 0 pos 1: 3 4\n"
            "q head 1 pos 0: 5 6\nq head 1 pos 1: 7 8.5\n",
            id="words",
        ),
        pytest.param(
            "q h=0 t=0 -> 1.5 2\nq h=0 t=1 -> 3 4\nq h=1 t=0 -> 5 6\nq h=1 t=1 -> 7 8.5\n",
            id="letters and arrows",
        ),
        pytest.param(
            "q[head=0, pos=0] 1.5 2\nq[head=0, pos=1] 3 4\n"
            "q[head=1, pos=0] 5 6\nq[head=1, pos=1] 7 8.5\n",
            id="words in brackets",
        ),
        pytest.param(
            "q pos 0 head 0: 1.5 2\nq pos 0 head 1: 5 6\nq pos 1 head 0: 3 4\nq pos 1 head 1: 7 8.5\n",
            id="words of positions before heads",
        ),
        pytest.param(
            "q token=0 head=0: [1.5, 2]\nq token=0 head=1: [5, 6]\n"
            "q token=1 head=0: [3, 4]\nq token=1 head=1: [7, 8.5]\n",
            id="words of tokens before heads",
        ),
        pytest.param(
            "q tok 0:\nhead 0: 1.5 2\nhead 1: 5 6\nq tok 1:\nhead 0: 3 4\nhead 1: 7 8.5\n",
            id="heads below a title for each token",
        ),
        pytest.param(
            "q head 0:\n1.5 2\n3 4\nq head 1:\n5 6\n7 8.5\n", id="a title above each head"
        ),
        pytest.param(
            "q:\nhead 0:\n1.5 2\n3 4\n\nhead 1:\n5 6\n7 8.5\n",
            id="a title for all heads",
        ),
        pytest.param("q head 0:\n[[1.5, 2], [3, 4]]\nq head 1:\n[[5, 6], [7, 8.5]]\n", id="lists"),
        pytest.param(
            "q head 0: [[1.5 2.]\n [3. 4.]]\nq head 1: [[5. 6.]\n [7. 8.5]]\n", id="NumPy"
        ),
        pytest.param(
            "q head 0:\ntensor([[1.5, 2.],\n  [3., 4.]])\n"
            "q head 1:\ntensor([[5., 6.],\n  [7., 8.5]])\n",
            id="PyTorch",
        ),
        pytest.param(
            "q:\nhead 1:\n[[5, 6],\n [7, 8.5]]\nhead 0:\n[[1.5, 2],\n [3, 4]]\n",
            id="head 1 before head 0",
        ),
        pytest.param(
            "q head 0\nrow 0: 1.5 2\nrow 1: 3 4\nq head 1\nrow 0: 5 6\nrow 1: 7 8.5\n",
            id="numbered rows below a title",
        ),
        pytest.param(
            "q[3][0][0] = 1.5 2\nq[3][0][1] = 3 4\nq[3][1][0] = 5 6\nq[3][1][1] = 7 8.5\n",
            id="only layer 3",
        ),
    ],
)
def test_printed_numbers_are_placed_by_the_labels_of_their_heads_and_rows(text: str) -> None:
    """All texts print the same two heads of two rows of two numbers, with labels in different forms
    and orders.
    """
    head_0 = [[1.5, 2.0], [3.0, 4.0]]
    head_1 = [[5.0, 6.0], [7.0, 8.5]]
    Path("x.log").write_text(text)

    assert pecli.load("x.log")["q"].tolist() == [head_0, head_1]


def test_indices_without_words_keep_their_order() -> None:
    """Nothing states what the two indices count: three rows of the first, and two of the second."""
    lines = [f"q[{row}][{column}] = {row} {column}.5\n" for row in range(3) for column in range(2)]
    Path("x.log").write_text("".join(lines))

    assert pecli.load("x.log")["q"].shape == (3, 2, 2)


def test_a_log_of_one_token_has_an_axis_of_one_position() -> None:
    Path("x.log").write_text("".join(f"q pos 7 head {head}: 1.5 {head}\n" for head in range(3)))
    assert pecli.load("x.log")["q"].shape == (3, 1, 2)


def test_queries_printed_token_by_token_are_verified() -> None:
    """A loop over 6 tokens prints both heads of each, with 64 channels. They are rotated by the usual
    formula, at the position of their token.
    """
    before = np.random.default_rng(0).normal(size=(6, 2, 64))
    angles = np.outer(np.arange(6), 1e4 ** (-np.arange(32) / 32))[:, None]  # the same for all heads
    a, b = np.split(before, 2, axis=-1)
    cos, sin = np.cos(angles), np.sin(angles)
    after = np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
    for name, values in (("before", before), ("after", after)):
        lines = []
        for token, head in np.ndindex(6, 2):
            numbers = " ".join(f"{number:.6f}" for number in values[token, head])
            lines.append(f"q pos {token} head {head}: {numbers}\n")
        Path(f"{name}.txt").write_text("".join(lines))

    result = pecli.verify("after.txt", "tinyllama-1.1b", before="before.txt", atol=1e-3)
    assert result.passed
    assert [tensor.shape for tensor in result.tensors] == [(2, 6, 64)]


def test_an_index_in_brackets_before_a_whole_table_counts_layers() -> None:
    """`q[0] = [[…]]` is a whole table per index, so that the index counts layers, not rows."""
    Path("x.log").write_text("q[0] = [[1.5, 2], [3, 4]]\nq[1] = [[5, 6], [7, 8.5]]\n")
    assert [*pecli.load("x.log")] == ["q.0", "q.1"]


def test_a_print_of_one_head_is_a_table_without_an_axis_of_heads() -> None:
    """A program that prints only head 3 prints a table, not a batch of one head."""
    Path("x.log").write_text("q head 3:\n[[1.5, 0.5], [-2, 0.25]]\n")
    assert pecli.load("x.log")["q"].tolist() == TWO_ROWS


def test_one_line_of_numbers_per_head_is_a_row_of_one_table() -> None:
    """Each of two heads has a single line of four numbers: they are read as a table of 2 × 4, without
    an axis of heads.
    """
    Path("x.log").write_text("q head 0: 1.5 2 3 4\nq head 1: 5 6 7 8.5\n")
    assert pecli.load("x.log")["q"].tolist() == [[1.5, 2, 3, 4], [5, 6, 7, 8.5]]


def test_rows_whose_labels_leave_places_out_are_read_in_the_printed_order() -> None:
    """q[1][0] is missing: the three rows do not fill a grid of 2 × 2, and are read as they come."""
    Path("x.log").write_text("q[0][0] = 1 2\nq[0][1] = 3 4\nq[1][1] = 7 8\n")
    assert pecli.load("x.log")["q"].tolist() == [[1, 2], [3, 4], [7, 8]]


def test_rows_whose_labels_repeat_are_read_in_the_printed_order() -> None:
    """q[0] is printed twice: the labels give no order, and rows are read as they come."""
    Path("x.log").write_text("q[0] = 1 2\nq[2] = 5 6\nq[0] = 3 4\n")
    assert pecli.load("x.log")["q"].tolist() == [[1, 2], [5, 6], [3, 4]]


def test_whole_numbers_up_to_2_to_the_53_are_read() -> None:
    """2^53 = 9007199254740992. Beyond it float64 skips whole numbers, and the text is refused."""
    Path("x.txt").write_text("9007199254740992 -9007199254740992\n")
    assert pecli.load("x.txt")["array"].tolist() == [[2**53, -(2**53)]]


def test_numbers_after_whole_ones_may_have_decimals() -> None:
    """The first line alone looks like integers; the table is one of floats all the same."""
    Path("x.txt").write_text("[1, 2]\n[0.5, 4]\n[5, 6]\n")
    assert pecli.load("x.txt")["array"].tolist() == [[1, 2], [0.5, 4], [5, 6]]


def test_a_shape_in_a_title_is_not_an_index() -> None:
    """«(2, 2)» before the colon is the shape of the table, as `print(q.shape)` writes it."""
    Path("x.log").write_text("q shape (2, 2):\n1.5 0.5\n-2 0.25\n")
    assert pecli.load("x.log")["q"].tolist() == TWO_ROWS


@pytest.mark.parametrize("end", ["\n", ",\n", "\r\n"])
def test_a_column_of_ten_thousand_numbers_is_read_like_a_short_one(end: str) -> None:
    """The column holds 0.5, 1.5, … 9999.5, whose sum is 10,000 times their mean, 5,000. Long
    columns are read by a faster path.
    """
    Path("x.txt").write_text("q:\n" + "".join(f"{number}.5{end}" for number in range(10_000)))
    numbers = pecli.load("x.txt")["q"]

    assert numbers.shape == (10_000, 1)
    assert numbers.sum() == 10_000 * 5_000


@pytest.mark.parametrize("count", [3, 40])
def test_a_column_after_longer_rows_is_an_error(count: int) -> None:
    """The first line has two numbers; the lines after it have one each, few or so many that the
    faster path for long columns reads them.
    """
    Path("x.txt").write_text("1 2\n" + "3\n" * count)
    with pytest.raises(FileError, match=r"line 2 has 1 number, and the first has 2$"):
        pecli.load("x.txt")


def test_the_end_of_a_long_line_does_not_begin_the_column_below_it() -> None:
    """Lines are read in parts of 65,536 bytes. This one has 1 + 2 · 32,768 bytes before its last
    number, 7, which is a part of its own and looks like the 40 lines of one number below. But those
    are rows of one number below a row of 32,769, which is an error.
    """
    numbers_before = 32_768
    Path("x.txt").write_text(" " + "1 " * numbers_before + "7\n" + "2\n" * 40)
    with pytest.raises(FileError, match=r"line 2 has 1 number, and the first has 32769$"):
        pecli.load("x.txt")


def test_a_column_below_the_title_of_a_head_is_the_row_of_that_head() -> None:
    """One number per line below «q head 0:» is the vector of that head, and heads are rows."""
    Path("x.txt").write_text("".join(f"q head {head}:\n" + f"{head}.5\n" * 20 for head in (0, 1)))
    assert pecli.load("x.txt")["q"].tolist() == [[0.5] * 20, [1.5] * 20]


@pytest.mark.parametrize(
    "sentence", ["Loading model...", "reading 12 tokens... done", "reading ... done", "(wait)..."]
)
def test_dots_after_a_sentence_do_not_mean_missing_numbers(sentence: str) -> None:
    """«...» among numbers would mean that rows were left out; in a sentence of the log it means
    nothing.
    """
    Path("x.log").write_text(f"{sentence}\nq[0] = 1.5 0.5\nq[1] = -2 0.25\n{sentence}\n")
    assert pecli.load("x.log")["q"].tolist() == TWO_ROWS


def test_a_printed_list_of_numbers_is_a_vector() -> None:
    """The text is what Node.js prints of a Float32Array."""
    Path("x.txt").write_text("Float32Array(3) [\n  1, 0.5,\n  0.25\n]\n")
    assert pecli.load("x.txt")["array"].tolist() == [1, 0.5, 0.25]


def test_printed_whole_numbers_are_loaded_as_integers() -> None:
    """Position ids and bucket indices are integers, and float64 would hide it."""
    Path("x.txt").write_text("[[0, 1, 2], [3, 4, 5]]")
    array = pecli.load("x.txt")["array"]

    assert array.dtype == np.int64
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("word", "value"),
    [
        pytest.param("nan", np.nan, id="Python"),
        pytest.param("-nan", np.nan, id="C: NaN with a sign"),
        pytest.param("NAN", np.nan, id="C"),
        pytest.param("null", np.nan, id="JSON: no number"),
        pytest.param("inf", np.inf, id="Python: infinity"),
        pytest.param("-Infinity", -np.inf, id="JavaScript"),
        pytest.param("INFINITY", np.inf, id="C: infinity"),
        pytest.param("1e400", np.inf, id="beyond float64"),
        pytest.param("0x10", 16.0, id="hexadecimal"),
        pytest.param("2.5h", 2.5, id="half precision"),
    ],
)
def test_infinities_and_hexadecimals_are_numbers(word: str, value: float) -> None:
    """The words are those that C, Python, JavaScript and JSON print: 0x10 is 16, `h` is the suffix
    of a half-precision literal, and 1e400 exceeds float64.
    """
    Path("x.txt").write_text(f"q = 0.5, {word}\n")
    assert np.array_equal(pecli.load("x.txt")["q"], [[0.5, value]], equal_nan=True)


@pytest.mark.parametrize(
    ("text", "line", "column", "word"),
    [
        pytest.param("0.5 1\n0.5 abc\n", 2, 5, "abc", id="in the second line"),
        pytest.param("0.5, abc, 0.25\n", 1, 6, "abc", id="between commas"),
        pytest.param("1 x\n", 1, 3, "x", id="at the end of a short line"),
        pytest.param("0.5 x 0.25\n", 1, 5, "x", id="between decimals"),
        pytest.param("1 2 x\n", 1, 5, "x", id="after whole numbers"),
        pytest.param("inf[0] = 1 2\n", 1, 8, "=", id="inf is a number and not a name"),
        pytest.param("[[0.5, 0.25x]]", 1, 8, "0.25x", id="a letter after a number in a list"),
        pytest.param("q = 1_000\n", 1, 5, "1_000", id="Python's underscore between digits"),
        pytest.param("q = 1 - 2\n", 1, 7, "-", id="a difference"),
    ],
)
def test_a_word_among_printed_numbers_is_named_with_line_and_column(
    text: str, line: int, column: int, word: str
) -> None:
    """Lines and columns count from 1; they are where the word begins."""
    Path("x.txt").write_text(text)
    problem = f"line {line}, column {column}: '{word}' is not a number"
    with pytest.raises(FileError, match=re.escape(problem) + "$"):
        pecli.load("x.txt")


def test_an_error_shows_only_the_beginning_of_a_word_of_5000_letters() -> None:
    """The word is 5,000 digits and an x; the whole message has less than 200 letters."""
    Path("x.txt").write_text("9" * 5000 + "x\n")
    with pytest.raises(FileError, match=r"line 1, column 1: '9+") as error:
        pecli.load("x.txt")
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    ("text", "line", "column", "problem"),
    [
        pytest.param(
            "[[1, 2], [3]]",
            1,
            12,
            "a list of 1 ends here, and the first one has 2",
            id="short list",
        ),
        pytest.param("[1, [2]]", 1, 5, "numbers and lists are mixed", id="a list after a number"),
        pytest.param("[[1], 2]", 1, 5, "numbers and lists are mixed", id="a number after a list"),
        pytest.param(
            "[[1, 2],\n [3, 4]",
            2,
            8,
            "a list does not end; the file seems to be cut",
            id="a missing bracket",
        ),
        pytest.param(
            "((1, 2), (3,))",
            1,
            13,
            "a list of 1 ends here, and the first one has 2",
            id="a short tuple of Python",
        ),
        pytest.param(
            "((1, 2), (3, 4)\n",
            2,
            1,
            "a list does not end; the file seems to be cut",
            id="a missing parenthesis",
        ),
        pytest.param("1 2]\n", 1, 4, "a bracket closes that was not opened", id="another bracket"),
        pytest.param(
            "[[], []]", 1, 8, "the list that ends here is empty", id="nothing but brackets"
        ),
        pytest.param(
            "[" * 40 + "1" + "]" * 40, 1, 33, "lists are nested more than 32 deep", id="40 brackets"
        ),
    ],
)
def test_a_mistake_in_printed_lists_is_named_with_line_and_column(
    text: str, line: int, column: int, problem: str
) -> None:
    """The column is that of the bracket at which the mistake shows: in `[[1, 2], [3]]` the one that
    ends the short list, the 12th character, and in `[[], []]` the last one, which ends a list without
    any number. In `[[1], 2]` it is where «, 2» begins. A list that does not end is reported at the
    end of the text: behind the last character, or on the empty line below it.
    """
    Path("x.txt").write_text(text)
    with pytest.raises(FileError, match=f"line {line}, column {column}: {re.escape(problem)}"):
        pecli.load("x.txt")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("1 2\n3\n", "line 2 has 1 number, and the first has 2", id="a short row"),
        pytest.param("1 2\n3 4 5\n", "line 2 has 3 numbers, and the first has 2", id="a long row"),
        pytest.param("no numbers\n", "holds no numbers", id="words only"),
        pytest.param(
            "9007199254740994 1\n",
            "holds whole numbers beyond 2^53; write .npy",
            id="2 more than 2 to the 53",
        ),
        pytest.param(
            "q = [[1]]\nq = 2\n", "prints 'q' as rows and as lists", id="two forms of one tensor"
        ),
    ],
)
def test_printed_numbers_that_are_no_table_are_refused(text: str, problem: str) -> None:
    """These mistakes are in a whole line or in the whole file, so that no column is named."""
    Path("x.txt").write_text(text)
    with pytest.raises(FileError, match=re.escape(problem) + "$"):
        pecli.load("x.txt")


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        pytest.param(
            "tensor([[1.0, 2.0, ..., 3.0]])",
            r"line 1, column 20: the numbers are cut short by «\.\.\.»; "
            r"print all of it: torch\.set_printoptions\(profile='full'",
            id="PyTorch",
        ),
        pytest.param(
            "[[1. 2. ... 3.]]", r"numpy\.set_printoptions\(threshold=sys\.maxsize\)", id="NumPy"
        ),
        pytest.param(
            "q[0] = 1, 2, ...\n", "line 1, column 14: the numbers are cut short", id="in a row"
        ),
        pytest.param(
            "q[0] = 1 2\n...\nq[9] = 3 4\n",
            "line 2, column 1: the numbers are cut short",
            id="between rows",
        ),
        pytest.param(
            "[[1, 2],\n …\n]",
            "line 2, column 2: the numbers are cut short by «…»",
            id="one character of three dots",
        ),
        pytest.param(
            "[[1, 2],\n and so on ...\n]",
            "line 2, column 12: the numbers are cut short",
            id="words and dots",
        ),
        pytest.param(
            "Float32Array(100) [\n 1, 2,\n ... 98 more items\n]",
            r"JSON\.stringify\(Array\.from\(x\)\)",
            id="Node.js",
        ),
    ],
)
def test_a_print_that_was_cut_is_refused_with_advice_to_print_all(text: str, advice: str) -> None:
    """PyTorch, NumPy, Node.js and humans shorten long tensors by dots. The advice names the
    printer's own setting.
    """
    Path("x.txt").write_text(text)
    with pytest.raises(FileError, match=advice):
        pecli.load("x.txt")


def notes_of(path: str) -> list[str]:
    """Return the notes that users see when a file is loaded."""
    notes: list[str] = []
    with passed_to(notes.append):
        load_file(path)
    return notes


@pytest.mark.parametrize(
    ("text", "note"),
    [
        pytest.param(
            "q[5] = 1 2\nq[6] = 3 4\n",
            "q: labels start at 5, rows are read as 0, 1, …; --offset 5",
            id="rows from 5 on",
        ),
        pytest.param(
            "q[0] = 1 2\nq[9] = 3 4\n",
            "q: labels are 0, 9, rows are read as 0, 1, …; --positions",
            id="rows that are far apart",
        ),
        pytest.param(
            "q[0][5] = 1 2\nq[0][6] = 3 4\n",
            "q: labels start at 5, rows are read as 0, 1, …",
            id="rows from 5 on of one head",
        ),
        pytest.param(
            "q[1][5] = 1 2\nq[2][5] = 3 4\nq[1][6] = 1 2\nq[2][6] = 3 4\n",
            "q: labels start at 1,5, rows are read as 0, 1, …; --offset 5 states it",
            id="rows from 5 on of heads from 1 on",
        ),
        pytest.param(
            "q = [[1]]\nq = [[2]]\n",
            "q is printed 2 times, and read as q.0 … q.1",
            id="one name twice",
        ),
        pytest.param(
            "this is the dump of a model\n1 2\n",
            "1 line without numbers left out",
            id="a line of words",
        ),
    ],
)
def test_a_note_states_an_assumption_about_labels_or_lines(text: str, note: str) -> None:
    """Each text leaves something open, such as the position of its first row; the note names the
    choice and the option that makes another.
    """
    Path("x.txt").write_text(text)
    (only_note,) = notes_of("x.txt")

    assert note in only_note


def test_a_printed_table_without_labels_needs_no_note() -> None:
    """Rows without labels start at position 0, as in every other format."""
    Path("x.txt").write_text("1 2\n3 4\n")
    assert notes_of("x.txt") == []


def printed_decimals(text: str) -> int:
    """Return the decimals to which the numbers of a text seem to be rounded; 0 if to none.

    The tolerance of a comparison follows from them: numbers that end because they have no more
    digits (0.5) are exact, and others (0.8415) are rounded.
    """
    Path("x.txt").write_text(text)
    printed = load_file("x.txt").printed
    assert printed is not None
    return printed.decimals


@pytest.mark.parametrize(
    ("text", "decimals"),
    [
        pytest.param("0.1250 0.5000 1.0000", 4, id="all have four: printf %.4f, or PyTorch"),
        pytest.param("1.2500e-03 5.0000e-01", 4, id="all have four: printf %.4e"),
        pytest.param("0.125 0.5", 3, id="half of the numbers have three"),
        pytest.param("0.125 0.5 0.25", 0, id="a third of the numbers has three"),
        pytest.param("0.5 0.25 0.125 0.0625", 0, id="a quarter of the numbers has four"),
        pytest.param("0.12345 0.5 1.0", 0, id="a third of the numbers has five"),
        pytest.param("1 2 3", 0, id="whole numbers"),
    ],
)
def test_numbers_are_rounded_to_three_to_five_decimals_if_half_have_as_many(
    text: str, decimals: int
) -> None:
    """NumPy and others leave out zeros at the end, so that of numbers rounded to three decimals not
    all have three; but at least half should. Otherwise 0.125 is a number of three digits.
    """
    assert printed_decimals(text) == decimals


@pytest.mark.parametrize(
    ("text", "decimals"),
    [
        pytest.param("0.5 1.0 " * 32, 1, id="64 numbers of one decimal: printf %.1f"),
        pytest.param("0.5 1.0 " * 31, 0, id="62 numbers of one decimal: too few"),
        pytest.param("0.50 1.25 " * 32, 2, id="64 numbers of two decimals: printf %.2f"),
        pytest.param("0.5 0.25 " * 32, 0, id="64 numbers, of one or two decimals"),
    ],
)
def test_numbers_are_rounded_to_one_or_two_decimals_if_all_of_64_have_as_many(
    text: str, decimals: int
) -> None:
    """0.5 and 0.25 are often all the digits of a number, and only many numbers that have as many
    decimals show that they are rounded. 64 are thought to be many.
    """
    assert printed_decimals(text) == decimals


@pytest.mark.parametrize(
    ("text", "decimals"),
    [
        pytest.param("0.123456 0.5 1.0", 6, id="a number of six decimals"),
        pytest.param("0.84147096 0.5 1.0 2.0", 8, id="sin 1 with eight decimals"),
        pytest.param("0.5403023 0.09983342 " * 32, 8, id="seven digits: seven or eight decimals"),
    ],
)
def test_a_number_of_six_or_more_decimals_is_rounded_to_them(text: str, decimals: int) -> None:
    """No number has so many decimals by chance, so that one is enough; the largest count is taken."""
    assert printed_decimals(text) == decimals


@pytest.mark.parametrize(
    ("text", "decimals"),
    [
        pytest.param("0.540302 0.0998334 " * 32, 6, id="0.540302 has six decimals"),
        pytest.param("0.540302 9.99983e-05 " * 32, 6, id="0.540302 has six, beside exponents"),
        pytest.param("5.40302 0.0998334 " * 32, 5, id="5.40302 has five decimals"),
    ],
)
def test_64_numbers_of_six_digits_are_rounded_to_the_decimals_of_the_largest(
    text: str, decimals: int
) -> None:
    """C++ streams and MLX print six significant digits, so that small numbers have more decimals:
    0.0998334 has seven. The rounding of the largest numbers bounds that of all.
    """
    assert printed_decimals(text) == decimals


@pytest.mark.parametrize(
    ("text", "rounding"),
    [
        pytest.param("0.1250 0.5000", 5e-5, id="four decimals"),
        pytest.param("1 2 3", 0.0, id="whole numbers"),
    ],
)
def test_the_rounding_of_printed_numbers_is_half_a_unit_of_the_last_decimal(
    text: str, rounding: float
) -> None:
    """0.12503 and 0.12497 are both printed as 0.1250; numbers with all their digits are exact."""
    Path("x.txt").write_text(text)
    printed = load_file("x.txt").printed

    assert printed is not None
    assert printed.rounding == pytest.approx(rounding, rel=1e-15)


SINES = np.sin(np.arange(12.0)).reshape(3, 4)


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.txt", "x.json", "x.jsonl"])
@pytest.mark.parametrize("decimals", [4, 6, 7])
def test_rounded_numbers_have_their_decimals_in_every_format(name: str, decimals: int) -> None:
    """12 sines, rounded by Python: in rows of .csv, .tsv and .txt, in a list named `pe` of .json, and
    in one list per line of .jsonl.
    """
    rows = [[float(f"{value:.{decimals}f}") for value in row] for row in SINES.tolist()]
    separators = {"x.csv": ",", "x.tsv": "\t", "x.txt": " "}
    if name == "x.json":
        text = json.dumps({"pe": rows})
    elif name == "x.jsonl":
        text = "\n".join(json.dumps(row) for row in rows)
    else:
        text = "\n".join(separators[name].join(map(str, row)) for row in rows)
    Path(name).write_text(text)

    assert load_file(name).rounding == pytest.approx(0.5 * 10.0**-decimals)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["x.csv", "x.json"])
def test_numbers_with_all_their_digits_are_exact_in_csv_and_json(
    name: str, dtype: type[np.floating]
) -> None:
    """NumPy writes the shortest digits of each sine that read back as the same number."""
    rows = [[str(value) for value in row] for row in SINES.astype(dtype)]
    lines = [",".join(row) for row in rows]
    as_json = '{"pe": [[' + "],[".join(lines) + "]]}"
    Path(name).write_text(as_json if name == "x.json" else "\n".join(lines))

    assert load_file(name).rounding == 0.0


def test_a_row_of_zeros_and_ones_does_not_state_the_decimals_of_all_rows() -> None:
    """The first of two lists, one per line, is 0.0 1.0 0.0 1.0 …, as the first row of a sinusoidal
    table is. The second one has six decimals.
    """
    first = [0.0, 1.0] * 32
    second = [0.841471, 0.540302] * 32
    Path("x.jsonl").write_text(f"{json.dumps(first)}\n{json.dumps(second)}\n")

    assert load_file("x.jsonl").rounding == pytest.approx(5e-7)


@pytest.mark.parametrize(
    "line", [b"cos[3] = 0.5 0.25", b"q[2][7]: -1.5e-3, 0.5", b"sin[0]=1", b"f32[1] = 2.5"]
)
def test_the_fast_reader_of_indexed_rows_finds_the_same_label(line: bytes) -> None:
    """`split_indexed_row` reads lines such as «cos[3] = 0.5 0.25», of which logs have millions. It must
    find the label that the general `split_label` finds.
    """
    assert split_indexed_row(line) == split_label(line)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"inf[3] = 0.5", id="a number for a name"),
        pytest.param(b"cos = 0.5", id="no index"),
        pytest.param(b"cos[3] = x", id="a word among the numbers"),
        pytest.param(b"0.5 0.25", id="no label"),
    ],
)
def test_the_fast_reader_of_indexed_rows_leaves_other_lines_to_the_general_one(
    line: bytes,
) -> None:
    """`split_indexed_row` reads lines such as «cos[3] = 0.5 0.25», and returns None for any other."""
    assert split_indexed_row(line) is None


@pytest.mark.parametrize(
    ("numbers", "decimals"),
    [
        pytest.param("0.1235, 0.5, 0.9877", 4, id="rounded to 4 decimals"),
        pytest.param("0.12345678, 0.5", 0, id="all 8 digits of float32"),
        pytest.param("1, 2", 0, id="whole numbers"),
    ],
)
def test_the_number_of_decimals_in_json_is_found(numbers: str, decimals: int) -> None:
    """The tolerance of a comparison follows from the number of decimals; 0 means that all digits
    were printed.
    """
    Path("x.json").write_text(f'{{"q": [{numbers}]}}')
    printed = load_file("x.json").printed

    assert printed is not None
    assert printed.decimals == decimals


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"cos": [[1, 0.5]], "sin": [[0, 0.25]]}', id="object of lists"),
        pytest.param(
            '{"model": "x", "n": 2, "cos": [[1, 0.5]], "sin": [[0, 0.25]], "z": null}',
            id="with other values",
        ),
        pytest.param(
            '{\n  "cos": [\n    [1,\n 0.5]\n  ],\n  "sin": [[0, 0.25]]\n}\n',
            id="with line breaks",
        ),
        pytest.param('{"shape": [1, 2], "cos": [1, 0.5], "sin": [0, 0.25]}', id="a shape for both"),
        pytest.param(
            '{"cos": [1, 0.5], "cos_shape": [1, 2], "sin": [0, 0.25], "sin_dims": [1, 2]}',
            id="shapes by name",
        ),
        pytest.param(
            '{"cos": {"shape": [1, 2], "data": {"0": 1, "1": 0.5}},'
            ' "sin": {"dims": [1, 2], "cpuData": {"0":0,"1":0.25}, "type": "float32"}}',
            id="typed arrays of JavaScript",
        ),
        pytest.param(
            '{"cos": {"shape": [1, 2], "data": [1, 0.5]},'
            ' "sin": {"dims": [1, 2], "data": [0, 0.25]}}',
            id="data and shape",
        ),
    ],
)
def test_json_objects_of_lists_are_tensors(text: str) -> None:
    """Each text is one way of writing cos = (1, 0.5) and sin = (0, 0.25), both of shape (1, 2), as
    JSON.
    """
    Path("x.json").write_text(text)
    tensors = pecli.load("x.json")

    assert tensors["cos"].tolist() == [[1, 0.5]]
    assert tensors["sin"].tolist() == [[0, 0.25]]


def test_a_print_of_llama_cpp_that_was_cut_is_named_as_such() -> None:
    """llama.cpp's prints always leave numbers out («...»), and no setting prints all. Only its ROPE
    operations are read; this one is a VIEW, so that the error advises to write the tensor to a file.
    """
    Path("x.txt").write_text(
        "ggml_debug: cos = (f32) VIEW(x{8, 1, 1, 1}) = {8, 1, 1, 1}\n"
        "    [\n     [\n      [ 1.0000, 0.5000, 0.2500, ..., 0.1250, 0.0000, 0.5000],\n     ],\n    ]\n"
    )
    with pytest.raises(FileError, match=r"llama\.cpp can write a tensor to a file"):
        pecli.load("x.txt")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("torch.Size([1, 2])\ntable = tensor([[1.5, 0.5]])\n", id="a size of torch"),
        pytest.param("const table = [_][2]f32{.{1.5, 0.5}};\n", id="Zig"),
        pytest.param("const table = [_][_]f32{.{1.5, 0.5}};\n", id="Zig, two counted lengths"),
        pytest.param("std::vector<std::vector<float>> table = {{1.5f, 0.5f}};\n", id="C++"),
        pytest.param("export const table = [[1.5, 0.5]];\n", id="JavaScript"),
    ],
)
def test_words_of_languages_around_numbers_are_left_out(text: str) -> None:
    """The only tensor of each text is `table`, the row 1.5, 0.5. Types and sizes beside it hold no
    numbers of a tensor: `[1, 2]` is a size, and `[_]` of Zig a length that the compiler counts.
    """
    Path("x.txt").write_text(text)
    ((name, table),) = pecli.load("x.txt").items()

    assert name == "table"
    assert table.tolist() == [[1.5, 0.5]]


SMALL_DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def torch_print(array: np.ndarray, dtype: str) -> str:
    """Return what torch prints of a matrix on a GPU: four decimals, and the dtype on a line below."""
    rows = [", ".join(f"{float(number): .4f}" for number in row) for row in array]
    lines = "],\n        [".join(rows)
    return f"tensor([[{lines}]],\n       device='cuda:0', dtype=torch.{dtype})\n"


@pytest.mark.parametrize("dtype", SMALL_DTYPES)
def test_a_print_that_states_a_small_dtype_is_read_in_it(dtype: str) -> None:
    """Numbers from 0.5 to 1 are further apart than the four decimals are: each is found again."""
    array = np.linspace(0.5, 1, 60).reshape(6, 10).astype(SMALL_DTYPES[dtype])
    Path("x.txt").write_text(torch_print(array, dtype))
    loaded = pecli.load("x.txt")["array"]

    assert loaded.dtype == array.dtype
    np.testing.assert_array_equal(loaded, array)


@pytest.mark.parametrize("dtype", SMALL_DTYPES)
def test_numbers_of_a_small_dtype_are_within_the_stated_rounding(dtype: str) -> None:
    """PyTorch rounds numbers to four decimals when it prints them, by up to 5e-5; and what is read is
    rounded to the dtype, whose nearest number is no further from the decimals than the one that was
    printed, again 5e-5. Both together are up to 1e-4.
    """
    array = np.linspace(-1, 1, 4000).reshape(40, 100).astype(SMALL_DTYPES[dtype])
    Path("x.txt").write_text(torch_print(array, dtype))
    loaded = load_file("x.txt")
    errors = np.abs(loaded.tensors["array"].astype(np.float64) - array.astype(np.float64))

    assert loaded.rounding == 1e-4
    assert errors.max() <= 1e-4


@pytest.mark.parametrize("dtype", SMALL_DTYPES)
def test_a_printed_table_of_a_small_dtype_is_verified(dtype: str) -> None:
    """The sines and cosines are rounded to the dtype before they are printed, by up to 0.002. They
    are computed by NumPy: channel 2i is sin(p / 10000^(2i/16)), and channel 2i + 1 the cosine.
    """
    angles = np.arange(40)[:, None] / 10000 ** (np.arange(0, 16, 2) / 16)
    array = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(40, 16)
    Path("x.txt").write_text(f"pe: {torch_print(array.astype(SMALL_DTYPES[dtype]), dtype)}")

    result = pecli.verify("x.txt", pecli.Sinusoidal(40, 16, dtype=dtype), reasons=False)

    assert result.passed


def test_numbers_are_not_rounded_to_a_dtype_that_only_one_of_two_prints_states() -> None:
    """Two tensors are printed under the name q: one states float16, and one states nothing, as torch
    prints float32. Both are kept in float64, exact to half a unit of the fourth decimal.
    """
    array = np.full((2, 2), 0.1234)
    both = f"q: {torch_print(array, 'float16')}q: tensor([[0.1234, 0.5678]])\n"
    Path("x.txt").write_text(both)
    loaded = load_file("x.txt")

    assert {tensor.dtype.name for tensor in loaded.tensors.values()} == {"float64"}
    assert loaded.rounding == 0.5e-4


@pytest.mark.parametrize(
    ("numeral", "value"),
    [("0.54D+01", 5.4), ("-1.5d0", -1.5), (".25D-02", 0.0025), ("1.D3", 1000.0), ("0.5D", 0.5)],
)
def test_a_number_of_fortran_is_read(numeral: str, value: float) -> None:
    """The exponent of double precision follows the letter D; Java ends a double with it."""
    Path("x.txt").write_text(f"{numeral} 0.5\n")
    assert pecli.load("x.txt")["array"].tolist() == [[value, 0.5]]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("1,25 0,05\n", id="blanks between numbers"),
        pytest.param("1,25;0,05\n", id="semicolons"),
        pytest.param("0,054\n0,841\n", id="lines"),
        pytest.param("1,25\t-0,05e-1\n", id="tabs and an exponent"),
    ],
)
def test_decimal_commas_are_refused_with_what_to_write(text: str) -> None:
    """1,25 could be the two numbers 1 and 25, but 0,05 could not be 0 and 05: no whole number begins
    with a zero. Each text has a number like the latter.
    """
    Path("x.txt").write_text(text)
    with pytest.raises(FileError, match="commas stand for decimal points; write points"):
        pecli.load("x.txt")


@pytest.mark.parametrize("text", ["1,25 3,50\n", "1,0\n0,1\n", "1, 05\n"])
def test_commas_between_whole_numbers_separate_them(text: str) -> None:
    """A loop over printf("%d,%d ") prints «1,25 3,50», which are four integers. «1, 05» has a blank,
    which a decimal comma never has.
    """
    Path("x.txt").write_text(text)
    assert pecli.load("x.txt")["array"].dtype == np.int64


def test_a_typed_array_of_javascript_is_a_list() -> None:
    """JSON.stringify writes a Float32Array as an object with the keys "0", "1", …, and NaN as null."""
    Path("x.json").write_text('{"q": {"0": 0.5, "1": null, "2": -2e-3}}')
    assert np.array_equal(pecli.load("x.json")["q"], [0.5, np.nan, -0.002], equal_nan=True)


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        pytest.param(
            '[{"0": 1, "1": 0.5}, {"0": 2, "1": 0.25}]', "array", [[1, 0.5], [2, 0.25]], id="a list"
        ),
        pytest.param(
            '{"q": [{"0": 1, "1": 0.5}, {"0": 2, "1": 0.25}]}',
            "q",
            [[1, 0.5], [2, 0.25]],
            id="a list with a name",
        ),
        pytest.param(
            '{"q": [{"0": 1, "1": 0.5}, [2, 0.25]]}',
            "q",
            [[1, 0.5], [2, 0.25]],
            id="a typed array beside a list",
        ),
        pytest.param(
            '[[{"0": 1, "1": 0.5}], [{"0": 2, "1": 0.25}]]',
            "array",
            [[[1, 0.5]], [[2, 0.25]]],
            id="a list of lists",
        ),
        pytest.param('{"0": 1, "1": 0.5}', "array", [1, 0.5], id="a single typed array"),
    ],
)
def test_a_list_of_typed_arrays_is_one_tensor(text: str, name: str, expected: list[Any]) -> None:
    """JSON.stringify writes a Float32Array of JavaScript as an object, {"0": first, "1": second}. A
    program that has one per row writes a list of them.
    """
    Path("x.json").write_text(text)
    tensors = pecli.load("x.json")

    assert [*tensors] == [name]
    assert tensors[name].tolist() == expected


def test_typed_arrays_of_different_lengths_in_a_list_are_separate_tensors() -> None:
    """JavaScript's JSON.stringify writes a Float32Array [1, 0.5] as {"0": 1, "1": 0.5}. Arrays of 3, 2
    and 1 numbers are not the rows of a table, so that each is a tensor, named by its place in the
    list.
    """
    Path("x.json").write_text('[{"0": 5, "1": 6, "2": 7}, {"0": 1, "1": 0.5}, {"0": 2}]')
    tensors = pecli.load("x.json")

    assert [*tensors] == ["0", "1", "2"]
    assert tensors["0"].tolist() == [5, 6, 7]
    assert tensors["1"].tolist() == [1, 0.5]
    assert tensors["2"].tolist() == [2]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"q": {"0": [1, 0.5], "1": [2, 0.25]}}', id="lists"),
        pytest.param(
            '{"q": {"0": {"0": 1, "1": 0.5}, "1": {"0": 2, "1": 0.25}}}', id="typed arrays"
        ),
    ],
)
def test_lists_with_numbers_for_names_are_separate_tensors_with_a_note(text: str) -> None:
    """Lists named "0" and "1" in an object q may be the rows of a table, or its columns, as pandas
    writes them. A note states how to write rows.
    """
    Path("x.json").write_text(text)
    notes: list[str] = []
    with passed_to(notes.append):
        tensors = pecli.load("x.json")

    assert [*tensors] == ["q.0", "q.1"]
    assert len(notes) == 1
    assert "q.0 … q.1 are read as tensors of their own; nested lists are rows of one" in notes[0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            '{"q": {"0": 1, "2": 3}}',
            "line 1, column 16: member 1 of a list is missing$",
            id="a missing index",
        ),
        pytest.param(
            '{"q": {"0": 1, "1": "x"}}',
            "line 1, column 16: a list does not end with its members in order$",
            id="a text for a number",
        ),
        pytest.param(
            '{"q": {"0": 1, "1": 2', "a list does not end with its members in order$", id="no end"
        ),
        pytest.param('{"q": {"0": 1, "1": nil}}', "'nil' is not a number$", id="a bare word"),
    ],
)
def test_a_typed_array_with_a_hole_is_refused(text: str, problem: str) -> None:
    """JSON.stringify writes a Float32Array as {"0": …, "1": …}; every index must be there, with a
    number, and a bracket at the end. In the first text, the member at column 16 should be member 1.
    """
    Path("x.json").write_text(text)
    with pytest.raises(FileError, match=problem):
        pecli.load("x.json")


def test_objects_whose_names_are_no_indices_are_no_lists_of_numbers() -> None:
    """{"0": 1, "1": 2} would be the typed array (1, 2); "i" and "v" are names of single numbers."""
    Path("x.json").write_text('[{"i": 0, "v": 1.0}]')
    with pytest.raises(FileError, match="holds no list of numbers; write nested lists"):
        pecli.load("x.json")


@pytest.mark.parametrize("shape", ["[0, 2]", "[-1, 2]", "[3, 2]", "[0.5]", "[[1, 2]]"])
def test_a_key_shape_that_does_not_fit_the_numbers_does_not_reshape_them(shape: str) -> None:
    """Two numbers are neither of these shapes, so that the key "shape" has another meaning in this
    file.
    """
    Path("x.json").write_text(f'{{"shape": {shape}, "q": [1, 0.5]}}')
    assert pecli.load("x.json")["q"].tolist() == [1, 0.5]


def test_lists_in_nested_objects_are_named_by_their_paths() -> None:
    """Keys and indices on the way to a list of numbers become its name, joined by dots."""
    Path("x.json").write_text('{"layers": [{"q": {"in": [1, 2]}}, {"q": {"in": [3, 4]}}]}')
    tensors = pecli.load("x.json")

    assert [*tensors] == ["layers.0.q.in", "layers.1.q.in"]
    assert tensors["layers.1.q.in"].tolist() == [3, 4]


@pytest.mark.parametrize("empty_list", ["[]", "[ ]", "[\n]"])
def test_an_empty_list_beside_others_is_left_out(empty_list: str) -> None:
    """A list without numbers holds nothing to compare, and is no error beside one that has some."""
    Path("x.json").write_text(f'{{"bias": {empty_list}, "q": [1.5]}}')
    tensors = pecli.load("x.json")
    assert [*tensors] == ["q"]


def test_a_key_shape_does_not_reshape_nested_lists() -> None:
    """Lists of two lists have the shape (2, 2) already; a key "shape" reshapes flat lists only."""
    Path("x.json").write_text('{"data": [[1, 2], [3, 4]], "shape": [4]}')
    assert pecli.load("x.json")["data"].tolist() == [[1, 2], [3, 4]]


def test_of_several_lists_in_json_the_fewest_decimals_count() -> None:
    """Printed decimals bound the precision of a comparison: k has 4, and q 5."""
    Path("x.json").write_text('{"q": [0.12345, 0.98765], "k": [0.1234, 0.9876]}')
    printed = load_file("x.json").printed
    assert printed is not None
    assert printed.decimals == 4


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("q: " + "0.5 0.25 " * 20 + "\nk: " + "1.5 2.5 " * 20, id="rows"),
        pytest.param(
            "q = [[" + "0.5, " * 20 + "1.5], [" + "0.25, " * 20 + "2.5]]", id="nested lists"
        ),
        pytest.param("q:\n" + "1 2 3 4 5 6 7 8 9 10 11 12\n" * 3, id="rows below a title"),
        pytest.param("pos 0: " + "0.5 " * 30 + "\npos 1: " + "0.25 " * 30 + "\n", id="labels"),
    ],
)
def test_long_lines_that_are_read_in_pieces_give_the_same_tensors(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line may be gigabytes long, and is read in pieces that end between two numbers. Each text
    is read twice: in pieces of the usual 65,536 bytes, which are whole lines here, and in pieces of
    16 bytes and the rest of the number that they would cut.
    """
    Path("x.txt").write_text(text)
    whole = pecli.load("x.txt")
    sixteen_bytes_of_a_line = rb"[^\n]{0,16}"
    rest_of_a_number = rb"[^\s,;\[\]{}]{0,16}"
    piece = re.compile(sixteen_bytes_of_a_line + rest_of_a_number + rb"\n?")
    monkeypatch.setattr("pecli.files.number_text._LINE_OR_BEGINNING", piece)
    in_pieces = pecli.load("x.txt")

    assert [*in_pieces] == [*whole]
    for name, tensor in in_pieces.items():
        np.testing.assert_array_equal(tensor, whole[name])


def test_null_and_words_in_quotes_are_nan_and_infinities_in_json() -> None:
    """JSON has no infinities and no NaN; writers put null or these words in quotes instead."""
    Path("x.json").write_text('{"a": [null, "Infinity", "-Infinity", "NaN", 1.5]}')
    expected = [np.nan, np.inf, -np.inf, np.nan, 1.5]

    assert np.array_equal(pecli.load("x.json")["a"], expected, equal_nan=True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            '{"a": [1, 2', "line 1, column 12: a list does not end$", id="a list that does not end"
        ),
        pytest.param(
            '{"a": [1, 2]',
            "',' delimiter in line 1, column 13$",
            id="an object that does not end",
        ),
        pytest.param('{"a" [1, 2]}', "':' delimiter in line 1, column 6$", id="no colon"),
        pytest.param('{"a": [1], "a": [2]}', "names 'a' twice$", id="a name twice"),
        pytest.param(
            '{"a": [1] "b": [2]}',
            "',' delimiter in line 1, column 11$",
            id="no comma",
        ),
        pytest.param(
            '{"a": [1, 2], b: [3]}',
            "property name .* in line 1, column 15$",
            id="a name without quotes",
        ),
        pytest.param(
            '{"a": [[1, 2], [3]]}',
            "a list of 1 ends here, and the first one has 2",
            id="a short list",
        ),
        pytest.param(
            '{"a": [1, x]}', "line 1, column 11: 'x' is not a number$", id="a word in a list"
        ),
        pytest.param(
            '{"a": ["x"]}', "holds no list of numbers; write nested lists", id="a list of texts"
        ),
        pytest.param('{"a": tru}', "value in line 1, column 7$", id="half a word"),
        pytest.param('{"a": }', "value in line 1, column 7$", id="no value"),
        pytest.param(
            '{"\\ud800": [1]}', "is not JSON that can be read$", id="half a character as a name"
        ),
        pytest.param(
            '{"a": {"tensors": {}}}',
            "is not a .json file of tables; a .json has the form",
            id="the tables of a .json of pecli, deeper",
        ),
        pytest.param(
            '{"a": [1]} 2', "Extra data in line 1, column 12$", id="a number after the end"
        ),
        pytest.param(
            '{"a": "x', "Unterminated string .* in line 1, column 7$", id="a text that does not end"
        ),
        pytest.param(
            '{"a":' * 40 + "1" + "}" * 40,
            "is nested more than 32 levels deep$",
            id="40 objects in each other",
        ),
        pytest.param(
            '{"a": ' + '[{"a": ' * 20 + "1" + "}]" * 20 + "}",
            "is nested more than 32 levels deep$",
            id="20 lists of objects in each other",
        ),
    ],
)
def test_text_that_is_not_json_of_lists_is_refused_at_its_place(text: str, problem: str) -> None:
    """Each text has one mistake; the message names it. Columns count from 1: that of a word is where it
    begins, also if it is a bracket in the place of a colon or a value, and that of a missing end is
    behind the text.
    """
    Path("x.json").write_text(text)
    with pytest.raises(FileError, match=problem):
        pecli.load("x.json")


def test_a_c_header_of_others_is_read_with_the_names_in_it() -> None:
    """The header is pecli's, with another include guard. Names begin with that of the file, t, and
    the shortest digits that tell float32 numbers apart give every one of them back.
    """
    rope = pecli.Rope(4, 8)
    pecli.save("t.h", rope)
    _, guard, text = Path("t.h").read_text().partition("#ifndef PECLI_T_H")
    assert guard
    Path("t.h").write_text("#ifndef TABLES_H" + text)
    tensors = pecli.load("t.h")

    assert [*tensors] == ["t_cos", "t_sin", "t_inv_freq"]
    assert np.array_equal(tensors["t_cos"].astype(np.float32), rope.tables()["cos"])


@pytest.mark.parametrize("text", ["0.5 0.25\n", '{"a": [[0.5, 0.25]]}', "q = [[0.5, 0.25]]\n"])
def test_printed_text_is_read_from_standard_input(process: Callable, text: str) -> None:
    """`-` as a file name has no suffix: the text shows whether it is rows, JSON or labelled lists.
    Each text is one row of two numbers.
    """
    done = process("inspect", "-", "--json", input=text.encode())
    assert done.returncode == SUCCESS, done.stderr
    assert json.loads(done.stdout)["tensors"][0]["shape"] == [1, 2]
