"""Planted mistakes × storages × schemes: `python -m tests.tools.mistake_matrix [--pairs] [--kind rope] [--show]`.

Not part of the test suite, which holds a small sample of it. Every cell plants a mistake (or two), keeps the table in
one of several ways, asks for the reason, and compares the edits of the first explanation, storage apart, with those
that were planted. Cells in which storage hides the mistake, since it changes the values by less than storage does,
are left out and counted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from pecli.engine.arrays import round_to, widened
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import ParameterError
from pecli.explain.edits import (
    Edit,
    Heads,
    Layout,
    Mask,
    Negated,
    Parameter,
    Repeated,
    Rows,
    Scaled,
    Swapped,
    Transposed,
)
from pecli.explain.search import explain

Tables = dict[str, np.ndarray]
Planted = tuple[Tables, tuple[Edit, ...]]


@dataclass(frozen=True)
class Mistake:
    """A name, and what it makes of a scheme and its float64 tables: other tables, and the edits to be found."""

    name: str
    make: Callable[[Scheme, Tables], Planted | None]
    changes: tuple[tuple[str, Any], ...] = ()
    """Of parameters, where it is no more than that."""


def parameters(*changes: tuple[str, Any]) -> Mistake:
    """Other values of parameters."""

    def make(scheme: Scheme, tables: Tables) -> Planted | None:
        given = [getattr(scheme, name, None) for name, _ in changes]
        if any(
            old is None or old == value or name not in scheme.parameters()
            for old, (name, value) in zip(given, changes, strict=True)
        ):
            return None
        try:
            other = replace(scheme, **dict(changes))  # type: ignore[arg-type]
        except ParameterError:
            return None
        edits = [
            Layout(old, value) if name == "layout" else Parameter(name, old, value)
            for old, (name, value) in zip(given, changes, strict=True)
        ]
        return {key: table for key, table in other.tables().items() if key in tables}, tuple(edits)

    return Mistake(" + ".join(f"{name} {value}" for name, value in changes), make, changes)


def parameter(name: str, value: Any) -> Mistake:
    """Another value of a parameter."""
    return parameters((name, value))


def scaling_ignored(scheme: Scheme, tables: Tables) -> Planted | None:
    if not isinstance(scheme, Rope) or scheme.scaling == "none":
        return None
    other = Rope(
        scheme.seq_len, scheme.dim, base=scheme.base, offset=scheme.offset, layout=scheme.layout, dtype="float64"
    )
    return {key: table for key, table in other.tables().items() if key in tables}, (
        Parameter("scaling", scheme.scaling, "none"),
    )


def scaling_twice(scheme: Scheme, tables: Tables) -> Planted | None:
    if not isinstance(scheme, Rope) or scheme.scaling == "none" or scheme.layout != "compact":
        return None
    plain = np.array(replace_scaling(scheme).inverse_frequencies())
    inv = np.array(scheme.inverse_frequencies()) ** 2 / plain
    angle = np.outer(np.arange(scheme.seq_len) + scheme.offset, inv)
    height = scheme.attention_factor_value()
    made = {"cos": height * np.cos(angle), "sin": height * np.sin(angle), "inv_freq": inv}
    return {key: made[key] for key in tables}, (
        Parameter("scaling", scheme.scaling, f"{scheme.scaling}, applied twice"),
    )


def replace_scaling(scheme: Rope) -> Rope:
    return Rope(scheme.seq_len, scheme.dim, base=scheme.base, dtype="float64")


def attention_dropped(scheme: Scheme, tables: Tables) -> Planted | None:
    if not isinstance(scheme, Rope) or scheme.scaling != "yarn" or "inv_freq" in tables:
        return None
    height = scheme.attention_factor_value()
    return {key: table / height for key, table in tables.items()}, (Parameter("attention_factor", height, 1.0),)


def exponent(times: int) -> Mistake:
    def make(scheme: Scheme, tables: Tables) -> Planted | None:
        if not isinstance(scheme, Rope) or scheme.scaling != "none" or scheme.layout != "compact":
            return None
        inv = scheme.base ** (-np.arange(scheme.dim // 2) / (times * scheme.dim / 2))
        angle = np.outer(np.arange(scheme.seq_len) + scheme.offset, inv)
        made = {"cos": np.cos(angle), "sin": np.sin(angle), "inv_freq": inv}
        return {key: made[key] for key in tables}, (Parameter("exponent_dim", scheme.dim, times * scheme.dim),)

    return Mistake(f"exponent over {times} dim", make)


def arrays(
    name: str, change: Callable[[Tables], Tables | None], edits: Callable[[Scheme, Tables], tuple[Edit, ...]]
) -> Mistake:
    """A change of the arrays alone."""

    def make(scheme: Scheme, tables: Tables) -> Planted | None:
        if "inv_freq" in tables and name not in ("scaled", "negated"):
            return None
        changed = change(dict(tables))
        return None if changed is None else (changed, edits(scheme, tables))

    return Mistake(name, make)


def each(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Tables], Tables]:
    return lambda tables: {name: change(table) for name, table in tables.items()}


def swapped(tables: Tables) -> Tables | None:
    if {"cos", "sin"} == set(tables):
        return {"cos": tables["sin"], "sin": tables["cos"]}
    if set(tables) == {"pe"}:
        pe, half = tables["pe"], tables["pe"].shape[-1] // 2
        if np.ptp(pe[:, 0] ** 2 + pe[:, 1] ** 2) < 1e-9:  # interleaved: neighbours are of one angle
            return {"pe": pe.reshape(*pe.shape[:-1], half, 2)[..., ::-1].reshape(pe.shape)}
        return {"pe": np.concatenate([pe[..., half:], pe[..., :half]], axis=-1)}
    return None


def one_negated(tables: Tables) -> Tables | None:
    return {**tables, "sin": -tables["sin"]} if {"cos", "sin"} == set(tables) else None


def head_order(tables: Tables) -> Tables | None:
    return {name: table[::-1] for name, table in tables.items()} if "bias" in tables or "slopes" in tables else None


def not_bias(change: Callable[[Tables], Tables | None]) -> Callable[[Tables], Tables | None]:
    return lambda tables: None if {"bias", "slopes"} & set(tables) else change(tables)


def bias_mask(tables: Tables) -> Tables | None:
    if "bias" not in tables or not np.isinf(tables["bias"]).any():
        return None
    return {"bias": np.where(np.isinf(tables["bias"]), -1e9, tables["bias"])}


def scaled_edit(scheme: Scheme, tables: Tables) -> tuple[Edit, ...]:
    if isinstance(scheme, Sinusoidal):
        return (Parameter("amplitude", 1.0, 2.0),)
    if isinstance(scheme, Rope) and scheme.scaling == "yarn" and "inv_freq" not in tables:
        height = scheme.attention_factor_value()
        return (Parameter("attention_factor", height, 2 * height),)
    return (Scaled(2.0),) if "inv_freq" not in tables else (Parameter("scale", 1.0, 2.0),)


def transposed(tables: Tables) -> Tables | None:
    return {name: table.T for name, table in tables.items()} if all(t.ndim == 2 for t in tables.values()) else None


MISTAKES = [
    parameter("base", 10000.0),
    parameter("base", 500000.0),
    parameter("base", 1e6),
    parameter("offset", 1),
    parameter("offset", 1234),
    parameter("layout", "halves"),
    parameter("layout", "interleaved"),
    parameter("freq_shift", 1.0),
    parameter("scale", 1000.0),
    parameter("factor", 16.0),
    parameter("beta_fast", 64.0),
    parameter("truncate", False),
    parameter("high_freq_factor", 8.0),
    parameter("original_max_position_embeddings", 2048),
    Mistake("scaling ignored", scaling_ignored),
    Mistake("scaling twice", scaling_twice),
    Mistake("attention factor dropped", attention_dropped),
    exponent(2),
    parameter("rule", "naive"),
    parameter("max_bias", 16.0),
    parameter("form", "symmetric"),
    parameter("form", "causal"),
    parameter("form", "key"),
    arrays("swapped", swapped, lambda scheme, tables: (Swapped(),)),
    arrays("sin negated", one_negated, lambda scheme, tables: (Negated("sin"),)),
    arrays("negated", each(np.negative), lambda scheme, tables: (Negated("all"),)),
    arrays("scaled", each(lambda table: 2 * table), scaled_edit),
    arrays("transposed", not_bias(transposed), lambda scheme, tables: (Transposed((1, 0)),)),
    arrays(
        "repeated", not_bias(each(lambda table: np.stack([table, table]))), lambda scheme, tables: (Repeated(0, 2),)
    ),
    arrays("rows reversed", not_bias(each(lambda table: table[::-1])), lambda scheme, tables: (Rows("reversed"),)),
    arrays(
        "rows wrapped",
        not_bias(each(lambda table: table[np.arange(len(table)) % (len(table) // 3)])),
        lambda scheme, tables: (Rows("wrapped", len(next(iter(tables.values()))) // 3),),
    ),
    arrays(
        "rows padded",
        not_bias(each(lambda table: np.concatenate([np.zeros_like(table[:5]), table[:-5]]))),
        lambda scheme, tables: (Rows("padded", 5),),
    ),
    arrays("heads reversed", head_order, lambda scheme, tables: (Heads("reversed"),)),
    arrays("mask", bias_mask, lambda scheme, tables: (Mask("-1e+09"),)),
]


def storages(rng: np.random.Generator) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    def dtype(name: str) -> Callable[[np.ndarray], np.ndarray]:
        return lambda table: widened(round_to(np.ascontiguousarray(table, np.float64), name))

    def steps(table: np.ndarray) -> np.ndarray:
        finite = np.abs(table[np.isfinite(table) & (np.abs(table) < 1e8)])
        unit = float(finite.max()) / 127
        return np.where(np.isfinite(table) & (np.abs(table) < 1e8), np.rint(table / unit) * unit, table)

    return {
        "float32": dtype("float32"),
        "float16": dtype("float16"),
        "bfloat16": dtype("bfloat16"),
        "6 decimals": lambda table: np.round(table, 6),
        "4 decimals": lambda table: np.round(table, 4),
        "int8 steps": steps,
        "noise 1e-5": lambda table: table + 1e-5 * rng.normal(size=table.shape),
        "noise 1e-4": lambda table: table + 1e-4 * rng.normal(size=table.shape),
    }


LLAMA3: dict[str, Any] = {
    "scaling": "llama3",
    "factor": 8.0,
    "original_max_position_embeddings": 8192,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}
YARN: dict[str, Any] = {
    "scaling": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 4096,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": True,
}


def subjects(large: bool) -> Iterator[tuple[str, Scheme, tuple[str, ...]]]:
    """Schemes, and the tensors of them that are looked at."""
    sizes = ((512, 64), (2048, 128)) if large else ((512, 64),)
    for length, dim in sizes:
        yield "sinusoidal", Sinusoidal(length, dim, dtype="float64"), ("pe",)
        yield "sinusoidal", Sinusoidal(length, dim, style="whisper", dtype="float64"), ("pe",)
        ropes = [
            Rope(length, dim, dtype="float64"),
            Rope(2 * length, dim, base=500000.0, dtype="float64", **LLAMA3),
            Rope(2 * length, dim, dtype="float64", **YARN),
        ]
        for rope in ropes:
            for names in (("cos", "sin"), ("cos",), ("inv_freq",)):
                yield f"rope {rope.scaling} {'+'.join(names)}", rope, names
    for heads in (12, 20):
        yield "alibi", Alibi(heads, 64, form="causal", dtype="float64"), ("bias",)
        yield "alibi", Alibi(heads, dtype="float64"), ("slopes",)


Cell = tuple[str, Scheme, str, list[Tables], Tables, tuple[Edit, ...]]
"""Kind, scheme, the mistakes' names; the tables without one mistake or another, those with all, and the edits."""


