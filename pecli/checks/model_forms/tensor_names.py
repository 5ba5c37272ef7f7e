"""Names of tensors in GGUF, taken apart: `blk.3.ffn_up_exps.7.weight`."""

import re
from functools import cache
from typing import NamedTuple

from pecli.checks.model_forms.stored import EXPERT

PROJECTION_PREFIX = re.compile(r"^attn_(?=[qkv]+[.])")


class TensorName(NamedTuple):
    """The parts of a name.

    Attributes:
        layer: The number of the layer, as text; empty outside of layers.
        part: The tensor within its layer: `q`, `qkv`, `ffn_up_exps`.
        is_bias: True for a bias.
        expert: The number of the expert; None if the tensor is not one of several.
    """

    layer: str
    part: str
    is_bias: bool
    expert: int | None

    @classmethod
    @cache
    def parse(cls, name: str) -> "TensorName":
        """Take a name apart.

        >>> TensorName.parse("blk.3.attn_q.weight")
        TensorName(layer='3', part='q', is_bias=False, expert=None)
        >>> TensorName.parse("blk.0.ffn_up_exps.7.bias").short
        'ffn_up_exps.7 bias'
        """
        layer = ""
        name_in_layer = name
        if name.startswith("blk."):
            layer, name_in_layer = name.removeprefix("blk.").split(".", 1)
        name_in_layer = PROJECTION_PREFIX.sub("", name_in_layer)
        expert = EXPERT.search(name_in_layer)
        is_bias = name_in_layer.endswith(".bias")
        part = EXPERT.sub("", name_in_layer).removesuffix(".weight").removesuffix(".bias")
        return cls(
            layer=layer, part=part, is_bias=is_bias, expert=int(expert[1]) if expert else None
        )

    @property
    def whole(self) -> str:
        """The name of the tensor within its layer, without an expert: `ffn_up_exps bias`."""
        return f"{self.part} bias" if self.is_bias else self.part

    @property
    def short(self) -> str:
        """The name of the tensor within its layer: `ffn_up_exps.7 bias`."""
        expert = "" if self.expert is None else f".{self.expert}"
        suffix = " bias" if self.is_bias else ""
        return f"{self.part}{expert}{suffix}"
