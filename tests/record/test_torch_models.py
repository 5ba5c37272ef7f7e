"""pecli.record on live torch models: right ones pass, and mistakes are named with the first wrong
layer.

The models are transformers' own classes of many families with random weights (4 layers), and some
of our own, written as Meta's code and others are; mistakes are planted in them. Skipped without
torch and transformers. Last run with torch 2.13.0 and transformers 5.23.0, on the CPU.
"""

import sys
from pathlib import Path
from typing import Any

import pytest

import pecli

torch: Any = pytest.importorskip(
    "torch", reason="torch is not installed: live models are not recorded"
)
pytest.importorskip("transformers", reason="transformers is not installed")

from tests.exit_codes import CHECK_FAILED, SUCCESS  # noqa: E402
from tests.record import torch_models  # noqa: E402
from tests.record.torch_models import (  # noqa: E402
    ENCODERS,
    FAMILIES,
    attention_of,
    hugging_face_model,
    set_frequencies,
    shift_layer,
    token_ids,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch and transformers

MODELS_WITH_LEARNED_TABLES = ("gpt2", "opt", "bert", "roberta")
"""Families that add learned rows, and rotate nothing."""
WITH_FREQUENCIES = [
    family for family in FAMILIES if family not in (*MODELS_WITH_LEARNED_TABLES, "gptj", "codegen")
]
"""Families whose rotary module holds inverse frequencies; GPT-J has tables in its layers."""
SHARING_TABLES = (
    "llama",
    "qwen3",
    "gemma3_text",
    "gpt_oss",
    "phi3",
    "olmo2",
    "glm4",
    "deepseek_v3",
    "falcon",
    "gpt_neox",
)
LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
INTERLEAVED = {**LLAMA, "model_type": "cohere", "rope_theta": 10000.0}


def left_padded_mask() -> Any:
    """Return the mask of 2 sequences of 12 tokens, of which the second has 4 tokens of padding."""
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, :4] = 0
    return mask


