"""Rotation of tensors' rows at their positions, as a rotary scheme or a model rotates them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from pecli.engine.application import LAYOUTS, PairLayouts, rotate
from pecli.engine.arrays import AnyArray, Array
from pecli.engine.named_values import NamedValues, without_none
from pecli.engine.schemes.parameters import Choice, Whole
from pecli.engine.schemes.positions import source_of_rows
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.rotation_factors import ALWAYS_CACHED_BYTES, Positions, RotationFactors
from pecli.engine.table import new_array
from pecli.errors import ParameterError
from pecli.models.encoding import Encoding
from pecli.models.find import Model
from pecli.tensors.head_layout import first_rotary_channel
from pecli.tensors.inputs import SEQ_AXIS, Input
from pecli.tensors.model_heads import attention_of
from pecli.tensors.row_positions import STATED_ROWS, RowPositions

LAYOUT = Choice(help="which channels make a pair", options=tuple(LAYOUTS))
AXIS = Whole(help="the axis of positions", low=-64, high=64)


@dataclass(frozen=True, eq=False)
class RowRotation:
    """A rotation of tensors' rows.

    Attributes:
        rope: the frequencies.
        rows: the positions of the rows.
        layout: which channels make a pair: a name of LAYOUTS.
        trailing: whether the last channels of a row rotate, if only some do.
        inverse: undo the rotation.
        shift: move tensors that were rotated before by so many positions.
        seq_axis: the axis of positions.
        transposed: apply the transposed matrix, which takes a gradient back.
    """

    rope: Rope
    rows: RowPositions
    layout: str = "halves"
    trailing: bool = False
    inverse: bool = False
    shift: int | None = None
    seq_axis: int = SEQ_AXIS
    transposed: bool = False

    def check(self, tensor: Input) -> None:
        """Raise a ParameterError unless a tensor can be rotated.

        Its last axis needs as many channels as rotate, and its rows must be as many as the stated
        positions.
        """
        length, dim = tensor.checked_sequence_shape(self.seq_axis)
        rope = self.rope
        if self.shift is not None and self.inverse:
            # A shift by −3 undoes one by 3, so that `inverse` is not needed.
            rule = "a shift goes either way"
            raise ParameterError("inverse", "given", rule, "change the sign of `shift`")
        if dim < rope.rotary_dim:
            rule = f"the rotary dimension is {rope.rotary_dim}"
            raise tensor.wrong(rule, f"D, the last axis, is {dim}")
        rope_lists_positions = not rope.is_range  # The rope has a list or a grid, not 0, 1, 2, …
        if rope_lists_positions:
            self._check_positions_of_rope(tensor, length)
        if self.shift is None:  # A shift turns rows by the same angle at any positions.
            self._check_position_ids(tensor)

    def _check_position_ids(self, tensor: Input) -> None:
        """Raise a ParameterError if position ids are given whose shape does not fit a tensor."""
        self.rows.positions_of(tensor, self.seq_axis, self.rope.position_axes)

    def _check_positions_of_rope(self, tensor: Input, length: int) -> None:
        """Check a tensor for a rope that lists its positions: L must agree, and no others be given.

        They are a list (`positions`) or those of a `grid`, which the message names.
        """
        source = source_of_rows(self.rope)
        if self.shift is not None or self.rows.ids is not None:
            name = self.rows.name if self.shift is None else "shift"
            raise ParameterError(name, "given", f"{source} says where rows stand", "leave it out")
        if length != self.rope.seq_len:
            raise tensor.wrong(f"{source} has {self.rope.seq_len} rows", f"L is {length}")

    def apply(self, tensor: Input) -> Array:
        """Return the rotated tensor, computed in float64 and rounded once to its dtype.

        Each pair of channels is a complex number. It is multiplied by a factor, cos θ + i·sin θ of
        its position. If the sequences of a batch have different positions, they rotate one by one.
        """
        self.check(tensor)
        x = tensor.array
        out = new_array(x.shape, x.dtype.newbyteorder("="))
        # The axis of positions, counted from the end: −2 for axis 2 of (batch, heads, L, D). One
        # sequence of the batch, (heads, L, D), has it at −2 as well.
        axis_from_end = self.seq_axis % x.ndim - x.ndim
        length = x.shape[axis_from_end]
        factors = self._factors_for(x, length)
        positions_by_sequence = self._positions_of_sequences(length)
        if len(positions_by_sequence) == 1:
            (shared_positions,) = positions_by_sequence
            self._rotate_rows(x, out, axis_from_end, factors, shared_positions)
            return out
        for number, positions in enumerate(positions_by_sequence):
            self._rotate_rows(x[number], out[number], axis_from_end, factors, positions)
        return out

    def _factors_for(self, x: Array, length: int) -> RotationFactors:
        """Return a source of the complex factors that rotate x, which has `length` positions.

        It holds a table of them. Small tables are cached for the next tensors, since the queries and
        keys of all layers rotate alike.
        """
        # The last bit of a factor takes time, and shows only in float64.
        is_exact = x.dtype == np.float64
        # A shift turns all rows by one angle.
        needs_no_table = self.shift is not None or x.size == 0
        if needs_no_table:
            return RotationFactors(self.rope, exact=is_exact, inverse=self.inverse)
        first, end = self.rows.span(length)
        pairs = self.rope.rotary_dim // 2
        bytes_per_position = pairs * np.dtype(np.complex128).itemsize
        is_small = (end - first) * bytes_per_position <= ALWAYS_CACHED_BYTES
        factors_of_range = _cached_factors_of_range if is_small else _factors_of_range
        return factors_of_range(self.rope, is_exact, self.inverse, first, end)

    def _rotate_rows(
        self, x: Array, out: Array, axis: int, factors: RotationFactors, positions: Positions
    ) -> None:
        """Write rows into `out`, each rotated by the angles of its position.

        Args:
            x: The rows, such as (heads, L, D).
            out: An array of the same shape.
            axis: The axis of x along which the positions stand.
            factors: A source of complex factors at any positions.
            positions: The positions of the rows, (L,).
        """
        layouts = self._pair_layouts()  # which channels make a pair, in x and in `out`
        rotate(
            x,
            # `rotate` calls this with the start and the stop of each block of rows.
            partial(self._factors_of_block, factors, positions),
            layout_before=layouts.before,
            layout_after=layouts.after,
            seq_axis=axis,
            first_channel=first_rotary_channel(x.shape[-1], self.rope.rotary_dim, self.trailing),
            out=out,
        )

    def _pair_layouts(self) -> PairLayouts:
        """Return the pair layouts of the input and the output.

        They differ for DeepSeek, whose input is interleaved and whose output is in halves. The inverse
        has halves as its input and an interleaved output, and so has the gradient of a rotation; the
        gradient of the inverse is as the rotation again.
        """
        layouts = LAYOUTS[self.layout]
        if self.shift is not None:  # The input is the output of a rotation.
            layouts = PairLayouts(layouts.after, layouts.after)
        goes_back = self.inverse != self.transposed
        return PairLayouts(layouts.after, layouts.before) if goes_back else layouts

    def _positions_of_sequences(self, length: int) -> Sequence[Positions]:
        """Return the positions of each sequence of a batch; one item if all have the same.

        An item is (L,), or (L, axes) if a position has several axes.
        """
        ids = self.rows.arranged(self.rope.position_axes)  # (axes, batch, L)
        if ids is None:
            return [range(self.rows.offset, self.rows.offset + length)]
        has_one_axis = len(ids) == 1
        if has_one_axis:
            return list(ids[0])
        return list(np.moveaxis(ids, 0, -1))

    def _factors_of_block(
        self, factors: RotationFactors, positions: Positions, start: int, stop: int
    ) -> AnyArray:
        """Return the complex factors of rows start … stop − 1.

        A shift has the same factors (1, d/2) for all rows: turning from position 5 to 7 is the
        rotation of position 2, and so is turning from 100 to 102.
        """
        if self.shift is None:
            row_factors = factors.at(positions[start:stop])
        else:
            row_factors = factors.shift(self.shift)
        # The transpose of a rotation is the rotation back.
        return row_factors.conj() if self.transposed else row_factors


def _factors_of_range(
    rope: Rope, is_exact: bool, inverse: bool, first: int, end: int
) -> RotationFactors:
    """Return the factors of a scheme; those of positions first … end − 1 are made at once."""
    factors = RotationFactors(rope, exact=is_exact, inverse=inverse)
    factors.reserve(first, end)
    return factors


# The queries and keys of all layers are rotated alike, one after the other.
_cached_factors_of_range = lru_cache(maxsize=4)(_factors_of_range)


def model_rotation(
    inputs: Sequence[Input],
    file: str,
    encoding: Encoding,
    rows: RowPositions,
    heads: Collection[int],
    rotation_fields: NamedValues,
    *,
    length: int | None = None,
    **rope_parameters: object,
) -> RowRotation:
    """Return the rotation of queries and keys in the layers of a model.

    What the user states, such as a base or a layout, replaces what the model has.

    Args:
        inputs: the queries and keys.
        file: the model's name in errors.
        encoding: the model's encoding, with its frequencies.
        rows: the positions of the rows.
        heads: the model's numbers of heads. An axis of such a length is not taken for positions
            unless `seq_axis` is given.
        rotation_fields: fields of the RowRotation that the user states, such as its layout.
        length: the context length for a scaling that depends on it (dynamic, longrope). The default
            is the last position of the longest tensor.
        rope_parameters: parameters of the rope that the user states, such as its base.
    """
    if _are_rows_patches_of_image(encoding, rows):
        # The places of patches, such as Flux's ids (L, 3), are a parameter of the rope. Its table
        # has a row for each, so that rows need no other positions.
        rope_parameters = {**rope_parameters, "positions": rows.ids}
        rows = RowPositions()
    _require_known_rotation(file, encoding, rope_parameters)
    seq_axis = rotation_fields.get("seq_axis", SEQ_AXIS)
    longest = max(tensor.checked_sequence_shape(seq_axis).length for tensor in inputs)
    # The table ends after the last position. A rope that lists its positions needs no number: None.
    row_count = rows.table_rows(longest, rope_parameters)
    rope = encoding.rope(row_count, length=length, **rope_parameters)
    _require_channels_of_head(inputs[0], file, encoding, rope, rotation_fields)
    if _may_axis_be_heads(encoding, rotation_fields):
        _refuse_heads_as_positions(inputs, file, heads)
    fields_of_model = {"layout": encoding.layout or "halves", "trailing": encoding.trailing}
    return RowRotation(rope, rows, **{**fields_of_model, **rotation_fields})


def _are_rows_patches_of_image(encoding: Encoding, rows: RowPositions) -> bool:
    """Return True if ids state the places of patches in an image, not the positions of a text.

    Ids that follow from an attention mask count the tokens of a text.
    """
    are_ids_given = rows.ids is not None and rows.is_token is None
    return encoding.takes_places and are_ids_given


def _may_axis_be_heads(encoding: Encoding, rotation_fields: NamedValues) -> bool:
    """Return True if an axis is taken for positions that could be the model's heads instead."""
    is_axis_stated = "seq_axis" in rotation_fields
    turns_all_rows_alike = "shift" in rotation_fields  # It does not matter which axis counts them.
    is_for_images = bool(encoding.part)  # Those parts of a model have other numbers of heads.
    return not (is_axis_stated or turns_all_rows_alike or is_for_images)


