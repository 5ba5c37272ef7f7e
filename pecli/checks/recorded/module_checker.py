"""The modules of a recorded run, checked one after the other against a model's encodings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import NamedTuple

import numpy as np

from pecli.checks.recorded.arithmetic_noise import bound_rotation_noise, bound_table_noise
from pecli.checks.recorded.call_tokens import CallTokens
from pecli.checks.recorded.module_checks import (
    POSITION_AXIS,
    ModuleCheck,
    RecordedRotation,
    RecordedRows,
    RecordedTables,
    RotationCheck,
    TableCheck,
)
from pecli.checks.recorded.run_tensors import AFTER, BEFORE, ROWS, RecordedRun, layer_of
from pecli.checks.verification import Verification
from pecli.checks.verify.tensor_pairs import pair_tensors
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import Array, Flags, Floats, Indices, widened
from pecli.engine.grouping import grouped
from pecli.engine.named_values import NamedValues
from pecli.errors import ParameterError, PecliError, number
from pecli.files.tensor_roles import role_of
from pecli.models.encoding import ModelEncodings

LEAST_FREQUENCY = 1e-30
"""Frequencies of models go down to 1e-8 or so; memory that nobody wrote holds far smaller numbers."""
MOST_FREQUENCY = 4.0
"""The first frequency is 1; factors of scalings may raise it a little."""


class Kind(Enum):
    """The kinds of tensors that a module has, judging by their names."""

    TABLES = auto()  #: cos and sin
    FREQUENCIES = auto()  #: inv_freq
    VECTORS = auto()  #: q_before and q_after, or k_before and k_after
    ROWS = auto()  #: rows that a learned table gave
    UNKNOWN = auto()


KINDS_BY_ROLE: Mapping[str | None, Kind] = {
    "cos": Kind.TABLES,
    "sin": Kind.TABLES,
    "inv_freq": Kind.FREQUENCIES,
}


class ModuleGroup(NamedTuple):
    """Tensors of a module that are checked together, by their names within the module."""

    kind: Kind
    tensors: dict[str, Array]


class CheckedModules(NamedTuple):
    """The checks of a run's modules, and the tensors that nothing can be compared with.

    The latter are those of image patches, for example.
    """

    checks: list[ModuleCheck]
    unchecked: list[str]


class _CacheKey(NamedTuple):
    """All that the expected values of a module's tables depend on: layers, call and length.

    Many layers have equal tables. If their keys are equal as well, they are compared once.

    Attributes:
        layer_type: The layers that they belong to; None if it is not known.
        call: For cosines and sines, the number of the call, whose tokens have positions of their own.
        length: For frequencies that depend on it, the length of the prompt.
    """

    layer_type: str | None
    call: int | None = None
    length: int | None = None


class ModuleChecker:
    """Checks the modules of a run against a model's encodings."""

    def __init__(
        self,
        run: RecordedRun,
        tokens: Sequence[CallTokens],
        encodings: ModelEncodings,
        tolerance: Tolerance,
    ) -> None:
        """Prepare to check a run.

        Args:
            run: The recorded run.
            tokens: The positions of the tokens of each call.
            encodings: The model.
            tolerance: The errors that pass; if it is exact, those of the model's own arithmetic.
        """
        self.run = run
        self.tokens = tokens
        self.encodings = encodings
        self.tolerance = tolerance

        # Answers of earlier comparisons, by the expected values and by the values found, since many
        # layers have the same tables.
        self._answers_by_key: dict[object, Verification] = {}

    def check_all(self) -> CheckedModules:
        """Check all modules in all calls, in the order in which they were recorded."""
        checks: list[ModuleCheck] = []
        unchecked: list[str] = []
        for call, module, group in self._list_groups():
            try:
                checks.append(self._check(call, module, group))
            except PecliError:  # A vision tower, for example, has other positions.
                unchecked += [f"{module}.{name}" for name in group.tensors]
        return CheckedModules(checks, unchecked)

    def _list_groups(self) -> Iterator[tuple[int, str, ModuleGroup]]:
        """Yield the tensors that belong together, with the number of their call and their module."""
        for call_number, call in enumerate(self.run.calls):
            for module, tensors in call.places().items():
                for group in group_tensors(tensors):
                    yield call_number, module, group

    def _check(self, call: int, module: str, group: ModuleGroup) -> ModuleCheck:
        """Compare a group of tensors with what the model requires of that kind.

        Raises:
            PecliError: If there is nothing that they could be compared with.
        """
        match group.kind:
            case Kind.TABLES:
                return self._check_tables(call, module, group.tensors)
            case Kind.FREQUENCIES:
                return self._check_frequencies(call, module, group.tensors)
            case Kind.VECTORS:
                return self._check_rotation(call, module, group.tensors)
            case Kind.ROWS:
                return self._check_rows(call, module, group.tensors[ROWS])
            case Kind.UNKNOWN:
                raise ParameterError(module, "recorded", "its tensors have no known role")

    def _require_text_tokens(self, module: str) -> None:
        """Raise ParameterError for a tower of images or audio: no position of its patches is recorded.

        It is also raised if the model has no rotary encoding at all.
        """
        self._require_rotary_model(module)
        layer_type = self.encodings.layer_named(module)
        if layer_type is not None and self.encodings.one(layer_type).part:
            raise ParameterError("module", module, "its tokens are not those of the text")

    def _require_rotary_model(self, module: str) -> None:
        """Raise ParameterError if the model has no rotary encoding."""
        if not self.encodings.ropes():
            raise ParameterError("module", module, "the model's encoding is not rotary")

    def _find_layer_type(self, module: str) -> str | None:
        """Return the layer type that a module's path states; None if it states none.

        `rotary_emb_local` states it by a word, and `model.layers.5.self_attn` by the number 5.
        """
        by_number = f"layers.{layer_of(module)}"  # It names no layer if the module is in none.
        return self.encodings.layer_named(module) or self.encodings.layer_named(by_number)

    def _check_frequencies(
        self, call: int, module: str, tensors: Mapping[str, Array]
    ) -> TableCheck:
        """Compare the frequencies that a module holds with those of the model.

        Args:
            call: The number of the call, whose length some scalings depend on.
            module: The path of the module.
            tensors: The frequencies, the only tensor: {"inv_freq": …}.

        Raises:
            ParameterError: If the model has no rotary encoding.
        """
        self._require_rotary_model(module)
        (name,) = tensors  # Each vector of frequencies is checked by itself.
        layer_type = self._find_layer_type(f"{module}.{name}")
        length = self._find_length_of_frequencies(call)
        recorded = RecordedTables(
            tensors=tensors,
            encodings=self.encodings,
            tolerance=self.tolerance,
            options={"layer_type": layer_type, "length": length},
        )
        # Modules with equal frequencies, for the same layers and length, are compared once.
        answer = self._compare_or_reuse(recorded, _CacheKey(layer_type, length=length))
        check = _make_table_check(call, module, layer_type, recorded, answer)
        # If the frequencies are memory that no program has written, no other reason is searched for.
        return replace(check, known_reason=_describe_uninitialised_memory(name, tensors[name]))

    def _find_length_of_frequencies(self, call: int) -> int | None:
        """Return the length of a prompt for which a call computes frequencies; None if it does not matter.

        A dynamic scaling changes them with the length: after a call that ends at position 8191, they
        are those of length 8192.
        """
        # The length does not matter to encodings of other layers, whose frequencies are fixed.
        if any(rope.follows_length for rope in self.encodings.ropes()):
            return self.tokens[call].last + 1
        return None

    def _check_tables(self, call: int, module: str, tensors: Mapping[str, Array]) -> TableCheck:
        """Compare cosines and sines of a module with the right ones for the tokens of a call.

        After a prompt of 7 tokens, a second call may decode one token: its tables have one row, for
        position 7.

        Args:
            call: The number of the call.
            module: The path of the module.
            tensors: `cos` and `sin`, (L, D) or (batch, L, D).

        Raises:
            ParameterError: If the tokens of the module are not those of the text.
        """
        self._require_text_tokens(module)
        layer_type = self._find_layer_type(module)
        options = {**self._position_options(call, tensors), "layer_type": layer_type}
        recorded = RecordedTables(
            tensors=tensors,
            encodings=self.encodings,
            tolerance=self._tolerate_float32_noise(call, tensors),
            options=options,
        )
        # Modules with equal tables, for the same layers and call, are compared once.
        answer = self._compare_or_reuse(recorded, _CacheKey(layer_type, call=call))
        return _make_table_check(call, module, layer_type, recorded, answer)

    def _tolerate_float32_noise(self, call: int, tensors: Mapping[str, Array]) -> Tolerance:
        """Return the errors that pass in cosines and sines: the user's, or else those of float32 angles."""
        last_position = self.tokens[call].last
        return self.tolerance.or_absolute(bound_table_noise(tensors.values(), last_position))

    def _position_options(self, call: int, tensors: Mapping[str, Array]) -> NamedValues:
        """Return the options of `verify` for the rows of cosines and sines: {"offset": 7}, for example."""
        first_table = next(iter(tensors.values()))  # Cosines and sines have the same shape.
        return self.tokens[call].options(first_table)

    def _compare_or_reuse(self, recorded: RecordedTables, cache_key: _CacheKey) -> Verification:
        """Compare tables with the model, or return the answer about equal tables of another module.

        All 28 layers of GPT-J have equal tables: each gathers the same rows anew.

        Args:
            recorded: The tables.
            cache_key: All that their expected values depend on.
        """
        contents = tuple((name, array.tobytes()) for name, array in recorded.tensors.items())
        key = (cache_key, contents)
        if key not in self._answers_by_key:
            # Reasons for a failure take long to find: `TableCheck.explain` searches for them.
            self._answers_by_key[key] = recorded.verify(reasons=False)
        return self._answers_by_key[key]

    def _check_rotation(
        self, call: int, module: str, tensors: Mapping[str, Array]
    ) -> RotationCheck:
        """Compare queries or keys of a module with the exact rotation of those before it.

        Raises:
            ParameterError: If they are not those of the text's tokens.
        """
        self._require_text_tokens(module)
        name = _name_vector(next(iter(tensors)))
        before = tensors[name + BEFORE]
        after = tensors[name + AFTER]
        tokens = self.tokens[call]
        if before.shape[POSITION_AXIS] != tokens.length:
            raise ParameterError(name, f"of shape {before.shape}", "it has other positions")
        layer_type = self._find_layer_type(module)
        (pair,) = pair_tensors({name: after}, {name: before}).pairs
        allowed = self.tolerance.or_absolute(bound_rotation_noise(before, after, tokens.last))
        pair = pair._replace(is_one_of_several=True)
        rotation = RecordedRotation(
            pair=pair,
            encodings=self.encodings,
            tolerance=allowed,
            layer_type=layer_type,
            tokens=tokens,
        )
        if rotation.passes_only_exchanged():
            rotation = rotation.with_exchanged_axes()
        result = replace(rotation.compare(), name=f"{module}.{name}")
        return RotationCheck(
            call=call,
            module=module,
            layer_type=layer_type,
            results=(result,),
            rotation=rotation,
        )

    def _check_rows(self, call: int, module: str, rows: Array) -> TableCheck:
        """Compare the rows that tokens received from a learned table with the right ones.

        In GPT-2, the token at position 5 should receive row 5 of the table.

        Args:
            call: The number of the call.
            module: The path of the module that holds the table, such as `wpe`.
            rows: The rows that tokens received, (batch, L, D), or (L, D) for all sequences.

        Raises:
            ParameterError: If there are not as many rows as tokens.
        """
        tokens = self.tokens[call]
        weight = self.run.weights[module]
        if rows.shape[-2] != tokens.length:
            raise ParameterError(module, f"of shape {rows.shape}", "it has other positions")
        row_numbers = self._find_row_numbers(tokens, len(weight))  # (batch, L)
        # Rows that all sequences share must be right for each of them.
        received = np.broadcast_to(rows, (*row_numbers.shape, rows.shape[-1]))
        received = _replace_rows_of_padding(received, weight[row_numbers], tokens.is_token)
        recorded = RecordedRows(
            rows=received, weight=weight, row_numbers=row_numbers, tolerance=self.tolerance
        )
        # Reasons for a failure take long to find: `TableCheck.explain` searches for them.
        answer = recorded.verify(reasons=False)
        return _make_table_check(call, module, layer_type=None, tables=recorded, answer=answer)

    def _find_row_numbers(self, tokens: CallTokens, row_count: int) -> Indices:
        """Return the row of a learned table that each token needs; the last one if there is no such row.

        OPT's offset is 2, since its first two rows are those of padding: position 0 needs row 2.
        """
        row_of_position_0 = max((encoding.offset or 0 for encoding in self.encodings), default=0)
        return np.minimum(tokens.positions + row_of_position_0, row_count - 1)


