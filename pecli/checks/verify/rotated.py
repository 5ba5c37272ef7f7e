"""Tensors compared with those before an encoding: queries or keys that it rotated, inputs to which it added rows."""

import math
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pecli.checks.verification import Verification, diagnosis
from pecli.checks.verify.targets import Place
from pecli.compare.comparison import Comparison, compare_arrays, problems_of
from pecli.compare.problems import NotFinite
from pecli.compare.tolerance import FREQ_RTOL, Tolerance
from pecli.engine.application import LAYOUTS
from pecli.engine.arrays import (
    SIGNIFICAND_BITS,
    Array,
    Floats,
    Indices,
    as_dtype,
    dtype_name,
    numbers,
    widened,
)
from pecli.engine.schemes.command_options import options
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import FileError, KindError, ParameterError, PecliError, bracketed, listed, quoted
from pecli.explain import acceptance, array_transforms, search
from pecli.explain.edits import (
    Edit,
    Errors,
    Explanation,
    Layout,
    Parameter,
    Positions,
    Rotation,
    Rows,
    clause,
    merged,
)
from pecli.explain.rotation import HeadRotation, Mistake, explain_rotation, mistakes
from pecli.explain.sample import UNITS, Sample, precision, rms
from pecli.explain.used_positions import explain_positions, runs, situation
from pecli.explain.wave_tables import wave_table
from pecli.files.load import Given, opened
from pecli.files.npy import ARRAY_NAME
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.find import Model, load_model
from pecli.tensors.inputs import Input
from pecli.tensors.row_positions import row_positions
from pecli.tensors.row_rotation import head_counts, model_rotation

OF_A_ROTATION = (
    "nothing is rotated",
    "every row is at one position",
    "the direction is reversed",
    "all ",
)
BLOCK_ELEMENTS = 1 << 22  #: distances between rows of a table that are in memory at once
MIN_GAIN = 0.5  #: what a factor may leave of what is wrong without it
STILL = ((Rotation("none"),), (Rows("constant", 0),))  #: mistakes that leave the values as they are


def verify_rotated(
    given: Given, before: Given, model: Model, tolerance: Tolerance, reasons: bool, **places: Any
) -> Verification:
    """Compare rotated tensors (…, positions, channels) with the rotation of those before; where `seq_axis` does not say
    so, positions are the last axis but one, unless that is a number of heads of the model."""
    layer_type, seq_axis = (places.pop(name, None) for name in ("layer_type", "seq_axis"))
    tokens = {
        name: places.pop(name, None) for name in ("attention_mask", "positions", "shift")
    }  # where they stand
    place = Place.of(places)
    for name in place.own:
        raise ParameterError(
            name, quoted(places[name]), "with `before`, tokens have positions", "give `positions`"
        )
    found = load_model(model)
    encodings = (found.one(layer_type),) if layer_type is not None else found.ropes()
    if not encodings or not encodings[0].is_rotary:
        raise ParameterError("before", "given", "the model has no rotary encoding", "leave it out")
    label, pairs, rest = both_sides(given, before)
    checks = []
    for sides in pairs:
        shape = sides.after.shape
        axis = _position_axis(shape, model, layer_type, tokens) if seq_axis is None else seq_axis
        named = found.layer_named(sides.name, by_number=layer_type is None)
        likely = [each for each in encodings if named in (None, each.layer_type)] or encodings
        likely = [
            each for each in likely if shape[-1] in (each.head_dim, each.rotary_dim)
        ] or likely[:1]
        every = [
            _RotatedCheck(sides, each, found.file, axis, place, tokens, tolerance, reasons)
            for each in likely
        ]
        passed = [each for each in every if each.result.passed]
        checks.append(passed[0] if passed else min(every, key=_RotatedCheck.doubt))
        is_guessed = reasons and seq_axis is None and len(shape) > 2 and not checks[-1].tokens
        if is_guessed and not passed and not checks[-1].reasons:  # a shard has fewer heads
            other, number = {-2: -3, -3: -2}[axis], every.index(checks[-1])
            edit, back = (
                Parameter("position_axis", axis, other),
                Parameter("position_axis", other, axis),
            )
            with suppress(PecliError):  # so many positions may be more than there are
                turned = _RotatedCheck(
                    sides, likely[number], found.file, other, place, tokens, tolerance, reasons
                )
                why = [each for each in turned.reasons if back not in each.edits]
                checks[-1].reasons = [replace(each, edits=(edit, *each.edits)) for each in why]
    results = tuple(each.result for each in checks)
    why = [reason for each in checks for reason in each.reasons]
    lines = diagnosis([replace(each, scheme=None) for each in why], results, tolerance)
    lines += [line for each in checks for line in each.advice()]
    weak = tuple(line for each in checks if each.result.passed for line in each.weak())
    readings = {each.sides.name: each.reading for each in checks if each.reading}
    return Verification(
        label, "rope", results, problems_of(results), tuple(lines), readings, tuple(why), weak, rest
    )


