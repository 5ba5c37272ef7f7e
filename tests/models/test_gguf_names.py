"""GGUF's names and shapes of the tensors of Hugging Face's checkpoints, so that both files can be
compared.

Names and shapes are those that llama.cpp's converter (convert_hf_to_gguf.py) gives them: it splits
packed tensors and transposes some. blk.0 is layer 0.
"""

import numpy as np
import pytest

from pecli.models.gguf_names import as_in_gguf, canonical

Shape = tuple[int, ...]


def names_and_shapes_in_gguf(name: str, shape: Shape, family: str) -> list[tuple[str, Shape]]:
    """Return the tensors of a .gguf file that hold a tensor of Hugging Face's file."""
    return [(known, part.shape) for known, part in as_in_gguf(name, np.zeros(shape), family)]


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        pytest.param(
            "h.0.attn.c_attn.weight", (3, 2), ("blk.0.attn_qkv.weight", (2, 3)), id="a weight"
        ),
        pytest.param(
            "h.0.attn.c_attn.weight", (3,), ("blk.0.attn_qkv.weight", (3,)), id="a vector"
        ),
        pytest.param("h.0.attn.c_attn.bias", (3, 2), ("blk.0.attn_qkv.bias", (3, 2)), id="a bias"),
    ],
)
def test_weights_of_gpt_2_are_transposed_in_gguf_but_not_vectors_and_biases(
    name: str, shape: Shape, expected: tuple[str, Shape]
) -> None:
    """Conv1D of GPT-2 stores weights as (in, out), which llama.cpp's converter transposes. `shape`
    is that of the tensor in Hugging Face's file, `expected` its name and shape in the .gguf.
    """
    assert names_and_shapes_in_gguf(name, shape, "gpt2") == [expected]


def test_packed_experts_of_gpt_oss_are_two_tensors() -> None:
    """gpt-oss interleaves the gate and up projections in the last axis of gate_up_proj, here 6
    columns of 2 experts; llama.cpp's converter splits them into 3 and 3 and transposes each.
    """
    assert names_and_shapes_in_gguf(
        "model.layers.0.mlp.experts.gate_up_proj", (2, 4, 6), "gpt_oss"
    ) == [
        ("blk.0.ffn_gate_exps.weight", (2, 3, 4)),
        ("blk.0.ffn_up_exps.weight", (2, 3, 4)),
    ]


def test_packed_biases_of_gpt_oss_are_two_tensors() -> None:
    """Of six interleaved biases per expert, three are of the gate and three of the up projection."""
    assert names_and_shapes_in_gguf(
        "model.layers.0.mlp.experts.gate_up_proj_bias", (2, 6), "gpt_oss"
    ) == [
        ("blk.0.ffn_gate_exps.bias", (2, 3)),
        ("blk.0.ffn_up_exps.bias", (2, 3)),
    ]


def test_a_vector_with_the_name_of_packed_experts_has_no_name_in_gguf() -> None:
    """Packed experts have three axes; a vector of that name is of a file that pecli does not
    understand.
    """
    assert (
        names_and_shapes_in_gguf("model.layers.0.mlp.experts.gate_up_proj", (6,), "gpt_oss") == []
    )


@pytest.mark.parametrize(
    ("name", "family", "known"),
    [
        pytest.param(
            "post_attention_layernorm",
            "gemma2",
            "blk.1.post_attention_norm.weight",
            id="after attention, in Gemma 2",
        ),
        pytest.param(
            "post_attention_layernorm",
            "llama",
            "blk.1.ffn_norm.weight",
            id="before the feed-forward part, in Llama",
        ),
        pytest.param("wibble", "llama", "", id="an unknown name"),
    ],
)
def test_post_attention_layernorm_has_another_name_in_the_gguf_of_gemma_2_than_of_llama(
    name: str, family: str, known: str
) -> None:
    """Gemma 2 has a norm after attention, and others before and after the feed-forward part. In Llama
    the same name means the only norm between both parts. A name that the converter does not know
    has none in the .gguf ("").
    """
    assert canonical(f"model.layers.1.{name}.weight", family) == known
