"""The cases of the golden suite: tables of schemes and models, rotated tensors, known mistakes.

Rows of cases.json are made into cases; the cases of presets follow from their configurations, and
known mistakes from the catalogue of `verify`.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pecli.engine.arrays import AnyArray as Array
from pecli.engine.named_values import JsonObject, NamedValues
from pecli.engine.schemes import scheme_named
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError, quoted
from pecli.golden.mistake_cases import TEXT as MISTAKE_TEXT
from pecli.golden.mistake_cases import mistakes
from pecli.models.find import load_model
from pecli.package_data import package_bytes
from pecli.tensors.apply import apply

POSITIONS = (0, 1, 2, 255, 256, 257, 4095, 4096, 4097, 32767, 131071, 1_000_000)
"""Positions near and far: around the ends of bytes and of common contexts, where float32 angles
lose digits, and where position counters overflow."""
FAR_AND_NEAR = (1, 4097, 131071)  #: positions at which the tables of models are written
TOLERANCES = {"float64": 1e-14, "float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}
"""Errors that a port may have if it computes angles in float64 and rounds once: about two ULPs of
values near 1."""
FLOAT64_ANGLE_ERROR = 2.0**-51
"""The error of an angle per position in float64: the frequency and its product with the position
are both rounded, each by 2^-53, and the sum is doubled."""
FLOAT32_ANGLE_ERROR = 1.2e-7
"""The error of an angle per position in float32: an ULP of the angle, 2^-24, doubled."""

DATA: JsonObject = json.loads(package_bytes("pecli.golden", "cases.json"))
"""Tables, presets and rotations, one row per case."""


@dataclass(frozen=True)
class GoldenCase:
    """One case of the suite: expected tensors, and the scheme that defines them.

    Attributes:
        name: its name, which is also that of its files.
        tests: a sentence that states what it tests.
        tensors: the expected tensors, in float64 or integers.
        scheme: the scheme that makes them, or is applied to the tensor `before`.
        settings: how the scheme is applied, beside its parameters; empty for a table.
        edits: what is wrong with the tensors of a known mistake, as in the JSON of `verify`.
        largest_position: the largest position in the tensors, on which float errors depend.
    """

    name: str
    tests: str
    tensors: Mapping[str, Array]
    scheme: Scheme
    settings: NamedValues = field(default_factory=dict)
    edits: tuple[NamedValues, ...] = ()
    largest_position: float = 0.0

    @property
    def is_mistake(self) -> bool:
        """Return True for a table with a known mistake."""
        return bool(self.edits)

    @property
    def is_rotation(self) -> bool:
        """Return True for a tensor before and after a rotation, False for tables."""
        return bool(self.settings)

    def tolerances(self) -> dict[str, float]:
        """Return the largest error that a port may have, by dtype.

        Errors grow with the numbers, and in float64 also with the position, because the angle is
        rounded. `float32_arithmetic` is for ports that compute angles in float32, whose errors grow
        much faster: 0.12 radians at position 1,000,000.
        """
        magnitude = max(map(_largest_magnitude, self.tensors.values()))
        tolerances = {name: tolerance * magnitude for name, tolerance in TOLERANCES.items()}
        tolerances["float64"] += FLOAT64_ANGLE_ERROR * self.largest_position * magnitude
        angle_error = FLOAT32_ANGLE_ERROR * self.largest_position
        tolerances["float32_arithmetic"] = tolerances["float32"] + angle_error
        return tolerances


def _largest_magnitude(array: Array) -> float:
    """Return the largest finite magnitude, at least 1."""
    return float(np.abs(array[np.isfinite(array)]).max(initial=1.0))


def cases(models: Sequence[str] = ()) -> Iterator[GoldenCase]:
    """Yield the cases of the whole suite, or of some models."""
    if not models:
        yield from _whole_suite()
    for name in models:
        yield from _model_cases(name)


def _whole_suite() -> Iterator[GoldenCase]:
    """Yield tables, models, rotations and known mistakes, in the order of the suite."""
    yield from _table_cases()
    for name in DATA["presets"]:
        yield from _model_cases(name)
    yield from _rotation_cases()
    yield from _mistake_cases()


def _mistake_cases() -> Iterator[GoldenCase]:
    """Yield tables with a known mistake, which a port's own tests have to reject."""
    for mistake in mistakes():
        yield GoldenCase(
            name=mistake.name,
            tests=MISTAKE_TEXT,
            tensors=mistake.tensors,
            scheme=mistake.scheme,
            edits=tuple(edit.as_json() for edit in mistake.edits),
        )


