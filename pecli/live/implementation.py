"""`pecli.check`: call an implementation of a rotary encoding, and compare what it returns."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pecli.checks import Answer
from pecli.checks.recorded.arithmetic_noise import bound_rotation_noise, bound_table_noise
from pecli.checks.verification import Verification
from pecli.checks.verify.against_model import verify_tables
from pecli.checks.verify.rotated import verify_rotated
from pecli.compare.tolerance import EXACT, Tolerance, tolerance_of
from pecli.engine.arguments import flag_of, function_of, text_of, within_limits
from pecli.engine.arrays import Array, Indices, as_dtype, as_numpy, numbers
from pecli.engine.named_values import JsonObject
from pecli.errors import KindError, ParameterError, PecliError
from pecli.live.array_libraries import ArrayLibrary, library_named, library_of
from pecli.live.rotations import results_in
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.find import Model, load_model

LENGTH = 16  #: rows of most cases
PADDING = 5  #: rows of padding before a shorter sequence
OFFSETS = (37, 32)  #: positions of two sequences in decoding; the second one had padding
FAR_ROWS = 4
MAX_FAR = 131_072
"""Positions that are tested at most: beyond them, float32 angles lose all digits of cosines."""
MAX_FAR_IN_HALF = 4096
"""Positions that are tested at most in half precision, whose integers are exact up to 256 (bfloat16) or 2048 (float16).

