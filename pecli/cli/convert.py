"""`pecli convert`: pairs to another layout, numbers to another dtype, tables to another format."""

from collections.abc import Mapping
from typing import Any

from pecli.cli import Exit, command, option_name, options, print_note
from pecli.engine.arrays import SIGNIFICAND_BITS
from pecli.errors import ParameterError, counted, listed
from pecli.files import format_of, save_tables
from pecli.files.contents import LoadedFile, carried_spec
from pecli.files.output import KEY, is_stream
from pecli.files.writing import OnBlock
from pecli.tensors.convert import (
    DTYPE,
    HEAD_RULES,
    MAX_LISTED,
    PAIRS,
    Converted,
    ScoreCheck,
    converted,
)
from pecli.tensors.head_layout import ORDERS
from pecli.tensors.inputs import open_file
from pecli.views import progress, screen

_PAIRS = "Layout of pairs"
_CAST = f"Cast floating tensors to {', '.join(SIGNIFICAND_BITS)}, rounding once."
_NOW = "The layout now: halves (NeoX, rotate_half), interleaved (GPT-J) or deepseek."
_MODEL = "Take heads, their size, the rotary dimension and fused rows from a model."
_QUERIES = "Query heads: rows of projections move; without it or a model, columns."
_ORDER = "Rows of a fused projection: all q, all k, all v; or q, k, v of each key head; or CodeGen's shards."
_CHANGED = "Tensors to change, such as '*.q_proj.*'; may be repeated."


@command(
    options.argument("file", "FILE", "A file, or FILE:NAME for one tensor of it."),
    options.output("Where to write; the suffix picks the format. (required)", ""),
    options.text("--dtype", "NAME", _CAST, rule=DTYPE),
    options.text("--from", "NAME", _NOW, _PAIRS, name="source"),
    options.text("--to", "NAME", "The layout to move to: one of the same.", _PAIRS, rule=PAIRS),
    *options.model_options(_MODEL, _PAIRS, "Layers of this type, where heads of a model differ."),
    options.text("--heads", "INTEGER", _QUERIES, _PAIRS),
    options.text(
        "--kv-heads", "INTEGER", "Key heads. (default: from the rows of the keys)", _PAIRS
    ),
    options.text(
        "--head-dim",
        "INTEGER",
        "Channels of a head. (default: rows of the queries / heads)",
        _PAIRS,
    ),
    options.text(
        "--rotary-dim", "INTEGER", "Rotary dimension of a head. (default: all channels)", _PAIRS
    ),
    options.flag("--trailing", "The last channels of a head rotate, not the first.", _PAIRS),
    options.text("--fused", f"[{'|'.join(ORDERS)}]", _ORDER, _PAIRS),
    options.text("--include", "PATTERN", _CHANGED, _PAIRS, several=True),
    options.flag("--check", "Check on random inputs that attention scores are unchanged.", _PAIRS),
    options.NO_HEADER,
    *options.WORK,
)
def convert(
    file: str, output: str | None, check: bool, json: bool, quiet: bool, **given: Any
) -> int:
    """Move q/k weights or tables between layouts of pairs, cast to another dtype, or write another format.

    All other tensors and the metadata of a .safetensors file are kept byte for byte.

    Examples:
      pecli convert rope.npz -o rope.safetensors
      pecli convert pe.npy --dtype bfloat16 -o pe.safetensors
      pecli convert model.safetensors --from interleaved --to halves --config config.json --check -o hf.safetensors
      pecli convert model.safetensors --from interleaved --to halves --heads 32 --kv-heads 8 -o hf.safetensors
      pecli convert pe.npy --from interleaved --to halves -o halves.npy
    """
    if output is None and not check:
        raise ParameterError(
            "output", "missing", "a conversion is written to a file", "give -o FILE"
        )
    if output is not None:
        options.check_output(output, json=json)
    loaded = open_file(file)
    made = _converted(loaded, given)
    checked = made.check() if check else None
    passed = checked is None or checked.passed
    is_whole = file in (loaded.path, "-")
    is_changed = bool(made.moves or made.cast) or not is_whole
    if output is not None and passed:
        total = sum(array.nbytes for array in loaded.tensors.values())
        with progress.counting(
            "convert", total, wanted=options.shows_progress({"quiet": quiet, **given})
        ) as advance:
            _save(
                loaded, made, output, is_whole, is_changed, advance, header=not given["no_header"]
            )
    written, assumed = output if passed else None, _assumed(made)
    if json:
        about: dict[str, Any] = {
            "file": loaded.path,
            "output": written,
            "moved": list(made.moves),
            "cast": made.cast,
        }
        about |= {
            "tensors": len(made.arrays),
            "assumed": assumed,
            "score_change": checked and checked.change,
        }
        screen.print_json({**about, "checked": checked and _proof(made, checked)})
    elif not quiet:
        lines = [f"assumed: {assumed['text']}"] if assumed else []
        if checked is not None:
            verdict = "are the same" if passed else "are NOT the same, nothing was written"
            lines.append(
                f"attention scores before and after {verdict}: max relative change {checked.change:.1g}"
            )
            lines += [f"proved for {_proof(made, checked)['proves']}"] if passed else []
        _show(made, written, lines, loses_spec=is_changed and KEY in loaded.metadata)
    return Exit.DONE if passed else Exit.CHECK_FAILED