def _require_known_rotation(
    file: str, encoding: Encoding, parameters: Mapping[str, object]
) -> None:
    """Raise ParameterError if an encoding does not rotate, or needs positions that are missing.

    Rows of a text have the positions 0, 1, 2, …. Patches of an image have a row and a column, which
    the parameter `positions` or `grid` must state.

    Args:
        file: The model's name in errors.
        encoding: The encoding of the layers.
        parameters: The parameters that the user states.
    """
    if not encoding.is_rotary:
        raise ParameterError("model", file, f"its encoding is {encoding.scheme}, not rope")
    if not STATED_ROWS.isdisjoint(parameters):
        return
    # Frequencies may alternate between rows and columns, r0 c0 r1 c1, as if they were of one axis.
    rotates_by_places = encoding.grid.axes or encoding.order
    if rotates_by_places:
        raise _places_not_stated(encoding, f"{encoding.layer_type!r} of {file}")


def _places_not_stated(encoding: Encoding, shown_layer_type: str) -> ParameterError:
    """Return the error for an encoding that rotates by places in an image, which nobody has stated.

    Whole numbers state the places of Flux, but not those of DINOv3, which are fractions.
    """
    if not encoding.takes_places:
        rule = "it rotates by places in an image, which is not supported"
        return ParameterError("layer_type", shown_layer_type, rule)
    rule = "it rotates by places in an image"
    advice = f"give them as `positions`, ({encoding.grid.axes}, L) or (L, {encoding.grid.axes})"
    return ParameterError("layer_type", shown_layer_type, rule, advice)


