"""The name of a tensor or file that has both functions states their order: `sin_cos`,
`cos_sin_cache`.

The tables are Llama 2's (48 positions, 128 channels, base 10000), joined side by side, interleaved
or stacked. `weak` are remarks on a pass that proves little.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import pecli
from pecli.files.tensor_roles import function_order

ROPE = pecli.Rope(48, 128)
LLAMA_2_7B = "llama-2-7b"
COS = ROPE.tables()["cos"]
SIN = ROPE.tables()["sin"]
Join = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Makes one array of two tables."""
MODEL_OR_SCHEME = {"a model": LLAMA_2_7B, "a scheme": ROPE}


def side_by_side(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.concatenate([first, second], axis=-1)


def interleaved(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.stack([first, second], axis=-1).reshape(len(first), -1)


def stacked(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.stack([first, second])


WAYS_TO_JOIN_TWO_FUNCTIONS = [side_by_side, interleaved, stacked]


@pytest.mark.parametrize("form", WAYS_TO_JOIN_TWO_FUNCTIONS)
@pytest.mark.parametrize("spec", MODEL_OR_SCHEME)
@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("sin_cos", SIN, COS),
        ("sincos", SIN, COS),
        ("rotary_emb.sin_cos_cached", SIN, COS),
        ("sin-cos", SIN, COS),
        ("cos_sin", COS, SIN),
        ("rope.cos_sin_cache", COS, SIN),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.sample(6)
def test_functions_in_the_order_of_the_name_pass_and_in_the_other_fail(
    form: Join, spec: str, name: str, first: np.ndarray, second: np.ndarray
) -> None:
    """`sin_cos`, `sincos` and the like promise sines first, `cos_sin` and `cos_sin_cache` cosines.
    The tables are joined side by side, in turn, or stacked.
    """
    right = pecli.verify({name: form(first, second)}, MODEL_OR_SCHEME[spec])

    assert right.passed
    assert not right.weak
    assert not pecli.verify(
        {name: form(second, first)}, MODEL_OR_SCHEME[spec], reasons=False
    ).passed


@pytest.mark.parametrize("form", WAYS_TO_JOIN_TWO_FUNCTIONS)
@pytest.mark.parametrize("spec", MODEL_OR_SCHEME)
@pytest.mark.parametrize("name", ["x", "sinusoids", "positions"])
@pytest.mark.sample(5)
def test_sines_first_without_a_name_that_states_it_pass_weakly(
    form: Join, spec: str, name: str
) -> None:
    """The name «sinusoids» states no order, and most programs put cosines first. Sines before
    cosines pass, with a remark about the assumption.
    """
    result = pecli.verify({name: form(SIN, COS)}, MODEL_OR_SCHEME[spec])
    assert result.passed
    assert any("sines come before cosines" in line for line in result.weak)


@pytest.mark.parametrize("spec", MODEL_OR_SCHEME)
@pytest.mark.parametrize(("table", "function"), [(COS, "cosines"), (SIN, "sines")])
def test_one_function_stacked_twice_without_a_name_is_a_weak_pass(
    spec: str, table: np.ndarray, function: str
) -> None:
    """np.stack([cos, cos]) in place of np.stack([cos, sin]) has the shape (2, L, D) of a batch of two
    equal tables, as which it passes.
    """
    result = pecli.verify(np.stack([table, table]), MODEL_OR_SCHEME[spec])
    assert result.passed
    assert any(f"2 × the same {function}" in line for line in result.weak)


@pytest.mark.parametrize("spec", MODEL_OR_SCHEME)
def test_a_batch_of_two_equal_tables_that_are_named_passes(spec: str) -> None:
    """The names state that `rope.cos` (2, L, D) holds cosines only, and `rope.sin` sines."""
    batch = {"rope.cos": np.stack([COS, COS]), "rope.sin": np.stack([SIN, SIN])}
    result = pecli.verify(batch, MODEL_OR_SCHEME[spec])
    assert result.passed
    assert not result.weak


@pytest.mark.parametrize("spec", MODEL_OR_SCHEME)
def test_a_batch_of_three_equal_tables_without_a_name_passes(spec: str) -> None:
    """An array (3, L, D) cannot be meant as stacked cosines and sines."""
    result = pecli.verify(np.stack([COS, COS, COS]), MODEL_OR_SCHEME[spec])
    assert result.passed
    assert not result.weak


@pytest.mark.parametrize("spec", MODEL_OR_SCHEME)
def test_pairs_of_two_cosines_fail(spec: str) -> None:
    """np.stack([cos, cos], axis=-1), (L, D, 2), has a last axis of cosines and sines, and no batch."""
    pairs = np.stack([COS, COS], axis=-1)
    assert not pecli.verify(pairs, MODEL_OR_SCHEME[spec], reasons=False).passed


def test_complex_numbers_have_cosines_first_under_any_name() -> None:
    """The name sin_cos promises sines first, but the numbers are cos + i·sin, whose real part is
    the cosine.
    """
    assert pecli.verify({"sin_cos": COS + 1j * SIN}, LLAMA_2_7B).passed


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("sin_and_cos", ("sin", "cos")),
        ("layers.0.cosines_sines", ("cos", "sin")),
        ("basin_cos", None),
        ("sin.cos", None),
    ],
)
def test_the_order_of_functions_is_read_from_whole_words_of_a_name(
    name: str, order: tuple[str, str] | None
) -> None:
    """«sin_and_cos» and «cosines_sines» state an order. «basin_cos» contains «sin» only inside a
    word, and «sin.cos» is a path, a tensor «cos» of «sin»: both state none.
    """
    assert function_order(name) == order


@pytest.mark.parametrize("form", WAYS_TO_JOIN_TWO_FUNCTIONS)
@pytest.mark.parametrize("spec", MODEL_OR_SCHEME)
@pytest.mark.parametrize("stem", ["sin_cos", "rope-sin-cos", "layer0.sincos"])
@pytest.mark.sample(5)
def test_the_name_of_a_file_states_the_order_of_its_functions(
    form: Join, spec: str, stem: str, tmp_path: Path
) -> None:
    """A .npy file holds one array without a name. Called `sin_cos.npy` or the like, it passes with
    sines first, without a remark, and fails with cosines first.
    """
    path = tmp_path / f"{stem}.npy"
    np.save(path, form(SIN, COS))
    right = pecli.verify(path, MODEL_OR_SCHEME[spec])

    assert right.passed
    assert not right.weak

    np.save(path, form(COS, SIN))
    assert not pecli.verify(path, MODEL_OR_SCHEME[spec], reasons=False).passed
