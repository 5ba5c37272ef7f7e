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
from typing import Any

import numpy as np

from pecli import __version__
from pecli.engine.arrays import Array, round_to, widened
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.relative import Relative
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import failure
from pecli.files.output import open_output
from pecli.files.save import save
from pecli.models.find import load_model
from pecli.tensors.apply import apply

POSITIONS = (0, 1, 2, 255, 256, 257, 4095, 4096, 4097, 32767, 131071, 1_000_000)
FAR_AND_NEAR = (1, 257, 4097, 131071)
"""Positions at which models' own tables are written."""
DTYPES = ("float64", "float32", "float16", "bfloat16")
TOLERANCES = {"float64": 1e-14, "float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}
"""What a port may be off by that computes angles in float64 and rounds once, twice over; see `float32_arithmetic`."""
FLOAT32_ANGLE_ERROR = 1.2e-7
"""What float32 arithmetic may add for each position: one unit of the last place of the angle, twice."""
PRESETS = (
    "llama-2-7b", "llama-3-8b", "llama-3.1-8b", "llama-3.2-1b", "codellama-34b", "tinyllama-1.1b", "mistral-7b-v0.3",
    "qwen2.5-7b", "qwen3-8b", "qwen3-next-80b-a3b", "gemma-2-9b", "gemma-3-12b", "phi-2", "phi-3-mini-128k-2024-04",
    "phi-4", "gpt-oss-20b", "deepseek-v3", "kimi-k2-0905", "glm-4.5", "olmo-2-7b", "command-r7b", "smollm2-1.7b", "smollm3-3b",
    "gpt-neox-20b", "gpt-j-6b",
)  # fmt: skip
"""Models whose frequencies the whole suite has, of those that are built in."""


@dataclass(frozen=True)
class Case:
    """One entry of the suite."""

    name: str
    tests: str
    """What it tests, in a sentence."""
    tensors: Mapping[str, Array]
    """In float64, or integers."""
    scheme: Scheme | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """How the scheme is applied, beside its own parameters."""
    edits: tuple[Mapping[str, Any], ...] = ()
    """Of a known mistake: what is wrong with its tensors, which are not what the scheme makes."""
    largest_position: float = 0.0

    def tolerances(self) -> dict[str, float]:
        size = max((float(np.abs(array[np.isfinite(array)]).max(initial=1.0)) for array in self.tensors.values()))
        scaled = {name: tolerance * max(1.0, size) for name, tolerance in TOLERANCES.items()}
        arithmetic = scaled["float32"] + FLOAT32_ANGLE_ERROR * self.largest_position
        return {**scaled, "float32_arithmetic": arithmetic}

    def entry(self, files: Mapping[str, str]) -> dict[str, Any]:
        """The entry of the index; `files` are their sha256."""
        spec = {} if self.scheme is None else self.scheme.spec()
        if spec:
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


def _float64(scheme: Any, **changes: Any) -> Any:
    return replace(scheme, dtype="float64", **changes)


def _table(name: str, tests: str, scheme: Any, **settings: Any) -> Case:
    made = _float64(scheme)
    places = getattr(made, "positions", None)
    farthest = float(np.max(np.abs(places))) if places is not None else float(getattr(made, "seq_len", None) or 0)
    return Case(name, tests, made.tables(), made, settings, largest_position=farthest)


def _frequencies(name: str, tests: str, scheme: Rope) -> Case:
    made = _float64(scheme)
    tensors = {
        "inv_freq": np.array(made.inverse_frequencies()),
        "attention_factor": np.array(made.attention_factor_value()),
    }
    return Case(name, tests, tensors, made)


_YARN = {"scaling": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
_LLAMA3 = {
    "scaling": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}  # fmt: skip
_LONG = {
    "scaling": "longrope", "original_max_position_embeddings": 4096, "max_position_embeddings": 131072,
    "short_factor": tuple(1.0 + k / 16 for k in range(16)), "long_factor": tuple(1.0 + k for k in range(16)),
}  # fmt: skip
_DYNAMIC = {"scaling": "dynamic", "factor": 2.0, "max_position_embeddings": 4096}

SCALINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "default": ("no scaling", {}),
    "theta-500000": ("another base", {"base": 500000.0}),
    "linear": ("all frequencies divided by the factor", {"scaling": "linear", "factor": 4.0}),
    "ntk": ("a larger base", {"scaling": "ntk", "factor": 4.0}),
    "dynamic-before": ("dynamic NTK up to the trained length is no scaling", {**_DYNAMIC, "length": 4096}),
    "dynamic-after": ("dynamic NTK beyond the trained length", {**_DYNAMIC, "length": 16384}),
    "yarn": ("limits rounded, as by default", _YARN),
    "yarn-truncate-false": ("limits that are not rounded", {**_YARN, "truncate": False}),
    "yarn-betas": ("other limits", {**_YARN, "beta_fast": 64.0, "beta_slow": 2.0}),
    "yarn-attention-factor": ("a given attention factor is final", {**_YARN, "attention_factor": 1.5}),
    "yarn-mscale": ("a ratio of two mscales", {**_YARN, "mscale": 1.0, "mscale_all_dim": 0.8}),
    "yarn-mscale-equal": ("equal mscales leave the magnitude at 1", {**_YARN, "mscale": 1.0, "mscale_all_dim": 1.0}),
    "yarn-factor-40": ("a large factor", {**_YARN, "factor": 40.0}),
    "longrope-short": ("short factors below the original length", {**_LONG, "length": 4095}),
    "longrope-at": ("short factors at exactly the original length", {**_LONG, "length": 4096}),
    "longrope-long": ("long factors just above it", {**_LONG, "length": 4097}),
    "llama3": ("kept, blended and divided bands", {**_LLAMA3, "base": 500000.0}),
    "llama3-factor-32": ("a larger factor", {**_LLAMA3, "factor": 32.0, "base": 500000.0}),
    "partial": ("only some channels rotate, with frequencies of their own", {"partial_rotary_factor": 0.5}),
    "proportional": (
        "frequencies over the whole head, zeros behind", {"scaling": "proportional", "partial_rotary_factor": 0.25}
    ),
}  # fmt: skip


def _rope(**given: Any) -> Rope:
    return Rope(**{"positions": POSITIONS, "dim": 32, **given})


def _scaling_cases() -> Iterator[Case]:
    for name, (tests, given) in SCALINGS.items():
        yield _frequencies(f"frequencies-{name}", f"frequencies and attention factor: {tests}", _rope(**given))
        yield _table(f"table-{name}", f"cos and sin near and far: {tests}", _rope(**given))
    for layout in ("halves", "interleaved"):
        yield _table(f"table-{layout}", f"two columns per frequency, {layout}", _rope(layout=layout))
    for dim in (2, 4, 64, 128):
        yield _table(f"table-dim-{dim}", f"a rotary dimension of {dim}", _rope(dim=dim, positions=(1, 257, 131071)))


def _preset_cases(names: Iterable[str]) -> Iterator[Case]:
    for name in names:
        model = load_model(name)
        for encoding in model.ropes():
            if encoding.no_table:
                continue
            label = "-".join(filter(None, (os.path.basename(name), encoding.layer_type.replace("/", "-"))))
            tests = f"frequencies of {model.file} before any call"
            yield _frequencies(f"model-{label}", tests, encoding.frequency_rope())
            rope = encoding.rope(None, positions=FAR_AND_NEAR)
            yield _table(f"model-{label}-table", f"cos and sin of {model.file}", rope)


def _inputs(*shape: int, seed: int = 0) -> Array:
    """Whole numbers over powers of two: exact in every dtype."""
    return np.random.default_rng(seed).integers(-8, 9, shape) / 4.0


_HALVES = {"layout": "halves"}
_PLAIN = (1, 2, 6, 16)
ROTATIONS: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "halves": ("pairs (i, i + d/2), as Hugging Face's Llama", _PLAIN, _HALVES),
    "interleaved": ("pairs (2i, 2i + 1), as Meta's Llama and GPT-J", _PLAIN, {"layout": "interleaved"}),
    "deepseek": ("interleaved before, halves after, as DeepSeek-V3 in transformers", _PLAIN, {"layout": "deepseek"}),
    "offset": ("positions that go on after a cache", _PLAIN, {**_HALVES, "offset": 100}),
    "far": ("positions of a long context", (1, 1, 4, 16), {**_HALVES, "offset": 131068}),
    "length-first": ("(batch, length, heads, dim)", (2, 6, 2, 16), {**_HALVES, "seq_axis": -3}),
    "partial": ("the first 16 of 32 channels rotate", (1, 2, 6, 32), _HALVES),
    "partial-trailing": (
        "the last 16 of 32 channels rotate",
        (1, 2, 6, 32),
        {"layout": "interleaved", "trailing": True},
    ),
    "inverse": ("the rotation undone", _PLAIN, {**_HALVES, "inverse": True}),
    "cache-shifted": ("a cache moved back by 4 positions", _PLAIN, {**_HALVES, "shift": -4}),
    "left-padded": (
        "two sequences, one padded on the left",
        (2, 2, 6, 16),
        {**_HALVES, "positions": ((0, 0, 0, 1, 2, 3), (0, 1, 2, 3, 4, 5))},
    ),
    "padded-with-ones": (
        "padding at position 1",
        (2, 2, 6, 16),
        {**_HALVES, "positions": ((1, 1, 0, 1, 2, 3), (0, 1, 2, 3, 4, 5))},
    ),
    "packed": ("positions that start again", _PLAIN, {**_HALVES, "positions": (0, 1, 2, 0, 1, 2)}),
    "grouped-queries": ("8 query heads", (1, 8, 4, 16), _HALVES),
    "grouped-keys": ("2 key heads of the same attention", (1, 2, 4, 16), _HALVES),
}
_MROPE_POSITIONS = ((0, 1, 1, 1, 1, 5), (0, 1, 1, 2, 2, 5), (0, 1, 2, 1, 2, 5))
SECTIONED = {
    "mrope-blocked": ("M-RoPE, one section after the other (Qwen2-VL)", {"mrope_section": (2, 3, 3)}),
    "mrope-interleaved": (
        "M-RoPE, sections interleaved (Qwen3-VL)",
        {"mrope_section": (4, 2, 2), "mrope_interleaved": True},
    ),
}


