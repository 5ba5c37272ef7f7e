"""`pecli.apply`: an encoding applied to an array, as a model's layer applies it."""

import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Protocol, cast

from numpy.typing import ArrayLike

from pecli.engine.application import LAYOUTS, add_rows
from pecli.engine.arguments import within_limits
from pecli.engine.arrays import Array, ForeignArray, like, numbers
from pecli.engine.named_values import MutableValues, NamedValues
from pecli.engine.schemes.parameters import Flag
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import table_of
from pecli.errors import KindError, ParameterError
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.find import Model, find_model
from pecli.tensors.inputs import Input
from pecli.tensors.row_positions import OFFSET, SHIFT, RowPositions, given_options, row_positions
from pecli.tensors.row_rotation import AXIS, LAYOUT, RowRotation, head_counts, model_rotation

FLAG = Flag(help="yes or no")
RULES = {"layout": LAYOUT, "trailing": FLAG, "inverse": FLAG, "shift": SHIFT, "seq_axis": AXIS}
"""Rules of the options that are fields of a RowRotation."""


@within_limits
def apply(
    x: ArrayLike,
    encoding: Scheme | Model | ArrayLike,
    *,
    offset: int | None = None,
    positions: ArrayLike | None = None,
    attention_mask: ArrayLike | None = None,
    layout: str | None = None,
    trailing: bool = False,
    inverse: bool = False,
    shift: int | None = None,
    seq_axis: int | None = None,
    layer_type: str | None = None,
) -> ForeignArray:
    """Apply an encoding to an array as a model's layer does: in float64, rounded once.

    Args:
        x: (…, L, D); for ALiBi and relative biases, scores (…, H, Lq, Lk), whose queries are the
            last Lq positions.
        encoding: a scheme; a model (as `load_model` accepts it), which rotates x; or a learned
            table (rows, D).
        offset: the position of the first row (by default 0, or the scheme's offset), or the first
            row of a learned table.
        positions: for rope, integers (L,) or (batch, L), for M-RoPE (axes, L) or (axes, batch, L).
        attention_mask: (L,) or (batch, L), 1 for tokens and 0 for padding; positions count tokens.
        layout: for rope, `halves`, `interleaved` or `deepseek`; by default the model's or the
            scheme's, else `halves`.
        trailing: for rope, rotate the trailing channels if only some rotate.
        inverse: undo the rotation.
        shift: move tensors that were rotated before by so many positions.
        seq_axis: for rope, the axis of positions, by default -2; -3 for (batch, L, heads, D).
        layer_type: the type of layer, for a model that has several.

    Returns:
        An array of the kind and dtype of x: NumPy, torch, JAX or MLX. A torch tensor keeps its
        device and has a gradient.

    Raises:
        ParameterError: an option breaks its rule or does not fit the encoding.
        KindError: x is not an array of floats.

    >>> import numpy as np
    >>> import pecli
    >>> pecli.apply(np.ones((2, 4)), pecli.Rope(seq_len=2, dim=4), offset=1).round(3).tolist()
    [[-0.301, 0.99, 1.382, 1.01], [-1.325, 0.98, 0.493, 1.02]]
    """
    if isinstance(x, Scheme):
        rule = "the array comes first, then the encoding"
        raise KindError("x", f"a {type(x).__name__}", rule, "exchange them")
    fields = _checked_fields(
        layout=layout, trailing=trailing, inverse=inverse, shift=shift, seq_axis=seq_axis
    )
    only_for_rope = fields | given_options(
        positions=positions, attention_mask=attention_mask, layer_type=layer_type
    )
    if isinstance(encoding, Scheme) and encoding.applied_as != "rotation":
        _refuse(only_for_rope | given_options(offset=offset), encoding.name)
        return _in_library_of(x, Operation(encoding.applied_to))
    if _is_array(encoding):
        _refuse(only_for_rope, "a learned table")
        return _with_learned_rows(x, encoding, offset)
    rows = row_positions(positions, attention_mask, shift, offset)
    if isinstance(encoding, Scheme):
        _refuse(given_options(layer_type=layer_type), "a scheme")
        rope = cast(Rope, encoding)  # the only kind of scheme that rotates
        return _rotated(x, _rotation_of_rope(rope, rows, offset, fields))
    rotation = _rotation_of_model(x, cast(Model, encoding), rows, layer_type, fields)
    return _rotated(x, rotation)


