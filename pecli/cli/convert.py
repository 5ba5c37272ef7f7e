"""`pecli convert`: pairs to another layout, numbers to another dtype, tables to another format."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from pecli.cli import options
from pecli.cli.answers import print_answer
from pecli.cli.commands import command
from pecli.cli.messages import Exit, option_name, print_note
from pecli.engine.arrays import SIGNIFICAND_BITS
from pecli.errors import ParameterError, counted, listed
from pecli.files import format_of, save_tables
from pecli.files.contents import LoadedFile, carried_spec
from pecli.files.output import KEY, is_stream
from pecli.files.writing import OnBlock
from pecli.tensors.conversion import Converted, ScoreCheck
from pecli.tensors.convert import DTYPE, HEAD_RULES, MAX_LISTED, PAIRS, converted
from pecli.tensors.head_layout import ORDERS, HeadDivision
from pecli.tensors.inputs import open_file
from pecli.views import progress, screen

_PAIR_OPTIONS = "Layout of pairs"
"""The group of options below which `--help` lists them."""
_DTYPE_HELP = f"Cast floating tensors to {', '.join(SIGNIFICAND_BITS)}, rounding once."
_FROM_HELP = "The current layout: halves (NeoX, rotate_half), interleaved (GPT-J) or deepseek."
_MODEL_HELP = "Take heads, their size, the rotary dimension and fused rows from a model."
_HEADS_HELP = "Query heads: rows of projections move; without it or a model, columns."
_FUSED_HELP = (
    "Rows of a fused projection: all q, all k, all v; or q, k, v of each key head; "
    "or CodeGen's shards."
)
_INCLUDE_HELP = "Tensors to change, such as '*.q_proj.*'; may be repeated."


@command(
    options.argument("file", "FILE", "A file, or FILE:NAME for one tensor of it."),
    options.output("Where to write; the suffix selects the format. (required)", None),
    options.text("--dtype", "NAME", _DTYPE_HELP, rule=DTYPE),
    options.text("--from", "NAME", _FROM_HELP, _PAIR_OPTIONS, name="source"),
    options.text("--to", "NAME", "The new layout: one of the same.", _PAIR_OPTIONS, rule=PAIRS),
    *options.model_options(
        _MODEL_HELP, _PAIR_OPTIONS, "Layers of this type, if heads of a model differ."
    ),
    options.text("--heads", "INTEGER", _HEADS_HELP, _PAIR_OPTIONS),
    options.text(
        "--kv-heads", "INTEGER", "Key heads. (default: from the rows of the keys)", _PAIR_OPTIONS
    ),
    options.text(
        "--head-dim",
        "INTEGER",
        "Channels of a head. (default: rows of the queries / heads)",
        _PAIR_OPTIONS,
    ),
    options.text(
        "--rotary-dim",
        "INTEGER",
        "Rotary dimension of a head. (default: all channels)",
        _PAIR_OPTIONS,
    ),
    options.flag(
        "--trailing", "Rotate the trailing channels of a head, not the first.", _PAIR_OPTIONS
    ),
    options.text("--fused", f"[{'|'.join(ORDERS)}]", _FUSED_HELP, _PAIR_OPTIONS),
    options.text("--include", "PATTERN", _INCLUDE_HELP, _PAIR_OPTIONS, several=True),
    options.flag(
        "--check", "Check on random inputs that attention scores are unchanged.", _PAIR_OPTIONS
    ),
    *options.RAW,
    options.NO_HEADER,
    *options.WORK,
)
def convert(
    file: str, output: str | None, check: bool, json: bool, quiet: bool, **values: object
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
    # `values` has the options that are no parameters here, by name: `--from` is "source".
    _check_destination(output, check=check, json=json)
    loaded = open_file(file)
    result = _convert_by_options(loaded, values)
    score_check = result.check() if check else None
    conversion = _Conversion(loaded, result, score_check, is_whole=file in (loaded.path, "-"))
    written_path: str | None = None
    if output is not None and conversion.keeps_scores:
        _save_with_progress(conversion, output, {**values, "quiet": quiet})
        written_path = output
    answer_as_json = partial(_as_json, conversion, written_path)
    show_answer = partial(_show, conversion, written_path)
    print_answer(answer_as_json, show_answer, json=json, quiet=quiet)
    return Exit.of(conversion.keeps_scores)


def _check_destination(output: str | None, *, check: bool, json: bool) -> None:
    """Raise ParameterError unless there is a file to write, or the conversion is only checked."""
    if output is not None:
        options.check_output(output, json=json)
    elif not check:
        rule = "a conversion is written to a file"
        raise ParameterError("output", "missing", rule, "give -o FILE")


def _save_with_progress(job: _Conversion, path: str, values: options.Values) -> None:
    """Write the tensors, with a progress bar if there is a terminal and they are large."""
    total = sum(array.nbytes for array in job.file.tensors.values())
    shows_progress = options.shows_progress(values)
    with progress.counting("convert", total, wanted=shows_progress) as advance:
        _save_tensors(job, path, advance, header=not values["no_header"])


class _Conversion(NamedTuple):
    """A file, and what became of it."""

    file: LoadedFile
    result: Converted
    score_check: ScoreCheck | None
    is_whole: bool  #: False if the user named one tensor of the file

    @property
    def keeps_scores(self) -> bool:
        """False if `--check` found that attention scores change: then nothing is written."""
        return self.score_check is None or self.score_check.passed

    @property
    def is_changed(self) -> bool:
        """True if the output does not hold all tensors of the file, unchanged."""
        return bool(self.result.moves or self.result.cast) or not self.is_whole

    @property
    def loses_spec(self) -> bool:
        """True if the file carries a spec that no longer describes its tensors."""
        return self.is_changed and KEY in self.file.metadata


def _convert_by_options(file: LoadedFile, values: options.Values) -> Converted:
    """Return the tensors of a file in another layout of pairs, another dtype, or both.

    With `--heads` or a model, the tensors are weights of q and k, whose rows are reordered.
    Without, they are cos and sin tables, whose columns are reordered.

    Args:
        file: The file.
        values: The options of the command.
    """
    head_options = options.parsed(HEAD_RULES, values)
    model = options.model_name(values)
    old_layout = None  # Without `--from`, nothing is reordered.
    if values["source"]:
        old_layout = options.parse("from", PAIRS, values["source"])
        are_tables = model is None and "heads" not in head_options
        if are_tables:
            # A table of pecli's states its layout, which `--from` must not contradict.
            _check_layout(file, old_layout)
    return converted(
        file.tensors,
        file.path,
        source=old_layout,
        target=values["to"],
        model=model,
        layer_type=values["layer_type"],
        include=values["include"],
        dtype=values["dtype"],
        **head_options,  # such as the numbers of heads, which replace the model's
    )


def _check_layout(file: LoadedFile, from_layout: str) -> None:
    """Raise ParameterError if the spec of a table, its parameters, has another layout than `--from`."""
    spec = carried_spec(file.path, file.metadata) or {}
    layout = spec.get("parameters", {}).get("layout", from_layout)
    if layout == from_layout:
        return
    rule = f"the spec of {file.path} says {layout}"
    if layout == "compact":
        rule += ": one column per pair, and nothing to move"
    raise ParameterError("from", repr(from_layout), rule)


def _save_tensors(job: _Conversion, path: str, on_block: OnBlock, *, header: bool) -> None:
    """Write the converted tensors.

    A .safetensors file whose dtypes stay is copied, so that every byte of other tensors is kept.
    Otherwise the file is written anew. The spec that it carries, the parameters that its tables were
    made with, stays if no value has changed.
    """
    if _keeps_other_bytes(job, path):
        _save_copy(job, path, on_block)
        return
    tables = [job.result.table(name) for name in job.result.arrays]
    other_metadata = options.without(job.file.metadata, (KEY,))
    spec = None if job.is_changed else _spec_without_digest(job.file)
    save_tables(path, tables, spec, metadata=other_metadata, on_block=on_block, header=header)


def _keeps_other_bytes(job: _Conversion, path: str) -> bool:
    """Return True if a file can be copied with only the moved tensors changed.

    A spec that the file carries describes its tensors: it would be wrong if some of them moved.
    """
    is_same_format = format_of(path).name == job.file.format == "safetensors"
    keeps_dtypes = not job.result.cast
    keeps_spec = not job.result.moves or KEY not in job.file.metadata
    return is_same_format and job.is_whole and keeps_dtypes and keeps_spec


def _save_copy(job: _Conversion, path: str, on_block: OnBlock) -> None:
    """Copy a .safetensors file, with the tensors that moved in their places."""
    from pecli.files.safetensors import write_copy

    changed = {name: job.result.table(name) for name in job.result.moves}
    assert job.file.contents is not None
    write_copy(path, job.file.contents, job.file.tensors, changed, on_block)


def _spec_without_digest(file: LoadedFile) -> dict[str, object] | None:
    """Return the spec of a file; the SHA-256 is computed again when it is written."""
    spec = carried_spec(file.path, file.metadata)
    if not spec:
        return None
    return options.without(spec, ("sha256",))


def _as_json(job: _Conversion, written: str | None) -> dict[str, object]:
    """Return a conversion for JSON; `written` is the output, or None if nothing was written."""
    answer: dict[str, object] = {
        "file": job.file.path,
        "output": written,
        "moved": list(job.result.moves),
        "cast": job.result.cast,
        "tensors": len(job.result.arrays),
        "assumed": _assumptions_about_heads(job.result),
        "score_change": None,
        "checked": None,
    }
    check = job.score_check
    if check is not None:
        answer["score_change"] = check.change
        answer["checked"] = _meaning_of_check(job.result, check)
    return answer


def _show(job: _Conversion, written: str | None) -> None:
    """Print the file that was written (None if nothing was), and what is known about it."""
    print_remark: Callable[[str], None] = screen.print_line
    if written is not None:
        screen.print_written(written, f"{_counts(job.result)}, ")
        if is_stream(written):
            print_remark = print_note  # standard output holds the data
    for line in _remark_lines(job):
        print_remark(line)


def _counts(result: Converted) -> str:
    """Return the number of tensors, and how many of them were changed: «8 tensors (4 moved)»."""
    tensors = counted(len(result.arrays), "tensor")
    changes: list[str] = []
    if result.moves:
        changes.append(f"{len(result.moves):,} moved")
    if result.cast:
        changes.append(f"{len(result.cast):,} cast to {result.dtype}")
    if not changes:
        return tensors
    return f"{tensors} ({', '.join(changes)})"


def _remark_lines(job: _Conversion) -> list[str]:
    """Return lines about a conversion: its assumptions, the check of scores, and a spec that it lost."""
    lines: list[str] = []
    assumed = _assumptions_about_heads(job.result)
    if assumed:
        lines.append(f"assumed: {assumed['text']}")
    if job.score_check is not None:
        lines += _check_lines(job.result, job.score_check)
    if job.loses_spec:
        lines.append("the spec of the file no longer holds and was left out")
    return lines


def _check_lines(result: Converted, check: ScoreCheck) -> list[str]:
    """Return the outcome of `--check` in one line, and if it passed, its meaning in another."""
    change = f"max relative change {check.change:.1g}"
    scores = "attention scores before and after"
    if not check.passed:
        return [f"{scores} are NOT the same, nothing was written: {change}"]
    meaning = _meaning_of_check(result, check)
    return [f"{scores} are the same: {change}", f"proved for {meaning['proves']}"]


def _assumptions_about_heads(result: Converted) -> dict[str, object] | None:
    """Return the assumptions about the heads of weights, for JSON and for a line of text.

    None if the conversion assumed nothing about heads: it moved columns of a table, or nothing.
    """
    heads = result.heads
    weights = result.moved
    if heads is None or not weights:
        return None
    return {
        "heads": heads.heads,
        "kv_heads": heads.kv_heads,
        "head_dim": heads.head_dim,
        "trailing": heads.trailing,
        "rotary_dim": heads.rotary_dim or heads.head_dim,
        "fused": sorted(heads.fused_orders(weights)),
        "model": heads.model or None,
        "text": f"{heads.description(weights)} ({_source_of_heads(heads)})",
    }


def _source_of_heads(heads: HeadDivision) -> str:
    """Return the source of the numbers of heads: a model, the command line, or both."""
    source = f"as {heads.model or 'the command line'} has it"
    if heads.given:
        names = ", ".join(map(option_name, heads.given))
        source += f", {names} as the command line has it"
    return source


def _meaning_of_check(result: Converted, check: ScoreCheck) -> dict[str, object]:
    """Return what a passed `--check` proves, for JSON, with a sentence for `proves`.

    The check compares attention scores before and after a conversion. A wrong `--heads` or `--from`
    changes both alike and is not found. So the sentence names these two assumptions: «2 layers with
    the 8 heads of m.json, if the input is halves, as --from says».
    """
    layers = counted(check.layers, "layer")
    heads = _heads_with_source(result)
    sentence = f"{layers} with the {heads}, if the input is {result.source}, as --from says"
    if check.unpaired:
        names = listed(check.unpaired, MAX_LISTED)
        sentence += f"; not checked, because queries or keys are missing beside them: {names}"
    return {"layers": check.layers, "unpaired": check.unpaired, "proves": sentence}


def _heads_with_source(result: Converted) -> str:
    """Return «8 heads of m.json», or «8 heads given on the command line, which no model confirms»."""
    division = result.heads
    assert division is not None  # Only weights of heads have scores to check.
    is_overridden = "heads" in division.given
    if division.model and not is_overridden:
        return f"{division.heads} heads of {division.model}"
    return f"{division.heads} heads given on the command line, which no model confirms"
