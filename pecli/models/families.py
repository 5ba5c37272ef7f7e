"""Defaults of families of models: the rows of families.json.

A model_type is looked up by its exact name, then without suffixes that name a variant of the same
text model (`qwen3_5_moe_text` → `qwen3_5_moe` → `qwen3_5`). Sizes and rotary settings that a
configuration leaves out are those of its class in transformers (class_defaults.json). Families
whose keys are complete, and that rotate halves, are listed as
ordinary: their model_type is known, and has no defaults of its own.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from pecli.engine.named_values import JsonObject
from pecli.models.data import first_known, plain_name, stored
from pecli.models.keys import NO_CLASS, ClassDefaults

HALVES = "halves"
INTERLEAVED = "interleaved"
#: Channels are read as neighbouring pairs and written as halves.
DEEPSEEK = "deepseek"

SUFFIX = re.compile(r"_(text_model|text|moe|vl|thinker|talker|config)$")
#: Endings of the names of model classes.
ARCHITECTURE = re.compile(r"(For[A-Z]\w*|LMHeadModel\w*|PreTrainedModel|Model|Decoder|Encoder)$")


class Renamed(NamedTuple):
    """A rope type by the name that configurations of a family have for it, and by its usual name."""

    before: str
    after: str


NOT_RENAMED = Renamed("", "")


@dataclass(frozen=True)
class ModelFamily:
    """The defaults of a family of models; None for what its configurations state themselves.

    Attributes:
        name: The model_type, or the project whose code reads the configuration.
        theta: The base.
        local_theta: The base of sliding layers, in families whose files do not name layer types
            (Gemma 3).
        pattern: Full (F) and sliding (S) layers, repeated, if no key lists them: SSSSSF in Gemma 3.
        partial: The fraction of a head that rotates; above 1 if several heads share frequencies.
        layout: How the channels of a head are paired.
        tables_in_halves: Tables are doubled as halves, and interleaved only when they are applied
            (GLM).
        axes: 2 or 3 if each axis of an image or a video rotates a share of the head.
        style: The conventions of the axes, one of `pecli rope --style`.
        order: How frequencies are stored: `axes` for even ones (rows), then odd ones (columns), as
            in Pixtral; `ernie` if those of time follow.
        renamed: A rope type whose name means another one here: `yarn` is longrope in Phi-3.
        sections: Frequencies of time, rows and columns (M-RoPE), if they fit the head and no key
            gives them.
        mixed_sections: The sections are interleaved, whatever the keys say (Qwen3-VL).
        trailing: The last channels of a head rotate, not the first (DeepSeek-V4).
        ignores_rotary_dim: The family's code does not read `rotary_dim` (MiniMax-M3).
        tower_at_top: The part that the keys at the top describe, beside a language model in
            `text_config`.
        head_dim_rotates: With latent attention, a `head_dim` in the file is the rotary dimension
            (DeepSeek-V3).
        partial_of_head: With latent attention, a partial factor is a fraction of the whole head
            (Mistral 4).
        scales_all_layers: Flat settings also scale sliding layers that have a base of their own
            (ModernBERT).
        reads_alpha: Dynamic scaling with an `alpha` is a fixed NTK scaling (Hunyuan).
        reads_type: `position_embedding_type` counts; other rotary classes of transformers ignore
            it.
        unrotated: The layer type that has no rope: `full_attention` in Cohere 2.
        rotates_without_window: All layers rotate if `sliding_window` is null (Exaone 4).
        unrotated_from_last: One layer in so many has no rope, the last one among them (4 in
            Muse Glimmer).
        has_indexer: Sparse attention selects tokens with an indexer, whose heads have
            `index_head_dim` channels (DeepSeek-V3.2).
        no_table: Why the model uses no table over positions 0, 1, 2, ….
        note: A warning about facts that no key states.
    """

    name: str = ""
    theta: float | None = None
    local_theta: float | None = None
    pattern: str = ""
    partial: float | None = None
    layout: str = HALVES
    tables_in_halves: bool = False
    axes: int = 0
    style: str = ""
    order: str = ""
    renamed: Renamed = NOT_RENAMED
    sections: tuple[int, ...] = ()
    mixed_sections: bool = False
    trailing: bool = False
    ignores_rotary_dim: bool = False
    tower_at_top: str = ""
    head_dim_rotates: bool = False
    partial_of_head: bool = False
    scales_all_layers: bool = False
    reads_alpha: bool = False
    reads_type: bool = False
    unrotated: str = ""
    rotates_without_window: bool = False
    unrotated_from_last: int = 0
    has_indexer: bool = False
    no_table: str = ""
    note: str = ""

    @property
    def is_known(self) -> bool:
        """False for `UNKNOWN_FAMILY`, to whose models the general rules apply."""
        return self.name != ""

    @property
    def has_settings_by_layer_type(self) -> bool:
        """True if sliding layers have rotary settings of their own, such as a base (Gemma 3)."""
        return self.local_theta is not None

    @property
    def axes_alternate(self) -> bool:
        """True if even frequencies of a head follow rows, and odd ones columns (Pixtral)."""
        return self.order == "axes"

    @property
    def spreads_heads(self) -> bool:
        """True if several heads share the frequencies of one axis (EfficientLoFTR)."""
        return self.partial is not None and self.partial > 1

    @property
    def source(self) -> str:
        """The source of values that are the family's."""
        return f"family default ({self.name})"


