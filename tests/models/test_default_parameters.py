"""What a configuration leaves out is spelled out, with where it comes from; the numbers stay."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pecli.models.reader import load_config

PLAIN = {"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8, "max_position_embeddings": 4096}
ORIGINAL = "original_max_position_embeddings"


def of(scaling: dict[str, Any]) -> Any:
    return load_config({**PLAIN, "rope_scaling": scaling}).one()


def test_the_betas_of_yarn_are_32_and_1_and_limits_are_rounded() -> None:
    found, said = (
        of({"type": "yarn", "factor": 4.0, ORIGINAL: 1024}),
        {"beta_fast": 32.0, "beta_slow": 1.0, "truncate": True},
    )
    assert {name: found.parameters[name] for name in said} == said
    assert {found.sources[name] for name in said} == {"default"}
    assert of({"type": "yarn", "factor": 4.0, ORIGINAL: 1024, **said}).parameters == found.parameters
    given = of({"type": "yarn", "factor": 4.0, ORIGINAL: 1024, "beta_fast": 16, "truncate": False})
    assert (given.parameters["beta_fast"], given.sources["beta_fast"]) == (16.0, "rope_scaling.beta_fast")
    assert given.parameters["truncate"] is False


@pytest.mark.parametrize("kind", ["yarn", "longrope"])
def test_a_factor_left_out_is_the_lengths_quotient(kind: str) -> None:
    lists = {"short_factor": [1.0] * 32, "long_factor": [2.0] * 32} if kind == "longrope" else {}
    found = of({"type": kind, ORIGINAL: 1024, **lists})
    assert found.parameters["factor"] == 4.0
    assert found.sources["factor"] == f"max_position_embeddings / rope_scaling.{ORIGINAL}"
    by_hand = 0.1 * math.log(4) + 1 if kind == "yarn" else math.sqrt(1 + math.log(4) / math.log(1024))
    assert found.attention_factor() == pytest.approx(by_hand, rel=1e-15)
    assert (
        found.inverse_frequencies() == of({"type": kind, ORIGINAL: 1024, "factor": 4.0, **lists}).inverse_frequencies()
    )


def test_a_quotient_that_is_no_whole_number_is_left_to_the_scheme() -> None:
    found = of({"type": "yarn", ORIGINAL: 3000})
    assert "factor" not in found.parameters
    assert found.attention_factor() == pytest.approx(0.1 * math.log(4096 / 3000) + 1, rel=1e-15)


def test_a_style_is_spelled_out() -> None:
    encoder, _ = load_config({"model_type": "whisper", "d_model": 384, "max_source_positions": 1500}).encodings
    said = {"style": "whisper", "base": 10000.0, "layout": "halves", "freq_shift": 1.0}
    assert {name: encoder.parameters[name] for name in said} == said
    assert encoder.sources["freq_shift"] == "style whisper"
    (marian,) = load_config({"model_type": "marian", "d_model": 64, "max_position_embeddings": 512}).encodings
    assert (marian.parameters["layout"], marian.parameters["freq_shift"]) == ("halves", 0.0)


def test_slopes_follow_the_paper() -> None:
    (bloom,) = load_config({"model_type": "bloom", "n_head": 16, "hidden_size": 1024}).encodings
    assert bloom.parameters == {"heads": 16, "rule": "paper", "max_bias": 8.0, "form": "key"}
