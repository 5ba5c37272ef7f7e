"""Make tests/models/data/position_ids.npz with the functions of transformers and diffusers.

python -m tests.tools.make_position_ids    (needs torch, transformers and diffusers)

The cases are in position_ids.json; an array is called `MODEL NUMBER`, after its model and the number
of its case. M-RoPE models give (3, L) or (3, batch, L), diffusion models (L, axes).
"""

import json
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

DATA = Path(__file__).parents[1] / "models" / "data"
VISION_START = 7
IMAGE_TOKEN = 8
VIDEO_TOKEN = 9
CLASSES = {
    "qwen2_vl": "Qwen2VLModel",
    "qwen2_5_vl": "Qwen2_5_VLModel",
    "qwen3_vl": "Qwen3VLModel",
    "qwen3_vl_moe": "Qwen3VLMoeModel",
    "qwen3_5": "Qwen3_5Model",
    "qwen3_5_moe": "Qwen3_5MoeModel",
    "glm4v": "Glm4vModel",
    "glm4v_moe": "Glm4vMoeModel",
    "glm_ocr": "GlmOcrModel",
    "paddleocr_vl": "PaddleOCRVLModel",
    "ernie4_5_vl_moe": "Ernie4_5_VLMoeModel",
    "qwen2_5_omni": "Qwen2_5OmniPreTrainedModelForConditionalGeneration",
}


