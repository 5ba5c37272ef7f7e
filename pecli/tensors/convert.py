"""`pecli.convert`: pairs of a checkpoint or of tables in another layout, dtypes cast."""

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from numpy.typing import ArrayLike

from pecli.engine.application import LAYOUTS
from pecli.engine.arguments import text_of, texts_of, within_limits
from pecli.engine.arrays import SIGNIFICAND_BITS, Array, ForeignArray, like, numbers
from pecli.engine.named_values import MutableValues, NamedValues, required, without_none
from pecli.engine.schemes.parameters import Choice, DtypeChoice, Flag, ParameterRule, Whole
from pecli.errors import ParameterError, listed, quoted
from pecli.models.find import Model
from pecli.tensors.conversion import Converted
from pecli.tensors.head_layout import ORDERS, HeadDivision, Move, move_in_columns
from pecli.tensors.inputs import Input
from pecli.tensors.model_heads import attention_of
from pecli.tensors.projections import projection, weight_of
from pecli.tensors.row_positions import given_options

PAIRS = Choice(help="a layout of pairs", options=tuple(LAYOUTS))
DTYPE = DtypeChoice(help="type of the numbers", options=tuple(SIGNIFICAND_BITS))
_COUNT = Whole(help="a number of channels or heads", low=1, high=1 << 20)
_FUSED = Choice(help="the order of fused rows", options=tuple(ORDERS))
_TRAILING = Flag(help="whether the last channels of a head rotate, not the first")
HEAD_RULES: dict[str, ParameterRule] = {
    "heads": _COUNT,
    "kv_heads": _COUNT,
    "head_dim": _COUNT,
    "rotary_dim": _COUNT,
    "fused": _FUSED,
    "trailing": _TRAILING,
}
MAX_LISTED = 4  # tensors that an error names
_ONLY_ARRAY = "array"
"""The name of an array that is given without one."""
_OTHER_TOWER = re.compile(r"(?:^|\.)(?:vision|visual|audio|speech|image)\w*\.")
"""Names of a tower for images or sound, whose heads differ from those of the language part."""


@within_limits
def convert(
    tensors: ArrayLike | Mapping[str, ArrayLike],
    source: str | None = None,
    target: str | None = None,
    *,
    model: Model | None = None,
    layer_type: str | None = None,
    include: str | Sequence[str] = (),
    dtype: str | None = None,
    trailing: bool = False,
    **heads: object,
) -> ForeignArray:
    """Convert q/k weights or tables to another pair layout, or cast them.

    Args:
        tensors: an array, or arrays by name.
        source: the layout of pairs now: `halves`, `interleaved` or `deepseek`. Without it, nothing
            moves.
        target: the layout of pairs that they should have.
        model: the model that states how projections are divided into heads. Without it and
            `heads`, columns of tables move.
        layer_type: layers of this type, if the heads of a model differ.
        include: patterns of the tensors to move, such as `*.q_proj.*`; by default queries and
            keys, or all tables.
        dtype: cast floating tensors to float64, float32, float16 or bfloat16, rounding once.
        trailing: the last channels of a head rotate, not the first.
        heads: `heads`, `kv_heads`, `head_dim`, `rotary_dim` and `fused`, without a model or to
            override it.

    Returns:
        An array, or arrays by name, of the kind that was given. Other tensors are unchanged.

    Raises:
        ParameterError: an option breaks its rule, or tensors are not divided as it states.
        KindError: the name of an array is not a text.

    >>> import numpy as np
    >>> convert(np.array([[0, 1, 2, 3]]), "interleaved", "halves").tolist()
    [[0, 2, 1, 3]]
    """
    has_names = isinstance(tensors, Mapping)
    arrays = tensors if isinstance(tensors, Mapping) else {_ONLY_ARRAY: tensors}
    plan = converted(
        _numpy_arrays(arrays),
        "the file",
        source,
        target,
        model,
        layer_type=layer_type,
        include=include,
        dtype=dtype,
        trailing=trailing,
        **heads,
    )
    results = {name: like(array, plan.array(name)) for name, array in arrays.items()}
    return results if has_names else results[_ONLY_ARRAY]


def _numpy_arrays(tensors: Mapping[str, ArrayLike]) -> dict[str, Array]:
    """Return arrays of any library as NumPy's; their names must be texts."""
    return {text_of("name", name): numbers(name, array) for name, array in tensors.items()}


