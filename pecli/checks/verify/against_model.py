"""A file, or arrays, compared with what a model's configuration requires."""

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.verification import Checked, Verification, compared, conclusion
from pecli.checks.verify.batch_tables import (
    counted_rows,
    per_batch,
    solved_positions,
    token_tables,
)
from pecli.checks.verify.targets import Place, model_targets
from pecli.compare.comparison import Comparison
from pecli.compare.problems import OtherShape
from pecli.compare.reading import (
    Doubling,
    Reading,
    best_reading,
    doubling_problems,
    lone_transposes,
)
from pecli.compare.target import Target
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import COMPLEX, Array, dtype_name, widened
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import NoTablesError, ParameterError, counted, listed, spelled
from pecli.explain import time_limit
from pecli.files.contents import LoadedFile
from pecli.files.load import NO_FILE, Given, opened
from pecli.files.npy import ARRAY_NAME
from pecli.files.tensor_roles import ANYTHING, function_order, module_of, role_of, schemes_of
from pecli.models.config_files import config_file
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.find import Model, load_model

if TYPE_CHECKING:
    from pecli.tensors.row_positions import RowPositions

QUERIES = "if these are queries or keys after the rotation, and not tables, dump them before it, too, and give --before FILE"
ARRAY_DUMP = "to dump them: numpy.savez('dump.npz', q_before=…, q_after=…), see samples/dump"
GGUF_DUMP = "to dump them: llama-eval-callback -m FILE -p 'some words' > dump.log, see samples/dump"
"""How to make a file that can be checked, for one that has nothing to check."""
MAX_UNNAMED = 16  #: tensors of a file that are recognised by their values if no name has a role
MAX_LISTED = 4  #: tensors that an error names
MAX_TABLE_VALUE = 2  #: largest value of cosines and sines; queries and keys have larger ones
NUMBER_ROLES = ("index", "cos", "sin", "both")  #: roles of tensors that may hold integers
FACTOR_SCALINGS = ("llama3", "longrope")  #: scalings whose factors a .gguf file holds as tensors
OTHER_PARTS = ("vision", "audio")

Found = tuple[str, Reading | None]
"""The name of a tensor to check, and how it is read, if it can be."""


def verify_tables(
    given: Given,
    model: Model,
    tolerance: Tolerance,
    reasons: bool,
    layer_type: str | None = None,
    **places: Any,
) -> Verification:
    """Compare the tensors of a file that belong to a model's encodings with what they should be.

    They are found by name or by content. How many positions a table has, and how it is arranged, is up to the file.
    With positions, or a mask, of (batch, L), so are tables, and those of padding are not compared.
    """
    encodings = load_model(model)
    label, file = opened(given)
    attention_mask = places.pop("attention_mask", None)
    axes = max((len(each.sections.mrope_section or ()) for each in encodings.ropes()), default=1)
    axes = max(1, axes)
    tables: Mapping[str, Array] = file.tensors
    rows: RowPositions | None = None
    position_axes = 2 if axes > 1 else 1
    is_one_sequence = np.ndim(places.get("positions", 0)) <= position_axes
    if attention_mask is None and is_one_sequence:
        place = Place.of(places)
        check = _ModelCheck(label, file, encodings, layer_type, place)
        answer = check.answer(tolerance, reasons)
        if not answer.passed and not place.offset and not place.own:
            rows = counted_rows(tables)
    else:
        from pecli.tensors.row_positions import row_positions

        tables = {name: per_batch(array) for name, array in tables.items()}
        batch = row_positions(places.pop("positions", None), attention_mask)
        tokens = token_tables(label, tables, batch, axes)
        place = replace(Place.of(places), own={"positions": tokens.positions})
        arrays = LoadedFile(NO_FILE, "arrays", tokens.tables)
        check = _ModelCheck(label, arrays, encodings, layer_type, place, tokens.notes)
        answer = check.answer(tolerance, reasons)
        if tokens.notes and not answer.passed:
            rows = batch
        answer = replace(answer, problems=(*answer.problems, *tokens.problems))
    rotary = encodings.ropes() if layer_type is None else [encodings.one(layer_type)]
    # With several rotary encodings, it is not known whose tables these are.
    if answer.passed or not reasons or rows is None or len(rotary) != 1 or rotary[0].no_table:
        return answer
    solved = solved_positions(tables, rows, model, rotary[0], tolerance)
    if solved is None:
        return answer
    return replace(answer, reasons=solved.reasons, explanations=solved.explanations)


