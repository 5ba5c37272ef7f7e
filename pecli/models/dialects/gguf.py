"""GGUF metadata → encodings, as llama.cpp reads them."""

from __future__ import annotations

import math

import numpy as np

from pecli.engine.table import Table, table_of
from pecli.errors import FileError
from pecli.files.gguf_file import Header, header_of, read_numbers
from pecli.models.account import unread_keys
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.presets import presets
from pecli.models.rope import filled
from pecli.models.values import Keys, Value

FREQS, LONG, SHORT = "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"
_INTERLEAVED = """
    llama llada llama4 deci baichuan starcoder internlm2 minicpm xverse command-r cohere2 cohere2moe olmo arctic
    deepseek deepseek2 deepseek2-ocr deepseek32 deepseek4 muse-glimmer plm chatglm granite granitemoe granitehybrid
    graniteswitch granite_swa chameleon bailingmoe neo-bert smollm3 arcee ernie4_5 ernie4_5-moe mistral3 eagle3
    mistral4 llama-embed maincoder glm-dsa dots3note nanbeige pockettts hy_v4 bailingmoe3 glm4
"""
INTERLEAVED = frozenset(_INTERLEAVED.split())
"""Architectures whose pairs ggml takes as neighbours (NORMAL), without sections; the others rotate halves (NEOX)."""
MIXED_SECTIONS = frozenset(("qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe", "qwen4exp", "qwen3tts"))
"""Architectures that interleave M-RoPE sections (IMROPE)."""
LEARNED = frozenset(("gpt2", "bert", "starcoder", "mpt"))
_POSITION_FREE = """
    mamba mamba2 rwkv6 rwkv6qwen2 rwkv7 arwkv7 jamba t5 t5encoder jais nemotron_h nemotron_h_moe kimi-linear
"""
POSITION_FREE = frozenset(_POSITION_FREE.split())
ALIBI = {"bloom": None, "jina-bert-v2": None, "refact": None, "baichuan": 40}
"""Architectures that llama.cpp gives ALiBi without a key for it; Baichuan with that many blocks only."""
MAX_BIAS = 8.0
_OWN_SLIDING = "gemma3 gemma3n gemma-embedding gemma4 gemma4-assistant plamo3 step35 mimo2 modern-bert dots3note"
OWN_SLIDING = frozenset(_OWN_SLIDING.split())
"""Architectures whose sliding layers have the base 10000 and no scaling, unless a key says otherwise."""
UNSCALED_SLIDING = frozenset(("olmo2", "laguna", "muse-glimmer"))
"""Architectures whose sliding layers have the base of the others, but no scaling."""
LLAMA3 = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
LONG_CONTEXT = 16384
"""Positions from which on a base of 10000 is a surprise."""
HARMLESS = frozenset(("rope.scaling.finetuned",))
_SLIDING_SOURCE = "llama.cpp's sliding layers"


def read(path: str, label: str) -> ModelEncodings:
    """The encodings of a GGUF file."""
    header = header_of(path)
    arch, keys = _keys(header, label)
    warnings: list[str] = []
    bias = _max_bias(keys, arch)
    if bias is not None:
        heads = keys.whole("attention.head_count")
        if heads is None:
            raise FileError(label, "has no attention.head_count", "it is needed")
        rule, form = Value("paper", "ggml"), Value("symmetric", "ggml")
        found = {"heads": heads, "rule": rule, "max_bias": bias, "form": form}
        encodings = [Encoding.of("alibi", found)]
    elif arch in POSITION_FREE:
        encodings = []
        warnings.append("no positional encoding was found: no key names one")
    elif arch in LEARNED and "rope.dimension_count" not in keys:
        rows, dim = keys.whole("context_length"), keys.whole("embedding_length")
        if rows is None or dim is None:
            raise FileError(label, "has no context_length or embedding_length", "both are needed")
        encodings = [Encoding.of("learned", {"max_len": rows, "dim": dim})]
    else:
        encodings = _ropes(path, keys, header, arch, warnings)
    context, window = keys.whole("context_length"), keys.data.get("attention.sliding_window")
    warnings += _doubts(keys, arch, encodings, context)
    lengths = context.value if context else None, window if isinstance(window, int) and window > 0 else None
    return ModelEncodings(label, arch, tuple(encodings), tuple(warnings), *lengths)


