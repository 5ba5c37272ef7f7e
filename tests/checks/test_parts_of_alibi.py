"""Parts of ALiBi's bias that correct programs hold: shards of heads, last queries, repeated rows,
zeros for other heads.

The model is BLOOM with 16 heads; the parts are cut by NumPy from whole biases of 12 positions. A
note in `readings` says which part it is.
"""

from typing import Any

import numpy as np
import pytest

import pecli
from pecli.engine.edits import Negated

HEADS = 16
LENGTH = 12
BLOOM_OF_16_HEADS = {"model_type": "bloom", "n_head": HEADS, "hidden_size": 64}


def bias(form: str, heads: int = HEADS) -> np.ndarray:
    table: np.ndarray = pecli.Alibi(heads, LENGTH, form=form).tables()["bias"]
    return table


SLOPES = pecli.Alibi(HEADS, slopes=True).tables()["slopes"]
PARTS_OF_A_BIAS = {
    "the second of two shards": ({"bias": bias("symmetric")[8:]}, "heads 8–15 of 16"),
    "the third of four shards": ({"bias": bias("causal")[None, 8:12]}, "heads 8–11 of 16"),
    "slopes of a shard": ({"slopes": SLOPES[4:8]}, "heads 4–7 of 16"),
    "the last query": ({"bias": bias("causal")[:, -1:]}, "in the key-last form"),
    "the last three queries": ({"bias": bias("symmetric")[:, -3:]}, "the last 3 queries"),
    "the last queries of a shard": ({"bias": bias("symmetric")[:8, -2:]}, "heads 0–7 of 16"),
    "keys repeated for every query": (
        {"bias": np.repeat(bias("key"), LENGTH, axis=1)},
        "repeated for every query",
    ),
    "last keys repeated for every query": (
        {"bias": np.repeat(bias("key-last"), 5, axis=1)},
        "repeated for every query",
    ),
}


@pytest.mark.parametrize("name", PARTS_OF_A_BIAS)
@pytest.mark.sample(5)
def test_a_part_of_a_bias_passes_with_a_note(name: str) -> None:
    """Each case of PARTS_OF_A_BIAS is a right part of the bias of a BLOOM with 16 heads, cut from
    the whole by NumPy, and the words that note it: heads 8 to 15, as the second of two devices has
    them, are «heads 8–15 of 16», for example.
    """
    dump, words = PARTS_OF_A_BIAS[name]
    result = pecli.verify(dump, BLOOM_OF_16_HEADS, atol=1e-5)

    assert result.passed
    assert any(words in note for note in result.readings.values())


@pytest.mark.parametrize("name", PARTS_OF_A_BIAS)
def test_a_part_of_a_bias_that_is_reversed_and_doubled_fails(name: str) -> None:
    """Each case of PARTS_OF_A_BIAS is a right part of BLOOM's bias, such as heads 8 to 15. With its
    keys in reverse order, and times 2, it must fail.
    """
    dump, _ = PARTS_OF_A_BIAS[name]
    wrong = {key: np.flip(array, axis=-1).copy() * 2 for key, array in dump.items()}

    assert not pecli.verify(wrong, BLOOM_OF_16_HEADS, atol=1e-5, reasons=False).passed


@pytest.mark.parametrize("form", ["causal", "symmetric"])
def test_the_bias_of_bloom_is_named_where_each_query_has_a_row_of_its_own(form: str) -> None:
    """BLOOM adds slope · key to all queries alike, so that its bias is (heads, 1, keys). The paper's
    has a row for each query.
    """
    slopes = 2.0 ** -np.arange(1, 9)  # the paper's, of 8 heads
    bias_of_bloom = (slopes[:, None, None] * np.arange(64)).astype(np.float32)
    result = pecli.verify({"bias": bias_of_bloom}, pecli.Alibi(8, 64, form=form))
    assert result.diagnosis[0] == f"bias: form is key (the spec says {form}); exact"


@pytest.mark.parametrize("form", ["causal", "symmetric", "key"])
def test_slopes_pass_beside_their_bias(form: str) -> None:
    """A file has both tensors. Whether a pass rules out mistakes of masks is tried on the bias;
    that slopes have no mask must not stop the check.
    """
    scheme = pecli.Alibi(4, 6, form=form, dtype="float64")
    result = pecli.verify(scheme.tables(), scheme)

    assert result.passed
    assert [tensor.name for tensor in result.tensors] == ["bias", "slopes"]


