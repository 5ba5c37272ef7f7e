"""ALiBi biases in other forms than asked for, and with other slopes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pecli.checks.diagnose import precision
from pecli.checks.diagnose.causes import DEAREST, Cause, Explanation, best, cost_of
from pecli.checks.diagnose.sample import few
from pecli.checks.diagnose.slopes import slopes
from pecli.engine.arrays import Flags, Floats, Indices
from pecli.engine.numerics.rounding import widened
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.table import Table

_HEADS, _QUERIES, _KEYS = 32, 12, 32
_MASKED = -1000.0
"""Constants below this, above the diagonal, are masks."""


@dataclass(frozen=True)
class Bias:
    """Some heads, queries and keys of a bias."""

    values: Floats
    heads: Indices
    queries: Indices
    keys: Indices
    length: int
    causes: tuple[Cause, ...]
    """What its shape says already."""

    @property
    def distances(self) -> Floats:
        return np.asarray(np.subtract.outer(self.queries, self.keys).astype(np.float64))


@dataclass(frozen=True)
class Pattern:
    """What the slopes are multiplied by, and where that counts."""

    causes: tuple[Cause, ...]
    steps: Floats
    here: Flags


def explain_alibi(scheme: Alibi, name: str, table: Table) -> list[Explanation]:
    """The explanations of slopes, or of a bias."""
    bias = _slopes_alone(scheme, table) if name == "slopes" else _read(scheme, table)
    if bias is None:
        return []
    found: list[Explanation] = []
    for pattern in sorted(_patterns(scheme, bias, name), key=lambda pattern: cost_of(pattern.causes)):
        for each in _explained(scheme, bias, pattern, table.dtype):
            if not each.cost:  # the numbers are right; at most their dtype is not
                return [each] if each.causes else []
            found.append(each)
    return best(each for each in found if each.cost <= DEAREST)


def _slopes_alone(scheme: Alibi, table: Table) -> Bias | None:
    values = widened(table.array().reshape(-1))
    if len(values) != scheme.heads:
        return None
    heads, one = np.arange(len(values)), np.zeros(1, np.intp)
    return Bias(values[:, None, None], heads, one, one, 1, ())


def _read(scheme: Alibi, table: Table) -> Bias | None:
    """Samples of a bias, whatever axes of length 1 it has, with the heads first or last."""
    sizes = [size for size in table.shape if size != 1]
    if scheme.heads > 1 and len(sizes) == 3 and sizes[2] == scheme.heads != sizes[0]:
        return _heads_last(scheme, table, sizes)
    if scheme.heads > 1:
        if not sizes or sizes[0] != scheme.heads:
            return None
        sizes = sizes[1:]
    if len(sizes) not in (1, 2) or (len(sizes) == 2 and sizes[0] != sizes[1]):
        return None
    length, queries = sizes[-1], sizes[0] if len(sizes) == 2 else 1
    if len(table.shape) < 2 or table.width != length:
        return None
    heads, rows, keys = few(scheme.heads, _HEADS), few(queries, _QUERIES), few(length, _KEYS)
    read = [table.read(int(h) * queries + int(q), int(h) * queries + int(q) + 1)[0, keys] for h in heads for q in rows]
    values = widened(np.stack(read)).reshape(len(heads), len(rows), len(keys))
    at = rows if queries > 1 else np.array([length - 1])
    return Bias(values, heads, at, keys, length, _resized(scheme, length))


def _heads_last(scheme: Alibi, table: Table, sizes: list[int]) -> Bias | None:
    if sizes[0] != sizes[1] or table.size > 1 << 24:
        return None
    length = sizes[0]
    heads, rows, keys = few(scheme.heads, _HEADS), few(length, _QUERIES), few(length, _KEYS)
    values = widened(table.array().reshape(sizes)[np.ix_(rows, keys, heads)]).transpose(2, 0, 1)
    causes = (Cause("the table is transposed (the heads come last)"), *_resized(scheme, length))
    return Bias(values, heads, rows, keys, length, causes)


def _resized(scheme: Alibi, length: int) -> tuple[Cause, ...]:
    if length == scheme.seq_len:
        return ()
    return (Cause(f"seq_len is {length} (the spec says {scheme.seq_len})", 0.0),)


def _patterns(scheme: Alibi, bias: Bias, name: str) -> Iterator[Pattern]:
    """Every form, with either sign."""
    distance = bias.distances
    everywhere = np.ones(distance.shape, bool)
    if name == "slopes":
        yield Pattern((), everywhere.astype(np.float64), everywhere)
        yield Pattern((Cause("the slopes are negated"),), -1.0 * everywhere, everywhere)
        return
    keys = np.broadcast_to(bias.keys.astype(np.float64), distance.shape)
    forms: list[tuple[str, tuple[Cause, ...], Floats, Flags]] = [
        ("key", (), keys, everywhere),
        ("key-last", (), keys - (bias.length - 1), everywhere),
    ]
    if len(bias.queries) > 1:
        forms.append(("symmetric", (), -np.abs(distance), everywhere))
        forms.append(("symmetric", (Cause("it is m·(j−i) above the diagonal, too"),), -distance, everywhere))
        late = Cause("distances are counted from 1, not from 0")
        forms.append(("symmetric", (late,), -np.abs(distance) - 1, everywhere))
        for by, words in ((1, "earlier"), (-1, "later")):
            moved = (Cause(f"every key is taken for the one {words}"),)
            forms.append(("symmetric", moved, -np.abs(distance + by), everywhere))
        forms += _masked(bias, distance)
    for form, causes, steps, here in forms:
        causes = (*_told(scheme.form, form), *causes, *bias.causes)
        yield Pattern(causes, steps, here)
        yield Pattern((Cause("the sign is flipped"), *causes), -steps, here)


def _masked(bias: Bias, distance: Floats) -> Iterator[tuple[str, tuple[Cause, ...], Floats, Flags]]:
    """The causal form, with its mask where it belongs or beside that."""
    exchanged = Cause("the mask is below the diagonal, as if queries and keys were exchanged")
    diagonal = Cause("the diagonal is masked, too")
    for masked, more in ((distance < 0, ()), (distance <= 0, (diagonal,)), (distance > 0, (exchanged,))):
        mask = _mask(bias, masked)
        if mask is not None:
            yield "causal", (*more, *mask), -np.abs(distance), ~masked


def _mask(bias: Bias, here: Flags) -> tuple[Cause, ...] | None:
    """What stands where the mask is, if it is one number that no bias is."""
    above = bias.values[:, here]
    if not above.size:
        return None
    value = float(above.flat[0])
    if not (above == value).all() or (value > _MASKED and value != 0):
        return None
    if value == -np.inf:
        return ()
    return (Cause(f"the mask above the diagonal is {value:.6g} instead of −inf"),)


def _told(wanted: str, form: str) -> tuple[Cause, ...]:
    if wanted == form:
        return ()
    distance = {"symmetric": " (distances)", "causal": " (distances)"}
    same = "equal after a causal softmax, since a row's shift cancels" if "key" in wanted + form else ""
    words = f"the form is {form}{distance.get(form, '')} (the spec says {wanted}{'; ' if same else ''}{same})"
    return (Cause(words),)


def _explained(scheme: Alibi, bias: Bias, pattern: Pattern, dtype: str) -> Iterator[Explanation]:
    """The slopes that make the bias, in this pattern."""
    values, steps = bias.values[:, pattern.here], pattern.steps[pattern.here]
    if not np.isfinite(values).all() or not steps.any():
        return
    measured = np.ones(scheme.heads)
    measured[bias.heads] = values @ steps / (steps @ steps)
    stored = min(dtype, scheme.dtype, key=precision.places)
    told = precision.stored(dtype, scheme.dtype)
    grain = precision.grain(values.astype(np.float64))
    for causes, every in slopes(scheme, measured):
        model = np.multiply.outer(every[bias.heads], steps)
        errors = np.abs(values - model)
        for kind, cast in ((stored, ()), (grain, (precision.cast(grain),))):
            allowed = np.abs(model) * (1.01 * 2.0 ** -precision.places(kind) + 4 * 2.0**-24)
            if precision.places(kind) <= precision.places(stored) and (errors <= allowed).all():
                yield Explanation((*causes, *pattern.causes, *cast, *told), float(errors.max()))
                break
