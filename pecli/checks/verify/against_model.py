"""A file, or arrays, compared with what a model's configuration requires."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pecli.checks.verification import Verification
from pecli.checks.verify.batch_tables import (
    TokenTables,
    arrange_per_batch,
    count_rows_per_sequence,
    find_wrong_positions,
    take_rows_of_tokens,
)
from pecli.checks.verify.model_check import ModelCheck
from pecli.checks.verify.model_tensors import ModelTensors
from pecli.checks.verify.table_settings import TableSettings
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import Array
from pecli.engine.named_values import NamedValues
from pecli.errors import NoTablesError
from pecli.explain import time_limit
from pecli.files.contents import LoadedFile
from pecli.files.load import NO_FILE, Given, Opened, opened
from pecli.models.encoding import ModelEncodings
from pecli.models.find import Model, load_model
from pecli.tensors.row_positions import RowPositions, row_positions


def verify_tables(
    given: Given,
    model: Model,
    tolerance: Tolerance,
    reasons: bool,
    layer_type: str | None = None,
    attention_mask: object = None,
    **options: object,
) -> Verification:
    """Compare the tables of a file with those of a model: frequencies, cosines and sines, biases.

    The names of tensors, or their values, show which tables they are. With positions or a mask
    (batch, L), tables are (batch, L, D), and rows of padding are not compared.

    Args:
        given: A file, or arrays by name.
        model: The model.
        tolerance: The errors that pass.
        reasons: Whether reasons for failures are searched for.
        layer_type: The layers that the tables belong to; None if names or values decide.
        attention_mask: 0 for padding, whose rows are not compared, (batch, L).
        options: Those of `TableSettings`, such as `positions` or `offset`.
    """
    job = _FileAndModel(
        source=opened(given),
        encodings=load_model(model),
        layer_type=layer_type,
        tolerance=tolerance,
        reasons=reasons,
    )
    row_options: NamedValues = options
    # M-RoPE's ids of one sequence are (3, L), so that those of a batch are (3, batch, L).
    axes_of_one_sequence = min(job.encodings.position_axes, 2)
    has_batch_of_ids = np.ndim(row_options.get("positions", 0)) > axes_of_one_sequence
    if has_batch_of_ids or attention_mask is not None:
        positions = row_positions(options.pop("positions", None), attention_mask)
        checked = _verify_batch(job, positions, options)
    else:
        checked = _verify_sequence(job, options)
    if not reasons or checked.answer.passed:
        return checked.answer
    # Code that ignores left padding, for example, has the right rows at the wrong positions.
    return _explain_by_wrong_positions(checked, job, model)


class _FileAndModel(NamedTuple):
    """A file, and the layers of a model that it is compared with."""

    source: Opened
    encodings: ModelEncodings
    layer_type: str | None
    tolerance: Tolerance
    reasons: bool

    def verify(
        self, file: LoadedFile, settings: TableSettings, notes: Mapping[str, str]
    ) -> Verification:
        """Compare the tables of a file with those of the layers that they belong to.

        Gemma 3 has one table for its sliding layers and another one for the rest. If names do not state
        the layers, each assignment of tables to layers is checked, and the best answer is returned.

        Args:
            file: The file, whose tables are (L, D) each.
            settings: The positions of their rows, as the user states them.
            notes: Remarks on tensors for the answer, by the names of the tensors.

        Raises:
            NoTablesError: If there is nothing to compare, as in most checkpoints.
        """
        label = self.source.label
        tensors = ModelTensors.of(file, self.encodings, self.layer_type, settings)
        assignments = tensors.guess_layers_of_tables()
        allowed = self.tolerance.against_model()
        checks = [ModelCheck(label, assigned, notes, allowed) for assigned in assignments]
        best = _find_best_answer(checks, search_reasons=self.reasons)
        if best is not None:
            return best
        # Usually names state the layers, or all layers have one table: then there are no assignments, and
        # this check compares all tensors. If no assignment has a table, it raises the error.
        check_without_guess = ModelCheck(label, tensors, notes, allowed)
        return check_without_guess.verify(search_reasons=self.reasons)


class _CheckedRows(NamedTuple):
    """The answer about tables, and what a search for the positions of their rows needs.

    If the answer is a failure, rows may be right ones at wrong positions, as if padding was ignored.

    Attributes:
        answer: The answer.
        tables: The tables, (batch, L, D) each if there is a batch.
        expected_positions: The positions that the rows of each sequence should have; None if no
            others are to be searched for, since there is no batch, say.
    """

    answer: Verification
    tables: Mapping[str, Array]
    expected_positions: RowPositions | None


def _explain_by_wrong_positions(
    checked: _CheckedRows, job: _FileAndModel, model: Model
) -> Verification:
    """Return a failed answer whose reason is that rows are at other positions, if they are.

    A search for positions needs tables (batch, L, D), and one rotary encoding: of several, it is
    not known whose tables these are.
    """
    rotary = job.encodings.ropes_of(job.layer_type)
    expected = checked.expected_positions
    if expected is None or len(rotary) != 1 or rotary[0].no_table:
        return checked.answer
    answer = checked.answer
    for solved in find_wrong_positions(checked.tables, expected, model, rotary[0], job.tolerance):
        answer = replace(answer, reasons=solved.reasons, explanations=solved.explanations)
    return answer


def _verify_sequence(job: _FileAndModel, options: NamedValues) -> _CheckedRows:
    """Compare tables whose rows are at the same positions for all sequences.

    If cosines (batch, L, D) differ between sequences, these may have padding that the user did not
    state. Then the result has expected positions 0, 1, 2, … for every sequence, so that others are
    searched for if the answer is a failure. Positions that the user states are not doubted.

    Args:
        job: The file and the model.
        options: Options of `verify`; those on positions hold for all sequences.
    """
    file = job.source.file
    settings = TableSettings.of(options)
    answer = job.verify(file, settings, notes={})
    are_positions_stated = bool(settings.offset) or bool(settings.stated_rows)
    expected_positions = None
    if not are_positions_stated:
        expected_positions = count_rows_per_sequence(file.tensors)
    return _CheckedRows(answer=answer, tables=file.tensors, expected_positions=expected_positions)


def _verify_batch(
    job: _FileAndModel, positions: RowPositions, options: NamedValues
) -> _CheckedRows:
    """Compare tables (batch, L, D), which have a row for each token of a batch.

    Rows of all sequences become those of one table, without padding. Of 2 sequences of 4 tokens, one
    of which is padding, 7 rows are compared.

    Args:
        job: The model, and what the user asks for.
        positions: The positions of the batch's tokens, and which of them are padding.
        options: The other options of the user.
    """
    label, file = job.source
    tables = {name: arrange_per_batch(array) for name, array in file.tensors.items()}
    tokens = take_rows_of_tokens(label, tables, positions, job.encodings.position_axes)
    answer = _answer_about_tokens(job, tokens, options)
    return _CheckedRows(answer=answer, tables=tables, expected_positions=positions)


def _answer_about_tokens(
    job: _FileAndModel, tokens: TokenTables, options: NamedValues
) -> Verification:
    """Compare tables that have a row for each token of a batch with those of the model.

    Args:
        job: The model, and what the user asks for.
        tokens: The tables without the rows of padding, and the position of each row.
        options: The options of the user, except the positions of the batch.
    """
    stated_rows = {"positions": tokens.positions}
    settings = replace(TableSettings.of(options), stated_rows=stated_rows)
    file_of_tokens = LoadedFile(path=NO_FILE, format="arrays", tensors=tokens.tables)
    answer = job.verify(file_of_tokens, settings, tokens.notes)
    return replace(answer, problems=(*answer.problems, *map(str, tokens.problems)))


class _Misfit(NamedTuple):
    """The degree to which tables misfit a layer type: the smaller of two fits better (`min`).

    The gravest comes first, and decides if it differs. A wrong table most likely belongs to the
    layer type from which it differs by one mistake, not to that from which it differs by two.

    Attributes:
        unexplained: Tensors that fail without a reason.
        mistakes: Problems, and mistakes that explain the other failures.
        failed: Tensors that fail.
        wrong_elements: Elements out of tolerance.
    """

    unexplained: int
    mistakes: int
    failed: int
    wrong_elements: int

    @classmethod
    def measure(cls, answer: Verification) -> "_Misfit":
        """Count the failed tensors, mistakes and wrong elements of an answer.

        If `cos` and `sin` fail, and «base is 500000» explains both, there are 2 failed tensors, none of
        them unexplained, and 1 mistake.
        """
        # `mismatched` counts wrong elements. It is None if shapes differ: this is a failure as well.
        failed = [tensor for tensor in answer.tensors if tensor.mismatched != 0]
        explained_names: set[str] = set()
        for explanation in answer.explanations:
            explained_names.update(explanation.tensors)
        known_mistakes = sum(len(explanation.mistakes) for explanation in answer.explanations)
        return cls(
            # An explanation may name more tensors than failed, but the count is never negative.
            unexplained=max(0, len(failed) - len(explained_names)),
            mistakes=len(answer.problems) + known_mistakes,
            failed=len(failed),
            wrong_elements=sum(tensor.mismatched or 0 for tensor in failed),
        )


def _find_best_answer(checks: Sequence[ModelCheck], *, search_reasons: bool) -> Verification | None:
    """Return the answer of the check that fits best; None if no check has anything to compare.

    Each check supposes other layers, such as Gemma 3's sliding or full ones, for the same tables.
    Reasons take long to find, so they are searched for only if no check passes.
    """
    checks_with_tables = []
    answers = []
    for check in checks:
        with suppress(NoTablesError):  # There may be tables of the other layers only.
            answers.append(check.verify(search_reasons=False))
            checks_with_tables.append(check)
    one_passes = any(answer.passed for answer in answers)
    if search_reasons and not one_passes:
        with time_limit.time_limit():
            answers = [check.verify(search_reasons=True) for check in checks_with_tables]
    return min(answers, key=_Misfit.measure, default=None)
