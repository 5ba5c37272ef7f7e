"""GGUF metadata → encodings, as llama.cpp reads them: brought into Hugging Face's spelling, with what llama.cpp has for
the architecture. And GGUF's names of the tensors of Hugging Face's and Meta's checkpoints."""

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from pecli.engine.arrays import Array
from pecli.engine.table import Table, table_of
from pecli.errors import FileError
from pecli.files.gguf_file import Header, header_of
from pecli.models.data import plain_name, stored
from pecli.models.dialects import inconsistencies
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.families import HALVES, INTERLEAVED, Family
from pecli.models.key_names import ORIGINAL
from pecli.models.keys import Account, Keys, Setting
from pecli.models.rope import rope_encodings
from pecli.models.table_rules import AlibiRule, LearnedRule
from pecli.models.unread import unread_keys

FREQS, LONG, SHORT = "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"
ARCHITECTURES = {
    kind: frozenset(names.split()) for kind, names in stored("dialects/gguf.json").items()
}
"""`neighbours`: whose pairs ggml takes as neighbours (NORMAL), without sections; all others rotate halves (NEOX), of
which `halves` are those in no other row. `mixed_sections`: that interleave M-RoPE sections (IMROPE). `own_sliding`:
whose sliding layers have the base 10000 and no scaling, unless a key says otherwise. `unscaled_sliding`: whose sliding
layers have the base of others, unscaled."""
ALIBI = {"bloom": None, "jina-bert-v2": None, "refact": None, "baichuan": 40}
"""Architectures that llama.cpp gives ALiBi without a key for it; Baichuan with that many blocks only."""
LONG_CONTEXT = 16384  #: Positions from which on a base of 10000 is a surprise


def read(header: Header, label: str) -> ModelEncodings:
    """The encodings of a GGUF file."""
    arch, keys = _keys(header, label)
    warnings: list[str] = []
    bias, blocks = keys.number("attention.max_alibi_bias"), keys.whole("block_count", low=0)
    has_alibi = arch in ALIBI and ALIBI[arch] in (None, blocks and blocks.value)
    if has_alibi or (bias is not None and bias.value > 0):
        bias = bias if bias is not None and bias.value > 0 else Setting(8.0, f"llama.cpp's {arch}")
        heads = keys.whole("attention.head_count")
        found = AlibiRule().encodings(
            keys.translated({}, {"alibi_bias_max": bias, "num_heads": heads})
        )
    elif arch in ARCHITECTURES["position_free"]:
        found = []
        warnings.append("no positional encoding was found: no key names one")
    elif arch in ARCHITECTURES["learned"] and "rope.dimension_count" not in keys:
        found = LearnedRule(rows=("context_length",), dim=("embedding_length",)).encodings(keys)
    else:
        found = _ropes(header, keys, arch, warnings)
    own = {
        name: value
        for name, value in keys.data.items()
        if not name.startswith(("general.", "tokenizer."))
    }
    warnings += unread_keys(
        replace(keys, data={arch: own}, prefix=""), {each.scheme for each in found}
    )
    context, window = keys.whole("context_length"), keys.data.get("attention.sliding_window")
    plain = any(each.is_rotary and each.parameters["scaling"] == "none" for each in found)
    if plain and context and context.value >= LONG_CONTEXT and "rope.freq_base" not in keys:
        said = f"{context.source} is {context.value}, and rope.freq_base is missing"
        warnings.append(f"{said}: llama.cpp then takes 10000")
    length = context.value if context else None
    warnings += inconsistencies(found, length, arch, "context_length", FREQS)
    window = window if isinstance(window, int) and window > 0 else None
    return ModelEncodings(label, arch, tuple(found), tuple(warnings), length, window)


def _keys(header: Header, label: str) -> tuple[str, Keys]:
    arch = header.values.get("general.architecture")
    if not isinstance(arch, str) or not arch:
        raise FileError(label, "has no general.architecture")
    values = {
        name.removeprefix(f"{arch}."): value
        for name, value in header.values.items()
        if value is not None
    }
    return arch, Keys(values, label, f"{arch}.")


def factor_frequencies(path: str) -> dict[str, Table]:
    """The frequencies that a file's factors make of base^(−2i/dim), by the name of the tensor of factors."""
    header = header_of(path)
    found = {name: factors for name in (FREQS, SHORT, LONG) if (factors := header.numbers(name))}
    if not found:
        return {}
    keys = _keys(header, path)[1]
    theta, (size, rotary) = keys.number("rope.freq_base"), _head(keys)
    base, dim = (
        theta.value if theta else 10000.0,
        keys.needed(rotary or size, "rope.dimension_count").value,
    )
    with np.errstate(divide="ignore"):
        values = {
            name: base ** (-2.0 * np.arange(len(each)) / dim) / np.array(each)
            for name, each in found.items()
        }
    return {name: table_of(f"{name}/inv_freq", array) for name, array in values.items()}


