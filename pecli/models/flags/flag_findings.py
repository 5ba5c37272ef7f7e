"""Mistakes of flags, and settings that they are equivalent to."""

from dataclasses import dataclass, field
from typing import NamedTuple

from pecli.models.encoding import Encoding
from pecli.models.flag_report import FlagProblem, FlagWarning


@dataclass
class Findings:
    """Warnings and equivalents, collected while flags are applied."""

    #: Warnings and notes are keys, in order: a model with several layer types has most problems in
    #: each of them, and they are reported once.
    warnings: dict[FlagWarning, None] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)

    def warn(self, problem: FlagProblem, text: str) -> None:
        self.warnings[FlagWarning(problem, text)] = None

    def note(self, text: str) -> None:
        self.notes[text] = None


class EncodingsWithFlags(NamedTuple):
    """The encodings after flags were applied.

    Attributes:
        encodings: All encodings of the model.
        context: The context that is served.
        warnings: Warnings about the configuration, with the flags that replace keys of it.
        notes: Notes about the configuration that are still true with the flags. Servers of .gguf
            files, which do not read the keys of a config.json, have none.
    """

    encodings: tuple[Encoding, ...]
    context: int | None
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()


def warn_of_inverted_scale(findings: Findings, source: str, scale: float, meant: float) -> None:
    """Warn that a flag speeds positions up where slowing them down is meant.

    Args:
        findings: Where the warning is added.
        source: The flag as it was typed.
        scale: Its value.
        meant: The value that stretches the context by as much.
    """
    speed = max(scale, 1 / scale)
    sentence = f"{source} {scale:g} speeds positions up by {speed:g}; {meant:g} is meant"
    findings.warn(FlagProblem.INVERTED, sentence)


def warn_of_replaced_scaling(findings: Findings, source: str, before: Encoding) -> None:
    """Warn that a flag replaces a scaling that the model was trained with."""
    parameters = before.parameters
    model_scaling = parameters["scaling"]
    factor = parameters.get("factor")
    details = "" if factor is None else f", factor {factor:g}"
    sentence = f"{source} replaces the model's own scaling ({model_scaling}{details})"
    findings.warn(FlagProblem.REPLACED, sentence)
