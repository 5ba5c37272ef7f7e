"""`pecli apply rope`: which scheme, which channels and which positions turn q and k."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from pecli.cli import from_model, options
from pecli.cli.apply_output import Applied, positions
from pecli.cli.command import keyword
from pecli.cli.scheme_options import completer, option, parsed
from pecli.engine.schemes.parameters import Parameter, Whole
from pecli.engine.schemes.positions import LAST_POSITION
from pecli.engine.schemes.rope import Rope
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.models.encoding import Encoding
    from pecli.tensors.inputs import Input, Inputs
    from pecli.tensors.position_ids import RowPlaces
    from pecli.tensors.rotary import Way

SUMMARY = "Turn the channels of q and k (…, L, D) by their positions, turn them back, or move them on."
EXAMPLES = (
    "pecli apply rope q.npy k.npy --theta 500000 -o turned.safetensors",
    "pecli apply rope qk.safetensors --model llama-3.1-8b --offset 4096 -o turned.safetensors",
    "pecli apply rope q.npy --config config.json --positions ids.npy --inverse -o q0.npy",
    "pecli apply rope cache.safetensors --layout interleaved --shift -512 -o moved.safetensors",
)

_SHIFT = Whole(help="positions to move by", low=-LAST_POSITION, high=LAST_POSITION)

Layout = Annotated[
    str | None,
    typer.Option(
        "--layout",
        metavar="[halves|interleaved|deepseek]",
        help="A pair is channels i, i + d/2; or 2i, 2i + 1; or the second, written as the first."
        " (default: the model's, or halves)",
        show_default=False,
        autocompletion=completer(options.PAIRS.options),
    ),
]
Trailing = Annotated[bool, typer.Option("--trailing", help="Where only some channels turn, the last ones do.")]
PositionsFile = Annotated[
    str | None,
    typer.Option(
        "--positions",
        metavar="FILE",
        help="Integers (L,) or (batch, L); with --mrope-section (axes, L) or (axes, batch, L).",
        show_default=False,
    ),
]
Inverse = Annotated[bool, typer.Option("--inverse", help="Undo the rotation, the attention factor included.")]
Shift = Annotated[
    str | None,
    typer.Option(
        "--shift",
        metavar="INTEGER",
        help="Move what was turned already by this many positions, at one go.",
        show_default=False,
    ),
]


class _Scheme(NamedTuple):
    """A rotary scheme, and what a model says besides."""

    rope: Rope
    layout: str
    why: str
    trailing: bool


def own_options() -> list[inspect.Parameter]:
    """Those of `pecli rope` that the input does not decide, those of a model, and what is done with them."""
    own = [option(label, parameter, Rope) for label, parameter in _parameters().items() if label != "dim"]
    dim = Annotated[
        str | None,
        typer.Option(
            "--dim", metavar="INTEGER", help="Channels that turn, in pairs. (default: all)", show_default=False
        ),
    ]
    ours = (
        ("layout", Layout, None),
        ("trailing", Trailing, False),
        ("positions", PositionsFile, None),
        ("inverse", Inverse, False),
        ("shift", Shift, None),
        *from_model.OPTIONS,
    )
    return [keyword("dim", dim, None), *own, *(keyword(*each) for each in ours)]


def _parameters() -> dict[str, Parameter]:
    decided = ("seq_len", "layout", "dtype", "recipe")
    return {label: each for label, each in Rope.parameters().items() if label not in decided}


def make(inputs: Inputs, values: Mapping[str, Any], held: ExitStack) -> Applied:
    """The tensors, turned as the options ask for."""
    from pecli.tensors.inputs import check_sequence
    from pecli.tensors.rotary import Way, turn_all

    shift = _check_options(values)
    first, *others = inputs.tensors
    length, dim = check_sequence(first)
    for each in others:
        length = max(length, check_sequence(each)[0])
        if each.table.shape[-1] != dim:
            raise each.wrong(f"{first.label} is of shape {first.table.shape}", "they must share D, the last axis")
    places = _places(values)
    if places.ids is None:
        for each in inputs.tensors:
            places.check(each)
    scheme = _scheme(first, length, places, values)
    places = places.arranged(len(scheme.rope.mrope_section or (1,)))
    way = Way(scheme.rope, places, scheme.layout, scheme.trailing, values["inverse"], shift)
    tables = turn_all(inputs.tensors, way)
    done = f"moved by {shift} positions" if shift is not None else f"positions {_span(places, length)}"
    words = [f"{way.layout} ({scheme.why})", "undone at " * way.inverse + done]
    if way.rope.rotary_dim < dim:
        words.insert(1, f"the {'last' if way.trailing else 'first'} {way.rope.rotary_dim} of {dim} channels")
    return Applied(tables, _described(way, values["positions"]), ", ".join(words))


def _described(way: Way, file: str | None) -> dict[str, Any]:
    """What was done, as plain data."""
    scheme = {name: getattr(way.rope, name) for name in _parameters()}
    own = {"layout": way.layout, "trailing": way.trailing, "inverse": way.inverse, "shift": way.shift}
    return {**scheme, **own, "positions": file}


def _check_options(values: Mapping[str, Any]) -> int | None:
    """Refuse options that contradict each other; the shift, if one is given."""
    if values["positions"] is not None and values["offset"] is not None:
        raise ParameterError("offset", values["offset"], "--positions says where every row stands", "leave out one")
    if values["shift"] is None:
        return None
    for name in ("inverse", "positions", "offset"):
        if values[name] not in (None, False):
            given = "given" if values[name] is True else values[name]
            raise ParameterError(name, given, "a shift needs no positions", "leave out one of them")
    return _SHIFT.parse("shift", values["shift"])


def _places(values: Mapping[str, Any]) -> RowPlaces:
    """Where the rows stand."""
    from pecli.tensors.position_ids import RowPlaces, read_places

    if values["positions"] is not None:
        return read_places(values["positions"])
    offset = values["offset"]
    return RowPlaces(0 if offset is None else _parameters()["offset"].parse("offset", offset))


def _span(places: RowPlaces, length: int) -> str:
    between = positions(*places.span(length))
    return f"{between} of {places.source}" if places.source else between


def _scheme(first: Input, length: int, places: RowPlaces, values: Mapping[str, Any]) -> _Scheme:
    """The rotary scheme that the options, or a model, ask for, read at the last position."""
    seq_len = max(1, length if places.ids is None else places.span(length)[1])
    layout = None if values["layout"] is None else options.PAIRS.check("layout", values["layout"])
    if from_model.is_named(values):
        from pecli.models.reader import find_model

        given = from_model.beside(values, _parameters())
        model = find_model(values["config"], values["model"])
        encoding = model.one(values["layer_type"])
        if not encoding.is_rotary:
            given_as = "config" if values["config"] else "model"
            raise ParameterError(given_as, model.file, f"its encoding is {encoding.scheme}, not rope")
        rope = encoding.rope(seq_len, **given)
        _check_head(first, rope, encoding, model.file, trailing=values["trailing"])
        why, trailing = "given" if layout else f"as {model.file} has it", values["trailing"] or encoding.trailing
        return _Scheme(rope, layout or encoding.layout or "halves", why, trailing)
    from pecli.tensors.inputs import check_dim

    given = parsed(_parameters(), values)
    if "dim" not in given:
        check_dim(first, Rope.parameters()["dim"], "or name the channels that turn with --dim")
        given["dim"] = first.table.shape[-1]
    return _Scheme(Rope(seq_len, **given), layout or "halves", "given" if layout else "the default", values["trailing"])


def _check_head(first: Input, rope: Rope, encoding: Encoding, file: str, *, trailing: bool) -> None:
    """A tensor with a model's encoding has the channels of a whole head, or those that turn."""
    for name, rule in (("axes", "it turns by places in an image"), ("order", "its frequencies are in another order")):
        if name in encoding.extra:
            raise ParameterError("layer_type", f"{encoding.layer_type!r} of {file}", f"{rule}, which apply cannot do")
    head, dim = encoding.head_dim or rope.rotary_dim, first.table.shape[-1]
    if dim not in (head, rope.rotary_dim) and not (trailing and dim > rope.rotary_dim):
        some = f", {rope.rotary_dim} of which turn" if rope.rotary_dim < head else ""
        raise first.wrong(f"a head of {file} has {head} channels{some}", f"D, the last axis, is {dim}")