Vectors in bfloat16 have an error of 0.1, which hides rounded phases at the first positions. Those of
4096 are off by several radians, and float32 angles hardly add to the error of the vectors.
"""
DEFAULT_CONTEXT = 4096  #: if the configuration states none
QUERY_HEADS = 4
KEY_HEADS = 2
HEADS_BY_ARGUMENT_COUNT: Mapping[int, Mapping[str, int]] = {
    1: {},
    2: {"x": QUERY_HEADS},
    3: {"q": QUERY_HEADS, "k": KEY_HEADS},
}
"""The vectors that a function takes beside positions, and their numbers of heads, by how many arguments it takes."""
ANY_ARGUMENTS = (inspect.Parameter("arguments", inspect.Parameter.VAR_POSITIONAL),)
"""Parameters of a function that has no signature, as some that are written in C."""
UNEXPLAINED = "values differ, and no known mistake explains it"


class TrialCase(NamedTuple):
    """Inputs of one call of the function that is checked.

    Attributes:
        name: What the case tests, such as «left padding».
        positions: (batch, L).
        dtype: The dtype of queries and keys.
        attention_mask: 0 for padding, whose rows are not compared; None if there is none.
    """

    name: str
    positions: Indices
    dtype: str = "float32"
    attention_mask: Array | None = None

    def positions_for_verify(self) -> dict[str, Array]:
        """Return the option of `verify` that states the positions of rows: ids, or a mask."""
        if self.attention_mask is not None:
            return {"attention_mask": self.attention_mask}
        return {"positions": self.positions}

    @property
    def last_position(self) -> int:
        return int(self.positions.max())


class CaseResult(NamedTuple):
    """The answer for one case.

    Attributes:
        name: What the case tests.
        verification: The answer; without tensors if the function ended with an error.
        error: That error; empty if there was none.
    """

    name: str
    verification: Verification
    error: str = ""

    @classmethod
    def of_error(cls, name: str, error: str) -> "CaseResult":
        """Return the answer for a case in which the function ended with an error."""
        failed = Verification(file=name, scheme="", tensors=(), problems=(error,))
        return cls(name, failed, error)

    @property
    def passed(self) -> bool:
        return self.verification.passed

    def lines(self) -> list[str]:
        """Return a sentence per reason of a failure, after the name of the case."""
        reasons = self.verification.diagnosis or (UNEXPLAINED,)
        return [f"{self.name}: {reason}" for reason in reasons]

    def as_json(self) -> JsonObject:
        return {
            "name": self.name,
            "passed": self.passed,
            "error": self.error,
            "max_abs_error": self.max_abs_error,
        }

    @property
    def max_abs_error(self) -> float | None:
        """The largest error of all tensors; None if nothing could be compared."""
        tensors = self.verification.tensors
        errors = [tensor.max_abs_error for tensor in tensors if tensor.max_abs_error is not None]
        return max(errors, default=None)


@dataclass(frozen=True, repr=False)
class ImplementationCheck(Answer):
    """The answer for an implementation, case by case.

    Attributes:
        function: Its name.
        model: The model that it was compared with.
        cases: The answers.
    """

    function: str
    model: str
    cases: tuple[CaseResult, ...]

    @property
    def passed(self) -> bool:
        return all(case.passed for case in self.cases)

    @property
    def diagnosis(self) -> tuple[str, ...]:
        """Sentences on the first case that failed, and on those that passed; empty after a pass."""
        if self.passed:
            return ()
        first_failed = min(self.cases, key=lambda case: case.passed)
        lines = first_failed.lines()
        passed = [case.name for case in self.cases if case.passed]
        if passed:
            lines.append(f"right are: {'; '.join(passed)}")
        return tuple(lines)

    def words(self) -> tuple[str, ...]:
        return (f"{self.function} against {self.model}", *self.diagnosis)

    def as_json(self) -> JsonObject:
        return {
            "function": self.function,
            "model": self.model,
            "passed": self.passed,
            "cases": [case.as_json() for case in self.cases],
            "diagnosis": list(self.diagnosis),
        }


@within_limits
def check(
    function: Callable[..., object],
    model: Model,
    *,
    layer_type: str | None = None,
    arrays: str | None = None,
    tolerance: Tolerance | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    reasons: bool = True,
) -> ImplementationCheck:
    """Call an implementation of a model's rotary encoding, and compare what it returns.

    It is called with a batch, with left padding, in decoding at an offset, at far positions, and in
    half precision, there at far positions, too.

    Args:
        function: `function(q, k, positions)` that returns both rotated; `function(x, positions)`
            that returns one; or `function(positions)` that returns (cos, sin). Queries and keys are
            (batch, heads, L, D), and positions (batch, L), integers. With latent attention
            (DeepSeek) D are the rotary channels.
        model: The model, as `load_model` accepts it.
        layer_type: The layers that it implements, if the model has several types.
        arrays: The library whose arrays it takes: "numpy", "torch", "jax" or "mlx"; by default the
            one that its own code imports. pecli imports none of them.
        tolerance: The errors that pass. By default those of the dtype and of float32 angles.
        atol: Instead of `tolerance`, an absolute error.
        rtol: Instead of `tolerance`, a relative error.
        reasons: Whether reasons for the first failure are searched for.

    Returns:
        A result that is true if all cases agree; `result.raise_if_failed()` in a test.

    Raises:
        ParameterError: The model has no rotary encoding, or several and no `layer_type` is given.
        KindError: The function takes other arguments.

    >>> import numpy as np, pecli
    >>> def tables(positions):
    ...     angles = positions[..., None] * 10000.0 ** (-np.arange(64) / 64)
    ...     return np.cos(angles), np.sin(angles)
    >>> pecli.check(tables, "llama-2-7b").passed
    True
    >>> print(pecli.check(tables, "llama-3-8b").diagnosis[0].partition(";")[0])
    a batch: cos, sin: base is 10000 (the spec says 500000)
    """
    function = function_of("function", function)
    encodings = load_model(model)
    trial = _Trial(
        function=function,
        encodings=encodings,
        encoding=_rotary_encoding(encodings, layer_type),
        library=_array_library(function, arrays),
        head_counts=_head_counts(function),
        tolerance=tolerance_of(tolerance, None, atol, rtol),
    )
    results = trial.results(with_reasons=reasons)
    return ImplementationCheck(_name_of(function), encodings.file, results)


def _rotary_encoding(encodings: ModelEncodings, layer_type: str | None) -> Encoding:
    """Return the encoding of the layers to check; raise ParameterError if it is not rotary."""
    encoding = encodings.one(layer_type)
    if not encoding.is_rotary:
        rule = f"its encoding is {encoding.scheme}, not rope"
        raise ParameterError("model", encodings.file, rule)
    return encoding


def _array_library(function: Callable[..., object], name: str | None) -> ArrayLibrary:
    """Return the library of a name, or the one that the code of the function uses."""
    if name is None:
        return library_of(function)
    return library_named(text_of("arrays", name))


def _name_of(function: object) -> str:
    """Return the name of a function, or the class of another callable."""
    return str(function.__name__) if hasattr(function, "__name__") else type(function).__name__


def _head_counts(function: Callable[..., object]) -> Mapping[str, int]:
    """Return the vectors that a function takes beside positions, each with its number of heads.

    For `def rotate(q, k, positions)` they are {"q": 4, "k": 2}; for `def tables(positions)` there
    are none. A function that takes any number of arguments is called with (q, k, positions).

    Raises:
        KindError: It requires another number of arguments than 1, 2 or 3.
    """
    parameters = _parameters_of(function)
    count = sum(map(_is_required, parameters))
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        count = max(count, 3)
    if count not in HEADS_BY_ARGUMENT_COUNT:
        rule = "it must take (q, k, positions), (x, positions) or (positions)"
        raise KindError("function", f"a function of {count} arguments", rule, "wrap it in a lambda")
    return HEADS_BY_ARGUMENT_COUNT[count]


def _parameters_of(function: Callable[..., object]) -> Sequence[inspect.Parameter]:
    """Return the parameters of a function; without a signature, it may take any number."""
    called = function
    # A module of torch takes any arguments, and passes them on to its forward.
    if hasattr(function, "forward"):
        called = function.forward
    try:
        return [*inspect.signature(called).parameters.values()]
    except (TypeError, ValueError):
        return ANY_ARGUMENTS


def _is_required(parameter: inspect.Parameter) -> bool:
    """Return True for a positional parameter without a default."""
    is_positional = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    return is_positional and parameter.default is parameter.empty


@dataclass(frozen=True)
class _Trial:
    """An implementation, and the encoding that it is compared with.

    Attributes:
        function: The implementation.
        encodings: The model.
        encoding: The encoding of the layers that are checked.
        library: The library whose arrays the function takes.
        head_counts: The vectors that it takes beside positions, by name; none if it makes tables.
        tolerance: The errors that pass; if it is exact, those of a right implementation.
    """

    function: Callable[..., object]
    encodings: ModelEncodings
    encoding: Encoding
    library: ArrayLibrary
    head_counts: Mapping[str, int]
    tolerance: Tolerance

    def results(self, with_reasons: bool) -> tuple[CaseResult, ...]:
        """Return the answers for all cases, inputs such as a batch with left padding.

        Reasons are searched for the first failure only: one mistake fails most cases, and the search
        takes longer than all of them.
        """
        searches = flag_of("reasons", with_reasons)
        results = []
        for case in self.cases():
            result = self._result(case, reasons=searches)
            results.append(result)
            searches = searches and result.passed
        return tuple(results)

    def cases(self) -> list[TrialCase]:
        """Return the inputs with which the function is called.

        Each is a batch of two sequences. The half-precision cases are about the dtype of queries, so
        that a function which only makes tables has no such case.
        """
        context = self.encodings.context or DEFAULT_CONTEXT
        far_end = min(context, MAX_FAR)
        cases = [
            TrialCase("a batch", _two_of(range(LENGTH))),
            _case_of_left_padding(),
            TrialCase("decoding at an offset", np.array(OFFSETS)[:, None]),
            TrialCase("far positions", _far_positions(far_end)),
        ]
        takes_queries = bool(self.head_counts)
        if takes_queries:
            half = self.library.half_precision
            far_in_half = _far_positions(min(context, MAX_FAR_IN_HALF))
            cases.append(TrialCase(half, _two_of(range(LENGTH)), dtype=half))
            cases.append(TrialCase(f"{half}, far positions", far_in_half, dtype=half))
        return cases

    def _result(self, case: TrialCase, *, reasons: bool) -> CaseResult:
        """Call the function with the inputs of a case, and compare what it returns.

        An exception of the function is the result «it raised ValueError: …».
        """
        verify = self._verify_vectors if self.head_counts else self._verify_tables
        try:
            return CaseResult(case.name, verify(case, reasons))
        except PecliError as problem:
            return CaseResult.of_error(case.name, str(problem))

    def _call(self, *arrays: Array) -> object:
        """Call the function with arrays of its library.

        Raises:
            ParameterError: It raised an exception.
        """
        arguments = [self.library.array(array) for array in arrays]
        try:
            return self.function(*arguments)
        except Exception as problem:  # The function is the user's, and can raise any.
            shapes = ", ".join(str(array.shape) for array in arrays)
            rule = f"it raised {type(problem).__name__}: {problem}"
            # A function that uses torch only in methods of its arguments, `q.to(…)`, does not show it.
            advice = f"arrays were those of {self.library.name}; `arrays` names another library"
            given = f"called with shapes {shapes}"
            raise ParameterError("function", given, rule, advice) from problem

    def _verify_tables(self, case: TrialCase, reasons: bool) -> Verification:
        """Compare the cosines and sines that the function returns with the model's.

        Angles in float32 are no mistake: their rounding errors pass, which grow with the position.
        """
        output = self._call(case.positions)
        tables: dict[str, Array] = {}
        for name, table in _named_tables(output).items():
            tables[name] = _with_batch(table, case)
        rounding_error = bound_table_noise(tables.values(), case.last_position)
        return verify_tables(
            tables,
            self.encodings,
            self._tolerance_or(rounding_error),
            reasons,
            layer_type=self._layer_type,
            **case.positions_for_verify(),
        )

    def _verify_vectors(self, case: TrialCase, reasons: bool) -> Verification:
        """Compare the queries and keys that the function returns with the model's rotation of them.

        Rounding errors pass: those of float32 angles and of the dtype of the vectors.
        """
        before = self._random_vectors(case)
        output = self._call(*before.values(), case.positions)
        after = _rotated_by_name(output, before)
        rounding_error = max(
            bound_rotation_noise(before[name], after[name], case.last_position) for name in before
        )
        tolerance = self._tolerance_or(rounding_error)
        options = {
            "layer_type": self._layer_type,
            "seq_axis": -2,
            **case.positions_for_verify(),
        }
        return verify_rotated(after, before, self.encodings, tolerance, reasons, options)

    @property
    def _layer_type(self) -> str | None:
        """The layers that are checked, as `verify` takes them: None if the model has only one type."""
        return self.encoding.layer_type or None

    def _random_vectors(self, case: TrialCase) -> dict[str, Array]:
        """Return random queries and keys (batch, heads, L, D), the same ones every time.

        With latent attention (DeepSeek), D are only the channels that rotate, which the model's own
        code splits off before.
        """
        generator = np.random.default_rng(0)
        batch, length = case.positions.shape
        vectors: dict[str, Array] = {}
        for name, heads in self.head_counts.items():
            values = generator.standard_normal((batch, heads, length, self._channels))
            vectors[name] = as_dtype(values, case.dtype)
        return vectors

    @property
    def _channels(self) -> int:
        """Return D of queries and keys: only the rotary channels in latent attention."""
        encoding = self.encoding
        channels = encoding.rotary_dim if encoding.trailing else encoding.head_dim
        return channels or 0

    def _tolerance_or(self, rounding_error: float) -> Tolerance:
        """Return the user's tolerance; without one, the rounding error of a right implementation."""
        return Tolerance(atol=rounding_error) if self.tolerance == EXACT else self.tolerance