def cells(large: bool, pairs: bool, rng: np.random.Generator) -> Iterator[Cell]:
    for kind, scheme, names in subjects(large):
        right = {name: table.astype(np.float64) for name, table in scheme.tables().items() if name in names}
        for mistakes in _pairs(rng) if pairs else [(one,) for one in MISTAKES]:
            made = planted(scheme, right, mistakes)
            less = [planted(scheme, right, [one for one in mistakes if one is not each]) for each in mistakes]
            without = [each[0] for each in less if each is not None]
            if made is None or len(without) < len(mistakes) or any(same(each, made[0]) for each in without):
                continue
            yield kind, scheme, " + ".join(each.name for each in mistakes), without, *made


def planted(scheme: Scheme, right: Tables, mistakes: Sequence[Mistake]) -> Planted | None:
    """The tables with some mistakes, all of parameters at once, and their edits."""
    changes = [change for each in mistakes for change in each.changes]
    found: Planted | None = parameters(*changes).make(scheme, right) if changes else (right, ())
    for each in mistakes:
        if not each.changes and found is not None:
            more = each.make(scheme, found[0])
            found = (more[0], (*found[1], *more[1])) if more is not None else None
    return found


def same(one: Tables, other: Tables) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in one)


ARRAYS = {"swapped", "sin negated", "negated", "transposed", "repeated", "rows reversed", "rows wrapped"}