def _rotation_cases() -> Iterator[Case]:
    for name, (tests, shape, given) in ROTATIONS.items():
        rope = Rope(seq_len=shape[-2] if "seq_axis" not in given else shape[1], dim=16)
        farthest = float(given.get("offset", 0)) + shape[-2]
        yield _rotated(f"rotate-{name}", f"queries or keys before and after: {tests}", rope, shape, given, farthest)
    for name, (tests, parameters) in SECTIONED.items():
        rope = Rope(seq_len=6, dim=16, **parameters)
        given = {"layout": "halves", "positions": _MROPE_POSITIONS}
        yield _rotated(f"rotate-{name}", f"queries before and after: {tests}", rope, (1, 2, 6, 16), given, 6.0)


def _rotated(
    name: str, tests: str, rope: Rope, shape: tuple[int, ...], given: Mapping[str, Any], farthest: float
) -> Case:
    before = _inputs(*shape)
    words = {key: np.array(value) if key == "positions" else value for key, value in given.items()}
    tensors = {"before": before, "after": apply(before, rope, **words)}
    return Case(name, tests, tensors, _float64(rope), given, largest_position=farthest)


GRIDS = {
    "pixtral": {"grid": (3, 4), "dim": 16, "style": "pixtral"},
    "qwen2-vl": {"grid": (4, 6), "dim": 16, "style": "qwen2-vl"},
    "wan": {"grid": (2, 3, 4), "dim": 24, "style": "wan"},
    "dinov3": {"grid": (3, 4), "dim": 16, "style": "dinov3"},
}


