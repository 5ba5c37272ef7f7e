"""Checks of position ids of texts with images and videos: right ids pass, and a mistake is named.

The prompt is text of 5 tokens, an image of 8 × 12 patches (4 × 6 tokens, as 2 × 2 patches are
merged), and text of 4. Right ids of it and mistakes are made by NumPy, as a port would; those of
other prompts are of pecli.positions, which tests/models/test_position_ids.py tests. Ids have the
axes time, rows, columns.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.checks.verify_positions import OTHER_CONVENTION, verify_positions
from tests.exit_codes import CHECK_FAILED, SUCCESS

QWEN2_5_VL_7B = "qwen2.5-vl-7b"
TEXT_IMAGE_TEXT = "text:5,image:1x8x12,text:4"
"""5 tokens of text, an image of 8 × 12 patches, which are merged to 4 × 6 tokens, and 4 of text."""


def ids_of_prompt(image: np.ndarray, text_after: int) -> np.ndarray:
    """Return ids (3, tokens) of text at 0 to 4, an image, and text at `text_after` and the next three."""
    first_text = np.tile(np.arange(5), (3, 1))  # the same on all axes
    last_text = np.tile(np.arange(text_after, text_after + 4), (3, 1))
    return np.concatenate([first_text, image, last_text], axis=1)


IMAGE = 5 + np.indices((1, 4, 6)).reshape(3, 24)
"""The right ids of the image: time 5, rows 5 to 8, columns 5 to 10, row by row."""
RIGHT_IDS = ids_of_prompt(IMAGE, text_after=11)  # after the largest id
WRONG_IDS = {
    "8 × 12 patches, not merged": (
        ids_of_prompt(5 + np.indices((1, 8, 12)).reshape(3, 96), text_after=5 + 12),
        "the merge size is ignored",
    ),
    "the axes time, columns, rows": (RIGHT_IDS[[0, 2, 1]], "time, columns, rows"),
    "the axes columns, rows, time": (
        RIGHT_IDS[[2, 1, 0]],
        "another order: columns, rows, time",
    ),
    "tokens before axes": (RIGHT_IDS.T, "they are transposed"),
    "text after a number for each of 4 · 6 tokens": (
        ids_of_prompt(IMAGE, text_after=5 + 4 * 6),
        "after as many numbers as it has tokens",
    ),
    "text after one number for the image": (
        ids_of_prompt(IMAGE, text_after=5 + 1),
        "one after the image's first id",
    ),
    "text at another number": (
        ids_of_prompt(IMAGE, text_after=13),
        "segment 2 (text:4) begins at 13, not at 11",
    ),
    "the image column by column": (
        ids_of_prompt(
            5 + np.indices((1, 4, 6)).transpose(0, 1, 3, 2).reshape(3, 24), text_after=11
        ),
        "column by column",
    ),
    "the image from 0 on": (ids_of_prompt(IMAGE - 5, text_after=11), "images begin at 0"),
    "all ids from 1 on": (RIGHT_IDS + 1, "they start at 1"),
    "plain numbers of tokens": (np.tile(np.arange(33), (3, 1)), "all axes count tokens"),
}
"""Ids of TEXT_IMAGE_TEXT that a wrong port makes, and the reason that is to be named."""


def test_the_ids_of_a_prompt_with_an_image_pass() -> None:
    """Qwen2.5-VL counts 5 tokens of text on all axes (time, rows, columns). The image of 8 × 12
    patches, merged to 4 × 6 tokens, shares time 5 and has rows 5 to 8 and columns 5 to 10. Text
    goes on after the largest id, at 11.
    """
    assert np.array_equal(pecli.positions(QWEN2_5_VL_7B, TEXT_IMAGE_TEXT), RIGHT_IDS)
    assert verify_positions(RIGHT_IDS, QWEN2_5_VL_7B, TEXT_IMAGE_TEXT).passed


@pytest.mark.parametrize("mistake", WRONG_IDS)
def test_a_mistake_of_position_ids_is_named(mistake: str) -> None:
    """Each case of WRONG_IDS has the ids, by NumPy, that a port of Qwen2.5-VL with this mistake makes
    for 5 tokens of text, an image, and 4 tokens of text, and the reason that must be reported.
    """
    ids, reason = WRONG_IDS[mistake]
    check = verify_positions(ids, QWEN2_5_VL_7B, TEXT_IMAGE_TEXT)

    assert not check.passed
    assert reason in check.reasons[0]


def test_ids_of_a_video_that_ignore_seconds_are_named() -> None:
    """Qwen2.5-VL spaces the frames of a video by seconds, Qwen2-VL counts them: its ids of a video
    with 2 seconds per frame are wrong for Qwen2.5-VL.
    """
    segments = "text:2,video:4x4x4@2,text:3"
    ids = pecli.positions(
        {"model_type": "qwen2_vl", "hidden_size": 64, "num_attention_heads": 4}, segments
    )
    check = verify_positions(ids, QWEN2_5_VL_7B, segments)

    assert "videos ignore seconds" in check.reasons[0]


@pytest.mark.parametrize("padding", ["left", "right"])
def test_ids_that_count_padding_are_named(padding: str) -> None:
    """The shorter of two prompts, 12 and 19 tokens, is padded to the length of the longer, and its
    padding has ids as if it were text: 7 tokens on the left or on the right.
    """
    short_prompt = "text:5,image:1x4x4,text:3"  # 5 + 2 · 2 + 3 = 12 tokens
    long_prompt = "text:2,image:1x8x4,text:9"  # 2 + 4 · 2 + 9 = 19 tokens
    if padding == "left":
        padded_prompt = f"text:7,{short_prompt}"
    else:
        padded_prompt = f"{short_prompt},text:7"
    prompts = [padded_prompt, long_prompt]
    ids = np.stack([pecli.positions(QWEN2_5_VL_7B, prompt) for prompt in prompts], axis=1)
    check = verify_positions(ids, QWEN2_5_VL_7B, [short_prompt, long_prompt], padding=padding)

    assert check.reasons == ("padding is counted: the attention mask is ignored",)


def test_the_representation_of_a_failed_check_states_the_reason() -> None:
    """Two tokens of text have the ids 0 and 1 on all axes; here they begin at 3."""
    ids = np.tile([3, 4], (3, 1))
    check = verify_positions(ids, QWEN2_5_VL_7B, "text:2")

    assert repr(check) == ("<PositionCheck failed: ids; segment 0 (text:2) begins at 3, not at 0>")


def test_exchanged_prompts_of_a_model_without_m_rope_are_no_exchanged_axes() -> None:
    """A position of Llama is one number, so that the ids (2, 5) are those of two prompts, not of two
    axes. They are swapped here: all but the first id of each prompt is wrong, 2 · 4, and exchanged
    axes are no reason.
    """
    ids_of_3_tokens = [0, 0, 0, 1, 2]  # after two tokens of left padding
    ids_of_5_tokens = [0, 1, 2, 3, 4]
    prompts = ["text:3", "text:5"]
    right = np.array([ids_of_3_tokens, ids_of_5_tokens])
    swapped = np.array([ids_of_5_tokens, ids_of_3_tokens])

    assert verify_positions(right, "llama-3-8b", prompts, padding="left").passed

    check = verify_positions(swapped, "llama-3-8b", prompts, padding="left")
    assert check.mismatched == 8
    assert check.reasons == ()


@pytest.mark.parametrize("name", ["flux.1-dev", "qwen-image"])
def test_ids_of_latents_before_packing_are_named(name: str) -> None:
    """Flux packs 2 × 2 latents into a token, so that an image of 8 × 12 latents has 4 × 6 tokens.
    The ids are those of 8 × 12.
    """
    ids = pecli.positions(name, "text:8,image:8x12")
    check = verify_positions(ids, name, "text:8,image:4x6")

    assert "before packing" in check.reasons[0]


def test_ids_of_flux_that_are_spaced_by_two_are_named_as_those_before_packing() -> None:
    """The ids of 4 × 6 tokens count rows and columns as 0, 2, 4, …, which are those of the latents:
    Flux packs 2 × 2 of them into a token.
    """
    ids = pecli.positions("flux.1-dev", "text:8,image:4x6")
    ids[:, 1:] *= 2
    check = verify_positions(ids, "flux.1-dev", "text:8,image:4x6")

    assert "before packing" in check.reasons[0]


def test_ids_of_flux_may_be_floats_with_a_batch_axis() -> None:
    """diffusers makes position ids for Flux as floats with a batch axis, here for 8 tokens of text
    and 4 · 6 of an image: (1, 32, 3).
    """
    ids = pecli.positions("flux.1-dev", "text:8,image:4x6")[None].astype(np.float32)
    check = verify_positions(ids, "flux.1-dev", "text:8,image:4x6")

    assert check.passed
    assert check.notes == ("(1, 32, 3) is read as (32, 3)",)


def test_text_after_a_video_may_follow_the_largest_id_with_a_note() -> None:
    """Two conventions are in use: text goes on after the last frame, or, as here, after the largest
    id of the video. Both pass, and the one that the model does not have is noted.
    """
    segments = "text:2,video:4x4x4@2,text:3"
    ids = pecli.positions(QWEN2_5_VL_7B, segments)
    ids[:, -3:] = ids[:, :-3].max() + 1 + np.arange(3)
    check = verify_positions(ids, QWEN2_5_VL_7B, segments)

    assert check.passed
    assert check.notes == (OTHER_CONVENTION,)


def test_a_failed_check_of_ids_names_the_first_wrong_one() -> None:
    """The last four text tokens begin at 13 instead of 11, on all three axes: 12 of 3 · 33 ids."""
    ids = ids_of_prompt(IMAGE, text_after=13)
    check = verify_positions(ids, QWEN2_5_VL_7B, TEXT_IMAGE_TEXT, subject="ids.npy")

    assert "12 of 99 differ, the first at [0, 29]: expected 11, found 13" in str(check)
    assert check.as_json()["worst_index"] == [0, 29]


def test_ids_that_are_fractions_are_refused() -> None:
    """`verify_positions` compares position ids with those of the model; 0.5 is not a position of a
    token.
    """
    with pytest.raises(pecli.ParameterError, match="whole numbers"):
        verify_positions([[0.5]], QWEN2_5_VL_7B, "text:1")


def test_the_command_positions_passes_the_ids_that_it_writes(
    run_pecli: Any, tmp_path: Path
) -> None:
    """5 + 4 · 6 + 4 = 33 tokens on three axes."""
    path = tmp_path / "ids.npy"
    options = ("positions", "--model", QWEN2_5_VL_7B, "--segments", TEXT_IMAGE_TEXT)
    written = run_pecli(*options, "-o", path)
    checked = run_pecli(*options, "--verify", path)

    assert written.exit_code == SUCCESS
    assert np.load(path).shape == (3, 33)
    assert checked.exit_code == SUCCESS
    assert checked.out.startswith("passed")


def test_the_option_verify_of_the_command_positions_names_a_mistake(
    run_pecli: Any, tmp_path: Path
) -> None:
    """After 5 tokens of text, the image of 4 × 6 tokens takes 6 numbers, so text goes on at 11. Here
    it goes on at 5 + 24 = 29, as if the image had taken a number for each token.
    """
    path = tmp_path / "ids.npy"
    np.save(path, ids_of_prompt(IMAGE, text_after=5 + 4 * 6))
    outcome = run_pecli("positions", QWEN2_5_VL_7B, "--segments", TEXT_IMAGE_TEXT, "--verify", path)

    assert outcome.exit_code == CHECK_FAILED
    assert "after as many numbers as it has tokens" in outcome.out


def test_the_command_positions_prints_ids_in_runs(run_pecli: Any) -> None:
    """The axis time: text has 0 to 2; four tokens of an image of 4 × 4 patches share 3; text goes on
    after the largest id, that of the second row, 4: 5 to 6.
    """
    outcome = run_pecli("positions", QWEN2_5_VL_7B, "--segments", "text:3,image:1x4x4,text:2")
    assert outcome.out.splitlines()[1].split() == ["0–2", "3", "×", "4", "5–6"]


def test_the_command_positions_prints_ids_as_json(run_pecli: Any) -> None:
    """Flux: one text token at (0, 0, 0), and an image of 1 × 2 tokens at rows 0 and columns 0 and
    1.
    """
    outcome = run_pecli("positions", "flux.1-dev", "--segments", "text:1,image:1x2", "--json")
    assert outcome.json["position_ids"] == [[0, 0, 0], [0, 0, 0], [0, 0, 1]]