def _doubts(keys: Keys, arch: str, encodings: list[Encoding], context: Value | None) -> list[str]:
    """Keys about positions that nobody read, and a base that seems to be missing."""
    own = {name: value for name, value in keys.data.items() if not name.startswith(("general.", "tokenizer."))}
    found = unread_keys(
        Keys({arch: own}, keys.path, account=keys.account), HARMLESS, {each.scheme for each in encodings}
    )
    plain = any(each.is_rotary and each.parameters["scaling"] == "none" for each in encodings)
    if plain and context and context.value >= LONG_CONTEXT and "rope.freq_base" not in keys:
        said = f"{context.source} is {context.value}, and rope.freq_base is missing"
        found.append(f"{said}: llama.cpp then takes 10000")
    return found


def _keys(header: Header, label: str) -> tuple[str, Keys]:
    """The architecture, and what the header says about it."""
    arch = header.values.get("general.architecture")
    if not isinstance(arch, str) or not arch:
        raise FileError(label, "has no general.architecture")
    values = {name.removeprefix(f"{arch}."): value for name, value in header.values.items() if value is not None}
    return arch, Keys(values, label, f"{arch}.")


def factor_frequencies(path: str) -> dict[str, Table]:
    """The frequencies that a file's factors make of base^(−2i/dim), by the name of the tensor of factors."""
    header = header_of(path)
    found = {name: read_numbers(path, header, name) for name in (FREQS, SHORT, LONG)}
    if not any(found.values()):
        return {}
    _, keys = _keys(header, path)
    base, dim, _ = _base_and_dim(keys)
    with np.errstate(divide="ignore"):
        made = {
            name: base.value ** (-2.0 * np.arange(len(factors)) / dim.value) / np.array(factors)
            for name, factors in found.items()
            if factors
        }
    return {name: table_of(f"{name}/inv_freq", values) for name, values in made.items()}


