"""Warnings about a server whose runtime computes something else than a config.json with its flags."""

from pecli.engine.runtimes import runtime_named
from pecli.errors import NoScalingError, UnsupportedError
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.flag_report import FlagProblem
from pecli.models.flags.flag_findings import EncodingsWithFlags, Findings
from pecli.models.flags.servers import Server
from pecli.models.runtime_rope import Served, describe_rows, rope_of_runtime


def warn_of_runtime_departures(
    model: ModelEncodings, applied: EncodingsWithFlags, server: Server, findings: Findings
) -> None:
    """Warn if the runtime of a server departs from what its flags make of config.json.

    vLLM passes `{"rope_type": "dynamic", …}` on, but its tables have the base of factor 1. This is
    what `pecli runtimes` states about the model with the flags.

    Args:
        model: The model without flags.
        applied: Its encodings with the flags.
        server: The server; if it has no runtime, its flags are applied by its own rules.
        findings: Where the warnings are added.
    """
    if not server.runtime or applied.context is None:
        return
    served = Served(model.context, applied.context)
    for encoding in applied.encodings:
        if encoding.is_rope_of_text and not encoding.no_table:
            _warn(server, _list_departures(encoding, server.runtime, served), findings)


def _list_departures(encoding: Encoding, runtime: str, served: Served) -> list[str]:
    """Return why a runtime departs from the definition of an encoding; empty if it does not.

    The end of its table is stated beside a cause, such as «its table ends at position 4,095».
    Without a cause, there is a warning about the context already. A scaling that the description of
    the runtime does not cover is no departure.
    """
    try:
        read = rope_of_runtime(encoding, runtime, served)
    except NoScalingError:
        return []
    except UnsupportedError as lacking:
        return [lacking.rule]
    departures = list(read.causes)
    if departures and read.rows is not None:
        departures.append(describe_rows(read.rows))
    if read.short_prompts:
        departures.append(read.short_prompts)
    return departures


def _warn(server: Server, departures: list[str], findings: Findings) -> None:
    """Warn of the departures of a server's runtime, if it has any."""
    version = runtime_named(server.runtime).version
    reasons = "; ".join(departures)
    if reasons:
        sentence = f"{server.name} ({version}) does not compute this encoding as defined: {reasons}"
        findings.warn(FlagProblem.DEPARTS, sentence)
