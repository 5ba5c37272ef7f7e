"""Tensors before and after an encoding was applied, matched by their names."""

import math
import os
from collections.abc import Mapping
from typing import NamedTuple

from pecli.engine.arrays import FLOAT8, SIGNIFICAND_BITS, Array, as_dtype, dtype_name, widened
from pecli.errors import FileError, ParameterError, listed
from pecli.files.load import Given, opened
from pecli.files.npy import ARRAY_NAME
from pecli.files.tensor_roles import layer_in_stem

MAX_LISTED = 8  #: tensors that an error names
TEXT_DTYPE = "float32"  #: the dtype of numbers in text, which states none: that of most ports


class TensorPair(NamedTuple):
    """A tensor before and after, in the dtype in which both are compared."""

    name: str
    label: str  #: what errors call it
    dtype: str
    before: Array
    after: Array
    source: str  #: the file that holds the tensor before, or FILE:NAME; empty for an array
    is_one_of_several: bool
    title: str = (
        ""  #: the name that may state its layer: the tensor's, or the file's if it has none
    )

    @property
    def has_equal_shapes(self) -> bool:
        return self.before.shape == self.after.shape

    def unlike_shapes(self) -> ParameterError:
        """Return the error for shapes that do not belong together."""
        rule = f"before it is of shape {self.before.shape}"
        advice = "they must be alike, (…, L, D)"
        return ParameterError(self.label, f"of shape {self.after.shape}", rule, advice)


class TensorPairs(NamedTuple):
    """The tensors that belong together in two files, and the names that are only in the one before."""

    label: str
    pairs: list[TensorPair]
    unmatched: tuple[str, ...]
    rounding: float = 0.0  #: the largest error that printing the numbers made


def tensor_pairs(after: Given, before: Given) -> TensorPairs:
    """Match tensors: the only ones of both files, or those of the same name.

    Raises:
        FileError: If a tensor after has none before.
        ParameterError: If a tensor is complex, or empty.
    """
    label, file = opened(after)
    source, source_file = opened(before)
    if file.parts or source_file.parts:
        problem = "has only some elements of its tensors"
        advice = "verify it without --before: it holds them before and after the rotation"
        raise FileError(label, problem, advice)
    tensors = file.read_as(TEXT_DTYPE).tensors
    known = dict(source_file.read_as(TEXT_DTYPE).tensors)
    # A rotation adds up to √2 times the error of the tensor before it.
    rounding = file.rounding + math.sqrt(2) * source_file.rounding
    for name, array in (*tensors.items(), *known.items()):
        if array.dtype.kind == "c":
            rule = "queries and keys are real"
            raise ParameterError(name, dtype_name(array.dtype), rule, "give two channels per pair")
    if len(tensors) == len(known) == 1:
        known = dict(zip(tensors, known.values(), strict=True))
    _check_names(tensors, known, label, source)
    pairs = []
    for name, array in tensors.items():
        called = "the array" if name == ARRAY_NAME else name
        if label:
            called = f"{called} of {label}"
        path = source
        if source and name in source_file.renamed:
            path = f"{source}:{source_file.renamed[name]}"
        elif source and len(tensors) > 1:
            path = f"{source}:{name}"
        pair = _pair(name, called, known[name], array, path, len(tensors) > 1)
        pairs.append(pair._replace(title=_title(name, label)))
    unmatched = tuple(name for name in known if name not in tensors)
    return TensorPairs(label, pairs, unmatched, rounding)


def _title(name: str, label: str) -> str:
    """Return the name of a tensor; the name of its file if it has none, and the file states a layer."""
    if name != ARRAY_NAME:
        return name
    return layer_in_stem(os.path.splitext(os.path.basename(label))[0])


def _check_names(
    tensors: Mapping[str, Array], known: Mapping[str, Array], label: str, source: str
) -> None:
    for name in tensors:
        if name not in known:
            names = listed(list(known), MAX_LISTED)
            rule = f"holds {name}, and {source or 'those before'} {names}"
            advice = "the names must agree; or name one of each: FILE:NAME"
            raise FileError(label or "arrays", rule, advice)


def _pair(
    name: str, label: str, before: Array, after: Array, source: str, is_one_of_several: bool
) -> TensorPair:
    dtype = dtype_name(after.dtype)
    if dtype not in SIGNIFICAND_BITS and dtype not in FLOAT8:
        dtype = "float32"
    exact = before if dtype_name(before.dtype) == dtype else widened(before)
    pair = TensorPair(name, label, dtype, exact, as_dtype(after, dtype), source, is_one_of_several)
    if pair.has_equal_shapes and after.ndim >= 2 and not after.size:
        given = f"of shape {after.shape}"
        raise ParameterError(label, given, "it holds no numbers", "give some to compare")
    return pair
