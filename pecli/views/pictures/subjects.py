"""What is to be drawn: schemes and files, each under a name that tells it from the others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pecli.engine.arrays import Array
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table, table_of
from pecli.errors import FileError, ParameterError
from pecli.models.encoding import ModelEncodings
from pecli.views.pictures.labels import short
from pecli.views.pictures.panels import Subject
from pecli.views.screen import counted

if TYPE_CHECKING:
    from pecli.files import LoadedFile


_ALWAYS_NAMED, _ON_AXES = ("dim", "heads"), ("seq_len", "max_len", "offset", "slopes")
"""Parameters that a title always has, and those that the picture shows."""
MAX_LETTERS = 40
"""Letters for parameters in a title."""


def of_scheme(scheme: Scheme, label: str = "", context: int | None = None, window: int | None = None) -> list[Subject]:
    """A scheme; one of several kinds of layers is as many subjects. Context and window are those of its model."""
    parts = scheme.named_parts()
    sliding = [name for name, _ in parts if "sliding" in name or "local" in name]
    windows = {name: window if not sliding or name in sliding else None for name, _ in parts}
    return [Subject(f"{label} {name}".strip(), part.tensors(), part, context, windows[name]) for name, part in parts]


def of_model(model: ModelEncodings, label: str, seq_len: int = 512) -> list[Subject]:
    """The rotary encodings of a model, each of its kinds of layers a subject."""
    ropes = [encoding for encoding in model.ropes() if not encoding.no_table]
    found = []
    for encoding in ropes:
        slides = len(ropes) == 1 or "sliding" in encoding.layer_type or "local" in encoding.layer_type
        name = f"{label} {encoding.layer_type}".strip() if len(ropes) > 1 else label
        found += of_scheme(encoding.rope(seq_len), name, model.context, model.window if slides else None)
    return found


def of_file(text: str, file: LoadedFile, label: str = "") -> list[Subject]:
    """A file, or a tensor of it; where it carries a spec, also as the scheme that made it."""
    from pecli.files.contents import carried_spec

    label = label or os.path.basename(text) or text
    tables = tuple(part for name, array in file.tensors.items() for part in _real(name, array))
    spec = carried_spec(file.path, file.metadata) if text in (file.path, "-") else None
    if spec is None:
        return [Subject(label, tables)]
    try:
        scheme: Scheme = Scheme.from_spec({name: spec.get(name) for name in ("scheme", "parameters")})
    except ParameterError as problem:
        raise FileError(text, f"carries a spec that makes no table ({problem})") from None
    found = []
    for name, part in scheme.named_parts():
        start = f"{name}." if name else ""
        own = tuple(replace(t, name=t.name.removeprefix(start)) for t in tables if t.name.startswith(start))
        found.append(Subject(f"{label} {name}".strip(), own, part if _has(own, part) else None))
    return found


def identified(subject: Subject) -> Subject:
    """Tables without a spec as the scheme that `identify` finds in them; unchanged where it finds none."""
    if subject.scheme is not None:
        return subject
    from pecli.checks.identify import identify_tensors

    matches = identify_tensors(subject.label, {table.name: table.array() for table in subject.tables}).matches
    if not matches:
        return subject
    scheme = matches[0].scheme
    return Subject(f"{subject.label} (identified: {scheme.name})", scheme.tensors(), scheme)


def _has(tables: Sequence[Table], scheme: Scheme) -> bool:
    """Whether the tables are those of the scheme, by name and shape."""
    there = {table.name: table.shape for table in tables}
    return all(there.get(table.name) == table.shape for table in scheme.tensors())


def _real(name: str, array: Array) -> list[Table]:
    """A tensor to be drawn; one of complex numbers as its two parts."""
    if array.dtype.kind != "c":
        return [table_of(name, array)]
    return [table_of(f"{name}.real", array.real), table_of(f"{name}.imag", array.imag)]


def labelled(subjects: Sequence[Subject], names: Sequence[str] = ()) -> list[Subject]:
    """The same with a label each, no two alike: the names that were given, or the parameters in which they differ."""
    if names and len(names) != len(subjects):
        given = counted(len(names), "name")
        raise ParameterError("label", given, f"there are {counted(len(subjects), 'subject')}", "name each, in order")
    if names:
        return [subject._replace(label=name) for subject, name in zip(subjects, names, strict=True)]
    found = [
        subject if subject.label or subject.scheme is None else _by_kind(subject, subjects) for subject in subjects
    ]
    for group in _alike(found):
        same = [found[k] for k in group]
        for k in group:
            found[k] = found[k]._replace(label=", ".join([found[k].label, *_differing(found[k], same)]))
    for group in _alike(found):  # which are the same thing twice
        for number, k in enumerate(group, 1):
            found[k] = found[k]._replace(label=f"{found[k].label} ({number} of {len(group)})")
    return found


def _alike(subjects: Sequence[Subject]) -> list[list[int]]:
    """Which of them have one label."""
    by_label: dict[str, list[int]] = {}
    for k, subject in enumerate(subjects):
        by_label.setdefault(subject.label, []).append(k)
    return [group for group in by_label.values() if len(group) > 1]


def _by_kind(subject: Subject, subjects: Sequence[Subject]) -> Subject:
    """A scheme called by its kind, and by the parameters that tell it from the others of the kind."""
    others = [other for other in subjects if other.kind == subject.kind and not other.label]
    return subject._replace(label=", ".join([subject.kind, *_differing(subject, others)]))


def _differing(subject: Subject, others: Sequence[Subject]) -> list[str]:
    """The parameters of a subject that are not the same in all the others."""
    every = [_parameters(other.scheme) for other in others]
    own = _parameters(subject.scheme)
    return [_said(name, value) for name, value in own.items() if any(each.get(name) != value for each in every)]


def title_of(subjects: Sequence[Subject], shows: str) -> str:
    """Whose picture it is, and what it shows; of several subjects each is named where it is drawn."""
    if len(subjects) > 1:
        return shows[:1].upper() + shows[1:]
    (subject,) = subjects
    words = [subject.label]
    if subject.scheme is not None and subject.label == subject.kind:
        words += _notable(subject.scheme)
    return f"{', '.join(words)}: {shows}"


def _notable(scheme: Scheme) -> list[str]:
    """The parameters that axes do not show, as far as a title has room: what is not as usual."""
    words: list[str] = []
    for name, value in _parameters(scheme).items():
        word = _said(name, value)
        if (name in _ALWAYS_NAMED or value != scheme.default_of(name)) and sum(map(len, words)) + len(
            word
        ) <= MAX_LETTERS:
            words += [] if name in _ON_AXES else [word]
    return words


def _parameters(scheme: Scheme | None) -> dict[str, Any]:
    """The parameters that a title has room for."""
    if scheme is None:
        return {}
    values = scheme.spec()["parameters"]
    return {name: value for name, value in values.items() if value is not None and not isinstance(value, tuple)}


def _said(name: str, value: Any) -> str:
    if (name, value) == ("scaling", "none"):
        return "unscaled"
    return counted(value, "head") if name == "heads" else f"{name} {_shown(value)}"


def _shown(value: Any) -> str:
    return short(value) if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
