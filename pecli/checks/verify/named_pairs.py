"""Queries and keys before and after a rotation in one file, recognised by their names."""

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from pecli.engine.arrays import Array
from pecli.files.contents import LoadedFile, PrintedPart

_BEFORE = re.compile(
    r"(?:[._-]|^)(?:before|pre|in)(?:[._-]?(?:rope|rotary|rotation))?$", re.IGNORECASE
)
"""The end of the name of a tensor before the rotation: `q_before`, `q_pre_rope`, `q.in`."""
_AFTER = re.compile(
    r"(?:[._-]|^)(?:(?:after|post|out)(?:[._-]?(?:rope|rotary|rotation))?|rope|roped|rot|rotated|embed)$",
    re.IGNORECASE,
)
"""The end of the name of a tensor after it: `q_after`, `q_post_rope`, `q.out`, `q_rope`; Hugging Face's code
has `q_embed`."""
_QUERY_OR_KEY = re.compile(
    r"(?:^|[^a-z])x?[qk](?:cur|uery|ueries|eys?|_?pe|s)?(?:[^a-z]|$)", re.IGNORECASE
)
"""A name of queries or keys. Other tensors have such endings as well: `mlp.in` and `mlp.out`."""


class PairNames(NamedTuple):
    """The names of a tensor before and after a rotation."""

    before: str
    after: str


class RotatedFile(NamedTuple):
    """A file that holds tensors before and after a rotation.

    Attributes:
        before: The tensors before it, by the name that both have in common.
        after: The tensors after it, by the same names.
        others: Tensors of the file that belong to no pair.
    """

    before: LoadedFile
    after: LoadedFile
    others: LoadedFile


def split_by_names(file: LoadedFile) -> RotatedFile | None:
    """Return a file's tensors before and after a rotation; None if no names belong together.

    q_before, q_after and cos become `before={"q": …}`, `after={"q": …}` and `others={"cos": …}`.
    """
    pairs = find_pair_names([*file.outlines])
    if not pairs:
        return None
    paired = set(chain(*pairs.values()))
    others = {name: name for name in file.outlines if name not in paired}
    return RotatedFile(
        before=_rename_tensors(file, {stem: names.before for stem, names in pairs.items()}),
        after=_rename_tensors(file, {stem: names.after for stem, names in pairs.items()}),
        others=_rename_tensors(file, others),
    )


def _rename_tensors(file: LoadedFile, sources: Mapping[str, str]) -> LoadedFile:
    """Return some tensors of a file under other names; `sources` has their names in the file."""
    tensors: dict[str, Array] = {}
    parts: dict[str, PrintedPart] = {}
    for name, source in sources.items():
        tensors[name] = file.tensors[source]
        if source in file.parts:
            parts[name] = file.parts[source]
    return replace(file, tensors=tensors, renamed=sources, parts=parts, unread=())


def find_pair_names(names: list[str]) -> dict[str, PairNames]:
    """Return the names of tensors before and after a rotation, by the stem that both have in common.

    >>> find_pair_names(["layers.0.q_pre", "layers.0.q_post", "k", "k_rope", "cos"])
    {'layers.0.q': PairNames(before='layers.0.q_pre', after='layers.0.q_post'), 'k': PairNames(before='k', after='k_rope')}
    """
    stated_before, stated_after, without_ending = _sort_by_ending(names)
    # A name without an ending is the other side: `q` and `q_rope`, `q_before` and `q`.
    names_before = {**without_ending, **stated_before}
    names_after = {**without_ending, **stated_after}
    stems_of_both_sides = names_before.keys() & names_after.keys()
    pairs = {}
    # At least one name of a pair has an ending that states its side.
    for stem in (*stated_before, *stated_after):
        if stem in stems_of_both_sides and _may_be_query(stem):
            pair = PairNames(names_before[stem], names_after[stem])
            # Of tensors that are named only `before` and `after`, nothing is left as a stem.
            label = stem or pair.after
            pairs[label] = pair
    return pairs


class _NamesByEnding(NamedTuple):
    """Names by their stems, which are what is left without an ending: {"q": "q_before"}.

    Attributes:
        before: The names whose ending states that they are before a rotation.
        after: Those whose ending states that they are after it.
        without_ending: The others, which are their own stems.
    """

    before: dict[str, str]
    after: dict[str, str]
    without_ending: dict[str, str]


def _sort_by_ending(names: list[str]) -> _NamesByEnding:
    """Return names by their endings and stems; the first of several names with the same stem counts.

    A name with both endings, `q_rope_in`, is that of a tensor before.
    """
    sorted_names = _NamesByEnding({}, {}, {})
    for name in names:
        if _BEFORE.search(name):
            sorted_names.before.setdefault(_BEFORE.sub("", name), name)
        elif _AFTER.search(name):
            sorted_names.after.setdefault(_AFTER.sub("", name), name)
        else:
            sorted_names.without_ending[name] = name
    return sorted_names


def _may_be_query(stem: str) -> bool:
    """Return True for names of queries or keys; a file of `before` and `after` alone has no names."""
    return not stem or _QUERY_OR_KEY.search(stem) is not None