class _ModelCheck:
    """The tensors of one file that belong to some encodings, each with its best reading."""

    def __init__(
        self,
        path: str,
        file: LoadedFile,
        model: ModelEncodings,
        layer_type: str | None,
        place: Place,
        notes: Mapping[str, str] | None = None,
    ) -> None:
        self.path = path
        self.file = file
        self.model = model
        self.notes = notes or {}
        self.is_any_layer = layer_type is None
        self.encodings = _encodings(model, layer_type, place)
        self.all_encodings = self.encodings
        self.has_several = len({encoding.layer_type for encoding in self.encodings}) > 1
        self.tensors = _with_frequencies(file.read_as("float32"))
        self.place = replace(place, ends=self._ends(place))
        self.assigned: Mapping[str, Encoding] = {}  #: by tensor, the encoding that it is tried with

    def _ends(self, place: Place) -> tuple[int, ...]:
        """Return the positions at which tables of the file may end; frequencies may have been read there."""
        ends = set()
        for name, array in self.tensors.items():
            if role_of(name) in ("cos", "sin", "both"):
                ends |= {(place.offset or 0) + length for length in array.shape[:-1]}
        return tuple(sorted(ends)[:MAX_UNNAMED])

    def answer(self, tolerance: Tolerance, reasons: bool) -> Verification:
        """Return the answer for the layers that explain most, if no name states which layers tables are of."""
        rotary = [each for each in self.encodings if each.is_rotary and not each.part]
        if len(rotary) < 2 or any(self._layer_named(name) for name in self.tensors):
            return self._answer(tolerance, reasons)
        others = [each for each in self.encodings if each not in rotary]
        groups = _groups(self.tensors)
        if len(groups) > len(rotary):
            return self._answer(tolerance, reasons)
        checks: list[_ModelCheck] = []
        answers: list[Verification] = []
        for encodings in permutations(rotary, len(groups)):
            check = copy(self)
            check.encodings = (*encodings, *others)
            check.assigned = _assigned(groups, encodings)
            with suppress(NoTablesError):  # There may be tables of the other layers only.
                answers.append(check._answer(tolerance, reasons=False))
                checks.append(check)
        if not answers:
            return self._answer(tolerance, reasons)
        if reasons and not any(answers):
            with time_limit.time_limit():
                answers = [check._answer(tolerance, reasons) for check in checks]
        return min(answers, key=_doubts)

    def _answer(self, tolerance: Tolerance, reasons: bool) -> Verification:
        tolerance = tolerance.against_model()
        found = self._without_lone_transposes(self._found())
        problems = [] if found else self._lost_scalings()
        checked = [self._checked(name, reading, tolerance) for name, reading in found]
        schemes = set()
        doublings = []
        for _, reading in found:
            if reading is not None and reading.target.origin is not None:
                origin = reading.target.origin
                schemes.add(origin.scheme)
                doublings.append(Doubling(origin.layer_type, reading, reading.form.doubled))
        problems += doubling_problems(doublings)
        if not schemes:
            schemes = {encoding.scheme for encoding in self.encodings}
        answer = conclusion(
            self.path,
            ", ".join(sorted(schemes)),
            checked,
            tolerance,
            problems,
            reasons,
            self.tensors,
        )
        if answer.passed or answer.explanations:
            return answer
        if not any(self._may_be_rotated(array) for array in self.tensors.values()):
            return answer
        return replace(answer, reasons=(*answer.reasons, QUERIES))

    def _may_be_rotated(self, array: Array) -> bool:
        """Return True if an array has the shape of queries or keys, and values that no table has."""
        widths = {encoding.head_dim for encoding in self.encodings if encoding.is_rotary}
        if array.ndim < 3 or array.shape[-1] not in widths:
            return False
        return bool(np.abs(widened(array[:1])).max(initial=0.0) > MAX_TABLE_VALUE)

    def _checked(self, name: str, reading: Reading | None, tolerance: Tolerance) -> Checked:
        if reading is None:
            return self._unreadable(name)
        label = reading.name if name == ARRAY_NAME else name
        layers = ""
        if self.has_several and reading.target.origin is not None:
            layers = reading.target.origin.layer_type
        stated = self._stated_name(name)
        checked = Checked.of(name, label, reading, tolerance, stated=stated)
        note = ", ".join(filter(None, self._notes(name, label, layers, reading)))
        checked = replace(checked, note=note, layers=layers)
        if not layers:
            return checked
        if checked.result.passed:
            doubt = self._doubt_about_layers(name, label, reading)
            return replace(checked, doubt=checked.doubt or doubt)
        for other in self.all_encodings:
            if other.layer_type == layers:
                continue
            best = self._best(name, role_of(reading.name), [other])
            if best is not None and compared(name, best, tolerance).passed:
                return replace(checked, right_for=other.layer_type)
        return checked

    def _doubt_about_layers(self, name: str, label: str, reading: Reading) -> str:
        """Return a sentence if a tensor belongs to some layers by its values, and not by its name.

        Layers whose heads have other sizes, or that rotate alike, are not mistaken for these.
        """
        origin = reading.target.origin
        if origin is None or self._layer_named(name) is not None:
            return ""
        own = self.model.one(origin.layer_type)
        for other in self.all_encodings:
            is_rival = other.is_rotary and not other.part and other.axis_dim == own.axis_dim
            if is_rival and other.parameters != own.parameters:
                fits = f"{label}: it fits {origin.layer_type} layers"
                return f"{fits}, and no name states that it belongs to them"
        return ""

    def _notes(self, name: str, label: str, layers: str, reading: Reading) -> Iterator[str]:
        """Yield what a tensor is, the layers that it belongs to, and how it was read."""
        is_named = label == reading.name or role_of(label) not in (None, ANYTHING)
        if not is_named:
            yield reading.name
        if layers:
            fits = "" if self._layer_named(name) else ", which it fits best"
            yield f"{layers} layers{fits}"
        yield reading.note
        yield self.notes.get(name, "")

    def _unreadable(self, name: str) -> Checked:
        """Return the result for a tensor whose shape no table has."""
        shape = self.tensors[name].shape
        shapes = " or ".join(dict.fromkeys(_shapes_of(each) for each in self._likely(name)))
        turned = self._best(name, self._role(name), turned=True)
        fits_transposed = turned is not None and (turned.is_learned or turned.is_near)
        problem = OtherShape(shape, shapes, fits_transposed)
        result = Comparison.impossible(name, shape, problem)
        return Checked(name, result, *self._likeliest(name))

    def _likeliest(self, name: str) -> tuple[Scheme | None, dict[str, Array]]:
        """Return a rotary scheme that may have made a tensor of another shape, for a search for reasons."""
        array = self.tensors[name]
        ropes = [each for each in self._likely(name) if each.is_rotary and not each.no_table]
        if not ropes or not array.size:
            return None, {}
        encoding = ropes[0]
        layout = "halves"
        if (encoding.axis_dim or 0) // 2 in array.shape:
            layout = "compact"
        elif encoding.layout == "interleaved":
            layout = "interleaved"
        rope = self._place(name).rope(encoding, max(array.shape, default=1), layout=layout)
        role = self._role(name)
        if role is None or role not in ("cos", "sin", "inv_freq"):
            role = "cos_sin"
        return rope, {role: array}

    def _found(self) -> list[Found]:
        """Return the tensors to check: the only one, or those whose names state it, or those that look like it.

        Raises:
            NoTablesError: If there are none.
        """
        if len(self.tensors) == 1:
            (name,) = self.tensors
            reading = self._best(name, self._role(name)) or self._best(name, None)
            return [(name, reading)]
        found = self._found_by_name()
        if not found and len(self.tensors) <= MAX_UNNAMED:
            found = self._found_by_values()
        if not found and not self._lost_scalings():
            raise self._no_tables()
        return found

    def _without_lone_transposes(self, found: list[Found]) -> list[Found]:
        """Read tables as they stand if they only fit transposed, and the table beside them does not."""
        readings = {name: reading for name, reading in found if reading is not None}
        lone = lone_transposes(readings)
        settled: list[Found] = []
        for name, reading in found:
            if name in lone:
                reading = self._best(name, self._role(name), upright=True)
            settled.append((name, reading))
        return settled

    def _found_by_name(self) -> list[Found]:
        schemes = {encoding.scheme for encoding in self.encodings}
        has_rows = bool(schemes & {"sinusoidal", "learned"})
        found: list[Found] = []
        for name, array in self.tensors.items():
            role = role_of(name)
            if not role or not schemes_of(role) & schemes or self._is_foreign(name):
                continue
            if not _is_number(array) and role not in NUMBER_ROLES:
                continue
            reading = self._best(name, role)
            # A tensor of such a name is wrong if its shape is; other names may mean other things.
            must_be_table = role != ANYTHING and (role != "rows" or has_rows)
            if reading is not None or must_be_table:
                found.append((name, reading))
        return found

    def _found_by_values(self) -> list[Found]:
        found: list[Found] = []
        for name, array in self.tensors.items():
            reading = self._best(name, None) if _is_number(array) else None
            if reading is not None and reading.is_near:
                found.append((name, reading))
        return found

    def _no_tables(self) -> NoTablesError:
        schemes = sorted({encoding.scheme for encoding in self.encodings})
        held = counted(len(self.tensors) + len(self.file.unread), "tensor")
        if self.tensors:
            held = f"{held}: {listed(list(self.tensors), MAX_LISTED)}"
        problem = f"has no positional tables of {' or '.join(schemes)} ({held})"
        advice = "modern checkpoints compute them: use a dump, or name a tensor, FILE:NAME"
        if "rope" in schemes:
            advice += "; queries or keys after the rotation go with --before FILE"
            advice += f"; {GGUF_DUMP if self.file.format == 'gguf' else ARRAY_DUMP}"
        return NoTablesError(self.path or "arrays", problem, advice)

    def _lost_scalings(self) -> list[str]:
        """Return sentences on scalings whose factors a .gguf file should hold, unless it is one part of several."""
        if self.file.format != "gguf":
            return []
        from pecli.checks.model_forms import GGUF, lost_scaling
        from pecli.files.gguf_file import header_of

        if "split.count" in header_of(self.file.path).values:
            return []
        scaled = [
            each for each in self.encodings if each.parameters.get("scaling") in FACTOR_SCALINGS
        ]
        return list(dict.fromkeys(lost_scaling(each, GGUF) for each in scaled))

    def _is_foreign(self, tensor: str) -> bool:
        """Return True if a tensor is of layers that were not asked for, or of a part that the model does not have."""
        layer_type = self._layer_named(tensor)
        if layer_type is not None:
            return all(each.layer_type != layer_type for each in self.encodings)
        name = tensor.replace("visual", "vision")
        layer_types = " ".join(each.layer_type for each in self.model)
        return any(part in name and part not in layer_types for part in OTHER_PARTS)

    def _role(self, name: str) -> str | None:
        """Return the role that the name of the tensor states, or that of the file if the tensor has no name."""
        return role_of(self._stated_name(name))

    def _stated_name(self, name: str) -> str:
        """Return the name of a tensor, or that of its file if it has none."""
        if name == ARRAY_NAME:
            return os.path.splitext(os.path.basename(self.file.path))[0]
        return name

    def _best(
        self,
        name: str,
        role: str | None,
        encodings: Sequence[Encoding] | None = None,
        *,
        turned: bool = False,
        upright: bool = False,
    ) -> Reading | None:
        """Return the nearest reading, of the layers that the name states if it does.

        Args:
            name: The tensor.
            role: What its name states that it holds.
            encodings: The encodings whose tables it may be; by default those of the layers in its name.
            turned: True to read the transposed tensor.
            upright: True if rows must be positions.
        """
        array = np.atleast_1d(self.tensors[name])
        if turned:
            array = array.T
        order = function_order(self._stated_name(name))
        if dtype_name(array.dtype) in COMPLEX:
            role = "both"
            order = None  # Cosines are the real parts.
        elif role == ANYTHING:
            role = None
        place = self._place(name)
        targets: list[Target] = []
        for encoding in encodings or self._likely(name):
            targets += model_targets(encoding, array, role, place, order)
        if upright:
            targets = [replace(target, transposable=False) for target in targets]
        return best_reading(array, targets, is_text=self.file.has_rows_only)

    def _place(self, name: str) -> Place:
        """Return where a table is read: some names of a .gguf file state that factors are for long contexts."""
        if not name.startswith("rope_factors_long") or self.place.length:
            return self.place
        lengths = [
            each.parameters.get("original_max_position_embeddings") or 0 for each in self.encodings
        ]
        return replace(self.place, length=max(lengths) + 1)

    def _likely(self, name: str) -> Sequence[Encoding]:
        """Return the encodings of the layers that a name states, or all."""
        if name in self.assigned:
            return [self.assigned[name]]
        layer_type = self._layer_named(name)
        named = [each for each in self.encodings if each.layer_type == layer_type]
        return named or self.encodings

    def _layer_named(self, name: str) -> str | None:
        return self.model.layer_named(name, by_number=self.is_any_layer)


