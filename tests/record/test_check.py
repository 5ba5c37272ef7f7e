"""pecli.check on implementations of a rotary encoding over NumPy: right ones pass, and mistakes are
named.

An implementation is a function of positions that returns tables, or of q, k and positions that
returns them rotated; it is called in several cases (a batch, left padding, far positions, …) and
compared with a Llama of 4 heads of 16 channels, base 10000. The right ones are NumPy's textbook
formula (`tables_by_numpy`, `rope_by_numpy`), the wrong ones have one mistake in it.
"""

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.checks.recorded.arithmetic_noise import bound_rotation_noise
from pecli.live.array_libraries import library_named, library_of

LLAMA_CONFIG = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}
DIM = 16


def tables_by_numpy(positions: Any, base: float = 10000.0) -> tuple[Any, Any]:
    angles = positions[..., None] * base ** (-np.arange(0, DIM, 2) / DIM)
    return np.cos(angles), np.sin(angles)


def rotated_by_numpy(x: Any, positions: Any) -> Any:
    return turned_halves(x, *tables_by_numpy(positions[:, None]))


def turned_halves(x: Any, cos: Any, sin: Any) -> Any:
    first = x[..., : DIM // 2]
    second = x[..., DIM // 2 :]
    both = np.concatenate((first * cos - second * sin, second * cos + first * sin), axis=-1)
    return both.astype(x.dtype)


def rope_by_numpy(q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
    return rotated_by_numpy(q, positions), rotated_by_numpy(k, positions)


def tables_of_tokens_one_after_the_other(positions: Any) -> dict[str, Any]:
    cos, sin = tables_by_numpy(positions.ravel())
    return {"cos": cos, "sin": sin}


def complex_table(positions: Any) -> Any:
    cos, sin = tables_by_numpy(positions)
    return cos + 1j * sin


class Rope:
    """A callable object."""

    def __call__(self, q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
        return rope_by_numpy(q, k, positions)


def takes_any_arguments(*args: Any) -> tuple[Any, Any]:
    return rope_by_numpy(*args)


def has_a_default(q: Any, k: Any, positions: Any, scale: int = 1) -> tuple[Any, Any]:
    return rope_by_numpy(q, k, positions)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "implementation",
    [
        pytest.param(tables_by_numpy, id="tables"),
        pytest.param(tables_of_tokens_one_after_the_other, id="tokens one after the other"),
        pytest.param(complex_table, id="complex"),
        pytest.param(rope_by_numpy, id="q, k"),
        pytest.param(rotated_by_numpy, id="x"),
        pytest.param(Rope(), id="object"),
        pytest.param(functools.partial(rope_by_numpy), id="partial"),
        pytest.param(takes_any_arguments, id="any arguments"),
        pytest.param(has_a_default, id="a default"),
    ],
)
def test_a_right_implementation_passes(implementation: Callable[..., Any]) -> None:
    """NumPy's textbook formula for the tables or the rotation of a Llama, as functions of several
    signatures, objects, and complex numbers.
    """
    result = pecli.check(implementation, LLAMA_CONFIG)
    assert result.diagnosis == ()
    assert result.passed


def test_a_rotation_is_checked_in_these_six_cases() -> None:
    """Each case shows mistakes that the others may not show, such as positions that are ignored
    (left padding) or rounded (far positions).
    """
    result = pecli.check(rope_by_numpy, LLAMA_CONFIG)
    assert [case.name for case in result.cases] == [
        "a batch",
        "left padding",
        "decoding at an offset",
        "far positions",
        "float16",
        "float16, far positions",
    ]


def counts_from_0(q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
    return rope_by_numpy(q, k, np.arange(q.shape[-2])[None])


def uses_positions_of_the_first_sequence(q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
    return rope_by_numpy(q, k, positions[:1])


def does_not_rotate_keys(q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
    return rotated_by_numpy(q, positions), k


def rotates_neighbours(q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
    cos, sin = tables_by_numpy(positions[:, None])

    def turned(x: Any) -> Any:
        first = x[..., 0::2] * cos - x[..., 1::2] * sin
        second = x[..., 1::2] * cos + x[..., 0::2] * sin
        return np.stack((first, second), axis=-1).reshape(x.shape).astype(x.dtype)

    return turned(q), turned(k)


def rounds_positions_to_float16(q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
    return rope_by_numpy(q, k, positions.astype(np.float16))


def rounds_positions_to_dtype_of_q(q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
    return rope_by_numpy(q, k, positions.astype(q.dtype))


def computes_phases_in_dtype_of_q(q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
    frequencies = (10000.0 ** (-np.arange(0, DIM, 2) / DIM)).astype(q.dtype)
    angles = positions[:, None, :, None].astype(q.dtype) * frequencies
    cos = np.cos(angles.astype(np.float32))
    sin = np.sin(angles.astype(np.float32))
    return turned_halves(q, cos, sin), turned_halves(k, cos, sin)


def returns_only_q(q: Any, k: Any, positions: Any) -> Any:
    return q


def returns_one_sequence_of_q(q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
    return q[:1], k


def returns_nothing(positions: Any) -> None:
    return None


def raises_an_error(q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
    raise RuntimeError("no kernel for this")


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("implementation", "first_failed_case", "reason"),
    [
        pytest.param(
            counts_from_0, "left padding", "left padding is ignored", id="ignores positions"
        ),
        pytest.param(
            uses_positions_of_the_first_sequence,
            "left padding",
            "sequence 1",
            id="first sequence only",
        ),
        pytest.param(does_not_rotate_keys, "a batch", "k: ", id="keys are not rotated"),
        pytest.param(
            rotates_neighbours, "a batch", "layout is interleaved", id="neighbours, not halves"
        ),
        pytest.param(
            functools.partial(tables_by_numpy, base=500000.0),
            "a batch",
            "base is 500000",
            id="base 500000 instead of 10000",
        ),
        pytest.param(rounds_positions_to_float16, "far positions", "", id="positions in float16"),
        pytest.param(
            rounds_positions_to_dtype_of_q,
            "float16, far positions",
            "",
            id="positions in float16 if queries are",
        ),
        pytest.param(
            computes_phases_in_dtype_of_q,
            "float16, far positions",
            "",
            id="phases in float16 if queries are",
        ),
        pytest.param(
            raises_an_error,
            "a batch",
            "it raised RuntimeError: no kernel for this",
            id="raises an error",
        ),
        pytest.param(returns_only_q, "a batch", "it must be q, k", id="one result"),
        pytest.param(
            returns_one_sequence_of_q, "a batch", "it was given with shape", id="another shape"
        ),
        pytest.param(returns_nothing, "a batch", "a table holds numbers", id="nothing"),
    ],
)
def test_a_mistake_is_named_with_the_first_case_that_shows_it(
    implementation: Callable[..., Any], first_failed_case: str, reason: str
) -> None:
    """A Llama's rotation with one mistake. One that counts positions from 0, for example, is right
    in a batch, and fails with «left padding is ignored» in the case that has padding.
    """
    result = pecli.check(implementation, LLAMA_CONFIG)

    assert not result
    assert result.diagnosis[0].startswith(f"{first_failed_case}: ")
    assert reason in "\n".join(result.diagnosis)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("base", [1e4, 1e6])
def test_a_right_rotation_in_half_precision_at_far_positions_is_within_its_bound(
    dtype: Any, base: float
) -> None:
    """As transformers computes it: angles, cosines and sines in float32, then cosines, sines, both
    products and their sum rounded to the dtype. The exact rotation is NumPy's in float64.
    """
    before = np.random.default_rng(0).standard_normal((4, 4, 128)).astype(dtype)
    first, second = np.split(before, 2, axis=-1)
    positions = np.arange(4092, 4096)[:, None]
    exponents = np.arange(0, 128, 2, dtype=np.float32) / np.float32(128)
    angles = positions.astype(np.float32) / np.float32(base) ** exponents
    cos = np.cos(angles).astype(dtype)
    sin = np.sin(angles).astype(dtype)
    after = np.concatenate((first * cos - second * sin, second * cos + first * sin), axis=-1)
    exact_turn = np.exp(1j * positions * base ** (-np.arange(64) / 64))
    exact = (first.astype(float) + 1j * second.astype(float)) * exact_turn
    errors = np.abs(after.astype(float) - np.concatenate((exact.real, exact.imag), axis=-1))

    assert errors.max() <= bound_rotation_noise(before, after, last_position=4095)


def test_the_diagnosis_ends_with_the_cases_that_are_right() -> None:
    """`counts_from_0` ignores the positions that it is given, which makes no difference in the two
    cases whose positions begin at 0.
    """
    result = pecli.check(counts_from_0, LLAMA_CONFIG, reasons=False)
    assert result.diagnosis[-1] == "right are: a batch; float16"


def test_raise_if_failed_raises_an_assertion_error() -> None:
    """So that a check can be a test: `counts_from_0` ignores the positions that it is given, which
    are not 0, 1, … with left padding.
    """
    with pytest.raises(AssertionError, match="left padding"):
        pecli.check(counts_from_0, LLAMA_CONFIG, reasons=False).raise_if_failed()


def tables_of_the_first_sequence(positions: Any) -> tuple[Any, Any]:
    return tables_by_numpy(positions[0])


def test_tables_without_a_row_for_each_token_are_not_taken_for_those_of_a_batch() -> None:
    """Two sequences of 16 positions have 32 tokens; the tables have 16 rows, which no reshaping
    divides among them.
    """
    result = pecli.check(tables_of_the_first_sequence, LLAMA_CONFIG)
    assert "positions is of shape (2, 16)" in result.cases[0].error


def test_a_result_is_printed_case_by_case() -> None:
    """`counts_from_0` ignores the positions that it is given, which makes no difference in a batch,
    where they begin at 0.
    """
    text = str(pecli.check(counts_from_0, LLAMA_CONFIG, reasons=False))
    assert text.splitlines()[0] == "FAILED  counts_from_0  against config"
    assert "a batch                 passed  max error" in text


def test_json_has_the_error_that_a_case_raised() -> None:
    """`raises_an_error` raises «no kernel for this» in every case, so that there are no numbers
    whose error could be measured.
    """
    fields = pecli.check(raises_an_error, LLAMA_CONFIG, reasons=False).as_json()
    first_case = fields["cases"][0]

    assert not fields["passed"]
    assert first_case["max_abs_error"] is None
    assert "no kernel" in first_case["error"]


def test_an_implementation_that_rotates_in_place_passes() -> None:
    """The function gets copies of q and k, and may overwrite them."""

    def in_place(q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
        q[...] = rotated_by_numpy(q, positions)
        k[...] = rotated_by_numpy(k, positions)
        return q, k

    assert pecli.check(in_place, LLAMA_CONFIG)


def test_a_model_with_several_layer_types_needs_the_one_to_check() -> None:
    """Gemma 3 has sliding and full attention, with a base each."""
    with pytest.raises(pecli.ParameterError, match="layer_type is missing"):
        pecli.check(rope_by_numpy, "gemma-3-1b")


@pytest.mark.thorough
def test_an_implementation_passes_only_against_its_own_layer_type() -> None:
    """Sliding layers of Gemma 3 have base 10000 and heads of 256 channels, thus 128 frequencies;
    full attention has base 1000000.
    """

    def sliding(positions: Any) -> tuple[Any, Any]:
        angles = positions[..., None] * 10000.0 ** (-np.arange(128) / 128)
        return np.cos(angles), np.sin(angles)

    assert pecli.check(sliding, "gemma-3-1b", layer_type="sliding_attention")
    assert not pecli.check(sliding, "gemma-3-1b", layer_type="full_attention", reasons=False)


def test_a_larger_tolerance_of_the_caller_lets_a_mistake_pass() -> None:
    """The implementation rounds positions to float16, which is wrong beyond 2048. All values of
    queries and keys are below 10, so that the tolerance of 10 allows everything.
    """
    assert not pecli.check(rounds_positions_to_float16, LLAMA_CONFIG, reasons=False)
    assert pecli.check(rounds_positions_to_float16, LLAMA_CONFIG, atol=10.0, reasons=False)


@pytest.mark.parametrize(
    ("function", "model", "problem"),
    [
        pytest.param(3, LLAMA_CONFIG, "it must be a function", id="a number"),
        pytest.param(
            lambda a, b, c, d: a, LLAMA_CONFIG, "a function of 4 arguments", id="4 arguments"
        ),
        pytest.param(lambda: 0, LLAMA_CONFIG, "a function of 0 arguments", id="no arguments"),
        pytest.param(
            rope_by_numpy, "gpt2", "its encoding is learned, not rope", id="a model without rope"
        ),
    ],
)
def test_functions_and_models_that_cannot_be_checked_are_refused(
    function: Any, model: Any, problem: str
) -> None:
    """A function takes positions, one vector and positions, or q, k and positions; GPT-2 rotates
    nothing.
    """
    with pytest.raises(pecli.ParameterError, match=problem):
        pecli.check(function, model)


@pytest.mark.parametrize(
    "function", [rope_by_numpy, Rope(), np.cos, functools.partial(rope_by_numpy), len]
)
def test_functions_without_another_library_get_numpy_arrays(function: Any) -> None:
    """Functions of this module, objects, and functions in C name no other library of arrays."""
    assert library_of(function).name == "numpy"


def test_a_library_that_is_not_imported_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pecli.check` imports no library by itself."""
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    with pytest.raises(pecli.ParameterError, match="import jax first"):
        library_named("jax")


def test_an_unknown_library_of_arrays_is_refused() -> None:
    """TensorFlow is none of the libraries whose arrays `pecli.check` can make."""
    with pytest.raises(pecli.ParameterError, match="arrays is 'tensorflow'"):
        pecli.check(rope_by_numpy, LLAMA_CONFIG, arrays="tensorflow")


def calls_a_method_of_torch(q: Any, k: Any, positions: Any) -> Any:
    return q.to(k.dtype), k.to(q.dtype)


def test_an_exception_of_the_function_is_an_error_with_the_arrays_that_it_got() -> None:
    """The function names no library, so that it gets NumPy's arrays, which have no method `to`."""
    error = pecli.check(calls_a_method_of_torch, LLAMA_CONFIG).cases[0].error

    assert "it raised AttributeError" in error
    assert error.endswith("arrays were those of numpy; `arrays` names another library")


def test_the_library_of_a_function_is_found_by_a_module_that_it_uses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The function uses the global name `jnp`, the module jax.numpy, so that it gets arrays of JAX.
    The module is an empty stand-in here, because the function is not called to find its library.
    """
    monkeypatch.setitem(sys.modules, "jax", ModuleType("jax"))
    monkeypatch.setitem(globals(), "jnp", ModuleType("jax.numpy"))

    def rotate_with_jax(q: Any, k: Any, positions: Any) -> Any:
        return jnp.cos(positions)  # type: ignore[name-defined] # noqa: F821

    assert library_of(rotate_with_jax).name == "jax"


FAKE_JAX_NUMPY: Any = ModuleType("jax.numpy")
"""An empty module in the place of jax.numpy: no function below is called."""


def names_the_module(x: Any) -> Any:
    return FAKE_JAX_NUMPY.cos(x)


def calls_another_function(x: Any) -> Any:
    return names_the_module(x)


def with_the_module_in_its_closure(module: Any) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        return module.cos(x)

    return function


@functools.wraps(names_the_module)
def decorated(x: Any) -> Any:
    """Use NumPy; `functools.wraps` keeps the function that was decorated as `__wrapped__`."""
    return np.cos(x)


def imports_jax_in_its_body(x: Any) -> Any:
    import jax

    return jax.cos(x)


class ModuleOfTorch:
    """Calling a module of torch runs its `forward`, by way of code that names no library."""

    def forward(self, x: Any) -> Any:
        return FAKE_JAX_NUMPY.cos(x)

    def __call__(self, x: Any) -> Any:
        raise NotImplementedError


class CallableObject:
    def __call__(self, x: Any) -> Any:
        return FAKE_JAX_NUMPY.cos(x)

    def method(self, x: Any) -> Any:
        return FAKE_JAX_NUMPY.cos(x)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(names_the_module, id="names a module"),
        pytest.param(with_the_module_in_its_closure(FAKE_JAX_NUMPY), id="module in its closure"),
        pytest.param(calls_another_function, id="calls a function that does"),
        pytest.param(lambda x: names_the_module(x), id="a lambda"),
        pytest.param(functools.partial(names_the_module), id="a partial call"),
        pytest.param(decorated, id="what a decorator wraps"),
        pytest.param(imports_jax_in_its_body, id="import in the body"),
        pytest.param(CallableObject(), id="__call__ of an object"),
        pytest.param(CallableObject().method, id="a method"),
        pytest.param(ModuleOfTorch(), id="forward of a module"),
    ],
)
def test_the_library_of_a_callable_is_found_in_the_code_that_it_runs(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pecli.check` calls a function with arrays of the library that its code uses, here JAX, which
    its caller has imported: `jax` is in `sys.modules`.
    """
    monkeypatch.setitem(sys.modules, "jax", ModuleType("jax"))
    assert library_of(function).name == "jax"
