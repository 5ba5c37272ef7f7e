"""Flags of llama.cpp, koboldcpp and Ollama, which compute rotary encodings with ggml.

ggml has three numbers for a context that is stretched: the base, a scale (1 / factor) that
multiplies all positions, and an «ext factor» that mixes the scaled angles with the unscaled ones
(YaRN). Factors that a .gguf holds in a tensor divide the frequencies before all of that.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pecli.engine.named_values import required
from pecli.errors import ParameterError, quoted
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.flag_report import FlagProblem
from pecli.models.flags.changed_encoding import (
    Parameters,
    divisor_parameters,
    divisors_of_scaling,
    model_value,
    with_parameters,
)
from pecli.models.flags.command_line import ServerFlag
from pecli.models.flags.flag_findings import (
    EncodingsWithFlags,
    Findings,
    warn_of_inverted_scale,
    warn_of_replaced_scaling,
)
from pecli.models.flags.larger_base import alpha_of_base, automatic_base
from pecli.models.flags.servers import Meaning, ReadFlag
from pecli.models.flags.values import (
    NO_KEYS,
    FlagSetting,
    FlagSettings,
    served_context,
    settings_of,
)
from pecli.models.key_names import ORIGINAL, SLIDING
from pecli.models.keys import Setting, computed, nonzero, only_if, other_than_one, positive

#: Parameters of a model's own YaRN that no flag replaces: the attention factor follows from them.
YARN_PARAMETERS_WITHOUT_FLAG = ("mscale", "mscale_all_dim")
#: Flags that only YaRN uses.
FLAGS_OF_YARN = (Meaning.ORIGINAL, Meaning.BETA_FAST, Meaning.BETA_SLOW)
YARN_BETAS = {Meaning.BETA_FAST: 32.0, Meaning.BETA_SLOW: 1.0}
#: ggml divides by the width of YaRN's ramp, which it keeps from being 0.
MIN_RAMP = 0.001
#: Flags that change frequencies.
FREQUENCY_FLAGS = frozenset(
    (
        Meaning.BASE,
        Meaning.SCALING,
        Meaning.FACTOR,
        Meaning.SCALE,
        Meaning.ORIGINAL,
        Meaning.EXT_FACTOR,
        Meaning.ATTN_FACTOR,
        Meaning.BETA_FAST,
        Meaning.BETA_SLOW,
    )
)
#: The flags that metadata of `--override-kv` stand for, by their names without the architecture.
METADATA = {
    "rope.freq_base": Meaning.BASE,
    "rope.scaling.type": Meaning.SCALING,
    "rope.scaling.factor": Meaning.FACTOR,
    "rope.scale_linear": Meaning.FACTOR,
    "rope.scaling.original_context_length": Meaning.ORIGINAL,
}
#: Scalings of a config.json that a .gguf names, by its names: no scaling is a linear one by 1.
NAMED_IN_GGUF = {"none": "linear", "linear": "linear", "yarn": "yarn"}
SCALING_NAMES = ("none", "linear", "yarn", "longrope")
"""The scalings that llama.cpp reads; it refuses other words."""
#: Bases and scalings for which koboldcpp chooses a larger base by itself: those of Llama 2, 3 and 3.1.
KOBOLDCPP_STRETCHED = ((10000.0, "none"), (500000.0, "none"), (500000.0, "llama3"))
KOBOLDCPP_MIN_CONTEXT = 2048
KOBOLDCPP_DEFAULT_BASE = 10000.0


def apply_koboldcpp_flags(
    model: ModelEncodings, settings: FlagSettings, findings: Findings
) -> EncodingsWithFlags:
    """Return the encodings of a model as koboldcpp, a server for GGUF files, computes them.

    Its flag `--ropeconfig SCALE [BASE]` multiplies positions by SCALE and computes frequencies from
    BASE. A scale without a base does not keep the model's base: koboldcpp then takes 10000. Without
    a scale above 0, the flag has no effect, and koboldcpp may choose a larger base by itself:
    26784 instead of 10000 for Llama 2 at 8192 positions, twice as many as it was trained for.
    """
    ggml_settings = dict(settings)
    has_effect = positive(settings.get(Meaning.SCALE)) is not None
    if has_effect:
        default_base = Setting(KOBOLDCPP_DEFAULT_BASE, "koboldcpp's default base")
        ggml_settings.setdefault(Meaning.BASE, default_base)
    else:
        ggml_settings.pop(Meaning.SCALE, None)
        ggml_settings.pop(Meaning.BASE, None)
        ggml_settings |= _automatic_base(model, settings)
    return apply_ggml_flags(model, ggml_settings, findings)


def _automatic_base(model: ModelEncodings, settings: FlagSettings) -> FlagSettings:
    """Return the larger base that koboldcpp takes for a longer context; empty if it keeps the model's.

    `--contextsize 8192` makes Llama 2, which has 4096 positions, take a base above its 10000.
    koboldcpp does so for the bases of Llama 2 and 3, unless a scaling such as YaRN stretches the
    context already.
    """
    context = settings.get(Meaning.CONTEXT)
    if context is None or model.context is None:
        return {}
    needs_larger_base = context.value > max(model.context, KOBOLDCPP_MIN_CONTEXT)
    for rope in model.ropes():
        base = float(rope.parameters["base"])
        if needs_larger_base and (base, rope.parameters["scaling"]) in KOBOLDCPP_STRETCHED:
            larger_base = automatic_base(base, model.context, context.value)
            reason = f"koboldcpp's automatic scaling for {context.source} {context.value}"
            return {Meaning.BASE: context.implying(larger_base, reason)}
    return {}


def apply_ggml_flags(
    model: ModelEncodings, settings: FlagSettings, findings: Findings
) -> EncodingsWithFlags:
    """Return the encodings of a model as llama.cpp computes them with flags.

    `--rope-freq-base 1e6` replaces the base of the layers that see the whole context. Sliding
    layers keep the base and the scale that they were trained with.

    Args:
        model: The encodings without flags.
        settings: The values of the flags, by their meanings.
        findings: Where warnings and notes are added.

    Raises:
        ParameterError: A flag has a wrong value, or the .gguf scales twice.
    """
    settings = _with_flags_of_metadata(settings)
    context = served_context(model.context, settings)
    _warn_of_group_attention(settings, findings)
    changes_frequencies = not FREQUENCY_FLAGS.isdisjoint(settings)
    if not changes_frequencies:
        return EncodingsWithFlags(model.encodings, context, model.warnings)
    encodings = []
    for encoding in model.encodings:
        if _sees_whole_context(encoding):
            _refuse_factor_beside_tensor(encoding)
            # Some scalings of a config.json are a tensor in a .gguf, beside which flags count.
            gguf_scaling = _scaling_in_gguf(encoding, context, model.context)
            encoding = _with_flags(encoding, gguf_scaling, settings, findings)
        encodings.append(encoding)
    return EncodingsWithFlags(tuple(encodings), context, model.warnings)


def _with_flags_of_metadata(settings: FlagSettings) -> FlagSettings:
    """Return the flags, and those that the keys of `--override-kv` stand for.

    `--override-kv llama.rope.freq_base=float:1e6` has the meaning of `--rope-freq-base 1e6`. If both
    are given, the latter counts.

    Raises:
        ParameterError: A value that stands for a number is a text, or is negative.
    """
    metadata = settings.get(Meaning.METADATA, NO_KEYS)
    from_metadata: FlagSettings = {}
    for key, text in metadata.value.items():
        _, _, name = key.partition(".")  # without the architecture
        if name in METADATA:
            flag = ServerFlag(f"{metadata.source} {key}", values=(text,))
            from_metadata.update(settings_of([ReadFlag(flag, (METADATA[name],))]))
    return {**from_metadata, **settings}  # The last value of a meaning counts.


def _warn_of_group_attention(settings: FlagSettings, findings: Findings) -> None:
    """Warn of `--grp-attn-n 4`, which lets four distant tokens share a position (self-extend)."""
    group = other_than_one(settings.get(Meaning.GROUP))
    if group is not None:
        sentence = (
            f"{group.source} {group.value:g} divides positions beyond a window (self-extend),"
            " which no table over positions describes"
        )
        findings.warn(FlagProblem.NO_TABLE, sentence)


def _is_not_negative(number: float) -> bool:
    """Return True unless a number is below 0, which stands for the model's own value."""
    return number >= 0


