"""Tensors before and after an encoding was applied, matched by their names."""

import math
import os
from collections.abc import Mapping
from typing import NamedTuple

from pecli.checks.file_problems import MAX_LISTED
from pecli.checks.verify.named_pairs import find_pair_names
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
        return _make_shape_error(self.label, self.before, self.after)


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
    tensors_before = source.file.read_as(TEXT_DTYPE).tensors
    _require_real(tensors)
    _require_real(tensors_before)
    names_before = _match_names([*tensors], [*tensors_before])
    pairs = []
    for name, array in tensors.items():
        if name not in names_before:
            raise _make_name_error(name, label, source)
        name_before = names_before[name]
        pair = _make_pair(name, _make_label(name, label), tensors_before[name_before], array)
        named_pair = pair._replace(
            source=_name_source(name_before, source),
            is_one_of_several=len(tensors) > 1,
            title=_choose_title(name, label),
        )
        pairs.append(named_pair)
    matched_before = {*names_before.values()}
    return TensorPairs(
        label=label,
        pairs=pairs,
        unmatched=tuple(name for name in tensors_before if name not in matched_before),
        # A rotation adds up to √2 times the error of the tensor before it.
        rounding=file.rounding + math.sqrt(2) * source.file.rounding,
    )


def _match_names(names: list[str], names_before: list[str]) -> Mapping[str, str]:
    """Return, by the names of the tensors after, those of the tensors before; without a partner, none.

    The only tensors of two files belong together, whatever their names are. Otherwise, tensors of
    the same name do; or, if no names are the same, `q_before` and `q_after`.
    """
    if len(names) == len(names_before) == 1:
        return dict(zip(names, names_before, strict=True))
    common = {name: name for name in names if name in names_before}
    return common or _match_by_endings(names, names_before)


def _match_by_endings(names: list[str], names_before: list[str]) -> Mapping[str, str]:
    """Return {"q_after": "q_before"} for names that differ in their endings only."""
    matched = {}
    for pair in find_pair_names([*names_before, *names]).values():
        if pair.before in names_before and pair.after in names:
            matched[pair.after] = pair.before
    return matched


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


def _name_source(name: str, source: Opened) -> str:
    """Return the file that holds a tensor before the rotation, or FILE:NAME; empty for an array."""
    if not source.label or name == ARRAY_NAME:
        return source.label
    return f"{source.label}:{source.file.renamed.get(name, name)}"


def _choose_title(name: str, label: str) -> str:
    """Return the name of a tensor; the name of its file if it has none, and the file states a layer."""
    if name != ARRAY_NAME:
        return name
    return layer_in_stem(os.path.splitext(os.path.basename(label))[0])


def _make_name_error(name: str, label: str, source: Opened) -> FileError:
    """Return the error for a tensor after the rotation that has none of its name before."""
    names_before = listed([*source.file.outlines], MAX_LISTED)
    problem = f"holds {name}, and those before {names_before}"
    advice = "the names must agree; or name one of each: FILE:NAME"
    return FileError(label or "arrays", problem, advice)


def _make_pair(name: str, label: str, before: Array, after: Array) -> TensorPair:
    """Return two tensors that are compared in the dtype of the one after.

    The tensor before is not rounded to that dtype, but only its rotation is. If it has another dtype,
    it becomes float64, which can hold all its numbers.

    Raises:
        ParameterError: If one is a single number, or both are empty.
    """
    _require_channels(label, before, after)
    dtype = dtype_name(after.dtype)
    if dtype not in FLOAT_DTYPES:
        dtype = "float32"  # Integers are compared with rotated numbers.
    exact_before = before if dtype_name(before.dtype) == dtype else widened(before)
    return TensorPair(
        name=name, label=label, dtype=dtype, before=exact_before, after=as_dtype(after, dtype)
    )


def _require_channels(label: str, before: Array, after: Array) -> None:
    """Raise ParameterError if one tensor is a single number, without channels to rotate, or the one after is empty."""
    is_single_number = min(before.ndim, after.ndim) == 0
    if is_single_number:
        raise _make_shape_error(label, before, after)
    if not after.size:
        given = f"of shape {after.shape}"
        raise ParameterError(label, given, "it holds no numbers", "give some to compare")


def _make_shape_error(label: str, before: Array, after: Array) -> ParameterError:
    """Return the error for tensors before and after whose shapes do not belong together."""
    rule = f"before it is of shape {before.shape}"
    advice = "they must be alike, (…, L, D)"
    return ParameterError(label, f"of shape {after.shape}", rule, advice)
