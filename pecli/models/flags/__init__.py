"""Server flags: what a command line makes of a model's encodings, and what is wrong with it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pecli.engine.named_values import NamedValues, required
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.flag_report import FlagProblem, FlagReport, ParameterChange
from pecli.models.flags.command_line import parse_command_line
from pecli.models.flags.departing_runtime import warn_of_runtime_departures
from pecli.models.flags.exllama import apply_exllama_flags
from pecli.models.flags.flag_findings import EncodingsWithFlags, Findings
from pecli.models.flags.ggml import apply_ggml_flags, apply_koboldcpp_flags
from pecli.models.flags.overrides import apply_overrides
from pecli.models.flags.servers import Meaning, ReadFlag, Server, bare_names, server_of
from pecli.models.flags.values import NO_KEYS, FlagSettings, settings_of
from pecli.models.key_names import ORIGINAL


def apply_flags(model: ModelEncodings, config: NamedValues | None, text: str) -> ModelEncodings:
    """Return the encodings that a server computes for a model with the flags of a command line.

    Args:
        model: The model without the flags.
        config: Its configuration, of which vLLM, SGLang and transformers replace keys; None if
            there is none.
        text: A command line, or a part of it.

    Returns:
        The model with changed encodings. Its `flags` report what differs and what is wrong, and
        its warnings include the latter.

    Raises:
        ParameterError: A flag is wrong, or the server is unknown.
    """
    command_line = parse_command_line(text, bare_names())
    server = server_of(command_line)
    flags = server.read(command_line)
    settings = settings_of(flags)
    findings = Findings()  # Each step adds warnings and notes about the flags.
    _warn_of_removed_flags(flags, server, findings)
    applied = _apply_by_engine(model, config, settings, server, findings)
    _warn_of_smaller_base(model, applied, findings)
    _warn_of_long_context(model, applied, settings, server, findings)
    warn_of_runtime_departures(model, applied, server, findings)
    return _with_report(model, applied, server, findings)


def _with_report(
    model: ModelEncodings, applied: EncodingsWithFlags, server: Server, findings: Findings
) -> ModelEncodings:
    """Return a model with the encodings that flags make, and with a report on the flags.

    Args:
        model: The model without the flags.
        applied: Its encodings with the flags.
        server: The server.
        findings: The warnings and notes about the flags.
    """
    report = FlagReport(
        server=server.name,
        version=server.version,
        changes=tuple(_changes(model, applied.encodings)),
        warnings=tuple(findings.warnings),
        notes=tuple(findings.notes),
    )
    warnings_about_flags = [warning.text for warning in findings.warnings]
    warnings = [*applied.warnings, *warnings_about_flags]
    return replace(
        model,
        encodings=applied.encodings,
        context=applied.context,
        warnings=tuple(dict.fromkeys(warnings)),
        notes=applied.notes,
        flags=report,
    )


def _apply_by_engine(
    model: ModelEncodings,
    config: NamedValues | None,
    settings: FlagSettings,
    server: Server,
    findings: Findings,
) -> EncodingsWithFlags:
    """Apply flags by the rules of the server's engine.

    llama.cpp and Ollama compute with ggml, TabbyAPI with exllama. vLLM, SGLang and transformers have
    no engine here: their flags replace keys of config.json.

    Args:
        model: The encodings without flags.
        config: The configuration, whose keys some flags replace; None if there is none.
        settings: The values of the flags, by their meanings.
        server: The server.
        findings: Where warnings and notes are added.
    """
    match server.engine:
        case "ggml":
            return apply_ggml_flags(model, settings, findings)
        case "koboldcpp":
            return apply_koboldcpp_flags(model, settings, findings)
        case "exllama":
            return apply_exllama_flags(model, settings, findings)
        case _:
            return apply_overrides(model, config, settings, server, findings)


def _warn_of_removed_flags(flags: Sequence[ReadFlag], server: Server, findings: Findings) -> None:
    """Warn of flags that newer versions of a server do not have: vLLM's `--rope-scaling`."""
    for flag, _ in flags:
        removal = server.removed.get(flag.key)
        if removal is not None:
            place = f"{server.name} {removal.version}"
            sentence = f"{flag.spelled} was removed in {place}; use {removal.instead}"
            findings.warn(FlagProblem.REMOVED, sentence)


def _warn_of_smaller_base(
    model: ModelEncodings, applied: EncodingsWithFlags, findings: Findings
) -> None:
    """Warn if flags replace the base of a model by a smaller one, unless its loss is reported already.

    `--rope-freq-base 10000` makes the slow pairs of Llama 3.1, whose base is 500000, turn faster than
    in training. A larger base stretches the context of a model (NTK scaling).

    Args:
        model: The model without flags.
        applied: Its encodings with the flags.
        findings: Where the warning is added.
    """
    if any(warning.problem is FlagProblem.BASE_LOST for warning in findings.warnings):
        return
    for before, after in _ropes_before_and_after(model, applied.encodings):
        base_before = before.parameters["base"]
        base_after = after.parameters["base"]
        if base_after < base_before:
            source = after.sources["base"]
            bases = f"{source} replaces the model's base {base_before:.10g} by {base_after:.10g}"
            reason = "pairs turn faster than in training; only a larger base stretches a context"
            findings.warn(FlagProblem.BASE_LOST, f"{bases}: {reason}")