def converted(
    arrays: Mapping[str, Array],
    label: str,
    source: str | None,
    target: str | None,
    model: Model | None = None,
    *,
    layer_type: str | None = None,
    include: str | Sequence[str] | None = (),
    dtype: str | None = None,
    **head_options: object,
) -> Converted:
    """Plan a conversion; nothing is computed yet.

    The parameters are those of `convert`; `label` is the name of the file in errors.
    """
    fields = _checked_head_options(head_options)
    heads = heads_of(model, layer_type, fields)
    if dtype is not None:
        dtype = DTYPE.check("dtype", dtype)
    patterns = texts_of("include", () if include is None else include, "patterns are texts")
    _check_layouts(source, target)
    if source is None:
        _refuse_options_of_moves(heads, fields, patterns)
        return _only_cast(arrays, dtype)
    weights = [weight_of(name, array) for name, array in arrays.items()]
    chosen = _tensors_to_move(weights, label, heads, patterns)
    before = _stored_layout(source, heads)
    after = _stored_layout(required(target), heads)
    if heads is not None:
        heads = heads.completed(chosen)
    moves: dict[str, Move] = {}
    if before != after:
        moves = {
            weight.name: _find_new_order(weight, before, after, heads, fields) for weight in chosen
        }
    return Converted(
        arrays=arrays, moves=moves, source=before, target=after, heads=heads, dtype=dtype
    )


def _only_cast(arrays: Mapping[str, Array], dtype: str | None) -> Converted:
    """Return the conversion that moves nothing, and casts floating tensors if a dtype is given."""
    return Converted(arrays=arrays, moves={}, source="", target="", heads=None, dtype=dtype)


def _stored_layout(name: str, heads: HeadDivision | None) -> str:
    """Return the pair layout of the tensors in a file: weights with heads, or else tables.

    They differ for DeepSeek: its weights make interleaved channels, and its tables have halves.
    """
    layouts = LAYOUTS[name]
    return layouts.after if heads is None else layouts.before


def _refuse_options_of_moves(
    heads: HeadDivision | None, fields: NamedValues, patterns: Sequence[str]
) -> None:
    """Refuse options that describe how pairs move, in a conversion that only casts."""
    if heads or fields or patterns:
        rule = "`heads`, `rotary_dim` and `include` say how pairs move, from where to where"
        raise ParameterError("from", "missing", rule)


def _checked_head_options(options: Mapping[str, object]) -> dict[str, object]:
    """Return the options about heads that were given, checked: not None, and not a flag of False.

    `{"heads": 32, "head_dim": None, "trailing": False}` becomes `{"heads": 32}`.
    """
    for name in options:
        if name not in HEAD_RULES:
            rule = f"it must be one of {', '.join(HEAD_RULES)}"
            raise ParameterError(name, "given", rule)
    stated = without_none(options)
    checked = {name: HEAD_RULES[name].check(name, value) for name, value in stated.items()}
    return given_options(**checked)


def _check_layouts(source: str | None, target: str | None) -> None:
    """Raise ParameterError unless both layouts are known, or both are left out."""
    given = without_none({"source": source, "target": target})
    for name, layout in given.items():
        PAIRS.check(name, layout)
    if len(given) == 1:
        missing = "to" if "source" in given else "from"
        raise ParameterError(missing, "missing", "a conversion goes from one layout to another")


def heads_of(
    model: Model | None, layer_type: str | None, fields: NamedValues
) -> HeadDivision | None:
    """Return the heads of a model, with some fields of `HeadDivision` overridden.

    Returns None if neither a model nor `heads` is given: then columns of tables move.
    """
    if model is not None:
        return _heads_of_model(model, layer_type, fields)
    if "heads" in fields:
        return HeadDivision(**fields)
    _refuse_options_without_heads(fields)
    return None


def _refuse_options_without_heads(fields: Iterable[str]) -> None:
    """Refuse options that mean nothing unless the number of heads is known."""
    dependent = [f"`{name}`" for name in ("kv_heads", "head_dim", "fused") if name in fields]
    if dependent:
        rule = f"it is required with {' and '.join(dependent)}"
        raise ParameterError("heads", "missing", rule, "give it, or the model with `config`")


def _heads_of_model(
    model: Model, layer_type: str | None, user_fields: Mapping[str, object]
) -> HeadDivision:
    """Return the heads of a model, with the fields that the user gave in place of its own.

    `--model llama-3-8b --kv-heads 4`, for example: 32 heads of 128 channels, but 4 key heads.

    Raises:
        ParameterError: Neither states the number of heads, or the channels that rotate.
    """
    model_fields = _stated_heads(model, layer_type)
    fields = {**model_fields, **user_fields}
    if "heads" not in fields:
        rule = f"{model_fields['model']} does not say how many there are"
        raise ParameterError("heads", "missing", rule, "give it")
    if fields["rotates"] and "rotary_dim" not in fields:
        rule = f"{model_fields['model']} has no rotary encoding that is known"
        raise ParameterError("rotary_dim", "missing", rule, "give it")
    overridden = [name for name, value in user_fields.items() if model_fields.get(name) != value]
    return HeadDivision(**fields, given=tuple(overridden))


