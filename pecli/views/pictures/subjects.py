"""What is to be drawn: schemes and files, each under a name that tells it from the others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pecli.engine.arrays import Array
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table
from pecli.errors import FileError, ParameterError
from pecli.views.pictures.panels import Subject
from pecli.views.pictures.ticks import short
from pecli.views.screen import counted

if TYPE_CHECKING:
    from pecli.files import LoadedFile


_SHOWN, _AXES = ("dim", "heads"), ("seq_len", "max_len", "offset", "slopes")
"""Parameters that a title always has, and those that the picture shows."""
_ROOM = 40
"""Letters for parameters in a title."""


def of_scheme(scheme: Scheme, label: str = "", context: int | None = None) -> list[Subject]:
    """A scheme; one of several kinds of layers is as many subjects. `context` is that of the model it belongs to."""
    return [Subject(f"{label} {name}".strip(), part.tensors(), part, context) for name, part in scheme.named_parts()]


def of_file(text: str, file: LoadedFile) -> list[Subject]:
    """A file, or a tensor of it; where it carries a spec, also as the scheme that made it."""
    from pecli.files.provenance import carried_spec

    label = os.path.basename(text) or text
    tables = tuple(part for table in file.tables for part in _real(table))
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


def _has(tables: Sequence[Table], scheme: Scheme) -> bool:
    """Whether the tables are those of the scheme, by name and shape."""
    there = {table.name: table.shape for table in tables}
    return all(there.get(table.name) == table.shape for table in scheme.tensors())


def _real(table: Table) -> tuple[Table, ...]:
    """A table of complex numbers as its two parts; any other as it is."""
    if not table.dtype.startswith("complex"):
        return (table,)
    dtype = "float32" if table.dtype == "complex64" else "float64"

    def part(name: str) -> Table:
        def fill(start: int, out: Array) -> None:
            out[...] = getattr(table.read(start, start + len(out)), name)

        return Table(f"{table.name}.{name}", dtype, table.shape, fill, table.in_order)

    return part("real"), part("imag")


def labelled(subjects: Sequence[Subject]) -> list[Subject]:
    """The same with a label each: what was given, or the parameters in which they differ."""
    every = [_parameters(subject.scheme) for subject in subjects]
    found = []
    for subject, own in zip(subjects, every, strict=True):
        if subject.label or subject.scheme is None:
            found.append(subject)
            continue
        alike = [other for other, each in zip(every, subjects, strict=True) if each.kind == subject.kind]
        differing = {name: value for name, value in own.items() if any(other.get(name) != value for other in alike)}
        words = [subject.kind, *(_said(name, value) for name, value in differing.items())]
        found.append(subject._replace(label=", ".join(words)[:48]))
    return found


def title_of(subjects: Sequence[Subject], shows: str) -> str:
    """Whose picture it is, and what it shows; of several subjects each is named where it is drawn."""
    if len(subjects) > 1:
        return shows[:1].upper() + shows[1:]
    (subject,) = subjects
    words = [subject.label]
    if subject.scheme is not None and subject.label == subject.kind:
        words += _telling(subject.scheme)
    return f"{', '.join(words)}: {shows}"


def _telling(scheme: Scheme) -> list[str]:
    """The parameters that axes do not show, as far as a title has room: what is not as usual."""
    words: list[str] = []
    for name, value in _parameters(scheme).items():
        word = _said(name, value)
        if (name in _SHOWN or value != scheme.default_of(name)) and sum(map(len, words)) + len(word) <= _ROOM:
            words += [] if name in _AXES else [word]
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
