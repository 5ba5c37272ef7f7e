"""The golden suite: small exact vectors with which a port in any language tests itself, and mistakes it has to catch.

A case is a row of a table: a scheme at some positions, a tensor that it is applied to, or a known mistake with the
edits by which it is recognised. The numbers all come from the schemes; nothing is computed here.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pecli.engine import __version__
from pecli.engine.arrays import AnyArray as Array
from pecli.engine.arrays import round_to, widened
from pecli.engine.schemes import scheme_named
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import failure
from pecli.files import save
from pecli.files.output import open_output
from pecli.models.find import load_model
from pecli.models.presets import presets
from pecli.tensors.apply import apply

POSITIONS = (0, 1, 2, 255, 256, 257, 4095, 4096, 4097, 32767, 131071, 1_000_000)
FAR_AND_NEAR = (1, 4097, 131071)  #: positions at which models' own tables are written
DTYPES = ("float64", "float32", "float16", "bfloat16")
TOLERANCES = {"float64": 1e-14, "float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}
"""What a port may be off by that computes angles in float64 and rounds once, twice over; see `float32_arithmetic`."""
FLOAT32_ANGLE_ERROR = 1.2e-7
"""What float32 arithmetic may add for each position: one unit of the last place of the angle, twice."""


@dataclass(frozen=True)
class Case:
    """One entry of the suite."""

    name: str
    tests: str  #: what it tests, in a sentence
    tensors: Mapping[str, Array]  #: in float64, or integers
    scheme: Scheme
    settings: Mapping[str, Any] = field(default_factory=dict)  #: how the scheme is applied, beside its own parameters
    edits: tuple[Mapping[str, Any], ...] = ()
    """Of a known mistake: what is wrong with its tensors, which are not what the scheme makes."""
    largest_position: float = 0.0

    def tolerances(self) -> dict[str, float]:
        size = max(float(np.abs(array[np.isfinite(array)]).max(initial=1.0)) for array in self.tensors.values())
        scaled = {name: tolerance * max(1.0, size) for name, tolerance in TOLERANCES.items()}
        arithmetic = scaled["float32"] + FLOAT32_ANGLE_ERROR * self.largest_position
        return {**scaled, "float32_arithmetic": arithmetic}

    def entry(self, files: Mapping[str, str]) -> dict[str, Any]:
        """The entry of the index; `files` are their sha256."""
        spec = self.scheme.spec()
        spec["parameters"] = {name: value for name, value in spec["parameters"].items() if value is not None}
        return {
            "name": self.name,
            "tests": self.tests,
            **spec,
            **({"settings": dict(self.settings)} if self.settings else {}),
            **({"edits": [dict(edit) for edit in self.edits]} if self.edits else {}),
            "tolerances": self.tolerances(),
            "tensors": {name: list(array.shape) for name, array in self.tensors.items()},
            "files": dict(files),
        }


def _case(name: str, tests: str, scheme: Any) -> Case:
    """The tables of a scheme; of one whose name says so, its frequencies and attention factor alone."""
    made = replace(scheme, dtype="float64")
    if not name.startswith("frequencies-"):
        places = getattr(made, "positions", None)
        farthest = np.max(np.abs(places)) if places is not None else getattr(made, "seq_len", None) or 0
        return Case(name, tests, made.tables(), made, largest_position=float(farthest))
    values = {"inv_freq": made.inverse_frequencies(), "attention_factor": made.attention_factor_value()}
    return Case(name, tests, {key: np.array(value) for key, value in values.items()}, made)


DATA: dict[str, Any] = json.loads((Path(__file__).parent / "cases.json").read_text(encoding="utf-8"))
"""Scalings, rotations, grids and mistakes, a row each."""


def _table_cases() -> Iterator[Case]:
    for row in DATA["tables"]:
        given = row["parameters"]
        if given.get("positions") == "near and far":
            given = {**given, "positions": POSITIONS}
        yield _case(row["name"], row["tests"], scheme_named(row["scheme"])(**given))


def _model_cases(names: Iterable[str]) -> Iterator[Case]:
    for name in names:
        model = load_model(name)
        for encoding in model.ropes():
            if encoding.no_table:
                continue
            label = "-".join(filter(None, (os.path.basename(name), encoding.layer_type.replace("/", "-"))))
            tests = f"frequencies of {model.file} before any call"
            yield _case(f"frequencies-{label}", tests, encoding.frequency_rope())
            rope = encoding.rope(None, positions=FAR_AND_NEAR)
            yield _case(f"model-{label}", f"cos and sin of {model.file}", rope)


def _rotation_cases() -> Iterator[Case]:
    """Inputs are whole numbers over powers of two: exact in every dtype."""
    for name, row in DATA["rotations"].items():
        rope: Any = Rope(**row["parameters"], dtype="float64")
        before = np.random.default_rng(0).integers(-8, 9, row["shape"]) / 4.0
        tensors = {"before": before, "after": apply(before, rope, **applied_settings(row["settings"]))}
        farthest = float(row["settings"].get("offset", 0)) + max(row["shape"])
        tests = f"queries or keys before and after: {row['tests']}"
        yield Case(f"rotate-{name}", tests, tensors, rope, row["settings"], largest_position=farthest)


def applied_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What `apply` takes; JSON has lists for arrays."""
    return {key: np.array(value) if key == "positions" else value for key, value in settings.items()}


def _in_bfloat16(*parts: Array) -> tuple[Array, ...]:
    return tuple(widened(round_to(part, "bfloat16")) for part in parts)