def _stated_heads(model: Model, layer_type: str | None) -> MutableValues:
    """Return the fields of `HeadDivision` that a model states, with its numbers checked."""
    stated = without_none(vars(attention_of(model, layer_type)))
    for name in sorted({"heads", "kv_heads", "head_dim"} & stated.keys()):
        _COUNT.check(name, stated[name])
    return stated


def _tensors_to_move(
    weights: Sequence[Input], label: str, heads: HeadDivision | None, patterns: Sequence[str]
) -> Sequence[Input]:
    """Return the tensors whose channels get another order.

    If the user named tensors (`include`), these move. Otherwise they are found by their own names:
    projections of queries and keys (`q_proj`, `k_proj`, `qkv`) if heads are known, tables (`cos`,
    `sin`) if not.

    Args:
        weights: All tensors of the file.
        label: The file, for errors.
        heads: How projections are divided into heads; None for tables.
        patterns: Patterns of names, such as `*.q_proj.*`; empty if the user named none.

    Raises:
        ParameterError: It is not clear which tensors are meant.
    """
    if patterns:
        return _matching_patterns(weights, label, patterns)
    projections = [weight for weight in weights if projection(weight.name)]
    if heads is None:
        return _tables_to_move(weights, label, projections)
    _refuse_several_parts(label, projections)
    return projections or _only_array(weights, label)


def _only_array(weights: Sequence[Input], label: str) -> Sequence[Input]:
    """Return the array of a file such as .npy, which has no names and so no named projection.

    Raises:
        ParameterError: There are several tensors, none of which is called like a projection.
    """
    if len(weights) == 1:
        return weights
    names = f"it has {_listed(weights)}"
    rule = f"no tensor of {label} is called like a query or key projection; {names}"
    raise ParameterError("include", "missing", rule, "name them")


def _refuse_several_parts(label: str, projections: Sequence[Input]) -> None:
    """Refuse projections of the language part together with those of a tower, whose heads differ.

    LLaVA's `language_model…q_proj` and `vision_tower…q_proj`, for example, have heads of different
    sizes, and one division cannot be right for both.
    """
    towers = [weight for weight in projections if _OTHER_TOWER.search(weight.name)]
    if 0 < len(towers) < len(projections):
        rule = (
            f"{label} has projections of other parts, {_listed(towers)}, "
            "which have heads of their own"
        )
        raise ParameterError("include", "missing", rule, "name the tensors to move")


def _matching_patterns(
    weights: Sequence[Input], label: str, patterns: Sequence[str]
) -> Sequence[Input]:
    """Return the tensors that match a pattern such as `*.q_proj.*`; every pattern must match one."""
    matching_names: set[str] = set()
    for pattern in patterns:
        names = {weight.name for weight in weights if fnmatchcase(weight.name, pattern)}
        if not names:
            rule = f"{label} has no tensor of such a name; it has {_listed(weights)}"
            raise ParameterError("include", quoted(pattern), rule)
        matching_names |= names
    return [weight for weight in weights if weight.name in matching_names]


def _tables_to_move(
    weights: Sequence[Input], label: str, projections: Sequence[Input]
) -> Sequence[Input]:
    """Return the tensors whose columns move; vectors move only if there is nothing else.

    Of `cos` (512, 64) and `inv_freq` (32,), only `cos` moves.

    Raises:
        ParameterError: There are projections, which cannot move without a division into heads.
    """
    if projections:
        rows = f"{_listed(projections)}, whose rows move, head by head"
        advice = "give it or `config`, or name tables with `include`"
        raise ParameterError("heads", "missing", f"{label} has projections, {rows}", advice)
    tables = [weight for weight in weights if len(weight.shape) > 1]
    return tables or weights


def _listed(weights: Sequence[Input]) -> str:
    return listed([f"{quoted(weight.name)} {weight.shape}" for weight in weights], MAX_LISTED)


def _find_new_order(
    weight: Input, source: str, target: str, heads: HeadDivision | None, fields: NamedValues
) -> Move:
    """Return the new order of a tensor's rows or columns, which gives it another pair layout.

    A projection's rows are reordered within each head. A table has no heads, and its columns are reordered.

    Args:
        weight: The tensor.
        source: The pair layout that it has, such as `interleaved`.
        target: The pair layout that it gets, such as `halves`.
        heads: How the rows of a projection are divided into heads; None for a table.
        fields: For a table, how many columns rotate (`rotary_dim`), and if they are the last (`trailing`).
    """
    if heads is not None:
        return heads.move(weight, source, target)
    return move_in_columns(
        weight,
        source,
        target,
        rotary_dim=fields.get("rotary_dim"),
        trailing=fields.get("trailing", False),
    )
