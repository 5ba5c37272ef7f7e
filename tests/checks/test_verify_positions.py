"""Checks of position ids of texts with images and videos: right ids pass, and a mistake is named.

The prompt is text of 5 tokens, an image of 8 × 12 patches (4 × 6 tokens, as 2 × 2 patches are
merged), and text of 4. Right ids are those of pecli.positions, which
tests/models/test_position_ids.py tests; mistakes are made here by NumPy, as a wrong port would. Ids
have the axes time, rows, columns.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.checks.verify_positions import OTHER_CONVENTION, verify_positions
from tests.exit_codes import CHECK_FAILED, SUCCESS

QWEN2_5_VL_7B = "qwen2.5-vl-7b"
TEXT_IMAGE_TEXT = "text:5,image:1x8x12,text:4"
TWO_PROMPTS = ["text:5,image:1x4x4,text:3", "text:2,image:1x8x4,text:9"]


def right_ids() -> np.ndarray:
    return pecli.positions(QWEN2_5_VL_7B, TEXT_IMAGE_TEXT)


def with_text_at(start: int) -> np.ndarray:
    """Return the ids of the prompt with its last text at another number."""
    ids = right_ids()
    ids[:, -4:] = np.arange(start, start + 4)
    return ids


def patches_as_tokens() -> np.ndarray:
    text = np.tile(np.arange(5), (3, 1))
    grids = np.meshgrid([0], np.arange(8), np.arange(12), indexing="ij")
    image = np.stack(grids).reshape(3, -1) + 5
    end = np.tile(np.arange(4), (3, 1)) + 17
    return np.concatenate([text, image, end], axis=1)


def column_by_column() -> np.ndarray:
    ids = right_ids()
    image = ids[:, 5:29].reshape(3, 4, 6)
    ids[:, 5:29] = image.transpose(0, 2, 1).reshape(3, 24)
    return ids


def image_at_zero() -> np.ndarray:
    ids = right_ids()
    ids[:, 5:29] -= 5
    return ids


MISTAKEN_POSITIONS: dict[str, tuple[Callable[[], np.ndarray], str]] = {
    "merge size ignored": (patches_as_tokens, "the merge size is ignored"),
    "rows and columns exchanged": (lambda: right_ids()[[0, 2, 1]], "time, columns, rows"),
    "columns first": (lambda: right_ids()[[2, 1, 0]], "another order: columns, rows, time"),
    "transposed": (lambda: right_ids().T, "they are transposed"),
    "text after tokens": (lambda: with_text_at(29), "after as many numbers as it has tokens"),
    "text one after": (lambda: with_text_at(6), "one after the image's first id"),
    "text elsewhere": (lambda: with_text_at(13), "segment 2 (text:4) begins at 13, not at 11"),
    "column by column": (column_by_column, "column by column"),
    "image at 0": (image_at_zero, "images begin at 0"),
    "from 1": (lambda: right_ids() + 1, "they start at 1"),
    "1-D": (lambda: np.tile(np.arange(33), (3, 1)), "all axes count tokens"),
}


def test_the_ids_of_a_prompt_with_an_image_pass() -> None:
    """`right_ids` has the position ids of text, image and text for Qwen2.5-VL; the tests below
    plant mistakes in them.
    """
    assert verify_positions(right_ids(), QWEN2_5_VL_7B, TEXT_IMAGE_TEXT).passed


@pytest.mark.parametrize("name", MISTAKEN_POSITIONS)
def test_a_planted_mistake_is_named(name: str) -> None:
    """Each case of MISTAKEN_POSITIONS changes the right ids as a wrong port would: for example, the
    merge size is ignored, so that the image has 8 × 12 ids.
    """
    make, reason = MISTAKEN_POSITIONS[name]
    check = verify_positions(make(), QWEN2_5_VL_7B, TEXT_IMAGE_TEXT)

    assert not check.passed
    assert reason in check.reasons[0]


def test_ids_of_a_video_that_ignore_seconds_are_named() -> None:
    """Qwen2-VL counts frames and not seconds, as Qwen2.5-VL does."""
    segments = "text:2,video:4x4x4@2,text:3"
    ids = pecli.positions(
        {"model_type": "qwen2_vl", "hidden_size": 64, "num_attention_heads": 4}, segments
    )
    check = verify_positions(ids, QWEN2_5_VL_7B, segments)

    assert "videos ignore seconds" in check.reasons[0]


@pytest.mark.parametrize("padding", ["left", "right"])
def test_ids_that_count_padding_are_named(padding: str) -> None:
    """The shorter of two prompts is padded, and its padding has ids as if it were text."""
    ids = pecli.positions(QWEN2_5_VL_7B, TWO_PROMPTS, padding=padding)
    rows = []
    for row in TWO_PROMPTS:
        pad = ids.shape[-1] - pecli.positions(QWEN2_5_VL_7B, row).shape[-1]
        text = f"text:{pad}"
        rows.append(
            pecli.positions(
                QWEN2_5_VL_7B, f"{text},{row}" if padding == "left" else f"{row},{text}"
            )
        )
    check = verify_positions(np.stack(rows, axis=1), QWEN2_5_VL_7B, TWO_PROMPTS, padding=padding)

    assert check.reasons == ("padding is counted: the attention mask is ignored",)


@pytest.mark.parametrize("name", ["flux.1-dev", "qwen-image"])
def test_ids_of_latents_before_packing_are_named(name: str) -> None:
    """Flux packs 2 x 2 latents into a token, so that a grid of 8 x 12 is 4 x 6."""
    ids = pecli.positions(name, "text:8,image:8x12")
    check = verify_positions(ids, name, "text:8,image:4x6")

    assert "before packing" in check.reasons[0]


def test_ids_of_flux_that_are_spaced_by_two_are_named() -> None:
    """Rows and columns count 0, 2, 4, …, those of the 2 × 2 latents that Flux packs into a token."""
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


def test_text_after_a_video_has_two_conventions() -> None:
    """Text goes on after the last id or after the last frame; both are in use, so the other one
    passes with a note.
    """
    segments = "text:2,video:4x4x4@2,text:3"
    ids = pecli.positions(QWEN2_5_VL_7B, segments)
    ids[:, -3:] = ids[:, :-3].max() + 1 + np.arange(3)
    check = verify_positions(ids, QWEN2_5_VL_7B, segments)

    assert check.passed
    assert check.notes == (OTHER_CONVENTION,)


def test_a_failed_check_of_ids_names_the_first_wrong_one() -> None:
    """The last four text tokens begin at 13 instead of 11, on all three axes: 12 of 3 · 33 ids."""
    check = verify_positions(with_text_at(13), QWEN2_5_VL_7B, TEXT_IMAGE_TEXT, subject="ids.npy")
    assert "12 of 99 differ, the first at [0, 29]: expected 11, found 13" in str(check)
    assert check.as_json()["worst_index"] == [0, 29]


def test_ids_that_are_fractions_are_refused() -> None:
    """`verify_positions` compares position ids with those of the model; 0.5 is not a position of a
    token.
    """
    with pytest.raises(pecli.ParameterError, match="whole numbers"):
        verify_positions([[0.5]], QWEN2_5_VL_7B, "text:1")


def test_the_command_writes_ids_that_it_verifies(run_pecli: Any, tmp_path: Path) -> None:
    """5 + 4 · 6 + 4 = 33 tokens on three axes."""
    path = tmp_path / "ids.npy"
    options = ("positions", "--model", QWEN2_5_VL_7B, "--segments", TEXT_IMAGE_TEXT)
    written = run_pecli(*options, "-o", path)
    checked = run_pecli(*options, "--verify", path)

    assert written.exit_code == SUCCESS
    assert np.load(path).shape == (3, 33)
    assert checked.exit_code == SUCCESS
    assert checked.out.startswith("passed")


def test_the_command_verify_names_a_mistake_of_the_ids(run_pecli: Any, tmp_path: Path) -> None:
    """The last text goes on at 29, as if the image had taken 24 numbers instead of 6."""
    path = tmp_path / "ids.npy"
    np.save(path, with_text_at(29))
    outcome = run_pecli("positions", QWEN2_5_VL_7B, "--segments", TEXT_IMAGE_TEXT, "--verify", path)

    assert outcome.exit_code == CHECK_FAILED
    assert "after as many numbers as it has tokens" in outcome.out


def test_the_command_prints_ids_in_runs(run_pecli: Any) -> None:
    """Text 0 to 2, four image tokens that share time 3, and text from 5 on."""
    outcome = run_pecli("positions", QWEN2_5_VL_7B, "--segments", "text:3,image:1x4x4,text:2")
    assert outcome.out.splitlines()[1].split() == ["0–2", "3", "×", "4", "5–6"]


def test_the_command_prints_ids_as_json(run_pecli: Any) -> None:
    """Flux: one text token at (0, 0, 0), and an image of 1 × 2 tokens at rows 0 and columns 0 and
    1.
    """
    outcome = run_pecli("positions", "flux.1-dev", "--segments", "text:1,image:1x2", "--json")
    assert outcome.json["position_ids"] == [[0, 0, 0], [0, 0, 0], [0, 0, 1]]