MISTAKEN_TABLES: dict[str, tuple[dict[str, Any], Callable[[Array, Array], tuple[Array, ...]]]] = {
    "swapped": ({"edit": "swapped"}, lambda cos, sin: (sin, cos)),
    "sin-negated": ({"edit": "negated", "which": "sin"}, lambda cos, sin: (cos, -sin)),
    "rows-reversed": ({"edit": "rows", "order": "reversed"}, lambda cos, sin: (cos[::-1], sin[::-1])),
    "frequencies-reversed": (
        {"edit": "channels", "order": "reversed"},
        lambda cos, sin: (cos[:, ::-1], sin[:, ::-1]),
    ),
    "stored-as-bfloat16": ({"edit": "dtype", "found": "bfloat16"}, _in_bfloat16),
}


def _mistake_cases() -> Iterator[Case]:
    tests = "a known mistake: this must be rejected, for this reason"
    for name, row in DATA["mistakes"].items():
        scheme: Any = scheme_named(row["scheme"])(**row["right"], dtype="float64")
        told = {key: value for key, value in row["wrong"].items() if value is not None}
        edits = [scheme.edit(key, getattr(scheme, key), value) for key, value in told.items()]
        made = replace(scheme, **row["wrong"]).tables()
        shown = {key: array for key, array in made.items() if key not in scheme.derived_tensors}
        yield Case(f"mistake-{name}", tests, shown, scheme, edits=tuple(edits))
    scheme = Rope(seq_len=64, dim=32, dtype="float64")
    tables = scheme.tables()
    for name, (edit, change) in MISTAKEN_TABLES.items():
        cos, sin = change(tables["cos"], tables["sin"])
        yield Case(f"mistake-{name}", tests, {"cos": cos, "sin": sin}, scheme, edits=(edit,))


def cases(models: Iterable[str] = ()) -> Iterator[Case]:
    """The whole suite, or that of some models."""
    named = tuple(models)
    if named:
        yield from _model_cases(named)
        return
    yield from _table_cases()
    yield from _model_cases(name for name in DATA["presets"] if name in presets())
    yield from _rotation_cases()
    yield from _mistake_cases()


INDEX = "index.json"


def write(folder: str, models: Iterable[str] = (), formats: Iterable[str] = ("json",)) -> list[dict[str, Any]]:
    """Write the suite into a folder: a file for each case and format, and `index.json`; the entries of the index."""
    wanted = tuple(formats)
    made = list(cases(models))
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as problem:
        raise failure(folder, problem) from None
    entries = []
    for case in made:
        files = {}
        for format_name in wanted:
            path = os.path.join(folder, f"{case.name}.{format_name}")
            WRITERS[format_name](path, case)
            files[os.path.basename(path)] = sha256_of(path)
        entries.append(case.entry(files))
    index = {"version": 1, "pecli": __version__, "positions": list(POSITIONS), "cases": entries}
    with open_output(os.path.join(folder, INDEX)) as file:
        file.write(f"{json.dumps(index, indent=1, sort_keys=True)}\n".encode())
    return entries


def sha256_of(path: str) -> str:
    """The sha256 of a file."""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _write_json(path: str, case: Case) -> None:
    """float64 as decimal and hexadecimal text, and the narrower dtypes, all correctly rounded.

    What was rotated in float64 is rounded more than once: it is written in the narrower ones.
    """
    dtypes = ("float32",) if case.edits else DTYPES[1:] if case.settings else DTYPES
    tensors = {name: _spelled(array, dtypes) for name, array in case.tensors.items()}
    _write_text(path, json.dumps({"name": case.name, "tensors": tensors}, separators=(",", ":")))


def _spelled(array: Array, dtypes: Iterable[str]) -> dict[str, Any]:
    values = array.reshape(-1)
    spelled: dict[str, Any] = {"shape": list(array.shape)}
    if values.dtype.kind in "iu":
        return {**spelled, "int": values.tolist()}
    for dtype in dtypes:
        if dtype == "float64":
            numbers = values.tolist()
            spelled |= {"decimal": [_number(value) for value in numbers], "hex": [value.hex() for value in numbers]}
        else:
            spelled[dtype] = [_number(float(str(value))) for value in round_to(values, dtype)]
    return spelled


def _number(value: float) -> float | str:
    """A number that JSON has a word for; else that of C."""
    return value if math.isfinite(value) else str(value)


def _write_text(path: str, text: str) -> None:
    """Not synced: the index, which is written last and names every sha256, is."""
    try:
        with open(path, "wb") as file:
            file.write(f"{text}\n".encode())
    except OSError as problem:
        raise failure(path, problem) from None


def _write_safetensors(path: str, case: Case) -> None:
    save(path, {name: np.atleast_1d(array) for name, array in case.tensors.items()})


def _write_header(path: str, case: Case) -> None:
    """Tensors in float32, integers as they are; what they depend on, and the tolerance, in double."""
    tensors = {
        name: array if array.dtype.kind in "iu" else round_to(array, "float32") for name, array in case.tensors.items()
    }
    inputs = {name: getattr(case.scheme, name, None) for name in ("positions", "base")}
    inputs["tolerance"] = case.tolerances()["float32"]
    given = {name: np.array(value, np.float64) for name, value in inputs.items() if value is not None}
    save(path, {name: np.atleast_1d(array) for name, array in {**tensors, **given}.items()})


WRITERS = {"json": _write_json, "safetensors": _write_safetensors, "h": _write_header}
