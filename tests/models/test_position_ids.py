"""Position ids of prompts with text, images and videos, compared with those of transformers 5.23.0
and diffusers 0.42.1.

A prompt is spelled as segments: text:12 has 12 tokens, image:1x16x22 is one frame of 16 x 22
patches, video:3x2x2@0.5 three frames at half a second each. Qwen2.5-VL merges 2 x 2 patches to one
token, and gives every token three ids (time, row, column). Stored ids are those of get_rope_index
in transformers and of the pipelines of diffusers; others are counted by hand.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.models.position_ids.mrope import Continues, MropeRules
from pecli.models.position_ids.segments import parse_prompt

DATA = Path(__file__).parent / "data"
CASES = json.loads((DATA / "position_ids.json").read_text())
IDS_BY_TRANSFORMERS = np.load(DATA / "position_ids.npz")
VISION = {"spatial_merge_size": 2, "tokens_per_second": 2, "temporal_merge_size": 2}
MROPE = {"hidden_size": 512, "num_attention_heads": 8, "vision_config": VISION}
CLASSES = {
    "flux": "FluxTransformer2DModel",
    "flux2": "Flux2Transformer2DModel",
    "qwen-image": "QwenImageTransformer2DModel",
    "z-image": "ZImageTransformer2DModel",
    "lumina2": "Lumina2Transformer2DModel",
}
ROWS = [(model, number) for model, rows in CASES.items() for number in range(len(rows))]


def config_of(model: str) -> dict[str, Any]:
    if model in CLASSES:
        return {"_class_name": CLASSES[model]}
    if model == "qwen2_5_omni":
        return {"model_type": model, "thinker_config": MROPE}
    return {"model_type": model, **MROPE}


def test_stored_ids_are_of_at_least_twelve_models_with_four_prompts() -> None:
    """position_ids.json has the prompts by model; they must not become fewer."""
    assert sum(len(rows) >= 4 for rows in CASES.values()) >= 12


@pytest.mark.parametrize(("model", "number"), ROWS, ids=[f"{m}-{n}" for m, n in ROWS])
def test_position_ids_of_a_prompt_are_those_of_transformers_and_diffusers(
    model: str, number: int
) -> None:
    """position_ids.json has prompts such as «text:12,image:1x16x22», and position_ids.npz the ids
    that get_rope_index of transformers 5.23.0, or a pipeline of diffusers 0.42.1, made of them. A
    case with several prompts is a batch.
    """
    case = CASES[model][number]
    prompts = case["segments"]
    segments = prompts if len(prompts) > 1 else prompts[0]
    ids = pecli.positions(config_of(model), segments, padding=case.get("padding", "right"))

    np.testing.assert_array_equal(ids, IDS_BY_TRANSFORMERS[f"{model} {number}"])


def test_an_image_of_qwen2_5_vl_takes_as_many_positions_as_its_longer_side() -> None:
    """16 x 22 patches merge by 2 x 2 to 8 x 11 tokens. After 12 tokens of text the image takes the
    ids 12 to 22 along its longer side, so the 5 tokens of text have the ids 23 to 27.
    """
    ids = pecli.positions("qwen2.5-vl-7b", "text:12,image:1x16x22,text:5")
    last = 12 + 11 + 5 - 1
    assert ids.shape == (3, 12 + 8 * 11 + 5)
    assert ids[:, -1].tolist() == [last, last, last]


def test_videos_of_qwen2_5_vl_have_two_ids_per_second() -> None:
    """Three frames at intervals of half a second are 1 id apart: the preset has tokens_per_second
    2. Each frame has 2 x 2 patches, which merge to one token.
    """
    ids = pecli.positions("qwen2.5-vl-7b", "video:3x2x2@0.5")
    assert ids[0].tolist() == [0, 1, 2]


def test_an_attention_mask_places_the_ids_of_a_prompt() -> None:
    """Two tokens of text and an image that merges to one token have the ids 0, 1 and 2, in the
    places where the mask is 1; the others have 0, as in transformers.
    """
    mask = [[0, 1, 1, 0, 1]]
    ids = pecli.positions("qwen2.5-vl-7b", "text:2,image:1x2x2", attention_mask=mask)

    assert ids.shape == (3, 1, 5)
    assert ids[0, 0].tolist() == [0, 0, 1, 0, 2]


def test_a_model_of_text_counts_tokens_after_padding() -> None:
    """Llama counts tokens. With padding on the left, the shorter prompt begins one place later."""
    ids = pecli.positions("llama-3.1-8b", ["text:3", "text:2"], padding="left")
    assert ids.tolist() == [[0, 1, 2], [0, 0, 1]]


def test_the_ids_of_a_video_model_are_frame_row_and_column_of_each_token() -> None:
    """`positions` of Wan 2.1, a video model: each token has (frame, row, column), here of 2 frames
    with 1 × 2 patches.
    """
    ids = pecli.positions("wan2.1-t2v-14b", "video:2x1x2")
    assert ids.tolist() == [[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 0, 1]]


@pytest.mark.parametrize(
    "segments",
    [
        pytest.param("text:2,image:1x3x4", id="odd rows"),
        pytest.param("image:1x4x3", id="odd columns"),
    ],
)
def test_patches_that_do_not_merge_two_by_two_are_refused(segments: str) -> None:
    """Qwen2.5-VL makes one token of 2 x 2 patches, which 3 rows or 3 columns do not divide into."""
    with pytest.raises(pecli.ParameterError, match="multiples of 2, the model's merge size"):
        pecli.positions("qwen2.5-vl-7b", segments)


def test_an_odd_number_of_frames_of_ernie_is_refused() -> None:
    """ERNIE 4.5 VL merges two frames of a video to one (temporal_merge_size of `config_of`)."""
    config = config_of("ernie4_5_vl_moe")
    with pytest.raises(pecli.ParameterError, match="frames must be a multiple of 2"):
        pecli.positions(config, "video:3x4x4")


@pytest.mark.parametrize(
    ("segments", "rule"),
    [
        pytest.param([], "segments is empty", id="no segments"),
        pytest.param("text:2,picture:4x4", "segments are such as", id="an unknown word"),
        pytest.param("image:0x4", "no size may be 0", id="a size of 0"),
        pytest.param("text:99999999", "at most", id="too many tokens"),
        pytest.param("video:1x2x2@1.2.3", "seconds must be a number", id="two decimal points"),
    ],
)
def test_a_misspelled_prompt_is_refused(segments: Any, rule: str) -> None:
    """A prompt is spelled «text:2,image:4x4» or «video:2x4x4@0.5», with whole sizes above 0, and
    seconds after the @.
    """
    with pytest.raises(pecli.ParameterError, match=rule):
        pecli.positions("qwen2.5-vl-7b", segments)


@pytest.mark.parametrize(
    ("segments", "rule"),
    [
        pytest.param("image:2x4x4", "an image has a single frame", id="two frames"),
        pytest.param(
            "image:4x4@2", "an image has a single frame, and no seconds", id="2 seconds per frame"
        ),
    ],
)
def test_an_image_of_several_frames_or_with_seconds_is_refused(segments: str, rule: str) -> None:
    """Several frames, and seconds between them, make a video: «video:2x4x4@2»."""
    with pytest.raises(pecli.ParameterError, match=rule):
        pecli.positions("qwen2.5-vl-7b", segments)


def test_a_video_of_qwen3_vl_without_the_times_of_its_frames_is_refused() -> None:
    """Qwen3-VL's prompts have the time of each frame as text before it, and ids follow from that:
    «video:2x4x4» would be two frames without it.
    """
    with pytest.raises(pecli.ParameterError, match="a text with the time before each frame"):
        pecli.positions("qwen3-vl-4b", "text:2,video:2x4x4")


@pytest.mark.parametrize(
    ("model", "segments", "rule"),
    [
        pytest.param(
            "llama-3.1-8b", "image:4x4", "no rule is known", id="an image in a model of text"
        ),
        pytest.param(
            "wan2.1-t2v-14b",
            "text:4,video:2x2x2",
            "text has no positions",
            id="text in Wan, which rotates only frames",
        ),
        pytest.param(
            "dinov3-vits16",
            "image:2x2",
            "positions of the style dinov3 are not whole numbers",
            id="DINOv3, whose positions are centres of patches as fractions",
        ),
        pytest.param(
            {"_class_name": "CogView4Transformer2DModel"},
            "image:2x2",
            "or are resampled",
            id="CogView4, which resamples positions to the size of the image",
        ),
    ],
)
def test_segments_to_which_a_model_gives_no_whole_positions_are_refused(
    model: Any, segments: str, rule: str
) -> None:
    """Ids are whole numbers, one per axis; the code of these models has none for the segment."""
    with pytest.raises(pecli.ParameterError, match=rule):
        pecli.positions(model, segments)


def test_a_batch_of_prompts_of_flux_is_refused() -> None:
    """Prompts of different lengths would need ids of padding, and diffusers' code for Flux has none: its
    ids are those of one prompt.
    """
    prompts = ["text:2,image:2x2", "text:3,image:2x2"]
    with pytest.raises(pecli.ParameterError, match="ids per prompt"):
        pecli.positions("flux.1-dev", prompts)


@pytest.mark.parametrize(
    "segments", ["text:2", "text:2,image:2x2,image:2x2", "text:2,text:3,image:2x2"]
)
def test_a_prompt_of_lumina_that_is_not_one_text_and_one_image_is_refused(segments: str) -> None:
    """Lumina 2's code in diffusers numbers a caption first, and then one image."""
    with pytest.raises(pecli.ParameterError, match="this model has one text and one image"):
        pecli.positions(config_of("lumina2"), segments)


