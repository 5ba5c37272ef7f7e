"""An unknown table, or a file of them: what made it, or what can be said of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.identify import alibi, describe, learned, rotary
from pecli.checks.identify.beginning import Beginning, beginning, is_wide
from pecli.checks.identify.groups import Group, groups
from pecli.checks.identify.lines import tables_of
from pecli.checks.identify.match import Match
from pecli.checks.identify.slips import undone
from pecli.checks.identify.tail import confirmed
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.files.in_memory import opened

if TYPE_CHECKING:
    from pecli.files.in_memory import Given

_FEWER = (256, 64)
"""Rows that are looked at, where more have no explanation."""


@dataclass(frozen=True)
class Identification:
    """What was found: explanations, the best first, and sentences about what has none."""

    file: str
    matches: tuple[Match, ...]
    description: tuple[str, ...] = ()

    @property
    def identified(self) -> bool:
        return bool(self.matches)

    def as_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "identified": self.identified,
            "matches": [match.as_json() for match in self.matches],
            "description": list(self.description),
        }


def identify(source: Given) -> Identification:
    """Say which scheme makes a table: that of a file (or FILE:NAME), an array, or arrays by name.

    >>> import pecli
    >>> identify(pecli.Alibi(heads=12).tables()).matches[0].command
    'pecli alibi --heads 12 --slopes -o again.npy'
    """
    path, file = opened(source)
    with file:
        file.check(table for group in groups(file.tables) for table in group.all_tables)
        for table in tables_of(file.tables[0]) if file.format == "csv" else ():
            found = identify_tables(path, [table])
            if found.identified:
                return found
        return identify_tables(path, file.tables)


def identify_tables(file: str, tables: Sequence[Table]) -> Identification:
    """The same for tables of an open file, under the name that it was asked for by."""
    chosen = groups(tables)
    if not chosen:
        none = "it holds no tensor" if not tables else ""
        many = f"it holds {len(tables)} tensors, and no name speaks of positions: name one, as {file or 'FILE'}:NAME"
        return Identification(file, (), (none or many,))
    matches: list[Match] = []
    description: list[str] = []
    for group in chosen:
        with np.errstate(all="ignore"):  # any numbers at all may be in a file
            try:
                found, words = _explain(group)
            except (ParameterError, OverflowError):  # a guess that no scheme can have: none of the user's making
                found, words = [], [line for table in group.all_tables for line in describe.describe(beginning(table))]
        matches += found
        description += words
    return Identification(file, tuple(_merged(matches)), tuple(description))


def _explain(group: Group, thoroughly: bool = True) -> tuple[list[Match], list[str]]:
    """The matches of a group of tensors, best first; without any, what it is like."""
    whole = [beginning(table) for table in group.tables]
    frequencies = None if group.inv_freq is None else beginning(group.inv_freq)
    if thoroughly and (found := _once_undone(whole)):
        return found, []
    doubts: list[str] = []
    wide = [[beginning(table, wide=True) for table in group.tables]] if all(map(is_wide, group.tables)) else []
    for samples in chain(wide, _ever_shorter(whole) if thoroughly else [whole]):
        found = _explain_one(samples[0]) if len(samples) == 1 else rotary.recognise(samples, frequencies)
        kept = []
        for match in found:
            confirmation, doubt = confirmed(match, group.tables) if not _all_whole(samples) else (match, "")
            kept += [confirmation] if confirmation else []
            doubts += [f"{group.names}: {doubt}"] if doubt else []
        if kept:
            return kept, []
    return _without_match(group, whole, doubts[:1])


def _once_undone(samples: list[Beginning]) -> list[Match]:
    """Waves that something is turned round in, or that are kept as whole numbers; what that is goes to the form."""
    slip = undone(samples)
    if slip is None:
        return []
    return [
        replace(match, form=", ".join(filter(None, [match.form, slip.words])))
        for match in map(slip.told, rotary.recognise(slip.samples))
    ]


def _ever_shorter(samples: list[Beginning]) -> Iterator[list[Beginning]]:
    """The samples; then fewer rows of what may be waves: the float32 angles of other programs are near only there."""
    yield samples
    if all(_may_be_waves(one) for one in samples):
        for rows in _FEWER:
            shorter = [one.first(rows) for one in samples]
            if shorter[0] is not samples[0]:
                yield shorter


def _may_be_waves(one: Beginning) -> bool:
    """Numbers on both sides of zero, of even size, whose neighbours down the rows are alike somewhere."""
    array = one.array
    if array.ndim < 2 or array.size < 2 * array.shape[-1] or not array.size or not np.isfinite(array).all():
        return False
    rows = np.abs(np.diff(array.reshape(-1, array.shape[-1])[:256], axis=0))
    return bool(np.median(rows.mean(axis=0)) < 0.75 * np.abs(array).mean())


def _all_whole(samples: Sequence[Beginning]) -> bool:
    return all(one.whole for one in samples)


def _without_match(group: Group, samples: list[Beginning], words: list[str]) -> tuple[list[Match], list[str]]:
    if len(samples) > 1:  # what is no pair may still be something alone
        alone = [_explain(Group((table,)), False) for table in group.all_tables]
        return [match for matches, _ in alone for match in matches], [line for _, lines in alone for line in lines]
    return [], words + alibi.describe(samples[0]) + describe.describe(samples[0])


def _explain_one(one: Beginning) -> list[Match]:
    """Slopes come before frequencies that would do as well; draws are tried last, since that takes longest."""
    biases, waves = alibi.recognise(one), rotary.recognise([one])
    if biases:
        return biases + [match for match in waves if match.max_abs_error <= biases[0].max_abs_error]
    return waves or learned.recognise(one)


def _merged(matches: list[Match]) -> list[Match]:
    """Matches with one scheme made into one, of all their tensors; slopes belong to the bias that has them."""
    merged: list[Match] = []
    for match in matches:
        for k, other in enumerate(merged):
            if match.scheme == other.scheme and match.form == other.form:
                errors = max(match.max_abs_error, other.max_abs_error)
                merged[k] = replace(other, tensors=(*other.tensors, *match.tensors), max_abs_error=errors)
                break
        else:
            merged.append(match)
    return alibi.with_slopes(merged)
