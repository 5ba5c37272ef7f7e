"""`pecli convert`: pairs to another layout, numbers to another dtype, tables to another format."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pecli.cli import Exit, options
from pecli.engine.arrays import SIGNIFICAND_BITS
from pecli.engine.schemes import Choice, Whole
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.tensors.convert import Conversion, Converted, ScoreCheck
    from pecli.tensors.head_layout import Heads

EXAMPLES = (
    "pecli convert rope.npz -o rope.safetensors",
    "pecli convert pe.npy --dtype bfloat16 -o pe.safetensors",
    "pecli convert model.safetensors --from interleaved --to halves --config config.json --check -o hf.safetensors",
    "pecli convert model.safetensors --from interleaved --to halves --heads 32 --kv-heads 8 -o hf.safetensors",
    "pecli convert pe.npy --from interleaved --to halves -o halves.npy",
)
MAX_SCORE_CHANGE = 1e-9
"""What float64 arithmetic may lose, relative to the largest score."""

_PAIRS = "Layout of pairs"
_COUNT = Whole(help="a number of channels or heads", low=1, high=1 << 20)
_FUSED = Choice(help="the order of fused rows", options=("blocks", "groups", "codegen"))
_DTYPE = Choice(help="type of the numbers", options=tuple(SIGNIFICAND_BITS))


File = Annotated[str, typer.Argument(metavar="FILE", help="A file, or FILE:NAME for one tensor of it.")]
Output = Annotated[str | None, options.output("Where to write; the suffix picks the format. (required)", panel=None)]
_CAST = f"Cast floating tensors to {', '.join(SIGNIFICAND_BITS)}, rounding once."
Dtype = Annotated[str | None, options.text("--dtype", "NAME", _CAST)]
_NOW = "The pairs' layout now: halves, interleaved or deepseek."
Source = Annotated[str | None, options.text("--from", "NAME", _NOW, _PAIRS)]
Target = Annotated[str | None, options.text("--to", "NAME", "The layout they are to have.", _PAIRS)]
_MODEL = "Take heads, their size, the rotary dimension and fused rows from a model."
Config = Annotated[str | None, options.text("--config", "MODEL", _MODEL, _PAIRS)]
Model = Annotated[str | None, options.model("The same from a preset; pecli models lists them.", _PAIRS)]
_LAYERS = "Layers of this type, where heads of a model differ."
LayerType = Annotated[str | None, options.text("--layer-type", "NAME", _LAYERS, _PAIRS)]
_QUERIES = "Query heads: rows of projections move; without it or a model, columns."
HeadCount = Annotated[str | None, options.text("--heads", "INTEGER", _QUERIES, _PAIRS)]
_KEYS = "Key heads. (default: as the keys' rows have)"
KvHeads = Annotated[str | None, options.text("--kv-heads", "INTEGER", _KEYS, _PAIRS)]
_CHANNELS = "Channels of a head. (default: the queries' rows / heads)"
HeadDim = Annotated[str | None, options.text("--head-dim", "INTEGER", _CHANNELS, _PAIRS)]
_ROTARY = "Rotary dimension of a head. (default: all channels)"
RotaryDim = Annotated[str | None, options.text("--rotary-dim", "INTEGER", _ROTARY, _PAIRS)]
_LAST = "The last channels of a head rotate, not the first."
Trailing = Annotated[bool, options.text("--trailing", "", _LAST, _PAIRS)]
_ORDER = "Rows of a fused projection: all q, all k, all v; or q, k, v of each key head; or CodeGen's shards."
Fused = Annotated[str | None, options.text("--fused", f"[{'|'.join(_FUSED.options)}]", _ORDER, _PAIRS)]
_CHANGED = "Tensors to change, such as '*.q_proj.*'; several times if need be."
Include = Annotated[list[str] | None, options.text("--include", "PATTERN", _CHANGED, _PAIRS)]
_SCORES = "Prove on random vectors that attention scores stay the same."
Check = Annotated[bool, options.text("--check", "", _SCORES, _PAIRS)]


def convert(
    file: File,
    output: Output = None,
    dtype: Dtype = None,
    source: Source = None,
    target: Target = None,
    config: Config = None,
    model: Model = None,
    layer_type: LayerType = None,
    heads: HeadCount = None,
    kv_heads: KvHeads = None,
    head_dim: HeadDim = None,
    rotary_dim: RotaryDim = None,
    trailing: Trailing = False,
    fused: Fused = None,
    include: Include = None,
    check: Check = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    no_progress: options.NoProgress = False,
) -> int:
    """Move q/k weights or tables between layouts of pairs, cast to another dtype, or write another format.

    All other tensors and the metadata of a .safetensors file are kept byte for byte.
    """
    from pecli.tensors.convert import Conversion

    counts = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "rotary_dim": rotary_dim}
    given: dict[str, Any] = {name: _COUNT.parse(name, text) for name, text in counts.items() if text is not None}
    if fused is not None:
        given["fused"] = _FUSED.parse("fused", fused)
    if trailing:
        given["trailing"] = True
    layout = _heads({"config": config, "model": model, "layer_type": layer_type}, given)
    conversion = Conversion(
        None if source is None else options.PAIRS.parse("from", source),
        None if target is None else options.PAIRS.parse("to", target),
        layout,
        given.get("rotary_dim"),
        trailing,
        tuple(include or ()),
        None if dtype is None else _DTYPE.parse("dtype", dtype),
    )
    return _run(file, output, conversion, check, {"json": json, "quiet": quiet, "no_progress": no_progress})


def _heads(named: dict[str, str | None], given: dict[str, Any]) -> Heads | None:
    """The heads that the options give, or a model, with which the options must agree; None for columns of tables."""
    from pecli.tensors.head_layout import Heads

    if not options.names_model(named):
        alone = [f"--{name.replace('_', '-')}" for name in ("kv_heads", "head_dim", "fused") if name in given]
        if "heads" in given:
            return Heads(**given)
        if alone:
            raise ParameterError(
                "heads", "missing", f"{' and '.join(alone)} say more about them", "give it, or --config"
            )
        return None
    from pecli.models.attention import attention_of

    found = attention_of(named["config"], named["model"], named["layer_type"])
    of_model = {"heads": found.heads, "kv_heads": found.kv_heads, "head_dim": found.head_dim, "fused": found.fused}
    if found.rotary_dim is not None:
        of_model |= {"rotary_dim": found.rotary_dim, "trailing": found.trailing}
    for name in ("heads", "kv_heads", "head_dim"):
        if of_model[name] is not None:
            _COUNT.check(name, of_model[name])
    for name, value in given.items():
        if of_model.get(name) not in (None, value):
            said = "given" if value is True else value
            rule = f"{found.file} has {'the first' if name == 'trailing' else of_model[name]}"
            raise ParameterError(name, said, rule, "leave it out, or name another model")
    known = {name: value for name, value in of_model.items() if value is not None} | given
    if "heads" not in known:
        raise ParameterError("heads", "missing", f"{found.file} does not say how many there are", "give it")
    if found.rotates and "rotary_dim" not in known:
        raise ParameterError("rotary_dim", "missing", f"{found.file} has no rotary encoding that is known", "give it")
    added = tuple(name for name in given if of_model.get(name) is None)
    return Heads(**known, gated=found.gated, rotates=found.rotates, model=found.file, given=added)


def _run(path: str, output: str | None, conversion: Conversion, check: bool, values: dict[str, bool]) -> int:
    from pecli.files import format_of
    from pecli.tensors.convert import convert
    from pecli.tensors.inputs import open_file
    from pecli.views.progress import counting

    if output is None and not check:
        raise ParameterError("output", "missing", "a conversion is written to a file", "give -o FILE")
    if output is not None:
        format_of(output)
        options.check_output(output, json=values["json"], example="w.npy")
    with open_file(path) as file:
        file.check()
        made = convert(file, conversion, whole=path in (file.path, "-"))
        checked = made.check() if check else None
        passed = checked is None or checked.change < MAX_SCORE_CHANGE
        if output is not None and passed:
            total = sum(table.nbytes for table in made.tables.values())
            with counting("convert", total, values) as advance:
                made.save(output, on_block=lambda table, block: advance(block.nbytes))
        _report(made, output if passed else None, checked, values)
    return Exit.DONE if passed else Exit.CHECK_FAILED


def _report(made: Converted, output: str | None, checked: ScoreCheck | None, values: dict[str, bool]) -> None:
    from pecli.files.output import is_stream
    from pecli.views import screen

    if values["json"]:
        found = {"file": made.file.path, "output": output, "moved": made.moved, "cast": made.cast}
        proof = {"score_change": checked and checked.change, "checked": _proof(made, checked) if checked else None}
        screen.say_json({**found, "tensors": len(made.tables), "assumed": _assumed(made), **proof})
        return
    if values["quiet"]:
        return
    assumed = _assumed(made)
    lines = [f"assumed: {assumed['text']}"] if assumed else []
    if output is not None and is_stream(output):
        for line in lines:
            print(screen.printable(line, sys.stderr), file=sys.stderr)
        return
    done = [f"{len(made.moved):,} moved"] if made.moved else []
    done += [f"{len(made.cast):,} cast to {made.conversion.dtype}"] if made.cast else []
    what = f" ({', '.join(done)})" if done else ""
    if output is not None:
        screen.say_written(output, f"{screen.counted(len(made.tables), 'tensor')}{what}, ")
    if checked is not None:
        verdict = "are the same" if checked.change < MAX_SCORE_CHANGE else "are NOT the same, nothing was written"
        lines.append(f"attention scores before and after {verdict}: max relative change {checked.change:.1g}")
        lines += [
            f"proved for {text}" for text in (_proof(made, checked)["proves"],) if checked.change < MAX_SCORE_CHANGE
        ]
    for line in lines:
        screen.say(line)
    if made.loses_spec:
        screen.say("the spec of the file no longer holds and was left out")


def _assumed(made: Converted) -> dict[str, Any] | None:
    """What was assumed about the heads; None where columns were moved, or nothing."""
    layout = made.conversion.heads
    if layout is None or not made.moved:
        return None
    tables, whose = made.moved_tables(), f"as {layout.model} has it" if layout.model else "as the command line has it"
    if layout.given:
        added = ", ".join(f"--{name.replace('_', '-')}" for name in layout.given)
        whose += f", {added} as the command line has it"
    return {
        "heads": layout.heads,
        "kv_heads": layout.kv_heads,
        "head_dim": layout.head_dim,
        "rotary_dim": layout.rotary_dim or layout.head_dim,
        "trailing": layout.trailing,
        "fused": sorted({layout.order(table) for table in tables if layout.named(table).kind == "qkv"}),
        "model": layout.model or None,
        "text": f"{layout.words(tables)} ({whose})",
    }


def _proof(made: Converted, checked: ScoreCheck) -> dict[str, Any]:
    """What a check proves, and for which heads."""
    layout = made.conversion.heads
    assert layout is not None
    confirmed = layout.model and "heads" not in layout.given
    whose = f"of {layout.model}" if confirmed else "given on the command line, which no model confirms"
    layers = "1 layer" if checked.layers == 1 else f"{checked.layers} layers"
    text = f"{layers} with the {layout.heads} heads {whose}"
    if checked.unpaired:
        text += f"; {len(checked.unpaired)} moved weights were not checked: the file has no partner for them"
    return {"layers": checked.layers, "unpaired": list(checked.unpaired), "proves": text}
