"""GGUF metadata → encodings, as llama.cpp reads them."""

from __future__ import annotations

import math

from pecli.errors import FileError
from pecli.files.gguf_file import MAGIC, Header, header_of, read_numbers
from pecli.models.default_parameters import filled
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.values import Keys, Value

__all__ = ["MAGIC", "read"]

FREQS, LONG, SHORT = "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"
_INTERLEAVED = """
    llama llama4 deci baichuan starcoder internlm2 minicpm xverse command-r cohere2 olmo arctic deepseek deepseek2
    chatglm glm4 granite granitemoe chameleon plm bailingmoe arcee ernie4_5 smollm3 mistral3
"""
INTERLEAVED = frozenset(_INTERLEAVED.split())
"""Architectures whose pairs ggml takes as neighbours (NORMAL); the others turn halves (NEOX)."""
LEARNED = frozenset(("gpt2", "bert", "starcoder"))
STILL = frozenset(("mamba", "mamba2", "rwkv6", "rwkv7", "jamba", "t5", "t5encoder"))


def read(path: str, label: str) -> ModelEncodings:
    """The encodings of a GGUF file."""
    header = header_of(path)
    arch = header.values.get("general.architecture")
    if not isinstance(arch, str) or not arch:
        raise FileError(label, "has no general.architecture")
    values = {name.removeprefix(f"{arch}."): value for name, value in header.values.items() if value is not None}
    keys = Keys(values, label, f"{arch}.")
    warnings: list[str] = []
    bias = keys.number("attention.max_alibi_bias")
    if bias is not None and bias.value > 0:
        heads = keys.whole("attention.head_count")
        if heads is None:
            raise FileError(label, "has no attention.head_count", "it is needed")
        rule, form = Value("paper", "ggml"), Value("symmetric", "ggml")
        found = {"heads": heads, "rule": rule, "max_bias": bias, "form": form}
        encodings = [Encoding.of("alibi", found)]
    elif arch in STILL:
        encodings = []
        warnings.append("no positional encoding was found: no key names one")
    elif arch in LEARNED and "rope.dimension_count" not in keys:
        rows, dim = keys.whole("context_length"), keys.whole("embedding_length")
        if rows is None or dim is None:
            raise FileError(label, "has no context_length or embedding_length", "both are needed")
        encodings = [Encoding.of("learned", {"max_len": rows, "dim": dim})]
    else:
        encodings = [_rope(path, keys, header, arch, warnings)]
    return ModelEncodings(label, arch, tuple(encodings), tuple(warnings))


def _rope(path: str, keys: Keys, header: Header, arch: str, warnings: list[str]) -> Encoding:
    size = keys.whole("attention.key_length")
    width = keys.whole("embedding_length")
    if size is None and width is not None and not isinstance(keys.data.get("attention.head_count"), list):
        heads = keys.whole("attention.head_count")
        size = heads and Value(width.value // heads.value, f"{width.source} // {heads.source}")
    dim = keys.whole("rope.dimension_count") or size
    if dim is None:
        raise FileError(keys.path, "has neither rope.dimension_count nor the width of a head", "one is needed")
    found = {"dim": dim, "base": keys.number("rope.freq_base") or Value(10000.0, "default")}
    found = filled(found | _scaling(path, keys, header))
    if found["scaling"].source == FREQS:
        warnings.append(f"frequencies are divided by the tensor {FREQS}, whatever rope.scaling says")
    encoding = Encoding.of(
        "rope",
        found,
        sources={"layout": f"ggml's rope type of {arch}", "head_dim": (size or dim).source},
        layout="interleaved" if arch in INTERLEAVED else "halves",
        head_dim=(size or dim).value,
    )
    encoding.check(keys.path)
    return encoding


def _scaling(path: str, keys: Keys, header: Header) -> dict[str, Value]:
    kind = keys.word("rope.scaling.type")
    name = kind.value if kind else "none"
    source = kind.source if kind else "default: no scaling is asked for"
    original = keys.whole("rope.scaling.original_context_length") or keys.whole("context_length")
    attention = keys.number("rope.scaling.attn_factor")
    factor = keys.number("rope.scaling.factor", "rope.scale_linear")
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
        found = {"scaling": Value("none", source)}
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
