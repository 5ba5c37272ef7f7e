"""The golden suite: small exact vectors with which a port in any language tests itself, and mistakes it has to catch. A
case is a scheme at some positions, a tensor that it is applied to, or a known mistake with the edits that tell it."""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pecli.checks.diff import diff
from pecli.checks.run import Check
from pecli.checks.verify import Verification, verify
from pecli.compare.tolerance import Tolerance
from pecli.engine import __version__
from pecli.engine.arrays import AnyArray as Array
from pecli.engine.arrays import dtype_name, round_to, widened
from pecli.engine.edits import edit_of
from pecli.engine.schemes import scheme_named
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import FileError, ParameterError, listed, nearest, quoted
from pecli.files import save
from pecli.files.load import load
from pecli.files.output import open_output
from pecli.models.find import load_model
from pecli.models.presets import presets
from pecli.tensors.apply import apply

POSITIONS = (0, 1, 2, 255, 256, 257, 4095, 4096, 4097, 32767, 131071, 1_000_000)
FAR_AND_NEAR = (1, 4097, 131071)  #: positions at which models' own tables are written
INDEX = "index.json"
DTYPES = ("float64", "float32", "float16", "bfloat16")
FLOAT64_ANGLE_ERROR = (
    2.0**-51
)  #: of an angle for each position: its product and the frequency are rounded, twice over
TOLERANCES = {"float64": 1e-14, "float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}
"""What a port may be off by that computes angles in float64 and rounds once, twice over; see `float32_arithmetic`."""
FLOAT32_ANGLE_ERROR = (
    1.2e-7  #: which float32 arithmetic may add for each position: an ULP of the angle, twice
)
MISTAKE_TOLERANCE = (
    1e-5  #: at which a known mistake has to be seen: its tensors are kept in float32
)

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """One entry of the suite."""

    name: str
    tests: str  #: what it tests, in a sentence
    tensors: Mapping[str, Array]  #: in float64, or integers
    scheme: Scheme
    settings: Mapping[str, Any] = field(
        default_factory=dict
    )  #: how the scheme is applied, beside its own parameters
    edits: tuple[Mapping[str, Any], ...] = ()  #: of a known mistake: what is wrong with its tensors
    largest_position: float = 0.0

    def tolerances(self) -> dict[str, float]:
        size = max(
            float(np.abs(array[np.isfinite(array)]).max(initial=1.0))
            for array in self.tensors.values()
        )
        scaled = {name: tolerance * size for name, tolerance in TOLERANCES.items()}
        scaled["float64"] += FLOAT64_ANGLE_ERROR * self.largest_position * size
        return {
            **scaled,
            "float32_arithmetic": scaled["float32"] + FLOAT32_ANGLE_ERROR * self.largest_position,
        }

    def entry(self, files: Mapping[str, str]) -> dict[str, Any]:
        """The entry of the index; `files` are their sha256."""
        spec = self.scheme.spec()
        spec["parameters"] = {
            name: value for name, value in spec["parameters"].items() if value is not None
        }
        about = {"name": self.name, "tests": self.tests, **spec}
        about |= {name: value for name in ("settings", "edits") if (value := getattr(self, name))}
        shapes = {name: list(array.shape) for name, array in self.tensors.items()}
        return {**about, "tolerances": self.tolerances(), "tensors": shapes, "files": files}


def _case(name: str, tests: str, scheme: Any) -> Case:
    """The tables of a scheme; where its name says so, its frequencies and attention factor alone."""
    made = replace(scheme, dtype="float64")
    if name.startswith("frequencies-"):
        values = {
            "inv_freq": made.inverse_frequencies(),
            "attention_factor": made.attention_factor_value(),
        }
        return Case(name, tests, {key: np.array(value) for key, value in values.items()}, made)
    places = made.value_of("positions")
    farthest = np.max(np.abs(places)) if places is not None else made.value_of("seq_len") or 0
    return Case(name, tests, made.tables(), made, largest_position=float(farthest))


DATA: dict[str, Any] = json.loads(
    (Path(__file__).parent / "cases.json").read_text(encoding="utf-8")
)
"""Scalings, rotations, grids and mistakes, a row each."""

MISTAKEN_TABLES: Mapping[str, tuple[dict[str, Any], Callable[..., tuple[Array, ...]]]] = {
    "swapped": ({"edit": "swapped"}, lambda cos, sin: (sin, cos)),
    "sin-negated": ({"edit": "negated", "which": "sin"}, lambda cos, sin: (cos, -sin)),
    "rows-reversed": (
        {"edit": "rows", "order": "reversed"},
        lambda *both: tuple(x[::-1] for x in both),
    ),
    "frequencies-reversed": (
        {"edit": "channels", "order": "reversed"},
        lambda *both: tuple(x[:, ::-1] for x in both),
    ),
    "stored-as-bfloat16": (
        {"edit": "dtype", "found": "bfloat16"},
        lambda *both: tuple(widened(round_to(x, "bfloat16")) for x in both),
    ),
}


def _mistakes() -> Iterator[Case]:
    """What was meant, the tables that were made, and the edits between them."""
    tests = "a known mistake: this must be rejected, for this reason"
    for name, row in DATA["mistakes"].items():
        scheme: Any = scheme_named(row["scheme"])(**row["right"], dtype="float64")
        told = {key: value for key, value in row["wrong"].items() if value is not None}
        made = replace(scheme, **row["wrong"]).tables()
        shown = {key: array for key, array in made.items() if key not in scheme.derived_tensors}
        edits = tuple(
            edit_of(key, getattr(scheme, key), value).as_json() for key, value in told.items()
        )
        yield Case(f"mistake-{name}", tests, shown, scheme, edits=edits)
    scheme = Rope(seq_len=64, dim=32, dtype="float64")
    tables = scheme.tables()
    for name, (edit, change) in MISTAKEN_TABLES.items():
        shown = dict(zip(("cos", "sin"), change(tables["cos"], tables["sin"]), strict=True))
        yield Case(f"mistake-{name}", tests, shown, scheme, edits=(edit,))


def cases(models: Sequence[str] = ()) -> Iterator[Case]:
    """The whole suite, or that of some models."""
    for row in () if models else DATA["tables"]:
        near_and_far = (
            {"positions": POSITIONS} if row["parameters"].get("positions") == "near and far" else {}
        )
        scheme = scheme_named(row["scheme"])(**{**row["parameters"], **near_and_far})
        yield _case(row["name"], row["tests"], scheme)
    for name in models or (name for name in DATA["presets"] if name in presets()):
        model = load_model(name)
        ropes = [each for each in model.ropes() if not each.no_table]
        if not ropes:
            raise ParameterError(
                "model", quoted(name), "it has no rotary table, of which golden vectors are made"
            )
        for encoding in ropes:
            label = "-".join(
                filter(None, (os.path.basename(name), encoding.layer_type.replace("/", "-")))
            )
            tests = f"frequencies of {model.file} before any call"
            yield _case(f"frequencies-{label}", tests, encoding.frequency_rope())
            yield _case(
                f"model-{label}",
                f"cos and sin of {model.file}",
                encoding.rope(None, positions=FAR_AND_NEAR),
            )
    for name, row in () if models else DATA["rotations"].items():
        scheme, settings = Rope(**row["parameters"], dtype="float64"), row["settings"]
        before = (
            np.random.default_rng(0).integers(-8, 9, row["shape"]) / 4.0
        )  # exact in every dtype
        tensors = {"before": before, "after": apply(before, scheme, **settings)}
        farthest = float(settings.get("offset", 0)) + max(row["shape"])
        tests = f"queries or keys before and after: {row['tests']}"
        yield Case(f"rotate-{name}", tests, tensors, scheme, settings, largest_position=farthest)
    yield from () if models else _mistakes()


def write(
    folder: str, models: Sequence[str] = (), formats: Sequence[str] = ("json",)
) -> list[dict[str, Any]]:
    """Write the suite into a folder: a file for each case and format, and `index.json`; the entries of the index."""
    made = list(cases(models))
    os.makedirs(folder, exist_ok=True)
    entries = []
    for case in made:
        files = {}
        for format_name in formats:
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
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _write_json(path: str, case: Case) -> None:
    """float64 as decimal and hexadecimal text, and the narrower dtypes, all correctly rounded; only these of what was
    rotated in float64, which is rounded more than once. Not synced, as the index is, which is written last."""
    dtypes = ("float32",) if case.edits else DTYPES[1:] if case.settings else DTYPES
    tensors = {name: _spelled(array, dtypes) for name, array in case.tensors.items()}
    text = json.dumps({"name": case.name, "tensors": tensors}, separators=(",", ":"))
    Path(path).write_bytes(f"{text}\n".encode())


def _spelled(array: Array, dtypes: Iterable[str]) -> dict[str, Any]:
    def numbers(values: Iterable[float]) -> list[float | str]:
        return [
            value if math.isfinite(value) else str(value) for value in values
        ]  # which JSON has no word for

    values = array.reshape(-1)
    spelled: dict[str, Any] = {"shape": list(array.shape)}
    if values.dtype.kind in "iu":
        return {**spelled, "int": values.tolist()}
    for dtype in dtypes:
        if dtype == "float64":
            spelled |= {
                "decimal": numbers(values.tolist()),
                "hex": [value.hex() for value in values.tolist()],
            }
        else:
            spelled[dtype] = numbers(float(str(value)) for value in round_to(values, dtype))
    return spelled


def _write_arrays(path: str, case: Case) -> None:
    """Tensors as they are; in a header, in float32 but for integers, with what they depend on, and the tolerance."""
    arrays: dict[str, Any] = dict(case.tensors)
    if path.endswith(".h"):
        arrays = {
            name: each if each.dtype.kind in "iu" else round_to(each, "float32")
            for name, each in arrays.items()
        }
        given = {name: getattr(case.scheme, name, None) for name in ("positions", "base")}
        given["tolerance"] = case.tolerances()["float32"]
        arrays |= {
            name: np.array(value, np.float64) for name, value in given.items() if value is not None
        }
    save(path, {name: np.atleast_1d(array) for name, array in arrays.items()})


WRITERS = {"json": _write_json, "safetensors": _write_arrays, "h": _write_arrays}


def suite_checks(folder: str) -> list[Check]:
    """A check for every case of a suite: its files are those of the index, and its numbers those of its scheme."""
    return [
        Check(name, partial(_verify_case, folder, each), group=folder)
        for name, each in _entries(folder).items()
    ]


def answer_checks(folder: str, answers: Iterable[str], tolerance: Tolerance | None) -> list[Check]:
    """A check for every case that a port has answered, by the names CASE.TENSOR, CASE/TENSOR or CASE; and one, which is
    weak, of those that it has not. Mistakes are no questions."""
    entries = _entries(folder)
    checks = [check for file in answers for check in _answers(folder, entries, file, tolerance)]
    asked = [case for case, entry in entries.items() if "edits" not in entry]
    left = [case for case in asked if case not in {check.file for check in checks}]
    if left:
        said = f"{len(left)} of {len(asked)} cases have no answer: {listed(left, 3)}"
        checks.append(Check(folder, lambda: Verification(folder, "golden", (), weak=(said,))))
    return checks


def _answers(
    folder: str, entries: Mapping[str, Entry], answers: str, tolerance: Tolerance | None
) -> list[Check]:
    by_case: dict[str, dict[str, Array]] = {}
    for name, array in load(answers).items():
        names = [name.rpartition(mark)[::2] for mark in ("/", ".", ":")]
        case, tensor = next(
            ((case, tensor) for case, tensor in names if case in entries), (name, "")
        )
        if name in entries:
            shapes = entries[name]["tensors"]
            case, tensor = (
                name,
                max(shapes, key=lambda key: (key == "after", math.prod(shapes[key]))),
            )
        elif not tensor:
            advice = (
                nearest(name, entries)
                or f"name answers CASE.TENSOR; cases are {listed([*entries], 3)}"
            )
            raise FileError(answers, f"has {quoted(name)}, which is no case of the suite", advice)
        by_case.setdefault(case, {})[tensor] = array
    runs = {
        case: partial(_verify_answer, folder, entries[case], arrays, tolerance)
        for case, arrays in by_case.items()
    }
    return [Check(case, run, group=answers) for case, run in runs.items()]


def _entries(folder: str) -> dict[str, Entry]:
    path = os.path.join(folder, INDEX)
    try:
        with open(path, encoding="utf-8") as file:
            cases = json.load(file)["cases"]
        entries: dict[str, Entry] = {
            case["name"]: {**case, "files": {**case["files"]}} for case in cases
        }
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FileError(
            path, "is not the index of a golden suite", "pecli golden -o FOLDER writes one"
        ) from None
    if not entries:
        raise FileError(path, "lists no cases", "pecli golden -o FOLDER writes a suite")
    return entries


def _tensors(folder: str, entry: Entry) -> dict[str, Array]:
    path = next((file for file in entry["files"] if file.endswith(".json")), "")
    if not path:
        return load(os.path.join(folder, next(iter(entry["files"]))))
    with open(os.path.join(folder, path), encoding="utf-8") as file:
        spelled = json.load(file)["tensors"]
    arrays = {}
    for name, texts in spelled.items():
        values = texts.get("int", texts.get("decimal", texts.get("float32")))
        kind = np.int32 if "int" in texts else np.float64 if "decimal" in texts else np.float32
        arrays[name] = np.array(values, kind).reshape(texts["shape"])
    return arrays


def _verify_case(folder: str, entry: Entry) -> Verification:
    paths = {file: os.path.join(folder, file) for file in entry["files"]}
    same = {
        file: os.path.isfile(path) and sha256_of(path) == entry["files"][file]
        for file, path in paths.items()
    }
    scheme: Scheme = scheme_named(entry["scheme"])(**entry["parameters"])
    if not all(same.values()):
        problems = tuple(
            f"{file}: its sha256 is not that of the index" for file in same if not same[file]
        )
        return Verification(entry["name"], scheme.name, (), problems)
    tensors = _tensors(folder, entry)
    if "edits" in entry:
        return _verify_mistake(entry, scheme, tensors)
    if "settings" in entry:
        return _verify_answer(
            folder, entry, {"after": apply(tensors["before"], scheme, **entry["settings"])}, None
        )
    tensors.pop("attention_factor", None)
    return replace(_verified(tensors, scheme, Tolerance()), file=entry["name"], weak=())


def _verified(tensors: Mapping[str, Array], scheme: Scheme, tolerance: Tolerance) -> Verification:
    """Tensors by name; one as it is, which is then checked alone."""
    return verify(
        dict(tensors) if len(tensors) > 1 else next(iter(tensors.values())), scheme, tolerance
    )


def _verify_mistake(entry: Entry, scheme: Scheme, tensors: Mapping[str, Array]) -> Verification:
    found = verify(tensors, scheme, atol=MISTAKE_TOLERANCE)
    edits = [edit.as_json() for why in found.explanations for edit in why.edits]
    named, wanted = (
        [edit["name" if edit["edit"] == "parameter" else "edit"] for edit in some]
        for some in (edits, entry["edits"])
    )
    missing = [key for key in wanted if key not in named]
    problems = ["a known mistake passes"] if found.passed else []
    if missing and not found.passed:
        wrong = f"its reason is not {missing[0]}: {'; '.join(found.diagnosis)}"
        problems.append(wrong if named else "no reason is found for a known mistake")
    return Verification(entry["name"], scheme.name, (), tuple(problems))


def _verify_answer(
    folder: str, entry: Entry, arrays: Mapping[str, Array], tolerance: Tolerance | None
) -> Verification:
    """A port's tensors of one case, within the tolerance of their dtype unless another is asked for."""
    scheme: Scheme = scheme_named(entry["scheme"])(**entry["parameters"])
    kinds = [
        "float32" if "settings" in entry else dtype_name(array.dtype) for array in arrays.values()
    ]
    allowed = tolerance or Tolerance(
        atol=max(entry["tolerances"].get(kind, TOLERANCES["float32"]) for kind in kinds)
    )
    if "settings" not in entry and "attention_factor" not in arrays:
        return replace(_verified(arrays, scheme, allowed), file=entry["name"])
    golden = {name: array for name, array in _tensors(folder, entry).items() if name in arrays}
    found = diff(golden, dict(arrays), allowed)
    told = tuple(line.replace(": in B, ", ": ") for line in found.diagnosis)
    return Verification(entry["name"], scheme.name, found.tensors, told, weak=found.weak)