def _checked_fields(**options: object) -> MutableValues:
    """Return the options that were given, checked by RULES: fields of a RowRotation."""
    given = given_options(**options)
    return {name: RULES[name].check(name, value) for name, value in given.items()}


def _refuse(options: Collection[str], encoding: str) -> None:
    """Raise ParameterError for the first of some options, none of which an encoding has."""
    if options:
        first_name, *_ = options
        raise ParameterError(first_name, "given", f"not supported for {encoding}", "leave it out")


def _is_array(encoding: object) -> bool:
    """Return True for a learned table: a list, or an array of any library."""
    if isinstance(encoding, (list, tuple)):
        return True
    return hasattr(encoding, "__array__") or hasattr(encoding, "__dlpack__")


def _rotated(x: object, rotation: RowRotation) -> ForeignArray:
    """Return x rotated, in its library; its gradient is rotated by the transposed matrix."""
    transposed = replace(rotation, transposed=True)
    operation = Operation(
        forward=lambda array: rotation.apply(Input(array, "x")),
        backward=lambda array: transposed.apply(Input(array, "x")),
    )
    return _in_library_of(x, operation)


def _rotation_of_rope(
    rope: Rope, rows: RowPositions, offset: int | None, fields: NamedValues
) -> RowRotation:
    """Return the rotation that a rotary scheme applies to rows.

    Args:
        rope: The scheme.
        rows: The positions of the rows.
        offset: The position of the first row that the user states; None for the scheme's.
        fields: Fields of the rotation that the user states, such as `layout`.
    """
    if offset is None and rows.ids is None:
        rows = RowPositions(rope.first_position)
    return RowRotation(rope, rows, **{"layout": _pair_layout(rope), **fields})


def _rotation_of_model(
    x: ArrayLike,
    model: Model,
    rows: RowPositions,
    layer_type: str | None,
    fields: NamedValues,
) -> RowRotation:
    """Return the rotation of queries or keys, by the encoding that a model's file describes.

    Args:
        x: The array, whose length the model's scaling may depend on.
        model: A model's name, file or configuration.
        rows: The positions of the rows of x.
        layer_type: The layers whose encoding is used, if the model has several types.
        fields: Settings of the rotation that replace the model's, such as `layout`.
    """
    encodings = find_model(model=model)
    encoding = encodings.one(layer_type)
    tensor = Input(numbers("x", x), label="x")
    return model_rotation(
        inputs=[tensor],
        file=encodings.file,
        encoding=encoding,
        rows=rows,
        heads=_known_head_counts(model, layer_type),
        rotation_fields=fields,
        offset=rows.offset,  # The table of cos and sin begins at the position of the first row.
    )


def _known_head_counts(model: Model, layer_type: str | None) -> tuple[int, ...]:
    """Return how many query and key heads a model has; nothing if its encodings are all there is.

    An axis of that length holds heads, and is not to be taken for the axis of positions. The result
    of `load_model` has encodings, but no configuration that states the heads.
    """
    has_only_encodings = isinstance(model, (ModelEncodings, Encoding))
    if has_only_encodings:
        return ()
    return head_counts(model, layer_type)


def _pair_layout(rope: Rope) -> str:
    """Return the pair layout of a scheme's tables; compact ones have none, and rotate halves."""
    return rope.layout if rope.layout in LAYOUTS else "halves"


def _with_learned_rows(x: object, table: object, offset: int | None) -> ForeignArray:
    """Return x plus rows of a learned table, in the library of x."""
    first = 0 if offset is None else OFFSET.check("offset", offset)
    weight = Input(numbers("the table", table), "the table")
    operation = Operation(lambda array: add_learned(Input(array, "x"), weight, first))
    return _in_library_of(x, operation, LearnedRows(table, first))


