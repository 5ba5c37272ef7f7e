"""The tables that were found in a file, compared with those of a model's encodings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pecli.checks.checked_tensor import CheckedTensor, compare_reading
from pecli.checks.conclusion import add_unchecked_and_doubts, make_answer
from pecli.checks.doubts import Doubt, LayersNotNamed
from pecli.checks.verification import Verification
from pecli.checks.verify.missing_tables import find_lost_scalings, make_no_tables_error
from pecli.checks.verify.model_tensors import ModelTensors
from pecli.checks.verify.reading_check import ReadingCheck, Readings
from pecli.checks.verify.table_search import find_tables
from pecli.checks.verify.unreadable_tables import make_shape_failure
from pecli.compare.reading import Reading
from pecli.compare.reading_notes import describe_arrangement
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import Array, widened
from pecli.files.npy import ARRAY_NAME
from pecli.files.tensor_roles import ANYTHING, role_of
from pecli.models.encoding import Encoding

QUERIES = "if these are queries or keys after the rotation, and not tables, dump them before it, too, and give --before FILE"
MAX_TABLE_VALUE = 2  #: largest value of cosines and sines; queries and keys have larger ones


@dataclass(frozen=True)
class ModelCheck(ReadingCheck):
    """The tables that were found in a file, compared with those of the encodings that they belong to.

    Attributes:
        file: The file, as it was given.
        tensors: Its tensors, and the encodings that they may belong to.
        notes: Remarks on tensors, by their names.
        tolerance: The errors that pass.
    """

    file: str
    tensors: ModelTensors
    notes: Mapping[str, str]
    tolerance: Tolerance

    def verify(self, *, search_reasons: bool) -> Verification:
        """Compare all tables of the file with those of the model.

        Args:
            search_reasons: True if mistakes are searched for that explain failures.

        Raises:
            NoTablesError: If there is nothing to compare, as in most checkpoints.
        """
        readings = self.read_upright_if_lone(find_tables(self.tensors))
        problems = self._find_problems(readings)
        checked = self.compare_all(readings)
        schemes = {reading.origin.scheme for reading in filter(None, readings.values())}
        answer = make_answer(
            self.file,
            ", ".join(sorted(schemes or self.tensors.schemes)),
            checked,
            self.tolerance,
            problems,
            search_reasons=search_reasons,
        )
        answer = add_unchecked_and_doubts(answer, checked, self.tensors.tensors, self.tolerance)
        return self._with_hint_on_queries(answer)

    def _find_problems(self, readings: Readings) -> Sequence[str]:
        """Return sentences on what is wrong with the file beside the values of its tables.

        Raises:
            NoTablesError: If there is no table, and the file need not have one.
        """
        if readings:
            return self.find_doubling_problems(readings)
        # llama.cpp reads the factors of llama3's scaling from a table in the .gguf file. It is wrong
        # without that table, and not a file with nothing to compare.
        problems = find_lost_scalings(self.tensors)
        if not problems:
            raise make_no_tables_error(self.file, self.tensors)
        return problems

    def _with_hint_on_queries(self, answer: Verification) -> Verification:
        """Return a failed answer that nothing explains with a hint, if tensors may be queries.

        Users dump rotated queries and keys (batch, heads, L, D) where tables are expected.
        """
        is_answered = answer.passed or bool(answer.explanations)
        if is_answered or "rope" not in self.tensors.schemes:
            return answer
        if any(map(_may_be_rotated, self.tensors.tensors.values())):
            return replace(answer, reasons=(*answer.reasons, QUERIES))
        return answer

    def find_reading(self, tensor: str, *, upright: bool = False) -> Reading | None:
        return self.tensors.find_reading(tensor, self.tensors.role(tensor), upright=upright)

    def find_layers(self, reading: Reading) -> str:
        """Return the layers that a table is for, such as sliding_attention; empty if all have the same."""
        return reading.origin.layer_type if self.tensors.has_several_layer_types else ""

    def fail_for_shape(self, tensor: str) -> CheckedTensor:
        return make_shape_failure(self.tensors, tensor)

    def compare_with_table(self, tensor: str, reading: Reading) -> CheckedTensor:
        """Compare a tensor with one table of the model, and add remarks for the user."""
        # The array of a .npy file has no name: it is reported under the name of its table, `cos`.
        is_without_name = tensor == ARRAY_NAME
        reported_name = reading.name if is_without_name else tensor
        checked = CheckedTensor.from_reading(
            tensor,
            reported_name,
            reading,
            self.tolerance,
            descriptive_name=self.tensors.stated_name(tensor),
        )
        layer_type = self.find_layers(reading)
        remarks = self._make_remarks(tensor, reported_name, layer_type, reading)
        checked = replace(checked, note=", ".join(filter(None, remarks)), layer_type=layer_type)
        # It may be the table of other layers, such as sliding instead of full attention.
        return self._compare_with_other_layers(checked, reading)

    def _compare_with_other_layers(self, checked: CheckedTensor, reading: Reading) -> CheckedTensor:
        """Return a check that also states if the tensor may be the table of another layer type.

        Gemma 3's sliding and full layers have tables of the same shape. If a tensor passes, and its
        name does not state whose table it is, the result gets a doubt: the type was chosen by the
        values. If it fails, but would pass for another type, the result names that type as the reason.

        Args:
            checked: The check of a tensor against the table of one layer type.
            reading: How the tensor was read as that table.
        """
        if not checked.layer_type:  # All layers have the same table.
            return checked
        name = checked.tensor
        if checked.result.passed:
            doubts = self._find_doubts_about_layers(name, checked.result.name, reading)
            return replace(checked, doubts=(*checked.doubts, *doubts))
        other_layers = self._find_layers_it_fits(name, checked.layer_type, reading)
        return replace(checked, right_for=other_layers)

    def _find_layers_it_fits(self, name: str, layer_type: str, reading: Reading) -> str:
        """Return the layer type for which a wrong table would be right; empty if there is none.

        To exchange the tables of sliding and of full attention is a usual mistake with Gemma 3.
        """
        for encoding in self.tensors.encodings:
            if encoding.layer_type == layer_type:
                continue
            best = self.tensors.find_reading_as(name, role_of(reading.name), encoding)
            if best is not None and compare_reading(name, best, self.tolerance).passed:
                return encoding.layer_type
        return ""

    def _find_doubts_about_layers(self, name: str, label: str, reading: Reading) -> Iterator[Doubt]:
        """Yield a doubt if only its values, and not its name, assign a tensor to a layer type.

        The tables of Gemma 3's sliding and full layers have the same shape, so that `cos` may be of
        either. Layer types whose heads have other sizes, or that rotate alike, raise no doubt.
        """
        layer_type = reading.origin.layer_type
        encoding = self.tensors.model.one(layer_type)
        has_rivals = any(_are_rivals(encoding, other) for other in self.tensors.rotary_encodings)
        if has_rivals and self.tensors.layer_named(name) is None:
            yield LayersNotNamed(label, layer_type)

    def _make_remarks(
        self, name: str, label: str, layer_type: str, reading: Reading
    ) -> Iterator[str]:
        """Yield remarks for the user, such as «cos» and «sliding_attention layers, which it fits best».

        They state what the name of a tensor leaves open: the table that it is, the type of the layers
        that it is of, and how it was read, as in «columns doubled as halves». Some may be empty.

        Args:
            name: The name of the tensor in the file.
            label: The name of the tensor in the answer.
            layer_type: The layers that it was compared for; empty if all layers have the same tables.
            reading: The tensor beside the expected table.
        """
        if not _names_table(label, reading):
            yield reading.name
        if layer_type:
            yield self._remark_on_layers(name, layer_type)
        yield describe_arrangement(reading)
        yield self.notes.get(name, "")

    def _remark_on_layers(self, name: str, layer_type: str) -> str:
        """Return «sliding_attention layers» for a tensor, and a hint if only its values show that."""
        layers = f"{layer_type} layers"
        is_stated_by_name = bool(self.tensors.layer_named(name))
        if is_stated_by_name:
            return layers
        return f"{layers}, which it fits best"


def _names_table(label: str, reading: Reading) -> bool:
    """Return True if the name of a tensor in the answer states which table it is.

    `cos` and `rope.cos_cached` state cosines. `x` states nothing, and `rope.buffer` may be any table.
    """
    return label == reading.name or role_of(label) not in (None, ANYTHING)


def _are_rivals(encoding: Encoding, other: Encoding) -> bool:
    """Return True if a table may be of either of two encodings: of one shape, with different values."""
    return other.axis_dim == encoding.axis_dim and other.parameters != encoding.parameters


def _may_be_rotated(array: Array) -> bool:
    """Return True if an array may have axes of heads and positions, and has values that no table has."""
    return array.ndim > 2 and np.abs(widened(array[:1])).max(initial=0.0) > MAX_TABLE_VALUE
