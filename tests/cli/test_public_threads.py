"""Questions from public threads: one or two commands of pecli answer each of them.

The threads are about settings, position ids, resized tables and shards. They are repeated in spirit:
with small tables and models, and the mistake that they are about. Each case has the address of its
thread, and words of the answer that was found there.
"""

import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

import pecli
from pecli.tensors.interpolation import Interpolation
from pecli.tensors.resize import TableGrid, resampled

CONFIGS: dict[str, dict[str, Any]] = {
    "llama-2-32k": {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "max_position_embeddings": 32768,
        "rope_scaling": {"factor": 8.0, "type": "linear"},
    },
    "codellama": {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "max_position_embeddings": 16384,
        "rope_theta": 1000000,
    },
    "bloom": {"model_type": "bloom", "n_head": 16, "hidden_size": 64},
}
LOG = """\
llm_load_print_meta: arch             = llama
llm_load_print_meta: n_ctx_train      = 8192
llm_load_print_meta: n_embd           = 4096
llm_load_print_meta: n_head           = 32
llm_load_print_meta: n_head_kv        = 8
llm_load_print_meta: n_rot            = 128
llm_load_print_meta: rope scaling     = linear
llm_load_print_meta: freq_base_train  = 500000.0
llm_load_print_meta: freq_scale_train = 1
"""
"""The lines of https://github.com/langchain-ai/langchain/issues/20710, and the sizes of Llama 3 8B."""

PROMPT = "text:6,image:1x8x12,text:5"
TWO_IMAGES = "text:3,image:1x4x4,text:2,image:1x4x4,text:2"
OLD = (np.random.default_rng(0).standard_normal((1 + 36, 16)) * 0.02).astype(np.float32)
ON_GRID = "--resized-from old.npy --grid 6x6 --keep 1"


def resized(**options: Any) -> np.ndarray:
    table: np.ndarray = pecli.resize(OLD, (10, 8), grid=(6, 6), keep=1, **options)
    return table


def with_other_coefficient() -> np.ndarray:
    interpolation = Interpolation("cubic", coefficient=-0.5)
    return resampled(OLD, TableGrid(6, 6), TableGrid(10, 8), 1, interpolation)


def flat_ids() -> np.ndarray:
    """Return ids that count tokens on all axes."""
    length = pecli.positions("qwen2.5-vl-7b", PROMPT).shape[-1]
    return np.broadcast_to(np.arange(length), (3, length)).copy()


def ids_after_as_many_tokens() -> np.ndarray:
    """Return ids whose text after the image continues by its 24 tokens, not by its 6 columns."""
    ids: np.ndarray = pecli.positions("qwen2.5-vl-7b", PROMPT).copy()
    ids[:, -5:] += 24 - 6
    return ids


def second_image_flat() -> np.ndarray:
    """Return ids whose second image counts tokens like text."""
    first = pecli.positions("qwen2.5-vl-7b", "text:3,image:1x4x4,text:2")
    start = int(first.max()) + 1
    rest = np.arange(start, start + 4 + 2)
    return np.concatenate((first, np.broadcast_to(rest, (3, len(rest)))), axis=1)


def padded_ids() -> np.ndarray:
    """Return ids of a left-padded batch that count the padding."""
    return np.broadcast_to(np.arange(8), (3, 2, 8)).copy()


def unpacked_flux_ids() -> np.ndarray:
    """Return ids of latents before 2 x 2 of them are packed into a token."""
    ids: np.ndarray = pecli.positions("flux.1-dev", "text:4,image:16x24")
    return ids


def swapped_flux_ids() -> np.ndarray:
    ids = pecli.positions("flux.1-dev", "text:4,image:8x12")
    swapped: np.ndarray = ids[:, [0, 2, 1]]
    return swapped


class Thread(NamedTuple):
    """A question from a public thread, the command that answers it, and a part of the answer."""

    source: str
    problem: str  #: the reporter's problem, or the mistake that was found
    command: str  #: the words after `pecli`
    answer: str  #: a part of what the command prints, with single blanks between columns
    arrays: Mapping[str, Callable[[], np.ndarray]] = MappingProxyType({})
    """The reporter's arrays, by the names of their .npy files."""
    code: int = 1  #: 1 if the command finds that a file is wrong, 0 if it explains or passes


