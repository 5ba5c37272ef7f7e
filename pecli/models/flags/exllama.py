"""Flags of exllamav2, and of TabbyAPI and text-generation-webui, which pass theirs on to it.

exllamav2 multiplies the base by alpha^(d / (d − 2)), and divides positions by the scale, beside
whatever scaling config.json has.
"""

from collections.abc import Sequence

from pecli.engine.named_values import required
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.flag_report import FlagProblem
from pecli.models.flags.changed_encoding import (
    Parameters,
    divisor_parameters,
    divisors_of_scaling,
    model_value,
    with_parameters,
)
from pecli.models.flags.flag_findings import (
    EncodingsWithFlags,
    Findings,
    warn_of_inverted_scale,
    warn_of_replaced_scaling,
)
from pecli.models.flags.larger_base import alpha_of_base, automatic_alpha, base_of_alpha
from pecli.models.flags.servers import Meaning
from pecli.models.flags.values import FlagSettings, served_context
from pecli.models.key_names import ORIGINAL
from pecli.models.keys import Setting, computed, only_if, positive, setting_from_key

#: The context that exllamav2 assumes for a configuration without one.
DEFAULT_CONTEXT = 2048
#: Scalings of config.json that a factor for positions (`compress_pos_emb`) replaces. Beside any other
#: scaling, such as YaRN, it is applied in addition.
REPLACED_SCALINGS = ("none", "linear")


def apply_exllama_flags(
    model: ModelEncodings, settings: FlagSettings, findings: Findings
) -> EncodingsWithFlags:
    """Apply flags to all rotary encodings of the language model.

    Args:
        model: The encodings without flags.
        settings: The values of the flags, by their meanings.
        findings: Where warnings and notes are added.
    """
    context = served_context(model.context, settings)
    settings = _with_automatic_alpha(settings, model.context, context)
    encodings = []
    for encoding in model.encodings:
        if encoding.is_rope_of_text:
            encoding = _with_flags(encoding, settings, findings, model.context)
        encodings.append(encoding)
    return EncodingsWithFlags(tuple(encodings), context, model.warnings, model.notes)


def _with_automatic_alpha(
    settings: FlagSettings, trained_context: int | None, context: int | None
) -> FlagSettings:
    """Replace TabbyAPI's `rope_alpha: auto` by the number that it computes for a context.

    A model of 4096 positions that serves 8192 is stretched by 2, for which the alpha is 2.63.
    """
    alpha = only_if(settings.get(Meaning.ALPHA), lambda value: value == "auto")
    if alpha is None:
        return settings
    served = context or 1
    stretch = served / (trained_context or served)
    automatic = computed(automatic_alpha(stretch), "{} auto", alpha)
    return {**settings, Meaning.ALPHA: automatic}


def _with_flags(
    encoding: Encoding, settings: FlagSettings, findings: Findings, trained_context: int | None
) -> Encoding:
    """Return an encoding as exllama computes it with flags.

    Flags first replace the base and the scaling. A factor for positions (`compress_pos_emb`)
    then divides the frequencies that result.

    Args:
        encoding: The model's encoding.
        settings: The values of the flags, by their meanings.
        findings: Where warnings and notes are added.
        trained_context: The context that the model declares.
    """
    base_and_yarn = _base_and_yarn(encoding, settings, findings, trained_context)
    uncompressed = with_parameters(encoding, base_and_yarn)
    factor = _number_unless_0_or_1(settings, Meaning.FACTOR)
    if factor is None:
        return uncompressed
    _report_compression(factor, findings)
    if Meaning.YARN_FACTOR not in settings:
        _warn_of_model_scaling(encoding, factor, findings)
    return with_parameters(uncompressed, _compressed_scaling(uncompressed, factor))


def _base_and_yarn(
    encoding: Encoding, settings: FlagSettings, findings: Findings, trained_context: int | None
) -> Parameters:
    """Return the base and the parameters of YaRN that flags state; empty if they state neither.

    Alpha (NTK scaling) stands for a larger base.

    Args:
        encoding: The model's encoding.
        settings: The values of the flags, by their meanings.
        findings: Where warnings and notes are added.
        trained_context: The context that the model declares.
    """
    parameters = _stated_base(encoding, settings, findings)
    if Meaning.YARN_FACTOR in settings:
        parameters |= _yarn_of_flag(encoding, settings, findings, trained_context)
    return parameters


def _number_unless_0_or_1(settings: FlagSettings, meaning: Meaning) -> Setting[float] | None:
    """Return a factor or an alpha; None if no flag states it, or for 0 and 1, which change nothing."""
    return only_if(settings.get(meaning), lambda number: number not in (0, 1))


def _stated_base(encoding: Encoding, settings: FlagSettings, findings: Findings) -> Parameters:
    """Return the base that flags state, directly or as alpha; empty if the model's own stays.

    Alpha is NTK scaling, which multiplies the base by alpha^(d / (d − 2)). For heads of d = 128
    channels, an alpha of 2 makes 20221 from 10000. A note states the alpha of a base, and the base
    of an alpha, since some programs have only one of these flags.
    """
    base = positive(settings.get(Meaning.BASE))  # 0 stands for the model's own.
    if base is not None:
        _note_alpha_of_base(encoding, base, findings)
        return {"base": base}
    alpha = _number_unless_0_or_1(settings, Meaning.ALPHA)
    if alpha is None:
        return {}
    return {"base": _base_of_alpha_flag(encoding, alpha, findings)}