def _replace_rows_of_padding(rows: Array, right_rows: Array, is_token: Flags) -> Array:
    """Return rows with the right one for each token of padding, which may have received any row.

    So padding never differs in a comparison.

    Args:
        rows: The rows that tokens received, (batch, L, D).
        right_rows: Those that they should have received.
        is_token: False for padding, (batch, L).
    """
    is_token_for_all_columns = is_token[..., None]
    return np.where(is_token_for_all_columns, rows, right_rows)


def _describe_uninitialised_memory(name: str, frequencies: Array) -> str:
    """Return a reason for frequencies that are memory which was never written; empty for all others.

    The reason quotes the first three. No mistake in a parameter of the model explains such values.
    """
    if _are_plausible(widened(frequencies)):
        return ""
    values = ", ".join(number(float(value), 3) for value in frequencies.ravel()[:3])
    return f"{name} was never initialised: it holds {values}, …"


def _make_table_check(
    call: int,
    module: str,
    layer_type: str | None,
    tables: RecordedTables | RecordedRows,
    answer: Verification,
) -> TableCheck:
    """Return the check of a module's tables, whose results have the module's path before their names.

    Args:
        call: The number of the call.
        module: The path of the module, such as `model.rotary_emb`.
        layer_type: The layers that the tables belong to; None if it is not known.
        tables: What was compared.
        answer: The comparison.
    """
    results = tuple(replace(result, name=f"{module}.{result.name}") for result in answer.tensors)
    return TableCheck(
        call=call,
        module=module,
        layer_type=layer_type,
        results=results,
        tables=tables,
        weak=answer.weak,
    )


