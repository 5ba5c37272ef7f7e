"""Flags of text-generation-webui beside `--loader transformers`.

It passes one `rope_scaling` on to transformers, which replaces that of config.json: the linear one
for `compress_pos_emb`, or else the dynamic one for alpha. Numbers up to 1 state nothing.
"""

from pecli.models.encoding import Encoding
from pecli.models.flag_report import FlagProblem
from pecli.models.flags.changed_encoding import Parameters, with_parameters
from pecli.models.flags.flag_findings import Findings, warn_of_replaced_scaling
from pecli.models.flags.servers import Meaning
from pecli.models.flags.values import FlagSettings
from pecli.models.key_names import LENGTH
from pecli.models.keys import Setting, only_if, positive, setting_from_key, value_of

LOADER = "transformers"
#: The context that transformers' configurations have by default.
DEFAULT_CONTEXT = 2048
#: The base that text-generation-webui compares a stated base with, whatever the model's own is.
LLAMA_BASE = 10000.0
#: Its exponent, which gives the alpha of a base for heads of 128 channels: (d − 2) / d = 126 / 128.
ALPHA_EXPONENT = 63 / 64


def is_chosen(settings: FlagSettings) -> bool:
    """Return True if the flags choose transformers to load the model."""
    return value_of(settings.get(Meaning.LOADER)) == LOADER


def apply_flags_of_loader(
    encoding: Encoding, settings: FlagSettings, findings: Findings, trained_context: int | None
) -> Encoding:
    """Return an encoding with the scaling that text-generation-webui passes on to transformers.

    Args:
        encoding: The model's encoding.
        settings: The values of the flags, by their meanings.
        findings: Where warnings are added.
        trained_context: The context that the model declares.
    """
    parameters = _scaling_of_flags(settings, findings, trained_context)
    if parameters is None:
        return encoding
    if encoding.parameters["scaling"] != "none":
        warn_of_replaced_scaling(findings, parameters["scaling"].source, encoding)
    return with_parameters(encoding, parameters)


def _scaling_of_flags(
    settings: FlagSettings, findings: Findings, trained_context: int | None
) -> Parameters | None:
    """Return the scaling that flags state: linear, dynamic, or None.

    `compress_pos_emb 4` is linear scaling by 4. Only without it does text-generation-webui look at
    alpha, which is dynamic scaling. Only with alpha does it look at a base. Warnings about flags that
    have no effect are added to the findings.
    """
    compression = _above_one(settings, Meaning.FACTOR)
    alpha = _above_one(settings, Meaning.ALPHA)
    base = positive(settings.get(Meaning.BASE))  # 0 stands for the model's own.
    if compression is not None:
        reason = f"the loader {LOADER} takes one scaling, that of {compression.source}"
        _warn_of_ignored((alpha, base), reason, findings)
        return {"scaling": compression.with_value("linear"), "factor": compression}
    if alpha is not None:
        return _dynamic_scaling(alpha, base, trained_context)
    _warn_of_ignored((base,), f"the loader {LOADER} takes a base only beside alpha", findings)
    return None


def _above_one(settings: FlagSettings, meaning: Meaning) -> Setting[float] | None:
    """Return a factor or an alpha above 1; None for any other, which states nothing."""
    return only_if(settings.get(meaning), lambda number: number > 1)


def _warn_of_ignored(
    flags: tuple[Setting[float] | None, ...], reason: str, findings: Findings
) -> None:
    """Warn that flags have no effect."""
    for flag in flags:
        if flag is not None:
            findings.warn(FlagProblem.IGNORED, f"{flag.source} has no effect: {reason}")


def _dynamic_scaling(
    alpha: Setting[float], base: Setting[float] | None, trained_context: int | None
) -> Parameters:
    """Return transformers' dynamic scaling (NTK), which multiplies the base as the text gets longer.

    Args:
        alpha: The factor of the scaling, if no base is given.
        base: A base, from which the program computes the factor instead.
        trained_context: The context that the model declares.
    """
    factor = alpha
    if base is not None:
        # NTK by alpha makes the base 10,000 · alpha^(64/63), for heads of 128 channels. Solved for
        # alpha, a base of 20,000 is a factor of (20,000 / 10,000)^(63/64) = 1.98.
        factor_of_base = (base.value / LLAMA_BASE) ** ALPHA_EXPONENT
        factor = base.implying(factor_of_base, f"{base.source} {base.value:.10g}")
    return {
        "scaling": alpha.implying("dynamic", f"{alpha.source} with the loader {LOADER}"),
        "factor": factor,
        LENGTH: setting_from_key(trained_context or DEFAULT_CONTEXT, "max_position_embeddings"),
    }
