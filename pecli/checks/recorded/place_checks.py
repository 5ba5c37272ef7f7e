"""The checks of one place of a recorded run: frequencies, tables, rotated vectors, learned rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from pecli.checks.diagnosis import diagnosis
from pecli.checks.doubts import AsManyHeads, Doubt
from pecli.checks.recorded.arithmetic_noise import rotation_noise, table_noise
from pecli.checks.recorded.call_tokens import CallTokens
from pecli.checks.recorded.run_tensors import AFTER, BEFORE, ROWS, RecordedRun, layer_of
from pecli.checks.verification import Verification
from pecli.checks.verify.added import verify_added
from pecli.checks.verify.against_model import verify_tables
from pecli.checks.verify.rotated import check_pair
from pecli.checks.verify.rotation_job import RotationJob
from pecli.checks.verify.tensor_pairs import TensorPair, tensor_pairs
from pecli.compare.comparison import Comparison
from pecli.compare.tolerance import EXACT, Tolerance
from pecli.engine.arrays import Array, Floats, widened
from pecli.engine.named_values import MutableValues, NamedValues
from pecli.errors import ParameterError, PecliError, number
from pecli.explain.explanation import Explanation
from pecli.files.tensor_roles import role_of
from pecli.models.encoding import ModelEncodings

TABLES = "tables"
TABLE_ROLES = ("cos", "sin")
FREQUENCIES = "inv_freq"
POSITION_AXIS = -2  #: recorded queries and keys are (batch, heads, L, D)
LEAST_FREQUENCY = 1e-30
"""Frequencies of models go down to 1e-8 or so; memory that nobody wrote holds far smaller numbers."""
MOST_FREQUENCY = 4.0
"""The first frequency is 1; factors of scalings may raise it a little."""


class Reasons(NamedTuple):
    """The reasons for which a place is wrong, in sentences and as data."""

    lines: Sequence[str] = ()
    explanations: Sequence[Explanation] = ()


class PlaceCheck(NamedTuple):
    """Tensors of one place in one call, compared.

    Attributes:
        call: The number of the call.
        place: The layer or module, such as `model.layers.3`.
        layer_type: The layer type that it belongs to; empty if it is not known, or the only one.
        results: The comparisons.
        explain: Searches for the reasons of a failure.
        weaknesses: Returns known mistakes that the same data would have passed as well.
    """

    call: int
    place: str
    layer_type: str
    results: tuple[Comparison, ...]
    explain: Callable[[], Reasons]
    weaknesses: Callable[[], Sequence[Doubt | str]]

    @property
    def passed(self) -> bool:
        return all(result.passed for result in self.results)

    @property
    def layer(self) -> int | None:
        return layer_of(self.place)

    @property
    def size(self) -> int:
        return sum(result.size for result in self.results)


class PlaceChecker:
    """Checks the places of a run against a model's encodings.

    Attributes:
        unchecked: Tensors that nothing can be compared with, such as those of image patches.
    """

    def __init__(
        self,
        run: RecordedRun,
        tokens: Sequence[CallTokens],
        encodings: ModelEncodings,
        tolerance: Tolerance,
    ) -> None:
        self.run = run
        self.tokens = tokens
        self.encodings = encodings
        self.tolerance = tolerance
        self.unchecked: list[str] = []
        self._shared_checks: dict[object, PlaceCheck] = {}

    def checks(self) -> Iterator[PlaceCheck]:
        """Yield the checks of all places in all calls, in the order in which they were recorded."""
        for number_of_call, call in enumerate(self.run.calls):
            for place, tensors in call.places().items():
                for group in _groups(tensors):
                    members = {name: tensors[name] for name in group.names}
                    check = self._check_of(group.kind)
                    try:
                        yield check(number_of_call, place, members)
                    except PecliError:  # A vision tower, for example, has other positions.
                        self.unchecked += [f"{place}.{name}" for name in members]

    def _check_of(self, kind: str) -> Callable[[int, str, Mapping[str, Array]], PlaceCheck]:
        """Return the method that checks a group of tensors of a kind."""
        checks = {
            TABLES: self._check_tables,
            ROWS: self._check_rows,
            AFTER: self._check_rotation,
            FREQUENCIES: self._check_frequencies,
        }
        return checks.get(kind, _refuse)

    def _refuse_other_parts(self, place: str) -> None:
        """Raise ParameterError for a tower of images or audio: no position of its patches is recorded.

        It is also raised if the model has no rotary encoding at all.
        """
        self._require_rope(place)
        layer_type = self.encodings.layer_named(place)
        if layer_type is not None and self.encodings.one(layer_type).part:
            raise ParameterError("place", place, "its tokens are not those of the text")

    def _require_rope(self, place: str) -> None:
        """Raise ParameterError if the model has no rotary encoding."""
        if not self.encodings.ropes():
            raise ParameterError("place", place, "the model's encoding is not rotary")

    def _layer_type(self, place: str) -> str | None:
        """Return the layer type that a place states, by a word or by the number of a layer."""
        layer_type = self.encodings.layer_named(place)
        layer = layer_of(place)
        if layer_type is None and layer is not None:
            return self.encodings.layer_named(f"layers.{layer}")
        return layer_type

    def _allowed(self, noise: float) -> Tolerance:
        """Return the tolerance that was given, or else that of the model's own arithmetic."""
        return Tolerance(atol=noise) if self.tolerance == EXACT else self.tolerance

    def _check_frequencies(self, call: int, place: str, tensors: Mapping[str, Array]) -> PlaceCheck:
        """Compare inverse frequencies; scalings that follow the length are read at the call's end."""
        ((name, frequencies),) = tensors.items()
        self._require_rope(place)
        layer_type = self._layer_type(f"{place}.{name}")
        options: MutableValues = {"layer_type": layer_type}
        if any(rope.follows_length for rope in self.encodings.ropes()):
            options["length"] = self.tokens[call].last + 1
        run = partial(verify_tables, tensors, self.encodings, self.tolerance, **options)
        key = (*options.values(), _contents(tensors))
        check = self._shared_check(key, call, place, layer_type, run)
        # A buffer that no checkpoint holds keeps what was in memory, if a model is built without
        # values first and `inv_freq` is not computed again.
        if not _is_uninitialised(widened(frequencies)):
            return check
        values = ", ".join(number(float(value), 3) for value in frequencies.ravel()[:3])
        reason = f"{name} was never initialised: it holds {values}, …"
        return check._replace(explain=partial(Reasons, (reason,)))

    def _check_tables(self, call: int, place: str, tensors: Mapping[str, Array]) -> PlaceCheck:
        """Compare cosines and sines with those at the positions of the tokens."""
        self._refuse_other_parts(place)
        layer_type = self._layer_type(place)
        tokens = self.tokens[call]
        allowed = self._allowed(table_noise(tensors.values(), tokens.last))
        options = tokens.options(next(iter(tensors.values())))
        run = partial(
            verify_tables, tensors, self.encodings, allowed, layer_type=layer_type, **options
        )
        key = (call, layer_type, _contents(tensors))
        return self._shared_check(key, call, place, layer_type, run)

    def _shared_check(
        self,
        key: object,
        call: int,
        place: str,
        layer_type: str | None,
        run: Callable[..., Verification],
    ) -> PlaceCheck:
        """Return a check of tables; equal tables share it.

        GPT-J, for example, gathers the rows of its table in every layer anew.
        """
        if key not in self._shared_checks:
            self._shared_checks[key] = _check_of_tables(call, place, layer_type, run)
        return _at_place(self._shared_checks[key], call, place)

    def _check_rotation(self, call: int, place: str, tensors: Mapping[str, Array]) -> PlaceCheck:
        """Compare queries or keys with the exact rotation of those before it."""
        self._refuse_other_parts(place)
        name = next(iter(tensors)).removesuffix(BEFORE).removesuffix(AFTER)
        before = tensors[name + BEFORE]
        after = tensors[name + AFTER]
        tokens = self.tokens[call]
        if before.shape[POSITION_AXIS] != tokens.length:
            raise ParameterError(name, f"of shape {before.shape}", "it has other positions")
        layer_type = self._layer_type(place)
        (pair,) = tensor_pairs({name: after}, {name: before}).pairs
        rotation = RecordedRotation(
            pair._replace(is_one_of_several=True),
            self.encodings,
            self._allowed(rotation_noise(before, after, tokens.last)),
            {"layer_type": layer_type, "seq_axis": POSITION_AXIS},
            tokens,
        )
        result = rotation.result()
        if not result.passed and rotation.has_as_many_heads:
            turned = rotation.turned()
            if turned.result().passed:
                rotation = turned
                result = turned.result()
        return PlaceCheck(
            call,
            place,
            layer_type or "",
            (replace(result, name=f"{place}.{name}"),),
            rotation.reasons,
            rotation.weaknesses,
        )

    def _check_rows(self, call: int, place: str, tensors: Mapping[str, Array]) -> PlaceCheck:
        """Compare rows that a learned table gave with those at the positions of the tokens."""
        tokens = self.tokens[call]
        weight = self.run.weights[place]
        rows = tensors[ROWS]
        if rows.shape[-2] != tokens.length:
            raise ParameterError(place, f"of shape {rows.shape}", "it has other positions")
        # The first rows of a table may be those of padding: 2 in OPT.
        first_row = max((encoding.offset or 0 for encoding in self.encodings), default=0)
        places = np.minimum(tokens.positions + first_row, len(weight) - 1)
        # Rows that all sequences share must be right for each of them.
        rows = np.broadcast_to(rows, (*places.shape, rows.shape[-1]))
        if tokens.seen is not None:  # Padding may have any row.
            rows = np.where(tokens.seen[..., None], rows, weight[places])
        run = partial(
            verify_added,
            {ROWS: rows},
            weight,
            self.tolerance,
            before={ROWS: np.zeros_like(rows)},
            positions=places,
        )
        return _check_of_tables(call, place, None, run)