def _two_of(positions: range) -> Indices:
    """Return positions for a batch of two sequences: (2, L)."""
    return np.tile(np.array(positions), (2, 1))


def _far_positions(end: int) -> Indices:
    """Return the last positions below an end, for a batch of two sequences: (2, 4)."""
    return _two_of(range(end - FAR_ROWS, end))


def _case_of_left_padding() -> TrialCase:
    """Return the case of two sequences, of which the second one begins with padding.

    Its positions are 0 0 0 0 0, then 0 1 2 … for its tokens.
    """
    mask = np.ones((2, LENGTH), np.int64)
    mask[1, :PADDING] = 0
    positions = np.maximum(np.cumsum(mask, axis=1) - 1, 0)
    return TrialCase("left padding", positions, attention_mask=mask)


def _named_tables(output: object) -> dict[str, Array]:
    """Return the tables that a function returned: (cos, sin), a mapping, or one array."""
    if isinstance(output, Mapping):
        return {str(name): numbers(str(name), table) for name, table in output.items()}
    if isinstance(output, (tuple, list)) and len(output) == 2:
        cos, sin = output
        return {"cos": numbers("cos", cos), "sin": numbers("sin", sin)}
    return {"cos_sin": numbers("function's result", output)}


def _with_batch(table: Array, case: TrialCase) -> Array:
    """Return a table as (batch, L, D); one of (batch · L, D) has a row for each token in turn."""
    batch, length = case.positions.shape
    if table.ndim == 2 and len(table) == batch * length:
        return table.reshape(batch, length, -1)
    return table


def _rotated_by_name(output: object, before: Mapping[str, Array]) -> dict[str, Array]:
    """Return the rotated vectors that a function returned, by the names of its arguments.

    `function(q, k, positions)` has to return (q, k), in the shapes that it was given.

    Raises:
        ParameterError: There is another number of them, or they have other shapes.
    """
    results = results_in(output)
    if len(results) != len(before):
        count = f"of {len(results)}"
        raise ParameterError("function's result", count, f"it must be {', '.join(before)}")
    after: dict[str, Array] = {}
    for name, result in zip(before, results, strict=True):
        after[name] = _checked_rotation(name, result, before[name].shape)
    return after


def _checked_rotation(name: str, result: object, shape: tuple[int, ...]) -> Array:
    """Return a rotated vector as an array, which must have the shape that it had before."""
    array = as_numpy(name, result)
    if array.shape != shape:
        rule = f"it was given with shape {shape}"
        raise ParameterError(name, f"of shape {array.shape}", rule)
    return array