def _sees_whole_context(encoding: Encoding) -> bool:
    return encoding.is_rope_of_text and encoding.layer_type != SLIDING


class GgufScaling(NamedTuple):
    """The scaling that a model has without flags, in the form in which a .gguf holds it.

    Attributes:
        scaling: `linear` or `yarn`; without any scaling it is linear with a factor of 1.
        factor: The factor of that scaling.
        original: The trained context.
        divisors: The factors of the tensor that divides frequencies; None if there is none.
        attention: What the file states that cos and sin are multiplied by.
    """

    scaling: str
    factor: float
    original: int | None
    divisors: tuple[float, ...] | None = None
    attention: float = 1.0

    @property
    def is_in_tensor(self) -> bool:
        """True if the .gguf has a tensor of divisors instead of a named scaling (Llama 3.1)."""
        return self.divisors is not None


def _refuse_factor_beside_tensor(encoding: Encoding) -> None:
    """Raise ParameterError if divisors of a .gguf are the product of a tensor and of a factor.

    Flags replace the factor and keep the tensor: of `rope_freqs.weight` and `rope.scaling.factor`
    8, `--rope-scale 4` keeps the tensor and makes the factor 4. The product does not show them.
    """
    names = encoding.stated_by("long_factor")
    is_product = len(names) > 1
    if is_product:
        rule = f"the file scales twice, by {' and '.join(names)}, of which flags replace one"
        raise ParameterError("flags", "given", rule, f"leave out {names[-1]}")