def _require_channels_of_head(
    tensor: Input, file: str, encoding: Encoding, rope: Rope, rotation_fields: NamedValues
) -> None:
    """Raise ParameterError unless the last axis of a tensor, D, fits the heads of a model.

    Heads of Phi-2 have 80 channels, of which 32 rotate: D may be 80, or 32 for the rotary parts of
    heads. If the user states which end of a row rotates (`trailing`), D may be any larger number,
    as for a latent key of DeepSeek with its rotary part behind it, 512 + 64.
    """
    dim = tensor.shape[-1]
    rotary_dim = rope.rotary_dim
    # A configuration without a size of heads is one whose heads rotate as a whole.
    head_dim = encoding.head_dim or rotary_dim
    if dim in (head_dim, rotary_dim):
        return
    user_states_end = "trailing" in rotation_fields
    if user_states_end and dim > rotary_dim:
        return
    rule = f"a head of {file} has {head_dim} channels"
    if rotary_dim != head_dim:
        rule += f", {rotary_dim} of which rotate"
    raise tensor.wrong(rule, f"D, the last axis, is {dim}")


def _refuse_heads_as_positions(tensors: Sequence[Input], file: str, heads: Collection[int]) -> None:
    """Refuse (…, L, heads, D), whose axis of heads would be taken for positions.

    If a model has 32 heads, (2, 100, 32, 128) is refused; (2, 32, 100, 128) is not, nor is
    (2, 32, 32, 128), in which both axes may be heads.
    """
    for tensor in tensors:
        if len(tensor.shape) < 3:
            continue
        if tensor.shape[-2] in heads and tensor.shape[-3] not in heads:
            raise _heads_as_positions(tensor, file)


def _heads_as_positions(tensor: Input, file: str) -> ParameterError:
    axis = len(tensor.shape) - 2
    count = tensor.shape[axis]
    rule = f"axis {axis} would be positions, and {count} is a number of heads of {file}"
    other_axis = f"give `seq_axis` {axis - 1} for (…, L, heads, D)"
    return tensor.wrong(rule, f"{other_axis}, or {axis} if these are positions after all")


def head_counts(model: Model | None, layer_type: str | None) -> tuple[int, ...]:
    """Return how many query and key heads a model has, as far as it states them."""
    attention = attention_of(model, layer_type)
    counts = without_none({"heads": attention.heads, "kv_heads": attention.kv_heads})
    return tuple(counts.values())
