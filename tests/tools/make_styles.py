"""Make tests/engine/schemes/data/styles.npz: small tables on grids by other libraries' own code.

    python -m tests.tools.make_styles        # with torch, diffusers 0.42.1, positional-encodings 6.0.3, timm 1.0.30
                                             # and rotary-embedding-torch 0.9.1, none of which the tests need

A key is NAME/TENSOR; tests/engine/schemes/test_styles.py says which command makes each. Complex numbers and 2 × 2
matrices are kept as the library has them.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from positional_encodings.torch_encodings import PositionalEncoding2D, PositionalEncoding3D
from rotary_embedding_torch import RotaryEmbedding
from timm.layers.pos_embed_sincos import build_rotary_pos_embed

OUTPUT = Path(__file__).parent.parent / "engine" / "schemes" / "data" / "styles.npz"


def of(file: str, name: str) -> Any:
    return getattr(importlib.import_module(f"diffusers.models.transformers.transformer_{file}"), name)


def latents(*shape: int) -> torch.Tensor:
    return torch.zeros(1, 1, *shape)


def flux2() -> Any:
    text = torch.cartesian_prod(torch.arange(1), torch.arange(1), torch.arange(1), torch.arange(3))
    image = torch.cartesian_prod(torch.arange(1), torch.arange(4), torch.arange(5), torch.arange(1))
    return of("flux2", "Flux2PosEmbed")(2000, [8] * 4)(torch.cat([text, image]))


def z_image() -> Any:
    """The image after 32 rows of text, of which the first are kept here."""
    grid = of("z_image", "ZImageTransformer2DModel").create_coordinate_grid
    ids = torch.cat([grid((1, 4, 5), (33, 0, 0)).flatten(0, 2), grid((32, 1, 1), (1, 0, 0)).flatten(0, 2)])
    return of("z_image", "RopeEmbedder")(256.0, [8, 12, 12], [64, 16, 16])(ids)


def lumina2() -> Any:
    embed = of("lumina2", "Lumina2RotaryPosEmbed")(10000, [8, 8, 8], [32, 32, 32], patch_size=1)
    return embed(latents(4, 5), torch.ones(1, 3, dtype=torch.int32))[3]


def hidream() -> Any:
    ids = torch.zeros(1, 22, 3)
    ids[0, :20, 1:] = torch.cartesian_prod(torch.arange(4), torch.arange(5))
    return of("hidream_image", "HiDreamImageEmbedND")(10000, [16, 8, 8])(ids)


def qwen_image_21() -> Any:
    mask = torch.tensor([False] * 3 + [True] * 20)
    return of("qwenimage21", "QwenImage21Rope")(10000, [4, 14, 14])([(1, 4, 5)], mask, torch.device("cpu"))


def ltx() -> Any:
    embed = of("ltx", "LTXVideoRotaryPosEmbed")(32)
    return embed(torch.zeros(1, 60, 1), 3, 4, 5, rope_interpolation_scale=(8 / 25, 32, 32))


def ltx2() -> Any:
    embed = of("ltx2", "LTX2AudioVideoRotaryPosEmbed")(32)
    return embed(embed.prepare_video_coords(1, 3, 4, 5, torch.device("cpu")))


def kandinsky5() -> Any:
    places = [torch.arange(size) for size in (3, 4, 5)]
    return of("kandinsky", "Kandinsky5RoPE3D")([8, 12, 12])((1, 3, 4, 5), places, (1.0, 2.0, 2.0))


def pixel() -> Any:
    angles = RotaryEmbedding(dim=16, freqs_for="pixel", max_freq=10).get_axial_freqs(4, 6)
    return angles.cos(), angles.sin()


def timm_pixel() -> Any:
    sin, cos = build_rotary_pos_embed([4, 6], dim=32, max_res=224, linear_bands=False, in_pixels=True)
    return cos, sin


STYLES = {
    "flux2": flux2(),
    "z-image": z_image(),
    "lumina2": lumina2(),
    "hidream": hidream(),
    "qwen-image-2.1": qwen_image_21(),
    "ltx": ltx(),
    "ltx2": ltx2(),
    "kandinsky5": kandinsky5(),
    "pixel": pixel(),
    "timm-pixel": timm_pixel(),
    "cogview4": of("cogview4", "CogView4RotaryPosEmbed")(32, 1, (256, 256))(latents(4, 7)),
    "glm-image": of("glm_image", "GlmImageRotaryPosEmbed")(32, 1)(latents(4, 7)),
    "hunyuan-image": of("hunyuanimage", "HunyuanImageRotaryPosEmbed")([1, 1], [16, 16])(latents(4, 7)),
    "hunyuan-video-1.5": of("hunyuan_video15", "HunyuanVideo15RotaryPosEmbed")(1, 1, [4, 14, 14])(latents(3, 4, 5)),
    "cosmos": of("cosmos", "CosmosRotaryPosEmbed")(32, patch_size=(1, 1, 1))(latents(3, 4, 5)),
    "cosmos-fps": of("cosmos", "CosmosRotaryPosEmbed")(32, patch_size=(1, 1, 1), rope_scale=(1.0, 3.0, 3.0))(
        latents(3, 4, 5), fps=12
    ),
    "wan-animate": of("wan_animate", "WanRotaryPosEmbed")(32, (1, 1, 1), 64)(latents(3, 4, 5)),
    "skyreels-v2": of("skyreels_v2", "SkyReelsV2RotaryPosEmbed")(32, (1, 1, 1), 64)(latents(3, 4, 5)),
    "positional-encodings-2d": PositionalEncoding2D(32)(torch.zeros(1, 4, 5, 32)),
    "positional-encodings-3d": PositionalEncoding3D(32)(torch.zeros(1, 3, 4, 5, 32)),
}


def main() -> None:
    arrays: dict[str, np.ndarray] = {}
    for name, made in STYLES.items():
        if isinstance(made, tuple):
            cos, sin = (np.asarray(part.squeeze().flatten(0, -2)) for part in made)
            arrays |= {f"{name}/cos": cos, f"{name}/sin": sin}
        elif made.is_complex():
            arrays[f"{name}/freqs_cis"] = np.asarray(made.squeeze()).astype(np.complex64)
        elif made.shape[-2:] == (2, 2):
            arrays[f"{name}/rotation"] = np.asarray(made.squeeze().flatten(0, -4)).astype(np.float32)
        else:
            arrays[f"{name}/pe"] = np.asarray(made.squeeze(0).flatten(0, -2))
    np.savez_compressed(OUTPUT, **arrays)
    print({name: (array.shape, str(array.dtype)) for name, array in arrays.items()}, OUTPUT.stat().st_size)


if __name__ == "__main__":
    main()
