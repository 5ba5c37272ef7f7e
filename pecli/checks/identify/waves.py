"""Tables of waves: sinusoidal and rotary ones, in any layout, with both functions or one alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np

from pecli.checks.forms import Form, forms, shape_without_ones, without_ones
from pecli.checks.identify import recipes, sharper, simpler, vectors
from pecli.checks.identify.looks import Candidate, Look, Proposals, propose, ways_to_look
from pecli.checks.identify.match import Match
from pecli.checks.identify.recipes import Evidence
from pecli.engine.arrays import Array, Floats
from pecli.engine.numerics.dtypes import COMPLEX, SIGNIFICAND_BITS

_LOOKS = 16
_PATIENCE = 40
"""Meanings that are tried in all, of every way to read a file; a table that is one shows it within twenty."""
_MOST = 24
"""Candidates that are held against the table."""


@dataclass(frozen=True)
class Source:
    """A way to read a file: its form, its parts, and what the whole is called."""

    names: tuple[str, ...]
    form: Form
    parts: tuple[Floats, ...]
    whole: Floats
    """The array of one tensor, positions along the rows."""
    dtype: str
    length: int
    """Rows of the table in the file, of which some may have been left out here."""

    @property
    def narrow(self) -> str:
        return recipes.precision(self.parts[-1], self.dtype)


def recognise(
    tensors: Mapping[str, Array], dtypes: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]] | None = None
) -> list[Match]:
    """Every sinusoidal or rotary scheme that explains the tensors, the best first: one tensor, or cos and sin.

    `shapes` are the true ones, where the tensors are only the beginning of longer ones.
    """
    arrays = {name: without_ones(array) for name, array in tensors.items()}
    if not all(array.size and np.isfinite(array).all() for array in arrays.values()):
        return []
    kinds = {name: recipes.held(array.real, COMPLEX.get(dtypes[name], dtypes[name])) for name, array in arrays.items()}
    if not all(kind in SIGNIFICAND_BITS for kind in kinds.values()):
        return []
    if len(arrays) == 1 and next(iter(arrays.values())).ndim == 1:
        ((name, array),) = arrays.items()
        return vectors.recognise(name, array.real, kinds[name])
    patience = iter(range(_PATIENCE))
    for source in _sources(arrays, kinds, shapes):
        found = _explained(source, patience)
        if found:
            return found
    return []


def _sources(
    arrays: Mapping[str, Array], kinds: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]] | None
) -> Iterator[Source]:
    """Every way to read the arrays; those with doubled columns first, as they are doubled in no other."""
    names = tuple(arrays)
    first = arrays[names[0]]
    if len(names) == 2 and (arrays[names[1]].shape != first.shape or first.ndim != 2 or first.dtype.kind == "c"):
        return
    if len(names) > 2:
        return
    ways = sorted(forms(first), key=lambda form: (form.transposed, not form.doubled))
    for form in ways:
        if len(names) == 2 and form.arrangement != "alone":
            continue
        if form.padded and form.arrangement != "halves":
            continue
        split = [form.split(arrays[name]) for name in names]
        parts = tuple(np.asarray(part, np.float64) for each in split if each is not None for part in each)
        if None in split or min(parts[0].shape) < 1 or len(parts[0]) < 2:
            continue
        axis = _position_axis(form, first.ndim)
        length = first.shape[axis]
        if shapes is not None:
            length = shape_without_ones(shapes[names[0]])[axis]
        whole = np.asarray((np.swapaxes(first, -1, -2) if form.transposed else first).real, np.float64)
        yield Source(names, form, parts, whole, kinds[names[0]], length)


def _position_axis(form: Form, axes: int) -> int:
    first = 0 if form.arrangement == "pairs" else axes - 2
    return first + form.transposed


def _explained(source: Source, patience: Iterator[int]) -> list[Match]:
    """Matches of one way to read a file: a simple law at any offset is looked for before an involved one at another."""
    unit = recipes.unit(source.narrow)
    for recipe, looks in ways_to_look(source.parts, unit):
        waiting: list[_Waiting] = []
        found = _first_matches(_seen(looks, source, patience), source, recipe, waiting)
        while not found and waiting:
            again, waiting = waiting, []
            found = _first_matches(iter(again), source, recipe, waiting)
        if found:
            return found
    return []


_Waiting = tuple[Look, list[Proposals]]


def _seen(looks: Iterator[Look], source: Source, patience: Iterator[int]) -> Iterator[_Waiting]:
    for _, look in zip(patience, islice(looks, _LOOKS), strict=False):
        yield look, list(propose(look, source))


def _first_matches(seen: Iterator[_Waiting], source: Source, recipe: str, waiting: list[_Waiting]) -> list[Match]:
    """Matches among the next tier of every look, one after the other; those that have more tiers go to `waiting`."""
    for look, kinds in seen:
        left, found = [], []
        for proposals in kinds:
            tier = next(proposals.tiers, None)
            if tier is None:
                continue
            left.append(proposals)
            match = _match(look, source, proposals, tier, recipe)
            if match is not None:
                found.append(match)
                if not proposals.more:
                    break
        if found:
            return found
        if left:
            waiting.append((look, left))
    return []


def _match(look: Look, source: Source, proposals: Proposals, tier: Iterator[Candidate], recipe: str) -> Match | None:
    evidence = _evidence(source, proposals.kind, look.sine_first, look.sine)
    angles = look.angles(len(source.parts[0]))
    trial = recipes.settled(islice(tier, _MOST), evidence, angles, look.amplitude, recipe)
    if trial is None:
        return None
    for mended in (sharper.sharpened, simpler.simplified):
        trial = mended(trial, evidence, angles, look.amplitude)
    return Match(trial.scheme, trial.error, source.names, proposals.form, trial.undetermined)


def _evidence(source: Source, scheme: str, sine_first: bool, sine: bool) -> Evidence:
    if scheme == "sinusoidal":
        return Evidence({"pe": source.whole}, source.dtype, source.narrow)
    if len(source.parts) == 1:
        return Evidence({"sin" if sine else "cos": source.parts[0]}, source.dtype, source.narrow)
    cosine, sine_part = source.parts[::-1] if sine_first else source.parts
    return Evidence({"cos": cosine, "sin": sine_part}, source.dtype, source.narrow)
