"""The settings that stretch a model's context, in every spelling; who honours them is measured, not listed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from pecli.checks import plain_fields
from pecli.checks.runtimes import RuntimeResult, rotary_layers, runtimes
from pecli.display import Printed
from pecli.engine.schemes.given_positions import LAST_POSITION
from pecli.engine.schemes.parameters import Choice, Whole
from pecli.engine.schemes.rope import Rope
from pecli.errors import ParameterError
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.families import family_of
from pecli.models.find import Model, find_model
from pecli.models.key_names import PARTIALS, SETTINGS, THETAS

_GEMMA3 = ("linear", "Gemma 3's own config: linear, factor 8, on its global layers")
RECOMMENDED = {
    "qwen2": ("yarn", "Qwen2.5's model card: yarn, factor 4, original 32768"),
    **dict.fromkeys(
        ("qwen3", "qwen3_moe"), ("yarn", "Qwen3's model card: yarn, factor 4, original 32768")
    ),
    "deepseek_v3": ("yarn", "DeepSeek-V3's own config: yarn, factor 40, original 4096"),
    "gpt_oss": ("yarn", "gpt-oss's own config: yarn, factor 32, original 4096"),
    "phi3": (
        "ntk",
        "Phi's config.json takes no scaling but longrope, whose factors are searched for",
    ),
    **dict.fromkeys(("gemma3", "gemma3_text"), _GEMMA3),
}
"""What the makers of a family use or recommend, and where they say so."""
SHORT_PROMPTS = {
    "yarn": "every prompt is encoded with the stretched frequencies, short ones too: leave it out for those",
    "linear": "every prompt is encoded with the stretched positions, short ones too: fine-tuning is usually needed",
    "ntk": "every prompt is encoded with the larger base, short ones too",
    "dynamic": "prompts up to {original:,} positions are encoded as before; longer ones as their length asks for",
}
FACTOR_TENSORS = {
    "llama3": "rope_freqs.weight",
    "longrope": "rope_factors_long.weight",
}  #: of a .gguf
KEPT = (
    "beta_fast",
    "beta_slow",
    "truncate",
    "mscale",
    "mscale_all_dim",
)  #: of YaRN, where the model has it already
METHODS = tuple(SHORT_PROMPTS)
METHOD = Choice(help="how frequencies are stretched", options=METHODS)
TO = Whole(help="positions of the longer context", high=LAST_POSITION)
SECTIONS = ("mrope_section", "mrope_interleaved")
UNSCALED = (
    "dim",
    "base",
    "partial_rotary_factor",
    *SECTIONS,
)  #: Parameters that have nothing to do with a scaling


@dataclass(frozen=True, repr=False)
class Extension(Printed):
    """How a model is set up for a longer context."""

    model: str
    to: int
    method: str
    reason: str  #: why this method
    original: int  #: positions that the model has without any scaling
    longest: int  #: positions that it has as it is
    factor: float
    before: Encoding
    after: Encoding
    runtimes: tuple[RuntimeResult, ...]
    notes: tuple[str, ...]
    lengths: Mapping[str, int]  #: what config.json has to say otherwise beside the scaling
    others: tuple[Encoding, ...]  #: of the other layer types, which stay as they are

    def __repr__(self) -> str:
        return f"<Extension of {self.model} to {self.to:,} positions by {self.method}, factor {self.factor:g}>"

    @property
    def rope_scaling(self) -> dict[str, Any]:
        """What Hugging Face's config.json takes; where the base alone changes, that."""
        return {
            **_settings(self.after),
            **({"rope_theta": self.theta} if self.method == "ntk" else {}),
        }

    @property
    def theta(self) -> float:
        return float(self.after.parameters["base"])

    @property
    def config(self) -> dict[str, Any]:
        key = self.before.sources.get("base", "").rpartition(".")[2]
        settings: dict[str, Any] = {"rope_scaling": self.rope_scaling}
        if self.method == "ntk":
            replaced = (
                {"rope_scaling": {"rope_type": "default"}}
                if self.before.parameters["scaling"] != "none"
                else {}
            )
            settings = {
                key if key in THETAS and self.is_hugging_face else "rope_theta": self.theta,
                **replaced,
            }
        family = family_of(self.before.family)
        is_newer = "rope_parameters" in self.place or (
            family is not None and family.scales_all_layers
        )
        return self.newer_config if is_newer else self._within({**settings, **self.lengths})

    @property
    def is_hugging_face(self) -> bool:
        """Whether the config is not another project's, whose families are none of Hugging Face's."""
        return not self.before.family or family_of(self.before.family) is not None

    @property
    def place(self) -> list[str]:
        """The keys under which the config has the base, or would: a part of the model, `rope_parameters`, layers."""
        *parents, key = self.before.sources.get("base", "").split(".")
        if not self.is_hugging_face:
            return []
        return parents if key in THETAS else self.before.prefix.split(".")[:-1]

    def _within(self, settings: dict[str, Any]) -> dict[str, Any]:
        for name in reversed([*takewhile(lambda name: name not in SETTINGS, self.place)]):
            settings = {name: settings}
        return settings

    @property
    def newer_config(self) -> dict[str, Any]:
        """The same as transformers 5 spells it."""
        others = {each.layer_type: _parameters(each) for each in self.others}
        layer, parameters = self.before.layer_type, self.rope_parameters
        by_layer = {layer: parameters, **others} if layer else parameters
        return self._within({"rope_parameters": by_layer, **self.lengths})

    @property
    def rope_parameters(self) -> dict[str, Any]:
        """The same in the newer spelling, which holds all that rotates: runtimes replace the config's by it."""
        return _parameters(self.after)

    @property
    def commands(self) -> dict[str, str]:
        """What to say to runtimes that take the settings on their command line."""
        vllm = f"vllm serve MODEL --hf-overrides '{json.dumps(self.newer_config)}' --max-model-len {self.to}"
        scale = f"--rope-freq-base {self.theta:.12g} --rope-freq-scale {1 / self.factor:.12g}"
        flags = {
            "yarn": f"--rope-scaling yarn {scale} --yarn-orig-ctx {self.original}",
            "linear": f"--rope-scaling linear {scale}",
            "ntk": f"--rope-scaling none --rope-freq-base {self.theta:.12g}",
        }.get(self.method)
        command = f"llama-server -m MODEL.gguf -c {self.to} {flags}"
        if self.before.parameters["scaling"] in FACTOR_TENSORS:  # which no flag changes
            command = f"convert_hf_to_gguf.py FOLDER --outfile MODEL.gguf && llama-server -m MODEL.gguf -c {self.to}"
        return {"vllm": vllm, **({"llama.cpp": command} if flags else {})}

    @property
    def gguf(self) -> dict[str, Any]:
        """The keys of a .gguf file, behind the name of its architecture."""
        if self.method == "dynamic":
            return {}
        if self.method == "ntk":
            return {"context_length": self.to, "rope.freq_base": self.theta}
        start = (
            {"rope.scaling.original_context_length": self.original} if self.method == "yarn" else {}
        )
        scaled = {"rope.scaling.type": self.method, "rope.scaling.factor": self.factor}
        return {"context_length": self.to, **scaled, **start}

    def as_json(self) -> dict[str, Any]:
        return {
            **plain_fields(
                self, "model", "to", "method", "reason", "factor", "rope_scaling", "rope_parameters"
            ),
            **plain_fields(self, "config", "commands", "gguf", "runtimes", "notes"),
            "original_max_position_embeddings": self.original,
            "rope_theta": self.theta,
            "wavelengths": self.wavelengths(),
        }

    def wavelengths(self) -> dict[str, Any]:
        """How many frequencies stay as without any scaling, are stretched by less, and by the whole factor."""
        unscaled = replace(self.before, parameters={**_unscaled(self.before), "scaling": "none"})
        before, after = (
            encoding.inverse_frequencies(self.to) or [] for encoding in (unscaled, self.after)
        )
        stretched = [was / now for was, now in zip(before, after, strict=True)]
        kept = sum(by < 1.0 + 1e-6 for by in stretched)
        whole = sum(by > self.factor * (1 - 1e-6) for by in stretched)
        return {
            "kept": kept,
            "blended": len(stretched) - kept - whole,
            "stretched": whole,
            "largest": max(stretched),
        }