def _ropes_before_and_after(
    model: ModelEncodings, encodings: Sequence[Encoding]
) -> list[tuple[Encoding, Encoding]]:
    """Return the rotary encodings of a model without and with flags, by layer type.

    A layer type that only flags make has the same encoding twice.
    """
    ropes_of_model = {rope.layer_type: rope for rope in model.ropes()}
    return [
        (ropes_of_model.get(encoding.layer_type, encoding), encoding)
        for encoding in encodings
        if encoding.is_rope_of_text
    ]


def _warn_of_long_context(
    model: ModelEncodings,
    applied: EncodingsWithFlags,
    settings: FlagSettings,
    server: Server,
    findings: Findings,
) -> None:
    """Warn if a flag requests a longer context than the model reaches with all flags.

    If it is not, a note may state what else the server needs: SGLang takes no context beyond
    `max_position_embeddings`, also with YaRN.

    Args:
        model: The model without flags.
        applied: Its encodings with the flags.
        settings: The values of the flags, of which one may be the served context.
        server: The server.
        findings: Where the warning or the note is added.
    """
    served = settings.get(Meaning.CONTEXT)
    trained = model.context
    if served is None or trained is None or served.value <= trained:
        return
    longest_context = _longest_context_with(model, applied.encodings)
    if served.value > longest_context:
        positions = _longest_context_in_words(longest_context, trained)
        consequence = server.effect_beyond_context
        sentence = f"{served.source} {served.value} is longer than {positions}; {consequence}"
        findings.warn(FlagProblem.BEYOND, sentence)
        return
    note = server.note_on_stretched_context  # Empty for servers that need nothing else.
    if note and not _states_context(settings):
        findings.note(note)


def _longest_context_in_words(longest_context: float, trained: int) -> str:
    """Return «the 4,096 positions that the model has», and whether flags stretch them."""
    cause = ", and nothing stretches them" if longest_context == trained else " with these flags"
    return f"the {longest_context:,} positions that the model has{cause}"


def _states_context(settings: FlagSettings) -> bool:
    """Return True if flags also replace the trained context that the model states."""
    config = settings.get(Meaning.CONFIG, NO_KEYS).value
    metadata = settings.get(Meaning.METADATA, NO_KEYS).value
    keys = (*config, *metadata)
    return any(key.endswith(("max_position_embeddings", "context_length")) for key in keys)


def _longest_context_with(model: ModelEncodings, encodings: Sequence[Encoding]) -> float:
    """Return the longest context that a model reaches with flags; infinity if there is no limit.

    A model of 4,096 positions reaches 16,384 with YaRN by 4. The layers that are stretched most
    decide: those of Gemma 3 with a sliding window are not.
    """
    context = required(model.context)
    contexts: list[float] = [context]
    for before, after in _ropes_before_and_after(model, encodings):
        contexts.append(_longest_context_of_layers(before, after, context))
    return max(contexts)


def _longest_context_of_layers(before: Encoding, after: Encoding, context: int) -> float:
    """Return the longest context that rotary layers reach; infinity if there is no limit.

    Scalings that follow the length of the prompt have none. YaRN by 4 from 8,192 positions reaches
    32,768.

    Args:
        before: Their encoding without flags.
        after: Their encoding with flags.
        context: The context that they were trained on.
    """
    scaling = after.parameters["scaling"]
    if scaling == "dynamic":  # Its frequencies follow the length.
        return math.inf
    if scaling == "yarn" and "factor" in after.parameters:
        return _yarn_reach(after, context)
    return _slowest_reach(before, after, context)


def _yarn_reach(encoding: Encoding, context: int) -> int:
    """Return the positions that YaRN is made for: factor times original length.

    Qwen3 states 40,960 positions, of which 8,192 are for the answer: YaRN by 4 from 32,768 reaches
    131,072, and not four times what the model states.
    """
    parameters = encoding.parameters
    original: int = parameters.get(ORIGINAL) or context
    factor: float = parameters["factor"]
    return round(factor * original)


def _slowest_reach(before: Encoding, after: Encoding, context: int) -> int:
    """Return the positions until the slowest pair has turned as far as it did in training.

    If its frequency is a quarter of what it was, there are four times as many positions.
    """
    slowest_before = required(before.inverse_frequencies())[-1]
    slowest_after = required(after.inverse_frequencies())[-1]
    if slowest_after <= 0:
        return 0
    return round(context * slowest_before / slowest_after)


def _changes(model: ModelEncodings, encodings: Sequence[Encoding]) -> Iterator[ParameterChange]:
    """Yield the parameters that differ from the model's own, with both values."""
    described_before = {encoding.layer_type: encoding.described() for encoding in model.encodings}
    for encoding in encodings:
        before = described_before.get(encoding.layer_type, {})
        after = encoding.described()
        for name in dict.fromkeys((*before, *after)):
            was = before.get(name)
            now = after.get(name)
            if was != now:
                source = encoding.sources.get(name, "")
                yield ParameterChange(encoding.layer_type, name, was, now, source)
