"""A file, or arrays, compared with what a model's configuration asks for."""

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.verification import Checked, Verification, compared, conclusion
from pecli.checks.verify.targets import PLACES, Place, model_targets
from pecli.compare import forms
from pecli.compare.comparison import Comparison
from pecli.compare.problems import OtherShape
from pecli.compare.reading import Doubling, Reading, best_reading, doubling_problems
from pecli.compare.tolerance import Tolerance
from pecli.engine.application import LAYOUTS
from pecli.engine.arrays import COMPLEX, Array, dtype_name, widened
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import NoTablesError, ParameterError, bracketed, listed, spelled
from pecli.explain import time_limit
from pecli.files import contents, load, npy
from pecli.files.tensor_roles import ANYTHING, role_of, schemes_of
from pecli.models.config_files import config_file
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.find import Model, load_model

if TYPE_CHECKING:
    from pecli.tensors.row_positions import RowPositions

QUERIES = "if these are queries or keys after the rotation, and not tables, dump them before it, too, and give --before FILE"
MAX_UNNAMED = 16  #: tensors of a file that are recognised by their values when no name has a role


def verify_tables(
    given: load.Given,
    model: Model,
    tolerance: Tolerance,
    reasons: bool,
    layer_type: str | None = None,
    **places: Any,
) -> Verification:
    """Compare the tensors of a file that belong to a model's encodings, found by name or by content, with what they
    should be. How many positions a table has, and how it is arranged, is up to the file. With positions, or a mask, of
    (batch, L), so are tables, and those of padding are not compared."""
    found = load_model(model)
    label, file = load.opened(given)
    attention_mask = places.pop("attention_mask", None)
    axes = max((len(each.sections.mrope_section or ()) for each in found.ropes()), default=1) or 1
    tables: Mapping[str, Array] = file.tensors
    rows: RowPositions | None = None
    if attention_mask is None and np.ndim(places.get("positions", 0)) <= 1 + (axes > 1):
        place = Place.of(places)
        answer = _Search(label, file, found, layer_type, place).answer(tolerance, reasons)
        if not (answer.passed or place.offset or place.own):
            rows = _counted(tables)
    else:
        from pecli.tensors.row_positions import row_positions

        tables = {name: _per_batch(array) for name, array in tables.items()}
        every = row_positions(places.pop("positions", None), attention_mask)
        tokens, positions, notes = _by_token(label, tables, every, axes)
        place = replace(Place.of(places), own={"positions": positions})
        arrays = contents.LoadedFile(load.NO_FILE, "arrays", tokens)
        answer = _Search(label, arrays, found, layer_type, place, notes).answer(tolerance, reasons)
        rows = every if notes else None
    rotary = found.ropes() if layer_type is None else [found.one(layer_type)]
    if (
        answer.passed or not reasons or rows is None or len(rotary) != 1
    ):  # of which the tables are is then unsaid
        return answer
    solved = _solved_positions(tables, rows, model, rotary[0], tolerance)
    return (
        answer
        if solved is None
        else replace(answer, reasons=solved.reasons, explanations=solved.explanations)
    )


def _counted(tables: Mapping[str, Array]) -> "RowPositions | None":
    """The rows of every sequence from 0 on, where tables (batch, L, D) differ from each other; of more sequences than
    rows, the first axis may be that of positions."""
    for array in (tables[name] for name in tables if role_of(name) == "cos"):
        is_stack = array.ndim == 3 and len(array) <= array.shape[1]
        if is_stack and all((array != array.take([0], axis)).any() for axis in (0, 1)):
            from pecli.tensors.row_positions import row_positions

            return row_positions(np.tile(np.arange(array.shape[1]), (len(array), 1)))
    return None


def _per_batch(array: Array) -> Array:
    """A table as (batch, L, …), without an axis of one head."""
    single = [axis for axis in (1, 2) if array.ndim == 4 and array.shape[axis] == 1]
    return array[None] if array.ndim < 3 else array.squeeze(tuple(single[:1]))


