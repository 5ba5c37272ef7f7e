"""What is to be drawn: schemes and files, each under a name that tells it from the others, and how much of it."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pecli.engine.arrays import Array
from pecli.engine.schemes import SCHEMES, scheme_named
from pecli.engine.schemes.scheme import Axes, Scheme
from pecli.engine.table import Table, table_of
from pecli.errors import FileError, ParameterError, counted, number, spelled
from pecli.files.contents import LoadedFile, carried_spec
from pecli.files.tensor_roles import role_of
from pecli.models.encoding import ModelEncodings
from pecli.views.pictures.fitting import GRID_KINDS, TABLE_KINDS, picture_kinds

_ALWAYS_NAMED, _ON_AXES = ("dim", "heads"), ("seq_len", "max_len", "offset", "slopes")
"""Parameters that a title always has, and those that the picture shows."""
MAX_LETTERS = 40  #: Letters for parameters in a title
MAX_PANELS = 12
GRID = (16, 16)  #: Points of an image, of which no model says how many it has


class Subject(NamedTuple):
    """What is drawn: a scheme, or the tables of a file."""

    label: str
    tables: tuple[Table, ...]
    scheme: Scheme | None = None
    context: int | None = (
        None  #: The longest context that the model says it takes, where it is a model's scheme
    )
    window: int | None = None  #: The sliding window of the layers that use the scheme
    grid: tuple[int, ...] | None = (
        None  #: Of a file: on which grid its rows lie, after so many others
    )
    keep: int = 0

    @property
    def kind(self) -> str:
        return self.scheme.name if self.scheme is not None else "file"

    @property
    def applied_as(self) -> str:
        return self.scheme.applied_as if self.scheme is not None else ""

    @property
    def picture_kinds(self) -> tuple[str, ...]:
        if self.scheme is not None:
            return picture_kinds(self.scheme)
        return GRID_KINDS if self.grid else TABLE_KINDS

    def value_of(self, name: str, default: Any = None) -> Any:
        """Return the value of a parameter of the scheme, or the default; a file has no parameters."""
        return default if self.scheme is None else self.scheme.value_of(name, default)

    @property
    def first(self) -> int:
        return self.scheme.first_position if self.scheme is not None else 0

    @property
    def matrices(self) -> list[Table]:
        """The tables that have rows and columns, and elements."""
        return [table for table in self.tables if len(table.shape) == 2 and table.size]

    def axes_of(self, table: Table) -> Axes:
        if self.scheme is not None and any(own.name == table.name for own in self.scheme.tensors()):
            return self.scheme.axes_of(table.name)
        return Axes(("",) * (len(table.shape) - 2) + ("position", "channel"))


class PlotRequest(NamedTuple):
    """How much can be shown, by default in a terminal, and what of it was asked for."""

    rows: int = 100
    columns: int = 200
    channels: tuple[int, ...] | None = None


def of_scheme(
    scheme: Scheme, label: str = "", context: int | None = None, window: int | None = None
) -> list[Subject]:
    """A scheme; one of several kinds of layers is as many subjects. Context and window are those of its model."""
    parts = scheme.named_parts()
    sliding = [name for name, _ in parts if "sliding" in name or "local" in name]
    windows = {name: window if not sliding or name in sliding else None for name, _ in parts}
    return [
        Subject(f"{label} {name}".strip(), part.tensors(), part, context, windows[name])
        for name, part in parts
    ]


def of_model(
    model: ModelEncodings, label: str, kind: str | None = None, seq_len: int = 512
) -> list[Subject]:
    """The encodings of a model that can be drawn, those alone that the kind fits, if any: the rotary ones, each kind of
    layers a subject, its vision tower's, too; or else those whose tables follow from the configuration."""
    found = []
    ropes = [each for each in model if each.is_rotary and (not each.no_table or each.grid.style)]
    texts = [encoding for encoding in ropes if not encoding.part]
    for encoding in ropes:
        slides = encoding in texts and (
            len(texts) == 1 or re.search("sliding|local", encoding.layer_type)
        )
        name = f"{label} {encoding.layer_type}".strip() if len(ropes) > 1 else label
        if encoding.grid.style and (encoding.no_table or kind == "patch"):
            found += of_scheme(encoding.rope(grid=GRID), name)
            continue
        name += ", one axis" if encoding.part and encoding.grid.axes else ""
        context = None if encoding.part else model.context
        found += of_scheme(encoding.rope(seq_len), name, context, model.window if slides else None)
    for encoding in model if not ropes else ():
        if encoding.scheme in SCHEMES and not encoding.no_table:
            scheme = scheme_named(encoding.scheme)
            own = {
                name: value
                for name, value in encoding.parameters.items()
                if name in scheme.parameters()
            }
            has_rows = (
                "seq_len" not in scheme.parameters()
                or own.get("seq_len", own.get("grid")) is not None
            )
            own |= {} if has_rows else {"seq_len": seq_len}
            found += of_scheme(
                scheme(**own), f"{label} {encoding.layer_type}".strip(), model.context, model.window
            )
    return [subject for subject in found if kind in subject.picture_kinds] or found


def of_file(text: str, file: LoadedFile, label: str = "") -> list[Subject]:
    """A file, or a tensor of it; where it carries a spec, also as the scheme that made it."""
    label = label or os.path.basename(text) or text
    spec = carried_spec(file.path, file.metadata) if text in (file.path, "-") else None
    if spec is None:
        return [_as_read(label, file.tensors)]
    tables = tuple(table_of(name, array) for name, array in file.tensors.items())
    try:
        scheme: Scheme = Scheme.from_spec(spec)
    except ParameterError as problem:
        raise FileError(text, f"carries a spec that makes no table ({problem})") from None
    found = []
    for name, part in scheme.named_parts():
        start = f"{name}." if name else ""
        own = tuple(
            replace(t, name=t.name.removeprefix(start)) for t in tables if t.name.startswith(start)
        )
        shapes = {table.name: table.shape for table in own}
        is_whole = all(shapes.get(table.name) == table.shape for table in part.tensors())
        found.append(Subject(f"{label} {name}".strip(), own, part if is_whole else None))
    return found


