"""One tensor of queries or keys, compared with the rotation that an encoding requires."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from pecli.checks.doubts import (
    Doubt,
    LayersNotNamed,
    LikelyPadding,
    MayLackRope,
    MissingRotation,
    StrangePadding,
    UndetectedRotation,
)
from pecli.checks.verify.head_tensors import HeadTensor
from pecli.checks.verify.rotation_advice import ModelOptions, WrongRotation
from pecli.checks.verify.rotation_job import LLAMA_CPP, RotationJob, has_permuted_weights
from pecli.compare.comparison import (
    Comparison,
    Ranges,
    are_far_apart,
    compare_arrays,
    compare_parts,
    ranges,
)
from pecli.compare.factors import Index
from pecli.compare.problems import CopiesDiffer, NotFinite, PaddingNotFinite, Problem
from pecli.engine.application import LAYOUTS, PairLayouts
from pecli.engine.arrays import AnyArray, Array, Flags, Floats, as_dtype, widened
from pecli.engine.edits import (
    ColumnsWrong,
    Edit,
    ElementsWrong,
    HeadsWrong,
    Layout,
    Parameter,
    Positions,
    Rotation,
)
from pecli.errors import counted
from pecli.explain.element_places import ElementPlaces
from pecli.explain.explanation import Explanation
from pecli.explain.rotated_computation import HeadRotation
from pecli.explain.rotated_tensors import RotatedTensor, explain_rotated, undetected_mistakes
from pecli.files.tensor_roles import layer_number
from pecli.models.encoding import Encoding
from pecli.tensors.inputs import SEQ_AXIS, Input
from pecli.tensors.row_positions import (
    RowPositions,
    TensorPositions,
    count_of_tokens,
    note_on_padding,
)
from pecli.tensors.row_rotation import RowRotation

_Numbering = tuple[
    type[ElementsWrong] | type[HeadsWrong] | type[ColumnsWrong],
    Callable[[int | Index], Iterable[int | Index]],
]
"""A kind of edits, and the function that returns the places in a file of one of their places."""
KEYS = re.compile(r"(?<![a-z])k", re.IGNORECASE)  #: the name of keys: `k_3`, not `blk.3.q`


class _RotationMisfit(NamedTuple):
    """The degree to which a rotation misfits a tensor: the smaller of two fits better (`min`).

    Attributes:
        mistakes: The largest number of mistakes in a reason for the difference; infinity if none
            was found. One mistake is more likely than two.
        largest_error: The largest absolute error.
    """

    mistakes: float
    largest_error: float


@dataclass(eq=False)
class RotatedCheck:
    """A tensor compared with the rotation that one of a model's encodings requires.

    Attributes:
        tensor: The tensor before and after.
        encoding: The encoding.
        job: The model, the positions of tokens and the settings.
        rivals: The checks of the tensor with all layer types that it may belong to, this one
            included; empty unless this one passed.
    """

    tensor: HeadTensor
    encoding: Encoding
    job: RotationJob
    rivals: Sequence["RotatedCheck"] = ()

    @property
    def name(self) -> str:
        return self.tensor.pair.name

    @cached_property
    def before(self) -> Array:
        """The tensor before, (…, L, D)."""
        return np.moveaxis(self.tensor.before, self.tensor.axis, SEQ_AXIS)

    @cached_property
    def after(self) -> AnyArray:
        """The tensor after, (…, L, D)."""
        return np.moveaxis(self.tensor.after, self.tensor.axis, SEQ_AXIS)

    @cached_property
    def rows(self) -> RowPositions:
        """The positions of the rows, as options state them."""
        return self.job.tokens.rows(self.job.settings.offset)

    @cached_property
    def rotation(self) -> RowRotation:
        """The rotation that the encoding requires of this tensor, with its positions and pairs.

        Raises:
            ParameterError: If the tensor has no axis of positions such as the user states.
        """
        settings = self.job.settings
        after = Input(self.tensor.after, self.tensor.pair.label)
        after.checked_sequence_shape(self.tensor.axis)
        return self.job.make_rotation(
            after,
            self.encoding,
            self.rows,
            seq_axis=self.tensor.axis,
            layout=self._stated_layout,
            offset=settings.first_position,
        )

    @property
    def _stated_layout(self) -> str:
        """The layout of pairs that the user or the runtime states; empty for the model's own.

        In halves, channels 0 and 64 of 128 are a pair. Interleaved, channels 0 and 1 are.
        """
        if self._note_on_interleaving:  # It is there if the runtime interleaves.
            return "interleaved"
        return self.job.settings.layout

    @property
    def _note_on_interleaving(self) -> str:
        """The reason for which a runtime rotates channels (0, 1), whatever the model's own pairs are.

        It is empty if the runtime rotates the model's pairs, such as (0, 64), or the user states them.
        llama.cpp's converter permutes the weights of Llama; mlx-lm reads a key that others ignore.
        """
        settings = self.job.settings
        permutes = has_permuted_weights(self.encoding)
        is_traditional = self.encoding.rope_traditional
        conditions = {
            LLAMA_CPP: (permutes, "interleaved, as llama.cpp permutes the weights"),
            "mlx-lm": (is_traditional, "interleaved, as mlx-lm reads rope_traditional"),
        }
        interleaves, reason = conditions.get(settings.runtime, (False, ""))
        return reason if interleaves and not settings.layout else ""

    @cached_property
    def positions(self) -> TensorPositions:
        """The positions by whose angles rows rotate, (axes, sequences, L), and the rows that are tokens.

        The positions are (1, 1, L) unless they have several axes (M-RoPE), or differ between
        sequences. If the user states that keys of a cache were shifted by 8 positions, each of them
        was rotated by the angle of position 8, whatever its own position is.
        """
        after = Input(self.tensor.after, self.tensor.pair.label)
        places = self.rotation.rope.positions
        if places is not None:  # They are those of an image, (axes, L), the same for all sequences.
            ids = np.array(places.axes)[:, None]
            return TensorPositions(ids, is_token=np.ones(ids.shape[1:], bool))
        axes = self.rotation.rope.position_axes
        positions = self.rows.positions_of(after, self.tensor.axis, axes)
        shift = self.job.tokens.shift
        if shift is None:
            return positions
        return positions._replace(ids=np.full_like(positions.ids, shift))

    @property
    def is_token(self) -> Flags:
        """False for rows of padding, (sequences, L)."""
        return self.positions.is_token

    @cached_property
    def plan(self) -> HeadRotation:
        """The required rotation, in the form that a search for reasons takes.

        If the user states a shift, it is the second rotation of keys that a cache holds rotated.
        """
        required = HeadRotation(
            rope=self.rotation.rope,
            layouts=LAYOUTS[self.rotation.layout],
            trailing=self.encoding.trailing,
            axis=self.tensor.axis,
        )
        is_shift = self.job.tokens.shift is not None
        return _as_second_rotation(required) if is_shift else required

    @cached_property
    def result(self) -> Comparison:
        """The comparison of the tensor after with the rotation of the tensor before."""
        expected = self._make_expected()
        self._copy_padding_into(expected)
        stored_expected = as_dtype(expected, self.tensor.pair.dtype)
        part = self.tensor.part(stored_expected)
        comparison = compare_parts([part], self.job.tolerance, name=self.name)
        return replace(
            comparison,
            finding=self._find_problem(comparison),
            where=self._where_in_file(comparison.where, stored_expected),
            size=count_of_tokens(comparison.size, self.is_token),
        )

    def _where_in_file(self, where: Mapping[str, Ranges], expected: Array) -> Mapping[str, Ranges]:
        """Return where wrong elements are by the numbers that heads and columns have in the file.

        If a file repeats 8 heads four times, head 1 of 8 is four of its 32 heads, of which some may be
        right. If it has all heads of 64 channels in a row, channel 5 of head 1 is column 69.

        Args:
            where: The rows, heads and channels of the tensor before that are wrong.
            expected: The tensor as it should be after the rotation.
        """
        tensor = self.tensor
        if "heads" not in where or not (tensor.has_repeated_heads or tensor.has_folded_heads):
            return where
        wrong_heads: list[int] = []
        for head in _numbers_in(where["heads"]):
            wanted = tensor.at_head(expected, head)
            copies = tensor.copies_of_head(head)
            for number, found in zip(tensor.find_head(head), copies, strict=True):
                if not self._compare(wanted, found).passed:
                    wrong_heads.append(number)
        places = {**where, "heads": ranges(np.unique(wrong_heads))}
        if tensor.has_folded_heads:
            width = tensor.before.shape[-1]
            channels = np.array(_numbers_in(where["columns"])) % width
            columns = np.add.outer(np.array(wrong_heads) * width, channels)
            places["columns"] = ranges(np.unique(columns))
        return places

    def _find_problem(self, comparison: Comparison) -> Problem | None:
        """Return what is wrong with the tensor beside single values; None if nothing is.

        Infinities or NaN before the rotation come first: nothing can be expected of their rotation.
        """
        not_finite = self.searched_tensor.count_not_finite_before()
        if not_finite:
            return NotFinite(not_finite, "of its values before")
        # NaN in padding reaches tokens by way of attention: 0 · NaN is NaN, so that a mask does not
        # keep it out.
        spoilt = self.searched_tensor.count_spoilt_padding()
        if spoilt and not comparison.mismatched:
            return PaddingNotFinite(spoilt)
        if comparison.mismatched and not self._has_equal_copies():
            return CopiesDiffer()
        return comparison.finding

    def _copy_padding_into(self, expected: Array) -> None:
        """Overwrite the expected rows of padding with those that were found.

        Padding has no right position, so that its rows must not count as wrong.
        """
        if (
            self.is_token.all()
        ):  # Copying nothing would take as long as copying all of a large tensor.
            return
        is_padding = np.broadcast_to(self._spread_along_rows(~self.is_token), expected.shape)
        expected[is_padding] = self.tensor.after[is_padding]

    def _spread_along_rows(self, values: AnyArray) -> AnyArray:
        """Return a value per row, (batch, L) or (1, L), in a shape that broadcasts with the tensor.

        For a tensor (batch, heads, L, D), it is (batch, 1, L, 1).
        """
        sequences, rows = values.shape
        shape = [1] * self.tensor.before.ndim
        shape[0] = sequences
        shape[self.tensor.axis] = rows  # It may be axis 0, if there is one sequence.
        return values.reshape(shape)

    def _make_expected(self) -> Array:
        """Return the tensor as it should be after the rotation."""
        return self.rotation.apply(Input(self.tensor.before, self.tensor.pair.label))

    def _has_equal_copies(self) -> bool:
        """Return True if the key heads that were repeated for several query heads are equal."""
        values = self.tensor.view.values
        if not self.tensor.has_repeated_heads:
            return True
        return bool(np.isclose(widened(values), widened(self.tensor.after), equal_nan=True).all())

    @property
    def has_positions_per_sequence(self) -> bool:
        """True if the sequences of a batch have positions, or padding, of their own."""
        return len(self.is_token) > 1

    @property
    def note(self) -> str:
        """The assumptions about the tensor, in words: its layers, its axes, the layout of its pairs."""
        layer_type = self.encoding.layer_type
        notes = (
            f"of {layer_type} layers" if layer_type else "",
            self.tensor.note,
            self._note_on_interleaving,
            self._note_on_position_axis,
            note_on_padding(self.is_token),
        )
        return ", ".join(filter(None, notes))

    @property
    def _note_on_position_axis(self) -> str:
        """The axis of positions, «positions along axis 1»; empty if it is the usual one, or was unfolded."""
        if self.tensor.axis == SEQ_AXIS or self.tensor.is_unfolded:
            return ""
        return f"positions along axis {self.tensor.axis + self.tensor.before.ndim}"

    @cached_property
    def reasons(self) -> list[Explanation]:
        """The reasons for which the tensor fails: other positions, or another rotation.

        None are searched for if copies of a head differ, which is a mistake of the dump itself.
        """
        if self.result.passed or not self.job.reasons:
            return []
        if isinstance(self.result.finding, CopiesDiffer):
            return []
        reasons = explain_rotated(self.searched_tensor, self.job.tolerance.atol)
        return [self._as_in_file(reason) for reason in reasons]

    def _as_in_file(self, reason: Explanation) -> Explanation:
        """Return a reason with the name of the tensor, and the places that are wrong in the file.

        The search numbers them as if the file had the axes (…, heads, positions, channels). Columns of
        a reason that is about some heads only stay as they are: «head 2: only column 5 differs».
        """
        numberings: list[_Numbering] = [
            (ElementsWrong, self._find_element_in_file),
            (HeadsWrong, self._find_head_in_file),
        ]
        heads = _list_heads_named(reason)
        if not heads:
            numberings.append((ColumnsWrong, self._find_columns_in_file))
        in_file = reason.with_each(partial(_renumber, numberings))
        return (
            in_file.renamed((self.name, *heads)) if self.tensor.pair.is_one_of_several else in_file
        )

    def _find_element_in_file(self, element: int | Index) -> Iterable[int | Index]:
        """Return the indices of an element in the file; one of a vector has a number, and keeps it."""
        return [element] if isinstance(element, int) else self.tensor.find_element(element)

    def _find_head_in_file(self, head: int | Index) -> Iterator[int | Index]:
        """Yield the numbers of a head in the file: 3 for head 3, or (1, 3) if it is of sequence 1."""
        *sequence, number = np.atleast_1d(head).tolist()
        for number_in_file in self.tensor.find_head(number):
            yield (*sequence, number_in_file) if sequence else number_in_file

    def _find_columns_in_file(self, channel: int | Index) -> Iterable[int | Index]:
        """Return the columns of the file that hold a channel."""
        assert isinstance(channel, int)
        return self.tensor.find_channel(channel)

    @cached_property
    def searched_tensor(self) -> RotatedTensor:
        """The tensor and its required rotation, in the form that a search for mistakes takes.

        The search looks for them in each sequence and each head, so that the tensor has the axes
        (sequences, heads, rows, channels): (8, 12, 64) of one sequence becomes (1, 8, 12, 64).
        """
        *shape_of_heads, rows, channels = self.after.shape
        heads = math.prod(shape_of_heads) // self._sequence_count
        shape = (self._sequence_count, heads, rows, channels)
        return RotatedTensor(
            before=self.before.reshape(shape),
            after=self.after.reshape(shape),
            plan=self.plan,
            positions=self.positions.ids,
            is_token=self.is_token,
            are_stated=self.job.tokens.are_stated,  # by the user, who may be wrong
            dtype=self.tensor.pair.dtype,
            places=ElementPlaces.of_whole(tuple(shape_of_heads), rows),
            is_shifted=self.job.tokens.shift is not None,
        )

    @property
    def _sequence_count(self) -> int:
        """The number of sequences: 2 of (2, heads, L, D), 1 of (heads, L, D) or (L, D).

        If positions are given for each sequence, (2, L, D) are two sequences of one head.
        """
        has_axis_of_sequences = self.after.ndim > 3 or self.has_positions_per_sequence
        return len(self.after) if has_axis_of_sequences else 1

    def misfit(self) -> "_RotationMisfit":
        """Return how badly the rotation of this encoding fits a wrong tensor."""
        counts = [len(reason.mistakes) for reason in self.reasons]
        most_mistakes = max(counts, default=math.inf)
        return _RotationMisfit(mistakes=most_mistakes, largest_error=self.result.largest_error)

    @property
    def wrong_rotation(self) -> WrongRotation:
        """The tensor and its expected rotation, for advice on the reasons."""
        model = ModelOptions(self.job.encodings.file, self.encoding.layer_type)
        return WrongRotation(
            tensor=self.tensor, plan=self.plan, layout=self.rotation.layout, model=model
        )

    def find_other_doubts(self) -> Iterator[Doubt]:
        """Yield why a pass proves little: strange padding, or a name that does not state the layer.

        If Gemma 3's q passes for sliding layers only, it may still be of a full layer, and wrong.
        """
        if self.searched_tensor.has_strange_padding():
            yield StrangePadding(self.name)
        if any(not rival.result.passed for rival in self.rivals):
            yield LayersNotNamed(self.name, self.encoding.layer_type)
        if self._may_be_of_nope_layer and self.job.layer_type is None:
            yield MayLackRope(self.name)

    @property
    def _may_be_of_nope_layer(self) -> bool:
        """True if some layers of the model have no rope, and no name states the layer of the tensor."""
        is_layer_named = layer_number(self.tensor.pair.title) is not None
        return self.job.encodings.has_unrotated_layers and not is_layer_named

    def advise_on_layer(self) -> Iterator[str]:
        """Yield a hint if an unrotated tensor would be right in a layer without rope, which is not named."""
        if not self._may_be_of_nope_layer:
            return
        if self._compare(self.tensor.before, self.tensor.after).passed:
            advice = "if it belongs to one, name the layer: layers.3.q"
            yield f"{self.name}: right for a layer without rope; {advice}"

    def find_weaknesses(self) -> Iterator[Doubt]:
        """Yield why a pass proves little: padding that is not stated, or mistakes that would pass as well."""
        is_shift_by_0 = self.job.tokens.shift == 0
        if is_shift_by_0:
            return  # It rotates nothing, so that a missing rotation is right.
        if not self.job.tokens.are_stated:
            yield from self._find_unstated_padding()
        yield from self._find_undetected_mistakes()

    def _find_undetected_mistakes(self) -> Iterator[Doubt]:
        """Yield a doubt for each known mistake with which the tensor would have passed as well.

        One row at position 0 passes without any rotation, for example: cos 0 is 1, and sin 0 is 0. Then
        no mistake shows in it, and this is the only doubt.
        """
        missing_rotation = (Rotation("none"),)
        for mistake in undetected_mistakes(self.searched_tensor, self._passes):
            if mistake == missing_rotation:
                yield MissingRotation(self._rows_in_words)
                return
            yield UndetectedRotation(self._rows_in_words, mistake)

    @property
    def _rows_in_words(self) -> str:
        """The rows of the tensor for a sentence: «2 rows», or «q: 2 rows» if it is one of several tensors."""
        rows = counted(self.after.shape[-2], "row")
        if not self.tensor.pair.is_one_of_several:
            return rows
        return f"{self.name}: {rows}"

    def _passes(self, expected: Array, found: Array) -> bool:
        """Return True if a tensor `found` would have passed as one that should be `expected`.

        A known mistake whose tensor passes is one that the data does not show. Both arrays are in
        float64; files would have them in the dtype of the tensor.
        """
        stored_expected = as_dtype(expected, self.tensor.pair.dtype)
        stored_found = as_dtype(found, self.tensor.pair.dtype)
        if self._are_obviously_different(stored_expected, stored_found):
            return False
        return self._compare(stored_expected, stored_found).passed

    def _are_obviously_different(self, expected: Array, found: Array) -> bool:
        """Return True if a quick test shows that a comparison would fail, as for most mistakes.

        The test takes a ULP for that of bfloat16, which is the largest of all dtypes except float8.
        So it shows nothing if the tolerance allows ULPs.
        """
        if self.job.tolerance.max_ulp > 0:
            return False
        tolerance = self.job.tolerance.for_tensor(self.name)
        return are_far_apart(widened(expected), widened(found), tolerance)

    def _compare(self, expected: Array, found: Array) -> Comparison:
        rounded = as_dtype(expected, self.tensor.pair.dtype)
        return compare_arrays(rounded, found, self.job.tolerance, name=self.name)

    def _find_unstated_padding(self) -> Iterator[Doubt]:
        """Yield a doubt for each sequence that begins with equal rows, as left padding does.

        The same token gives the same query before the rotation. If no mask is given, rows of
        padding were counted as positions 0, 1, …, which is most likely wrong.
        """
        row_count = self.after.shape[-2]
        has_batch_axis = self.before.ndim > 3
        for number, before in enumerate(self.searched_tensor.before):  # (heads, L, D)
            equal_rows = _count_rows_like_first(before)
            if 1 < equal_rows < row_count:
                yield LikelyPadding(equal_rows, sequence=number if has_batch_axis else None)


@dataclass(eq=False)
class UnrotatedCheck(RotatedCheck):
    """A tensor of a layer without rope (NoPE), which should be as it was before."""

    def _make_expected(self) -> Array:
        before = self.tensor.before.copy()
        if not self._compare(before, self.tensor.after).passed and self._has_temperature():
            return np.multiply(widened(before), self._make_temperatures())
        return before

    def _has_temperature(self) -> bool:
        """Return True if these may be queries that Llama 4 multiplies in its layers without rope."""
        tuned = self.encoding.unrotated
        return tuned.attn_scale is not None and not KEYS.search(self.name)

    def _make_temperatures(self) -> Floats:
        """Return the factors of queries by position, in a shape that multiplies the tensor.

        Llama 4 multiplies the queries of its layers without rope by 1 + 0.1 · ln(1 + ⌊(p + 1) /
        8192⌋) at position p: 1 up to position 8190, then 1.069 up to 16382.
        """
        tuned = self.encoding.unrotated
        assert tuned.attn_scale is not None
        assert tuned.floor_scale is not None
        steps = np.floor((self.positions.ids[0] + 1.0) / tuned.floor_scale)
        return self._spread_along_rows(1 + tuned.attn_scale * np.log1p(steps))

    @property
    def note(self) -> str:
        return ", ".join(filter(None, ("of a layer without rope", super().note)))

    @cached_property
    def reasons(self) -> list[Explanation]:
        return []

    def find_other_doubts(self) -> Iterator[Doubt]:
        return iter(())

    def advise_on_layer(self) -> Iterator[str]:
        rotated = RotatedCheck(tensor=self.tensor, encoding=self.encoding, job=self.job)
        if rotated.result.passed or _are_rotations(rotated.reasons):
            yield f"{self.name}: the model has no rope in this layer, but it is rotated"

    def find_weaknesses(self) -> Iterator[Doubt]:
        return iter(())


def _as_second_rotation(first: HeadRotation) -> HeadRotation:
    """Return the rotation by which a runtime shifts keys of a cache, which were rotated once before.

    The first rotation has applied the attention factor. It has also left channels in its own
    layout: DeepSeek's takes interleaved channels and leaves halves, so that a shift takes halves and
    leaves halves.
    """
    rope = first.rope
    if rope.attention_factor_value() != 1:
        rope = replace(rope, attention_factor=1.0)
    left = first.layouts.after
    return first._replace(rope=rope, layouts=PairLayouts(before=left, after=left))


def _count_rows_like_first(before: AnyArray) -> int:
    """Return how many rows at the beginning of (heads, L, D) equal row 0 in all heads.

    Of the rows a a a b a, it is 3: the first three.
    """
    is_like_first = (before == before[:, :1]).all(axis=(0, 2))  # (L,)
    first_other_row = np.append(is_like_first, False).argmin()  # A row behind the last one differs.
    return int(first_other_row)


def _are_rotations(reasons: Sequence[Explanation]) -> bool:
    """Return True if a tensor is rotated in some way, and not only scaled or damaged."""
    edits = [*chain(*(reason.mistakes for reason in reasons))]
    is_rotated = any(isinstance(edit, (Layout, Parameter, Positions)) for edit in edits)
    return is_rotated and Rotation("none") not in edits


def _renumber(numberings: Iterable[_Numbering], edit: Edit) -> Edit:
    """Return an edit that is about wrong places with their numbers in a file; others as they are."""
    for kind, find_in_file in numberings:
        if isinstance(edit, kind):
            return kind(tuple(chain.from_iterable(map(find_in_file, edit.which))))
    return edit


def _numbers_in(spans: Ranges) -> list[int]:
    """Return the numbers in ranges from a first to a last one: 4, 5, 9 for (4, 5), (9, 9)."""
    return [number for first, last in spans for number in range(first, last + 1)]


def _list_heads_named(explanation: Explanation) -> list[str]:
    """Return the names of heads that an explanation is about; none if it is about the whole tensor."""
    return [name for name in explanation.tensors if name != "after"]