def _encodings(model: ModelEncodings, layer_type: str | None, place: Place) -> tuple[Encoding, ...]:
    """Return the encodings of the layers in question.

    Raises:
        ParameterError: If the model has none.
    """
    if layer_type is not None:
        return (model.one(layer_type),)
    if not model.encodings:
        rule = "it has no positional encoding to check"
        raise ParameterError("model", repr(model.file), rule, "see pecli config")
    if "grid" in place.own:  # The text beside a vision tower may have no grid.
        on_grid = tuple(each for each in model.encodings if each.grid.style)
        return on_grid or model.encodings
    return model.encodings


def _groups(names: Iterable[str]) -> list[list[str]]:
    """Return names of tensors that belong to one table: cosines, sines and frequencies of one module.

    They are alike without the word for what they hold: `a.cos` and `a.sin`, `cos_1` and `sin_1`.
    Tensors whose names have no such word are one group.

    >>> _groups(["a.cos", "a.sin", "b.cos", "b.sin"])
    [['a.cos', 'a.sin'], ['b.cos', 'b.sin']]
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        module = module_of(name)
        if module is not None:
            groups.setdefault(module, []).append(name)
    return [*groups.values()] or [[*names]]


def _assigned(
    groups: Sequence[Sequence[str]], encodings: Sequence[Encoding]
) -> dict[str, Encoding]:
    """Return the encoding of each tensor, if every group has its own."""
    assigned = {}
    for group, encoding in zip(groups, encodings, strict=True):
        for name in group:
            assigned[name] = encoding
    return assigned


def _with_frequencies(file: LoadedFile) -> Mapping[str, Array]:
    """Return the tensors of a file; of a .gguf, frequencies instead of the factors that divide them."""
    path = config_file(file.path) if file.format == "folder" else file.path
    if file.format != "gguf" and not path.endswith(".gguf"):
        return file.tensors
    from pecli.models.dialects.gguf import factor_frequencies

    frequencies = factor_frequencies(path)
    tensors = {name: array for name, array in file.tensors.items() if name not in frequencies}
    for name, table in frequencies.items():
        if name in file.tensors:
            tensors[table.name] = table.array()
    return tensors


def _doubts(answer: Verification) -> tuple[int, ...]:
    """Return what speaks against an answer, the gravest first.

    These are tensors that fail without a reason, mistakes, tensors that fail, and their elements.
    """
    failed = [tensor for tensor in answer.tensors if tensor.mismatched != 0]
    explained = {name for each in answer.explanations for name in each.tensors}
    mistakes = len(answer.problems) + sum(len(each.mistakes) for each in answer.explanations)
    wrong = sum(tensor.mismatched or 0 for tensor in failed)
    return max(0, len(failed) - len(explained)), mistakes, len(failed), wrong


def _is_number(array: Array) -> bool:
    return dtype_name(array.dtype).startswith(("float", "bfloat", "complex"))


def _shapes_of(encoding: Encoding) -> str:
    """Return the shapes that tables of an encoding may have, for a sentence."""
    parameters = encoding.parameters
    if encoding.is_rotary:
        dim = encoding.axis_dim or 0
        return f"({dim // 2}), (positions, {dim // 2}) or (positions, {dim})"
    if "heads" in parameters:
        return f"({parameters['heads']}) or ({parameters['heads']}, …, positions)"
    if {"grid", "dim"} <= parameters.keys():
        rows = math.prod(parameters["grid"]) + parameters.get("keep", 0)
        grid = spelled(parameters["grid"])
        return f"({rows}, {parameters['dim']}) of the grid {grid} (or give --grid)"
    rows = parameters.get("max_len", "positions")
    return f"({rows}, {parameters.get('dim', rows)})"