class Sides(NamedTuple):
    """A tensor before and after the rotation, in the dtype that both are compared in."""

    name: str
    label: str  #: what errors call it
    dtype: str
    before: Array
    after: Array
    file: str  #: what the tensor before was given as
    several: bool  #: whether it is one of several


def both_sides(after: Given, before: Given) -> tuple[str, list[Sides], tuple[str, ...]]:
    """Tensors that belong together: the only ones, or those of the same name; and what is there before alone."""
    label, file = opened(after)
    place, source = opened(before)
    found = []
    ours, there = file.tensors, dict(source.tensors)
    for name, array in (*ours.items(), *there.items()):
        if array.dtype.kind == "c":
            rule = "queries and keys are real"
            raise ParameterError(name, dtype_name(array.dtype), rule, "give two channels per pair")
    if len(ours) == len(there) == 1:
        there = dict(zip(ours, there.values(), strict=True))
    for name, array in ours.items():
        if name not in there:
            rule = f"holds {name}, and {place or 'those before'} {listed(list(there), 8)}"
            raise FileError(
                label or "arrays", rule, "the names must agree; or name one of each: FILE:NAME"
            )
        called = f"{'the array' if name == ARRAY_NAME else name} of {label}".removesuffix(" of ")
        if array.shape != there[name].shape or array.ndim < 2:
            rule = f"before it is of shape {there[name].shape}"
            raise ParameterError(
                called, f"of shape {array.shape}", rule, "they must be alike, (…, L, D)"
            )
        if not array.size:
            raise ParameterError(
                called, f"of shape {array.shape}", "it holds no numbers", "give some to compare"
            )
        dtype = (
            dtype_name(array.dtype) if dtype_name(array.dtype) in SIGNIFICAND_BITS else "float32"
        )
        exact = there[name] if dtype_name(there[name].dtype) == dtype else widened(there[name])
        found.append(
            Sides(name, called, dtype, exact, as_dtype(array, dtype), place, len(ours) > 1)
        )
    return label, found, tuple(name for name in there if name not in ours)


def _position_axis(
    shape: tuple[int, ...], model: Model, layer_type: str | None, tokens: Mapping[str, Any]
) -> int:
    """Where positions are: before the last axis, or with a model's number of heads there, and not as many tokens,
    before those. The other of the two is not tried: what was rotated along its heads would pass."""
    given = [value for name, value in tokens.items() if name != "shift" and value is not None]
    if isinstance(model, (ModelEncodings, Encoding)) or (
        given and np.shape(given[0])[-1:] == shape[-2:-1]
    ):
        return -2
    heads: Collection[int] = ()
    with suppress(PecliError):  # layers that differ
        heads = head_counts(model, layer_type)
    return -3 if len(shape) > 2 and shape[-2] in heads and shape[-3] not in heads else -2


