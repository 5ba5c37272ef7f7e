"""Help of the commands that make the tables of schemes."""

from collections.abc import Mapping
from inspect import getdoc
from typing import NamedTuple

from pecli.engine.schemes.scheme import Scheme


class SchemeHelp(NamedTuple):
    """One sentence about a command, and example command lines."""

    summary: str
    examples: tuple[str, ...] = ()


_BY_SCHEME: Mapping[str, SchemeHelp] = {
    "sinusoidal": SchemeHelp(
        "Generate, preview or verify sinusoidal tables.",
        (
            "pecli sinusoidal --seq-len 512 --dim 64 -o pe.npy",
            "pecli sinusoidal --seq-len 1500 --dim 384 --style whisper -o pe.npz",
            "pecli sinusoidal --seq-len 512 --dim 64 --verify dump.npy --max-ulp 2",
        ),
    ),
    "rope": SchemeHelp(
        "Generate, preview or verify rotary (RoPE) tables: cos, sin and inv_freq.",
        (
            "pecli rope --seq-len 4096 --dim 128 -o rope.safetensors",
            "pecli rope --seq-len 8192 --dim 128 --theta 500000 --layout halves -o llama.npz",
            "pecli rope --model llama-3.1-8b --seq-len 131072 -o rope.safetensors",
            "pecli rope --config config.json --seq-len 4096 --verify dump.npy --atol 1e-6",
        ),
    ),
    "alibi": SchemeHelp(
        "Generate, preview or verify ALiBi slopes and biases.",
        (
            "pecli alibi --heads 12 --slopes",
            "pecli alibi --heads 32 --seq-len 2048 --form causal -o bias.safetensors",
            "pecli alibi --heads 8 --slopes | while read m; do echo slope $m; done",
        ),
    ),
    "relative": SchemeHelp(
        "Generate, preview or verify tables of relative positions: buckets of T5 and DeBERTa, Swin's index.",
        (
            "pecli relative --style t5 --seq-len 512 -o buckets.npy",
            "pecli relative --style swin --grid 7x7"
            " --weights model.safetensors:relative_position_bias_table -o bias.npy",
        ),
    ),
    "learned-init": SchemeHelp(
        "Generate, preview or verify the initial weights of a learned table.",
        (
            "pecli learned-init --max-len 1024 --dim 768 -o wpe.safetensors",
            "pecli learned-init --max-len 512 --dim 768 --init trunc-normal -o pos.npy",
            "pecli learned-init --max-len 64 --dim 8 --seed 3 --verify w.npy",
        ),
    ),
}


def help_of(scheme_type: type[Scheme]) -> SchemeHelp:
    """Return the help of a scheme's command; by default the first line of the scheme's docstring."""
    if scheme_type.name in _BY_SCHEME:
        return _BY_SCHEME[scheme_type.name]
    docstring = getdoc(scheme_type) or scheme_type.name
    return SchemeHelp(docstring.partition("\n")[0])
