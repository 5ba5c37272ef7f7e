"""The effect of a model's scaling in two sentences of a report.

The models have 8 rotary pairs and base 10000: pair i turns with 10000^(−i/8) per position, so that
within 4096 positions pairs 0 to 2 turn over 32 times, and pairs 6 and 7 less than once.
"""

from typing import Any

import pytest

import pecli
from pecli.views.pictures.plot_sources import of_model
from pecli.views.report.scaling_prose import scaling_sentences

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "rope_theta": 10000.0,
    "max_position_embeddings": 16384,
}
SLOWS_DOWN = "scaling slows down rotations that would leave the angles of the training."
TRAINED = "Trained on 4,096 positions, the model serves 16,384"
DOUBLED = [2.0] * 8
STRETCHED = [1.0 + pair for pair in range(8)]


def sentences_about(scaling: dict[str, Any] | None) -> str:
    (source,) = of_model(pecli.load_config({**CONFIG, "rope_scaling": scaling}), "x")
    return scaling_sentences(source)


def test_a_model_without_a_scaling_has_no_sentences() -> None:
    """`sentences_about` are those of a Llama with a scaling, here none."""
    assert sentences_about(None) == ""


def test_a_linear_scaling_is_explained_in_two_sentences() -> None:
    """Linear scaling stretches all of the 8 pairs by its factor. It does not state the length of
    the training.
    """
    assert sentences_about({"rope_type": "linear", "factor": 4.0}) == (
        "The model serves longer prompts than it was trained on: its linear scaling slows down "
        "rotations that would leave the angles of the training. Pairs 0–7 are stretched ×4."
    )


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}


@pytest.mark.parametrize(
    ("changes", "sentences"),
    [
        pytest.param(
            {},
            f"{TRAINED}: its yarn {SLOWS_DOWN} Pairs 0–2 are kept, as they turn over 32 times "
            "within the training; pairs 3–5 are blended; pairs 6–7 are stretched ×4, as they turn "
            "less than once.",
            id="limits 32 and 1, which are YaRN's defaults",
        ),
        pytest.param(
            {"beta_fast": 16.0, "beta_slow": 2.0},
            f"{TRAINED}: its yarn {SLOWS_DOWN} Pairs 0–3 are kept, as they turn over 16 times "
            "within the training; pairs 4–5 are blended; pairs 6–7 are stretched ×4, as they turn "
            "under 2 times.",
            id="limits 16 and 2",
        ),
        pytest.param(
            {"original_max_position_embeddings": 16384},
            f"Trained on 16,384 positions, the model serves 65,536: its yarn {SLOWS_DOWN} Pairs "
            "0–3 are kept, as they turn over 32 times within the training; pairs 4–6 are blended; "
            "pair 7 is stretched ×4, as it turns less than once.",
            id="four times as many turns in 16,384 positions",
        ),
        pytest.param(
            {"beta_fast": 400.0, "beta_slow": 2.0},
            f"{TRAINED}: its yarn {SLOWS_DOWN} Pair 0 is kept, as it turns over 400 times within "
            "the training; pairs 1–5 are blended; pairs 6–7 are stretched ×4, as they turn under 2 "
            "times.",
            id="limits 400 and 2",
        ),
    ],
)
def test_yarn_is_explained_by_the_pairs_that_it_keeps_blends_and_stretches(
    changes: dict[str, Any], sentences: str
) -> None:
    """Within 4096 positions, the pairs 0 to 7 of base 10000 turn 4096 · 10000^(−i/8) / 2π times:
    652, 206, 65, 20.6, 6.5, 2.06, 0.65 and 0.21; within 16,384 positions, four times as many: 2608,
    825, 261, 82, 26, 8.2, 2.6 and 0.82.

    YaRN keeps the pairs that turn more often than the limit beta_fast (32), and stretches those that
    turn less often than beta_slow (1) by its factor, 4.
    """
    assert sentences_about({**YARN, **changes}) == sentences


def test_longrope_is_explained_by_a_reference_to_its_chart() -> None:
    """LongRoPE has a factor for each pair, of which no range of pairs can be stated."""
    longrope = {
        "rope_type": "longrope",
        "short_factor": DOUBLED,
        "long_factor": STRETCHED,
        "original_max_position_embeddings": 4096,
    }
    assert sentences_about(longrope) == (
        f"{TRAINED}: its longrope {SLOWS_DOWN} Every pair is stretched by a factor of its own, "
        "which the lower chart shows."
    )
