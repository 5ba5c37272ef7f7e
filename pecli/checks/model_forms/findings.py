"""Differences between a model in two formats, as data; `sentences` turns them into text."""

from dataclasses import dataclass
from enum import Enum, auto


class ConverterMistake(Enum):
    """A mistake of a converter that needs no further detail."""

    HALVES_EXCHANGED = auto()
    FUSED_ORDER_KEPT = auto()
    QUERIES_AND_KEYS_PERMUTED = auto()
    KEYS_AND_VALUES_EXCHANGED = auto()
    NOT_PERMUTED = auto()
    PERMUTED = auto()
    PERMUTED_TWICE = auto()
    PERMUTED_BACKWARDS = auto()
    ALL_ZEROS = auto()
    TRANSPOSED = auto()


@dataclass(frozen=True)
class UnmatchedTensor:
    """A tensor that one of two models lacks."""

    label: str


@dataclass(frozen=True)
class DifferentShape:
    """A tensor of another shape."""

    shape: tuple[int, ...]
    expected: tuple[int, ...]


@dataclass(frozen=True)
class PermutedInHeads:
    """Rows that were permuted as those of another number of heads (llama.cpp#3364)."""

    heads: int
    expected: int
    are_kv_heads: bool


@dataclass(frozen=True)
class NormOffset:
    """Norm weights that are 1 too large or too small: Gemma multiplies by 1 + weight."""

    offset: int
    is_one_added: bool


@dataclass(frozen=True)
class Multiplied:
    """Values that are a multiple of those expected."""

    factor: float


@dataclass(frozen=True)
class SwappedLayer:
    """Values of the same tensor in another layer."""

    layer: str


@dataclass(frozen=True)
class SwappedTensor:
    """Values of another tensor in the same layer."""

    name: str


@dataclass(frozen=True)
class BeyondRounding:
    """Values that differ, for an unknown reason, by more than their dtype's rounding."""

    storage: str


Finding = (
    ConverterMistake
    | UnmatchedTensor
    | DifferentShape
    | PermutedInHeads
    | NormOffset
    | Multiplied
    | SwappedLayer
    | SwappedTensor
    | BeyondRounding
)


@dataclass(frozen=True)
class TensorDifference:
    """A tensor that differs, and its largest error, which is 0 if it cannot be compared."""

    name: str
    finding: Finding
    max_abs_error: float = 0.0


@dataclass(frozen=True)
class NoRotaryEncoding:
    """Files without any rotary encoding, while the others have one."""

    label: str


@dataclass(frozen=True)
class ValueChanged:
    """A number of the model that differs, and the key that states it; the key may be missing."""

    name: str
    expected: float
    value: float
    key: str
    is_key_missing: bool
    layer_type: str = ""


@dataclass(frozen=True)
class MissingKey:
    """A key that the file should have."""

    key: str


@dataclass(frozen=True)
class SectionsChanged:
    """Different sections of M-RoPE."""

    expected: tuple[int, ...]
    sections: tuple[int, ...]
    layer_type: str = ""


@dataclass(frozen=True)
class ScalingLost:
    """A scaling that the file does not have, for want of a key or tensor."""

    scaling: str
    key: str
    layer_type: str = ""


@dataclass(frozen=True)
class FrequenciesDiffer:
    """Rotary pairs whose frequencies differ; `length` is the context, if it matters."""

    pairs: tuple[int, ...]
    length: int | None = None
    layer_type: str = ""


@dataclass(frozen=True)
class AttentionFactorChanged:
    """A different factor of cosines and sines; `length` is the context, if it matters."""

    expected: float
    factor: float
    length: int | None = None
    layer_type: str = ""


EncodingChange = (
    ValueChanged | SectionsChanged | ScalingLost | FrequenciesDiffer | AttentionFactorChanged
)
SettingsProblem = NoRotaryEncoding | MissingKey | EncodingChange