def _pairs(rng: np.random.Generator) -> list[tuple[Mistake, ...]]:
    """Two parameters, or one mistake and a change of the arrays."""
    every = [(one, other) for one in MISTAKES for other in MISTAKES if one.name not in ARRAYS and other.name in ARRAYS]
    every += [
        (one, other)
        for one, other in combinations(MISTAKES, 2)
        if one.changes and other.changes and one.changes[0][0] != other.changes[0][0]
    ]
    return [every[k] for k in rng.choice(len(every), 90, replace=False)]


def hidden(right: Tables, wrong: Tables, stored: Tables) -> bool:
    """Whether storage changes the values more than a mistake does, or nearly so."""
    for name, table in right.items():
        if table.shape != wrong[name].shape or (np.isfinite(table) != np.isfinite(wrong[name])).any():
            return False
        with np.errstate(invalid="ignore"):
            mistake = np.sqrt(np.nansum(np.where(np.isfinite(table - wrong[name]), table - wrong[name], 0) ** 2))
            storage = np.sqrt(
                np.nansum(np.where(np.isfinite(stored[name] - wrong[name]), stored[name] - wrong[name], 0) ** 2)
            )
        if mistake > 5 * storage:
            return False
    return True


def alike(found: tuple[Edit, ...], planted: tuple[Edit, ...]) -> bool:
    """Whether edits are the planted ones, in any order, numbers to six digits."""
    return sorted(map(_spelled, found)) == sorted(map(_spelled, planted))