THREADS = [
    # Settings.
    Thread(
        "https://github.com/ggml-org/llama.cpp/issues/2530",
        "A model whose positions are divided by 8 gets --rope-freq-scale 8.0, which multiplies them.",
        "config llama-2-32k.json --flags '--rope-freq-scale 8.0'",
        "--rope-freq-scale 8 speeds positions up by 8; 0.125 is meant",
        code=0,
    ),
    Thread(
        "https://github.com/vllm-project/vllm/issues/10537",
        "Llama 3.1, which has a scaling of its own, is served with another one to reach 128k.",
        """config llama-3.1-8b --flags 'vllm serve --rope-scaling {"factor":8.0,"type":"dynamic"}'""",
        "--rope-scaling replaces the model's own scaling (llama3, factor 8)",
        code=0,
    ),
    Thread(
        "https://github.com/vllm-project/recipes/pull/856",
        "The documentation gives a flag that vLLM has no longer.",
        """config qwen3-8b --flags 'vllm serve --rope-scaling {"rope_type":"yarn","factor":4.0}'""",
        "--rope-scaling was removed in vLLM 0.11.1; use --hf-overrides",
        code=0,
    ),
    Thread(
        "https://github.com/vllm-project/vllm/issues/10293",
        "Which settings of YaRN serve Qwen2.5 with 128k positions?",
        "extend qwen2.5-7b --to 128k",
        '"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768',
        code=0,
    ),
    Thread(
        "https://github.com/vllm-project/vllm/issues/9490",
        "Does --rope-theta have any effect? The base of Llama 3 is 500000.",
        "config llama-3-8b --flags 'vllm serve --rope-theta 1000000'",
        "base 500000 1000000 --rope-theta",
        code=0,
    ),
    Thread(
        "https://github.com/LostRuins/koboldcpp/issues/426",
        "Base 10000 suits Llama 2, but Code Llama has another one.",
        "config codellama.json --flags 'koboldcpp --contextsize 16384 --ropeconfig 1.0 10000'",
        "base 1000000 10000 --ropeconfig",
        code=0,
    ),
    Thread(
        "https://github.com/langchain-ai/langchain/issues/20710",
        "Llama 3 writes nonsense if the context of its server is 16,384.",
        "config server.log --flags '-c 16384'",
        "longer than the 8,192 positions that the model has",
        code=0,
    ),
    # Position ids.
    Thread(
        "https://github.com/linkedin/Liger-Kernel/pull/276",
        "The ids of an image are those of as many tokens of text.",
        f"positions qwen2.5-vl-7b --segments {PROMPT} --verify ids.npy",
        "all axes count tokens, as for text alone",
        {"ids": flat_ids},
    ),
    Thread(
        "https://github.com/ml-explore/mlx-lm/pull/1768",
        "Where are the patches of an image? Ids on 3 axes for 6 + 24 + 5 tokens.",
        f"positions qwen2.5-vl-7b --segments {PROMPT} -o ids.npy",
        "3 × 35 ids",
        code=0,
    ),
    Thread(
        "https://github.com/kekzl/imp/pull/1173",
        "The text after an image of 24 tokens, 4 rows of 6, continues at the wrong number.",
        f"positions qwen2.5-vl-7b --segments {PROMPT} --verify ids.npy",
        "text after an image continues after as many numbers as it has tokens",
        {"ids": ids_after_as_many_tokens},
    ),
    Thread(
        "https://github.com/Blaizzy/mlx-vlm/pull/1282",
        "Of two images, only the first has the ids of an image.",
        f"positions qwen2.5-vl-7b --segments {TWO_IMAGES} --verify ids.npy",
        "segment 3 (image:1x4x4) counts its tokens like text, 7 … 10 on all axes",
        {"ids": second_image_flat},
    ),
    Thread(
        "https://github.com/huggingface/transformers/pull/40490",
        "In a batch that is padded on the left, the padding counts as tokens.",
        "positions qwen2.5-vl-7b --segments text:8 --segments text:5 --padding left --verify ids.npy",
        "padding is counted: the attention mask is ignored",
        {"ids": padded_ids},
    ),
    Thread(
        "https://github.com/huggingface/diffusers/issues/9378",
        "Flux gets ids for 16 x 24 latents, but packs 2 x 2 of them into a token.",
        "positions flux.1-dev --segments text:4,image:8x12 --verify ids.npy",
        "they are built before packing",
        {"ids": unpacked_flux_ids},
    ),
    Thread(
        "https://github.com/Comfy-Org/ComfyUI/issues/4339",
        "Flux gets ids with columns before rows.",
        "positions flux.1-dev --segments text:4,image:8x12 --verify ids.npy",
        "the axes are in another order",
        {"ids": swapped_flux_ids},
    ),
    # Resized tables.
    Thread(
        "https://github.com/huggingface/pytorch-image-models/pull/750",
        "The configuration asks for bicubic interpolation, but bilinear is used.",
        f"verify new.npy {ON_GRID} --to 10x8 --method cubic",
        "it is resized by linear",
        {"new": lambda: resized(method="linear")},
    ),
    Thread(
        "https://github.com/huggingface/pytorch-image-models/issues/2542",
        "SigLIP 2's own code is bilinear, but another library is bicubic.",
        f"verify new.npy {ON_GRID} --to 10x8 --method linear --antialias",
        "it is resized by cubic with antialias",
        {"new": lambda: resized(antialias=True)},
    ),
    Thread(
        "https://github.com/huggingface/transformers/pull/33226",
        "DINOv2's own code resizes with scale factors of (size + 0.1) / old size.",
        f"verify new.npy {ON_GRID} --to 10x8",
        "DINO's and DINOv2's own code",
        {"new": lambda: resized(scale_offset=0.1)},
        code=0,
    ),
    Thread(
        "https://github.com/facebookresearch/dinov2/issues/456",
        "The width of the new grid is passed as its height.",
        f"verify new.npy {ON_GRID} --to 8x10",
        "rows and columns are swapped: the new rows are made for 10x8",
        {"new": resized},
    ),
    Thread(
        "https://github.com/Blaizzy/mlx-vlm/pull/1243",
        "The bicubic kernel of another framework has another coefficient than torch's.",
        f"verify new.npy {ON_GRID} --to 10x8 --method cubic",
        "the cubic kernel has the coefficient -0.5, not torch's -0.75",
        {"new": with_other_coefficient},
    ),
    Thread(
        "https://github.com/openvinotoolkit/openvino.genai/pull/4444",
        "A table is made smaller without the antialiasing that the model has.",
        "verify small.npy --resized-from old.npy --grid 6x6 --keep 1 --method linear --antialias",
        "it is resized by linear, as in transformers' DPT, not by linear with antialias",
        {"small": lambda: pecli.resize(OLD, (3, 4), grid=(6, 6), keep=1, method="linear")},
    ),
    # Shards.
    Thread(
        "https://github.com/flashinfer-ai/flashinfer/issues/1606",
        "The second of two ranks computes the slopes of a model of 8 heads, not of 16.",
        "alibi --heads 16 --head-range 8:16 --slopes --verify rank1.npy",
        "heads is 8 (the spec says 16)",
        {"rank1": lambda: pecli.Alibi(8, slopes=True).tables()["slopes"]},
    ),
    Thread(
        "https://github.com/bigscience-workshop/Megatron-DeepSpeed/issues/227",
        "The second of two ranks has ALiBi's bias of the first 8 heads.",
        "alibi --heads 16 --head-range 8:16 --seq-len 6 --verify rank1.npy",
        "head_range is 0:8 (the spec says 8:16)",
        {"rank1": lambda: pecli.Alibi(16, 6, head_range=(0, 8)).tables()["bias"]},
    ),
    Thread(
        "https://github.com/OpenNMT/CTranslate2/pull/1714",
        "The second of two ranks has T5's bias of the first 4 heads.",
        "relative --style t5 --seq-len 6 --weights weights.npy --head-range 4:8 --verify rank1.npy",
        "head_range is 0:4 (the spec says 4:8)",
        {
            "weights": lambda: np.arange(256.0).reshape(32, 8),
            "rank1": lambda: pecli.Relative(
                "t5", 6, weights=np.arange(256.0).reshape(32, 8), head_range=(0, 4)
            ).tables()["bias"],
        },
    ),
    Thread(
        "https://github.com/NVIDIA/TransformerEngine/issues/1046",
        "A chunk of the sequence has 3 queries: which of the 12 positions are they?",
        "verify chunk.npy --model bloom.json --atol 1e-5",
        "the last 3 queries",
        {"chunk": lambda: pecli.Alibi(16, 12, queries=3).tables()["bias"]},
        code=0,
    ),
]


@pytest.fixture
def files(working_folder: Path) -> Path:
    """Write the configurations, the log and the table that commands name."""
    for name, config in CONFIGS.items():
        (working_folder / f"{name}.json").write_text(json.dumps(config))
    (working_folder / "server.log").write_text(LOG)
    np.save(working_folder / "old.npy", OLD)
    return working_folder


@pytest.mark.parametrize("thread", THREADS, ids=lambda thread: thread.source.split(".com/")[1])
def test_a_command_answers_the_question_of_a_public_thread(
    thread: Thread, run_pecli: Any, files: Path
) -> None:
    """Each Thread has its address on GitHub, the problem in a sentence, the files of its reporter, a
    command, and the answer at which the thread arrived. For example: a model whose positions are
    divided by 8 was given the flag --rope-freq-scale 8.0, which multiplies them, and the command
    prints that 0.125 = 1/8 is meant.
    """
    for name, make in thread.arrays.items():
        np.save(files / f"{name}.npy", make())
    done = run_pecli(*shlex.split(thread.command))

    assert done.exit_code == thread.code
    assert thread.answer in " ".join((done.out + done.err).split())
