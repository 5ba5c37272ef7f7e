"""Sines with the sign of the rotation folded in, [−sin | sin], as SpeechBrain and fused kernels
store them.

x · cos + swapped(x) · [−sin | sin] is the rotation. COS and SIN are NumPy's for 48 positions, 64
channels and base 10000, in both layouts of columns.
"""

from collections.abc import Callable

import numpy as np
import pytest

import pecli

ROWS = 48
DIM = 64
ANGLES = np.outer(np.arange(ROWS), 10000.0 ** (-np.arange(0, DIM, 2) / DIM))
COS = np.cos(ANGLES).astype(np.float32)
SIN = np.sin(ANGLES).astype(np.float32)
LLAMA = {
    "model_type": "llama",
    "hidden_size": 4 * DIM,
    "num_attention_heads": 4,
    "rope_theta": 10000.0,
    "max_position_embeddings": 4096,
}


def in_halves(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.concatenate([first, second], axis=-1)


def interleaved(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.stack([first, second], axis=-1).reshape(len(first), -1)


LAYOUTS = {"halves": in_halves, "interleaved": interleaved}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(ROWS, DIM), (1, ROWS, DIM), (1, 1, ROWS, DIM)])
def test_sines_with_a_folded_sign_pass_with_a_note(layout: str, shape: tuple[int, ...]) -> None:
    """Some programs store [cos | cos] and [−sin | sin], or both with columns in turn, so that x · cos
    + swapped(x) · sin is the rotation. They pass, also with axes of length 1, and are noted.
    """
    double = LAYOUTS[layout]
    tables = {"cos": double(COS, COS).reshape(shape), "sin": double(-SIN, SIN).reshape(shape)}
    result = pecli.verify(tables, pecli.Rope(ROWS, DIM, layout=layout), atol=1e-6)

    assert result.passed
    assert "the sign of the rotation is folded in" in result.readings["sin"]


def test_sines_with_a_folded_sign_pass_against_a_model() -> None:
    """Some programs store [cos | cos] and [−sin | sin], with the sign of the rotation in the sines.
    The model is a Llama, which rotates halves with base 10000.
    """
    tables = {"cos": in_halves(COS, COS), "sin": in_halves(-SIN, SIN)}
    result = pecli.verify(tables, LLAMA, atol=1e-6)

    assert result.passed
    assert "the sign of the rotation is folded in" in result.readings["sin"]


@pytest.mark.parametrize(
    ("double", "expected_layout"), [(interleaved, "halves"), (in_halves, "interleaved")]
)
def test_sines_with_a_folded_sign_in_another_layout_fail(
    double: Callable[[np.ndarray, np.ndarray], np.ndarray], expected_layout: str
) -> None:
    """The tables have columns in turn where the scheme has halves, and the other way round."""
    tables = {"cos": double(COS, COS), "sin": double(-SIN, SIN)}
    scheme = pecli.Rope(ROWS, DIM, layout=expected_layout)

    assert not pecli.verify(tables, scheme, reasons=False).passed


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sines_with_the_sign_of_the_inverse_rotation_fail(layout: str) -> None:
    """Some programs fold the sign of the rotation into the sines, as [−sin | sin], which passes;
    [sin | −sin] rotates backwards.
    """
    double = LAYOUTS[layout]
    tables = {"cos": double(COS, COS), "sin": double(SIN, -SIN)}

    assert not pecli.verify(tables, pecli.Rope(ROWS, DIM, layout=layout), reasons=False).passed


@pytest.mark.parametrize("layout", LAYOUTS)
def test_diff_names_the_inverse_rotation_of_sines_with_a_folded_sign(layout: str) -> None:
    """A has one column per frequency, and B has [sin | −sin], which rotates backwards."""
    double = LAYOUTS[layout]
    b = {"cos": double(COS, COS), "sin": double(SIN, -SIN)}
    result = pecli.diff({"cos": COS, "sin": SIN}, b)

    assert result.diagnosis == ("sin: in B, the sign is flipped; exact",)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_diff_gives_no_inverse_rotation_as_the_reason_for_sines_in_float32(layout: str) -> None:
    """A is exact, and B has [−sin | sin] of angles in float32, which is the right rotation."""
    double = LAYOUTS[layout]
    inv_freq = np.float32(10000) ** -(np.arange(0, DIM, 2, dtype=np.float32) / np.float32(DIM))
    angles = np.arange(ROWS, dtype=np.float32)[:, None] * inv_freq
    b = {"cos": double(np.cos(angles), np.cos(angles))}
    b["sin"] = double(-np.sin(angles), np.sin(angles))
    (reason,) = pecli.diff({"cos": COS, "sin": SIN}, b).diagnosis

    assert reason.startswith("cos, sin: in B, computed by the recipe float32")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_another_base_is_named_in_sines_with_a_folded_sign(layout: str) -> None:
    """The sines are stored as [−sin | sin], which is allowed; the base is 10000 where 500000 is
    expected.
    """
    double = LAYOUTS[layout]
    tables = {"cos": double(COS, COS), "sin": double(-SIN, SIN)}
    result = pecli.verify(tables, pecli.Rope(ROWS, DIM, base=5e5, layout=layout), atol=1e-6)

    assert "base is 10000 (the spec says 500000)" in result.diagnosis[0]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_cosines_with_a_sign_fail(layout: str) -> None:
    """Sines may be stored as [−sin | sin], with the sign of the rotation. Cosines have no sign:
    [−cos | cos] make no rotation.
    """
    double = LAYOUTS[layout]
    tables = {"cos": double(-COS, COS), "sin": double(SIN, SIN)}

    assert not pecli.verify(tables, pecli.Rope(ROWS, DIM, layout=layout), reasons=False).passed
