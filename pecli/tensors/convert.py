"""`pecli.convert`: pairs of a checkpoint or of tables moved to another layout, dtypes cast; all else stays as it is."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pecli.engine.application import LAYOUTS, rotate
from pecli.engine.arrays import (
    SIGNIFICAND_BITS,
    Array,
    dtype_name,
    like,
    numbers,
    round_to,
    widened,
)
from pecli.engine.schemes.parameters import Choice, Dtype, Flag, Parameter, Whole
from pecli.engine.table import Table, table_of
from pecli.errors import KindError, ParameterError, listed, quoted
from pecli.models.find import Model
from pecli.tensors.head_layout import (
    ORDERS,
    Heads,
    Move,
    attention_of,
    move_in_columns,
    projection,
    weight_of,
)
from pecli.tensors.inputs import Input

PAIRS = Choice(help="a layout of pairs", options=tuple(LAYOUTS))
DTYPE = Dtype(help="type of the numbers", options=tuple(SIGNIFICAND_BITS))
_COUNT = Whole(help="a number of channels or heads", low=1, high=1 << 20)
_FUSED = Choice(help="the order of fused rows", options=tuple(ORDERS))
HEAD_RULES: dict[str, Parameter] = {
    **dict.fromkeys(("heads", "kv_heads", "head_dim", "rotary_dim"), _COUNT),
    "fused": _FUSED,
    "trailing": Flag(help="whether the last channels of a head rotate, not the first"),
}
MAX_LISTED = 4  # how many tensors an error names
MAX_SCORE_CHANGE = 1e-9  # what float64 arithmetic may lose, relative to the largest score
_OTHER_PART = re.compile(r"(?:^|\.)(?:vision|visual|audio|speech|image)\w*\.")
"""In the names of a tower for images or sound, which has heads of its own."""
_POSITIONS = np.array([0, 3, 17, 1000])
"""Of the random inputs whose attention scores a conversion must not change: near and far."""


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
    **heads: Any,
) -> Any:
    """Weights of queries and keys, or tables, with their pairs in another layout, or cast; the kind that was given.

    Args:
        tensors: an array, or arrays by name.
        source: the layout of pairs now: `halves`, `interleaved` or `deepseek`; without it nothing is moved.
        target: the layout they are to have.
        model: what says how projections are divided into heads; without it and `heads`, columns of tables move.
        layer_type: layers of this type, where heads of a model differ.
        include: patterns of the tensors to move, such as `*.q_proj.*`; else queries and keys, or all tables.
        dtype: cast floating tensors to float64, float32, float16 or bfloat16, rounding once.
        trailing: the last channels of a head rotate, not the first.
        heads: `heads`, `kv_heads`, `head_dim`, `rotary_dim` and `fused`, where no model says them or in its place.

    >>> convert(np.array([[0, 1, 2, 3]]), "interleaved", "halves").tolist()
    [[0, 2, 1, 3]]
    """
    by_name = tensors if isinstance(tensors, Mapping) else {"array": tensors}
    arrays = {name: numbers(name, array) for name, array in by_name.items()}
    given = {
        "layer_type": layer_type,
        "include": include,
        "dtype": dtype,
        "trailing": trailing,
        **heads,
    }
    made = converted(arrays, "the file", source, target, model, **given)
    results = {name: like(by_name[name], made.array(name)) for name in arrays}
    return results if isinstance(tensors, Mapping) else results["array"]


def heads_of(model: Model | None, layer_type: str | None, given: Mapping[str, Any]) -> Heads | None:
    """The heads of a model, or those that are given, which count more; None for columns of tables."""
    if model is None:
        alone = [f"`{name}`" for name in ("kv_heads", "head_dim", "fused") if name in given]
        if "heads" in given:
            return Heads(**given)
        if alone:
            rule = f"{' and '.join(alone)} say more about them"
            raise ParameterError("heads", "missing", rule, "give it, or the model with `config`")
        return None
    of_model = attention_of(model, layer_type)
    for name in of_model.keys() & {"heads", "kv_heads", "head_dim"}:
        _COUNT.check(name, of_model[name])
    known, file = of_model | dict(given), of_model["model"]
    if "heads" not in known:
        raise ParameterError(
            "heads", "missing", f"{file} does not say how many there are", "give it"
        )
    if known["rotates"] and "rotary_dim" not in known:
        raise ParameterError(
            "rotary_dim", "missing", f"{file} has no rotary encoding that is known", "give it"
        )
    added = tuple(name for name, value in given.items() if of_model.get(name) != value)
    return Heads(**known, given=added)


def converted(
    arrays: Mapping[str, Array], label: str, source: str | None, target: str | None, model: Model | None = None, *,
    layer_type: str | None = None, include: str | Sequence[str] = (), dtype: str | None = None, **given: Any,
) -> "Converted":  # fmt: skip
    """What becomes of tensors, of which nothing is computed yet: the options of `convert`."""
    for name in given.keys() - HEAD_RULES.keys():
        raise ParameterError(name, "given", f"it must be one of {', '.join(HEAD_RULES)}")
    known = {
        name: HEAD_RULES[name].check(name, value)
        for name, value in given.items()
        if value is not None
    }
    known = {name: value for name, value in known.items() if value is not False}
    heads = heads_of(model, layer_type, known)
    dtype = None if dtype is None else DTYPE.check("dtype", dtype)
    patterns = _patterns(include)
    for name, layout in (("source", source), ("target", target)):
        if layout is not None:
            PAIRS.check(name, layout)
    if (source is None) != (target is None):
        name = "from" if source is None else "to"
        raise ParameterError(name, "missing", "a conversion goes from one layout to another")
    if source is None or target is None:
        if heads or known or patterns:
            rule = "`heads`, `rotary_dim` and `include` say how pairs move, from where to where"
            raise ParameterError("from", "missing", rule)
        return Converted(arrays, {}, "", "", None, dtype)
    side = 0 if heads else 1  # DeepSeek's weights make interleaved channels, its tables have halves
    source, target = LAYOUTS[source][side], LAYOUTS[target][side]
    chosen = _chosen(
        [weight_of(name, array) for name, array in arrays.items()], label, heads, patterns
    )
    heads = heads and heads.completed(chosen)
    moves = {}
    for weight in chosen if source != target else ():
        if heads is None:
            columns = known.get("rotary_dim"), known.get("trailing", False)
            moves[weight.name] = move_in_columns(weight, source, target, *columns)
        else:
            moves[weight.name] = heads.move(weight, source, target)
    return Converted(arrays, moves, source, target, heads, dtype)


def _patterns(include: Any) -> list[str]:
    try:
        patterns = [] if include is None else [include] if isinstance(include, str) else [*include]
    except TypeError:
        patterns = [include]
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise KindError("include", quoted(pattern), "patterns are texts")
    return [*map(str, patterns)]


def _chosen(
    weights: Sequence[Input], label: str, heads: Heads | None, include: Sequence[str]
) -> Sequence[Input]:
    """The tensors to move: those that the patterns name, else queries and keys, or all tables."""
    if include:
        for pattern in include:
            if not any(fnmatchcase(weight.name, pattern) for weight in weights):
                rule = f"{label} has no tensor of such a name; it has {_listed(weights)}"
                raise ParameterError("include", quoted(pattern), rule)
        return [
            weight
            for weight in weights
            if any(fnmatchcase(weight.name, pattern) for pattern in include)
        ]
    projections = [weight for weight in weights if projection(weight.name)]
    if heads is None:
        if projections:
            rule = f"{label} has projections, {_listed(projections)}, whose rows move, head by head"
            raise ParameterError(
                "heads", "missing", rule, "give it or `config`, or name tables with `include`"
            )
        return [weight for weight in weights if len(weight.shape) > 1] or weights
    others = [weight for weight in projections if _OTHER_PART.search(weight.name)]
    if others and len(others) < len(projections):
        rule = f"{label} has projections of other parts, {_listed(others)}, which have heads of their own"
        raise ParameterError("include", "missing", rule, "name the tensors to move")
    if not projections and len(weights) != 1:
        rule = f"no tensor of {label} is called like a query or key projection; it has {_listed(weights)}"
        raise ParameterError("include", "missing", rule, "name them")
    return projections or weights


def _listed(weights: Sequence[Input]) -> str:
    return listed([f"{quoted(weight.name)} {weight.shape}" for weight in weights], MAX_LISTED)


class ScoreCheck(NamedTuple):
    """What a check of attention scores found."""

    change: float  # the largest change, relative to the largest score; infinite where there are no numbers
    layers: int
    unpaired: list[
        str
    ]  # tensors that moved and were not checked: their layers lack queries or keys

    @property
    def passed(self) -> bool:
        return self.change < MAX_SCORE_CHANGE


@dataclass(frozen=True, eq=False)
class Converted:
    """Tensors on their way: as they are, and what is done to them when they are asked for."""

    arrays: Mapping[str, Array]
    moves: Mapping[str, Move]
    source: str
    target: str
    heads: Heads | None  #: how projections are divided; None where columns of tables move
    dtype: str | None

    @cached_property
    def cast(self) -> list[str]:
        """The tensors whose dtype changes: all floating ones, but for those of eight bits, which come with scales."""
        kinds = {name: dtype_name(array.dtype) for name, array in self.arrays.items()}
        return [
            name
            for name, kind in kinds.items()
            if self.dtype and kind in SIGNIFICAND_BITS and kind != self.dtype
        ]

    @property
    def moved(self) -> list[Input]:
        return [weight_of(name, self.arrays[name]) for name in self.moves]

    def table(self, name: str) -> Table:
        """One of them, converted block by block when it is written."""
        table = table_of(name, self.arrays[name])
        rows = self.arrays[name].reshape(table.rows, table.width)
        move = self.moves.get(name)
        dtype = self.dtype if name in self.cast else None

        def fill(start: int, out: Array) -> None:
            part = slice(start, start + len(out))
            if move is None:
                block = rows[part]
            else:
                block = (
                    rows[move.order[part]]
                    if move.axis == 0
                    else np.take(rows[part], move.order, axis=1)
                )
            out[...] = block if dtype is None else round_to(widened(block), dtype)

        return replace(table, dtype=dtype or table.dtype, fill=fill)

    def array(self, name: str) -> Array:
        """The same in memory; what does not change is what was given."""
        return (
            self.table(name).array()
            if name in self.cast or name in self.moves
            else self.arrays[name]
        )

    def check(self) -> ScoreCheck:
        """How far attention scores change, over all layers of which there are both queries and keys.

        They are the same where every query and key, rotated in its new layout, is what it was, but for one order of
        channels that all of them share: so each tensor of a layer that moved as a whole can be checked alone.
        """
        if self.heads is None or not self.moves:
            advice = "give `from`, `to` and `heads`, or the model with `config`"
            raise ParameterError(
                "check", "given", "scores are those of projections that move", advice
            )
        moved = {weight.name: self.heads.named(weight) for weight in self.moved}
        layers = {named.layer for named in moved.values()}
        for name in (name for name in self.arrays if name not in moved):
            if (named := projection(name)) and named.layer in layers:
                rule = f"{quoted(name)} did not move, and other tensors of its layer did, so that scores change"
                raise ParameterError("check", "given", rule, "name it with `include`, too")
        weights = [
            named for name, named in moved.items() if self.arrays[name].ndim == 2 and not named.norm
        ]
        queries = {named.layer for named in weights if named.kind in ("q", "qkv")}
        paired = queries & {named.layer for named in weights if named.kind != "q"}
        if not paired:
            rule = "there are no query and key weights that go together"
            raise ParameterError("check", "given", rule, "convert unchecked")
        checked = [name for name, named in moved.items() if named.layer in paired]
        with np.errstate(invalid="ignore", over="ignore"):
            changes = [self._change(name, self.moves[name], self.heads) for name in checked]
        change = max(change if math.isfinite(change) else math.inf for change in changes)
        return ScoreCheck(change, len(paired), [name for name in moved if name not in checked])

    def _change(self, name: str, move: Move, heads: Heads) -> float:
        """The largest change of a tensor's heads for random inputs, each rotated as at its position."""
        rotary, sides = heads.rotary_dim or len(move.channels), []
        factors = np.exp(1j * np.outer(_POSITIONS, 10000.0 ** (-np.arange(0, rotary, 2) / rotary)))
        first = len(move.channels) - rotary if heads.trailing else 0
        for table, layout in (
            (table_of(name, self.arrays[name]), self.source),
            (self.table(name), self.target),
        ):
            width = table.width if move.axis == 0 else 1
            inputs = np.random.default_rng(width).standard_normal((width, len(_POSITIONS)))
            products = np.concatenate(
                [widened(block).reshape(-1, width) @ inputs for block in table.blocks()]
            )
            values = products.reshape(-1, len(move.channels), len(_POSITIONS))[move.heads].swapaxes(
                1, 2
            )
            sides.append(
                rotate(
                    values, lambda *rows: factors[slice(*rows)], layout, layout, first_channel=first
                )
            )
        old, new = sides[0][..., move.channels], sides[1]
        return float(np.abs(new - old).max(initial=0) / (np.abs(old).max(initial=0) or 1.0))
