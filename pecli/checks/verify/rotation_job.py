"""The model, the positions of tokens and the settings that queries or keys are compared with."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pecli.checks.verify.table_settings import TableSettings
from pecli.compare.factors import Shape
from pecli.compare.tolerance import Tolerance
from pecli.engine.named_values import MutableValues, NamedValues
from pecli.errors import ParameterError, PecliError, quoted
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.find import Model, load_model
from pecli.models.gguf_names import PERMUTED
from pecli.tensors.inputs import SEQ_AXIS, Input
from pecli.tensors.row_positions import RowPositions, row_positions
from pecli.tensors.row_rotation import RowRotation, head_counts, model_rotation

LLAMA_CPP = "llama.cpp"
BEFORE_HEADS = -3  #: the axis of positions in (batch, L, heads, D)


def has_permuted_weights(encoding: Encoding) -> bool:
    """Return True if llama.cpp's converter permutes a model's weights, so that pairs are neighbours, not halves."""
    return encoding.layout == "halves" and encoding.family in PERMUTED


class Tokens(NamedTuple):
    """The positions of tokens as the user states them; all None if they count from 0, or an offset.

    Attributes:
        positions: The position of each token, (L,) or (batch, L).
        attention_mask: Instead, 0 for padding and 1 for tokens, which are counted.
        shift: Instead, the number of positions by which keys of a cache were moved.
    """

    positions: ArrayLike | None = None
    attention_mask: ArrayLike | None = None
    shift: int | None = None

    @property
    def are_stated(self) -> bool:
        """True if the user states positions by one of the options."""
        return any(value is not None for value in self)

    @property
    def sequence_length(self) -> int | None:
        """The number of tokens in a sequence; None if nothing states it."""
        by_token: Any = self.positions if self.attention_mask is None else self.attention_mask
        shape = np.shape(by_token)  # () of None
        return shape[-1] if shape else None

    def rows(self, offset: int | None) -> RowPositions:
        """Return the positions of the rows of tensors; they count from the offset if none are stated."""
        return row_positions(self.positions, self.attention_mask, self.shift, offset)


@dataclass(frozen=True)
class RotationJob:
    """The model and the settings that queries or keys are compared with."""

    model: Model
    encodings: ModelEncodings
    layer_type: str | None
    seq_axis: int | None
    tokens: Tokens
    settings: TableSettings
    tolerance: Tolerance
    reasons: bool  #: whether reasons for failures are searched for

    @classmethod
    def from_options(
        cls, model: Model, tolerance: Tolerance, reasons: bool, options: NamedValues
    ) -> "RotationJob":
        """Return the model and settings for a comparison of queries or keys, from options of `verify`.

        Args:
            model: The model.
            tolerance: The errors that pass.
            reasons: Whether reasons for failures are searched for.
            options: `layer_type`, `seq_axis`, those of `Tokens`, and those of `TableSettings`.

        Raises:
            ParameterError: If an option states rows of a table, which tokens do not have.
        """
        table_options = dict(options)
        layer_type = table_options.pop("layer_type", None)
        seq_axis = table_options.pop("seq_axis", None)
        tokens = Tokens(
            positions=table_options.pop("positions", None),
            attention_mask=table_options.pop("attention_mask", None),
            shift=table_options.pop("shift", None),
        )
        # The options that are left are the same as for tables, except for a grid of rows.
        settings = TableSettings.of(table_options)
        if settings.stated_rows:
            name = next(iter(settings.stated_rows))
            rule = "with `before`, tokens have positions"
            raise ParameterError(name, quoted(options[name]), rule, "give `positions`")
        return cls(
            model=model,
            encodings=load_model(model),
            layer_type=layer_type,
            seq_axis=seq_axis,
            tokens=tokens,
            settings=settings,
            tolerance=tolerance,
            reasons=reasons,
        )

    @cached_property
    def rotary_encodings(self) -> Sequence[Encoding]:
        """The rotary encodings of the layers in question."""
        encodings = self.encodings.ropes_of(self.layer_type)
        if not encodings or not encodings[0].is_rotary:
            rule = "the model has no rotary encoding"
            raise ParameterError("before", "given", rule, "leave it out")
        return encodings

    @cached_property
    def head_counts(self) -> Collection[int]:
        """The numbers of query and key heads that the model has; empty if they are not known."""
        if isinstance(self.model, (ModelEncodings, Encoding)):
            return ()
        with suppress(PecliError):  # Layers may differ.
            return head_counts(self.model, self.layer_type)
        return ()

    @cached_property
    def indexers(self) -> Sequence[Encoding]:
        """The encodings of the indexers of sparse attention (DeepSeek-V3.2); most models have none."""
        return [*filter(None, (rope.of_indexer() for rope in self.rotary_encodings))]

    def find_encodings_named(self, name: str) -> Sequence[Encoding]:
        """Return the encodings of the layers, or of the indexer, that a tensor's name states, or all."""
        if self.indexers and "index" in name:
            return self.indexers
        by_number = self.layer_type is None
        return self.encodings.of_layers_named(name, self.rotary_encodings, by_number=by_number)

    def find_encodings_for(self, name: str, width: int) -> Sequence[Encoding]:
        """Return the encodings in question for a tensor whose heads have so many channels.

        Gemma 4's sliding layers have heads of 256 channels, and its full layers heads of 512, so
        that a width may tell which layers a tensor is of. If it is that of none, the first
        encoding reports so.
        """
        encodings = self.find_encodings_named(name)
        fitting = [rope for rope in encodings if width in (rope.head_dim, rope.rotary_dim)]
        return fitting or encodings[:1]

    def is_unrotated(self, name: str) -> bool:
        """Return True if a tensor's name states a layer without rope, and no layer type is given."""
        return self.layer_type is None and self.encodings.is_unrotated(name)

    def make_rotation(
        self,
        tensor: Input,
        encoding: Encoding,
        rows: RowPositions,
        *,
        seq_axis: int,
        layout: str,
        offset: int = 0,
    ) -> RowRotation:
        """Return the rotation that layers of the model apply to queries or keys, in float64.

        Args:
            tensor: The queries or keys.
            encoding: The encoding of the layers.
            rows: The positions of the tensor's rows.
            seq_axis: The axis of positions.
            layout: The channels that make a pair, halves or interleaved; empty for the model's own.
            offset: The position of the first row, if rows are consecutive.
        """
        # Options of the user replace what the model states. Keys of a cache may be rotated again, by a
        # shift of their positions.
        stated: MutableValues = {"seq_axis": seq_axis, "shift": self.tokens.shift}
        if layout:
            stated["layout"] = layout
        return model_rotation(
            inputs=[tensor],
            file=self.encodings.file,  # for errors
            encoding=encoding,
            rows=rows,
            heads=(),  # They help to find the axis of positions, which is given here.
            rotation_fields=stated,
            offset=offset,
            length=self.settings.length,
            recipe=self.settings.recipe,
            runtime=self.settings.runtime,
            dtype="float64",
        )

    def find_position_axis(self, shape: Shape) -> int:
        """Return the axis of positions: the one before the last, unless that is a number of heads.

        With 4 heads, (6, 4, 64) has its 6 positions on axis −3; (4, 6, 64) and (4, 4, 64) have them
        on axis −2. The other of the two is not tried: a tensor that was rotated along its heads
        would pass.
        """
        if len(shape) < 3 or self.tokens.sequence_length == shape[SEQ_AXIS]:
            return SEQ_AXIS
        may_be_heads = shape[SEQ_AXIS] in self.head_counts
        has_heads_before = shape[BEFORE_HEADS] in self.head_counts
        return BEFORE_HEADS if may_be_heads and not has_heads_before else SEQ_AXIS
