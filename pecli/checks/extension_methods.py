"""The methods that stretch a model's context: their parameters, and their spelling for each runtime."""

from collections.abc import Iterable
from dataclasses import replace

from pecli.checks.rope_settings import Settings, unscaled_parameters
from pecli.engine.scalings import yarn
from pecli.engine.schemes.rope import Rope
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.keys import origin_at

KEPT = ("beta_fast", "beta_slow", "truncate", "mscale", "mscale_all_dim")
"""Parameters of a model's own YaRN that stay if it is stretched further."""


class Method:
    """A way to stretch a model's context by a factor.

    Attributes:
        name: The name, as users give it.
        short_prompts: The effect on prompts that fit the original context.
        has_sglang: False if SGLang would compute something else.
        has_llama_cpp: False if no flags of llama.cpp state the method.
    """

    name: str
    short_prompts: str = ""
    has_sglang = True
    has_llama_cpp = True

    def stretch(self, encoding: Encoding, original: int, factor: float) -> Encoding:
        """Return a model's encoding with this scaling, which replaces its own.

        Args:
            encoding: The encoding as the configuration has it.
            original: The positions that the model has without any scaling.
            factor: The longer context over the original one.
        """
        numbers = self.numbers(encoding, original)
        scaling = {"scaling": self.name, "factor": factor, **numbers}
        return _replace_scaling(encoding, scaling, printed=numbers)

    def numbers(self, encoding: Encoding, original: int) -> Settings:
        """Return the parameters that the scaling needs beside its factor."""
        return {}

    def stated_context(self, model: ModelEncodings, original: int, length: int) -> int | None:
        """Return the `max_position_embeddings` that config.json needs: the longer context."""
        return length

    def larger_base(self, base: float) -> Settings:
        """Return the base that config.json has to state beside the scaling; empty if it is unchanged."""
        return {}

    def llama_cpp_flags(self, base: float, factor: float, original: int) -> str:
        """Return the flags of llama-server that state the scaling.

        llama.cpp multiplies positions by `--rope-freq-scale`, the reciprocal of the factor: 0.25 for
        a context that is four times as long.
        """
        return ""

    def gguf_keys(self, base: float, factor: float, original: int) -> Settings:
        """Return the keys of a .gguf file beside its context; empty if it cannot state the method.

        `rope.scaling.factor` is `qwen2.rope.scaling.factor` in the file.
        """
        return {}


def _replace_scaling(encoding: Encoding, scaling: Settings, printed: Iterable[str]) -> Encoding:
    """Return an encoding with another scaling than its configuration states.

    Args:
        encoding: The encoding as the configuration has it.
        scaling: The new parameters, such as {"scaling": "yarn", "factor": 4}.
        printed: The parameters that no configuration states, since pecli prints them for the user.
            Their source is «printed».
    """
    parameters = {**unscaled_parameters(encoding), **scaling}
    origins = {**encoding.origins, **dict.fromkeys(printed, origin_at("printed"))}
    return replace(
        encoding,
        parameters=parameters,
        origins=origins,
        # Both describe how the configuration states the scaling that is replaced here.
        lacks_original_length=False,
        stated_lengths=None,
    )


class AsItIsMethod(Method):
    """No change: the model has the length already."""

    name = "none"


class YarnMethod(Method):
    """Low frequencies are divided by the factor, high ones stay, and a ramp lies between them."""

    name = "yarn"
    short_prompts = (
        "every prompt is encoded with the stretched frequencies, short ones too: "
        "leave it out for those"
    )

    def numbers(self, encoding: Encoding, original: int) -> Settings:
        return {"original_max_position_embeddings": original, **_read_stated_yarn(encoding)}

    def llama_cpp_flags(self, base: float, factor: float, original: int) -> str:
        scaling = f"--rope-scaling yarn {_write_base_and_scale(base, factor)}"
        return f"{scaling} --yarn-orig-ctx {original}"

    def gguf_keys(self, base: float, factor: float, original: int) -> Settings:
        return {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": factor,
            "rope.scaling.original_context_length": original,
        }