def _other_cases() -> Iterator[Case]:
    for name, given in GRIDS.items():
        yield _table(f"grid-rope-{name}", f"a grid that is not square, as {name} has it", Rope(**given))
    for style in ("mae", "vit-mae", "detr", "timm"):
        grid = Sinusoidal(grid=(3, 4), dim=16, style=style)
        yield _table(f"grid-sinusoidal-{style}", f"a grid that is not square, as {style} has it", grid)
    for heads in (4, 6, 8, 12, 40):
        yield _table(f"alibi-slopes-{heads}", f"slopes of {heads} heads", Alibi(heads=heads, slopes=True))
        for form in ("symmetric", "causal", "key"):
            bias = Alibi(heads=heads, seq_len=6, form=form)
            yield _table(f"alibi-{form}-{heads}", f"biases of {heads} heads, {form} form", bias)
    for causal in (False, True):
        name = "decoder" if causal else "encoder"
        buckets = Relative(style="t5", seq_len=140, buckets=32, max_distance=128, causal=causal)
        edges = replace(buckets, seq_len=20)
        yield Case(f"t5-{name}", f"buckets of a T5 {name}", edges.tables(), edges)
        rows = buckets.tables()["index"]
        ends = {"index": np.concatenate([rows[:1], rows[-1:]])}
        yield Case(f"t5-{name}-edges", "first and last query, out to the largest distance", ends, None, buckets.spec())
    swin = Relative(style="swin", grid=(3, 4))
    yield Case("swin-3x4", "Swin's index of a window that is not square", swin.tables(), swin)
    deberta = Relative(style="deberta", seq_len=12, buckets=8, max_distance=16)
    yield Case("deberta", "DeBERTa's logarithmic buckets", deberta.tables(), deberta)
    for name, given in SINUSOIDS.items():
        scheme = Sinusoidal(positions=POSITIONS, **{"dim": 16, **given})
        yield _table(f"sinusoidal-{name}", f"a sinusoidal table: {name.replace('-', ' ')}", scheme)