class RecordedRotation(NamedTuple):
    """Queries or keys before and after a rotation, with what they are compared with."""

    pair: TensorPair
    encodings: ModelEncodings
    tolerance: Tolerance
    options: NamedValues
    tokens: CallTokens
    is_turned: bool = False  #: whether the axes of heads and positions are exchanged

    @property
    def has_as_many_heads(self) -> bool:
        """True if there are as many heads as positions: then shapes do not tell which is which."""
        shape = self.pair.before.shape
        return len(shape) > 2 and shape[POSITION_AXIS] == shape[POSITION_AXIS - 1]

    def turned(self) -> "RecordedRotation":
        """Return the rotation with the axes of heads and positions exchanged."""
        before = np.swapaxes(self.pair.before, POSITION_AXIS, POSITION_AXIS - 1)
        after = np.swapaxes(self.pair.after, POSITION_AXIS, POSITION_AXIS - 1)
        pair = self.pair._replace(before=before, after=after)
        return self._replace(pair=pair, is_turned=True)

    def _job(self, *, reasons: bool, places: NamedValues) -> RotationJob:
        return RotationJob.of(self.encodings, self.tolerance, reasons, **self.options, **places)

    def result(self) -> Comparison:
        places = self.tokens.options(self.pair.before)
        return check_pair(self.pair, self._job(reasons=False, places=places)).result

    def reasons(self) -> Reasons:
        places = self.tokens.options(self.pair.before)
        check = check_pair(self.pair, self._job(reasons=True, places=places))
        explanations = [reason.made_by(None) for reason in check.reasons]
        lines = diagnosis(explanations, [check.result], self.tolerance)
        return Reasons([line.text for line in lines], explanations)

    def weaknesses(self) -> list[Doubt]:
        # Positions are stated: equal rows at the beginning need not be padding.
        job = self._job(reasons=False, places=self.tokens.stated())
        weak: list[Doubt] = [*check_pair(self.pair, job).weaknesses()]
        if self.is_turned:
            count = self.pair.before.shape[POSITION_AXIS]
            weak.append(AsManyHeads(count))
        return weak