def known_factors(path: str) -> str:
    """The llama3 scaling of a preset whose factors a file holds, in words; empty where there is none."""
    made = factor_frequencies(path).get(FREQS)
    if made is None:
        return ""
    base, dim, _ = _base_and_dim(_keys(header_of(path), path)[1])
    kinds = ({**each.config, **(each.config.get("rope_scaling") or {})} for each in presets().values())
    for values in (tuple(each.get(name) for name in LLAMA3) for each in kinds if each.get("rope_type") == "llama3"):
        given = dict(zip(LLAMA3, values, strict=True))
        rope = Encoding("", "rope", {"dim": dim.value, "base": base.value, "scaling": "llama3", **given})
        if made.shape == (dim.value // 2,) and np.allclose(made.array(), rope.inverse_frequencies() or (), rtol=1e-5):
            return "llama3, " + ", ".join(f"{name} {value:g}" for name, value in given.items())
    return ""


def _max_bias(keys: Keys, arch: str) -> Value | None:
    """The largest bias of ALiBi: as a key says, or as llama.cpp has it for the architecture."""
    bias = keys.number("attention.max_alibi_bias")
    if bias is not None and bias.value > 0:
        return bias
    blocks = keys.whole("block_count", low=0)
    if arch in ALIBI and ALIBI[arch] in (None, blocks and blocks.value):
        return Value(MAX_BIAS, f"llama.cpp's {arch}" + (f" with {blocks.source} 40" if ALIBI[arch] and blocks else ""))
    return None


def _ropes(path: str, keys: Keys, header: Header, arch: str, warnings: list[str]) -> list[Encoding]:
    """The encoding of all layers, or those of full and of sliding layers where they differ."""
    theta, dim, size = _base_and_dim(keys)
    scaling = _scaling(path, keys, header)
    if scaling["scaling"].source == FREQS:
        warnings.append(f"frequencies are divided by the tensor {FREQS}, whatever rope.scaling says")
    full = {"dim": dim, "base": theta, **scaling}
    sliding = _sliding(keys, arch, full)
    small = keys.whole("attention.key_length_swa") or size
    if {name: each.value for name, each in sliding.items()} == {name: each.value for name, each in full.items()}:
        return [_encoding(keys, arch, "", full, size)]
    types = ("full_attention", full, size), ("sliding_attention", sliding, small)
    return [_encoding(keys, arch, layer_type, found, width) for layer_type, found, width in types]


def _base_and_dim(keys: Keys) -> tuple[Value, Value, Value | None]:
    """The base, the rotary dimension, and the width of a head."""
    theta, size = keys.number("rope.freq_base") or Value(10000.0, "default"), _head_size(keys)
    dim = keys.whole("rope.dimension_count") or size
    if dim is None:
        raise FileError(keys.path, "has neither rope.dimension_count nor the width of a head", "one is needed")
    return theta, dim, size


def _head_size(keys: Keys) -> Value | None:
    size, width = keys.whole("attention.key_length"), keys.whole("embedding_length")
    if size is None and width is not None and not isinstance(keys.data.get("attention.head_count"), list):
        heads = keys.whole("attention.head_count")
        size = heads and Value(width.value // heads.value, f"{width.source} // {heads.source}")
    return size


def _sliding(keys: Keys, arch: str, full: dict[str, Value]) -> dict[str, Value]:
    """The parameters of layers with a sliding window; those of the others where there are none."""
    base = keys.number("rope.freq_base_swa")
    if not keys.data.get("attention.sliding_window") and base is None:
        return full
    found = dict(full)
    if arch in OWN_SLIDING or arch in UNSCALED_SLIDING:
        found = {"dim": full["dim"], "base": full["base"], "scaling": Value("none", _SLIDING_SOURCE)}
    if arch in OWN_SLIDING:
        found["base"] = Value(10000.0, _SLIDING_SOURCE)
    return found | {
        "dim": keys.whole("rope.dimension_count_swa") or found["dim"],
        "base": base or found["base"],
    }


def _encoding(keys: Keys, arch: str, layer_type: str, found: dict[str, Value], size: Value | None) -> Encoding:
    sections, width = _sections(keys, arch), size or found["dim"]
    encoding = Encoding.of(
        "rope",
        filled(found),
        sections,
        layer_type=layer_type,
        sources={"layout": f"ggml's rope type of {arch}", "head_dim": width.source},
        layout="interleaved" if arch in INTERLEAVED and not sections else "halves",
        head_dim=width.value,
    )
    encoding.check(keys.path)
    return encoding


def _sections(keys: Keys, arch: str) -> dict[str, Value]:
    """How many frequencies follow time, rows and columns; a fourth number is for an axis that no model uses."""
    given = keys.numbers("rope.dimension_sections")
    counts = [int(count) for count in given.value] if given else []
    while counts and not counts[-1]:
        counts.pop()
    if given is None or not counts:
        return {}
    mixed = Value(arch in MIXED_SECTIONS, f"ggml's rope type of {arch}")
    return {"mrope_section": Value(counts, given.source), "mrope_interleaved": mixed}


def _scaling(path: str, keys: Keys, header: Header) -> dict[str, Value]:
    kind = keys.word("rope.scaling.type")
    name = kind.value if kind else "linear"  # a factor without a type, in llama.cpp
    source = kind.source if kind else "default"
    original = keys.whole("rope.scaling.original_context_length") or keys.whole("context_length")
    attention = keys.number("rope.scaling.attn_factor")
    factor = keys.number("rope.scaling.factor", "rope.scale_linear")
    factor = factor if factor and factor.value else None  # 0 stands for none
    divisors = read_numbers(path, header, FREQS)
    short, long = read_numbers(path, header, SHORT), read_numbers(path, header, LONG)
    found: dict[str, Value | None]
    if divisors is not None or (short is not None and long is not None):
        source = FREQS if divisors is not None else source
        found = {
            "scaling": Value("longrope", source),
            "short_factor": Value(divisors or short, FREQS if divisors else SHORT),
            "long_factor": Value(divisors or long, FREQS if divisors else LONG),
            "original_max_position_embeddings": original,
            "attention_factor": attention or Value(1.0, "default"),
        }
    elif name == "none" or (name == "linear" and factor is None):
        found = {"scaling": Value("none", source if kind else "default: no scaling is asked for")}
    elif name == "linear":
        found = {"scaling": Value("linear", source), "factor": factor}
    elif name == "yarn":
        found = {
            "scaling": Value("yarn", source),
            "factor": factor,
            "original_max_position_embeddings": original,
            "beta_fast": keys.number("rope.scaling.yarn_beta_fast"),
            "beta_slow": keys.number("rope.scaling.yarn_beta_slow"),
        }
        if attention is not None and factor is not None and factor.value > 1:
            g = attention.value * (1 + 0.1 * math.log(factor.value))
            found["attention_factor"] = Value(g, f"{attention.source} · (1 + 0.1 ln factor)")
    elif name == "longrope":
        raise FileError(keys.path, f"{source} is {name!r}", f"it needs the tensors {SHORT} and {LONG}")
    else:
        raise FileError(keys.path, f"{source} is {name[:40]!r}", "known are none, linear, yarn, longrope")
    return {key: value for key, value in found.items() if value is not None}
