"""pecli.record on models over stand-ins for torch's classes: right models pass, and mistakes are
named.

A recording keeps the tables of the rotary module, and queries and keys of each layer before and
after the rotation; verify checks them against the configuration. The models are small, over NumPy,
written as transformers' Llama (3 layers, 4 heads of 16 channels, base 10000), Gemma 3 and SmolLM3
are; mistakes are planted in them, and expected words are written by hand. A call has 2 sequences of
12 tokens.
"""

from collections.abc import Callable
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.live.rotations import Arguments
from tests.record import fake_models
from tests.record.fake_models import (
    GEMMA,
    LLAMA,
    SMOLLM,
    Cache,
    HeadsLast,
    KeysFirst,
    LearnedModel,
    MetaModel,
    OwnModel,
    OwnRope,
    Transformer,
    frequencies,
    token_ids,
)
from tests.record.fake_torch import MetaTensor, Tensor, tensor

LEFT_PADDED_MASK = tensor(np.array([[1] * 12, [0] * 4 + [1] * 8]))


def llama_model() -> Transformer:
    return Transformer(LLAMA)


def gemma_model() -> Transformer:
    return Transformer(GEMMA, (1000000.0, 10000.0))


def record_call(model: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a model once with these arguments, and return what was recorded."""
    with pecli.record(model) as run:
        model(*args, **kwargs)
    return run


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("model", "arguments"),
    [
        pytest.param(llama_model, {"input_ids": token_ids()}, id="llama"),
        pytest.param(gemma_model, {"input_ids": token_ids()}, id="gemma"),
        pytest.param(
            llama_model,
            {"input_ids": token_ids(), "attention_mask": LEFT_PADDED_MASK},
            id="left padding",
        ),
        pytest.param(
            llama_model,
            {"input_ids": token_ids(), "position_ids": tensor([[7, 3, 9] * 4] * 2)},
            id="stated ids",
        ),
        pytest.param(llama_model, {"input_ids": token_ids(batch=1)}, id="one sequence"),
        pytest.param(
            llama_model,
            {"input_ids": token_ids(length=fake_models.HEADS)},
            id="as many tokens as heads",
        ),
    ],
)
def test_a_right_model_passes(
    model: Callable[[], Transformer], arguments: dict[str, Tensor]
) -> None:
    """Stand-ins for transformers' Llama and Gemma 3 over NumPy are recorded in one call, and
    verified against their own configurations.
    """
    result = record_call(model(), **arguments).verify()
    assert result.diagnosis == ()
    assert result.passed
    assert result.unchecked == ()


def test_a_right_rotation_of_fewer_heads_than_tokens_leaves_no_doubt() -> None:
    """A call has 12 tokens, and the stand-in for a Llama 4 heads: only one axis can be that of
    positions.
    """
    result = record_call(llama_model(), token_ids()).verify()
    assert result.weak == ()


def test_tables_queries_and_keys_are_recorded_layer_by_layer() -> None:
    """A call keeps the tables of the rotary module, and queries and keys of every layer before and
    after the rotation. The stand-in for a Llama has 3 layers with 4 heads of queries, 2 of keys, 16
    channels each; the batch is 2 sequences of 12 tokens.
    """
    run = record_call(llama_model(), token_ids())
    (call,) = run.calls

    assert [*call.places()] == ["rotary_emb", "layers.0", "layers.1", "layers.2"]
    assert {*call.places()["rotary_emb"]} == {"inv_freq", "cos", "sin"}
    assert {*call.places()["layers.2"]} == {"q_before", "q_after", "k_before", "k_after"}
    assert call.tensors["layers.0.q_before"].shape == (2, 4, 12, 16)
    assert call.tensors["layers.0.k_after"].shape == (2, 2, 12, 16)
    np.testing.assert_array_equal(call.position_ids, [range(12)])
    np.testing.assert_array_equal(call.positions, [range(12)] * 2)


def test_all_vectors_of_a_function_with_any_number_of_them_are_recorded() -> None:
    """`rotate(*heads, cos, sin)` is called with queries and keys, and with tables by their names."""

    def rotate(*heads: Tensor, cos: Tensor, sin: Tensor) -> list[Tensor]:
        return [head * cos + head * sin for head in heads]

    query, key, cos, sin = (
        tensor(np.full((1, 4, 12, 16), number)) for number in (1.0, 2.0, 3.0, 4.0)
    )
    arguments = Arguments.of(rotate, (query, key), {"cos": cos, "sin": sin})

    assert [*arguments.vectors().values()] == [query, key]
    assert arguments.tables() == {"cos": cos, "sin": sin}


# Mistakes


def round_frequencies_to_bfloat16(model: Transformer) -> None:
    rounded = model.rotary_emb.inv_freq.astype(ml_dtypes.bfloat16)
    model.rotary_emb.buffers["inv_freq"] = tensor(rounded.astype(np.float32))


def set_frequencies_to_zero(model: Transformer) -> None:
    model.rotary_emb.buffers["inv_freq"] = tensor(np.zeros(8, np.float32))


def leave_frequencies_uninitialised(model: Transformer) -> None:
    values = np.array([1.7e30, 3.2e-41, 0, 0, 1e-38, 4e12, 0, 1], np.float32)
    model.rotary_emb.buffers["inv_freq"] = tensor(values)


def shift_layer_1_by_one_position(model: Transformer) -> None:
    model.layers[1].self_attn.shift = 1


def change_base_to_500000(model: Transformer) -> None:
    model.rotary_emb.buffers["inv_freq"] = tensor(frequencies(500000.0))


def do_not_rotate_layer_2(model: Transformer) -> None:
    model.layers[2].self_attn.rotates = False


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("plant_mistake", "layer", "reason"),
    [
        pytest.param(round_frequencies_to_bfloat16, 0, "bfloat16-inv-freq", id="rounded"),
        pytest.param(
            set_frequencies_to_zero,
            0,
            "inv_freq was never initialised: it holds 0, 0, 0",
            id="zeroed",
        ),
        pytest.param(
            leave_frequencies_uninitialised,
            0,
            "inv_freq was never initialised: it holds 1.7e30",
            id="uninitialised",
        ),
        pytest.param(shift_layer_1_by_one_position, 1, "positions start at 1", id="shifted"),
        pytest.param(change_base_to_500000, 0, "base is 500000", id="theta"),
    ],
)
def test_a_mistake_is_named_with_the_first_wrong_layer(
    plant_mistake: Callable[[Transformer], None], layer: int, reason: str
) -> None:
    """A stand-in for a Llama of 3 layers has one mistake. All layers use wrong frequencies, which
    layer 0 shows first; a shift of layer 1 is shown by that layer.
    """
    model = llama_model()
    plant_mistake(model)
    result = record_call(model, token_ids()).verify()

    assert not result
    assert result.first_place == f"layers.{layer}"
    assert result.diagnosis[0].startswith(f"layer {layer} is the first that is wrong")
    assert reason in "\n".join(result.diagnosis)


def test_only_the_shifted_layer_is_wrong() -> None:
    """Layer 1 of 3 rotates by positions that are one too large; its neighbours are right."""
    model = llama_model()
    shift_layer_1_by_one_position(model)
    result = record_call(model, token_ids()).verify(reasons=False)

    assert result.wrong_layers == (1,)
    assert result.as_json()["wrong_layers"] == [1]


@pytest.mark.thorough
def test_a_wrong_theta_of_one_layer_type_is_named_with_its_layers() -> None:
    """Gemma 3 has two bases. That of full attention, which only layer 2 of the stand-in has, should
    be 1000000; the model computes with 500000.
    """
    model = gemma_model()
    change_base_to_500000(model)
    result = record_call(model, token_ids()).verify()

    assert result.wrong_layers == (2,)
    assert "base is 500000 (the spec says 1000000)" in "\n".join(result.diagnosis)


def test_a_wrong_layout_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in's function is replaced by one that rotates neighbours, (x0, x1), where Llama's
    configuration means halves, (x0, x8).
    """

    def swap_neighbours(x: Tensor) -> Tensor:
        pairs = np.stack((-x[..., 1::2], x[..., 0::2]), axis=-1)
        return tensor(pairs.reshape(x.shape))

    def repeat_for_neighbours(table: Tensor) -> Tensor:
        return tensor(np.repeat(table[..., :8], 2, axis=-1)[:, None])

    def rotate_neighbours(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Any:
        cos = repeat_for_neighbours(cos)
        sin = repeat_for_neighbours(sin)
        return q * cos + swap_neighbours(q) * sin, k * cos + swap_neighbours(k) * sin

    monkeypatch.setattr(fake_models, "apply_rotary_pos_emb", rotate_neighbours)
    result = record_call(llama_model(), token_ids()).verify()

    assert result.first_place == "layers.0"
    assert "layout is interleaved (the spec says halves)" in "\n".join(result.diagnosis)


def test_ignored_left_padding_is_named() -> None:
    """Sequence 1 begins with 4 tokens of padding, so that its first real token has position 0. The
    model counts the padding and gives it position 4.
    """
    model = llama_model()
    model.ignores_padding = True
    result = record_call(model, token_ids(), attention_mask=LEFT_PADDED_MASK).verify()

    assert result.first_place == "layers.0"

    text = "\n".join(result.diagnosis)
    assert "left padding is ignored" in text
    assert "position ids of sequence 1 are 4, 5, 6, 7, 8, 9, 10, 11, not 0, 1, 2" in text


def test_ids_of_the_caller_that_ignore_padding_are_wrong() -> None:
    """Position ids that a caller passes are checked against the mask. Those of both sequences are 0
    to 11, although the second begins with 4 tokens of padding.
    """
    ids = tensor(np.tile(np.arange(12), (2, 1)))
    run = record_call(llama_model(), token_ids(), attention_mask=LEFT_PADDED_MASK, position_ids=ids)

    assert not run.verify(reasons=False)


FROM_0_TO_11 = range(12)
FROM_3_TO_14 = range(3, 15)
FROM_0_AFTER_PADDING = [0, 0, 0, 0, *range(8)]
"""Position ids of 12 tokens; the last ones are right if the first 4 tokens are padding."""


@pytest.mark.parametrize(
    ("ids", "problem"),
    [
        pytest.param(
            (FROM_0_TO_11, FROM_0_TO_11),
            "position ids of sequence 1 are 4, 5, 6, 7, 8, 9, 10, 11, not 0, 1, 2, 3, 4, 5, 6, 7; "
            "they count its padding",
            id="of the padded sequence",
        ),
        pytest.param(
            (FROM_3_TO_14, FROM_0_AFTER_PADDING),
            "position ids of sequence 0 are 3, 4, 5, 6, 7, 8, 9, 10, …, "
            "not 0, 1, 2, 3, 4, 5, 6, 7, …",
            id="of the sequence without padding",
        ),
    ],
)
def test_wrong_ids_count_padding_only_if_their_sequence_has_some(
    ids: Any, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model's code computes `ids` for two sequences, of which only sequence 1 begins with
    padding, 4 tokens. The ids of its other 8 tokens should be 0 to 7, those of sequence 0 should be
    0 to 11.
    """
    model = llama_model()
    monkeypatch.setattr(model, "positions", lambda *_: tensor(np.array(ids)))
    run = record_call(model, token_ids(), attention_mask=LEFT_PADDED_MASK)

    assert problem in run.verify(reasons=False).diagnosis


def tensors_of_gemma_in_a_stack() -> dict[str, Any]:
    """Return the tensors of a right Gemma 3 whose list of layers is called `stack`, not `layers`.

    By its `layer_types`, layers 0 and 1 rotate with base 10000, and layer 2 with base 1000000.
    """
    recorded = record_call(gemma_model(), token_ids()).tensors()
    return {name.replace(".layers.", ".stack."): array for name, array in recorded.items()}


def test_a_number_in_the_name_of_a_module_states_its_layer() -> None:
    """The layers of a Gemma 3 are called `stack.0` to `stack.2`. They pass, since each is compared with
    the base of its own layer type.
    """
    result = pecli.verify(tensors_of_gemma_in_a_stack(), GEMMA, reasons=False)
    assert result.passed
    assert result.wrong_layers == ()


def test_a_module_that_rotates_as_another_layer_type_is_wrong() -> None:
    """`stack.0` should rotate with base 10000, the base of sliding attention. It has the queries of
    `stack.2`, which were rotated with base 1000000, the base of full attention.
    """
    tensors = tensors_of_gemma_in_a_stack()
    for queries in ("q_before", "q_after"):
        tensors[f"calls.0.stack.0.{queries}"] = tensors[f"calls.0.stack.2.{queries}"]
    result = pecli.verify(tensors, GEMMA, reasons=False)

    assert result.wrong_layers == (0,)


def test_a_layer_without_rotation_is_named() -> None:
    """Every layer of a Llama rotates; layer 2 of this one forgets to."""
    model = llama_model()
    do_not_rotate_layer_2(model)
    result = record_call(model, token_ids()).verify()

    assert not result
    assert "layer 2 is the first that does not rotate" in "\n".join(result.diagnosis)


def test_all_layers_without_rotation_are_listed() -> None:
    """Every layer of a Llama rotates; layers 1 and 2 of this one forget to."""
    model = llama_model()
    model.layers[1].self_attn.rotates = False
    model.layers[2].self_attn.rotates = False
    result = record_call(model, token_ids()).verify()

    assert any("does not rotate (layers 1, 2)" in line for line in result.diagnosis)


def test_a_layer_that_should_not_rotate_need_not() -> None:
    """The configuration has `no_rope_layers` [1, 0, 1], as SmolLM3 has it: layer 1 does not rotate."""
    model = Transformer(SMOLLM)
    model.layers[1].self_attn.rotates = False

    assert record_call(model, token_ids()).verify()


def test_a_layer_that_rotates_though_it_should_not_is_named() -> None:
    """The configuration has `no_rope_layers` [1, 0, 1], as SmolLM3 has it, and the model rotates in
    layer 1.
    """
    result = record_call(Transformer(SMOLLM), token_ids()).verify()
    assert not result
    assert "layer 1 is the first that rotates though it should not" in "\n".join(result.diagnosis)


# Several calls


def record_generation(model: Transformer, first_wrong_token: int | None = None) -> Any:
    """Record a prompt of 12 tokens, and three new tokens with a cache.

    From the first wrong token on, layer 2 rotates by positions that are 5 too large.
    """
    cache = Cache()
    with pecli.record(model) as run:
        model(token_ids(), past_key_values=cache)
        for token in range(3):
            if token == first_wrong_token:
                model.layers[2].self_attn.shift = 5
            model(token_ids(length=1), past_key_values=cache)
    return run


def test_the_positions_of_a_call_go_on_at_the_end_of_the_cache() -> None:
    """The model is called with a prompt of 12 tokens, then with one token at a time: the recorded
    calls start at positions 0, 12, 13 and 14.
    """
    run = record_generation(llama_model())
    assert [int(call.positions[0, 0]) for call in run.calls] == [0, 12, 13, 14]
    assert run.verify()


def test_a_recording_that_begins_with_a_full_cache_goes_on_at_its_end() -> None:
    """The prompt of 12 tokens, positions 0 to 11, was not recorded: the next token is at position
    12.
    """
    model = llama_model()
    cache = Cache()
    model(token_ids(), past_key_values=cache)
    with pecli.record(model) as run:
        model(token_ids(length=1), past_key_values=cache)
    (call,) = run.calls

    assert call.positions.tolist() == [[12], [12]]
    assert run.verify(reasons=False).passed


def test_the_diagnosis_names_the_first_wrong_call() -> None:
    """Call 0 is the prompt, and calls 1, 2 and 3 are one new token each, numbered from 0. From new
    token 1 on, that is from call 2 on, layer 2 rotates by positions that are 5 too large.
    """
    run = record_generation(llama_model(), first_wrong_token=1)
    result = run.verify(reasons=False)

    assert result.first_place == "layers.2"
    assert "in call 2" in result.diagnosis[0]


def test_positions_are_counted_by_a_mask_that_covers_the_cache() -> None:
    """The second of two sequences begins with 4 tokens of padding among 12. The next token of both,
    for which the mask has a thirteenth column, is at position 12 and at 12 − 4 = 8.
    """
    model = llama_model()
    mask_of_13 = tensor(np.concatenate((LEFT_PADDED_MASK, np.ones((2, 1), np.int64)), axis=1))
    with pecli.record(model) as run:
        model(token_ids(), attention_mask=LEFT_PADDED_MASK)
        model(token_ids(length=1), attention_mask=mask_of_13)

    np.testing.assert_array_equal(run.calls[1].positions, [[12], [8]])
    assert run.verify()


def test_expected_positions_follow_the_mask_although_the_model_ignores_it() -> None:
    """The second of two sequences has 4 tokens of padding among 12. The model ignores padding and
    goes on at position 12 for both (`position_ids`), where the mask states 12 and 8 (`positions`).
    """
    model = llama_model()
    model.ignores_padding = True
    mask_of_13 = tensor(np.concatenate((LEFT_PADDED_MASK, np.ones((2, 1), np.int64)), axis=1))
    cache = Cache()
    with pecli.record(model) as run:
        model(token_ids(), attention_mask=LEFT_PADDED_MASK, past_key_values=cache)
        model(token_ids(length=1), attention_mask=mask_of_13, past_key_values=cache)

    np.testing.assert_array_equal(run.calls[1].position_ids, [[12]])
    np.testing.assert_array_equal(run.calls[1].positions, [[12], [8]])


# Models of other projects


@pytest.mark.parametrize("start", [0, 5])
def test_a_model_with_complex_tables_and_a_start_position_is_verified(start: int) -> None:
    """Meta's code multiplies pairs by rows of exp(i · position · frequency), from `start_pos` on.
    Cohere's configuration rotates interleaved pairs, as Meta's code does; with another base it
    fails.
    """
    config = {**LLAMA, "model_type": "cohere"}
    run = record_call(MetaModel(), token_ids(), start)

    assert run.verify(config)
    assert not run.verify({**config, "rope_theta": 500000.0}, reasons=False)


VECTORS_OF_12_TOKENS = np.random.default_rng(2).standard_normal((2, 12, 64)).astype(np.float32)
"""The input of OwnModel: 2 sequences of 12 tokens, 64 channels, which are 4 heads of 16."""


def record_of_own_model() -> Any:
    """Record 12 tokens, and then one more token, in a model without any name of transformers.

    `OwnModel` has two layers, `stack.0` and `stack.1`, each with a rotary module `rope` of base 10000.
    It calls `rope(query, offset=first)` and `rope(key, offset=first)`, which change their argument.
    """
    model = OwnModel()
    with pecli.record(model) as run:
        model(tensor(VECTORS_OF_12_TOKENS))
        model(tensor(VECTORS_OF_12_TOKENS[:, :1]))
    return run


def test_queries_that_are_rotated_in_place_are_recorded_before_and_after() -> None:
    """The rotary module overwrites the query, and what is recorded as before must not change: it is
    the input, by heads. The expected rotation of halves is NumPy's, at positions 0 to 11.
    """
    tensors = record_of_own_model().calls[0].tensors
    before = np.swapaxes(VECTORS_OF_12_TOKENS.reshape(2, 12, 4, 16), 1, 2)
    turns = np.exp(1j * np.outer(np.arange(12), frequencies(base=10000.0)))
    rotated_pairs = (before[..., :8] + 1j * before[..., 8:]) * turns
    after = np.concatenate((rotated_pairs.real, rotated_pairs.imag), axis=-1)

    np.testing.assert_array_equal(tensors["stack.0.q_before"], before)
    np.testing.assert_allclose(tensors["stack.0.q_after"], after, atol=1e-5)  # float32


def test_tensors_are_recorded_under_the_names_of_a_models_own_modules() -> None:
    """A rotary module keeps its frequencies; the queries and keys that it is given belong to the
    layer that has it.
    """
    places = record_of_own_model().calls[0].places()
    assert {*places} == {"stack.0.rope", "stack.0", "stack.1.rope", "stack.1"}
    assert {*places["stack.0.rope"]} == {"inverse_frequencies"}
    assert {*places["stack.0"]} == {"q_before", "q_after", "k_before", "k_after"}


def test_the_offset_of_a_models_own_rotary_module_is_the_position_of_its_first_token() -> None:
    """The second call has one token of each sequence after the 12 of the first: offset 12."""
    first, second = record_of_own_model().calls
    np.testing.assert_array_equal(first.positions, [range(12)] * 2)
    np.testing.assert_array_equal(second.positions, [[12], [12]])


def test_a_right_rotary_module_of_a_models_own_passes() -> None:
    """LLAMA is the configuration of heads of 16 channels and base 10000, as `OwnModel` has them."""
    assert record_of_own_model().verify(LLAMA)


def test_another_base_of_a_models_own_rotary_module_is_named() -> None:
    """`OwnModel` has base 10000, and the configuration 500000."""
    result = record_of_own_model().verify({**LLAMA, "rope_theta": 500000.0})
    assert result.first_place == "stack.0.rope"
    assert "base is 10000 (the spec says 500000)" in "\n".join(result.diagnosis)


def test_tokens_of_queries_are_at_the_third_axis() -> None:
    """Queries are (batch, heads, tokens, channels). The 12 tokens of both sequences start at the
    offset of the call, 5, and end at 16.
    """
    queries = np.random.default_rng(2).standard_normal((2, 4, 12, 16)).astype(np.float32)
    run = record_call(OwnRope(10000.0), tensor(queries), offset=5)

    positions_of_a_sequence = np.arange(5, 5 + 12)
    np.testing.assert_array_equal(run.calls[0].positions, [positions_of_a_sequence] * 2)


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param((3, 4), id="numbers"),
        pytest.param((tensor(np.ones((12, 8))), None), id="first"),
        pytest.param((None, tensor(np.ones((12, 8)))), id="second"),
        pytest.param((tensor(np.ones((12, 8))), tensor(np.ones((4, 8)))), id="two shapes"),
    ],
)
def test_only_two_tables_of_one_shape_are_taken_for_cosines_and_sines(pair: Any) -> None:
    """`OwnRope` is called with a further argument, such as the rows and columns of an image. It is
    recorded without tables; `inverse_frequencies` is its buffer.
    """

    class OwnRopeOfGrids(OwnRope):
        def forward(self, x: Tensor, offset: int, pair: Any) -> Tensor:
            return super().forward(x, offset)

    queries = np.ones((2, 4, 12, 16), np.float32)
    run = record_call(OwnRopeOfGrids(10000.0), tensor(queries), offset=5, pair=pair)

    names = {name.rpartition(".")[2] for name in run.calls[0].tensors}
    assert names == {"inverse_frequencies", "q_before", "q_after"}


def test_the_axis_of_heads_is_the_one_at_which_the_tables_have_theirs() -> None:
    """With as many tokens as heads, 4, the shape does not show which axis is which. `HeadsLast`
    rotates (batch, tokens, heads, channels), and unsqueezes its tables at axis 2, the heads'. The
    recording has (batch, heads, tokens, channels).
    """
    queries = np.random.default_rng(2).standard_normal((2, 4, 4, 16)).astype(np.float32)
    run = record_call(HeadsLast(), tensor(queries))
    before = run.calls[0].tensors["q_before"]

    np.testing.assert_array_equal(before, np.swapaxes(queries, 1, 2))


def test_with_as_many_heads_as_tokens_heads_are_taken_to_come_first() -> None:
    """Nothing in the call shows which of two axes of 4 has the heads, so that queries stay as they
    are: (batch, heads, tokens, channels).
    """
    queries = np.random.default_rng(2).standard_normal((2, 4, 4, 16)).astype(np.float32)
    run = record_call(OwnRope(10000.0), tensor(queries.copy()), offset=5)

    np.testing.assert_array_equal(run.calls[0].tensors["q_before"], queries)


def test_queries_and_keys_are_named_after_the_variables_of_the_caller() -> None:
    """The rotary module rotates one tensor, its argument x. The model calls it with its variable
    `key` first, and then with `query`: it makes keys of ones and queries of twos from its input.
    """
    run = record_call(KeysFirst(), tensor(np.ones((2, 4, 12, 16), np.float32)))
    tensors = run.calls[0].tensors

    np.testing.assert_array_equal(tensors["rope.k_before"], np.ones((2, 4, 12, 16)))
    np.testing.assert_array_equal(tensors["rope.q_before"], np.full((2, 4, 12, 16), 2.0))


def test_a_model_with_learned_positions_is_verified() -> None:
    """The stand-in looks up rows 0, 1, … of its table `wpe`, as GPT-2 does."""
    assert record_call(LearnedModel(), token_ids()).verify()


def test_the_configuration_of_a_model_may_be_a_dataclass() -> None:
    """Models of one's own often have a dataclass as their `config`, instead of Hugging Face's class."""
    fields = [(name, type(value), value) for name, value in LearnedModel.config.items()]
    own_config = make_dataclass("OwnConfig", fields)
    model = LearnedModel()
    model.config = own_config()

    assert record_call(model, token_ids()).verify()


def test_shifted_learned_rows_are_named() -> None:
    """Position p takes row p + 2 of the learned table, as in OPT; GPT-2's configuration, with which
    the stand-in is verified, means row p.
    """
    result = record_call(LearnedModel(shift=2), token_ids()).verify()
    assert result.first_place == "wpe"
    assert "all 2 too far" in "\n".join(result.diagnosis)


def test_learned_rows_beyond_the_end_of_a_table_are_wrong() -> None:
    """The table has 32 rows, of which 31 tokens took rows 0 to 30. OPT's configuration requires rows 2
    to 32, and there is no row 32.
    """
    opt = {**LearnedModel.config, "model_type": "opt", "max_position_embeddings": 32}
    result = record_call(LearnedModel(), token_ids(length=31)).verify(opt)

    assert not result
    assert result.first_place == "wpe"


def test_learned_rows_that_ignore_padding_are_named() -> None:
    """Sequence 1 begins with 4 tokens of padding, which the model counts as positions."""
    result = record_call(LearnedModel(), token_ids(), attention_mask=LEFT_PADDED_MASK).verify()
    assert not result
    assert "sequence 1" in "\n".join(result.diagnosis)


# The context


def hooks_and_functions_of(model: Transformer) -> list[Any]:
    hooks: list[Any] = [fake_models.apply_rotary_pos_emb, fake_models.apply_rotary_emb]
    for module in model.modules():
        hooks += [len(module.hooks), len(module.pre_hooks)]
    return hooks


def test_hooks_and_functions_are_restored_after_recording() -> None:
    """Recording hooks into modules and replaces functions such as `apply_rotary_pos_emb`, for its
    block only.
    """
    model = llama_model()
    before = hooks_and_functions_of(model)

    with pecli.record(model):
        assert hooks_and_functions_of(model) != before
    assert hooks_and_functions_of(model) == before


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param(token_ids(), id="the block raises KeyError"),
        pytest.param(tensor([[9999]]), id="the model raises IndexError"),
    ],
)
def test_hooks_and_functions_are_restored_after_an_exception_in_the_block_or_the_model(
    ids: Tensor,
) -> None:
    """The token id 9999 has no embedding, so that the model raises; if it does not, the block does."""
    model = llama_model()
    before = hooks_and_functions_of(model)

    def record_and_fail() -> None:
        with pecli.record(model):
            model(ids)
            raise KeyError

    with pytest.raises((IndexError, KeyError)):
        record_and_fail()
    assert hooks_and_functions_of(model) == before


def test_a_call_after_one_that_failed_is_recorded() -> None:
    """Token id 9999 has no embedding, so that the first call raises and leaves no record."""
    model = llama_model()
    with pecli.record(model) as run:
        with pytest.raises(IndexError):
            model(tensor([[9999]]))
        model(token_ids())

    assert len(run.calls) == 1
    assert run.verify()


def test_recording_does_not_change_the_output() -> None:
    """The model is called with the same token ids, with and without `pecli.record`: both outputs
    are equal, bit for bit.
    """
    model = llama_model()
    expected = model(token_ids())
    with pecli.record(model):
        np.testing.assert_array_equal(model(token_ids()), expected)


def test_only_the_chosen_layers_are_recorded() -> None:
    """The rotary module is shared by all layers, and is recorded beside the chosen one."""
    model = llama_model()
    with pecli.record(model, layers=[1]) as run:
        model(token_ids())

    assert {*run.calls[0].places()} == {"rotary_emb", "layers.1"}
    assert run.verify()


def test_functions_outside_of_the_model_are_not_recorded() -> None:
    """A rotation that is called while no module of the model runs belongs to other code."""
    x = tensor(np.ones((1, 4, 3, 16), np.float32))
    table = tensor(np.ones((1, 3, 16), np.float32))
    with pecli.record(llama_model()) as run:
        fake_models.apply_rotary_pos_emb(x, x, table, table)

    assert run.calls == []


# Results and refusals


def test_a_run_is_printed_as_a_table_of_layers() -> None:
    """2 sequences of 12 tokens; queries have 4 heads of 16 channels; 4 tokens are masked as
    padding.
    """
    text = str(record_call(llama_model(), token_ids(), attention_mask=LEFT_PADDED_MASK))
    assert text.splitlines()[0] == "run of Transformer: 1 call"
    assert "2 sequences of 12 tokens, positions 0 … 11, 4 of padding" in text
    assert "layers.2" in text
    assert "2 × 4 × 12 × 16 float32" in text


def test_a_result_is_printed_with_the_number_of_right_and_wrong_layers() -> None:
    """Queries of layer 1 of 3 are at wrong positions: 2 layers are right, and 1 is wrong."""
    model = llama_model()
    shift_layer_1_by_one_position(model)
    text = str(record_call(model, token_ids()).verify(reasons=False))

    assert text.startswith("FAILED  run of Transformer  rope\n  layer 1 is the first that is wrong")
    right, wrong = 2, 1
    assert f"q         {right}      {wrong}" in text


@pytest.mark.parametrize(
    ("suffix", "shift"),
    [
        pytest.param("safetensors", 0, id="right"),
        pytest.param("npz", 3, id="layer 1 three positions too far"),
    ],
)
@pytest.mark.sample(1)
def test_a_saved_run_gives_the_same_answer(tmp_path: Path, suffix: str, shift: int) -> None:
    """A recording may be checked later, on another machine, from a file."""
    model = llama_model()
    model.layers[1].self_attn.shift = shift
    with pecli.record(model) as run:
        model(token_ids(), attention_mask=LEFT_PADDED_MASK)
        model(token_ids(length=1))
    path = tmp_path / f"run.{suffix}"
    run.save(path)
    result: Any = pecli.verify(path, LLAMA, reasons=False)

    assert result.passed == (shift == 0)
    assert result.wrong_layers == run.verify(reasons=False).wrong_layers


def test_a_saved_run_of_learned_rows_is_verified(tmp_path: Path) -> None:
    """The stand-in looks up rows 0, 1, … of its table `wpe`, as GPT-2 does."""
    record_call(LearnedModel(), token_ids()).save(tmp_path / "run.safetensors")
    assert pecli.verify(tmp_path / "run.safetensors", LearnedModel.config)


def test_a_file_that_exists_stays_if_saving_is_refused(tmp_path: Path) -> None:
    """A .npy file holds one array, and a recording has many."""
    path = tmp_path / "run.npy"
    path.write_bytes(b"old")

    with pytest.raises(pecli.ParameterError, match="holds one array"):
        record_call(llama_model(), token_ids()).save(path)
    assert path.read_bytes() == b"old"


def test_a_saved_run_is_verified_only_against_a_model(tmp_path: Path) -> None:
    """A recording is right or wrong only against a configuration, which the file does not hold."""
    record_call(llama_model(), token_ids()).save(tmp_path / "run.npz")
    with pytest.raises(pecli.ParameterError, match="a recorded run is compared with a model"):
        pecli.verify(tmp_path / "run.npz")


def test_an_offset_for_a_saved_run_is_refused(tmp_path: Path) -> None:
    """The positions of each call are recorded, so that an offset for all of them would contradict
    the recording.
    """
    record_call(llama_model(), token_ids()).save(tmp_path / "run.npz")
    with pytest.raises(pecli.ParameterError, match="offset is given; a recorded run states it"):
        pecli.verify(tmp_path / "run.npz", LLAMA, offset=3)


def test_a_run_of_another_kind_of_model_is_refused() -> None:
    """The recorded Llama rotates; the configuration is of a model with a learned table."""
    with pytest.raises(pecli.FileError, match="holds a run without anything of learned"):
        record_call(llama_model(), token_ids()).verify(LearnedModel.config)


def test_a_run_without_calls_is_refused() -> None:
    """The model was not called inside the block: there is nothing to verify or to save."""
    with pecli.record(llama_model()) as run:
        pass
    with pytest.raises(pecli.ParameterError, match="call the model inside the with block"):
        run.verify()
    with pytest.raises(pecli.ParameterError, match="nothing was recorded"):
        run.save("run.npz")


def test_a_run_of_a_model_without_a_configuration_needs_one() -> None:
    """`verify()` without arguments takes the model's own `config`, which only Hugging Face's models
    have.
    """
    with pytest.raises(pecli.ParameterError, match="OwnModel has no configuration of its own"):
        record_call(OwnModel(), tensor(np.ones((1, 3, 64), np.float32))).verify()


@pytest.mark.parametrize("value", [3, "llama-3-8b", MetaTensor()])
def test_only_modules_are_recorded(value: Any) -> None:
    """Neither a number, nor the name of a model, nor a tensor has layers to hook into."""
    with (
        pytest.raises(pecli.KindError, match="it must be a torch module"),
        pecli.record(value),
    ):
        pass


# Damaged files

TENSORS_OF_A_LLAMA_RUN = record_call(llama_model(), token_ids()).tensors()
TENSORS_OF_A_LEARNED_RUN = record_call(LearnedModel(), token_ids()).tensors()


def without(tensors: dict[str, Any], name: str) -> dict[str, Any]:
    assert name in tensors
    return {kept: array for kept, array in tensors.items() if kept != name}


@pytest.mark.parametrize(
    ("tensors", "problem"),
    [
        pytest.param(
            without(TENSORS_OF_A_LLAMA_RUN, "calls.0.layers.1.q_before"),
            r"calls.0.layers.1.q_after is there, and q_before is missing",
            id="queries after the rotation without those before",
        ),
        pytest.param(
            {**TENSORS_OF_A_LLAMA_RUN, "calls.0.layers.1.k_after": np.ones((2, 2, 3, 16))},
            "k_before is",
            id="keys of 12 tokens before and 3 after",
        ),
        pytest.param(
            {**TENSORS_OF_A_LLAMA_RUN, "calls.0.rotary_emb.inv_freq": np.ones(0)},
            "an array of floats",
            id="no frequencies",
        ),
        pytest.param(
            {**TENSORS_OF_A_LLAMA_RUN, "calls.0.rotary_emb.inv_freq": np.float32(1)},
            "an array of floats",
            id="one number as frequencies",
        ),
        pytest.param(
            {**TENSORS_OF_A_LLAMA_RUN, "calls.0.positions": np.arange(12)},
            "positions is",
            id="positions of one axis",
        ),
        pytest.param(
            {**TENSORS_OF_A_LLAMA_RUN, "calls.0.positions": np.full((2, 12), -1)},
            "whole numbers ≥ 0",
            id="negative positions",
        ),
        pytest.param(
            {**TENSORS_OF_A_LLAMA_RUN, "calls.0.positions": np.full((2, 12), 2**41)},
            "whole numbers ≥ 0",
            id="huge positions",
        ),
        pytest.param(
            {**TENSORS_OF_A_LLAMA_RUN, "calls.0.positions": np.full((2, 12), 0.5)},
            "whole numbers ≥ 0",
            id="positions between whole numbers",
        ),
        pytest.param(
            {**TENSORS_OF_A_LLAMA_RUN, "calls.0.position_ids": np.arange(3)},
            "position_ids is",
            id="ids of 3 tokens",
        ),
        pytest.param(
            {**TENSORS_OF_A_LLAMA_RUN, "calls.0.attention_mask": np.ones(3)},
            "attention_mask is",
            id="mask of 3 tokens",
        ),
        pytest.param(
            {**TENSORS_OF_A_LLAMA_RUN, "calls.1.rotary.cos": np.ones((3, 8))},
            "positions is missing",
            id="a call without positions",
        ),
        pytest.param(
            {**TENSORS_OF_A_LLAMA_RUN, "calls.0.rotary_emb.cos": np.ones(8)},
            r"\(…, L, D\)",
            id="a table of one axis",
        ),
        pytest.param(
            without(TENSORS_OF_A_LEARNED_RUN, "wpe.weight"),
            "the table with its weight is missing",
            id="rows without their table",
        ),
        pytest.param(
            {**TENSORS_OF_A_LEARNED_RUN, "wpe.weight": np.ones(8)},
            r"it must be \(rows, D\)",
            id="a learned table of one axis",
        ),
        pytest.param(
            {**TENSORS_OF_A_LEARNED_RUN, "calls.0.wpe.rows": np.ones((2, 12, 3))},
            "wpe.rows is",
            id="rows of 3 channels",
        ),
    ],
)
def test_a_damaged_run_is_refused(tensors: dict[str, Any], problem: str) -> None:
    """A good recording of 2 sequences of 12 tokens, of which one tensor was removed or changed: the
    error names the tensor and what it must be.
    """
    with pytest.raises(pecli.FileError, match=problem):
        pecli.verify(tensors, LLAMA)


def test_positions_up_to_2_to_the_40_are_read() -> None:
    """2^40 is the last position of all tables. The recorded ones began at 0, so the check fails."""
    result = pecli.verify(
        {**TENSORS_OF_A_LLAMA_RUN, "calls.0.positions": np.full((2, 12), 2**40)},
        LLAMA,
        reasons=False,
    )
    assert not result.passed


def test_position_ids_that_the_caller_states_are_recorded() -> None:
    """Two sequences of twelve tokens, whose ids are in no order."""
    ids = [[7, 3, 9] * 4] * 2
    run = record_call(llama_model(), token_ids(), position_ids=tensor(ids))
    assert run.tensors()["calls.0.positions"].tolist() == ids


def test_one_recorded_row_does_not_stand_for_those_of_all_tokens() -> None:
    """12 tokens were recorded; NumPy would broadcast one row to all of them, and hide the missing
    ones.
    """
    rows = TENSORS_OF_A_LEARNED_RUN["calls.0.wpe.rows"]
    assert rows.shape[-2] == 12
    with pytest.raises(pecli.FileError, match=r"positions are not the model's: wpe\.rows"):
        pecli.verify(
            {**TENSORS_OF_A_LEARNED_RUN, "calls.0.wpe.rows": rows[..., :1, :]},
            LearnedModel().config,
        )


def test_recorded_tensors_without_a_role_are_listed_as_unchecked() -> None:
    """A name that pecli does not know, here `thing`, fails no check, and is reported as not
    checked.
    """
    tensors = {**TENSORS_OF_A_LLAMA_RUN, "calls.0.layers.1.thing": np.ones(3, np.float32)}
    result = pecli.verify(tensors, LLAMA)

    assert result.passed
    assert result.unchecked == ("layers.1.thing",)