UNKNOWN_FAMILY = ModelFamily(reads_alpha=True)
"""The family of a model_type that is missing or not known; its code may read any key."""


def _families_by_type(rows: list[JsonObject]) -> dict[str, ModelFamily]:
    """Return families by model_type, from the rows of families.json.

    A row such as `{"names": "phi3 phi4mm", "renamed": ["yarn", "longrope"]}` describes several types
    that differ from the usual rules alike.
    """
    families = {}
    for row in rows:
        fields = dict(row)
        names = fields.pop("names").split()
        fields["sections"] = tuple(fields.get("sections", ()))
        fields["renamed"] = Renamed(*fields.get("renamed", NOT_RENAMED))
        families.update({name: ModelFamily(name, **fields) for name in names})
    return families


FAMILIES = _families_by_type(stored("families.json")["families"])
ORDINARY = frozenset(" ".join(stored("families.json")["ordinary"]).split())
_KNOWN = {**{name: ModelFamily(name) for name in ORDINARY}, **FAMILIES}
"""All families that are known; ordinary ones have no defaults of their own."""


def variants(model_type: str | None) -> Iterator[str]:
    """Yield a name, and what is left of it without one suffix after the other.

    >>> list(variants("qwen3_5_moe_text"))
    ['qwen3_5_moe_text', 'qwen3_5_moe', 'qwen3_5']
    """
    name = plain_name(model_type)
    while name:
        yield name
        suffix = SUFFIX.search(name)
        name = "" if suffix is None else name[: suffix.start()]


def family_of(model_type: str | None, *, vision: bool = False) -> ModelFamily:
    """Return what is known of a model_type beyond its config.json; UNKNOWN_FAMILY if nothing is.

    A family states how models of this type differ from Llama: their layout of pairs, default base,
    share of rotating channels, and so on. Names may have endings: `qwen2_vl_text` is a `qwen2_vl`.

    Args:
        model_type: The name.
        vision: True for a part that reads images: the family's tower takes precedence.
    """
    tower = f"{plain_name(model_type)}_vision"
    if vision and tower in FAMILIES:
        return FAMILIES[tower]
    return first_known(_KNOWN, variants(model_type), UNKNOWN_FAMILY)


@cache
def _classes() -> dict[str, ClassDefaults]:
    """Return the configuration classes of transformers by model_type.

    A row of class_defaults.json is `["GPT2Config", {"n_positions": 1024, …}]`: a name and default
    values. A third item, if there is one, lists the keys that the class ignores.
    """
    classes = {}
    for model_type, row in stored("class_defaults.json").items():
        name, values, *ignored_keys = row
        classes[model_type] = ClassDefaults(
            name=name, values=values, model_type=model_type, ignores=frozenset(*ignored_keys)
        )
    return classes


def model_type_of(architecture: str) -> str | None:
    """Return the model_type of a class of models; None if no known name has the same letters.

    >>> model_type_of("Qwen2_5_VLForConditionalGeneration"), model_type_of("GPTNeoXForCausalLM")
    ('qwen2_5_vl', 'gpt_neox')
    """
    by_letters = {_letters(name): name for name in (*_classes(), *ORDINARY, *FAMILIES)}
    return by_letters.get(_letters(ARCHITECTURE.sub("", architecture).lower()))


def _letters(name: str) -> str:
    return name.replace("_", "").replace("-", "")


def class_defaults(model_type: str | None, *, vision: bool = False) -> ClassDefaults:
    """Return the defaults of the configuration class of a model_type; empty ones if it is not
    known.

    The name of a larger model stands for its language model, or for its vision tower.

    >>> class_defaults("clip_text_model").values["max_position_embeddings"]
    77
    """
    name = plain_name(model_type)
    candidates = (name, f"{name}_text", f"{name}_text_model")
    if vision:
        candidates = (f"{name}_vision", f"{name}_vision_model", name)
    return first_known(_classes(), candidates, NO_CLASS)
