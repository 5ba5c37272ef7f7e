"""Tables of runtimes, and the settings of a longer context, as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pecli.checks.extension import SAME_WAVELENGTH, Extension
from pecli.checks.runtimes import RuntimeComparison, RuntimeResult
from pecli.errors import counted, number, spanned
from pecli.models.runtime_rope import describe_rows
from pecli.views import screen
from pecli.views.screen import Styled


def show_runtimes(comparison: RuntimeComparison) -> None:
    """Print a line per runtime and layer type, and a conclusion.

    The conclusion names the runtimes that deviate for any layer type: «Not as defined: vllm
    (tolerance 0.001).»
    """
    title = f"{comparison.model}, served with a context of {comparison.length:,}"
    screen.print_styled(Styled(title, "bold"))
    departing: dict[str, None] = {}
    for layer_type, results in comparison.layers.items():
        if layer_type:
            screen.print_heading(layer_type)
        _print_runtimes(results)
        departing |= dict.fromkeys(result.runtime for result in results if result.departs)
    screen.print_line()
    if departing:
        names = ", ".join(departing)
        screen.print_line(f"Not as defined: {names} (tolerance {comparison.tolerance:g}).")
    else:
        screen.print_line("All agree up to float32 rounding.")


def _print_runtimes(results: Sequence[RuntimeResult], indent: str = "") -> None:
    """Print a verdict per runtime, with its reasons below it."""
    labels = [f"{result.runtime} ({result.version})" for result in results]
    width = max(map(len, labels))
    for result, label in zip(results, labels, strict=True):
        screen.print_styled(
            Styled(f"{indent}{label:<{width}}  "),
            _verdict_on_runtime(result),
            Styled(_rounding(result)),
        )
        for reason in _reasons(result):
            screen.print_wrapped(f"{indent}  {reason}")


def _reasons(result: RuntimeResult) -> list[str]:
    """Return the sentences below a verdict: what a runtime lacks, why it deviates, and its limits."""
    reasons = [result.lacks] if result.lacks else []
    reasons += result.causes
    if result.rows is not None:
        reasons.append(describe_rows(result.rows))
    reasons += result.notes
    return reasons


def _verdict_on_runtime(result: RuntimeResult) -> Styled:
    """Return in words how far a runtime's table is from the model's definition, in a colour.

    It is red without a table, yellow beyond the tolerance, and green within it. Deviations are
    those of what the runtime reads differently. Rounding to float32 is shown in another column.
    """
    if result.lacks:  # There is no table at all.
        return Styled("lacks it" if result.no_scaling else "not computed", "red")
    deviation = f"deviates by up to {number(result.departure, 2)}"
    exceeds_tolerance = result.first_beyond is not None
    if exceeds_tolerance:
        return Styled(f"{deviation}, {_beginning(result)}", "yellow")
    reads_differently = bool(result.causes)  # with an effect within the tolerance
    if reads_differently:
        return Styled(deviation, "green")
    is_wrong_for_short_prompts = bool(result.short_prompts)
    if is_wrong_for_short_prompts:
        # One longrope table, that of the served context, is used for prompts of all lengths.
        return Styled("as defined for long prompts", "green")
    return Styled("as defined", "green")


def _beginning(result: RuntimeResult) -> str:
    """Return where a deviation beyond the tolerance begins: «from position 8,192, pairs 29–34»."""
    first_pair, last_pair = result.pairs or (0, 0)
    return f"from position {result.first_beyond:,}, {spanned('pair', first_pair, last_pair)}"


def _rounding(result: RuntimeResult) -> str:
    """Return the error of float32 after the verdict of a runtime that does not deviate."""
    if result.lacks or result.first_beyond is not None:
        return ""
    return f"; float32 off by up to {number(result.max_abs_error, 2)}"


def show_extension(extension: Extension) -> None:
    """Print how to serve a model with a longer context: settings, runtimes that honour them, effect."""
    screen.print_styled(Styled(_extension_title(extension), "bold"))
    if extension.reason:
        screen.print_wrapped(extension.reason)
    for file, settings in _settings_by_file(extension).items():
        if settings:
            screen.print_heading(file)
            screen.print_line(f"  {settings}")
    screen.print_heading("runtimes")
    _print_runtimes(extension.runtimes, "  ")
    screen.print_line()
    if not extension.is_as_it_is:
        screen.print_line(_wavelengths(extension))
    for note in extension.notes:
        screen.print_wrapped(note)


def _extension_title(extension: Extension) -> str:
    """Return «qwen2.5-7b: 32,768 → 131,072 positions by yarn, factor 4»."""
    if extension.is_as_it_is:
        return f"{extension.model}: {extension.to:,} positions, as it is"
    lengths = f"{extension.longest:,} → {extension.to:,} positions"
    method = f"{extension.method}, factor {extension.factor:g}"
    title = f"{extension.model}: {lengths} by {method}"
    if extension.longest != extension.original:
        # The factor stretches the original context, not the one that a scaling gives already.
        title += f" of the original {extension.original:,}"
    return title


def _settings_by_file(extension: Extension) -> dict[str, str]:
    """Return the settings of a longer context by the file or runtime that they are for.

    Each is in the spelling of its file; it is empty if the file cannot express the settings.
    """
    config_name = "mlc-chat-config.json" if extension.is_mlc else "config.json"
    gguf_lines = [f"ARCH.{key} = {value}" for key, value in extension.gguf.items()]
    return {
        config_name: _members(extension.config),
        "config.json, transformers 5": _members(extension.newer_config),
        **extension.commands,
        "GGUF": ", ".join(gguf_lines),
    }


def _members(config: Mapping[str, object]) -> str:
    """Return JSON without its braces, to be pasted into an object: «"rope_theta": 10000.0»."""
    return json.dumps(config)[1:-1]


def _wavelengths(extension: Extension) -> str:
    """Return «20 wavelengths kept, 16 stretched by less than 4×, 28 by 4×».

    With dynamic scaling by 4, it ends with «29 by 4.16× to 13×».
    """
    counts = extension.wavelengths()
    kept = counted(counts.kept, "wavelength")
    factor = f"{extension.factor:g}×"
    factors_of_stretched = factor
    if counts.largest > extension.factor * (1 + SAME_WAVELENGTH):
        factors_of_stretched = f"{number(counts.smallest, 3)}× to {number(counts.largest, 3)}×"
    return (
        f"{kept} kept, {counts.blended} stretched by less than {factor}, "
        f"{counts.stretched} by {factors_of_stretched}"
    )