def _by_token(
    label: str, tables: Mapping[str, Array], rows: "RowPositions", axes: int
) -> tuple[dict[str, Array], Any, dict[str, str]]:
    """Tables per batch, (batch, L, …), with a row for each token that is no padding; its positions; a note on each."""
    ids = rows.arranged(axes)
    assert ids is not None
    seen = np.ones(ids.shape[1:], bool) if rows.seen is None else rows.seen.reshape(ids.shape[1:])
    shape = bracketed(seen.shape)
    # two rows of tables without a name are cosines and sines, not a batch of two
    per_batch = [
        name
        for name in tables
        if tables[name].shape[:2] == seen.shape and (role_of(name) or len(seen) != 2)
    ]
    if not per_batch and rows.seen is not None:
        rule = f"no table of {label or 'these arrays'} is {shape[:-1]}, …)"
        raise ParameterError(
            rows.name, f"of shape {shape}", rule, "leave it out, or dump tables per batch"
        )
    at_tokens = ids[:, seen] if len(ids) > 1 else ids[0, seen]
    positions = PLACES["positions"].check("positions", at_tokens if per_batch else rows.ids)
    tokens = {name: array[seen] if name in per_batch else array for name, array in tables.items()}
    return (
        tokens,
        positions,
        dict.fromkeys(per_batch, f"{seen.sum():,} tokens of {shape}, one after the other"),
    )


