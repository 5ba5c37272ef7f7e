"""The settings of a longer context, in the spelling of each file and runtime."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from pecli.checks import plain_fields
from pecli.checks.extension_methods import AS_IT_IS, EVERY_METHOD, Method
from pecli.checks.rope_settings import (
    Settings,
    rope_parameters,
    rope_scaling,
    unscaled_parameters,
)
from pecli.checks.runtimes import RuntimeResult
from pecli.display import Printed
from pecli.models.encoding import Encoding
from pecli.models.families import family_of
from pecli.models.key_names import SETTINGS, THETAS

FACTOR_TENSORS = {"llama3": "rope_freqs.weight", "longrope": "rope_factors_long.weight"}
"""Tensors of a .gguf file that hold the factors of a scaling, which no flag changes."""
SAME_WAVELENGTH = 1e-6  #: relative error of a ratio of two wavelengths


class Wavelengths(NamedTuple):
    """The changes of the wavelengths, compared with those without any scaling.

    Attributes:
        kept: How many stay as they are.
        blended: How many are stretched by less than the factor.
        stretched: How many are stretched by the factor or more: dynamic scaling replaces the base for
            the whole length, by which slow pairs are stretched more.
        largest: The largest ratio.
        smallest: The smallest ratio of those that are stretched by the factor or more; 1 if none is.
    """

    kept: int
    blended: int
    stretched: int
    largest: float
    smallest: float


@dataclass(frozen=True, repr=False)
class Extension(Printed):
    """The settings of a model for a longer context.

    Attributes:
        model: The model.
        to: Positions of the longer context.
        method: How frequencies are stretched.
        reason: Why this method.
        original: Positions that the model has without any scaling.
        longest: Positions that it has as it is.
        factor: The ratio of the longer context to the original one.
        before: The encoding of the layers that see the whole context.
        after: The same encoding, stretched.
        runtimes: What runtimes make of it.
        notes: What else a user should know.
        lengths: Lengths that config.json has to state differently beside the scaling.
        layers: The encodings of all layer types as they are; only `before` is stretched.
    """

    model: str
    to: int
    method: str
    reason: str
    original: int
    longest: int
    factor: float
    before: Encoding
    after: Encoding
    runtimes: tuple[RuntimeResult, ...]
    notes: tuple[str, ...]
    lengths: Mapping[str, int]
    layers: tuple[Encoding, ...]

    def __repr__(self) -> str:
        method = f"{self.method}, factor {self.factor:g}"
        return f"<Extension of {self.model} to {self.to:,} positions by {method}>"

    @property
    def theta(self) -> float:
        return float(self.after.parameters["base"])

    @property
    def _method(self) -> Method:
        return EVERY_METHOD[self.method]

    @property
    def larger_base(self) -> Settings:
        """{"rope_theta": …} with the base of NTK; empty for methods that leave the base as it is."""
        return self._method.larger_base(self.theta)

    @property
    def rope_scaling(self) -> Settings:
        """`rope_scaling` of Hugging Face's config.json; with NTK, which only changes it, the base."""
        return {**rope_scaling(self.after), **self.larger_base}

    @property
    def rope_parameters(self) -> Settings:
        """`rope_parameters` of transformers 5, which replaces the config's own as a whole."""
        return rope_parameters(self.after)

    @property
    def config(self) -> Settings:
        """The changes of config.json, in the spelling that it has already; empty if there are none.

        transformers 4 has `rope_scaling` and `rope_theta`, and transformers 5 `rope_parameters`.
        ModernBERT needs the latter, by layer type: its older keys would scale sliding layers as
        well. MLC has a file of its own.
        """
        if self.is_as_it_is:
            return {}
        if self.is_mlc:
            return self._make_mlc_settings()
        older_keys_scale_too_much = family_of(self.before.family).scales_all_layers
        if older_keys_scale_too_much or "rope_parameters" in self.place:
            return self.newer_config
        return self._nest_settings({**self._make_older_settings(), **self.lengths})

    @property
    def is_as_it_is(self) -> bool:
        """True if the model has the length without any change."""
        return self._method is AS_IT_IS

    @property
    def is_mlc(self) -> bool:
        """True if the configuration is MLC's mlc-chat-config.json."""
        return self.place[:1] == ["model_config"]

    def _make_mlc_settings(self) -> Settings:
        """Return the changes of mlc-chat-config.json, which states its context twice."""
        settings = self._make_older_settings()
        if "rope_theta" in settings:
            settings["position_embedding_base"] = settings.pop("rope_theta")
        context = {"context_window_size": self.to}
        return {"model_config": {**settings, **context}, **context}

    def _make_older_settings(self) -> Settings:
        """Return the settings in the spelling of transformers 4: `rope_scaling`, or a larger base.

        NTK scaling needs only the base: {"rope_theta": 4e6}.
        """
        if not self.larger_base:
            return {"rope_scaling": self.rope_scaling}
        settings: Settings = {self._base_key: self.theta}
        had_scaling = self.before.parameters["scaling"] != "none"
        if had_scaling:
            # Without this, the config would keep its old scaling beside the larger base.
            settings["rope_scaling"] = {"rope_type": "default"}
        return settings

    @property
    def _base_key(self) -> str:
        """The key of the base in a config for transformers 4: `rope_theta`, or the model's own name.

        GPT-NeoX's `rotary_emb_base` is such a name; it is kept, as the model's own code reads it.
        """
        key = self._base_path[-1]  # of "rope_scaling.rope_theta", the last
        return key if key in THETAS else "rope_theta"

    @property
    def newer_config(self) -> Settings:
        """The changes of config.json, in the spelling of transformers 5.

        `rope_parameters` are replaced as a whole: if there are several layer types, those of the others
        are stated as well, unchanged.
        """
        if self.is_as_it_is:
            return {}
        parameters = self.rope_parameters
        if self.before.layer_type:
            of_all_layers = {layer.layer_type: rope_parameters(layer) for layer in self.layers}
            parameters = {**of_all_layers, self.before.layer_type: parameters}
        return self._nest_settings({"rope_parameters": parameters, **self.lengths})

    @property
    def is_hugging_face(self) -> bool:
        """True unless the config is another project's, whose families Hugging Face does not have."""
        return not self.before.family or family_of(self.before.family).is_known

    @property
    def place(self) -> list[str]:
        """The keys under which the config has the base, or would have it.

        Of `text_config.rope_parameters.full_attention.rope_theta`, all but the last.
        """
        *parents, key = self._base_path
        if key in THETAS:
            return parents
        return self.before.prefix.split(".")[:-1]

    @property
    def _base_path(self) -> list[str]:
        """The key that states the base, from the top of the config; an empty name if none does.

        Settings of another project's model are printed at the top of a config of Hugging Face.
        """
        if not self.is_hugging_face:
            return ["rope_theta"]
        names = [*self.before.stated_by("base"), ""]
        return names[0].split(".")

    def _nest_settings(self, settings: Settings) -> Settings:
        """Return settings in the part of the configuration that they belong to.

        The base of a multimodal model may be `text_config.rope_parameters.rope_theta`: then settings
        {"rope_parameters": …} become {"text_config": {"rope_parameters": …}}.
        """
        # The parents end where the place enters `rope_parameters`, which is itself a setting.
        parents = [*takewhile(lambda name: name not in SETTINGS, self.place)]
        if self.is_mlc:
            # Hugging Face's file, from which MLC's was made, has no `model_config` around it.
            parents = parents[1:]
        for parent in reversed(parents):  # the innermost first
            settings = {parent: settings}
        return settings

    @property
    def commands(self) -> dict[str, str]:
        """The commands that serve the model with the longer context, by the name of the runtime.

        vLLM has none if it computes another table from the stretched config.json.
        They state the context and its scaling as flags, so that config.json need not be changed:
        «vllm serve MODEL --hf-overrides '{"rope_parameters": …}' --max-model-len 131072».
        """
        positions = self.to
        vllm = "vllm serve MODEL"
        sglang = "python -m sglang.launch_server --model-path MODEL"
        changes_of_config = self.newer_config  # empty if the model has the length as it is
        if changes_of_config:
            overrides = json.dumps(changes_of_config)
            vllm += f" --hf-overrides '{overrides}'"
            sglang += f" --json-model-override-args '{overrides}'"
        commands = {}
        if self._is_honoured_by("vllm"):
            commands["vllm"] = f"{vllm} --max-model-len {positions}"
        if self._method.has_sglang:
            commands["sglang"] = f"{sglang} --context-length {positions}"
        if self._method.has_llama_cpp:
            commands["llama.cpp"] = self._make_llama_cpp_command()
        if self.is_mlc:  # Only a model that was compiled for MLC can be served by it.
            commands["mlc"] = f'mlc_llm serve MODEL --overrides "context_window_size={positions}"'
        return commands

    def _is_honoured_by(self, runtime: str) -> bool:
        """Return True unless a runtime was measured to depart from the stretched encoding.

        A model that has the length as it is has its command in any case: no other settings exist.
        """
        first_departures = {result.runtime: result.first_beyond for result in self.runtimes}
        return self.is_as_it_is or first_departures.get(runtime) is None

    def _make_llama_cpp_command(self) -> str:
        """Return the command of llama-server.

        A .gguf of Llama 3 or Phi-3 keeps the factors of its old scaling in a tensor, which no flag
        changes: it has to be converted again, with the new config.json.
        """
        server = f"llama-server -m MODEL.gguf -c {self.to}"
        flags = self._method.llama_cpp_flags(self.theta, self.factor, self.original)
        keeps_old_factors = self.before.parameters["scaling"] in FACTOR_TENSORS
        if flags and keeps_old_factors:
            return f"convert_hf_to_gguf.py FOLDER --outfile MODEL.gguf && {server}"
        return f"{server} {flags}".rstrip()

    @property
    def gguf(self) -> Settings:
        """The keys of a .gguf file for the longer context, without the prefix of its architecture.

        `rope.scaling.factor` is `qwen2.rope.scaling.factor` in the file. Empty if a .gguf file cannot
        state the method.
        """
        keys = self._method.gguf_keys(self.theta, self.factor, self.original)
        return {"context_length": self.to, **keys} if keys else {}

    def as_json(self) -> Settings:
        names = ("model", "to", "method", "reason", "factor", "rope_scaling", "rope_parameters")
        return {
            **plain_fields(self, *names, "config", "commands", "gguf", "runtimes", "notes"),
            "original_max_position_embeddings": self.original,
            "rope_theta": self.theta,
            "wavelengths": self.wavelengths()._asdict(),
        }

    def wavelengths(self) -> Wavelengths:
        """Compare the wavelengths at the longer context with those without any scaling.

        A wavelength is 2π over a frequency, so that its ratio is the old frequency over the new one. With
        YaRN by a factor of 4, ratios go from 1 (kept) to 4 (stretched).
        """
        parameters = {**unscaled_parameters(self.before), "scaling": "none"}
        unscaled = replace(self.before, parameters=parameters)
        before = np.asarray(unscaled.inverse_frequencies(self.to))
        ratios = before / np.asarray(self.after.inverse_frequencies(self.to))
        stretched = ratios[ratios > self.factor * (1 - SAME_WAVELENGTH)]
        kept = int(np.count_nonzero(ratios < 1 + SAME_WAVELENGTH))
        return Wavelengths(
            kept=kept,
            blended=ratios.size - kept - stretched.size,
            stretched=stretched.size,
            largest=float(ratios.max()),
            smallest=min(stretched.tolist(), default=1.0),
        )