def _settings(encoding: Encoding) -> dict[str, Any]:
    """An encoding as `rope_scaling` spells it: its scaling, its sections, and what queries are multiplied by."""
    left_out = ("dim", "base", "scaling", PARTIALS[0], "max_position_embeddings")
    own = {name: value for name, value in encoding.parameters.items() if name not in left_out}
    extra: dict[str, Any] = {}
    if encoding.sections.mrope_section:
        extra["mrope_section"] = list(encoding.sections.mrope_section)
    if encoding.sections.mrope_interleaved:
        extra["mrope_interleaved"] = True
    if encoding.llama_4_scaling_beta:
        extra["llama_4_scaling_beta"] = encoding.llama_4_scaling_beta
    kind = encoding.parameters["scaling"]
    return {"rope_type": "default" if kind == "none" else kind, **own, **extra}


def _parameters(encoding: Encoding) -> dict[str, Any]:
    own, head = encoding.parameters, encoding.head_dim
    is_fraction = "rotary" in encoding.sources.get(
        "dim", ""
    )  # a `rotary_dim`, or a factor of the whole head
    partial = own["dim"] / head if head and is_fraction else own.get(PARTIALS[0])
    return {
        "rope_theta": float(own["base"]),
        **_settings(encoding),
        **({PARTIALS[0]: partial} if partial else {}),
    }


def _unscaled(encoding: Encoding) -> dict[str, Any]:
    return {name: value for name, value in encoding.parameters.items() if name in UNSCALED}


