"""Planted mistakes: of tables, with the edits that name them, as several storages keep them; and of rotations."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pecli.engine import edits as vocabulary
from pecli.engine.arrays import round_to, widened
from pecli.engine.edits import Edit, Layout, Negated, Parameter, Rows
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import ParameterError
from tests.oracle import turned

Tables = dict[str, np.ndarray]
Planted = tuple[Tables, tuple[Edit, ...]]


@dataclass(frozen=True)
class Mistake:
    """A name, and what it makes of a scheme and its float64 tables: other tables, and the edits to be found."""

    name: str
    make: Callable[[Scheme, Tables], Planted | None]


def parameter(name: str, value: Any) -> Mistake:
    """Another value of a parameter."""

    def make(scheme: Scheme, tables: Tables) -> Planted | None:
        old = getattr(scheme, name, None)
        if old is None or old == value or name not in scheme.parameters():
            return None
        try:
            other = replace(scheme, **{name: value})
        except ParameterError:
            return None
        edit = Layout(old, value) if name == "layout" else Parameter(name, old, value)
        return {key: table for key, table in other.tables().items() if key in tables}, (edit,)

    return Mistake(f"{name} {value}", make)


def plain_rope(scheme: Rope, **changes: Any) -> Rope:
    return Rope(scheme.seq_len, scheme.dim, base=scheme.base, dtype="float64", **changes)


def tables_at(inv: np.ndarray, scheme: Rope, tables: Tables, height: float = 1.0) -> Tables:
    angle = np.outer(np.arange(scheme.seq_len) + scheme.offset, inv)
    made = {"cos": height * np.cos(angle), "sin": height * np.sin(angle), "inv_freq": inv}
    return {key: made[key] for key in tables}


def scaling_ignored(scheme: Scheme, tables: Tables) -> Planted | None:
    if not isinstance(scheme, Rope) or scheme.scaling == "none":
        return None
    made = plain_rope(scheme, offset=scheme.offset, layout=scheme.layout).tables()
    return {key: made[key] for key in tables}, (Parameter("scaling", scheme.scaling, "none"),)


def scaling_twice(scheme: Scheme, tables: Tables) -> Planted | None:
    if not isinstance(scheme, Rope) or scheme.scaling == "none" or scheme.layout != "compact":
        return None
    inv = np.array(scheme.inverse_frequencies()) ** 2 / np.array(
        plain_rope(scheme).inverse_frequencies()
    )
    made = tables_at(inv, scheme, tables, scheme.attention_factor_value())
    return made, (Parameter("scaling", scheme.scaling, f"{scheme.scaling}, applied twice"),)


def attention_dropped(scheme: Scheme, tables: Tables) -> Planted | None:
    if not isinstance(scheme, Rope) or scheme.scaling != "yarn" or "inv_freq" in tables:
        return None
    height = scheme.attention_factor_value()
    return {key: table / height for key, table in tables.items()}, (
        Parameter("attention_factor", height, 1.0),
    )


def exponent_doubled(scheme: Scheme, tables: Tables) -> Planted | None:
    if not isinstance(scheme, Rope) or scheme.scaling != "none" or scheme.layout != "compact":
        return None
    inv = scheme.base ** (-np.arange(scheme.dim // 2) / scheme.dim)
    return tables_at(inv, scheme, tables), (Parameter("exponent_dim", scheme.dim, 2 * scheme.dim),)


def arrays(
    name: str, change: Callable[[Tables], Tables | None], edits: Callable[..., Edit] | Edit
) -> Mistake:
    """A change of the arrays alone, and the edit that names it."""

    def make(scheme: Scheme, tables: Tables) -> Planted | None:
        if "inv_freq" in tables and name not in ("scaled", "negated"):
            return None
        changed = change(dict(tables))
        return (
            None
            if changed is None
            else (changed, (edits if isinstance(edits, Edit) else edits(scheme, tables),))
        )

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
    return (
        {name: table[::-1] for name, table in tables.items()}
        if "bias" in tables or "slopes" in tables
        else None
    )


def not_bias(change: Callable[[Tables], Tables | None]) -> Callable[[Tables], Tables | None]:
    return lambda tables: None if {"bias", "slopes"} & set(tables) else change(tables)


def bias_mask(tables: Tables) -> Tables | None:
    if "bias" not in tables or not np.isinf(tables["bias"]).any():
        return None
    return {"bias": np.where(np.isinf(tables["bias"]), -1e9, tables["bias"])}


def scaled_edit(scheme: Scheme, tables: Tables) -> Edit:
    if isinstance(scheme, Sinusoidal):
        return Parameter("amplitude", 1.0, 2.0)
    if "inv_freq" in tables:
        return Parameter("scale", 1.0, 2.0)
    if isinstance(scheme, Rope) and scheme.scaling == "yarn":
        height = scheme.attention_factor_value()
        return Parameter("attention_factor", height, 2 * height)
    return vocabulary.Scaled(2.0)


def transposed(tables: Tables) -> Tables | None:
    return (
        {name: table.T for name, table in tables.items()}
        if all(t.ndim == 2 for t in tables.values())
        else None
    )


PARAMETERS: dict[str, tuple[Any, ...]] = {
    "base": (10000.0, 500000.0, 1e6), "offset": (1, 1234), "layout": ("halves", "interleaved"), "freq_shift": (1.0,),
    "scale": (1000.0,), "factor": (16.0,), "beta_fast": (64.0,), "truncate": (False,), "high_freq_factor": (8.0,),
    "original_max_position_embeddings": (2048,), "rule": ("naive",), "max_bias": (16.0,),
    "form": ("symmetric", "causal", "key"),
}  # fmt: skip
MISTAKES = [
    *(parameter(name, value) for name, values in PARAMETERS.items() for value in values),
    Mistake("scaling ignored", scaling_ignored),
    Mistake("scaling twice", scaling_twice),
    Mistake("attention factor dropped", attention_dropped),
    Mistake("exponent over 2 dim", exponent_doubled),
    arrays("swapped", swapped, vocabulary.Swapped()),
    arrays("sin negated", one_negated, Negated("sin")),
    arrays("negated", each(np.negative), Negated("all")),
    arrays("scaled", each(lambda table: 2 * table), scaled_edit),
    arrays("transposed", not_bias(transposed), vocabulary.Transposed((1, 0))),
    arrays("repeated", not_bias(each(lambda table: np.stack([table, table]))), vocabulary.Repeated(0, 2)),
    arrays("rows reversed", not_bias(each(lambda table: table[::-1])), Rows("reversed")),
    arrays("rows wrapped", not_bias(each(lambda table: table[np.arange(len(table)) % (len(table) // 3)])),
        lambda scheme, tables: Rows("wrapped", len(next(iter(tables.values()))) // 3)),
    arrays("rows padded", not_bias(each(lambda table: np.concatenate([np.zeros_like(table[:5]), table[:-5]]))),
        Rows("padded", 5)),
    arrays("heads reversed", head_order, vocabulary.Heads("reversed")),
    arrays("mask", bias_mask, vocabulary.Mask("-1e+09")),
]  # fmt: skip


def storages(rng: np.random.Generator) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    def dtype(name: str) -> Callable[[np.ndarray], np.ndarray]:
        return lambda table: widened(round_to(np.ascontiguousarray(table, np.float64), name))

    def steps(table: np.ndarray) -> np.ndarray:
        finite = np.abs(table[np.isfinite(table) & (np.abs(table) < 1e8)])
        unit = float(finite.max()) / 127
        return np.where(
            np.isfinite(table) & (np.abs(table) < 1e8), np.rint(table / unit) * unit, table
        )

    return {
        **{name: dtype(name) for name in ("float32", "float16", "bfloat16")},
        "6 decimals": lambda table: np.round(table, 6),
        "4 decimals": lambda table: np.round(table, 4),
        "int8 steps": steps,
    }


LLAMA3: dict[str, Any] = {
    "scaling": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}  # fmt: skip
YARN: dict[str, Any] = {
    "scaling": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096, "beta_fast": 32.0, "beta_slow": 1.0,
    "truncate": True,
}  # fmt: skip


def subjects() -> Iterator[tuple[Scheme, tuple[str, ...]]]:
    """Schemes, and the tensors of them that are looked at."""
    for style in (None, "whisper"):
        yield Sinusoidal(512, 64, style=style, dtype="float64"), ("pe",)
    for rope in (Rope(512, 64), Rope(1024, 64, base=500000.0, **LLAMA3), Rope(1024, 64, **YARN)):
        for names in (("cos", "sin"), ("cos",), ("inv_freq",)):
            yield replace(rope, dtype="float64"), names
    for heads in (12, 20):
        yield Alibi(heads, 64, form="causal", dtype="float64"), ("bias",)
        yield Alibi(heads, dtype="float64"), ("slopes",)


def hidden(right: Tables, wrong: Tables, stored: Tables) -> bool:
    """Whether storage changes the values more than the mistake does, or nearly so."""

    def distance(one: np.ndarray, other: np.ndarray) -> float:
        with np.errstate(invalid="ignore"):
            return float(np.sqrt(np.sum(np.where(np.isfinite(one - other), one - other, 0) ** 2)))

    for name, table in right.items():
        if (
            table.shape != wrong[name].shape
            or (np.isfinite(table) != np.isfinite(wrong[name])).any()
        ):
            return False
        if distance(table, wrong[name]) > 5 * distance(stored[name], wrong[name]):
            return False
    return True


def alike(found: tuple[Edit, ...], planted: tuple[Edit, ...]) -> bool:
    """Whether edits are the planted ones, in any order, numbers to six digits."""

    def spelled(edit: Edit) -> str:
        fields = edit.as_json().items()
        return repr(
            {key: f"{value:.6g}" if type(value) is float else str(value) for key, value in fields}
        )

    return sorted(map(spelled, found)) == sorted(map(spelled, planted))


LENGTH = 128


def rotations(rope: Any, layout: str, x: np.ndarray) -> Iterator[tuple[str, np.ndarray, Edit]]:
    """x rotated with mistakes, and the edits that name them; the first one is right."""
    inv = np.array(rope.frequencies().floats())
    height = rope.attention_factor_value()
    plain = rope.base ** (-np.arange(len(inv)) / len(inv))
    other = "interleaved" if layout == "halves" else "halves"
    theta = 10000.0 if rope.base != 10000 else 500000.0

    def made(
        positions: Any = 0, inv: np.ndarray = inv, layout: str = layout, height: float = height
    ) -> np.ndarray:
        return turned(x, (np.arange(LENGTH) + positions)[..., None] * inv, layout, height)

    def frequencies(**changes: Any) -> np.ndarray:
        return np.array(replace(rope, **changes).frequencies().floats())

    by_head = turned(
        x.swapaxes(-2, -3), np.outer(np.arange(x.shape[-3]), inv), layout, height
    ).swapaxes(-2, -3)
    left_padding = np.maximum(np.arange(LENGTH) - np.array([[[0]], [[9]]]), 0) - np.arange(LENGTH)
    yield "right", made(), Edit()
    yield "offset 1", made(1), Parameter("offset", 0, 1)
    yield "offset 37", made(37), Parameter("offset", 0, 37)
    yield "theta", made(inv=frequencies(base=theta)), Parameter("base", rope.base, theta)
    yield "layout", made(layout=other), Layout(layout, other)
    yield "direction", made(inv=-inv), Negated("sin")
    yield "partial", made(inv=frequencies(dim=len(inv))), Parameter("dim", 2 * len(inv), len(inv))
    yield "head axis", by_head, Parameter("position_axis", -2, -3)
    found = f"0 × 9, then 0 … {LENGTH - 10}"
    yield "left padding", made(left_padding), vocabulary.Positions(f"0 … {LENGTH - 1}", found)
    yield "scaled", 1.25 * made(), vocabulary.Scaled(1.25)
    if rope.scaling != "none":
        yield (
            "scaling missing",
            made(inv=plain, height=1.0),
            Parameter("scaling", rope.scaling, "none"),
        )
        twice = Parameter("scaling", rope.scaling, f"{rope.scaling}, applied twice")
        yield "scaling twice", made(inv=inv**2 / plain), twice