def _as_read(label: str, tensors: Mapping[str, Array]) -> Subject:
    """Tensors without a spec, as every check reads them; the label says how, where that is not as they are."""
    from pecli.compare.reading import PLURALS, separate_tables

    tables: dict[str, Array] = {}
    notes = []
    for name, array in tensors.items():
        parts, words = separate_tables(name, array)
        if len(parts) == 1 and array.dtype.kind == "c":
            parts = {"real": array.real, "imag": array.imag}
        for part, table in parts.items():
            shape = tuple(length for length in table.shape if length != 1)  # as in (1, L, 1, D)
            if role_of(name) not in PLURALS or len(shape) != 2:
                shape = table.shape
            while len(shape) > 2 and shape[0] == 1:
                shape = shape[1:]
            tables[f"{name}.{part}" if part else name] = table.reshape(shape)
        notes += [f"{name}: {words}" if len(tensors) > 1 else words] if words else []
    label += f" ({'; '.join(notes)})" if notes else ""
    return Subject(label, tuple(table_of(*each) for each in tables.items()))


def labelled(subjects: Sequence[Subject], names: Sequence[str] = ()) -> list[Subject]:
    """The same with a label each, no two alike: the names that were given, or the parameters in which they differ."""
    if names and len(names) != len(subjects):
        given = counted(len(names), "name")
        raise ParameterError(
            "label", given, f"there are {counted(len(subjects), 'subject')}", "name each, in order"
        )
    if names:
        return [subject._replace(label=name) for subject, name in zip(subjects, names, strict=True)]
    found = [
        subject if subject.label else subject._replace(label=subject.kind) for subject in subjects
    ]
    for group in _alike(found):
        every = [_parameters(found[k].scheme) for k in group]
        for k, own in zip(group, every, strict=True):
            said = [
                _said(name, value)
                for name, value in own.items()
                if any(each.get(name) != value for each in every)
            ]
            found[k] = found[k]._replace(label=", ".join([found[k].label, *said]))
    for group in _alike(found):  # which are the same thing twice
        for place, k in enumerate(group, 1):
            found[k] = found[k]._replace(label=f"{found[k].label} ({place} of {len(group)})")
    return found


def _alike(subjects: Sequence[Subject]) -> list[list[int]]:
    """Which of them have one label."""
    by_label: dict[str, list[int]] = {}
    for k, subject in enumerate(subjects):
        by_label.setdefault(subject.label, []).append(k)
    return [group for group in by_label.values() if len(group) > 1]


def title_of(subjects: Sequence[Subject], shows: str) -> str:
    """Whose picture it is, and what it shows; of several subjects each is named where it is drawn."""
    if len(subjects) > 1:
        return shows[:1].upper() + shows[1:]
    (subject,) = subjects
    words = [subject.label]
    if subject.scheme is not None and subject.label == subject.kind:
        for name, value in _parameters(subject.scheme).items():
            is_notable = name in _ALWAYS_NAMED or value != subject.scheme.default_of(name)
            if is_notable and name not in _ON_AXES:
                words.append(_said(name, value))
    while len(words) > 2 and sum(map(len, words[1:])) > MAX_LETTERS:
        words.pop()
    return f"{', '.join(words)}: {shows}"


def _parameters(scheme: Scheme | None) -> dict[str, Any]:
    """The parameters that a title has room for."""
    if scheme is None:
        return {}
    values = scheme.spec()["parameters"]
    return {
        name: value
        for name, value in values.items()
        if value is not None and not isinstance(value, tuple)
    }


def _said(name: str, value: Any) -> str:
    if (name, value) == ("scaling", "none"):
        return "unscaled"
    if name == "heads":
        return counted(value, "head")
    return f"{name} {number(value) if isinstance(value, float) else spelled(value)}"


def names_of(subjects: Sequence[Subject]) -> list[str]:
    """What each is called where it is drawn; one alone is named by the title."""
    return [subject.label for subject in subjects] if len(subjects) > 1 else ["" for _ in subjects]


def positions(counts: Iterable[int]) -> str:
    """Over how many positions a picture is, for its title: «512 positions», or «positions» where numbers differ."""
    every = {*counts}
    return f"{every.pop():,} positions" if len(every) == 1 else "positions"


def check_panels(count: int) -> None:
    """Refuse a picture of so many panels that none of them could be seen."""
    if count > MAX_PANELS:
        rule = f"it would take more than {MAX_PANELS} panels"
        raise ParameterError(
            "the picture", "too large", rule, "draw fewer, or name one tensor as FILE:NAME"
        )


def chosen(request: PlotRequest, count: int, most: int, name: str = "channels") -> list[int]:
    """The channels (or `name`) that were asked for; else at most so many of all, evenly, the first and last among them.

    >>> chosen(PlotRequest(), 12, 4), chosen(PlotRequest(), 3, 8), chosen(PlotRequest(channels=(1,)), 2, 8)
    ([0, 4, 7, 11], [0, 1, 2], [1])
    """
    if request.channels is None:
        few = min(count, most)
        return [round(k * (count - 1) / max(1, few - 1)) for k in range(few)]
    for channel in request.channels:
        if not channel < count:
            raise ParameterError("channels", channel, f"there are {count} {name}, numbered from 0")
    return list(request.channels)