@pytest.mark.parametrize(("error", "is_named"), [(8e-6, True), (2e-5, False)])
def test_negated_slopes_are_named_if_they_are_off_by_at_most_1e_5(
    error: float, is_named: bool
) -> None:
    """The slopes of 8 heads are −2^−1 … −2^−8, each too large or too small by a share `error`.
    Some programs compute these powers in float32, which is inexact by up to 1e-5: such slopes are
    called negated, and worse ones are not.
    """
    scheme = pecli.Alibi(8, slopes=True)
    slopes = -(0.5 ** np.arange(1, 9)) * (1 + error * np.array([1, -1] * 4))
    result = pecli.verify({"slopes": slopes.astype(np.float32)}, scheme, atol=0, rtol=0)

    found = [explanation.edits for explanation in result.explanations]
    assert found == ([(Negated("all"),)] if is_named else [])


@pytest.mark.parametrize("heads", [10, 12])
def test_zeros_for_heads_without_a_bias_pass_with_a_note(heads: int) -> None:
    """x-transformers gives a bias to 10 or 12 of 16 heads, and pads it with zeros for the others.
    A number other than zero there fails.
    """
    scheme = pecli.Alibi(heads, LENGTH, form="symmetric")
    padded = np.concatenate(
        [bias("symmetric", heads), np.zeros((16 - heads, LENGTH, LENGTH), "f4")]
    )
    result = pecli.verify({"bias": padded}, scheme, atol=1e-6)

    assert result.passed
    assert any(f"zeros for {16 - heads} more heads" in note for note in result.readings.values())

    padded[-1, 0, 0] = 0.5
    assert not pecli.verify({"bias": padded}, scheme, atol=1e-6, reasons=False).passed


@pytest.mark.parametrize("form", ["symmetric", "key"])
@pytest.mark.parametrize("spec", [BLOOM_OF_16_HEADS, None])
def test_a_bias_of_zeros_fails_as_a_missing_bias(form: str, spec: Any) -> None:
    """Programs that forget ALiBi have zeros there: the diagnosis is that there is no bias, for a
    model (BLOOM with 16 heads) and for a scheme.
    """
    expected = spec or pecli.Alibi(HEADS, LENGTH, form=form)
    result = pecli.verify({"bias": np.zeros_like(bias(form))}, expected, atol=1e-6)

    assert not result.passed
    assert any("there is no bias" in line for line in result.diagnosis)


@pytest.mark.parametrize("name", ["inv_freq", "rotary_emb.inv_freq"])
def test_frequencies_are_verified_without_their_tables(name: str) -> None:
    """The frequencies of 32 channels and base 500, 500^(-2i/32), in float32 pass within 1e-6; twice
    the frequencies fail. No cosines or sines are beside them.
    """
    rope = pecli.Rope(seq_len=8, dim=32, base=500.0)
    frequencies = (500.0 ** (-np.arange(0, 32, 2) / 32)).astype(np.float32)

    assert pecli.verify({name: frequencies}, rope, rtol=1e-6).passed
    assert not pecli.verify({name: frequencies * 2}, rope, rtol=1e-6, reasons=False).passed


@pytest.mark.parametrize("shape", [(12, 2, 4), (0, 1, 5)], ids=["other keys", "empty"])
def test_a_bias_of_another_shape_fails_with_its_shape(shape: tuple[int, ...]) -> None:
    """ALiBi in the key form with 8 heads has one row and 5 keys per head; the shapes of the rows
    cannot be read as that.
    """
    key_form = pecli.Alibi(heads=8, seq_len=5, form="key")
    result = pecli.verify({"bias": np.zeros(shape, np.float32)}, key_form)

    assert "its shape is" in result.problems[0]


@pytest.mark.parametrize("tensor", ["bias", "slopes"])
def test_all_heads_in_the_place_of_a_shard_fail(tensor: str) -> None:
    """The spec is that of heads 2 and 3 of 4, and the file has all 4: another shape, for which a search
    for reasons must not look beyond the heads of the shard.
    """
    all_heads = pecli.Alibi(4, 4).tables()[tensor]
    shard = pecli.Alibi(4, 4, head_range=(2, 4))
    assert not pecli.verify({tensor: all_heads}, shard)
    assert not pecli.verify({tensor: all_heads + 1}, shard)