def _show(made: Converted, output: str | None, lines: list[str], *, loses_spec: bool) -> None:
    done = [f"{len(made.moves):,} moved"] if made.moves else []
    done += [f"{len(made.cast):,} cast to {made.dtype}"] if made.cast else []
    lines += ["the spec of the file no longer holds and was left out"] if loses_spec else []
    if output is not None:
        what = f" ({', '.join(done)})" if done else ""
        screen.print_written(output, f"{counted(len(made.arrays), 'tensor')}{what}, ")
    tell = print_note if output is not None and is_stream(output) else screen.print_line
    for line in lines:
        tell(line)


def _converted(file: LoadedFile, given: Mapping[str, Any]) -> Converted:
    """What the options ask for; refused where the file says that its columns have another layout."""
    heads = options.parsed(HEAD_RULES, given)
    model = options.model_name(given)
    source = given["source"] and options.parse("from", PAIRS, given["source"])
    if source is not None and model is None and "heads" not in heads:
        spec = carried_spec(file.path, file.metadata) or {}
        layout = spec.get("parameters", {}).get("layout", source)
        if layout != source:
            why = ": one column per pair, and nothing to move" if layout == "compact" else ""
            raise ParameterError(
                "from", repr(source), f"the spec of {file.path} says {layout}{why}"
            )
    others = {
        "layer_type": given["layer_type"],
        "include": given["include"] or (),
        "dtype": given["dtype"],
    }
    return converted(file.tensors, file.path, source, given["to"], model, **others, **heads)


def _save(
    file: LoadedFile, made: Converted, path: str, is_whole: bool, is_changed: bool, on_block: OnBlock, *, header: bool
) -> None:  # fmt: skip
    """Write it all; a checkpoint whose dtypes stay keeps every other byte, in the same order."""
    same = format_of(path).name == file.format == "safetensors" and is_whole and not made.cast
    if same and (not made.moves or KEY not in file.metadata):
        from pecli.files.safetensors import write_copy

        changed = {name: made.table(name) for name in made.moves}
        assert file.contents is not None
        write_copy(path, file.contents, file.tensors, changed, on_block)
        return
    texts = {name: text for name, text in file.metadata.items() if name != KEY}
    spec = None if is_changed else carried_spec(file.path, file.metadata)
    spec = {name: value for name, value in spec.items() if name != "sha256"} if spec else None
    tables = [made.table(name) for name in made.arrays]
    save_tables(path, tables, spec, metadata=texts, on_block=on_block, header=header)


def _assumed(made: Converted) -> dict[str, Any] | None:
    """What was assumed about the heads; None where columns were moved, or nothing."""
    heads, weights = made.heads, made.moved
    if heads is None or not weights:
        return None
    whose = f"as {heads.model or 'the command line'} has it"
    if heads.given:
        whose += f", {', '.join(map(option_name, heads.given))} as the command line has it"
    return {
        **{name: getattr(heads, name) for name in ("heads", "kv_heads", "head_dim", "trailing")},
        "rotary_dim": heads.rotary_dim or heads.head_dim,
        "fused": sorted(
            {heads.order(weight) for weight in weights if heads.named(weight).kind == "qkv"}
        ),
        "model": heads.model or None,
        "text": f"{heads.words(weights)} ({whose})",
    }


def _proof(made: Converted, checked: ScoreCheck) -> dict[str, Any]:
    heads = made.heads
    assert heads is not None
    confirmed = heads.model and "heads" not in heads.given
    whose = (
        f"of {heads.model}" if confirmed else "given on the command line, which no model confirms"
    )
    given = f"if the input is {made.source}, as --from says"
    text = f"{counted(checked.layers, 'layer')} with the {heads.heads} heads {whose}, {given}"
    if checked.unpaired:
        text += f"; not checked, for lack of queries or keys beside them: {listed(checked.unpaired, MAX_LISTED)}"
    return {"layers": checked.layers, "unpaired": checked.unpaired, "proves": text}
