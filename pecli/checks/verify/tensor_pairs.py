"""Tensors before and after an encoding was applied, matched by their names."""

import math
import os
from collections.abc import Mapping
from typing import NamedTuple

from pecli.checks.file_problems import MAX_LISTED
from pecli.checks.verify.named_pairs import find_pair_names, rename_tensors
from pecli.compare.comparison import FLOAT_DTYPES
from pecli.engine.arrays import Array, as_dtype, dtype_name, widened
from pecli.errors import FileError, ParameterError, listed
from pecli.files.load import Given, Opened, opened
from pecli.files.npy import ARRAY_NAME
from pecli.files.tensor_roles import layer_in_stem

TEXT_DTYPE = "float32"  #: the dtype of numbers in text, which states none: that of most ports


class TensorPair(NamedTuple):
    """A tensor before and after, in the dtype in which both are compared.

    Attributes:
        name: Its name in the file after.
        label: What errors call it.
        dtype: The dtype of the comparison.
        before: The tensor before; in float64 if its dtype is another one.
        after: The tensor after.
        source: The file that holds the tensor before, or FILE:NAME; empty for an array.
        is_one_of_several: True if the files hold more pairs.
        title: The name that may state its layer: the tensor's, or the file's if it has none.
    """

    name: str
    label: str
    dtype: str
    before: Array
    after: Array
    source: str = ""
    is_one_of_several: bool = False
    title: str = ""

    @property
    def has_equal_shapes(self) -> bool:
        return self.before.shape == self.after.shape

    def make_shape_error(self) -> ParameterError:
        """Return the error for shapes that do not belong together."""
        rule = f"before it is of shape {self.before.shape}"
        advice = "they must be alike, (…, L, D)"
        return ParameterError(self.label, f"of shape {self.after.shape}", rule, advice)


class TensorPairs(NamedTuple):
    """The tensors that belong together in two files, and the names that are only in the one before."""

    label: str
    pairs: list[TensorPair]
    unmatched: tuple[str, ...]
    rounding: float  #: the largest error that printing the numbers made


def pair_tensors(after: Given, before: Given) -> TensorPairs:
    """Match the tensors of two files: the only ones, those of the same name, or q_before and q_after.

    Raises:
        FileError: If a tensor after has none before.
        ParameterError: If a tensor is complex, or empty.
    """
    label, file = opened(after)
    source = opened(before)
    if file.parts or source.file.parts:
        problem = "has only some elements of its tensors"
        advice = "verify it without --before: it holds them before and after the rotation"
        raise FileError(label, problem, advice)
    tensors = file.read_as(TEXT_DTYPE).tensors
    source = _with_names_of(source, [*tensors])
    tensors_before = _read_before(source, tensors)
    _check_names(tensors, tensors_before, label, source.label)
    is_one_of_several = len(tensors) > 1
    pairs = []
    for name, array in tensors.items():
        pair = _make_pair(name, _make_label(name, label), tensors_before[name], array)
        pair = pair._replace(
            source=_name_source(name, source, is_one_of_several=is_one_of_several),
            is_one_of_several=is_one_of_several,
            title=_choose_title(name, label),
        )
        pairs.append(pair)
    unmatched = tuple(name for name in tensors_before if name not in tensors)
    # A rotation adds up to √2 times the error of the tensor before it.
    rounding = file.rounding + math.sqrt(2) * source.file.rounding
    return TensorPairs(label=label, pairs=pairs, unmatched=unmatched, rounding=rounding)


def _read_before(source: Opened, after: Mapping[str, Array]) -> Mapping[str, Array]:
    """Return the tensors before a rotation; if each file has only one, under the name of that after.

    Raises:
        ParameterError: If a tensor, before or after, is complex.
    """
    before: Mapping[str, Array] = source.file.read_as(TEXT_DTYPE).tensors
    _require_real(after)
    _require_real(before)
    if len(after) == len(before) == 1:
        return dict(zip(after, before.values(), strict=True))
    return before


def _with_names_of(before: Opened, names: list[str]) -> Opened:
    """Return the file before the rotation with the names of the tensors after, if none are the same.

    `q_before` is renamed `q_after` if there is a tensor of that name after the rotation.
    """
    has_common_names = bool(set(names) & set(before.file.tensors))
    if has_common_names:
        return before
    sources = {}
    for pair in find_pair_names([*before.file.outlines, *names]).values():
        if pair.before in before.file.outlines and pair.after in names:
            sources[pair.after] = pair.before
    if len(sources) < len(names):
        return before
    return before._replace(file=rename_tensors(before.file, sources))


def _require_real(tensors: Mapping[str, Array]) -> None:
    """Raise ParameterError for complex queries and keys: in which order channels make pairs is not known."""
    for name, array in tensors.items():
        if array.dtype.kind == "c":
            rule = "queries and keys are real"
            raise ParameterError(name, dtype_name(array.dtype), rule, "give two channels per pair")


def _make_label(name: str, label: str) -> str:
    """Return what errors call a tensor: «q of after.npz», «the array of after.npy»."""
    tensor = "the array" if name == ARRAY_NAME else name
    return f"{tensor} of {label}" if label else tensor


def _name_source(name: str, source: Opened, *, is_one_of_several: bool) -> str:
    """Return the file that holds a tensor before the rotation, or FILE:NAME; empty for an array."""
    if not source.label:
        return ""
    if name in source.file.renamed:
        return f"{source.label}:{source.file.renamed[name]}"
    return f"{source.label}:{name}" if is_one_of_several else source.label


def _choose_title(name: str, label: str) -> str:
    """Return the name of a tensor; the name of its file if it has none, and the file states a layer."""
    if name != ARRAY_NAME:
        return name
    return layer_in_stem(os.path.splitext(os.path.basename(label))[0])


def _check_names(
    tensors: Mapping[str, Array], tensors_before: Mapping[str, Array], label: str, source: str
) -> None:
    """Raise FileError if a tensor has none of its name before."""
    for name in tensors:
        if name not in tensors_before:
            names = listed(list(tensors_before), MAX_LISTED)
            rule = f"holds {name}, and {source or 'those before'} {names}"
            advice = "the names must agree; or name one of each: FILE:NAME"
            raise FileError(label or "arrays", rule, advice)


def _make_pair(name: str, label: str, before: Array, after: Array) -> TensorPair:
    """Return two tensors that are compared in the dtype of the one after.

    The one before stays exact: in its own dtype if that is the same, otherwise in float64.

    Raises:
        ParameterError: If one is a single number, or both are empty.
    """
    dtype = dtype_name(after.dtype)
    if dtype not in FLOAT_DTYPES:
        dtype = "float32"  # Integers are compared with rotated numbers.
    exact = before if dtype_name(before.dtype) == dtype else widened(before)
    pair = TensorPair(
        name=name, label=label, dtype=dtype, before=exact, after=as_dtype(after, dtype)
    )
    if not before.ndim or not after.ndim:  # A single number has no channels to rotate.
        raise pair.make_shape_error()
    if pair.has_equal_shapes and after.ndim >= 2 and not after.size:
        given = f"of shape {after.shape}"
        raise ParameterError(label, given, "it holds no numbers", "give some to compare")
    return pair