def _read_stated_yarn(encoding: Encoding) -> Settings:
    """Return the parameters of the model's own YaRN that its configuration or its class states.

    Those that are stated by neither are the defaults of YaRN, as in any other model.
    """
    if encoding.parameters["scaling"] != "yarn":
        return {}
    stated = {}
    for name in KEPT:
        value = encoding.parameters.get(name)
        if encoding.stated_by(name) or value != yarn.DEFAULTS.get(name):
            stated[name] = value
    return stated


class LinearMethod(Method):
    """All positions are divided by the factor."""

    name = "linear"
    short_prompts = (
        "every prompt is encoded with the stretched positions, short ones too: "
        "fine-tuning is usually needed"
    )

    def stated_context(self, model: ModelEncodings, original: int, length: int) -> int | None:
        """Return the model's own context, which vLLM multiplies by the factor.

        Gemma 3's own config states the longer context nevertheless.
        """
        is_gemma3 = "gemma3" in str(model.model_type)
        return length if is_gemma3 else model.context

    def llama_cpp_flags(self, base: float, factor: float, original: int) -> str:
        return f"--rope-scaling linear {_write_base_and_scale(base, factor)}"

    def gguf_keys(self, base: float, factor: float, original: int) -> Settings:
        return {"rope.scaling.type": "linear", "rope.scaling.factor": factor}


class NtkMethod(Method):
    """A larger base and nothing else: the slowest frequency is divided by the factor, the first stays."""

    name = "ntk"
    short_prompts = "every prompt is encoded with the larger base, short ones too"

    def stretch(self, encoding: Encoding, original: int, factor: float) -> Encoding:
        base = _compute_ntk_base(unscaled_parameters(encoding), factor)
        scaling = {"base": base, "scaling": "none"}
        return _replace_scaling(encoding, scaling, printed=("base", "scaling", "factor"))

    def larger_base(self, base: float) -> Settings:
        return {"rope_theta": base}

    def llama_cpp_flags(self, base: float, factor: float, original: int) -> str:
        # The larger base stretches all that is to be stretched: positions stay as they are.
        return f"--rope-scaling none {_write_base(base)}"

    def gguf_keys(self, base: float, factor: float, original: int) -> Settings:
        return {"rope.freq_base": base}


def _compute_ntk_base(unscaled: Settings, factor: float) -> float:
    """Return the base that stretches the slowest pair of channels by a factor, and the fastest not at all.

    It is b · f^(d / (d − 2)) for the base b, the factor f and the rotary dimension d: 10000 becomes
    10000 · 4^(128 / 126), about 40890, for a factor of 4 and 128 channels.
    """
    dim = Rope(1, **unscaled).rotary_dim
    base: float = unscaled["base"] * factor ** (dim / (dim - 2))
    return base


class DynamicMethod(Method):
    """A base that grows with the prompt, once this is longer than the original context.

    SGLang reads it as one larger base for prompts of all lengths.
    """

    name = "dynamic"
    short_prompts = (
        "prompts up to {original:,} positions are encoded as before; "
        "longer ones as their length asks for"
    )
    has_sglang = False
    has_llama_cpp = False

    def numbers(self, encoding: Encoding, original: int) -> Settings:
        return {"max_position_embeddings": original}

    def stated_context(self, model: ModelEncodings, original: int, length: int) -> int | None:
        """Return the original context, at which dynamic scaling starts."""
        return original


def _write_base(base: float) -> str:
    return f"--rope-freq-base {base:.12g}"


def _write_base_and_scale(base: float, factor: float) -> str:
    return f"{_write_base(base)} --rope-freq-scale {1 / factor:.12g}"


AS_IT_IS = AsItIsMethod()
METHODS: dict[str, Method] = {
    method.name: method for method in (YarnMethod(), LinearMethod(), NtkMethod(), DynamicMethod())
}
"""The methods that a user can choose, by name."""
EVERY_METHOD = {**METHODS, AS_IT_IS.name: AS_IT_IS}
"""The methods that an answer can have."""
