"""Tables of decoders that have a width of their own (ViT-MAE, VideoMAE).

Both models are trained to restore masked images, by a decoder that is narrower than the encoder and
has a fixed sinusoidal table. Shapes are those that transformers 5.23 makes; tables are computed
here by the formula of the MAE repository.
"""

from typing import Any

import numpy as np
import pytest

import pecli


@pytest.mark.parametrize(
    ("model_type", "keys", "width"),
    [
        pytest.param("vit_mae", {}, 512, id="ViT-MAE by default"),
        pytest.param("vit_mae", {"decoder_hidden_size": 256}, 256, id="ViT-MAE of 256"),
        pytest.param(
            "vit_mae",
            {"decoder_hidden_size": 128, "image_size": 64, "patch_size": 8},
            128,
            id="ViT-MAE of other images",
        ),
        pytest.param("videomae", {}, 384, id="VideoMAE by default"),
        pytest.param(
            "videomae", {"decoder_hidden_size": 192, "num_frames": 4}, 192, id="VideoMAE of 192"
        ),
    ],
)
def test_the_table_of_a_decoder_is_as_wide_as_the_decoder(
    model_type: str, keys: dict[str, Any], width: int
) -> None:
    """Decoders of masked autoencoders are narrower than their encoders. The widths are those of
    `decoder_pos_embed` in transformers 5.23: decoder_hidden_size, or the class default 512 (ViT-MAE)
    or 384 (VideoMAE).
    """
    decoder = pecli.load_config({"model_type": model_type, **keys}).one("decoder")
    assert decoder.parameters["dim"] == width


def mae_table(rows: int, columns: int, dim: int) -> np.ndarray:
    """Return the table of ViT-MAE: sines and cosines of rows, then of columns, after a row of zeros."""
    frequencies = 1e4 ** (-np.arange(dim // 4) / (dim // 4))
    row, column = np.divmod(np.arange(rows * columns), columns)
    parts = []
    for place in (row, column):
        angles = place[:, None] * frequencies
        parts += [np.sin(angles), np.cos(angles)]
    return np.concatenate([np.zeros((1, dim)), np.concatenate(parts, axis=1)]).astype("f4")


@pytest.mark.parametrize(("side", "dim"), [(8, 128), (4, 64)])
def test_a_dump_with_the_table_of_a_decoder_passes_and_a_reversed_table_fails(
    side: int, dim: int
) -> None:
    """`mae_table` computes the sines and cosines of get_2d_sincos_pos_embed of the MAE repository,
    for side x side patches and a class token. The encoder is twice as wide as the decoder, so that
    their tables cannot be confused.
    """
    config = {
        "model_type": "vit_mae",
        "image_size": 16 * side,
        "hidden_size": 2 * dim,
        "decoder_hidden_size": dim,
    }
    dump = {
        "vit.embeddings.position_embeddings": mae_table(side, side, 2 * dim),
        "decoder.decoder_pos_embed": mae_table(side, side, dim)[None],
    }

    assert pecli.verify(dump, config, atol=1e-6).passed

    dump["decoder.decoder_pos_embed"] = mae_table(side, side, dim)[None, ::-1].copy()
    assert not pecli.verify(dump, config, atol=1e-6, reasons=False).passed