def _spelled(edit: Edit) -> str:
    return repr(
        {
            key: f"{value:.6g}" if isinstance(value, float) and not isinstance(value, bool) else str(value)
            for key, value in edit.as_json().items()
        }
    )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--kind", default="")
    parser.add_argument("--mistake", default="")
    parser.add_argument("--storage", default="")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so much processor time")
    parser.add_argument("--share", type=float, default=1.0, help="of the cells, taken at random")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--seed", type=int, default=1, help="of the noise, the pairs and the share")
    given = parser.parse_args()
    rng, chance = np.random.default_rng(given.seed), np.random.default_rng(given.seed + 1)
    counts: Counter[tuple[str, str]] = Counter()
    slowest = 0.0
    for kind, scheme, mistake, without, wrong, edits in cells(given.large, given.pairs, rng):
        if given.kind not in kind or given.mistake not in mistake:
            continue
        for storage, keep in storages(rng).items():
            if given.storage not in storage or chance.random() > given.share or time.process_time() > given.seconds:
                continue
            stored = {
                name: np.ascontiguousarray(keep(table)).astype(np.float32 if storage != "float64" else np.float64)
                for name, table in wrong.items()
            }
            wide = {name: table.astype(np.float64) for name, table in stored.items()}
            if any(hidden(each, wrong, wide) for each in without):
                counts[kind, "hidden"] += 1
                continue
            start = time.process_time()
            found = explain(replace(scheme, dtype="float32"), stored)
            taken = time.process_time() - start
            slowest = max(slowest, taken)
            good = bool(found) and alike(found[0].mistakes, edits)
            counts[kind, "right" if good else "wrong"] += 1
            counts[storage, "right" if good else "wrong"] += 1
            if not good or taken > 1:
                first = found[0].mistakes if found else "nothing"
                print(
                    f"{kind} | {mistake} | {storage} | {taken:.2f} s | {first}"
                    + (f" | wanted {edits}" if given.show else ""),
                    flush=True,
                )
    for name in dict.fromkeys(name for name, _ in counts):
        print(f"{name:24}" + "".join(f" {word} {counts[name, word]:4}" for word in ("right", "wrong", "hidden")))
    kinds = {name for name, _, _ in subjects(given.large)}
    right, wrong = (
        sum(count for (name, verdict), count in counts.items() if verdict == word and name in kinds)
        for word in ("right", "wrong")
    )
    print(
        f"{right} of {right + wrong} first explanations are the planted edits: "
        f"{right / max(1, right + wrong):.2%}; slowest {slowest:.2f} s"
    )
    return 0 if right >= (0.9 if given.pairs else 0.97) * (right + wrong) else 1


if __name__ == "__main__":
    sys.exit(main())
