"""`pecli.positions`: position ids as a model's own code builds them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pecli.engine.arguments import text_of, within_limits
from pecli.engine.arrays import Indices, numbers
from pecli.engine.named_values import NamedValues
from pecli.errors import ParameterError, quoted
from pecli.models.data import object_at, stored
from pecli.models.encoding import ModelEncodings
from pecli.models.find import Model, describe
from pecli.models.keys import as_number, as_whole
from pecli.models.position_ids.diffusion import diffusion_ids
from pecli.models.position_ids.mrope import Continues, MropeRules
from pecli.models.position_ids.segments import Prompt, Prompts, parse_prompts

PADDINGS = ("right", "left")
TEXT_ONLY = MropeRules()
"""The rules of models without M-RoPE, of whose three equal axes one is taken."""


@dataclass(frozen=True)
class IdRules:
    """The numbering of a model's tokens: by M-RoPE, by a style of diffusion models, or as text."""

    mrope: MropeRules | None
    style: str

    def row(self, prompt: Prompt) -> Indices:
        """Return the position ids of one prompt.

        Their shape is (L, axes) for diffusion models, (3, L) for M-RoPE (time, rows, columns), and
        (L,) for text: 0, 1, 2, …

        Raises:
            ParameterError: The prompt has an image, and the model has no known rule for it.
        """
        if self.style:
            return diffusion_ids(self.style, prompt)
        if self.mrope is not None:
            return self.mrope.ids(prompt)
        for segment in prompt:
            if segment.is_vision:
                rule = "no rule is known by which this model numbers images"
                raise ParameterError("segments", str(segment), rule, "its text: text:N")
        time_ids, _, _ = TEXT_ONLY.ids(prompt)  # Text has the same ids on all three axes.
        ids: Indices = time_ids
        return ids

    @property
    def padding_id(self) -> int:
        return 0 if self.mrope is None else self.mrope.padding_id


@within_limits
def positions(
    model: Model,
    segments: Prompts,
    *,
    attention_mask: npt.ArrayLike | None = None,
    padding: str = "right",
) -> Indices:
    """Return the position ids of a prompt, as the model's own code builds them.

    Args:
        model: A path, a preset, or a configuration.
        segments: The prompt, such as `"text:12,image:1x16x22,text:5"`; a list of such texts is a
            batch. Images are frames × rows × columns: of patches before they are merged
            (`image_grid_thw`) for M-RoPE, of tokens for diffusion models. `video:4x16x22@0.5` has a
            frame every half second.
        attention_mask: 1 for tokens and 0 for padding, (L,) or (batch, L).
        padding: The side on which shorter prompts of a batch are padded if there is no mask:
            `right` or `left`.

    Returns:
        Whole numbers: (3, L) for M-RoPE (time, rows, columns), (3, batch, L) for a batch; (L, 3)
        or (L, 4) for diffusion models; (L,) or (batch, L) for other models.

    Raises:
        ParameterError: A segment, the mask or the model is wrong.

    >>> import pecli
    >>> pecli.positions("qwen2.5-vl-7b", "text:2,image:1x4x6,text:2")[1]
    array([0, 1, 2, 2, 2, 3, 3, 3, 5, 6])
    """
    rules = id_rules(model)
    return built_ids(rules, parse_prompts(segments), attention_mask, padding)


def built_ids(
    rules: IdRules,
    prompts: Sequence[Prompt],
    attention_mask: npt.ArrayLike | None,
    padding: str,
) -> Indices:
    """Return the position ids of a prompt, or of a batch of prompts that are padded to one length.

    Args:
        rules: How the model numbers tokens.
        prompts: The prompts, each a list of texts and images.
        attention_mask: A mask (batch, L) with 0 for padding; None to pad by `padding`.
        padding: The side of the padding, `left` or `right`.
    """
    rows = [rules.row(prompt) for prompt in prompts]
    is_unpadded = attention_mask is None and len(rows) == 1
    if is_unpadded:
        return rows[0]
    is_diffusion_model = rules.style != ""
    if is_diffusion_model:
        rule = "diffusion models have ids per prompt"
        raise ParameterError("segments", f"{len(rows)} prompts", rule, "give one, without a mask")
    return _padded_ids(rules, rows, attention_mask, padding)


def _padded_ids(
    rules: IdRules, rows: Sequence[Indices], attention_mask: npt.ArrayLike | None, padding: str
) -> Indices:
    """Return the ids of a batch, padded to one length; a mask of one axis is that of a single prompt.

    The axis of the batch comes before that of the tokens: (3, batch, L) for M-RoPE.

    Args:
        rules: How the model numbers tokens and padding.
        rows: The ids of each prompt.
        attention_mask: A mask (L,) or (batch, L) with 0 for padding; None to pad on a side.
        padding: That side, `left` or `right`.
    """
    lengths = [row.shape[-1] for row in rows]
    mask = _checked_mask(attention_mask, lengths, padding)  # (batch, L)
    padded_rows = []
    for row, is_token in zip(rows, mask, strict=True):
        padded_rows.append(_padded(row, is_token, rules.padding_id))
    is_mask_of_one_prompt = attention_mask is not None and np.ndim(attention_mask) == 1
    if is_mask_of_one_prompt:
        return padded_rows[0]
    axis_before_tokens = -2
    return np.stack(padded_rows, axis=axis_before_tokens)


