"""Rotated queries of models that rotate by places in an image: `verify` with the position ids of Flux.

Flux has three axes with 16, 56 and 56 channels: an index, which is 0, the row, and the column of a
patch. Tokens of text are at (0, 0, 0). Neighbouring channels of each axis make a pair, and turn by
p · 10000^(−2i/d) with the d channels of their axis. Queries are rotated by this formula here.
"""

import numpy as np
import pytest

import pecli
from pecli.errors import ParameterError

MODEL = "flux.1-dev"
CHANNELS = (16, 56, 56)
TEXT = [(0, 0, 0)] * 3
PATCHES = [(0, row, column) for row in range(2) for column in range(4)]
IDS = np.array([*TEXT, *PATCHES])
"""The ids of 3 tokens and of an image of 2 × 4 patches, (L, axes)."""


def rotated(queries: np.ndarray, ids: np.ndarray) -> np.ndarray:
    angles = [
        ids[:, [axis]] * 1e4 ** (-np.arange(0, width, 2) / width)
        for axis, width in enumerate(CHANNELS)
    ]
    pairs = queries[..., 0::2] + 1j * queries[..., 1::2]
    turned = pairs * np.exp(1j * np.concatenate(angles, axis=1))
    return np.stack([turned.real, turned.imag], axis=-1).reshape(queries.shape)


@pytest.fixture
def queries() -> np.ndarray:
    """Queries (batch, heads, L, D)."""
    return np.random.default_rng(0).standard_normal((2, 3, len(IDS), 128))


@pytest.mark.parametrize("positions", [IDS, IDS.T], ids=["(L, axes)", "(axes, L)"])
def test_queries_rotated_by_the_ids_of_flux_pass(
    queries: np.ndarray, positions: np.ndarray
) -> None:
    """`verify` rotates the queries by the ids, which it takes in either order of axes, and finds
    the numbers of Flux's formula (`rotated`) within 1e-12.
    """
    after = rotated(queries, IDS)
    assert pecli.verify(after, MODEL, before=queries, positions=positions, atol=1e-12).passed


def test_queries_rotated_by_rows_and_columns_in_the_other_order_fail_with_that_reason(
    queries: np.ndarray,
) -> None:
    """The columns of a patch are in the place of its row. The diagnosis lists positions by axis:
    the index is 0 for all 11 tokens; the row is 0 for the 3 of text, and then the columns 0 to 3.
    """
    after = rotated(queries, IDS[:, [0, 2, 1]])
    found = pecli.verify(after, MODEL, before=queries, positions=IDS, atol=1e-12)

    assert not found.passed
    assert found.diagnosis[0].startswith("after: positions are 0 × 11; 0 × 3, then 0 … 3")


def test_apply_rotates_by_the_ids_of_flux(queries: np.ndarray) -> None:
    """Expected are the queries as rotated by Flux's formula, in NumPy (`rotated`)."""
    found = pecli.apply(queries, MODEL, positions=IDS)
    np.testing.assert_allclose(found, rotated(queries, IDS), rtol=0, atol=1e-12)


def test_places_in_an_image_have_to_be_stated(queries: np.ndarray) -> None:
    """Tokens of an image are not at 0, 1, 2, … along one axis."""
    with pytest.raises(ParameterError, match=r"give them as `positions`, \(3, L\) or \(L, 3\)"):
        pecli.verify(queries, MODEL, before=queries)


@pytest.mark.parametrize("model", ["dinov3-vits16", "ltx-2"])
def test_whole_numbers_do_not_state_places_that_are_fractions(model: str) -> None:
    """DINOv3's patches are at fractions from −1 to 1, and those of LTX-2 at shares of a length."""
    head_dim = pecli.load_model(model).encodings[0].head_dim
    x = np.ones((len(IDS), head_dim or 0))
    with pytest.raises(ParameterError, match="it rotates by places in an image, which is not supp"):
        pecli.verify(x, model, before=x, positions=IDS)


def test_queries_of_a_vision_tower_pass_at_rows_and_columns() -> None:
    """Qwen2.5-VL's towers have heads of 80 channels: pairs (i, i + 40), of which 20 turn by the row
    and 20 by the column of a patch, by p · 10000^(−2i/40).
    """
    places = IDS[3:, 1:]
    frequencies = 1e4 ** (-np.arange(0, 40, 2) / 40)
    angles = (places[:, :, None] * frequencies).reshape(len(places), 40)
    before = np.random.default_rng(1).standard_normal((2, len(places), 80))
    turned = (before[..., :40] + 1j * before[..., 40:]) * np.exp(1j * angles)
    after = np.concatenate([turned.real, turned.imag], axis=-1)

    found = pecli.verify(
        after, "qwen2.5-vl-7b", before=before, positions=places, layer_type="vision", atol=1e-12
    )
    assert found.passed


def test_an_attention_mask_states_no_places_in_an_image(queries: np.ndarray) -> None:
    """For text, positions can be counted from an attention mask. For an image, a mask does not
    state the row and column of a patch, so that it is refused.
    """
    with pytest.raises(ParameterError, match="it rotates by places in an image"):
        pecli.verify(queries, MODEL, before=queries, attention_mask=np.ones((1, len(IDS))))