def _head(keys: Keys) -> tuple[Setting[Any] | None, Setting[Any] | None]:
    """The width of a head, and how much of it rotates."""
    size, width = keys.whole("attention.key_length"), keys.whole("embedding_length")
    if (
        size is None
        and width is not None
        and not isinstance(keys.data.get("attention.head_count"), list)
    ):
        heads = keys.whole("attention.head_count")
        size = heads and Setting(width.value // heads.value, f"{width.source} // {heads.source}")
    rotary = keys.whole("rope.dimension_count")
    return size or rotary, rotary


def _ropes(header: Header, keys: Keys, arch: str, warnings: list[str]) -> list[Encoding]:
    """The encoding of all layers, or those of full and of sliding layers where they differ."""
    settings = {**_scaling(header, keys, arch), **_sections(keys, arch)}
    if any(value and value.source == FREQS for value in settings.values()):
        warnings.append(
            f"frequencies are divided by the tensor {FREQS}, whatever rope.scaling says"
        )
    base = keys.number("rope.freq_base") or Setting(10000.0, "default")
    size, rotary = _head(keys)
    local = keys.number("rope.freq_base_swa")
    if local is None and keys.data.get("attention.sliding_window"):
        local = (
            Setting(10000.0, "llama.cpp's sliding layers")
            if arch in ARCHITECTURES["own_sliding"]
            else base
        )
    others = {"rope_theta": base, "local_rope_theta": local, "rotary_dim": rotary}
    others["head_dim"] = keys.needed(size, "rope.dimension_count")
    others["swa_head_dim"] = keys.whole("attention.key_length_swa")
    others["swa_rotary_dim"] = keys.whole("rope.dimension_count_swa")
    if not (is_known := any(arch in names for names in ARCHITECTURES.values())):
        warnings.append(
            f"architecture {arch[:60]!r} is unknown: read by the general rules; check layout and defaults"
        )
    is_normal = arch in ARCHITECTURES["neighbours"] and "mrope_section" not in settings
    layout = INTERLEAVED if is_normal else HALVES
    name = f"ggml's rope type of {arch}" if is_known else "of no known architecture"
    scales_all = arch not in ARCHITECTURES["own_sliding"] | ARCHITECTURES["unscaled_sliding"]
    family = Family(name, layout=layout, scales_all_layers=scales_all)
    own = replace(
        keys, account=Account(keys.account.read)
    )  # so that nobody is offered a name of Hugging Face's
    found, more = rope_encodings(own.translated(settings, others), family)
    warnings += more
    if all(each.parameters == found[0].parameters for each in found):
        return [replace(found[0], layer_type="")]
    return found


def _sections(keys: Keys, arch: str) -> dict[str, Setting[Any] | None]:
    """How many frequencies follow time, rows and columns; a fourth number is for an axis that no model uses."""
    given = keys.numbers("rope.dimension_sections")
    counts = [int(count) for count in given.value] if given else []
    while counts and not counts[-1]:
        counts.pop()
    if given is None or not counts:
        return {}
    mixed = Setting(arch in ARCHITECTURES["mixed_sections"], f"ggml's rope type of {arch}")
    return {"mrope_section": Setting(counts, given.source), "mrope_interleaved": mixed}


def _scaling(header: Header, keys: Keys, arch: str) -> dict[str, Setting[Any] | None]:
    kind = keys.word("rope.scaling.type") or Setting(
        "linear", "default"
    )  # a factor without a type, in llama.cpp
    attention, factor = (
        keys.number("rope.scaling.attn_factor"),
        keys.number("rope.scaling.factor", "rope.scale_linear"),
    )
    factor = factor if factor and factor.value else None  # 0 stands for none
    original = keys.whole("rope.scaling.original_context_length") or keys.whole("context_length")
    found: dict[str, Setting[Any] | None] = {
        "rope_type": kind,
        "factor": factor,
        ORIGINAL: original,
    }
    divisors, short, long = map(header.numbers, (FREQS, SHORT, LONG))
    if divisors or (short and long):
        found = {
            "rope_type": Setting("longrope", FREQS if divisors else kind.source),
            ORIGINAL: original,
        }
        found["short_factor"] = Setting(divisors or short, FREQS if divisors else SHORT)
        found["long_factor"] = Setting(divisors or long, FREQS if divisors else LONG)
        return {**found, "attention_factor": attention or Setting(1.0, "default")}
    if kind.value == "none" or (kind.value == "linear" and factor is None):
        return {"rope_type": replace(kind, value="none")} if "rope.scaling.type" in keys else {}
    if kind.value == "longrope":
        raise FileError(
            keys.path, f"{kind.source} is 'longrope'", f"it needs the tensors {SHORT} and {LONG}"
        )
    if keys.known_kind(kind, "none", "linear", "yarn", "longrope") == "yarn":
        found["beta_fast"] = keys.number("rope.scaling.yarn_beta_fast")
        found["beta_slow"] = keys.number("rope.scaling.yarn_beta_slow")
        if (multiplier := keys.number("rope.scaling.yarn_log_multiplier")) and multiplier.value:
            whole = round(
                multiplier.value * (10 if arch.startswith("deepseek") else 1), 6
            )  # of a float32
            found["mscale_all_dim"] = Setting(whole, multiplier.source)
            found["mscale"] = Setting(
                whole if arch == "deepseek2" else 1.0, f"as llama.cpp has it for {arch}"
            )
        if attention is not None and factor is not None and factor.value > 1:
            g = attention.value * (1 + 0.1 * math.log(factor.value))
            found["attention_factor"] = Setting(g, f"{attention.source} · (1 + 0.1 ln factor)")
    return found


TENSOR_NAMES = {
    word: name for name, words in stored("tensor_names.json").items() for word in words.split()
}
"""GGUF's names by those of Hugging Face and Meta."""
AFTER_ATTENTION = frozenset(("gemma2", "gemma3", "gemma3_text", "olmo2", "olmo3", "gpt_oss"))
"""Families whose post_attention_layernorm is just that, and not the norm before the feed-forward layer."""
TRANSPOSED = {
    "gpt2": re.compile(r"c_attn|c_proj|c_fc"),
    "gpt_oss": re.compile(r"experts\.(?:down|gate_up)_proj"),
}
"""Weights that Hugging Face keeps with inputs as rows, by family."""
_NAME = re.compile(
    r"(?:(?:model|language_model|gpt_neox|transformer)\.)*(?:(?:layers|h)\.(\d+)\.)?(.+?)(?:[._](weight|bias))?"
)


def canonical(name: str, model_type: str | None) -> str:
    """GGUF's name of a tensor of Hugging Face's or Meta's; empty where it is not known.

    >>> canonical("model.layers.3.self_attn.q_proj.weight", "llama"), canonical("layers.3.attention.wq.weight", None)
    ('blk.3.attn_q.weight', 'blk.3.attn_q.weight')
    >>> canonical("model.layers.0.mlp.experts.7.up_proj.weight", "qwen3_moe")
    'blk.0.ffn_up_exps.7.weight'
    """
    parts = _NAME.fullmatch(name)
    layer, stem, suffix = parts.groups() if parts else (None, "", "")
    stem, expert = re.sub(r"(?<=experts)\.\d+", "", stem), re.search(r"(?<=experts)\.\d+", stem)
    own = stem == "post_attention_layernorm" and plain_name(model_type) in AFTER_ATTENTION
    known = "post_attention_norm" if own else TENSOR_NAMES.get(stem)
    where = f"blk.{layer}." if layer else ""
    return f"{where}{known}{expert.group() if expert else ''}.{suffix or 'weight'}" if known else ""


def as_in_gguf(name: str, array: Array, model_type: str | None) -> Iterator[tuple[str, Array]]:
    """GGUF's names of a tensor of Hugging Face's or Meta's, or of its parts, with views of them; none if not known."""
    family, is_bias = plain_name(model_type), name.endswith("bias")
    if array.ndim > 1 and not is_bias and family in TRANSPOSED and TRANSPOSED[family].search(name):
        array = array.swapaxes(-1, -2)
    words, parts = ["gate_up_proj"], [array]
    if "experts.gate_up_proj" in name and array.ndim > 1:
        words = ["gate_proj", "up_proj"]
        parts = (
            [array[:, ::2], array[:, 1::2]]
            if family == "gpt_oss"
            else np.array_split(array, 2, axis=1)
        )
    for word, part in zip(words, parts, strict=True):
        if known := canonical(name.replace("gate_up_proj", word), model_type):
            yield known, part