def _checked_mask(
    attention_mask: npt.ArrayLike | None, lengths: Sequence[int], padding: str
) -> npt.NDArray[np.bool_]:
    """Return the mask of a batch, (batch, L), True for tokens: as given, or by the padding's side.

    Args:
        attention_mask: 0 for padding, (L,) or (batch, L); None to pad on a side.
        lengths: The tokens of each prompt, which are the ones in its row of the mask.
        padding: The side, `left` or `right`.

    Raises:
        ParameterError: The mask has another shape, or a row with more or fewer tokens.
    """
    if attention_mask is None:
        return _mask_of_side(lengths, padding)
    mask: npt.NDArray[np.bool_] = np.atleast_2d(numbers("attention_mask", attention_mask)) != 0
    has_row_per_prompt = mask.ndim == 2 and len(mask) == len(lengths)
    if not has_row_per_prompt:
        rule = f"it must be (batch, L), with {len(lengths)} rows"
        raise ParameterError("attention_mask", f"{mask.shape}", rule)
    token_counts = mask.sum(axis=1)
    differing_rows = np.flatnonzero(token_counts != np.array(lengths))
    if differing_rows.size:
        row = differing_rows[0]
        given = f"row {row} with {token_counts[row]} ones"
        raise ParameterError("attention_mask", given, f"the prompt has {lengths[row]} tokens")
    return mask


def _mask_of_side(lengths: Sequence[int], padding: str) -> npt.NDArray[np.bool_]:
    """Return the mask of prompts that are padded to the longest one.

    Lengths of 3 and 1 give 1 1 1 and 0 0 1 with left padding, 1 1 1 and 1 0 0 with right padding.
    """
    if text_of("padding", padding) not in PADDINGS:
        raise ParameterError("padding", quoted(padding), "it must be left or right")
    columns = np.arange(max(lengths))
    counts = np.array(lengths)[:, None]
    is_token: npt.NDArray[np.bool_] = columns < counts
    if padding == "left":
        is_token = is_token[:, ::-1]
    return is_token


def _padded(row: Indices, is_token: npt.NDArray[np.bool_], padding_id: int) -> Indices:
    """Return the ids of a prompt where its mask has tokens, and the padding's id elsewhere."""
    padded = np.full((*row.shape[:-1], len(is_token)), padding_id, np.int64)
    padded[..., is_token] = row
    return padded


def id_rules(model: Model) -> IdRules:
    """Return the rules by which a model numbers its tokens."""
    if isinstance(model, ModelEncodings):
        return IdRules(_mrope_rules({}, model.model_type), _style(model))
    description = describe(model)
    encodings = description.encodings()
    return IdRules(_mrope_rules(description.values, encodings.model_type), _style(encodings))


def _style(encodings: ModelEncodings) -> str:
    """Return the style of a diffusion model; empty for a language model."""
    for encoding in encodings:
        if encoding.is_rope_of_text and encoding.grid.style:
            return encoding.grid.style
    return ""


def _mrope_rules(config: NamedValues, model_type: str | None) -> MropeRules | None:
    """Return the rules by which a family numbers text, images and videos; None without M-RoPE.

    The family's row of position_rules.json has what its code fixes. The configuration of the vision
    tower states the rest. `MropeRules` describes each of these numbers.

    Args:
        config: The configuration of the model; empty if it is not known.
        model_type: The model type, such as `qwen2_5_vl`.
    """
    row = stored("position_rules.json").get(model_type or "")
    if row is None:
        return None
    # The tower may stand in an object that the row names: in `thinker_config` of Qwen2.5-Omni.
    outer_config = object_at(config, [row.get("part", "")]) or config
    vision = object_at(outer_config, ["vision_config"])
    return MropeRules(
        merge=as_whole(vision.get("spatial_merge_size")) or 2,
        temporal_merge=_temporal_merge(row, vision),
        rate=_rate(row, vision, outer_config),
        seconds_first=row.get("seconds_first", False),
        frames_apart=row.get("frames_apart", False),
        continues=Continues(row.get("continues", Continues.GRID)),
        padding_id=row.get("padding_id", 0),
    )


def _temporal_merge(row: NamedValues, vision: NamedValues) -> int:
    """Return the frames per token: a key of the tower, or the family's number; 1 for most families."""
    if "temporal_merge" not in row:
        return 1
    return as_whole(vision.get("temporal_merge_size")) or int(row["temporal_merge"])


def _rate(row: NamedValues, vision: NamedValues, config: NamedValues) -> float | None:
    """Return the ids per second of a video; None if the family numbers frames 0, 1, 2, …

    The key stands in the tower (Qwen2.5-VL) or beside it (Qwen2.5-Omni); else the family's counts.

    Args:
        row: The family's row of position_rules.json: `rate_key` names the key, `rate` is its default.
        vision: The configuration of the vision tower.
        config: The configuration around it.
    """
    if "rate_key" not in row:
        return None
    key = row["rate_key"]
    stated_rate = as_number(vision.get(key)) or as_number(config.get(key))
    return stated_rate or float(row["rate"])