def _refuse(call: int, place: str, tensors: Mapping[str, Array]) -> PlaceCheck:
    """Raise ParameterError for tensors whose names do not state what they are."""
    raise ParameterError(place, "recorded", "its tensors have no known role")


class _Group(NamedTuple):
    """Tensors of a place that are checked together."""

    kind: str  #: TABLES, AFTER for queries or keys, FREQUENCIES, or else the name
    names: list[str]


def _groups(tensors: Mapping[str, Array]) -> list[_Group]:
    """Return the groups of a place: cos with sin, q_before with q_after, others alone."""
    groups: dict[str, _Group] = {}
    for name in tensors:
        if role_of(name) in TABLE_ROLES:
            groups.setdefault(TABLES, _Group(TABLES, [])).names.append(name)
        elif name.endswith((BEFORE, AFTER)):
            vector = name.removesuffix(BEFORE).removesuffix(AFTER)
            groups.setdefault(vector, _Group(AFTER, [])).names.append(name)
        else:
            kind = FREQUENCIES if role_of(name) == FREQUENCIES else name
            groups[name] = _Group(kind, [name])
    return [*groups.values()]


def _is_uninitialised(frequencies: Floats) -> bool:
    """Return True if some numbers are not finite, zero, negative, or far from any frequency."""
    if not np.isfinite(frequencies).all():
        return True
    return bool((frequencies < LEAST_FREQUENCY).any() or (frequencies > MOST_FREQUENCY).any())


def _check_of_tables(
    call: int, place: str, layer_type: str | None, run: Callable[..., Verification]
) -> PlaceCheck:
    """Run a check without reasons; the same function finds them if they are needed."""
    answer = run(reasons=False)
    results = tuple(replace(result, name=f"{place}.{result.name}") for result in answer.tensors)

    def explain() -> Reasons:
        explained = run(reasons=True)
        return Reasons(explained.reasons, explained.explanations)

    def weaknesses() -> Sequence[str]:
        return answer.weak

    return PlaceCheck(call, place, layer_type or "", results, explain, weaknesses)


def _contents(tensors: Mapping[str, Array]) -> tuple[tuple[str, bytes], ...]:
    return tuple((name, tensor.tobytes()) for name, tensor in tensors.items())


def _at_place(check: PlaceCheck, call: int, place: str) -> PlaceCheck:
    """Return the check of equal tables in another call or at another place."""
    results = []
    for result in check.results:
        role = result.name.rpartition(".")[2]
        results.append(replace(result, name=f"{place}.{role}"))
    return check._replace(call=call, place=place, results=tuple(results))