def test_segments_that_are_a_number_are_refused() -> None:
    """Segments are a text such as «text:5», or a list of texts for several prompts."""
    with pytest.raises(pecli.KindError, match="segments is 5; it must be a text, or several"):
        pecli.positions("llama-3.1-8b", 5)


def test_padding_that_is_neither_left_nor_right_is_refused() -> None:
    """Two prompts of 2 and 3 tokens need a place for the padding, which «middle» is not."""
    with pytest.raises(pecli.ParameterError, match="padding is 'middle'; it must be left or right"):
        pecli.positions("llama-3.1-8b", ["text:2", "text:3"], padding="middle")


def test_positions_accepts_a_model_that_was_read_in_place_of_its_name() -> None:
    """The prompt has two tokens of text, and an image of 2 x 2 patches that is one token after
    merging: it continues the count along all three axes.
    """
    model = pecli.load_model("qwen2.5-vl-7b")
    ids = pecli.positions(model, "text:2,image:1x2x2")
    assert ids.tolist() == [[0, 1, 2], [0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize(
    ("vision", "tokens"),
    [
        pytest.param({}, 4, id="by default"),
        pytest.param({"spatial_merge_size": 4}, 1, id="four by four"),
    ],
)
def test_patches_are_merged_two_by_two_unless_the_config_states_another_size(
    vision: dict[str, int], tokens: int
) -> None:
    """4 x 4 patches are 4 tokens if 2 x 2 are merged, which is Qwen2-VL's default, or one if 4 x 4
    are.
    """
    config = {"model_type": "qwen2_vl", "hidden_size": 512, "num_attention_heads": 8}
    ids = pecli.positions({**config, "vision_config": vision}, "image:1x4x4")
    assert ids.shape == (3, tokens)


@pytest.mark.parametrize(
    ("vision", "tokens"),
    [
        pytest.param({}, 2, id="by default"),
        pytest.param({"temporal_merge_size": 4}, 1, id="in fours"),
    ],
)
def test_frames_of_ernie_are_merged_in_twos_unless_the_config_states_another_size(
    vision: dict[str, int], tokens: int
) -> None:
    """4 frames of 2 x 2 patches are 2 tokens if 2 frames are merged, which is ERNIE 4.5 VL's default,
    or one if 4 are.
    """
    config = {"model_type": "ernie4_5_vl_moe", "hidden_size": 512, "num_attention_heads": 8}
    ids = pecli.positions({**config, "vision_config": vision}, "video:4x2x2")
    assert ids.shape == (3, tokens)


def test_a_mask_of_one_axis_gives_the_ids_of_a_single_prompt() -> None:
    """The prompt has two tokens, 0 and 1. The first of three places is padding, and has id 0, as in
    transformers.
    """
    ids = pecli.positions("llama-3.1-8b", "text:2", attention_mask=[0, 1, 1])
    assert ids.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("mask", "problem"),
    [
        ([1, 1, 1], "row 0 with 3 ones; the prompt has 2 tokens"),
        ([[1, 1], [1, 1]], r"is \(2, 2\); it must be \(batch, L\), with 1 rows"),
        ([[[1, 1]]], r"is \(1, 1, 2\); it must be \(batch, L\), with 1 rows"),
    ],
    ids=["more tokens", "more rows", "three axes"],
)
def test_an_attention_mask_that_does_not_fit_the_prompt_is_refused(
    mask: list[Any], problem: str
) -> None:
    """The prompt is one row of two tokens, so a mask must have one row with two ones."""
    with pytest.raises(pecli.ParameterError, match=problem):
        pecli.positions("llama-3.1-8b", "text:2", attention_mask=mask)


def test_a_sound_is_no_image_of_a_model_with_one_text_and_one_image() -> None:
    """Z-Image has no positions for sound: 5 tokens of it are not an image of one patch."""
    with pytest.raises(pecli.ParameterError, match="one text and one image"):
        pecli.positions({"_class_name": CLASSES["z-image"]}, "text:3,audio:5")


@pytest.mark.parametrize(
    ("rules", "first_id_after"),
    [
        pytest.param(MropeRules(), 4 + 3, id="by default after the larger of 2 rows and 3 columns"),
        pytest.param(
            MropeRules(continues=Continues.LARGEST), 4 + 5, id="LARGEST: after the last of 5 frames"
        ),
        pytest.param(
            MropeRules(continues=Continues.TOKENS), 4 + 30, id="TOKENS: after 5 * 2 * 3 tokens"
        ),
        pytest.param(
            MropeRules(continues=Continues.FIRST),
            4 + 1,
            id="FIRST: after the first id of the video",
        ),
        pytest.param(MropeRules(merge=1), 4 + 6, id="a token per patch: after 6 columns"),
        pytest.param(MropeRules(first=1), 5 + 3, id="ids begin at 1 and not at 0"),
        pytest.param(
            MropeRules(is_flat=True), 4 + 30, id="flat: all axes count the 5 * 2 * 3 tokens"
        ),
    ],
)
def test_text_after_a_video_continues_by_the_rule(rules: MropeRules, first_id_after: int) -> None:
    """Four tokens of text have the ids 0 to 3. A video of 5 frames of 4 × 6 patches, merged 2 × 2, has
    then 2 × 3 tokens per frame: the time ids 4 to 8, the rows 4 and 5, and the columns 4 to 6. The
    token of text after it has one id on all three axes.
    """
    ids = rules.ids(parse_prompt("text:4,video:5x4x6,text:1"))
    time, row, column = ids[:, -1].tolist()
    assert time == first_id_after
    assert row == first_id_after
    assert column == first_id_after


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (MropeRules(), [[1, 1, 1, 1], [1, 1, 2, 2], [1, 2, 1, 2]]),
        (MropeRules(columns_first=True), [[1, 1, 1, 1], [1, 2, 1, 2], [1, 1, 2, 2]]),
        (MropeRules(begins_at_zero=True), [[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 0, 1]]),
        (MropeRules(is_flat=True), [[1, 2, 3, 4]] * 3),
    ],
    ids=["row by row", "column by column", "from 0", "flat"],
)
def test_tokens_of_an_image_have_time_row_and_column(
    rules: MropeRules, expected: list[list[int]]
) -> None:
    """After a token of text, 4 × 4 patches are an image of 2 × 2 tokens. `expected` has the time, the
    rows and the columns of its four tokens; in the usual order the time is constant, and rows and
    columns begin at 1, after the text.
    """
    assert rules.ids(parse_prompt("text:1,image:4x4"))[:, 1:].tolist() == expected