def extend(
    model: Model, to: int, method: str | None = None, *, layer_type: str | None = None
) -> Extension:
    """The settings that stretch a model's context to `to` positions, and what runtimes make of them.

    Without a method: the one that the family's makers use, else yarn.

    >>> import pecli
    >>> pecli.extend("qwen2.5-7b", 131072).rope_scaling
    {'rope_type': 'yarn', 'factor': 4.0, 'original_max_position_embeddings': 32768}
    """
    found = find_model(None, model)
    length = TO.check("to", to)
    ropes = rotary_layers(found, layer_type, "it has no rotary encoding to stretch")
    encoding = max(
        ropes, key=lambda each: float(each.parameters["base"])
    )  # whose layers see the whole context
    own, (original, longest) = encoding.parameters["scaling"], _lengths(found, encoding, length)
    recommended, source = RECOMMENDED.get(found.model_type or "", ("yarn", ""))
    chosen = recommended if method is None else METHOD.check("method", method)
    reason = (
        ""
        if method is not None
        else source or "yarn, which needs the least fine-tuning; the makers name none"
    )
    if method is not None and source and chosen != recommended:
        reason = f"as asked; the makers use {recommended} ({source})"
    family = family_of(found.model_type)
    if family is not None and family.renamed[0] == "yarn" and chosen != "ntk":
        rule = f"config.json of {family.name} takes no scaling but longrope, whose factors are searched for"
        raise ParameterError("method", chosen, rule, "take ntk, which changes the base alone")
    notes = [SHORT_PROMPTS[chosen].format(original=original)]
    if own != "none":
        notes.insert(
            0,
            f"this replaces the model's own {own} scaling, which starts at {original:,} positions",
        )
    is_kept = chosen == "linear" and "gemma3" not in (
        found.model_type or ""
    )  # since vLLM multiplies it by the factor
    context = found.context if is_kept else original if chosen == "dynamic" else length
    lengths = {"max_position_embeddings": context} if context and context != found.context else {}
    after = _stretched(encoding, chosen, original, length / original)
    printed = ModelEncodings(found.file, found.model_type, (after,), context=context)
    measured = runtimes(printed, length).layers[after.layer_type]
    if own in FACTOR_TENSORS:
        kept = f"a .gguf keeps the {own} factors in {FACTOR_TENSORS[own]}, whatever the flags of llama-server say"
        notes.append(f"{kept}: convert the model again, with this config.json in its folder")
        said = {"llama.cpp": ("of a .gguf that is converted again",)}
        measured = tuple(
            replace(each, notes=(*each.notes, *said.get(each.runtime, ()))) for each in measured
        )
    others = tuple(
        each for each in found.ropes() if each.part == encoding.part and each is not encoding
    )
    settings = (
        original,
        longest,
        length / original,
        encoding,
        after,
        measured,
        tuple(notes),
        lengths,
        others,
    )
    return Extension(found.file, length, chosen, reason, *settings)


def _lengths(found: ModelEncodings, encoding: Encoding, length: int) -> tuple[int, int]:
    """How many positions the model has without any scaling, and as it is; refuses one that is that long already."""
    own, stated = (
        encoding.parameters["scaling"],
        encoding.parameters.get("original_max_position_embeddings"),
    )
    if own == "proportional":
        rule = "no other scaling has its proportional frequencies, of which a part rotates"
        raise ParameterError("model", found.file, rule)
    if (
        stated is None and found.context is not None
    ):  # which counts the stretched positions of a linear scaling
        stated = found.context / (encoding.parameters["factor"] if own == "linear" else 1)
    if stated is None:
        rule = "it does not say for how many positions it was trained"
        raise ParameterError(
            "model", "without max_position_embeddings", rule, "add that key to its config"
        )
    original = int(stated)
    stretched = (
        original * float(encoding.parameters["factor"])
        if own in ("yarn", "linear", "llama3")
        else original
    )
    longest = int(max(original, stretched, found.context or 0))
    if length <= longest:
        scaled = "" if own == "none" else f", with its own {own} scaling"
        rule = f"{found.file} has {longest:,} positions as it is{scaled}"
        raise ParameterError("to", length, rule, "name a longer context")
    return original, longest


def _stretched(encoding: Encoding, method: str, original: int, factor: float) -> Encoding:
    plain, own = _unscaled(encoding), encoding.parameters
    given = [
        name
        for name in KEPT
        if own["scaling"] == "yarn" and encoding.sources.get(name, "default") != "default"
    ]
    dim = Rope(1, **plain).rotary_dim
    scalings: dict[str, dict[str, Any]] = {
        "yarn": {
            "original_max_position_embeddings": original,
            **{name: own[name] for name in given},
        },
        "linear": {},
        "ntk": {
            "scaling": "none",
            "factor": None,
            "base": plain["base"] * factor ** (dim / (dim - 2)),
        },
        "dynamic": {"max_position_embeddings": original},
    }
    stretched = {**plain, "scaling": method, "factor": factor, **scalings[method]}
    parameters = {name: value for name, value in stretched.items() if value is not None}
    sources = {**encoding.sources, **dict.fromkeys(scalings[method], "printed")}
    return replace(encoding, parameters=parameters, sources=sources, lacks_original_length=False)
