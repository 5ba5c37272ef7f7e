"""GGUF's names of the tensors of Hugging Face's and Meta's checkpoints."""

import re
from collections.abc import Iterator

import numpy as np

from pecli.engine.arrays import Array
from pecli.models.data import plain_name, stored

#: GGUF's stems by those of Hugging Face and Meta: `attn_q` by `self_attn.q_proj` and by
#: `attention.wq`.
TENSOR_NAMES: dict[str, str] = {
    stem: name for name, stems in stored("tensor_names.json").items() for stem in stems.split()
}
#: Families with a norm after attention; in others, `post_attention_layernorm` is the norm before
#: the feed-forward layer.
AFTER_ATTENTION = frozenset(("gemma2", "gemma3", "gemma3_text", "olmo2", "olmo3", "gpt_oss"))
#: Weights that Hugging Face keeps with inputs as rows, by family.
TRANSPOSED = {
    "gpt2": re.compile(r"c_attn|c_proj|c_fc"),
    "gpt_oss": re.compile(r"experts\.(?:down|gate_up)_proj"),
}
#: Families whose queries and keys llama.cpp's converter permutes, so that neighbouring channels
#: rotate as pairs: Hugging Face's c0 … c63 c64 … c127 become c0 c64 c1 c65 ….
PERMUTED = frozenset(
    (
        *("llama", "mistral", "mixtral", "mistral3", "ministral", "ministral3", "aquila", "yi"),
        *("granite", "granitemoe", "granitemoeshared", "smollm3", "arcee", "olmo", "nemotron_nas"),
        *("internlm", "internlm2", "minicpm", "baichuan", "xverse", "deepseek", "chameleon"),
    )
)
_NAME = re.compile(
    r"(?:(?:model|language_model|gpt_neox|transformer)\.)*(?:(?:layers|h)\.(?P<layer>\d+)\.)?"
    r"(?P<stem>.+?)(?:[._](?P<suffix>weight|bias))?"
)
_EXPERT = re.compile(r"(?<=experts)\.\d+")
#: The weights of a gate and of what it multiplies, in one tensor.
PACKED = "experts.gate_up_proj"


def canonical(name: str, model_type: str | None) -> str:
    """Return GGUF's name of a tensor of Hugging Face's or Meta's; empty if it is not known.

    >>> canonical("model.layers.3.self_attn.q_proj.weight", "llama")
    'blk.3.attn_q.weight'
    >>> canonical("layers.3.attention.wq.weight", None)
    'blk.3.attn_q.weight'
    >>> canonical("model.layers.0.mlp.experts.7.up_proj.weight", "qwen3_moe")
    'blk.0.ffn_up_exps.7.weight'
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return ""
    layer, stem, suffix = match.group("layer", "stem", "suffix")
    gguf_stem = _gguf_stem(stem, model_type)
    if not gguf_stem:
        return ""
    block = f"blk.{layer}." if layer else ""
    return f"{block}{gguf_stem}.{suffix or 'weight'}"


def _gguf_stem(stem: str, model_type: str | None) -> str:
    """Return GGUF's stem, `ffn_up_exps.7` for `mlp.experts.7.up_proj`; empty if it is not known."""
    if stem == "post_attention_layernorm" and plain_name(model_type) in AFTER_ATTENTION:
        return "post_attention_norm"
    number_of_expert = "".join(_EXPERT.findall(stem))
    gguf_stem = TENSOR_NAMES.get(_EXPERT.sub("", stem), "")
    if not gguf_stem:
        return ""
    return gguf_stem + number_of_expert


def as_in_gguf(name: str, array: Array, model_type: str | None) -> Iterator[tuple[str, Array]]:
    """Yield GGUF's name of a tensor, and a view of it with its axes as in a GGUF file.

    Packed weights yield several: `gate_up_proj` is `ffn_gate` and `ffn_up`. A tensor without a name
    in GGUF yields nothing.
    """
    family = plain_name(model_type)
    if _has_inputs_as_rows(name, array, family):
        array = array.swapaxes(-1, -2)
    for part_name, part in _unpacked_gate_and_up(name, array, family):
        gguf_name = canonical(part_name, model_type)
        if gguf_name:
            yield gguf_name, part


def _has_inputs_as_rows(name: str, array: Array, family: str) -> bool:
    """Return True for a weight that is transposed: GPT-2's layers are (inputs, outputs)."""
    is_matrix = array.ndim >= 2 and not name.endswith("bias")
    if not is_matrix or family not in TRANSPOSED:
        return False
    return TRANSPOSED[family].search(name) is not None


def _unpacked_gate_and_up(name: str, array: Array, family: str) -> list[tuple[str, Array]]:
    """Return the two matrices that `gate_up_proj` packs into one, by their names.

    Most models stack them, the gate first; gpt-oss interleaves their rows. Other weights are
    returned as they are.
    """
    is_packed = PACKED in name and array.ndim >= 2
    if not is_packed:
        return [(name, array)]
    if family == "gpt_oss":
        gate = array[:, 0::2]
        up = array[:, 1::2]
    else:
        gate, up = np.array_split(array, 2, axis=1)
    return [
        (name.replace("gate_up_proj", "gate_proj"), gate),
        (name.replace("gate_up_proj", "up_proj"), up),
    ]
