"""Tables of decoders that have a width of their own (ViT-MAE, VideoMAE).

Both models are trained to restore masked images, by a decoder that is narrower than the encoder and
has a fixed sinusoidal table. Shapes are those that transformers 5.23 makes; tables are computed
here by the formula of its ViT-MAE.
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


def vit_mae_table(side: int, dim: int) -> np.ndarray:
    """Return the table of transformers' ViT-MAE for side x side patches after a class token.

    The class token has zeros. A patch has dim/4 sines and dim/4 cosines of its row, then those of
    its column; MAE's own repository has columns first.
    """
    frequencies = 1e4 ** (-np.arange(dim // 4) / (dim // 4))
    row, column = np.divmod(np.arange(side * side), side)
    row_angles = row[:, None] * frequencies
    column_angles = column[:, None] * frequencies
    patches = np.concatenate(
        [np.sin(row_angles), np.cos(row_angles), np.sin(column_angles), np.cos(column_angles)],
        axis=1,
    )
    return np.concatenate([np.zeros((1, dim)), patches]).astype("f4")


@pytest.mark.parametrize(("side", "dim"), [(8, 128), (4, 64)])
def test_the_tables_of_an_encoder_and_a_decoder_pass_and_a_reversed_decoder_table_fails(
    side: int, dim: int
) -> None:
    """The two tables are those of transformers' ViT-MAE by its formula in NumPy (`vit_mae_table`):
    rows of patches before columns, after a class token. The encoder is twice as wide as the
    decoder, so that their tables cannot be confused.
    """
    config = {
        "model_type": "vit_mae",
        "patch_size": 16,
        "image_size": 16 * side,
        "hidden_size": 2 * dim,
        "decoder_hidden_size": dim,
    }
    decoder_table = vit_mae_table(side, dim)
    dump = {
        "vit.embeddings.position_embeddings": vit_mae_table(side, 2 * dim),
        "decoder.decoder_pos_embed": decoder_table[None],
    }
    # Sines of angles below 8, rounded to float32, are off by less than 1e-6.
    tolerance = 1e-6
    assert pecli.verify(dump, config, atol=tolerance).passed

    dump["decoder.decoder_pos_embed"] = decoder_table[None, ::-1].copy()
    # Without reasons, verify does not search for the mistake, which takes long.
    assert not pecli.verify(dump, config, atol=tolerance, reasons=False).passed