@pytest.mark.parametrize(
    ("rules", "times"),
    [
        (MropeRules(), [0, 1, 2]),
        (MropeRules(rate=4.0), [0, 6, 12]),
        (MropeRules(rate=0.5), [0, 0, 1]),
    ],
    ids=["frames", "4 per second", "1 per 2 seconds"],
)
def test_frames_are_numbered_by_their_seconds(rules: MropeRules, times: list[int]) -> None:
    """Three frames at intervals of 1.5 seconds, at 0, 1.5 and 3 s, have the time ids 0, 1, 2 without a
    rate. With one it is multiplied by the seconds, and rounded down: 0.5 · 1.5 is 0.
    """
    assert rules.ids(parse_prompt("video:3x2x2@1.5"))[0].tolist() == times


@pytest.mark.parametrize(
    ("rules", "sixth"),
    [
        pytest.param(MropeRules(rate=25.0), 5, id="the rate times the seconds first"),
        pytest.param(
            MropeRules(rate=25.0, seconds_first=True), 4, id="the frame times the seconds first"
        ),
    ],
)
def test_the_order_of_products_decides_how_float32_rounds_ids(
    rules: MropeRules, sixth: int
) -> None:
    """The sixth frame, number 5, is at 5 · 0.04 seconds, with 25 ids per second. In float32, 25 · 0.04
    is 1, and so 5 · 1 is 5; but 5 · 0.04 is 0.19999999, and 25 times that is rounded down to 4.
    """
    assert rules.ids(parse_prompt("video:6x2x2@0.04"))[0, -1] == sixth