def _scaling_in_gguf(
    encoding: Encoding, context: int | None, trained_context: int | None
) -> GgufScaling:
    """Return the scaling that a model has without flags, in the form in which a .gguf holds it.

    A .gguf names linear scaling and YaRN. All other scalings, such as Llama 3.1's, are a tensor in
    it with one divisor per frequency.

    Args:
        encoding: The model's encoding.
        context: The served context, on which some scalings depend.
        trained_context: The context that the model declares.
    """
    parameters = encoding.parameters
    scaling = parameters["scaling"]
    original = parameters.get(ORIGINAL) or trained_context
    if scaling in NAMED_IN_GGUF:
        factor = float(parameters.get("factor") or 1.0)
        return GgufScaling(NAMED_IN_GGUF[scaling], factor=factor, original=original)
    return GgufScaling(
        # The tensor holds the whole scaling: positions are not divided as well.
        scaling="linear",
        factor=1.0,
        original=original,
        divisors=divisors_of_scaling(encoding, context),
        attention=required(encoding.attention_factor(context)),
    )


def _with_flags(
    encoding: Encoding, gguf_scaling: GgufScaling, settings: FlagSettings, findings: Findings
) -> Encoding:
    """Return an encoding as llama.cpp computes it with flags: with another base and scaling.

    Args:
        encoding: The model's encoding.
        gguf_scaling: The scaling that it has without flags.
        settings: The flags.
        findings: Where warnings about flags are added.
    """
    flagged = _FlaggedEncoding(encoding, gguf_scaling, settings, findings)
    return with_parameters(encoding, flagged.parameters())