def group_tensors(tensors: Mapping[str, Array]) -> list[ModuleGroup]:
    """Return the tensors of a module that belong together: cos with sin, q_before with q_after.

    {"cos": …, "sin": …, "q_before": …, "q_after": …, "inv_freq": …} makes three groups.
    """
    groups = grouped(tensors, _find_group)
    return [
        ModuleGroup(kind, {name: tensors[name] for name in names})
        for (kind, _), names in groups.items()
    ]


def _find_group(name: str) -> tuple[Kind, str]:
    """Return the kind of a tensor, and the name of the group that it belongs to.

    `cos` and `sin` are the group «cos and sin», `q_before` and `q_after` the group `q`; any other
    tensor is alone.
    """
    kind = _find_kind(name)
    return kind, "cos and sin" if kind is Kind.TABLES else _name_vector(name)


def _find_kind(name: str) -> Kind:
    """Return what a tensor is, judging by its name within a module: `q_after` is one of VECTORS."""
    if name.endswith((BEFORE, AFTER)):
        return Kind.VECTORS
    if name == ROWS:
        return Kind.ROWS
    return KINDS_BY_ROLE.get(role_of(name), Kind.UNKNOWN)


def _name_vector(name: str) -> str:
    """Return the vector that a name is about: `q` of `q_before` and of `q_after`."""
    return name.removesuffix(BEFORE).removesuffix(AFTER)


def _are_plausible(frequencies: Floats) -> bool:
    """Return False if some numbers are not finite, zero, negative, or far from any frequency.

    A buffer that no checkpoint holds keeps what was in memory, if a model is built without values
    first and `inv_freq` is not computed again.
    """
    is_plausible = (frequencies >= LEAST_FREQUENCY) & (frequencies <= MOST_FREQUENCY)
    return bool(is_plausible.all())  # NaN compares as False.
