"""`pecli convert`: pairs to another layout, numbers to another dtype, tables to another format."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from pecli.cli import Exit, options
from pecli.engine.arrays import SIGNIFICAND_BITS
from pecli.errors import ParameterError
from pecli.files import LoadedFile, format_of, save_tables
from pecli.files.contents import carried_spec
from pecli.files.output import KEY, OnBlock, is_stream
from pecli.tensors.convert import DTYPE, HEAD_RULES, PAIRS, Conversion, Converted, ScoreCheck, heads_of
from pecli.tensors.head_layout import ORDERS
from pecli.tensors.inputs import open_file
from pecli.views import counting, screen

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

File = Annotated[str, typer.Argument(metavar="FILE", help="A file, or FILE:NAME for one tensor of it.")]
Output = Annotated[str | None, options.output("Where to write; the suffix picks the format. (required)", panel=None)]
_CAST = f"Cast floating tensors to {', '.join(SIGNIFICAND_BITS)}, rounding once."
Dtype = Annotated[str | None, options.text("--dtype", "NAME", _CAST)]
_NOW = "The layout now: halves (NeoX, rotate_half), interleaved (GPT-J) or deepseek."
Source = Annotated[str | None, options.text("--from", "NAME", _NOW, _PAIRS)]
Target = Annotated[str | None, options.text("--to", "NAME", "The layout they are to have.", _PAIRS)]
_MODEL = "Take heads, their size, the rotary dimension and fused rows from a model."
Config = Annotated[str | None, options.model(_MODEL, _PAIRS, "--config")]
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
Fused = Annotated[str | None, options.text("--fused", f"[{'|'.join(ORDERS)}]", _ORDER, _PAIRS)]
_CHANGED = "Tensors to change, such as '*.q_proj.*'; several times if need be."
Include = Annotated[list[str] | None, options.text("--include", "PATTERN", _CHANGED, _PAIRS)]
_SCORES = "Check on random inputs that attention scores are unchanged."
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
    if output is None and not check:
        raise ParameterError("output", "missing", "a conversion is written to a file", "give -o FILE")
    if output is not None:
        format_of(output)
        options.check_output(output, json=json, example="w.npy")
    texts = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "rotary_dim": rotary_dim, "fused": fused}
    given: dict[str, Any] = {name: HEAD_RULES[name].parse(name, text) for name, text in texts.items() if text}
    if trailing:
        given["trailing"] = True
    named = {"config": config, "model": model, "layer_type": layer_type}
    which = (config or model) if options.names_model(named) else None
    conversion = Conversion(
        None if source is None else options.parse("from", PAIRS, source),
        None if target is None else options.parse("to", PAIRS, target),
        heads_of(which, layer_type, given),
        given.get("rotary_dim"),
        trailing,
        tuple(include or ()),
        None if dtype is None else options.parse("dtype", DTYPE, dtype),
    )
    values = {"json": json, "quiet": quiet, "no_progress": no_progress}
    loaded = open_file(file)
    _check_source(loaded, conversion)
    made = conversion.of(loaded.tensors, loaded.path)
    written = _Written(loaded, made, is_whole=file in (loaded.path, "-"))
    checked = made.check() if check else None
    passed = checked is None or checked.change < MAX_SCORE_CHANGE
    if output is not None and passed:
        total = sum(array.nbytes for array in loaded.tensors.values())
        with counting("convert", total, values) as advance:
            written.save(output, on_block=lambda table, block: advance(block.nbytes))
    _report(written, output if passed else None, checked, values)
    return Exit.DONE if passed else Exit.CHECK_FAILED


def _check_source(file: LoadedFile, conversion: Conversion) -> None:
    """Refuse to move columns from a layout that the file says it does not have."""
    if conversion.source is None or conversion.heads is not None:
        return
    spec = carried_spec(file.path, file.metadata) or {}
    layout = spec.get("parameters", {}).get("layout", conversion.source)
    if layout == "compact":
        rule = f"{file.path} is compact: it has one column per pair, and nothing to move"
        raise ParameterError("from", repr(conversion.source), rule, "make the table in the layout that is wanted")
    if layout != conversion.source:
        raise ParameterError("from", repr(conversion.source), f"the spec of {file.path} says {layout}")


@dataclass(frozen=True)
class _Written:
    """A file on its way to another."""

    file: LoadedFile
    made: Converted
    is_whole: bool
    """Whether these are all tensors of the file."""

    @property
    def is_changed(self) -> bool:
        return bool(self.made.moves or self.made.cast) or not self.is_whole

    @property
    def loses_spec(self) -> bool:
        """Whether the file carried a spec that no longer says what it holds."""
        return self.is_changed and KEY in self.file.metadata

    def save(self, path: str, on_block: OnBlock) -> None:
        """Write it all; a checkpoint whose dtypes stay keeps every other byte, in the same order."""
        same = format_of(path) == self.file.format == "safetensors" and self.is_whole and not self.made.cast
        if same and (not self.made.moves or KEY not in self.file.metadata):
            from pecli.files import write_file
            from pecli.files.safetensors import prepare_copy

            changed = {name: self.made.table(name) for name in self.made.moves}
            assert self.file.contents is not None
            write = prepare_copy(self.file.contents, self.file.tensors, changed)
            write_file(path, write, len(self.file.contents.data), on_block)
            return
        texts = {name: text for name, text in self.file.metadata.items() if name != KEY}
        spec = None if self.is_changed else carried_spec(self.file.path, self.file.metadata)
        spec = {name: value for name, value in spec.items() if name != "sha256"} if spec else None
        tables = [self.made.table(name) for name in self.made.arrays]
        save_tables(path, tables, spec, metadata=texts, on_block=on_block)


def _report(written: _Written, output: str | None, checked: ScoreCheck | None, values: Mapping[str, bool]) -> None:
    made, moved = written.made, list(written.made.moves)
    assumed = _assumed(made)
    passed = checked is None or checked.change < MAX_SCORE_CHANGE
    if values["json"]:
        about: dict[str, Any] = {"file": written.file.path, "output": output, "moved": moved, "cast": made.cast}
        about |= {"tensors": len(made.arrays), "assumed": assumed, "score_change": checked and checked.change}
        screen.say_json({**about, "checked": _proof(made, checked) if checked else None})
        return
    if values["quiet"]:
        return
    lines = [f"assumed: {assumed['text']}"] if assumed else []
    if output is not None and is_stream(output):
        for line in lines:
            print(screen.printable(line, sys.stderr), file=sys.stderr)
        return
    done = [f"{len(moved):,} moved"] if moved else []
    done += [f"{len(made.cast):,} cast to {made.conversion.dtype}"] if made.cast else []
    if output is not None:
        what = f" ({', '.join(done)})" if done else ""
        screen.say_written(output, f"{screen.counted(len(made.arrays), 'tensor')}{what}, ")
    if checked is not None:
        verdict = "are the same" if passed else "are NOT the same, nothing was written"
        lines.append(f"attention scores before and after {verdict}: max relative change {checked.change:.1g}")
        lines += [f"proved for {_proof(made, checked)['proves']}"] if passed else []
    lines += ["the spec of the file no longer holds and was left out"] if written.loses_spec else []
    for line in lines:
        screen.say(line)


def _assumed(made: Converted) -> dict[str, Any] | None:
    """What was assumed about the heads; None where columns were moved, or nothing."""
    layout, weights = made.conversion.heads, made.moved
    if layout is None or not weights:
        return None
    whose = f"as {layout.model} has it" if layout.model else "as the command line has it"
    if layout.given:
        added = ", ".join(f"--{name.replace('_', '-')}" for name in layout.given)
        whose += f", {added} as the command line has it"
    return {
        "heads": layout.heads,
        "kv_heads": layout.kv_heads,
        "head_dim": layout.head_dim,
        "rotary_dim": layout.rotary_dim or layout.head_dim,
        "trailing": layout.trailing,
        "fused": sorted({layout.order(weight) for weight in weights if layout.named(weight).kind == "qkv"}),
        "model": layout.model or None,
        "text": f"{layout.words(weights)} ({whose})",
    }


def _proof(made: Converted, checked: ScoreCheck) -> dict[str, Any]:
    """What a check proves, and for which heads."""
    layout = made.conversion.heads
    assert layout is not None
    confirmed = layout.model and "heads" not in layout.given
    whose = f"of {layout.model}" if confirmed else "given on the command line, which no model confirms"
    text = f"{screen.counted(checked.layers, 'layer')} with the {layout.heads} heads {whose}"
    if checked.unpaired:
        text += f"; {len(checked.unpaired)} moved weights were not checked: the file has no partner for them"
    return {"layers": checked.layers, "unpaired": list(checked.unpaired), "proves": text}
