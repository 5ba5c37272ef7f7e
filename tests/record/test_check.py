"""pecli.check on implementations of a rotary encoding over NumPy: right ones pass, and mistakes are
named.

An implementation is a function of positions that returns tables, or of q, k and positions that
returns them rotated; it is called in several cases (a batch, left padding, far positions, …) and
compared with a Llama of 4 heads of 16 channels, base 10000. The right ones are NumPy's textbook
formula (`tables`, `rope`), the wrong ones have one mistake in it.
"""

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.live.array_libraries import library_named, library_of

LLAMA_CONFIG = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}
DIM = 16


def tables(positions: Any, base: float = 10000.0) -> tuple[Any, Any]:
    angles = positions[..., None] * base ** (-np.arange(0, DIM, 2) / DIM)
    return np.cos(angles), np.sin(angles)


def rotated(x: Any, positions: Any) -> Any:
    cos, sin = tables(positions[:, None])
    first = x[..., : DIM // 2]
    second = x[..., DIM // 2 :]
    both = np.concatenate((first * cos - second * sin, second * cos + first * sin), axis=-1)
    return both.astype(x.dtype)


def rope(q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
    return rotated(q, positions), rotated(k, positions)


def one_after_the_other(positions: Any) -> dict[str, Any]:
    cos, sin = tables(positions.ravel())
    return {"cos": cos, "sin": sin}


def complex_table(positions: Any) -> Any:
    cos, sin = tables(positions)
    return cos + 1j * sin


class Rope:
    """A callable object."""

    def __call__(self, q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
        return rope(q, k, positions)


def any_arguments(*args: Any) -> tuple[Any, Any]:
    return rope(*args)


RIGHT_DUMPS: dict[str, Callable[..., Any]] = {
    "tables": tables,
    "tokens one after the other": one_after_the_other,
    "complex": complex_table,
    "q, k": rope,
    "x": rotated,
    "object": Rope(),
    "partial": functools.partial(rope),
    "any": any_arguments,
    "defaults": lambda q, k, positions, scale=1: rope(q, k, positions),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", RIGHT_DUMPS)
def test_a_right_implementation_passes(name: str) -> None:
    """Tables and rotations by NumPy, as functions of several signatures, objects, and complex
    numbers.
    """
    result = pecli.check(RIGHT_DUMPS[name], LLAMA_CONFIG)
    assert result.diagnosis == ()
    assert result.passed


def test_a_rotation_is_checked_in_these_five_cases() -> None:
    """Each case shows mistakes that the others may not show."""
    names = [case.name for case in pecli.check(rope, LLAMA_CONFIG).cases]
    padding_to_far = ["left padding", "decoding at an offset", "far positions"]

    assert names == ["a batch", *padding_to_far, "float16"]


def counted(q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
    return rope(q, k, np.arange(q.shape[-2])[None])


def first_sequence(q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
    return rope(q, k, positions[:1])


def keys_left(q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
    return rotated(q, positions), k


def interleaved(q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
    cos, sin = tables(positions[:, None])

    def turned(x: Any) -> Any:
        first = x[..., 0::2] * cos - x[..., 1::2] * sin
        second = x[..., 1::2] * cos + x[..., 0::2] * sin
        return np.stack((first, second), axis=-1).reshape(x.shape).astype(x.dtype)

    return turned(q), turned(k)


def half_angles(q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
    return rope(q, k, positions.astype(np.float16))


def raises(q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
    raise RuntimeError("no kernel for this")


WRONG_DUMPS: dict[str, tuple[Callable[..., Any], str, str]] = {
    "ignores positions": (counted, "left padding", "left padding is ignored"),
    "first sequence only": (first_sequence, "left padding", "sequence 1"),
    "keys left": (keys_left, "a batch", "k: "),
    "layout": (interleaved, "a batch", "layout is interleaved"),
    "base": (functools.partial(tables, base=500000.0), "a batch", "base is 500000"),
    "half precision": (half_angles, "far positions", ""),
    "raises": (raises, "a batch", "it raised RuntimeError: no kernel for this"),
    "one result": (lambda q, k, positions: q, "a batch", "it must be q, k"),
    "shape": (lambda q, k, positions: (q[:1], k), "a batch", "it was given with shape"),
    "nothing": (lambda positions: None, "a batch", "a table holds numbers"),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", WRONG_DUMPS)
def test_a_mistake_is_named_with_its_case(name: str) -> None:
    """Each function of WRONG_DUMPS has one mistake, the first case that shows it, and words of the
    reason: one that counts positions from 0 is right in a batch, and fails with «left padding is
    ignored».
    """
    function, case, reason = WRONG_DUMPS[name]
    result = pecli.check(function, LLAMA_CONFIG)

    assert not result
    assert result.diagnosis[0].startswith(f"{case}: ")
    assert reason in "\n".join(result.diagnosis)


def test_cases_that_are_right_are_named() -> None:
    """`counted` ignores the positions that it is given, which a batch from 0 on does not show."""
    result = pecli.check(counted, LLAMA_CONFIG, reasons=False)
    assert result.diagnosis[-1] == "right are: a batch; float16"


def test_a_failed_check_fails_a_test() -> None:
    """raise_if_failed raises an AssertionError; `counted` ignores the positions that it is given."""
    with pytest.raises(AssertionError, match="left padding"):
        pecli.check(counted, LLAMA_CONFIG, reasons=False).raise_if_failed()


def test_a_result_is_printed_case_by_case() -> None:
    """`counted` ignores the positions that it is given, which a batch from 0 on does not show."""
    text = str(pecli.check(counted, LLAMA_CONFIG, reasons=False))
    assert text.splitlines()[0] == "FAILED  counted  against config"
    assert "a batch                passed  max error" in text


def test_json_has_the_cases() -> None:
    """`raises` raises an error in every case, so that no error of numbers is measured."""
    fields = pecli.check(raises, LLAMA_CONFIG, reasons=False).as_json()
    assert not fields["passed"]
    assert fields["cases"][0]["max_abs_error"] is None
    assert "no kernel" in fields["cases"][0]["error"]


def test_a_function_may_overwrite_its_arguments() -> None:
    """It gets copies, so that the rotation in place passes."""

    def in_place(q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
        q[...] = rotated(q, positions)
        k[...] = rotated(k, positions)
        return q, k

    assert pecli.check(in_place, LLAMA_CONFIG)


def test_a_layer_type_is_needed_if_there_are_several() -> None:
    """Gemma 3 has sliding and full attention, with a base each."""
    with pytest.raises(pecli.ParameterError, match="layer_type is missing"):
        pecli.check(rope, "gemma-3-1b")


@pytest.mark.thorough
def test_only_the_layer_type_of_the_implementation_passes() -> None:
    """Sliding layers of Gemma 3 have base 10000 and heads of 256."""

    def sliding(positions: Any) -> tuple[Any, Any]:
        angles = positions[..., None] * 10000.0 ** (-np.arange(128) / 128)
        return np.cos(angles), np.sin(angles)

    assert pecli.check(sliding, "gemma-3-1b", layer_type="sliding_attention")
    assert not pecli.check(sliding, "gemma-3-1b", layer_type="full_attention", reasons=False)


def test_the_caller_may_give_a_larger_tolerance() -> None:
    """Positions in float16 are wrong beyond 2048; all values are below 10."""
    assert not pecli.check(half_angles, LLAMA_CONFIG, reasons=False)
    assert pecli.check(half_angles, LLAMA_CONFIG, atol=10.0, reasons=False)


@pytest.mark.parametrize(
    ("function", "model", "problem"),
    [
        (3, LLAMA_CONFIG, "it must be a function"),
        (lambda a, b, c, d: a, LLAMA_CONFIG, "a function of 4 arguments"),
        (lambda: 0, LLAMA_CONFIG, "a function of 0 arguments"),
        (rope, "gpt2", "its encoding is learned, not rope"),
    ],
)
def test_functions_and_models_that_cannot_be_checked_are_refused(
    function: Any, model: Any, problem: str
) -> None:
    """A number, functions of 4 or no arguments, and GPT-2, which rotates nothing."""
    with pytest.raises(pecli.ParameterError, match=problem):
        pecli.check(function, model)


@pytest.mark.parametrize("function", [rope, Rope(), np.cos, functools.partial(rope), len])
def test_functions_without_another_library_get_numpy_arrays(function: Any) -> None:
    """Functions of this module, objects, and functions in C name no other library of arrays."""
    assert library_of(function).name == "numpy"


def test_a_library_that_is_not_imported_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """check imports no library by itself."""
    monkeypatch.delitem(__import__("sys").modules, "jax", raising=False)
    with pytest.raises(pecli.ParameterError, match="import jax first"):
        library_named("jax")


def test_a_library_of_another_name_is_refused() -> None:
    with pytest.raises(pecli.ParameterError, match="arrays is 'tensorflow'"):
        pecli.check(rope, LLAMA_CONFIG, arrays="tensorflow")


def test_the_library_of_a_function_is_found_by_a_module_that_it_uses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`jnp` is a module, which cannot be called, and `jnp.cos` is not called before the check."""
    library = ModuleType("jax")
    monkeypatch.setitem(sys.modules, "jax", library)
    monkeypatch.setitem(globals(), "jnp", ModuleType("jax.numpy"))

    def turned(q: Any, k: Any, positions: Any) -> Any:
        return jnp.cos(positions)  # type: ignore[name-defined] # noqa: F821

    assert library_of(turned).name == "jax"


def _users_of(jnp: ModuleType) -> dict[str, Callable[..., Any]]:
    """Return callables whose code uses a module, each in another way."""

    def turned(x: Any) -> Any:
        return jnp.cos(x)

    @functools.wraps(rope)
    def wrapped(x: Any) -> Any:
        return np.cos(x)

    wrapped.__wrapped__ = turned  # type: ignore[attr-defined]

    class TorchModule:
        """Calling a module of torch runs its `forward`."""

        def forward(self, x: Any) -> Any:
            return jnp.cos(x)

        def __call__(self, x: Any) -> Any:
            raise NotImplementedError

    class CallableObject:
        def __call__(self, x: Any) -> Any:
            return jnp.cos(x)

        def method(self, x: Any) -> Any:
            return jnp.cos(x)

    def imports_it(x: Any) -> Any:
        import jax

        return jax.cos(x)

    return {
        "a variable": turned,
        "a function that is called": lambda x: turned(x),
        "what a decorator wraps": wrapped,
        "forward of a module": TorchModule(),
        "an object": CallableObject(),
        "a method": CallableObject().method,
        "a partial call": functools.partial(turned),
        "an import in the body": imports_it,
    }


@pytest.mark.parametrize("use", _users_of(ModuleType("jax.numpy")))
def test_the_library_of_a_callable_is_found_in_the_code_that_it_runs(
    use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`jax` stands for a library that somebody has imported."""
    monkeypatch.setitem(sys.modules, "jax", ModuleType("jax"))
    function = _users_of(ModuleType("jax.numpy"))[use]

    assert library_of(function).name == "jax"