def record_call(model: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a model once with these arguments, and return what was recorded."""
    with torch.no_grad(), pecli.record(model) as run:
        model(*args, **kwargs)
    return run


def diagnosis_of(result: Any) -> str:
    return "\n".join(result.diagnosis)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_right_model_of_transformers_passes(family: str) -> None:
    """A random model of transformers with its own configuration is recorded in a call, and
    verified: every layer and table passes.
    """
    result = record_call(hugging_face_model(family), input_ids=token_ids()).verify()
    assert diagnosis_of(result) == ""
    assert result.unchecked == ()
    assert len(result.tensors) > 0


@pytest.mark.parametrize("family", sorted({*FAMILIES} - {*MODELS_WITH_LEARNED_TABLES}))
def test_every_rotating_layer_is_recorded(family: str) -> None:
    """Models have 4 layers, each of which records its rotated queries; SmolLM3 and Llama 4 leave
    one of them unrotated.
    """
    model = hugging_face_model(family)
    (call,) = record_call(model, input_ids=token_ids()).calls
    rotated = [name for name in call.tensors if name.endswith("q_after")]
    unrotated = {"smollm3": 1, "llama4_text": 1}

    assert len(rotated) == 4 - unrotated.get(family, 0)


@pytest.mark.parametrize("family", sorted({*FAMILIES} - {*ENCODERS}))
def test_generation_of_a_padded_batch_passes(family: str) -> None:
    """A random model of transformers generates four tokens. The second of two sequences has 4
    tokens of padding; the prompt, and each new token except the last, are a call.
    """
    model = hugging_face_model(family)
    with pecli.record(model) as run:
        model.generate(
            input_ids=token_ids(),
            attention_mask=left_padded_mask(),
            max_new_tokens=4,
            do_sample=False,
        )
    result = run.verify()

    assert diagnosis_of(result) == ""
    assert result.unchecked == ()
    assert len(run.calls) == 4


@pytest.mark.parametrize("family", ["llama", "gptj", "gpt_neox", "glm4"])
def test_a_prompt_of_as_many_tokens_as_heads_passes(family: str) -> None:
    """A random model of transformers has 4 heads and the prompt 4 tokens, so that the shape of
    queries does not show which axis is which.
    """
    assert record_call(hugging_face_model(family), input_ids=token_ids(length=4)).verify()


# Mistakes


def rounded(values: Any) -> Any:
    return values.to(torch.bfloat16).float()


def zeroed(values: Any) -> Any:
    return torch.zeros_like(values)


def uninitialised(values: Any) -> Any:
    left = torch.full_like(values, 3.2e-41)
    left[::3] = 1.7e30
    return left


@pytest.mark.parametrize("family", WITH_FREQUENCIES)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(rounded, "bfloat16-inv-freq", id="rounded"),
        pytest.param(zeroed, "inv_freq was never initialised: it holds 0, 0", id="zeroed"),
        pytest.param(
            uninitialised,
            "inv_freq was never initialised: it holds 1.7e30, 3.2e-41",
            id="uninitialised",
        ),
    ],
)
def test_wrong_frequencies_in_a_model_of_transformers_are_named(
    family: str, change: Any, reason: str
) -> None:
    """A random model of transformers: its buffer of inverse frequencies is rounded to bfloat16, set
    to zeros, or holds 1.7e30 and 3.2e-41, as memory that was never written may.
    """
    model = hugging_face_model(family)
    set_frequencies(model, change)
    result = record_call(model, input_ids=token_ids()).verify()

    assert not result
    assert ".0" in result.first_place
    assert reason in diagnosis_of(result)


@pytest.mark.parametrize("family", SHARING_TABLES)
def test_a_shifted_layer_of_a_model_of_transformers_is_named(family: str) -> None:
    """A random model of transformers, of which layer 2 of 4 rotates by the tables of the next
    position.
    """
    model = hugging_face_model(family)
    shift_layer(model, layer=2)
    result = record_call(model, input_ids=token_ids()).verify()

    assert result.wrong_layers == (2,)
    assert "layer 2 is the first that is wrong" in result.diagnosis[0]
    assert "positions start at 1" in diagnosis_of(result)


@pytest.mark.parametrize("family", ["llama", "qwen3", "phi3", "olmo2", "gpt_neox", "falcon"])
def test_a_wrong_layout_in_a_model_of_transformers_is_named(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function of the family is replaced by one that rotates channels (0, 1), (2, 3), … instead
    of halves.
    """
    model = hugging_face_model(family)

    def turned(x: Any, cos: Any, sin: Any) -> Any:
        half = cos.shape[-1] // 2
        cos = cos[..., :half].unsqueeze(1)
        sin = sin[..., :half].unsqueeze(1)
        rotary = x[..., : 2 * half]
        first = rotary[..., 0::2] * cos - rotary[..., 1::2] * sin
        second = rotary[..., 1::2] * cos + rotary[..., 0::2] * sin
        both = torch.stack((first, second), dim=-1).flatten(-2)
        return torch.cat((both, x[..., 2 * half :]), dim=-1)

    def apply_rotary_pos_emb(q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1) -> Any:
        return turned(q, cos, sin), turned(k, cos, sin)

    namespace = sys.modules[type(model).__module__]
    monkeypatch.setattr(namespace, "apply_rotary_pos_emb", apply_rotary_pos_emb)
    result = record_call(model, input_ids=token_ids()).verify()

    assert ".0" in result.first_place
    assert "layout is interleaved (the spec says halves)" in diagnosis_of(result)


def test_a_wrong_theta_of_one_layer_type_is_named() -> None:
    """Full attention of Gemma 3, which only layer 2 of the small model has, should have base
    1000000; its frequencies are set to those of base 500000.
    """
    model = hugging_face_model("gemma3_text")
    set_frequencies(model, lambda _: torch_models.frequencies(500000.0), "full_attention_inv_freq")
    result = record_call(model, input_ids=token_ids()).verify()

    assert result.wrong_layers == (2,)
    assert "base is 500000 (the spec says 1000000)" in diagnosis_of(result)


def test_a_wrong_table_of_one_layer_of_gpt_j_is_named() -> None:
    """GPT-J keeps a table of positions in every layer; that of layer 1 is rolled by one row, so
    that position 0 gets the row of position 1.
    """
    model = hugging_face_model("gptj")
    attention = model.transformer.h[1].attn
    attention.embed_positions = attention.embed_positions.roll(-1, dims=0)
    result = record_call(model, input_ids=token_ids()).verify()

    assert result.wrong_layers == (1,)
    assert "positions start at 1" in diagnosis_of(result)


@pytest.mark.parametrize(
    "family", ["llama", "qwen3", "gemma3_text", "gptj", "qwen2_vl", "gpt2", "bert"]
)
def test_left_padding_that_a_model_of_transformers_ignores_is_named(family: str) -> None:
    """Without position ids, these families of transformers count padding as tokens: recorded with a
    mask that has padding on the left, the call fails for that reason.
    """
    model = hugging_face_model(family)
    run = record_call(model, input_ids=token_ids(), attention_mask=left_padded_mask())
    result = run.verify()

    assert not result
    assert "sequence 1" in diagnosis_of(result)

    # In these three, positions are those of table rows that were looked up, and not of ids.
    if family not in ("gpt2", "bert", "gptj"):
        ids = "4, 5, 6, 7, 8, 9, 10, 11, not 0, 1, 2, 3, 4, 5, 6, 7"
        assert f"position ids of sequence 1 are {ids}" in diagnosis_of(result)


def test_right_ids_for_left_padding_pass() -> None:
    """The caller gives position 0 to the padding, and numbers the tokens after it from 0."""
    mask = left_padded_mask()
    ids = (mask.cumsum(-1) - 1).clamp(min=0)
    model = hugging_face_model("llama")

    assert record_call(model, token_ids(), attention_mask=mask, position_ids=ids).verify()


def test_a_layer_that_does_not_rotate_is_named() -> None:
    """SmolLM3 rotates in layer 1; the flag of the module is switched off."""
    model = hugging_face_model("smollm3")
    attention_of(model, 1).use_rope = False
    result = record_call(model, input_ids=token_ids()).verify()

    assert "layer 1 is the first that does not rotate" in diagnosis_of(result)


def test_a_layer_of_smollm3_that_rotates_though_it_should_not_is_named() -> None:
    """SmolLM3 does not rotate in layer 3; the flag of the module is switched on."""
    model = hugging_face_model("smollm3")
    attention_of(model, 3).use_rope = True
    result = record_call(model, input_ids=token_ids()).verify()

    assert "layer 3 is the first that rotates though it should not" in diagnosis_of(result)


# Ways to run


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_models_in_half_precision_are_verified(dtype: Any) -> None:
    """Weights in 16 bits; frequencies stay in float32, as from_pretrained leaves them."""
    model = hugging_face_model("llama", dtype=dtype)
    run = record_call(model, input_ids=token_ids())

    assert str(run.calls[0].tensors["model.layers.0.q_after"].dtype) in str(dtype)
    assert run.verify()


def test_a_cast_that_rounds_frequencies_is_named() -> None:
    """`model.to(torch.bfloat16)` casts the buffer inv_freq as well; the diagnosis names the recipe
    that does so.
    """
    result = record_call(
        hugging_face_model("llama").to(torch.bfloat16), input_ids=token_ids()
    ).verify()
    assert "bfloat16-inv-freq" in diagnosis_of(result)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_models_under_autocast_are_verified(dtype: Any) -> None:
    """autocast computes products in 16 bits; transformers excludes the rotary module from it."""
    model = hugging_face_model("llama")
    with torch.autocast("cpu", dtype), pecli.record(model) as run:
        model(input_ids=token_ids())

    assert run.verify()


@pytest.mark.parametrize("context", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_models_are_verified_in_every_gradient_mode(context: Any) -> None:
    """Tensors that need a gradient, or that inference mode froze, are recorded as well."""
    model = hugging_face_model("qwen3")
    with context(), pecli.record(model) as run:
        model(input_ids=token_ids())

    assert run.verify()


@pytest.mark.parametrize("frequency", [1.0, 0.5], ids=["right", "wrong"])
def test_compiled_models_are_recorded_as_they_were_written(frequency: float) -> None:
    """Compiled kernels call no Python functions that could be recorded; inside the block, the model
    runs as it was written. With all frequencies halved it fails.
    """
    model = hugging_face_model("llama")
    set_frequencies(model, lambda values: values * frequency)
    compiled = torch.compile(model, backend="eager")
    with pecli.record(compiled) as run:
        compiled(token_ids())
    result = run.verify()

    assert result.passed == (frequency == 1.0), result
    if not result.passed:
        assert "layer 0 is the first that is wrong (model.layers.0: q, k)" in str(result)


def test_recording_does_not_change_the_gradients_of_training() -> None:
    """The gradient of a projection is the same with and without a recording."""
    model = hugging_face_model("llama")
    model(input_ids=token_ids()).logits.sum().backward()
    expected = model.model.layers[0].self_attn.q_proj.weight.grad.clone()
    model.zero_grad()
    with pecli.record(model) as run:
        model(input_ids=token_ids()).logits.sum().backward()

    assert torch.equal(model.model.layers[0].self_attn.q_proj.weight.grad, expected)
    assert run.verify()


@pytest.mark.parametrize("fails", [False, True])
def test_hooks_and_functions_are_restored_after_a_recording(fails: bool) -> None:
    """A recording replaces functions of the model's module and adds hooks. Afterwards all must be
    as before, also if the model raises an error: the token id 999,999 has no embedding.
    """
    model = hugging_face_model("llama")
    namespace = vars(sys.modules[type(model).__module__])
    before = dict(namespace)
    ids = torch.full((1, 3), 999_999) if fails else token_ids()
    error: Exception | None = None
    try:
        record_call(model, input_ids=ids)
    except IndexError as problem:
        error = problem

    assert (error is not None) == fails
    assert namespace.keys() == before.keys()
    assert all(namespace[name] is value for name, value in before.items())
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


def test_a_saved_run_is_checked_by_the_command(tmp_path: Path) -> None:
    """The run of a right Gemma 3 passes, and that of one whose layer 1 is shifted by one position
    fails.
    """
    from pecli.cli.app import run as command

    model = hugging_face_model("gemma3_text")
    config = str(tmp_path / "config.json")
    model.config.to_json_file(config)
    right = str(tmp_path / "right.safetensors")
    record_call(model, input_ids=token_ids()).save(right)

    assert command(["verify", right, "--model", config, "-q"]) == SUCCESS

    shift_layer(model, layer=1)
    wrong = str(tmp_path / "wrong.safetensors")
    record_call(model, input_ids=token_ids()).save(wrong)

    assert command(["verify", wrong, "--model", config, "-q"]) == CHECK_FAILED


def test_a_saved_half_precision_run_is_verified(tmp_path: Path) -> None:
    """Queries and keys are in bfloat16, which the file keeps."""
    record_call(hugging_face_model("llama", dtype=torch.bfloat16), token_ids()).save(
        tmp_path / "run.safetensors"
    )
    config = hugging_face_model("llama").config

    assert pecli.verify(tmp_path / "run.safetensors", config)


IMAGE_TOKEN, IMAGE_START, IMAGE_END = 100, 102, 103


@pytest.fixture(scope="module")
def result_with_an_image() -> Any:
    """Return the verification of a right, random Qwen2-VL that gets an image between two texts.

    The image has 4 × 4 patches of 3 colours × 2 frames × 14 × 14 pixels. The vision tower merges
    2 × 2 patches into a token, so that the image is 4 tokens of the prompt.
    """
    text_before = [5, 6, IMAGE_START]
    text_after = [IMAGE_END, 7, 8, 9]
    ids = torch.tensor([text_before + [IMAGE_TOKEN] * 4 + text_after])
    run = record_call(
        hugging_face_model("qwen2_vl"),
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        pixel_values=torch.randn(4 * 4, 3 * 2 * 14 * 14),
        image_grid_thw=torch.tensor([[1, 4, 4]]),  # frames, rows and columns of patches
        mm_token_type_ids=(ids == IMAGE_TOKEN).int(),
    )
    return run.verify()


def test_a_right_model_with_an_image_passes(result_with_an_image: Any) -> None:
    """The language model and the frequencies of the vision tower are those of the configuration."""
    assert diagnosis_of(result_with_an_image) == ""


def test_tensors_of_a_vision_tower_that_no_encoding_fits_are_listed_as_unchecked(
    result_with_an_image: Any,
) -> None:
    """Of the tower («visual») only the frequencies are checked: its shapes or positions, those of
    patches in an image, are not the language model's.
    """
    assert any("visual" in name for name in result_with_an_image.unchecked)


def test_position_ids_of_an_image_are_taken_as_recorded(result_with_an_image: Any) -> None:
    """They depend on the image, not on the configuration: the pass has a remark on that in `weak`."""
    assert any("images were taken as recorded" in line for line in result_with_an_image.weak)


# Models of our own


@pytest.mark.parametrize("start", [0, 9])
def test_complex_tables_of_metas_models_are_verified(start: int) -> None:
    """Meta's code multiplies pairs by exp(i · position · frequency) with base 10000, from
    `start_pos` on.
    """
    run = record_call(torch_models.MetaModel(), token_ids(), start_pos=start)
    assert run.verify(INTERLEAVED)

    result = run.verify({**INTERLEAVED, "rope_theta": 500000.0})
    assert result.first_place == "layers.0"
    assert "base is 10000 (the spec says 500000)" in diagnosis_of(result)


def test_complex_tables_in_another_layout_are_named() -> None:
    """Meta's code rotates interleaved pairs, and the Llama of transformers halves."""
    result = record_call(torch_models.MetaModel(), token_ids()).verify(LLAMA)
    assert "layout is interleaved (the spec says halves)" in diagnosis_of(result)


def test_rotary_modules_of_each_layer_are_verified() -> None:
    """A model of our own with a rotary module in each of its layers passes; with doubled
    frequencies in layer 1, that layer is named.
    """
    model = torch_models.HalvesModel()
    assert record_call(model, token_ids(), left_padded_mask()).verify(LLAMA)

    model.stack[1].turn.inv_freq *= 2
    result = record_call(model, token_ids(), left_padded_mask()).verify(LLAMA)
    assert result.wrong_layers == (1,)


def test_a_rotation_in_place_with_a_cache_of_its_own_is_verified() -> None:
    """Prompts of 12, 1 and 3 tokens go on from each other, from positions 0, 12 and 13. The model
    has base 10000, and fails against a configuration with 20000.
    """
    model = torch_models.InPlaceModel()
    with torch.no_grad(), pecli.record(model) as run:
        model(token_ids())
        model(token_ids(length=1))
        model(token_ids(length=3))

    assert [int(call.positions.min()) for call in run.calls] == [0, 12, 13]
    assert run.verify(LLAMA)
    assert not run.verify({**LLAMA, "rope_theta": 20000.0})


def test_tables_that_are_attributes_of_a_module_are_verified() -> None:
    """Meta's model keeps freqs_cis as an attribute, which is no buffer; with base 500000 it fails."""
    assert pecli.verify(torch_models.MetaModel(), INTERLEAVED, atol=1e-5)
    assert not pecli.verify(torch_models.MetaModel(500000.0), INTERLEAVED, atol=1e-5, reasons=False)


def test_a_meta_tensor_is_refused_by_its_name() -> None:
    """A model on torch's device «meta» has tensors without values."""
    with torch.device("meta"):
        model = torch_models.MetaModel()
    with pytest.raises(pecli.KindError, match="freqs_cis is a meta tensor"):
        pecli.verify(model, INTERLEAVED)


# Implementations of our own


def qwen3_rotation(q: Any, k: Any, positions: Any, base: float = 1000000.0) -> tuple[Any, Any]:
    angles = positions[:, None, :, None].float() / base ** (torch.arange(0, 128, 2).float() / 128)
    cos = torch.cat((angles, angles), dim=-1).cos().to(q.dtype)
    sin = torch.cat((angles, angles), dim=-1).sin().to(q.dtype)

    def half(x: Any) -> Any:
        return torch.cat((-x[..., 64:], x[..., :64]), dim=-1)

    return q * cos + half(q) * sin, k * cos + half(k) * sin


def test_a_right_implementation_in_torch_passes() -> None:
    """`qwen3_rotation` is Qwen3's rotation in torch: halves of 128 channels, base 1e6. The last
    case in which `pecli.check` calls it is in bfloat16.
    """
    result = pecli.check(qwen3_rotation, "qwen3-8b")
    assert result.diagnosis == ()
    assert [case.name for case in result.cases][-1] == "bfloat16"


def test_an_implementation_that_ignores_positions_is_named() -> None:
    """The implementation counts positions from 0, whatever positions it is given."""

    def counted(q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
        return qwen3_rotation(q, k, torch.arange(q.shape[2])[None])

    assert "left padding is ignored" in pecli.check(counted, "qwen3-8b").diagnosis[0]


def test_the_rotary_module_of_transformers_passes_as_an_implementation() -> None:
    """The rotary module of transformers' Llama returns cosines and sines at the positions that it
    is given, as an implementation that `pecli.check` takes may.
    """
    config = hugging_face_model("llama").config

    def tables(positions: Any) -> Any:
        return hugging_face_model("llama").model.rotary_emb(torch.zeros(1), positions)

    assert pecli.check(tables, config)