SINUSOIDS: dict[str, dict[str, Any]] = {
    "interleaved": {},
    "halves": {"layout": "halves"},
    "cosines-first": {"layout": "halves", "cos_first": True},
    "freq-shift-1": {"layout": "halves", "freq_shift": 1.0},
    "base-100": {"base": 100.0},
    "scaled-positions": {"scale": 0.5},
    "amplitude": {"amplitude": 0.25},
    "odd-dim": {"dim": 15},
}


def _parameter(name: str, expected: Any, found: Any) -> dict[str, Any]:
    return {"edit": "parameter", "name": name, "expected": expected, "found": found}


MISTAKES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "theta-left-at-10000": ({"base": 500000.0}, {"base": 10000.0}),
    "off-by-one": ({}, {"offset": 1}),
    "linear-scaling-missing": ({"scaling": "linear", "factor": 4.0}, {"scaling": "none", "factor": None}),
    "yarn-scaling-missing": (_YARN, {**dict.fromkeys(_YARN), "scaling": "none"}),
    "llama3-scaling-missing": ({**_LLAMA3, "base": 500000.0}, {**dict.fromkeys(_LLAMA3), "scaling": "none"}),
    "yarn-other-factor": (_YARN, {"factor": 8.0}),
    "yarn-truncate-ignored": ({**_YARN, "truncate": False}, {"truncate": True}),
    "attention-factor-dropped": ({**_YARN, "attention_factor": 1.5}, {"attention_factor": 1.0}),
}


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
MISTAKEN_ROWS = 64


def _mistake_cases() -> Iterator[Case]:
    for name, (right, wrong) in MISTAKES.items():
        scheme: Any = Rope(seq_len=MISTAKEN_ROWS, dim=32, dtype="float64", **right)
        told = {key: value for key, value in wrong.items() if value is not None}
        edits = [_parameter(key, getattr(scheme, key), value) for key, value in told.items()]
        yield _mistake(name, scheme, replace(scheme, **wrong).tables(), *edits)
    scheme = Rope(seq_len=MISTAKEN_ROWS, dim=32, dtype="float64")
    tables = scheme.tables()
    for name, (edit, change) in MISTAKEN_TABLES.items():
        cos, sin = change(tables["cos"], tables["sin"])
        yield _mistake(name, scheme, {"cos": cos, "sin": sin}, edit)
    paper = Alibi(heads=12, seq_len=16, dtype="float64")
    naive = replace(paper, rule="naive").tables()["bias"]
    yield _mistake("alibi-naive-slopes", paper, {"bias": naive}, _parameter("rule", "paper", "naive"))


def _mistake(name: str, scheme: Scheme, tensors: Mapping[str, Array], *edits: Mapping[str, Any]) -> Case:
    shown = {key: array for key, array in tensors.items() if key != "inv_freq"}
    tests = "a known mistake: this must be rejected, for this reason"
    return Case(f"mistake-{name}", tests, shown, scheme, edits=edits)


def cases(models: Iterable[str] = ()) -> Iterator[Case]:
    """The whole suite, or that of some models."""
    named = tuple(models)
    if named:
        yield from _preset_cases(named)
        return
    from pecli.models.presets import presets

    yield from _scaling_cases()
    yield from _preset_cases(name for name in PRESETS if name in presets())
    yield from _rotation_cases()
    yield from _other_cases()
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
    _write_text(os.path.join(folder, INDEX), json.dumps(index, indent=1, sort_keys=True))
    return entries


def sha256_of(path: str) -> str:
    """The sha256 of a file."""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _write_json(path: str, case: Case) -> None:
    """float64 as decimal and hexadecimal text, and the correctly rounded narrower dtypes."""
    dtypes = ("float32",) if case.edits else DTYPES
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
    with open_output(path) as file:
        file.write(f"{text}\n".encode())


def _write_safetensors(path: str, case: Case) -> None:
    save(path, {name: np.atleast_1d(array) for name, array in case.tensors.items()})


def _write_header(path: str, case: Case) -> None:
    """float32, which C has no text for that is not rounded again; integers as they are."""
    narrow = {
        name: array if array.dtype.kind in "iu" else array.astype(np.float32) for name, array in case.tensors.items()
    }
    save(path, {name: np.atleast_1d(array) for name, array in narrow.items()})


WRITERS = {"json": _write_json, "safetensors": _write_safetensors, "h": _write_header}
