"""Words that users of transformers, vLLM, llama.cpp, MLX, ExLlama and text-generation-webui type, and what happens."""

from __future__ import annotations

import pytest

COMMANDS = """
compare diff | explain diff | Heatmap plot | show plot | presets models | dump inspect | check verify | ropee rope
validate verify | interpolate resize | permute convert | rotate apply | detect identify | precision audit | rotary rope
"""
OPTIONS = """
--rope-theta | --theta
--rope_theta | --theta
--rope-freq-base | --theta
--rotary-emb-base | --theta
--rope-type | --scaling
--rope-scaling | --scaling
--rope-freq-scale | --scaling linear --factor N (one over the scale)
--compress-pos-emb | --scaling linear --factor N
--compress_pos_emb | --scaling linear --factor N
--rope-scale | --scaling linear --factor N
--alpha | --scaling ntk --factor N
--alpha_value | --scaling ntk --factor N
--rope-alpha | --scaling ntk --factor N
--yarn-ext-factor | --scaling yarn --factor N
--yarn-orig-ctx | --original-len
--yarn-attn-factor | --attention-factor
--attn_factor | --attention-factor
--yarn-beta-fast | --beta-fast
--yarn-beta-slow | --beta-slow
--rotary-pct | --partial-rotary-factor
--rotary-dim | --dim
--head-dim | --dim
--head_dim | --dim
--hidden-size | --dim
--n-rot | --dim
--dims | --dim
--d-model | --dim
--position-ids | --positions
--sections | --mrope-section
--past-length | --offset
--start-pos | --offset
--max-model-len | --seq-len
--ctx-size | --seq-len
--n-ctx | --seq-len
--max_seq_len | --seq-len
--seq_len | --seq-len
--traditional | --layout
--is-neox-style | --layout
--layot | --layout
--tol | --atol
"""
VALUES = """
layout halves neox neox-style rotate_half split half
layout interleaved gptj GPT-J gpt-j traditional norm normal adjacent
dtype float32 fp32 f32 float single
dtype float16 fp16 f16 half
dtype bfloat16 bf16
dtype float64 fp64 double
scaling none default
"""
MODELS = """
mistral | note: mistral → mistral-7b-v0.3
llama3.1 | note: llama3.1 → llama-3.1-8b
llama | these have it: llama-2-7b,
qwen | these have it: qwen2.5-0.5b,
phi | these have it: phi-1.5,
deepseek | these have it: deepseek
meta-llama/Llama-3.1-8B |
Llama-3.1-8B-Instruct |
"""


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]


@pytest.mark.parametrize(("word", "command"), [cell.split() for row in rows(COMMANDS) for cell in row])
def test_another_word_for_a_command(pecli_cli, word: str, command: str) -> None:
    outcome = pecli_cli(word)
    assert outcome.code == 2
    assert outcome.err.startswith(f"pecli: error: did you mean '{command}'? there is no command ")


@pytest.mark.parametrize(("word", "option"), rows(OPTIONS))
def test_another_word_for_an_option(pecli_cli, word: str, option: str) -> None:
    outcome = pecli_cli("rope", "--seq-len", 4, "--dim", 8, word, 4)
    assert outcome.code == 2
    assert outcome.err == f"pecli: error: did you mean {option}? no such option: {word}; see pecli rope --help\n"


@pytest.mark.parametrize(("option", "value", "words"), [row[0].split(maxsplit=2) for row in rows(VALUES)])
def test_another_word_for_a_value(pecli_cli, option: str, value: str, words: str) -> None:
    for word in words.split():
        found = pecli_cli("rope", "--seq-len", 4, "--dim", 8, f"--{option}", word, "--json").json
        assert found["parameters"][option] == value, word


@pytest.mark.parametrize(("name", "said"), rows(MODELS))
def test_another_word_for_a_model(pecli_cli, name: str, said: str) -> None:
    outcome = pecli_cli("rope", "--seq-len", 4, "--model", name)
    assert outcome.code == (2 if "these" in said else 0)
    assert said in outcome.err
    assert said or not outcome.err


@pytest.mark.parametrize(("word", "meant"), [("su", "longrope"), ("ntk-aware", "ntk"), ("dynamic_ntk", "dynamic")])
def test_another_word_for_a_scaling_that_needs_more(pecli_cli, word: str, meant: str) -> None:
    assert f"{meant} scaling needs it" in pecli_cli("rope", "--seq-len", 4, "--dim", 8, "--scaling", word).err
