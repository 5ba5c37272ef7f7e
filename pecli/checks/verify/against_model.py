"""A file, or arrays, compared with what a model's configuration requires."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pecli.checks.doubts import Doubt, LayersNotNamed
from pecli.checks.verification import CheckedTensor, Verification, compare_reading, conclusion
from pecli.checks.verify.batch_tables import (
    counted_rows,
    per_batch,
    solved_positions,
    token_tables,
)
from pecli.checks.verify.model_tensors import ModelTensors
from pecli.checks.verify.table_search import Tables, find_tables
from pecli.checks.verify.table_settings import TableSettings
from pecli.compare.comparison import Comparison
from pecli.compare.problems import OtherShape
from pecli.compare.reading import FoundTables, Reading
from pecli.compare.reading_conflicts import Doubling, doubling_problems
from pecli.compare.reading_notes import note_on
from pecli.compare.tolerance import Tolerance
from pecli.engine.application import LAYOUTS
from pecli.engine.arrays import Array, widened
from pecli.engine.named_values import NamedValues
from pecli.errors import NoTablesError, counted, listed, spelled
from pecli.explain import time_limit
from pecli.files.contents import LoadedFile
from pecli.files.load import NO_FILE, Given, Opened, opened
from pecli.files.npy import ARRAY_NAME
from pecli.files.tensor_roles import ANYTHING, role_of
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.find import Model, load_model

if TYPE_CHECKING:
    from pecli.tensors.row_positions import RowPositions

QUERIES = "if these are queries or keys after the rotation, and not tables, dump them before it, too, and give --before FILE"
ARRAY_DUMP = "to dump them: numpy.savez('dump.npz', q_before=…, q_after=…), see samples/dump"
GGUF_DUMP = "to dump them: llama-eval-callback -m FILE -p 'some words' > dump.log, see samples/dump"
"""Commands that make a file which can be checked, for one that has nothing to check."""
MAX_TENSORS_NAMED = 4  #: tensors that an error names
MAX_TABLE_VALUE = 2  #: largest value of cosines and sines; queries and keys have larger ones
FACTOR_SCALINGS = ("llama3", "longrope")  #: scalings whose factors a .gguf file holds as tensors


def verify_tables(
    given: Given,
    model: Model,
    tolerance: Tolerance,
    reasons: bool,
    layer_type: str | None = None,
    **options: object,
) -> Verification:
    """Compare the tables of a file with those of a model: frequencies, cosines and sines, biases.

    They are found by name or by content. A file may have as many positions as it likes, in any
    arrangement of axes and columns. With positions or a mask (batch, L), tables are (batch, L, D),
    and rows of padding are not compared. If they fail, rows at other positions are searched for:
    code that ignores left padding, for example, has the right table at the wrong positions.

    Args:
        given: A file, or arrays by name.
        model: The model.
        tolerance: The errors that pass.
        reasons: Whether reasons for failures are searched for.
        layer_type: The layers that the tables belong to; None if names or values decide.
        options: Those of `TableSettings`, and an `attention_mask`.
    """
    job = _Job(
        source=opened(given),
        encodings=load_model(model),
        layer_type=layer_type,
        tolerance=tolerance,
        reasons=reasons,
    )
    if _are_per_batch(options, job.encodings.position_axes):
        attempt = _verify_batch(job, options)
    else:
        attempt = _verify_sequence(job, options)
    if not reasons or attempt.answer.passed:
        return attempt.answer
    return _with_solved_positions(attempt, job, model)


class _Job(NamedTuple):
    """A file, and the layers of a model that it is compared with."""

    source: Opened
    encodings: ModelEncodings
    layer_type: str | None
    tolerance: Tolerance
    reasons: bool

    def answer(
        self, file: LoadedFile, settings: TableSettings, notes: Mapping[str, str]
    ) -> Verification:
        """Compare the tables of a file.

        If no name states the layers that tables belong to, they are compared with those of each
        layer type, and the best answer is returned. `notes` are remarks on tensors, by their names.
        """
        tensors = ModelTensors.of(file, self.encodings, self.layer_type, settings)
        label = self.source.label
        checks = [
            _ModelCheck(path=label, tensors=assigned, notes=notes)
            for assigned in tensors.assignments()
        ]
        best = _best_answer(checks, self.tolerance, self.reasons)
        if best is not None:
            return best
        return _ModelCheck(path=label, tensors=tensors, notes=notes).verify(
            self.tolerance, self.reasons
        )


class _Attempt(NamedTuple):
    """The answer about tables, and what a search for the positions of their rows needs.

    Attributes:
        answer: The answer.
        tables: The tables, (batch, L, D) each if there is a batch.
        rows: The positions that rows should have; None if a search for others makes no sense.
    """

    answer: Verification
    tables: Mapping[str, Array]
    rows: "RowPositions | None"


def _are_per_batch(options: NamedValues, axes: int) -> bool:
    """Return True if positions are stated for each sequence of a batch, by ids or by a mask.

    M-RoPE's ids of one sequence are (3, L), so that those of a batch are (3, batch, L).
    """
    ids_of_one_sequence = 2 if axes > 1 else 1
    has_batch_of_ids = np.ndim(options.get("positions", 0)) > ids_of_one_sequence
    return has_batch_of_ids or options.get("attention_mask") is not None


def _with_solved_positions(attempt: _Attempt, job: _Job, model: Model) -> Verification:
    """Return a failed answer whose reason is that rows are at other positions, if they are.

    A search for positions needs tables (batch, L, D), and one rotary encoding: of several, it is
    not known whose tables these are.
    """
    rotary = job.encodings.ropes_of(job.layer_type)
    if attempt.rows is None or len(rotary) != 1 or rotary[0].no_table:
        return attempt.answer
    solved = solved_positions(attempt.tables, attempt.rows, model, rotary[0], job.tolerance)
    if solved is None:
        return attempt.answer
    return replace(attempt.answer, reasons=solved.reasons, explanations=solved.explanations)


def _verify_sequence(job: _Job, options: NamedValues) -> _Attempt:
    """Compare tables whose rows stand at the same positions for all sequences."""
    file = job.source.file
    without_mask = {name: value for name, value in options.items() if name != "attention_mask"}
    settings = TableSettings.of(without_mask)
    answer = job.answer(file, settings, notes={})
    is_placed = bool(settings.offset) or bool(settings.stated_rows)
    if answer.passed or is_placed:
        return _Attempt(answer=answer, tables=file.tensors, rows=None)
    return _Attempt(answer=answer, tables=file.tensors, rows=counted_rows(file.tensors))


def _verify_batch(job: _Job, options: NamedValues) -> _Attempt:
    """Compare tables (batch, L, D), which have a row for each token of a batch.

    Tokens of all sequences become the rows of one table, and padding is left out: of 2 sequences of
    4 tokens, the first with one of padding, 7 rows are compared at 7 positions.
    """
    from pecli.tensors.row_positions import row_positions

    label, file = job.source
    others = dict(options)
    batch = row_positions(others.pop("positions", None), others.pop("attention_mask", None))
    tables = {name: per_batch(array) for name, array in file.tensors.items()}
    tokens = token_tables(label, tables, batch, job.encodings.position_axes)
    settings = replace(TableSettings.of(others), stated_rows={"positions": tokens.positions})
    answer = job.answer(
        LoadedFile(path=NO_FILE, format="arrays", tensors=tokens.tables), settings, tokens.notes
    )
    rows = batch if tokens.notes and not answer.passed else None
    answer = replace(answer, problems=(*answer.problems, *map(str, tokens.problems)))
    return _Attempt(answer=answer, tables=tables, rows=rows)


def _best_answer(
    checks: Sequence["_ModelCheck"], tolerance: Tolerance, reasons: bool
) -> Verification | None:
    """Return the answer of the check that fits best; None if no check has anything to compare.

    Each check supposes other layers, such as Gemma 3's sliding or full ones, for the same tables.
    Reasons take long to find, so they are searched for only if no check passes.
    """
    possible = []
    answers = []
    for check in checks:
        with suppress(NoTablesError):  # There may be tables of the other layers only.
            answers.append(check.verify(tolerance, reasons=False))
            possible.append(check)
    if reasons and not any(answers):
        with time_limit.time_limit():
            answers = [check.verify(tolerance, reasons) for check in possible]
    return min(answers, key=_badness, default=None)


def _badness(answer: Verification) -> tuple[int, ...]:
    """Return a key by which the best of several answers about the same tables comes first.

    It counts, the gravest first: tensors that fail without a reason, mistakes that explain others,
    tensors that fail, and elements that fail. Of two layer types, a wrong table fits the one better
    from which it differs by one mistake than the one from which it differs by two.
    """
    failed = [tensor for tensor in answer.tensors if tensor.mismatched != 0]
    mistakes = len(answer.problems)
    explained: set[str] = set()
    for explanation in answer.explanations:
        mistakes += len(explanation.mistakes)
        explained.update(explanation.tensors)
    unexplained = max(0, len(failed) - len(explained))
    wrong_elements = sum(tensor.mismatched or 0 for tensor in failed)
    return unexplained, mistakes, len(failed), wrong_elements


class _ModelCheck:
    """The tables that were found in a file, compared with those of the encodings that they belong to."""

    def __init__(self, path: str, tensors: ModelTensors, notes: Mapping[str, str]) -> None:
        self.path = path
        self.tensors = tensors
        self.notes = notes

    def verify(self, tolerance: Tolerance, reasons: bool) -> Verification:
        """Compare all tables of the file; search for reasons for failures if `reasons` is True.

        A failure that nothing explains gets a hint: the user may have dumped rotated queries
        instead of tables.

        Raises:
            NoTablesError: If there is nothing to compare, as in most checkpoints. But a .gguf file
                that has lost the factors of llama3's scaling fails: only a tensor can hold them.
        """
        tables = find_tables(self.tensors)
        problems = doubling_problems(_doublings(tables)) if tables else self._lost_scalings()
        if not tables and not problems:
            raise self._no_tables()
        model_tolerance = tolerance.against_model()
        answer = conclusion(
            path=self.path,
            scheme=", ".join(sorted(_schemes(tables) or self.tensors.schemes)),
            checked=[self._checked(*table, model_tolerance) for table in tables.items()],
            tolerance=model_tolerance,
            problems=problems,
            reasons=reasons,
            present=self.tensors.tensors,
        )
        is_answered = answer.passed or bool(answer.explanations)
        if is_answered or not self._may_hold_queries():
            return answer
        return replace(answer, reasons=(*answer.reasons, QUERIES))

    def _may_hold_queries(self) -> bool:
        return any(map(self._may_be_rotated, self.tensors.tensors.values()))

    def _may_be_rotated(self, array: Array) -> bool:
        """Return True if an array has the shape of queries or keys, and values that no table has."""
        encodings = self.tensors.encodings
        widths = {encoding.head_dim for encoding in encodings if encoding.is_rotary}
        if array.ndim < 3 or array.shape[-1] not in widths:
            return False
        return bool(np.abs(widened(array[:1])).max(initial=0.0) > MAX_TABLE_VALUE)

    def _checked(self, name: str, reading: Reading | None, tolerance: Tolerance) -> CheckedTensor:
        """Compare a tensor with the table that it is read as.

        A model with several layer types has several tables of one shape. If no name states which
        one a tensor is, a pass gets a doubt, and a failure the layers for which it would be right.
        """
        if reading is None:
            return self._unreadable(name)
        label = reading.name if name == ARRAY_NAME else name
        layer_type = reading.origin.layer_type if self.tensors.has_several_layer_types else ""
        stated = self.tensors.stated_name(name)
        checked = CheckedTensor.from_reading(name, label, reading, tolerance, stated=stated)
        note = ", ".join(filter(None, self._notes(name, label, layer_type, reading)))
        checked = replace(checked, note=note, layers=layer_type)
        if not layer_type:
            return checked
        if checked.result.passed:
            doubt = self._doubt_about_layers(name, label, reading)
            return replace(checked, doubt=checked.doubt or doubt)
        return replace(checked, right_for=self._right_for(name, layer_type, reading, tolerance))

    def _right_for(self, name: str, layer_type: str, reading: Reading, tolerance: Tolerance) -> str:
        """Return the layer type for which a wrong table would be right; empty if there is none.

        To exchange the tables of sliding and of full attention is a usual mistake with Gemma 3.
        """
        for encoding in self.tensors.all_encodings:
            if encoding.layer_type == layer_type:
                continue
            best = self.tensors.find_reading_as(name, role_of(reading.name), encoding)
            if best is not None and compare_reading(name, best, tolerance).passed:
                return encoding.layer_type
        return ""

    def _doubt_about_layers(self, name: str, label: str, reading: Reading) -> Doubt | None:
        """Return a doubt if only its values, and not its name, assign a tensor to a layer type.

        The tables of Gemma 3's sliding and full layers have the same shape, so that `cos` may be of
        either. Layer types whose heads have other sizes, or that rotate alike, raise no doubt.
        """
        if self.tensors.layer_named(name) is not None:
            return None
        layer_type = reading.origin.layer_type
        encoding = self.tensors.model.one(layer_type)
        if not any(_are_rivals(encoding, rival) for rival in self.tensors.all_encodings):
            return None
        return LayersNotNamed(label, layer_type)

    def _notes(self, name: str, label: str, layer_type: str, reading: Reading) -> Iterator[str]:
        """Yield notes for the user: which table a tensor is, of which layers, and how it was read.

        «cos», «sliding_attention layers, which it fits best», «columns doubled as halves».
        """
        is_named = label == reading.name or role_of(label) not in (None, ANYTHING)
        if not is_named:
            yield reading.name
        if layer_type:
            fits = "" if self.tensors.layer_named(name) else ", which it fits best"
            yield f"{layer_type} layers{fits}"
        yield note_on(reading)
        yield self.notes.get(name, "")

    def _unreadable(self, name: str) -> CheckedTensor:
        """Return the failure of a tensor whose shape no table of the model has.

        The message lists the shapes that were expected, and whether the tensor fits transposed.
        """
        shape = self.tensors.tensors[name].shape
        shapes = dict.fromkeys(map(_shapes_of, self.tensors.likely(name)))
        transposed = self.tensors.find_reading(name, self.tensors.role(name), transposed=True)
        fits_transposed = transposed is not None and (transposed.is_learned or transposed.is_near)
        problem = OtherShape(
            shape=shape, expected=" or ".join(shapes), fits_transposed=fits_transposed
        )
        result = Comparison.impossible(name, shape, problem)
        return CheckedTensor(name, result, *self._scheme_to_explain(name), has_length=False)

    def _scheme_to_explain(self, name: str) -> FoundTables:
        """Return the rotary scheme from which a search for reasons starts, for a tensor of a wrong shape.

        A table of 128 columns instead of 64, for example, may be that of another rotary dimension.
        """
        array = self.tensors.tensors[name]
        likely = self.tensors.likely(name)
        ropes = [encoding for encoding in likely if encoding.is_rotary and not encoding.no_table]
        if not ropes or not array.size:
            return FoundTables(None, {})
        layout = _likely_layout(ropes[0], array)
        settings = self.tensors.settings_for(name)
        rope = settings.rope(ropes[0], max(array.shape, default=1), layout=layout)
        role = self.tensors.role(name)
        table_name = role if role in ("cos", "sin", "inv_freq") else "cos_sin"
        return FoundTables(rope, {table_name: array})

    def _no_tables(self) -> NoTablesError:
        """Return the error for a file without any table, with advice on how to dump one."""
        tensors = self.tensors
        file = tensors.file
        schemes = sorted(tensors.schemes)
        held = counted(len(tensors.tensors) + len(file.unread), "tensor")
        if tensors.tensors:
            held = f"{held}: {listed(list(tensors.tensors), MAX_TENSORS_NAMED)}"
        problem = f"has no positional tables of {' or '.join(schemes)} ({held})"
        advice = "modern checkpoints compute them: use a dump, or name a tensor, FILE:NAME"
        if "rope" in schemes:
            advice += "; queries or keys after the rotation go with --before FILE"
            advice += f"; {GGUF_DUMP if file.format == 'gguf' else ARRAY_DUMP}"
        return NoTablesError(self.path or "arrays", problem, advice)

    def _lost_scalings(self) -> list[str]:
        """Return a sentence for each scaling whose factors a .gguf file should hold, and does not.

        The header of a .gguf file has no key for llama3's or longrope's factors: without the
        tensor, llama.cpp rotates as if there were no scaling.
        """
        file = self.tensors.file
        if file.format != "gguf":
            return []
        from pecli.checks.model_forms import GGUF, lost_scaling
        from pecli.files.gguf_file import header_of

        if "split.count" in header_of(file.path).values:
            return []  # The factors may be in another file of the same model.
        sentences = []
        for encoding in self.tensors.encodings:
            if encoding.parameters.get("scaling") in FACTOR_SCALINGS:
                sentences.append(lost_scaling(encoding, GGUF))
        return list(dict.fromkeys(sentences))


def _schemes(tables: Tables) -> set[str]:
    """Return the schemes of the tables that were found."""
    return {reading.origin.scheme for reading in filter(None, tables.values())}


def _doublings(tables: Tables) -> Iterator[Doubling]:
    for reading in filter(None, tables.values()):
        yield Doubling(
            layers=reading.origin.layer_type, reading=reading, doubled=reading.form.doubled
        )


def _are_rivals(encoding: Encoding, other: Encoding) -> bool:
    """Return True if tables of two encodings have the same shape, and different values."""
    has_same_shape = other.is_rotary and not other.part and other.axis_dim == encoding.axis_dim
    return has_same_shape and other.parameters != encoding.parameters


def _likely_layout(encoding: Encoding, array: Array) -> str:
    """Return the layout that a table has most likely, judging by its width and the model."""
    if _pair_count(encoding) in array.shape:
        return "compact"
    return LAYOUTS[encoding.layout or "halves"].after


def _pair_count(encoding: Encoding) -> int:
    """Return the pairs of channels that a rotary encoding rotates, along each axis of positions."""
    return (encoding.axis_dim or 0) // 2


def _shapes_of(encoding: Encoding) -> str:
    """Return the shapes that tables of an encoding may have, for a sentence.

    Of a rotary encoding of 128 channels: «(64), (positions, 64) or (positions, 128)».
    """
    parameters = encoding.parameters
    if encoding.is_rotary:
        pairs = _pair_count(encoding)
        return f"({pairs}), (positions, {pairs}) or (positions, {2 * pairs})"
    if "heads" in parameters:
        return f"({parameters['heads']}) or ({parameters['heads']}, …, positions)"
    if {"grid", "dim"}.issubset(parameters):
        rows = math.prod(parameters["grid"]) + parameters.get("keep", 0)
        grid = spelled(parameters["grid"])
        return f"({rows}, {parameters['dim']}) of the grid {grid} (or give --grid)"
    rows = parameters.get("max_len", "positions")
    return f"({rows}, {parameters.get('dim', rows)})"
