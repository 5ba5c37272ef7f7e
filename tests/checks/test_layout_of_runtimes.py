"""llama.cpp rotates neighbouring channels of models whose weights its converter permutes, and
halves of others.

Which weights are permuted is read from convert_hf_to_gguf.py. Queries are random, and rotated by
this package in one layout or the other.
"""

from typing import Any

import numpy as np
import pytest

import pecli

RANDOM_QUERIES = np.random.default_rng(0).normal(size=(4, 20, 128)).astype("f4")
MODELS_PERMUTED_BY_LLAMA_CPP = ["llama-3.1-8b", "mistral-7b-v0.3", "mixtral-8x7b", "smollm3-3b"]
MODELS_LEFT_BY_LLAMA_CPP = ["qwen2.5-7b", "qwen3-8b", "olmo-2-7b"]


def passes_if_rotated_as(model: str, rotated: str, **options: Any) -> bool:
    after = pecli.apply(RANDOM_QUERIES, model, layout=rotated)
    options = {"before": {"q_0": RANDOM_QUERIES}, "atol": 1e-4, "reasons": False, **options}
    return pecli.verify({"q_0": after}, model, **options).passed


@pytest.mark.parametrize("model", MODELS_PERMUTED_BY_LLAMA_CPP)
def test_llama_cpp_rotates_neighbours_of_models_whose_weights_are_permuted(model: str) -> None:
    """llama.cpp's convert_hf_to_gguf.py permutes q_proj and k_proj of these models (LlamaModel and
    its subclasses), so that neighbouring channels are a pair: queries that are rotated as halves
    fail.
    """
    assert passes_if_rotated_as(model, "interleaved", runtime="llama.cpp")
    assert not passes_if_rotated_as(model, "halves", runtime="llama.cpp")


@pytest.mark.parametrize("model", MODELS_LEFT_BY_LLAMA_CPP)
def test_llama_cpp_rotates_halves_of_models_whose_weights_stay(model: str) -> None:
    """llama.cpp's converter leaves the weights of these models as they are, so that channels of both
    halves are a pair: queries that are rotated as neighbours fail.
    """
    assert passes_if_rotated_as(model, "halves", runtime="llama.cpp")
    assert not passes_if_rotated_as(model, "interleaved", runtime="llama.cpp")


@pytest.mark.parametrize("model", MODELS_PERMUTED_BY_LLAMA_CPP)
@pytest.mark.parametrize("runtime", ["none", "vllm"])
def test_vllm_and_transformers_rotate_halves_of_models_that_llama_cpp_permutes(
    model: str, runtime: str
) -> None:
    """llama.cpp permutes the weights of these models and rotates neighbours; vLLM and the model's
    own code (runtime «none») keep the weights, and rotate halves.
    """
    assert passes_if_rotated_as(model, "halves", runtime=runtime)


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_a_layout_that_is_given_takes_precedence_over_that_of_the_runtime(layout: str) -> None:
    """llama.cpp rotates Llama 3.1 as neighbours. With the option `layout`, queries that are rotated
    in that layout pass, whatever the runtime does.
    """
    assert passes_if_rotated_as("llama-3.1-8b", layout, runtime="llama.cpp", layout=layout)


def test_a_reading_notes_why_llama_cpp_rotates_neighbours() -> None:
    """Llama 2's queries, rotated as neighbours: right for llama.cpp, whose converter permutes the
    weights.
    """
    after = pecli.apply(RANDOM_QUERIES, "llama-2-7b", layout="interleaved")
    result = pecli.verify(
        after, "llama-2-7b", before=RANDOM_QUERIES, atol=1e-4, runtime="llama.cpp"
    )

    assert "llama.cpp permutes the weights" in result.readings["array"]
