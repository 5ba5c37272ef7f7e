"""What a family of models means where its configuration is silent: the rows of families.json beside this file. A
model_type is looked up by its exact name, then with suffixes that name a variant of the same text model taken off
(`qwen3_5_moe_text` → `qwen3_5_moe` → `qwen3_5`). Sizes and rotary settings that a configuration leaves out are those of
its class in transformers (class_defaults.json). Families whose keys say everything, in halves, are listed as ordinary:
their model_type is not unknown."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from pecli.models.data import plain_name, stored
from pecli.models.keys import NO_CLASS, ClassDefaults

HALVES = "halves"
INTERLEAVED = "interleaved"
DEEPSEEK = "deepseek"  #: Interleaved input, halves output

SUFFIXES = ("_text_model", "_text", "_moe", "_vl", "_thinker", "_talker", "_config")


class Renamed(NamedTuple):
    """A rope type by the name that configurations of a family have for it, and by its usual name."""

    before: str
    after: str


NOT_RENAMED = Renamed("", "")


@dataclass(frozen=True)
class Family:
    """What the family implies; None where it implies nothing."""

    name: str = ""
    theta: float | None = None
    local_theta: float | None = (
        None  #: Base of the sliding layers, where it differs without layer types being named
    )
    pattern: str = (
        ""  #: Which layers are full (F) and which slide (S), over and over, where no key lists them
    )
    partial: float | None = (
        None  #: The fraction of a head that rotates; above 1 where several heads share frequencies
    )
    layout: str = HALVES
    tables_in_halves: bool = (
        False  #: Tables are doubled as halves, and interleaved only when they are used
    )
    axes: int = 0  #: 2 or 3: each axis of an image or a video rotates a share of the head
    style: str = (
        ""  #: Whose conventions the axes follow, of the styles that `pecli rope` has for grids
    )
    order: str = ""  #: Of all frequencies: `axes` for even ones (rows), then odd ones (columns); `ernie`, then time
    renamed: Renamed = NOT_RENAMED  #: A rope type whose name means another one here
    sections: tuple[
        int, ...
    ] = ()  #: Frequencies of time, rows and columns, where they fit the head and no key says it
    mixed_sections: bool = False  #: The sections are interleaved, whatever the keys say
    trailing: bool = False  #: The last channels of a head rotate, not the first
    ignores_rotary_dim: bool = False
    beside_text: str = (
        ""  #: What rotates by the keys at the top, beside a language model in `text_config`
    )
    head_dim_rotates: bool = (
        False  #: With latent attention, a `head_dim` that is given is the rotary dimension
    )
    partial_of_head: bool = (
        False  #: With latent attention, a partial factor is one of the whole head
    )
    scales_all_layers: bool = (
        False  #: Flat settings scale the sliding layers, too, which have a base of their own
    )
    reads_alpha: bool = False  #: Dynamic scaling with an `alpha` is a fixed NTK one
    reads_type: bool = (
        False  #: `position_embedding_type` counts; other rotary classes of transformers ignore it
    )
    no_table: str = ""  #: Why no table over positions 0, 1, 2, … is what the model uses
    note: str = ""  #: A warning about what the keys do not say

    @property
    def source(self) -> str:
        return f"family default ({self.name})"


_ROWS = stored("families.json")
FAMILIES: dict[str, Family] = {}
for _row in _ROWS["families"]:
    _fields: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in _row.items()
    }
    if "renamed" in _fields:
        _fields["renamed"] = Renamed(*_fields["renamed"])
    FAMILIES |= {name: Family(name, **_fields) for name in _fields.pop("names").split()}
ORDINARY = frozenset(" ".join(_ROWS["ordinary"]).split())


def variants(model_type: str | None) -> Iterator[str]:
    """A name, and what is left of it when suffixes of variants are taken off, one after the other."""
    name = plain_name(model_type)
    while name:
        yield name
        name = name.removesuffix(
            next((suffix for suffix in SUFFIXES if name.endswith(suffix)), name)
        )


def family_of(model_type: str | None, *, vision: bool = False) -> Family | None:
    """The family of a model_type; None where the name says nothing."""
    name = plain_name(model_type)
    if vision and f"{name}_vision" in FAMILIES:
        name += "_vision"
    known = (name for name in variants(name) if name in FAMILIES or name in ORDINARY)
    return next((FAMILIES.get(name, Family(name)) for name in known), None)


@cache
def _classes() -> dict[str, ClassDefaults]:
    rows = stored("class_defaults.json").items()
    return {
        name: ClassDefaults(config, values, name, frozenset(*more))
        for name, (config, values, *more) in rows
    }


ARCHITECTURE = re.compile(r"(For[A-Z]\w*|LMHeadModel\w*|PreTrainedModel|Model|Decoder|Encoder)$")
"""How the name of a model's class ends."""


def model_type_of(architecture: str) -> str | None:
    """The model_type of a class of models; None where no name is known that is spelled with the same letters.

    >>> model_type_of("Qwen2_5_VLForConditionalGeneration"), model_type_of("GPTNeoXForCausalLM")
    ('qwen2_5_vl', 'gpt_neox')
    """
    by_letters = {name.replace("_", ""): name for name in (*_classes(), *ORDINARY, *FAMILIES)}
    return by_letters.get(
        ARCHITECTURE.sub("", architecture).lower().replace("_", "").replace("-", "")
    )


def class_defaults(model_type: str | None, *, vision: bool = False) -> ClassDefaults:
    """What the configuration class of a model_type means by what is left out; nothing for unknown ones.

    >>> class_defaults("clip_text_model").values["max_position_embeddings"]
    77
    """
    name = plain_name(model_type)
    more = (
        [f"{name}_vision", f"{name}_vision_model"]
        if vision
        else [f"{name}_text", f"{name}_text_model"]
    )
    names = [*more, name] if vision else [name, *more]
    return next((_classes()[each] for each in names if each in _classes()), NO_CLASS)