def _note_alpha_of_base(encoding: Encoding, base: Setting[float], findings: Findings) -> None:
    """Add the alpha that makes a base of the model's own."""
    model_base = float(encoding.parameters["base"])
    dim = encoding.frequency_rope().rotary_dim
    alpha = alpha_of_base(model_base, base.value, dim)
    findings.note(f"{base.source} {base.value:.10g} is alpha {alpha:.4g} for heads of {dim}")


def _base_of_alpha_flag(
    encoding: Encoding, alpha: Setting[float], findings: Findings
) -> Setting[float]:
    """Return the base that alpha (NTK scaling) stands for.

    An alpha of 2 makes 20221 of 10000 for heads of 128 channels: 10000 · 2^(128/126).
    """
    model_base = float(encoding.parameters["base"])
    dim = encoding.frequency_rope().rotary_dim
    base = base_of_alpha(model_base, alpha.value, dim)
    findings.note(
        f"alpha {alpha.value:.6g} is theta {base:,.0f} for heads of {dim} with base {model_base:g}"
    )
    return alpha.implying(base, f"{alpha.source} {alpha.value:.6g}")


def _yarn_of_flag(
    encoding: Encoding, settings: FlagSettings, findings: Findings, trained_context: int | None
) -> Parameters:
    """Return YaRN with the factor of `--rope_yarn`; its original context is the model's own.

    A model of 32768 positions with a factor of 4 has betas of 32 and 1, and reaches 131072. If it
    has another scaling, that one is lost, which a warning reports.

    Args:
        encoding: The model's encoding.
        settings: The values of the flags, by their meanings.
        findings: Where the warning is added.
        trained_context: The context that the model declares; it counts if the encoding has no
            original context.
    """
    factor = settings[Meaning.YARN_FACTOR]
    has_other_scaling = encoding.parameters["scaling"] not in ("none", "yarn")
    if has_other_scaling:
        warn_of_replaced_scaling(findings, factor.source, encoding)
    original = encoding.parameters.get(ORIGINAL) or trained_context or DEFAULT_CONTEXT
    source_of_original = encoding.sources.get(ORIGINAL, "max_position_embeddings")
    return {
        "scaling": factor.with_value("yarn"),
        "factor": factor,
        ORIGINAL: setting_from_key(original, source_of_original),
        "beta_fast": Setting(32.0, "default"),
        "beta_slow": Setting(1.0, "default"),
    }


def _compressed_scaling(encoding: Encoding, factor: Setting[float]) -> Parameters:
    """Return the parameters of a scaling that also divides all positions by a factor.

    `compress_pos_emb: 4` is linear scaling by 4, if the encoding has no other scaling such as YaRN.
    """
    speeds_up = factor.value < 1  # Linear scaling cannot express this.
    if speeds_up or _keeps_scaling(encoding):
        return _divisors_on_top_of_scaling(encoding, factor)
    return {"scaling": factor.with_value("linear"), "factor": factor}


def _keeps_scaling(encoding: Encoding) -> bool:
    """Return True if a factor for positions is applied beside the scaling of an encoding."""
    return encoding.parameters["scaling"] not in REPLACED_SCALINGS


def _report_compression(factor: Setting[float], findings: Findings) -> None:
    """Add a note with llama.cpp's flag for a factor of positions; warn if it speeds them up."""
    rope_freq_scale = 1 / factor.value  # llama.cpp multiplies positions by its flag.
    if factor.value < 1:
        warn_of_inverted_scale(findings, factor.source, factor.value, rope_freq_scale)
    findings.note(f"{factor.source} {factor.value:g} is a rope-freq-scale of {rope_freq_scale:g}")


def _warn_of_model_scaling(encoding: Encoding, factor: Setting[float], findings: Findings) -> None:
    """Warn that a factor for positions replaces the model's linear scaling, or comes beside another.

    Args:
        encoding: The model's encoding.
        factor: The factor, with the flag that states it.
        findings: Where the warning is added.
    """
    model_scaling = encoding.parameters["scaling"]
    if model_scaling == "linear":
        warn_of_replaced_scaling(findings, factor.source, encoding)
    elif model_scaling != "none":
        sentence = (
            f"{factor.source} divides positions beside the model's own {model_scaling} scaling"
        )
        findings.warn(FlagProblem.STACKED, sentence)


def _divisors_on_top_of_scaling(encoding: Encoding, factor: Setting[float]) -> Parameters:
    """Return a divisor per frequency: the factor, times that of the encoding's own scaling."""
    scaling_divisors: Sequence[float] = [1.0] * (encoding.frequency_rope().rotary_dim // 2)
    if _keeps_scaling(encoding):
        scaling_divisors = divisors_of_scaling(encoding)
    divisors = tuple(factor.value * divisor for divisor in scaling_divisors)
    attention = model_value(required(encoding.attention_factor()))
    return divisor_parameters(computed(divisors, "exllamav2, {}", factor), attention, None)
