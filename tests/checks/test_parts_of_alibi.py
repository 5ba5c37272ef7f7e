"""Parts of ALiBi's bias that correct programs hold: shards of heads, last queries, repeated rows,
zeros for other heads.

The model is BLOOM with 16 heads; NumPy calculates whole biases of 12 positions and cuts the parts. A
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

SLOPES = (2.0 ** (-8 * np.arange(1, HEADS + 1) / HEADS)).astype(np.float32)
"""The paper's slopes m of 16 heads: 2^(−8/16), 2^(−16/16), …, 2^(−8)."""
KEYS = np.arange(LENGTH)
DISTANCES = KEYS - KEYS[:, None]  # key minus query, (queries, keys): negative for keys in the past
FORMS = {
    "symmetric": -abs(DISTANCES),
    "causal": np.where(DISTANCES <= 0, DISTANCES, -np.inf),
    "key": KEYS[None],
    "key-last": KEYS[None] - KEYS[-1],
}
"""The factors of a slope in the four forms of a bias, (queries, keys).

Two forms have a row for each query. The others have one row for all, which softmax cannot
distinguish from them: the key's position, from the first key (BLOOM's) or from the last.
"""


def bias(form: str) -> np.ndarray:
    """Return the bias of all 16 heads in a form: (16, queries, keys), with one query in key forms."""
    return (SLOPES[:, None, None] * FORMS[form]).astype(np.float32)


PARTS_OF_A_BIAS = {
    "the second of two shards": (
        {"bias": bias("symmetric")[8:]},
        "in the symmetric form, heads 8–15 of 16",
    ),
    "the third of four shards": (
        {"bias": bias("causal")[None, 8:12]},
        "in the causal form, heads 8–11 of 16",
    ),
    "slopes of the second of four shards": ({"slopes": SLOPES[4:8]}, "heads 4–7 of 16"),
    # For the last query, no key is in the future, and all are counted from the last.
    "the last query": ({"bias": bias("causal")[:, -1:]}, "in the key-last form"),
    "the last three queries": (
        {"bias": bias("symmetric")[:, -3:]},
        "in the symmetric form, the last 3 queries",
    ),
    "the last two queries of a shard": (
        {"bias": bias("symmetric")[:8, -2:]},
        "in the symmetric form, heads 0–7 of 16, the last 2 queries",
    ),
    "keys repeated for all 12 queries": (
        {"bias": np.repeat(bias("key"), 12, axis=1)},
        "in the key form, repeated for every query",
    ),
    "keys from the last, repeated for 5 queries": (
        {"bias": np.repeat(bias("key-last"), 5, axis=1)},
        "in the key-last form, repeated for every query",
    ),
}


@pytest.mark.parametrize("name", PARTS_OF_A_BIAS)
@pytest.mark.sample(5)
def test_a_part_of_a_bias_passes_with_a_note(name: str) -> None:
    """Each case is a right part of BLOOM's bias of 16 heads, calculated and cut by NumPy, and the note
    that states its form, its heads and its queries. A bias in the key-last form is slope · (key − last
    key) in one row: as the last row of the causal form, which is taken for it.
    """
    dump, note = PARTS_OF_A_BIAS[name]
    (tensor,) = dump
    result = pecli.verify(dump, BLOOM_OF_16_HEADS, atol=1e-5)

    assert result.passed
    assert note in result.readings[tensor]


@pytest.mark.parametrize("name", PARTS_OF_A_BIAS)
def test_a_part_of_a_bias_that_is_reversed_and_doubled_fails(name: str) -> None:
    """Each case of PARTS_OF_A_BIAS is a right part of BLOOM's bias, such as heads 8 to 15. With its
    keys in reverse order, and times 2, it must fail.
    """
    dump, _ = PARTS_OF_A_BIAS[name]
    wrong = {key: np.flip(array, axis=-1).copy() * 2 for key, array in dump.items()}

    assert not pecli.verify(wrong, BLOOM_OF_16_HEADS, atol=1e-5, reasons=False).passed


def test_a_flipped_sign_is_the_only_mistake_of_a_bias_in_another_form() -> None:
    """BLOOM's slope · key is right, and −slope · key has a wrong sign. It is nearer to slope · (key −
    last key), but would be of the wrong form as well.
    """
    result = pecli.verify({"bias": -bias("key")}, BLOOM_OF_16_HEADS, atol=1e-5)
    (tensor,) = result.tensors
    (sentence,) = result.diagnosis

    assert sentence.startswith("bias: the sign is flipped;")
    assert result.readings["bias"] == "in the key form"
    assert tensor.mismatched == HEADS * (LENGTH - 1)


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
def test_a_file_of_slopes_and_bias_passes(form: str) -> None:
    """A file of 4 heads has both tensors, by the formulas in NumPy. After a pass, `verify` tries
    whether the file would pass with known mistakes as well, such as a wrong mask of the future, and
    lists them as `weak`. Slopes have no mask: they are left out of that trial.
    """
    slopes = 2.0 ** (-8 * np.arange(1, 5) / 4)
    dump = {"slopes": slopes, "bias": slopes[:, None, None] * FORMS[form]}
    result = pecli.verify(dump, pecli.Alibi(4, LENGTH, form=form, dtype="float64"))

    assert result.passed
    assert result.weak == ()
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
    zeros = np.zeros((16 - heads, LENGTH, LENGTH), np.float32)
    padded = np.concatenate([scheme.tables()["bias"], zeros])
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


SLOPES_OF_4_HEADS = 2.0 ** (-8 * np.arange(1, 5) / 4)
DUMPS_OF_4_HEADS = {
    "bias": SLOPES_OF_4_HEADS[:, None, None] * FORMS["symmetric"],
    "slopes": SLOPES_OF_4_HEADS,
}


@pytest.mark.parametrize("tensor", ["bias", "slopes"])
def test_a_shard_passes_as_heads_2_and_3_of_4(tensor: str) -> None:
    """`head_range=(2, 4)` is the half of a second device: the last two of four heads."""
    shard = pecli.Alibi(4, LENGTH, form="symmetric", head_range=(2, 4))
    dump = {tensor: DUMPS_OF_4_HEADS[tensor][2:].astype(np.float32)}
    assert pecli.verify(dump, shard).passed


@pytest.mark.parametrize("error", [0, 1], ids=["right values", "all values too large by 1"])
@pytest.mark.parametrize("tensor", ["bias", "slopes"])
def test_all_heads_in_the_place_of_a_shard_fail(tensor: str, error: int) -> None:
    """A device has all 4 heads although it needs heads 2 and 3 only. With right values, a search for
    the reason finds other heads; with wrong ones it finds nothing, and must end as well.
    """
    shard = pecli.Alibi(4, LENGTH, form="symmetric", head_range=(2, 4))
    dump = {tensor: (DUMPS_OF_4_HEADS[tensor] + error).astype(np.float32)}
    assert not pecli.verify(dump, shard).passed