class _FlaggedEncoding:
    """The numbers that llama.cpp computes one encoding with, by the rules of its `llama_context`."""

    def __init__(
        self,
        encoding: Encoding,
        gguf_scaling: GgufScaling,
        settings: FlagSettings,
        findings: Findings,
    ) -> None:
        """Choose the numbers that ggml computes with: each is a flag's, else the model's own.

        The order matters: the factor depends on the scaling, and so does YaRN's ext factor. Warnings
        about flags that are not used are added to the findings.

        Args:
            encoding: The encoding that config.json describes.
            gguf_scaling: Its scaling as a .gguf holds it.
            settings: The flags.
            findings: Where warnings are added.
        """
        self.encoding = encoding
        self.gguf_scaling = gguf_scaling
        self.settings = settings
        self.findings = findings
        self.base = self._chosen_base()
        self.scaling = self._chosen_scaling()
        self.factor = self._chosen_factor()
        self.ext_factor = self._chosen_ext_factor()
        self.original = self._of_flag_or_model(Meaning.ORIGINAL, self.gguf_scaling.original)

    def _of_flag_or_model(self, meaning: Meaning, default: object) -> FlagSetting:
        """Return the value of a flag, else the model's own, which has no source."""
        return self.settings.get(meaning) or model_value(default)

    @property
    def has_yarn(self) -> bool:
        """True if some angles are mixed with unscaled ones."""
        return self.ext_factor.value != 0

    @property
    def stated_attention(self) -> Setting[float] | None:
        """The factor of cos and sin that a flag states; None with YaRN, which computes it itself.

        1 changes nothing, and -1 stands for the model's own.
        """
        flag = self.settings.get(Meaning.ATTN_FACTOR)
        return None if self.has_yarn else only_if(flag, lambda factor: factor not in (1, -1))

    def _chosen_scaling(self) -> FlagSetting:
        """Return the scaling of a flag, else the model's own.

        Raises:
            ParameterError: llama.cpp does not know the scaling of the flag.
        """
        scaling = self._of_flag_or_model(Meaning.SCALING, self.gguf_scaling.scaling)
        if scaling.value not in SCALING_NAMES:
            shown = f"{scaling.source} {scaling.value}"
            rule = f"it must be one of {', '.join(SCALING_NAMES)}"
            raise ParameterError("flags", quoted(shown), rule)
        return scaling

    def _chosen_base(self) -> Setting[float]:
        """Return the base of `--rope-freq-base`, else the model's own, for which 0 stands as well.

        A larger base is noted with the alpha that it stands for; a smaller one stretches nothing.
        """
        model_base = float(self.encoding.parameters["base"])
        base = nonzero(self.settings.get(Meaning.BASE))
        if base is None:
            return model_value(model_base)
        if base.value > model_base:
            self._note_alpha(base, model_base)
        return base

    def _note_alpha(self, base: Setting[float], model_base: float) -> None:
        """Add the alpha of other servers that makes a base of the model's own."""
        dim = self.encoding.frequency_rope().rotary_dim
        alpha = alpha_of_base(model_base, base.value, dim)
        self.findings.note(
            f"base {base.value:.10g} ({base.source}) is alpha {alpha:.4g}"
            f" for heads of {dim} with base {model_base:g}"
        )

    def _chosen_factor(self) -> Setting[float]:
        """Return the factor by which positions are divided: a flag's, else the model's own.

        `--rope-scale 4` and `--rope-freq-scale 0.25` both mean 4.
        """
        scale = positive(self.settings.get(Meaning.SCALE))
        flag = scale or positive(self.settings.get(Meaning.FACTOR))
        if self.scaling.value == "none":  # `--rope-scaling none` switches scaling off.
            self._warn_if_ignored(other_than_one(flag), f": {self.scaling.source} is none")
            return self.scaling.with_value(1.0)
        if flag is None:
            return model_value(self.gguf_scaling.factor)
        factor = flag if scale is None else computed(1 / flag.value, "1 / {}", flag)
        if factor.value < 1:
            # It shrinks the context. Most probably it was meant for the other of the two flags.
            warn_of_inverted_scale(self.findings, flag.source, flag.value, 1 / flag.value)
        return factor

    def _warn_if_ignored(self, flag: FlagSetting | None, reason: str) -> None:
        """Warn that a flag has no effect, such as `--rope-scale 4` beside `--rope-scaling none`."""
        if flag is not None:
            sentence = f"{flag.source} {flag.value:g} has no effect{reason}"
            self.findings.warn(FlagProblem.IGNORED, sentence)

    def _chosen_ext_factor(self) -> Setting[float]:
        """Return the mix of YaRN: 1 for the scaling yarn and 0 otherwise, unless a flag sets it.

        A negative flag stands for this default.
        """
        flag = only_if(self.settings.get(Meaning.EXT_FACTOR), _is_not_negative)
        is_yarn = self.scaling.value == "yarn"
        return flag or self.scaling.with_value(float(is_yarn))

    def parameters(self) -> Parameters:
        """Return the base and the scaling with the flags, in the terms of config.json."""
        self._warn_of_model_scaling()
        return {"base": self.base, **self._scaling_parameters()}

    def _warn_of_model_scaling(self) -> None:
        """Warn if a flag meets a scaling that the model has already.

        `--rope-scale` replaces linear scaling and YaRN, which is no news if it states the same ones.
        It does not replace factors that a .gguf has in a tensor (Llama 3.1): these divide
        frequencies in addition.
        """
        name = self.encoding.parameters["scaling"]  # such as yarn
        flag = self._scale_flag()
        if name == "none" or flag is None:
            return
        if self.gguf_scaling.is_in_tensor:
            self._warn_of_stacking(name, flag.source)
            return
        if (self.scaling.value, self.factor.value) != (name, self.gguf_scaling.factor):
            warn_of_replaced_scaling(self.findings, flag.source, self.encoding)

    def _warn_of_stacking(self, model_scaling: str, source: str) -> None:
        """Warn that a flag does not replace a scaling whose factors a .gguf has in a tensor."""
        effect = f"scales the model's own {model_scaling} frequencies once more"
        if self.factor.value == 1:
            effect = f"leaves the model's own {model_scaling} frequencies as they are"
        reason = f"a .gguf holds its {model_scaling} factors in a tensor, which no flag replaces"
        self.findings.warn(FlagProblem.STACKED, f"{source} {effect}: {reason}")

    def _scale_flag(self) -> FlagSetting | None:
        """Return the flag that changes the scaling, the most specific one first."""
        for meaning in (Meaning.SCALE, Meaning.FACTOR, Meaning.SCALING, Meaning.EXT_FACTOR):
            if meaning in self.settings:
                return self.settings[meaning]
        return None

    def _scaling_parameters(self) -> Parameters:
        """Return the scaling that llama.cpp computes with the flags, as parameters of `pecli.Rope`.

        It is none, linear or YaRN. If none of them has the effect of the flags, it is a list with a
        divisor per frequency.
        """
        self._warn_of_ignored_flags()
        if self._needs_divisor_per_frequency():
            return self._scaling_by_divisors()
        if self.factor.value == 1:
            return {"scaling": self._name_of_scaling("none", implied_by=self.factor)}
        if self.has_yarn:
            return self._yarn_parameters()
        name = self._name_of_scaling("linear", implied_by=self.factor)
        return {"scaling": name, "factor": self.factor}

    def _name_of_scaling(self, name: str, implied_by: FlagSetting) -> Setting[str]:
        """Return the name of a scaling as a setting, whose source is the flag that leads to it.

        This is `--rope-scaling` if it is given. Without it, other flags imply a scaling:
        `--rope-scale 4` a linear one.
        """
        has_flag = self.scaling.source != ""  # The model's own scaling has no source.
        flag = self.scaling if has_flag else implied_by
        return flag.with_value(name)

    def _needs_divisor_per_frequency(self) -> bool:
        """Return True if no scaling of config.json has the effect of the flags.

        It has not if they come on top of a scaling in a tensor, speed positions up (a factor below
        1), state an attention factor, or mix YaRN in part (`--yarn-ext-factor 0.5`).
        """
        is_sped_up = self.factor.value < 1
        is_partial_yarn = self.ext_factor.value not in (0, 1) and self.factor.value != 1
        states_attention = self.stated_attention is not None
        return self.gguf_scaling.is_in_tensor or is_sped_up or states_attention or is_partial_yarn

    def _warn_of_ignored_flags(self) -> None:
        """Warn of flags that only YaRN uses, of an attention factor beside it, and of a factor of 1."""
        if not self.has_yarn:
            for meaning in FLAGS_OF_YARN:
                flag = self.settings.get(meaning)
                self._warn_if_ignored(flag, " without --rope-scaling yarn")
            return
        attention = only_if(self.settings.get(Meaning.ATTN_FACTOR), _is_not_negative)
        reason = " with YaRN: llama.cpp computes it from the factor"
        self._warn_if_ignored(attention, reason)
        if self.factor.value == 1:
            source = self.scaling.source or self.ext_factor.source
            sentence = f"{source} has no effect without a factor; add --rope-scale"
            self.findings.warn(FlagProblem.IGNORED, sentence)

    def _yarn_parameters(self) -> Parameters:
        """Return the parameters of YaRN: those that flags state, and the model's own others."""
        parameters: Parameters = {
            # `--yarn-ext-factor 1` has the effect of `--rope-scaling yarn`.
            "scaling": self._name_of_scaling("yarn", implied_by=self.ext_factor),
            "factor": self.factor,
            ORIGINAL: self.original,
            "beta_fast": self._beta(Meaning.BETA_FAST),
            "beta_slow": self._beta(Meaning.BETA_SLOW),
        }
        for name in YARN_PARAMETERS_WITHOUT_FLAG:
            number = self.encoding.parameters.get(name)
            if number:
                parameters[name] = model_value(number)
        return parameters

    def _beta(self, meaning: Meaning) -> Setting[float]:
        """Return `beta_fast` or `beta_slow`; a negative flag stands for the model's own."""
        flag = only_if(self.settings.get(meaning), _is_not_negative)
        if flag is not None:
            return flag
        model_beta = self.encoding.parameters.get(meaning.value, YARN_BETAS[meaning])
        return Setting(model_beta, "default")

    def _scaling_by_divisors(self) -> Parameters:
        """Return a scaling that divides each frequency by a number of its own.

        The model's file may divide frequencies already, by its tensor rope_freqs.weight. ggml then
        multiplies them by a number that follows from the flags: a frequency that the file divides
        by 8, and flags multiply by 1/4, is divided by 32.
        """
        pairs = self.encoding.frequency_rope().rotary_dim // 2
        file_divisors = np.array(self.gguf_scaling.divisors or [1.0] * pairs)  # (pairs,)
        divisors = tuple((file_divisors / self._multipliers(pairs)).tolist())
        return divisor_parameters(
            divisors=computed(divisors, "llama.cpp, {}", self._first_flag()),
            attention=self._attention_of_divisors(),
            original=self.original.value,
        )

    def _multipliers(self, pairs: int) -> npt.NDArray[np.float64]:
        """Return the number that ggml multiplies the frequency of each pair by, because of flags.

        It is 1 / factor: 1/4 for a factor of 4. YaRN mixes the scaled frequency with the unscaled
        one: (1 − mix) / factor + mix, which is 1/4 for slow pairs (mix 0), 1 for fast ones (mix 1),
        and 0.625 for a mix of 0.5.
        """
        scale = 1 / self.factor.value
        if not self.has_yarn:
            return np.full(pairs, scale)
        mixes = self._yarn_mixes(pairs)
        multipliers: npt.NDArray[np.float64] = scale * (1 - mixes) + mixes
        return multipliers

    def _first_flag(self) -> FlagSetting:
        """Return the flag to print as the source of divisors: the first one that was given."""
        candidates = (self.factor, self.scaling, self.base)
        return next((flag for flag in candidates if flag.source), self.base)

    def _attention_of_divisors(self) -> Setting[float]:
        """Return what cos and sin are multiplied by: the file's factor, a flag's, and YaRN's.

        YaRN's is 1 + 0.1 · ln factor, which is 1 for factors that stretch nothing.
        """
        flag = self.stated_attention or Setting(1.0, "default")
        attention = self.gguf_scaling.attention * flag.value
        if self.has_yarn:
            stretch = max(self.factor.value, 1.0)
            attention *= 1 + 0.1 * math.log(stretch)
        return flag.with_value(attention)

    def _yarn_mixes(self, pairs: int) -> npt.NDArray[np.float64]:
        """Return the share of the unscaled angle in each pair: 1 for fast pairs, 0 for slow ones.

        It falls from 1 at the pair that turns `beta_fast` times over the trained context to 0 at
        the one that turns `beta_slow` times. ggml rounds these limits outwards: for 128 channels,
        base 10000 and 4,096 positions they are the pairs 20 and 46.
        """
        low = max(0, math.floor(self._pair_that_turns(Meaning.BETA_FAST, pairs)))
        high = min(2 * pairs - 1, math.ceil(self._pair_that_turns(Meaning.BETA_SLOW, pairs)))
        width = max(MIN_RAMP, high - low)
        ramps = np.clip((np.arange(pairs) - low) / width, 0.0, 1.0)
        mixes: npt.NDArray[np.float64] = (1 - ramps) * self.ext_factor.value
        return mixes

    def _pair_that_turns(self, meaning: Meaning, pairs: int) -> float:
        """Return the index of the pair that turns n times over the trained context, n being a beta.

        The index may lie between two pairs. Pair i has the frequency base^(−i / pairs). It turns n
        times over L positions if L · base^(−i / pairs) = 2π · n. Solved for i, this is
        i = pairs · ln(L / (2π · n)) / ln(base).

        Args:
            meaning: The beta, `BETA_FAST` or `BETA_SLOW`.
            pairs: The number of pairs of channels that rotate.

        Raises:
            ParameterError: The beta is 0, or the base is not above 1: no pair turns so often.
        """
        turns = self._beta(meaning).value
        base = self.base.value
        if turns == 0:
            raise ParameterError(meaning.value, "0", "it must be a finite number above 0")
        if base <= 1:
            rule = "yarn scaling divides by ln b, so b must be above 1"
            raise ParameterError("base", f"{base:g}", rule)
        trained_context = self.original.value or 1  # A model may state none.
        ratio = trained_context / (2 * math.pi * turns)
        pair: float = pairs * math.log(ratio) / math.log(base)
        return pair