class Segment:
    """A segment such as `video:4x8x6@0.5`: its kind, its sizes and its seconds per frame."""

    def __init__(self, text: str) -> None:
        self.kind, _, rest = text.partition(":")
        sizes, _, seconds = rest.partition("@")
        self.sizes = [int(size) for size in sizes.split("x")]
        self.seconds = float(seconds or 1)

    def tokens(self, merge: int, temporal_merge: int) -> int:
        if self.kind == "text":
            return self.sizes[0]
        time, height, width = self.sizes
        if self.kind == "video":
            time //= temporal_merge
        return time * (height // merge) * (width // merge)


def segments_of(row: str) -> list[Segment]:
    return [Segment(text) for text in row.split(",")]


def mrope_ids(model_type: str, case: dict[str, Any]) -> np.ndarray:
    """Return the ids of `get_rope_index`, which is called without a model around it."""
    module = import_module(f"transformers.models.{model_type}.modeling_{model_type}")
    kind = getattr(module, CLASSES[model_type])
    vision = SimpleNamespace(spatial_merge_size=2, tokens_per_second=2, temporal_merge_size=2)
    config = SimpleNamespace(
        vision_config=vision,
        image_token_id=IMAGE_TOKEN,
        video_token_id=VIDEO_TOKEN,
        audio_token_id=-1,
        vision_start_token_id=VISION_START,
        audio_start_token_id=-2,
        position_id_per_seconds=25,
        seconds_per_chunk=2,
    )
    fake = SimpleNamespace(config=config, spatial_merge_size=2)
    for name in ("get_vision_position_ids", "get_llm_pos_ids_for_vision"):
        if hasattr(kind, name):
            setattr(fake, name, partial(getattr(kind, name), fake))
    rows = [segments_of(row) for row in case["segments"]]
    temporal_merge = 2 if model_type.startswith("ernie") else 1
    ids, types, mask = batch_tokens(rows, temporal_merge, case.get("padding", "right"))
    grids: dict[str, list[list[int]]] = {"image": [], "video": []}
    seconds = []
    for segment in [segment for row in rows for segment in row]:
        if segment.kind != "text":
            grids[segment.kind].append(segment.sizes)
        if segment.kind == "video":
            seconds.append(segment.seconds)
    arguments: dict[str, Any] = {
        "image_grid_thw": torch.tensor(grids["image"]) if grids["image"] else None,
        "video_grid_thw": torch.tensor(grids["video"]) if grids["video"] else None,
        "attention_mask": mask,
    }
    if model_type == "qwen2_5_omni":
        arguments["second_per_grids"] = torch.tensor(seconds) if seconds else None
    else:
        arguments["mm_token_type_ids"] = types
        if model_type == "qwen2_5_vl" and seconds:
            arguments["second_per_grid_ts"] = torch.tensor(seconds)
    positions = kind.get_rope_index(fake, ids, **arguments)[0].numpy()
    return positions if len(rows) > 1 else positions[:, 0]


def batch_tokens(
    rows: list[list[Segment]], temporal_merge: int, padding: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return token ids, token types and the attention mask of a padded batch.

    Text before an image or a video ends with the token that begins it, as Qwen2.5-Omni expects.
    """
    ids: list[list[int]] = []
    types: list[list[int]] = []
    for row in rows:
        row_ids: list[int] = []
        row_types: list[int] = []
        for index, segment in enumerate(row):
            count = segment.tokens(2, temporal_merge)
            if segment.kind == "text":
                text = [1] * count
                is_followed = index + 1 < len(row)
                if is_followed:
                    text[-1] = VISION_START
                row_ids += text
                row_types += [0] * count
            else:
                token = IMAGE_TOKEN if segment.kind == "image" else VIDEO_TOKEN
                row_ids += [token] * count
                row_types += [token - VISION_START] * count
        ids.append(row_ids)
        types.append(row_types)
    length = max(map(len, ids))
    mask = [[1] * len(row) for row in ids]
    for table in (ids, types, mask):
        for row in table:
            pad = [0] * (length - len(row))
            row[:] = pad + row if padding == "left" else row + pad
    return torch.tensor(ids), torch.tensor(types), torch.tensor(mask)


def flux_ids(case: dict[str, Any]) -> np.ndarray:
    from diffusers import FluxPipeline

    parts = []
    images = 0
    for segment in segments_of(case["segments"][0]):
        if segment.kind == "text":
            parts.append(torch.zeros(segment.sizes[0], 3))
            continue
        ids = FluxPipeline._prepare_latent_image_ids(1, *segment.sizes, "cpu", torch.float32)
        ids[..., 0] = min(images, 1)  # FluxKontextPipeline.prepare_latents sets it for references.
        images += 1
        parts.append(ids)
    return torch.cat(parts).numpy()


def flux2_ids(case: dict[str, Any]) -> np.ndarray:
    from diffusers import Flux2Pipeline

    segments = segments_of(case["segments"][0])
    references = [torch.zeros(1, 4, *s.sizes) for s in segments if s.kind == "image"][1:]
    reference_ids = None
    if references:
        reference_ids = Flux2Pipeline._prepare_image_ids(references)[0]
    parts = []
    is_first = True
    for segment in segments:
        if segment.kind == "text":
            parts.append(Flux2Pipeline._prepare_text_ids(torch.zeros(1, segment.sizes[0], 4))[0])
        elif is_first:
            parts.append(Flux2Pipeline._prepare_latent_ids(torch.zeros(1, 4, *segment.sizes))[0])
            is_first = False
        else:
            count = segment.sizes[0] * segment.sizes[1]
            parts.append(reference_ids[:count])
            reference_ids = reference_ids[count:]
    return torch.cat(parts).numpy()


def qwen_image_ids(case: dict[str, Any]) -> np.ndarray:
    """Return positions by the angle of the second frequency, which is a hundredth of a position."""
    from diffusers.models.transformers.transformer_qwenimage import QwenEmbedRope

    rope = QwenEmbedRope(theta=10000, axes_dim=[4, 4, 4], scale_rope=True)
    segments = segments_of(case["segments"][0])
    images = [(1, *segment.sizes) for segment in segments if segment.kind == "image"]
    texts = [segment.sizes[0] for segment in segments if segment.kind == "text"]
    vision, text = rope([images], torch.device("cpu"), max_txt_seq_len=sum(texts))
    parts = []
    for segment in segments:
        if segment.kind == "text":
            count = segment.sizes[0]
            rows, text = text[:count], text[count:]
        else:
            count = segment.sizes[0] * segment.sizes[1]
            rows, vision = vision[:count], vision[count:]
        parts.append(torch.round(torch.angle(rows)[:, 1::2] * 100))
    return torch.cat(parts).numpy()


def z_image_ids(case: dict[str, Any]) -> np.ndarray:
    from diffusers import ZImageTransformer2DModel

    text, image = segments_of(case["segments"][0])
    fake = SimpleNamespace(create_coordinate_grid=ZImageTransformer2DModel.create_coordinate_grid)
    for name in ("_pad_with_ids", "_patchify_image"):
        setattr(fake, name, partial(getattr(ZImageTransformer2DModel, name), fake))
    latents = torch.zeros(4, 1, 2 * image.sizes[0], 2 * image.sizes[1])
    outcome = ZImageTransformer2DModel.patchify_and_embed(
        fake, [latents], [torch.zeros(text.sizes[0], 4)], 2, 1
    )
    count = image.sizes[0] * image.sizes[1]
    return torch.cat([outcome[4][0][: text.sizes[0]], outcome[3][0][:count]]).numpy()


def lumina2_ids(case: dict[str, Any]) -> np.ndarray:
    from diffusers.models.transformers.transformer_lumina2 import Lumina2RotaryPosEmbed

    text, image = segments_of(case["segments"][0])
    rope = Lumina2RotaryPosEmbed(theta=10000, axes_dim=[4, 4, 4], axes_lens=[300, 512, 512])
    kept: list[torch.Tensor] = []
    original = rope._get_freqs_cis

    def keep_ids(ids: torch.Tensor) -> torch.Tensor:
        kept.append(ids[0])
        return original(ids)

    rope._get_freqs_cis = keep_ids
    latents = torch.zeros(1, 4, 2 * image.sizes[0], 2 * image.sizes[1])
    rope(latents, torch.ones(1, text.sizes[0], dtype=torch.int64))
    return kept[0].numpy()


DIFFUSION: dict[str, Callable[[dict[str, Any]], np.ndarray]] = {
    "flux": flux_ids,
    "flux2": flux2_ids,
    "qwen-image": qwen_image_ids,
    "z-image": z_image_ids,
    "lumina2": lumina2_ids,
}


def main() -> None:
    cases = json.loads((DATA / "position_ids.json").read_text())
    arrays = {}
    for model, rows in cases.items():
        for number, case in enumerate(rows):
            if model in DIFFUSION:
                ids = DIFFUSION[model](case)
            else:
                ids = mrope_ids(model, case)
            arrays[f"{model} {number}"] = ids.astype(np.int16)
    np.savez_compressed(DATA / "position_ids.npz", **arrays)


if __name__ == "__main__":
    main()