def add_learned(tensor: Input, weight: Input, offset: int) -> Array:
    """Add rows offset … offset + L − 1 of a table (rows, D) to a tensor (…, L, D)."""
    length, dim = tensor.checked_sequence_shape()
    weight.check_floating()
    if len(weight.shape) != 2:
        raise weight.wrong("a table must be (rows, D)")
    rows, table_dim = weight.shape
    if dim != table_dim:
        rule = f"{weight.label} is of shape {weight.shape}"
        raise tensor.wrong(rule, "they must share D, the last axis")
    end = offset + length
    if end > rows:
        request = f"it asks for rows up to {end} of {rows}"
        rule = f"with {tensor.label} of shape {tensor.shape} {request}"
        raise ParameterError("offset", offset, rule, "take a longer table, or resize it")
    return add_rows(tensor.array, table_of("the table", weight.array), offset)


@dataclass(frozen=True)
class Operation:
    """A function of arrays, and the one that takes gradients back; None if they pass unchanged."""

    forward: Callable[[Array], Array]
    backward: Callable[[Array], Array] | None = None


@dataclass(frozen=True)
class LearnedRows:
    """A learned table whose rows, from the first on, are added: they have a gradient too."""

    table: ForeignArray
    first: int

    def gradient(self, torch: ModuleType, gradient: ForeignArray) -> ForeignArray:
        """Return the table's gradient: that of its rows, summed over batches, among zeros."""
        rows = gradient.reshape(-1, *gradient.shape[-2:]).sum(0).to(self.table)
        rows_after = len(self.table) - self.first - len(rows)
        return torch.nn.functional.pad(rows, (0, 0, self.first, rows_after))


def _in_library_of(
    x: object, operation: Operation, learned: LearnedRows | None = None
) -> ForeignArray:
    """Return operation.forward(x) as an array of the library of x.

    For a torch tensor, the result is part of torch's graph, and its gradient is computed by
    operation.backward.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(x, torch.Tensor):
        return like(x, operation.forward(numbers("x", x)))
    return _torch_result(torch, x, operation, learned)


class GradientContext(Protocol):
    """torch's record of a call: `needs_input_grad` has a flag per argument of `forward`."""

    needs_input_grad: tuple[bool, ...]


def _torch_result(
    torch: ModuleType, x: ForeignArray, operation: Operation, learned: LearnedRows | None
) -> ForeignArray:
    """Return operation.forward(x) as a torch tensor through which gradients flow.

    NumPy computes the operation, so that torch cannot derive its gradient: a node of torch's graph
    states it. The node is a class in this function because torch may not be installed.

    Args:
        torch: The package.
        x: The tensor.
        operation: The function, and the one that takes gradients back.
        learned: The learned table that the function adds to x, if any.
    """

    class GraphNode(torch.autograd.Function):  # type: ignore[misc, name-defined]
        """The operation as a node of torch's graph."""

        @staticmethod
        def forward(context: object, value: object, table: object) -> ForeignArray:
            """Return the result for x.

            The operation has the table already. It is an argument because torch computes
            gradients only of arguments.
            """
            return like(value, operation.forward(numbers("x", value)))

        @staticmethod
        def backward(
            context: "GradientContext", gradient: ForeignArray
        ) -> tuple[ForeignArray, ForeignArray]:
            """Return a gradient per argument of `forward`: of x, and of the learned table.

            The table's is None if it needs none.
            """
            _, table_needs_gradient = context.needs_input_grad
            table_gradient = None
            if learned is not None and table_needs_gradient:
                table_gradient = learned.gradient(torch, gradient)
            x_gradient = _gradient_of_input(operation, gradient)
            return x_gradient, table_gradient

    table = None
    if learned is not None and isinstance(learned.table, torch.Tensor):
        table = learned.table
    return GraphNode.apply(x, table)


def _gradient_of_input(operation: Operation, gradient: ForeignArray) -> ForeignArray:
    """Return the gradient of x, given that of the result.

    It is computed as an operation of torch's graph too, so that it has a gradient itself: the way
    back from the way back is the operation.
    """
    if operation.backward is None:
        return gradient
    reverse = Operation(operation.backward, operation.forward)
    return _in_library_of(gradient, reverse)