def _table_cases() -> Iterator[GoldenCase]:
    """Yield the tables and frequencies that the rows of cases.json describe."""
    for row in DATA["tables"]:
        name = row["name"]
        scheme = _scheme_of_row(row)
        if name.startswith("frequencies-"):
            yield _frequency_case(name, row["tests"], scheme)
        else:
            yield _table_case(name, row["tests"], scheme)


def _scheme_of_row(row: NamedValues) -> Any:
    """Return the scheme of a row, whose positions may be «near and far»: POSITIONS."""
    parameters = dict(row["parameters"])
    if parameters.get("positions") == "near and far":
        parameters["positions"] = POSITIONS
    return scheme_named(row["scheme"])(**parameters)


def _table_case(name: str, tests: str, scheme: Scheme) -> GoldenCase:
    """Return the case of a scheme's tables, in float64, from which ports in all dtypes are judged."""
    exact = replace(scheme, dtype="float64")
    return GoldenCase(
        name=name,
        tests=tests,
        tensors=exact.tables(),
        scheme=exact,
        largest_position=_largest_position(exact),
    )


def _largest_position(scheme: Scheme) -> float:
    """Return the largest position of a scheme's rows, by magnitude."""
    positions = scheme.value_of("positions")
    if positions is not None:
        return float(np.max(np.abs(positions)))
    return float(scheme.value_of("seq_len") or 0)


def _frequency_case(name: str, tests: str, rope: Rope) -> GoldenCase:
    """Return the case (an item of the suite) of a rotary scheme's frequencies and attention factor."""
    exact = replace(rope, dtype="float64")
    tensors = {
        "inv_freq": np.array(exact.inverse_frequencies()),
        "attention_factor": np.array(exact.attention_factor_value()),
    }
    return GoldenCase(name=name, tests=tests, tensors=tensors, scheme=exact)


def _model_cases(name: str) -> Iterator[GoldenCase]:
    """Yield the frequencies and the table of every rotary encoding of a model.

    Gemma 3 4B has two encodings, so that its cases are frequencies-gemma-3-4b-sliding_attention,
    model-gemma-3-4b-sliding_attention, and the same of full_attention.

    Raises:
        ParameterError: If the model has none.
    """
    model = load_model(name)
    encodings = [encoding for encoding in model.ropes() if not encoding.no_table]
    if not encodings:
        rule = "it has no rotary table, of which golden vectors are made"
        raise ParameterError("model", quoted(name), rule)
    model_name = os.path.basename(name)
    for encoding in encodings:
        layer_type = encoding.layer_type.replace("/", "-")
        label = f"{model_name}-{layer_type}" if layer_type else model_name
        tests = f"frequencies of {model.file} before any call"
        yield _frequency_case(f"frequencies-{label}", tests, encoding.frequency_rope())
        table = encoding.rope(None, positions=FAR_AND_NEAR)
        yield _table_case(f"model-{label}", f"cos and sin of {model.file}", table)


def _rotation_cases() -> Iterator[GoldenCase]:
    """Yield queries or keys before and after the rotation that a row of cases.json describes.

    The numbers before are random multiples of 1/4 up to 2, which every dtype holds exactly, so that
    a port starts from the same numbers as we do.
    """
    for name, row in DATA["rotations"].items():
        scheme = Rope(**row["parameters"], dtype="float64")
        settings = row["settings"]
        before = np.random.default_rng(0).integers(-8, 9, row["shape"]) / 4.0
        # The longest axis has at least as many entries as there are positions.
        end = settings.get("offset", 0) + max(row["shape"])
        yield GoldenCase(
            name=f"rotate-{name}",
            tests=f"queries or keys before and after: {row['tests']}",
            tensors={"before": before, "after": apply(before, scheme, **settings)},
            scheme=scheme,
            settings=settings,
            largest_position=float(end),
        )
