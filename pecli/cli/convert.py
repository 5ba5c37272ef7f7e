"""`pecli convert`: pairs to another layout, numbers to another dtype, tables to another format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pecli.cli import options
from pecli.cli.command import command_of
from pecli.cli.exits import Exit
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS
from pecli.engine.schemes.parameters import Choice, Whole
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.tensors.convert import Conversion, Converted

EXAMPLES = (
    "pecli convert rope.npz -o rope.safetensors",
    "pecli convert pe.npy --dtype bfloat16 -o pe.safetensors",
    "pecli convert model.safetensors --from interleaved --to halves --heads 32 --kv-heads 8 --check -o hf.safetensors",
    "pecli convert pe.npy --from interleaved --to halves -o halves.npy",
)
SAME = 1e-9
"""Shares of the largest score that float64 arithmetic may lose."""

_PAIRS = "Layout of pairs"
_COUNT = Whole(help="a number of channels or heads", low=1, high=1 << 20)
_DTYPE = Choice(help="type of the numbers", options=tuple(SIGNIFICAND_BITS))


def command(name: str) -> Any:
    """The command itself, for the group that holds it."""
    return command_of(convert, name, EXAMPLES)


def _pairs_option(name: str, metavar: str, text: str) -> Any:
    return typer.Option(name, metavar=metavar, help=text, rich_help_panel=_PAIRS)


def convert(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file, or FILE:NAME for one tensor of it.")],
    output: Annotated[
        str | None, options.output("Where to write; the suffix picks the format. (required)", panel=None)
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype", metavar=f"[{'|'.join(SIGNIFICAND_BITS)}]", help="Cast floating tensors, rounding once."
        ),
    ] = None,
    source: Annotated[
        str | None, _pairs_option("--from", "NAME", "The pairs' layout now: halves, interleaved or deepseek.")
    ] = None,
    target: Annotated[str | None, _pairs_option("--to", "NAME", "The layout they are to have.")] = None,
    heads: Annotated[
        str | None, _pairs_option("--heads", "INTEGER", "Query heads: rows of projections move; without it, columns.")
    ] = None,
    kv_heads: Annotated[
        str | None, _pairs_option("--kv-heads", "INTEGER", "Key heads. (default: as the keys have)")
    ] = None,
    head_dim: Annotated[
        str | None, _pairs_option("--head-dim", "INTEGER", "Channels of a head. (default: the queries' rows / heads)")
    ] = None,
    rotary_dim: Annotated[
        str | None, _pairs_option("--rotary-dim", "INTEGER", "Channels of a head that turn. (default: all)")
    ] = None,
    trailing: Annotated[
        bool, _pairs_option("--trailing", "", "They are the last ones of a head, not the first.")
    ] = False,
    include: Annotated[
        list[str] | None,
        _pairs_option("--include", "PATTERN", "Tensors to change, such as '*.q_proj.*'; several times if need be."),
    ] = None,
    check: Annotated[
        bool, _pairs_option("--check", "", "Prove on random vectors that attention scores stay the same.")
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    no_progress: options.NoProgress = False,
) -> int:
    """Move q/k weights or tables between layouts of pairs, cast to another dtype, or write another format.

    All other tensors and the metadata of a .safetensors file are kept byte for byte.
    """
    from pecli.tensors.convert import Conversion
    from pecli.tensors.head_layout import Heads

    counts = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "rotary_dim": rotary_dim}
    given = {name: _COUNT.parse(name, text) for name, text in counts.items() if text is not None}
    if heads is None and (kv_heads or head_dim):
        raise ParameterError("heads", "missing", "--kv-heads and --head-dim go with it")
    conversion = Conversion(
        None if source is None else options.PAIRS.parse("from", source),
        None if target is None else options.PAIRS.parse("to", target),
        Heads(**given, trailing=trailing) if "heads" in given else None,
        given.get("rotary_dim"),
        trailing,
        tuple(include or ()),
        None if dtype is None else _DTYPE.parse("dtype", dtype),
    )
    return _run(file, output, conversion, check, {"json": json, "quiet": quiet, "no_progress": no_progress})


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
        change = made.check() if check else None
        held = change is None or change < SAME
        if output is not None and held:
            total = sum(table.nbytes for table in made.tables.values())
            with counting("convert", total, values) as advance:
                made.save(output, on_block=lambda table, block: advance(block.nbytes))
    _report(made, output if held else None, change, values)
    return Exit.DONE if held else Exit.NO


def _report(made: Converted, output: str | None, change: float | None, values: dict[str, bool]) -> None:
    from pecli.files.output import is_stream
    from pecli.views import screen

    if values["json"]:
        found = {"file": made.file.path, "output": output, "moved": made.moved, "cast": made.cast}
        screen.say_json({**found, "tensors": len(made.tables), "score_change": change})
        return
    if values["quiet"] or (output is not None and is_stream(output)):
        return
    done = [f"{len(made.moved):,} moved"] if made.moved else []
    done += [f"{len(made.cast):,} cast to {made.conversion.dtype}"] if made.cast else []
    what = f" ({', '.join(done)})" if done else ""
    if output is not None:
        screen.say_written(output, f"{screen.counted(len(made.tables), 'tensor')}{what}, ")
    if change is not None:
        verdict = "are the same" if change < SAME else "are NOT the same, nothing was written"
        screen.say(f"attention scores before and after {verdict}: they differ by {change:.1g} of the largest")
    if made.loses_spec:
        screen.say("the spec of the file no longer holds and was left out")
