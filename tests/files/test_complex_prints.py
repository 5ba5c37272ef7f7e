"""Complex numbers in text: tables cos + i·sin as Python programs print them.

Meta's Llama, DeepSeek's and Flux's code hold `freqs_cis`, complex numbers of one position per row.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import pecli
from pecli.errors import FileError
from pecli.files.load import load_file

pytestmark = pytest.mark.usefixtures("working_folder")

FREQUENCIES = 10000.0 ** -(np.arange(4) / 4)
TURNS = np.exp(1j * np.arange(16)[:, None] * FREQUENCIES)
"""The table of positions 0 … 15 and a head of 8 channels, base 10000: complex128 (16, 4)."""
PRINT_OF_TORCH = """\
freqs_cis: tensor([[ 1.0000+0.0000j,  1.0000+0.0000j,  1.0000+0.0000j,  1.0000+0.0000j],
        [ 0.5403+0.8415j,  0.9950+0.0998j,  0.9999+0.0100j,  1.0000+0.0010j],
        [-0.4161+0.9093j,  0.9801+0.1987j,  0.9998+0.0200j,  1.0000+0.0020j],
        [-0.9900+0.1411j,  0.9553+0.2955j,  0.9996+0.0300j,  1.0000+0.0030j],
        [-0.6536-0.7568j,  0.9211+0.3894j,  0.9992+0.0400j,  1.0000+0.0040j],
        [ 0.2837-0.9589j,  0.8776+0.4794j,  0.9988+0.0500j,  1.0000+0.0050j],
        [ 0.9602-0.2794j,  0.8253+0.5646j,  0.9982+0.0600j,  1.0000+0.0060j],
        [ 0.7539+0.6570j,  0.7648+0.6442j,  0.9976+0.0699j,  1.0000+0.0070j]])
"""
"""What torch 2.15 prints of the first eight rows, in complex64."""


def read_text(text: str) -> dict[str, np.ndarray]:
    """Return the tensors that pecli reads from a text, by their names."""
    Path("print.txt").write_text(text)
    return dict(load_file("print.txt").tensors)


@pytest.mark.parametrize(
    "printed",
    [
        pytest.param(repr, id="repr of NumPy"),
        pytest.param(lambda table: repr(table.tolist()), id="lists of Python"),
    ],
)
def test_complex_numbers_that_are_printed_with_all_digits_are_read_exactly(
    printed: Callable[[np.ndarray], str],
) -> None:
    """The text is what NumPy and Python themselves print, with as many digits as float64 needs."""
    with np.printoptions(precision=20):
        text = printed(TURNS)
    np.testing.assert_array_equal(read_text(text)["array"], TURNS)


def test_a_complex_table_that_torch_prints_passes_within_its_four_decimals() -> None:
    Path("print.txt").write_text(PRINT_OF_TORCH)
    assert pecli.verify("print.txt", pecli.Rope(8, 8))


def test_a_wrong_base_is_named_in_a_complex_table_that_torch_prints() -> None:
    """The print has base 10000, and the spec has 500000."""
    Path("print.txt").write_text(PRINT_OF_TORCH)
    verification = pecli.verify("print.txt", pecli.Rope(8, 8, theta=500000))
    assert "base is 10000 (the spec says 500000)" in verification.diagnosis[0]


def test_diff_allows_for_the_rounding_of_both_parts_of_printed_complex_numbers() -> None:
    """Each part is off by up to 5e-5, and a number by up to √2 times as much.

    The largest error is 6.5e-5: at position 7, the third number is 0.99755 + 0.06994i.
    """
    Path("print.txt").write_text(PRINT_OF_TORCH)
    np.save("exact.npy", TURNS[:8])
    assert pecli.diff("print.txt", "exact.npy")


def test_diff_finds_a_wrong_decimal_in_a_printed_complex_number() -> None:
    """0.5403 + 0.8415i is changed to 0.5403 + 0.8413i: 2e-4 is more than rounding explains."""
    Path("print.txt").write_text(PRINT_OF_TORCH.replace("0.5403+0.8415j", "0.5403+0.8413j"))
    np.save("exact.npy", TURNS[:8])
    assert not pecli.diff("print.txt", "exact.npy")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("[1.+0.j  0.5       -0.25j]", [1, 0.5 - 0.25j], id="padded by NumPy"),
        pytest.param("[1e-05-2.5e+03j, 3+0j]", [1e-05 - 2.5e03j, 3], id="with exponents"),
        pytest.param("((1+0j), (0.5+2j))", [[1, 0.5 + 2j]], id="in parentheses of Python"),
        pytest.param("[nan+nanj, inf+0j]", [complex("nan+nanj"), complex("inf+0j")], id="nan, inf"),
        pytest.param("1+0j 0.5+2j\n0-1j 3+1j", [[1, 0.5 + 2j], [-1j, 3 + 1j]], id="plain rows"),
        pytest.param("[1+0j 2+0j]\n[3-1j 4+1j]", [[1, 2], [3 - 1j, 4 + 1j]], id="a list per line"),
        pytest.param("z[0] = 1+0j 2+5j\nz[1] = 3+0j 4+0j", [[1, 2 + 5j], [3, 4]], id="named rows"),
        pytest.param("z[0][0] = 1+0j\nz[0][1] = 2-1j", [1, 2 - 1j], id="named elements"),
    ],
)
def test_complex_numbers_are_read_in_every_form_of_text(text: str, expected: list[object]) -> None:
    (tensor,) = read_text(text).values()
    np.testing.assert_array_equal(tensor, np.array(expected, np.complex128))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("[1.0, 2.0+3.0j]", "holds real and complex numbers in one tensor", id="real"),
        pytest.param(
            "[1.0+2j, -3j]", "line 1, column 10: '-3j' is not a number", id="no real part"
        ),
        pytest.param("[1+2i]", "line 1, column 2: '1+2i' is not a number", id="other languages"),
    ],
)
def test_texts_that_are_not_all_complex_numbers_are_refused(text: str, message: str) -> None:
    with pytest.raises(FileError, match=message.replace("+", r"\+")):
        read_text(text)


def test_pairs_in_parentheses_are_the_real_channels_of_a_row() -> None:
    """C++ prints complex numbers so, and a loop in C may print the two channels of each pair of a query
    in the same way. Queries are real, and a table is also checked as cosines beside sines.
    """
    tensors = read_text("(0.54,0.84) (0.99,0.1)\n(1,0) (0.5,0.25)\n")
    assert tensors["array"].tolist() == [[0.54, 0.84, 0.99, 0.1], [1, 0, 0.5, 0.25]]


def test_real_and_complex_tensors_may_stand_in_one_text() -> None:
    tensors = read_text("freqs_cis: [[1+0j, 0.5-0.25j]]\nq = [[1.5, 2.0]]\n")
    assert {name: tensor.dtype.name for name, tensor in tensors.items()} == {
        "freqs_cis": "complex128",
        "q": "float64",
    }