def _solved_positions(
    tables: Mapping[str, Array],
    rows: "RowPositions",
    model: Model,
    encoding: Encoding,
    tolerance: Tolerance,
) -> Verification | None:
    """The positions that tables per batch were made at: tables are what a rotation makes of (1, 0)."""
    waves = [tables[name] for role in ("cos", "sin") for name in tables if role_of(name) == role]
    if len(waves) != 2 or waves[0].shape != waves[1].shape:
        return None
    from pecli.checks.verify.rotated import verify_rotated
    from pecli.explain.edits import Positions

    pairs = min(waves[0].shape[-1], encoding.rope(1).rotary_dim // 2)
    takes, gives = LAYOUTS[encoding.layout or "halves"]
    cos, sin = (wave[..., :pairs] for wave in waves)
    before, after = (
        forms.joined((np.ones_like(cos), np.zeros_like(sin)), takes),
        forms.joined((cos, sin), gives),
    )
    tokens = {"positions": rows.ids} if rows.seen is None else {"attention_mask": rows.seen}
    options: dict[str, Any] = {**tokens, "layer_type": encoding.layer_type or None, "seq_axis": -2}
    with suppress(ParameterError):  # tables of another width
        found = verify_rotated(after, before, model, tolerance, True, **options)
        if any(isinstance(edit, Positions) for each in found.explanations for edit in each.edits):
            return found
    return None


def _with_frequencies(file: contents.LoadedFile) -> Mapping[str, Array]:
    """The tensors of a file; of a .gguf, with frequencies instead of the factors that divide them."""
    path = config_file(file.path) if file.format == "folder" else file.path
    if file.format != "gguf" and not path.endswith(".gguf"):
        return file.tensors
    from pecli.models.dialects.gguf import factor_frequencies

    made = factor_frequencies(path)
    tensors = {name: array for name, array in file.tensors.items() if name not in made}
    return tensors | {
        table.name: table.array() for name, table in made.items() if name in file.tensors
    }


class _Search:
    """The tensors of one file that belong to some encodings, each with its best reading."""

    def __init__(
        self,
        path: str,
        file: contents.LoadedFile,
        model: ModelEncodings,
        layer_type: str | None,
        place: Place,
        notes: Mapping[str, str] | None = None,
    ) -> None:
        self.path, self.file, self.notes = path, file, notes or {}
        self.encodings = model.encodings if layer_type is None else (model.one(layer_type),)
        if not self.encodings:
            rule = "it has no positional encoding to check"
            raise ParameterError("model", repr(model.file), rule, "see pecli config")
        if (
            "grid" in place.own and layer_type is None
        ):  # which the text beside a vision tower may not have
            self.encodings = (
                tuple(each for each in self.encodings if each.grid.style) or self.encodings
            )
        self.model, self.by_number = model, layer_type is None
        self.tensors = _with_frequencies(file.read_as("float32"))
        rotary = (
            array for name, array in self.tensors.items() if role_of(name) in ("cos", "sin", "both")
        )
        ends = {(place.offset or 0) + count for array in rotary for count in array.shape[:-1]}
        self.place = replace(place, ends=tuple(sorted(ends)[:MAX_UNNAMED]))
        self.every, self.several = (
            self.encodings,
            len({encoding.layer_type for encoding in self.encodings}) > 1,
        )

    def answer(self, tolerance: Tolerance, reasons: bool) -> Verification:
        """The answer; where no name says of which kind of layers tables are, they are of one: which explains most."""
        kinds = [each for each in self.encodings if each.is_rotary and not each.part]
        if len(kinds) < 2 or any(map(self._named, self.tensors)):
            return self._answer(tolerance, reasons)
        others = [each for each in self.encodings if each not in kinds]
        answers: list[tuple[_Search, Verification]] = []
        for kind in kinds:
            search = copy(self)
            search.encodings = (kind, *others)
            with suppress(NoTablesError):  # of this kind
                answers.append((search, search._answer(tolerance, reasons=False)))
        if not answers:
            return self._answer(tolerance, reasons)
        if reasons and not any(answer for _, answer in answers):
            with time_limit.time_limit():
                answers = [(search, search._answer(tolerance, reasons)) for search, _ in answers]
        return min((answer for _, answer in answers), key=_doubts)

    def _answer(self, tolerance: Tolerance, reasons: bool) -> Verification:
        read, tolerance = self._found(), tolerance.against_model()
        lost = [] if read else self._lost_scalings()
        checked = [self._checked(name, reading, tolerance) for name, reading in read]
        known = [(reading, reading.target.origin) for _, reading in read if reading is not None]
        problems = doubling_problems(
            Doubling(own.layer_type, each, each.form.doubled) for each, own in known if own
        )
        schemes = {origin.scheme for _, origin in known if origin}
        scheme = ", ".join(sorted(schemes or {each.scheme for each in self.encodings}))
        answer = conclusion(
            self.path, scheme, checked, tolerance, [*lost, *problems], reasons, self.tensors
        )
        if (
            answer.passed
            or answer.explanations
            or not any(map(self._may_be_rotated, self.tensors.values()))
        ):
            return answer
        return replace(answer, reasons=(*answer.reasons, QUERIES))

    def _may_be_rotated(self, array: Array) -> bool:
        """Whether it has the shape of queries or keys, and values that no table has."""
        heads = {encoding.head_dim for encoding in self.encodings if encoding.is_rotary}
        return (
            array.ndim > 2
            and array.shape[-1] in heads
            and bool(np.abs(widened(array[:1])).max(initial=0.0) > 2)
        )

    def _checked(self, name: str, reading: Reading | None, tolerance: Tolerance) -> Checked:
        shape = self.tensors[name].shape
        if reading is None:
            shapes = " or ".join(dict.fromkeys(_shapes_of(each) for each in self._likely(name)))
            turned = self._best(name, self._role(name), turned=True)
            fits_transposed = turned is not None and (turned.is_learned or turned.is_near)
            problem = OtherShape(shape, shapes, fits_transposed)
            result = Comparison.impossible(name, shape, problem)
            return Checked(name, result, *self._likeliest(name))
        label = reading.name if name == npy.ARRAY_NAME else name
        layers = reading.target.origin.layer_type if self.several and reading.target.origin else ""
        named = self._named(name)
        known = label == reading.name or role_of(label) not in (None, ANYTHING)
        fits = f"{layers} layers{'' if named else ', which it fits best'}" if layers else ""
        words = ", ".join(
            filter(None, ("" if known else reading.name, fits, reading.note, self.notes.get(name)))
        )
        checked = replace(Checked.of(name, label, reading, tolerance), note=words, layers=layers)
        for other in self.every if layers and not checked.result.passed else ():
            found = (
                self._best(name, role_of(reading.name), [other])
                if other.layer_type != layers
                else None
            )
            if found is not None and compared(name, found, tolerance).passed:
                return replace(checked, right_for=other.layer_type)
        return checked

    def _likeliest(self, name: str) -> tuple[Scheme | None, dict[str, Array]]:
        array = self.tensors[name]
        ropes = [each for each in self._likely(name) if each.is_rotary and not each.no_table]
        if not ropes or not array.size:
            return None, {}
        role = self._role(name)
        compact = (ropes[0].axis_dim or 0) // 2 in array.shape
        layout = (
            "compact"
            if compact
            else "interleaved"
            if ropes[0].layout == "interleaved"
            else "halves"
        )
        rope = self._place(name).rope(ropes[0], max(array.shape, default=1), layout=layout)
        return rope, {role if role in ("cos", "sin", "inv_freq") else "cos_sin": array}

    def _found(self) -> list[tuple[str, Reading | None]]:
        """The tensors to check: the only one, or those whose names say so, or those that look like it."""
        tensors = self.tensors
        if len(tensors) == 1:
            (name,) = tensors
            return [(name, self._best(name, self._role(name)) or self._best(name, None))]
        kinds = {encoding.scheme for encoding in self.encodings}
        found: list[tuple[str, Reading | None]] = []
        for name, array in tensors.items():
            role = role_of(name)
            is_number = _is_number(array) or role in ("index", "cos", "sin", "both")
            if not role or not is_number or not schemes_of(role) & kinds or self._is_foreign(name):
                continue
            best = self._best(name, role)
            # a tensor of that name is wrong where its shape is; other names may mean other things
            if best or (role != ANYTHING and (role != "rows" or kinds & {"sinusoidal", "learned"})):
                found.append((name, best))
        if not found and len(tensors) <= MAX_UNNAMED:
            likely = [
                (name, self._best(name, None)) for name in tensors if _is_number(tensors[name])
            ]
            found = [(name, best) for name, best in likely if best is not None and best.is_near]
        if not found and not self._lost_scalings():
            count = len(tensors) + len(self.file.unread)
            names = f": {listed(list(tensors), 4)}" if tensors else ""
            problem = f"has no positional tables of {' or '.join(sorted(kinds))} ({count:,} tensors{names})"
            advice = "modern checkpoints compute them: use a dump, or name a tensor, FILE:NAME"
            advice += "; queries or keys after the rotation go with --before FILE" * (
                "rope" in kinds
            )
            raise NoTablesError(self.path or "arrays", problem, advice)
        return found

    def _lost_scalings(self) -> list[str]:
        """What the model has in factors that a .gguf file, unless it is one part of several, should hold."""
        if self.file.format != "gguf":
            return []
        from pecli.checks.model_forms import GGUF, lost_scaling
        from pecli.files.gguf_file import header_of

        kinds = () if "split.count" in header_of(self.file.path).values else ("llama3", "longrope")
        scaled = [each for each in self.encodings if each.parameters.get("scaling") in kinds]
        return list(dict.fromkeys(lost_scaling(each, GGUF) for each in scaled))

    def _is_foreign(self, tensor: str) -> bool:
        """Whether it is of layers that were not asked for, or of a part that the configuration does not describe."""
        if (named := self._named(tensor)) is not None:
            return all(each.layer_type != named for each in self.encodings)
        name = tensor.replace("visual", "vision")
        known = " ".join(each.layer_type for each in self.model)
        return any(part in name and part not in known for part in ("vision", "audio"))

    def _role(self, name: str) -> str | None:
        """What the name of the tensor says, or that of the file where the tensor has none."""
        return role_of(
            os.path.splitext(os.path.basename(self.file.path))[0]
            if name == npy.ARRAY_NAME
            else name
        )

    def _best(
        self,
        name: str,
        role: str | None,
        encodings: Sequence[Encoding] | None = None,
        *,
        turned: bool = False,
    ) -> Reading | None:
        """The reading that comes nearest, of the layer type that the name says if it does."""
        array, place = np.atleast_1d(self.tensors[name]), self._place(name)
        array = array.T if turned else array
        role = None if role == ANYTHING else role
        if dtype_name(array.dtype) in COMPLEX:
            role = "both"
        targets = (
            some
            for each in encodings or self._likely(name)
            for some in model_targets(each, array, role, place)
        )
        return best_reading(array, targets, is_text=self.file.format == "csv")

    def _place(self, name: str) -> Place:
        """Where a table is read: names of a .gguf tell frequencies for lengths beyond the original one."""
        if not name.startswith("rope_factors_long"):
            return self.place
        original = max(
            each.parameters.get("original_max_position_embeddings") or 0 for each in self.encodings
        )
        return replace(self.place, length=self.place.length or original + 1)

    def _likely(self, name: str) -> Sequence[Encoding]:
        return [
            each for each in self.encodings if each.layer_type == self._named(name)
        ] or self.encodings

    def _named(self, name: str) -> str | None:
        return self.model.layer_named(name, by_number=self.by_number)


def _doubts(answer: Verification) -> tuple[float, ...]:
    """What speaks against it: tensors that fail without a reason, mistakes, tensors that fail, and their errors."""
    failed = [tensor for tensor in answer.tensors if tensor.mismatched != 0]
    explained = {name for each in answer.explanations for name in each.tensors}
    mistakes = len(answer.problems) + sum(len(each.mistakes) for each in answer.explanations)
    wrong = sum(tensor.mismatched or 0 for tensor in failed)
    return max(0, len(failed) - len(explained)), mistakes, len(failed), wrong


def _is_number(array: Array) -> bool:
    return dtype_name(array.dtype).startswith(("float", "bfloat", "complex"))


def _shapes_of(encoding: Encoding) -> str:
    given = encoding.parameters
    if encoding.is_rotary:
        dim = encoding.axis_dim or 0
        return f"({dim // 2}), (positions, {dim // 2}) or (positions, {dim})"
    if "heads" in given:
        return f"({given['heads']}) or ({given['heads']}, …, positions)"
    if {"grid", "dim"} <= given.keys():
        return f"({math.prod(given['grid'])}, {given['dim']}) of the grid {spelled(given['grid'])} (or give --grid)"
    rows = given.get("max_len", "positions")
    return f"({rows}, {given.get('dim', rows)})"
