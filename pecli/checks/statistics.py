"""The distribution of the values and rows of a table, gathered slice by slice; and whether it has waves."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from operator import call
from typing import Any

import numpy as np

from pecli.checks import plain
from pecli.engine.arrays import AnyArray, Array, dtype_name, widened
from pecli.engine.table import Table, raw_bytes, results_in_order

SLICE_ELEMENTS = (
    1 << 16
)  #: elements processed at once, so that intermediate arrays stay in the cache
SHARES = (0.01, 0.25, 0.5, 0.75, 0.99)  #: of the elements in order: those that are quantiles
DOUBLE = (
    "float64",
    "int64",
    "uint64",
    "int32",
    "uint32",
)  #: dtypes whose values float32 cannot hold
SAMPLED, SIGMAS = (
    1 << 16,
    4.0,
)  #: elements that say where quantiles lie, and within how many standard deviations
MAX_PROBED = 64  #: columns that are tested for waves
SMOOTH = 0.05  #: share of its largest value that a wave, or a line, with some noise leaves


def described(table: Table, advance: Callable[[int], None] = lambda count: None) -> dict[str, Any]:
    """Minimum, maximum and mean of a table, and the SHA-256 of its bytes, block by block; `advance` counts these."""
    digest, slices = sha256(), list[dict[str, Any]]()
    for block in table.blocks():
        digest.update(raw_bytes(block))
        slices += map(_extent, _slices(block))
        advance(block.nbytes)
    about = {"shape": list(table.shape), "dtype": table.dtype}
    return {**about, **_summary(slices, table.size), "sha256": digest.hexdigest()}


def _slices(rows: Array) -> Iterator[Array]:
    step = max(1, SLICE_ELEMENTS // max(1, rows.shape[1]))
    return (rows[start : start + step] for start in range(0, len(rows), step))


def _extent(rows: Array) -> dict[str, Any]:
    """The smallest and the largest value of some rows, and their sum; of complex numbers, which have no order, none."""
    if rows.dtype.kind == "c":
        return dict.fromkeys(("min", "max", "sum"), math.nan)
    values = rows if rows.dtype == np.float64 else widened(rows)
    with np.errstate(invalid="ignore", over="ignore"):
        return {
            "min": float(values.min()),
            "max": float(values.max()),
            "sum": _sum(values.sum(axis=1).tolist()),
        }


def _summary(slices: list[dict[str, Any]], size: int) -> dict[str, float | None]:
    return {
        "min": plain(
            float(np.min([each["min"] for each in slices], initial=math.inf))
        ),  # which keeps NaN
        "max": plain(float(np.max([each["max"] for each in slices], initial=-math.inf))),
        "mean": plain(_sum(each["sum"] for each in slices) / size) if size else None,
    }


def profile(array: Array) -> dict[str, Any]:
    """Everything that `inspect --stats` reports of one tensor, as plain data."""
    rows = (
        array.reshape(-1, array.shape[-1] if array.ndim > 1 else 1)
        if array.size
        else np.empty((0, 1))
    )
    ordered = array.dtype.kind != "c"
    ranked = partial(quantiles, rows) if ordered and array.size else lambda: None
    jobs: list[Callable[[], Any]] = [
        ranked,
        lambda: [*map(_measured, _slices(rows))],
        lambda: sha256(raw_bytes(rows)),
    ]
    shares, slices, digest = results_in_order(
        call, jobs
    )  # the first takes as long as the others together
    summary = _summary(slices, array.size)
    mean = math.nan if summary["mean"] is None else summary["mean"]
    with np.errstate(over="ignore", invalid="ignore"):
        squares = [
            each["squares"] + each["size"] * np.square(np.float64(each["mean"] - mean))
            for each in slices
        ]
    found: dict[str, Any] = {
        "shape": list(array.shape),
        "dtype": dtype_name(array.dtype),
        **summary,
        "std": plain(math.sqrt(_sum(squares) / array.size)) if array.size else None,
        "quantiles": shares,
        **{name: sum(each[name] for each in slices) for name in ("zeros", "nan", "inf")},
    }
    if array.ndim > 1 and ordered:
        norms = np.concatenate([np.empty(0), *(each["norms"] for each in slices)])
        norm = (
            {name: float(getattr(norms, name)()) for name in ("min", "max", "mean")}
            if norms.size
            else None
        )
        found["rows"] = {"norm": norm, "constant": sum(each["constant"] for each in slices)}
    return {**found, "sha256": digest.hexdigest()}


def _measured(rows: Array) -> dict[str, Any]:
    """What some rows add to a profile; squares are those of distances from their own mean."""
    values: Any = rows if rows.dtype.kind == "c" else widened(rows)
    extent = _extent(values)
    has_odd = not (math.isfinite(extent["min"]) and math.isfinite(extent["max"]))
    likely = rows[rows[:, 0] == rows[:, -1]]  # others need not be read in full
    found = {
        **extent,
        "size": rows.size,
        "zeros": int(np.count_nonzero(values == 0)),
        "nan": int(np.count_nonzero(np.isnan(values))) if has_odd else 0,
        "inf": int(np.count_nonzero(np.isinf(values))) if has_odd else 0,
        "constant": int(np.count_nonzero((likely == likely[:, :1]).all(axis=1))),
        "mean": math.nan,
        "squares": math.nan,
    }
    if rows.dtype.kind != "c":
        with np.errstate(over="ignore", invalid="ignore"):
            found["mean"] = float(values.mean())
            apart = values - found["mean"]
            found["squares"] = float(np.square(apart, out=apart).sum())
            norms = np.sqrt(np.square(values, out=values).sum(axis=1))
            found["norms"] = norms[np.isfinite(norms)]
    return found


def _sum(values: Any) -> float:
    """Exactly rounded; not a number where a sum has no finite value."""
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        return math.nan


def quantiles(rows: Array) -> dict[str, float] | None:
    """Exact quantiles, elements and not means of two, by share; None without any finite value. A sample says between
    which numbers each lies; the few elements between them are put in order, all others are counted."""
    kind = "f8" if dtype_name(rows.dtype) in DOUBLE else "f4"

    def finite(values: Array) -> AnyArray:
        with np.errstate(invalid="ignore", over="ignore"):
            floats = np.asarray(values).astype(kind, copy=False).reshape(-1)
            return np.asarray(floats if np.isfinite(floats.sum()) else floats[np.isfinite(floats)])

    sample = np.sort(
        finite(rows.reshape(-1)[:: rows.size // SAMPLED | 1])
    )  # an odd step comes by every column
    count, margin = len(sample), int(SIGMAS * math.sqrt(len(sample)))
    middles = [int(share * count) for share in SHARES]
    limits = np.concatenate([[-np.inf], sample, [np.inf]]).astype(kind)
    between = [(limits[max(0, at - margin)], limits[min(count, at + margin) + 1]) for at in middles]

    def placed(piece: Array) -> tuple[int, list[tuple[int, AnyArray]]]:
        values = finite(piece)
        below = [int(np.count_nonzero(values < low)) for low, _ in between]
        inside = [values[(values >= low) & (values <= high)] for low, high in between]
        return len(values), [*zip(below, inside, strict=True)]

    pieces = [*results_in_order(placed, _slices(rows))]
    size = sum(each[0] for each in pieces)
    found = {}
    for k, share in enumerate(SHARES if size else ()):
        near = np.concatenate([each[1][k][1] for each in pieces])
        rank = int(share * (size - 1)) - sum(each[1][k][0] for each in pieces)
        if not 0 <= rank < len(near):  # the sample was no fair one
            near, rank = (
                np.concatenate([finite(piece) for piece in _slices(rows)]),
                int(share * (size - 1)),
            )
        near.partition(rank)
        found[f"{share:g}"] = float(near[rank])
    return found or None


def has_waves(values: AnyArray) -> bool:
    """Whether some column is a wave, or a line: x[n + 1] + x[n − 1] is a multiple of x[n].

    >>> has_waves(np.sin(np.arange(32.0))[:, None]), has_waves(np.random.default_rng(0).normal(size=(32, 4)))
    (True, False)
    """
    if len(values) < 3:
        return False
    values = values[:, :: max(1, values.shape[1] // MAX_PROBED)]
    here = values[1:-1]
    both = values[:-2] + values[2:]
    with np.errstate(all="ignore"):
        residual = np.median(
            np.abs(both - (both * here).sum(axis=0) / (here * here).sum(axis=0) * here), axis=0
        )
        return not (residual > SMOOTH * np.abs(here).max(axis=0)).all()