class _RotatedCheck:
    """A tensor compared with the rotation that one of a model's encodings asks for."""

    def __init__(
        self,
        sides: Sides,
        encoding: Encoding,
        file: str,
        axis: int,
        place: Place,
        tokens: Mapping[str, Any],
        tolerance: Tolerance,
        search: bool,
    ) -> None:
        tensor, ndim = Input(sides.after, sides.label), sides.after.ndim
        tensor.check_sequence(axis)
        axis = axis - ndim if axis >= 0 else axis
        rows, self.shift = row_positions(**tokens, offset=place.offset), tokens.get("shift")
        fields = {
            "seq_axis": axis,
            "shift": self.shift,
            **({"layout": place.layout} if place.layout else {}),
        }
        how = {
            "length": place.length,
            "recipe": place.recipe,
            "runtime": place.runtime,
            "dtype": "float64",
        }
        rotation = model_rotation(
            [tensor], file, encoding, rows, (), fields, offset=place.offset or 0, **how
        )
        rope, self.layout = rotation.rope, rotation.layout
        self.model = ["--model", file] + ["--layer-type", encoding.layer_type] * bool(
            encoding.layer_type
        )
        self.plan = HeadRotation(rope, LAYOUTS[self.layout], encoding.trailing, axis)
        self.sides, self.tolerance, self.search = sides, tolerance, search
        self.before, self.after = (
            np.moveaxis(each, axis, -2) for each in (sides.before, sides.after)
        )
        self.tokens = any(value is not None for value in tokens.values())
        self.places, self.seen = rows.places(tensor, axis, rope.position_axes)
        if self.shift is not None:
            self.places = np.full_like(self.places, self.shift)
            once = (
                replace(rope, attention_factor=1.0) if rope.attention_factor_value() != 1 else rope
            )
            self.plan = replace(self.plan, rope=once, layouts=self.plan.layouts[1:] * 2)
        expected = rotation.apply(Input(sides.before, sides.label))
        for k, seen in enumerate(self.seen):  # what stands on padding is as it is
            which = (
                (k, ..., ~seen, slice(None)) if len(self.seen) > 1 else (..., ~seen, slice(None))
            )
            np.moveaxis(expected, axis, -2)[which] = self.after[which]
        self.result = self._compared(expected, sides.after)
        if strange := sum(
            np.count_nonzero(~np.isfinite(x[:, seen])) for x, _, _, seen in self._sequences()
        ):
            self.result.finding = NotFinite(int(strange), "of its values before")
        several = f"of {encoding.layer_type} layers" if encoding.layer_type else ""
        padding = (
            f"{padded:,} rows of padding not compared"
            if (padded := np.count_nonzero(~self.seen))
            else ""
        )
        along = f"positions along axis {axis + ndim}" * (axis != -2)
        self.reading = ", ".join(filter(None, (several, along, padding)))

    def _sequences(self) -> Iterator[tuple[Array, Array, HeadRotation, Array]]:
        """Each sequence of a batch (heads, positions, channels) before and after, how it should be rotated, and which
        of its rows are no padding; without an axis of batches, or of heads, there is one."""
        batch = len(self.after) if self.after.ndim > 3 or len(self.seen) > 1 else 1
        sides = (side.reshape(batch, -1, *side.shape[-2:]) for side in (self.before, self.after))
        for k, (x, y) in enumerate(zip(*sides, strict=True)):
            row = min(k, len(self.seen) - 1)
            yield x, y, replace(self.plan, places=self.places[:, row]), self.seen[row]

    def _compared(self, expected: Array, found: Array) -> Comparison:
        return compare_arrays(
            as_dtype(expected, self.sides.dtype), found, self.tolerance, name=self.sides.name
        )

    @cached_property
    def reasons(self) -> list[Explanation]:
        """First the positions that were used, where they differ from those of the tokens; then how they are rotated.
        Where nobody said where tokens stand, what all rows share is of the rotation, such as another offset."""
        if self.result.passed or not self.search:
            return []
        atol, dtype = self.tolerance.atol, self.sides.dtype

        def by_tokens(x: Array, y: Array, plan: Any, seen: Array) -> list[Explanation]:
            own = replace(plan, places=plan.places[:, seen])
            return explain_rotation(widened(x[:, seen]), widened(y[:, seen]), own, atol, dtype)

        found = self._one_by_one(
            lambda x, y, plan, seen: explain_positions(x, y, plan, plan.places, seen, atol, dtype)
        )
        if (
            [each.tensors for each in found] == [("after",)]
            and not self.tokens
            and not self.plan.rope.mrope_section
        ):
            reason = getattr(found[0].mistakes[0], "reason", "")
            found = found if reason and not reason.startswith(OF_A_ROTATION) else []
        if not found and self.tokens:
            found = self._one_by_one(by_tokens)
        elif not found:
            found = explain_rotation(
                widened(self.before), widened(self.after), self.plan, atol, dtype
            )
        if not self.sides.several:
            return found
        return [
            replace(each, tensors=(self.sides.name, *(t for t in each.tensors if t != "after")))
            for each in found
        ]

    def _one_by_one(self, explain: Callable[..., list[Explanation]]) -> list[Explanation]:
        """The reasons of each sequence, named where there are several."""
        each = [explain(*sequence)[:1] for sequence in self._sequences()]
        alike = {found[0].mistakes if found else () for found in each}
        if len(alike) == 1 and all(found and found[0].tensors == ("after",) for found in each):
            return each[0]
        return [
            replace(
                one,
                tensors=(", ".join((f"sequence {k}", *(t for t in one.tensors if t != "after"))),),
            )
            for k, found in enumerate(each)
            for one in found
            if one.mistakes
        ]

    def doubt(self) -> tuple[float, float]:
        """How many mistakes would make this the rotation of the model, on average; then the largest error."""
        mistakes = [len(each.mistakes) for each in self.reasons]
        return sum(mistakes) / len(
            mistakes
        ) if mistakes else math.inf, self.result.max_abs_error or 0.0

    def advice(self) -> Iterator[str]:
        """Where positions seem to be; or the command that rotates as the tensor was."""
        if len(self.reasons) != 1:
            return
        (found,) = self.reasons
        layout, axis, scheme = self.layout, self.plan.axis, found.scheme
        for edit in found.edits:
            if isinstance(edit, Parameter) and edit.name == "position_axis":
                axis = edit.found
                number, shape = axis + self.after.ndim, bracketed(self.sides.after.shape)
                yield f"if positions are along axis {number} of {shape}, verify with --seq-axis {number}"
            elif isinstance(edit, Layout):
                layout = {"interleaved before, halves after": "deepseek"}.get(
                    edit.found, edit.found
                )
        known = layout in LAYOUTS and all(
            isinstance(edit, (Layout, Parameter)) for edit in found.mistakes
        )
        if not known or scheme is None or not self.sides.file or vars(scheme)["recipe"] != "exact":
            return  # no option is for recipes
        if scheme == self.plan.rope and self.model[1]:
            words = [
                *self.model,
                *["--offset", str(self.plan.rope.offset)] * bool(self.plan.rope.offset),
            ]
            words += ["--layout", layout] * (layout != self.layout)
        else:
            plain: dict[str, Any] = {
                "seq_len": 1,
                "layout": "compact",
                "dtype": "float32",
                "recipe": "exact",
            }
            words = [*options(replace(scheme, **plain))]
            words = words[2:] if words[0] == "--seq-len" else words
            words += ["--layout", layout] * (layout != "halves") + [
                "--trailing"
            ] * self.plan.trailing
        words += ["--seq-axis", str(axis + self.after.ndim)] * (axis != -2)
        source = self.sides.file + f":{self.sides.name}" * self.sides.several
        output = "again.safetensors" if self.sides.dtype == "bfloat16" else "again.npy"
        apart = "apart from those elements, " * bool(found.beyond)
        yield f"{apart}reproduce with {shlex.join(['pecli', 'apply', 'rope', source, *words, '-o', output])}"

    def weak(self) -> Iterator[str]:
        """Known mistakes that the same data would have passed, too."""
        if self.shift == 0:
            return
        count, shape = self.after.shape[-2], self.after.shape
        sequences = [(self.before, self.after, self.plan, np.ones(count, bool))]
        if self.tokens:
            sequences, shape = [*self._sequences()], shape[-2:]
        for k, (x, *_) in enumerate(() if self.tokens else self._sequences()):
            as_first = (x == x[:, :1]).all(axis=(0, 2))
            if 1 < (equal := count if as_first.all() else int(as_first.argmin())) < count:
                which = f"sequence {k} begins" if self.before.ndim > 3 else "it begins"
                advice = "positions of padding were not checked: give --attention-mask"
                yield f"{which} with {equal} equal rows, which look like padding; {advice}"
        rows = f"{self.sides.name}: " * self.sides.several + (
            f"{count:,} rows" if count != 1 else "1 row"
        )
        for alike in zip(
            *(mistakes(plan, shape) for _, _, plan, _ in sequences), strict=True
        ):  # of all sequences
            would_pass = (self._passes(*each) for each in zip(alike, sequences, strict=True))
            if not all(would_pass) or self._harmless(alike[0]):
                continue
            if alike[0].edits in STILL:  # and hence no other mistake shows
                yield f"{rows} cannot detect a missing rotation"
                return
            unseen = " and ".join(clause(edit) for edit in alike[0].edits)
            yield f"{rows} cannot tell whether {unseen}; compare more positions"

    def _passes(self, mistake: Mistake, sequence: tuple[Array, Array, HeadRotation, Array]) -> bool:
        """Whether a sequence would have passed, had it been rotated so; some rows tell most."""
        x, y, _, seen = sequence
        every = np.flatnonzero(seen)
        some = (every[:: max(1, len(every) // 16)], every)
        made = ((mistake.render(widened(x[..., rows, :]), rows), y[..., rows, :]) for rows in some)
        return all(self._compared(*pair).passed for pair in made)

    def _harmless(self, mistake: Mistake) -> bool:
        ropes: list[Any] = [mistake.scheme, self.plan.rope]
        if None in ropes or ropes[0] == ropes[1]:
            return False
        one, other = (
            [each.offset, each.attention_factor_value(), *each.frequencies().floats()]
            for each in ropes
        )
        return len(one) == len(other) and bool(np.allclose(one, other, rtol=FREQ_RTOL, atol=0))


def verify_added(
    after: Given, table: Any, tolerance: Tolerance, reasons: bool, *, before: Given, **tokens: Any
) -> Verification:
    """Compare (L, D) or (batch, L, D) with what was before plus rows of a scheme's table, or of weights (rows, D)."""
    for other in tokens.keys() - {"positions", "attention_mask", "offset"}:
        raise KindError(
            other, "given", "inputs have positions, an offset or an attention_mask", "leave it out"
        )
    name, values = "learned table", table
    if isinstance(table, Scheme):
        name, values = table.name, table.single_array().array()
    values = numbers("table", values)
    if values.dtype.kind == "c":
        raise ParameterError(
            "table", f"of dtype {dtype_name(values.dtype)}", "rows that are added are real"
        )
    weight, rows = np.asarray(widened(values)), row_positions(**tokens)
    label, pairs, rest = both_sides(after, before)
    results: list[Comparison] = []
    why: list[Explanation] = []
    for sides in pairs:
        shape = sides.after.shape
        if weight.ndim != 2 or weight.shape[1] != shape[-1] or len(shape) > 3:
            rule = f"{sides.label} is of shape {bracketed(shape)}"
            advice = "they must be (rows, D) and (L, D) or (batch, L, D)"
            raise ParameterError("table", f"of shape {bracketed(weight.shape)}", rule, advice)
        (places,), seen = rows.places(Input(sides.after, sides.label), -2)
        last = int(places.max(initial=0))
        if last >= len(weight):
            raise ParameterError(
                "table", f"of {len(weight):,} rows", f"row {last:,} is needed", "give a longer one"
            )
        sums = np.where(
            seen[..., None], widened(sides.before) + weight[places], sides.after
        )  # of (1, L, D) at least
        expected = as_dtype(sums.reshape(shape), sides.dtype)
        results.append(compare_arrays(expected, sides.after, tolerance, name=sides.name))
        if strange := np.count_nonzero(~np.isfinite(sums)[np.broadcast_to(seen, sums.shape[:-1])]):
            results[-1].finding = NotFinite(int(strange), "of the sums")
        elif reasons and not results[-1].passed:
            found = [*_rows_added(sides, weight, places, seen, tolerance.atol)]
            why += found or merged(_table_added(table, sides, places, seen, tolerance.atol))
    lines = diagnosis(why, results, tolerance)
    return Verification(
        label, name, tuple(results), problems_of(results), tuple(lines), {}, tuple(why), (), rest
    )


def _rows_added(
    sides: Sides, weight: Floats, places: Indices, seen: Array, atol: float
) -> Iterator[Explanation]:
    """Which rows of the table were added, sequence by sequence, where they are others than expected."""
    before, after = (
        widened(side).reshape(-1, *side.shape[-2:]) for side in (sides.before, sides.after)
    )
    step = max(1, BLOCK_ELEMENTS // len(weight))
    size = (weight**2).sum(axis=1)
    for k, (x, y) in enumerate(zip(before, after, strict=True)):
        own, shown = places[min(k, len(places) - 1)], seen[min(k, len(seen) - 1)]
        name, added = (
            f"sequence {k}" if len(after) > 1 else "after",
            np.where(shown[:, None], y - x, 0.0),
        )
        with np.errstate(invalid="ignore"):  # of infinite values
            nearest = [
                (size - 2 * added[at : at + step] @ weight.T).argmin(axis=1)
                for at in range(0, len(x), step)
            ]
            used = np.where(shown, np.concatenate([*nearest, np.empty(0, np.intp)]), own)
            rows, expected = (np.where(shown[:, None], weight[each], 0.0) for each in (used, own))
            times = array_transforms.scaled(expected, added)
        edits: tuple[Edit, ...] = ()
        if not added.any() and rows.any():
            rows, edits = added, (Rotation("none added"),)
        elif (used != own).any():
            edits = (
                Positions(
                    runs(own), runs(used), situation(own, used, int(shown.argmax()), rotated=False)
                ),
            )
        every = [Explanation(edits, None, (name,), Errors(added - rows, y))]
        if times is not None and rms(added - times[1]) < MIN_GAIN * rms(added - expected):
            every.append(
                Explanation(
                    times[0], None, ("table", name)[: len(after)], Errors(added - times[1], y)
                )
            )
        one = Sample(name, sides.dtype, y.shape, y, np.arange(len(y)))
        max_noise = (
            acceptance.MAX_NOISE * rms(added) / (rms(y) or 1.0)
        )  # the values before may be far larger
        judge = acceptance.Judge({name: one, "table": one}, atol, sides.dtype, max_noise=max_noise)
        yield from sorted(
            (each for each in judge.accepted(every) if each.edits), key=lambda each: each.noise
        )[:1]


def _table_added(
    scheme: Any, sides: Sides, places: Indices, seen: Array, atol: float
) -> Iterator[Explanation]:
    """Why rows that follow each other are not those of a scheme: what was added is a table."""
    added = (widened(sides.after) - widened(sides.before)).reshape(-1, *sides.after.shape[-2:])
    limit = max(atol, UNITS * precision(sides.dtype) * float(np.abs(widened(sides.after)).max()))
    has_waves = isinstance(scheme, Scheme) and wave_table(scheme) is not None
    is_range = has_waves and seen.all() and (np.diff(places) == 1).all()
    for k, rows in enumerate(added) if is_range else ():
        own = replace(
            scheme,
            seq_len=len(rows),
            offset=scheme.offset + int(places[min(k, len(places) - 1), 0]),
        )
        name = f"sequence {k}" if len(added) > 1 else "after"
        found = search.explain(own, {own.single_array().name: rows}, limit)
        yield from (replace(each, scheme=None, tensors=(name,)) for each in found if each.mistakes)
