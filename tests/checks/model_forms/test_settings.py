"""The settings of a model in two formats: head counts, layers, bases, scalings, by the frequencies
that they mean.

A defines what is right, B is checked. Both are small Llamas (4 heads of 16 channels, base 10000)
whose settings are given here; findings are written by hand.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.checks.model_forms.findings import (
    AttentionFactorChanged,
    FrequenciesDiffer,
    MissingKey,
    NoRotaryEncoding,
    ScalingLost,
    SectionsChanged,
    SettingsProblem,
    ValueChanged,
)
from pecli.checks.model_forms.model_files import NO_COUNTS, Counts, ModelFiles, ModelFormat
from pecli.checks.model_forms.settings import compare_settings
from pecli.checks.model_forms.stored import StoredTensor
from pecli.errors import FileError
from pecli.models.keys import origin_at
from pecli.tensors.head_layout import HeadDivision
from tests.checks.model_forms.model_files import write_gguf

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "rope_theta": 10000.0,
    "max_position_embeddings": 4096,
}
BERT = {"model_type": "bert", "hidden_size": 64, "num_attention_heads": 4}
SLIDING_AND_FULL: dict[str, Any] = {
    **LLAMA,
    "model_type": "gemma3_text",
    "head_dim": 16,
    "layer_types": ["sliding_attention", "full_attention"],
    "rope_local_base_freq": 100.0,
}
GGUF = ModelFormat.GGUF
ALL_PAIRS = tuple(range(8))
"""The rotary pairs of a head of 16 channels."""
LATENT_KEYS = {"blk.0.attn_k_b.weight": StoredTensor.of(np.zeros((2, 2)))}


def model(config: dict[str, Any], kind: ModelFormat = GGUF, **fields: Any) -> ModelFiles:
    return ModelFiles("B", kind, "llama", pecli.load_config(config), "halves", **fields)


def reference(config: dict[str, Any], **fields: Any) -> ModelFiles:
    encodings = pecli.load_config(config)
    return ModelFiles("A", ModelFormat.HUGGING_FACE, "llama", encodings, "halves", **fields)


def changes(
    config: dict[str, Any], checked: dict[str, Any], kind: ModelFormat = GGUF
) -> list[SettingsProblem]:
    """Return what differs between a model with one configuration and with another."""
    return [*compare_settings(reference(config), model(checked, kind))]


def scaled(kind: str, **numbers: Any) -> dict[str, Any]:
    return {**LLAMA, "rope_scaling": {"rope_type": kind, **numbers}}


@pytest.mark.parametrize("config", [LLAMA, BERT, SLIDING_AND_FULL], ids=["llama", "bert", "gemma3"])
def test_a_model_has_the_settings_of_itself(config: dict[str, Any]) -> None:
    """A model is compared with itself, by rotary settings, without any (BERT), or by two layer
    types.
    """
    assert changes(config, config) == []


def test_the_model_without_a_rotary_encoding_is_named() -> None:
    """BERT has learned positions and no rotary encoding. The finding names the model without one: B
    if it is checked, A if it is the reference.
    """
    assert changes(LLAMA, BERT) == [NoRotaryEncoding("B")]
    assert changes(BERT, LLAMA) == [NoRotaryEncoding("A")]


def test_other_numbers_of_heads_are_named_with_their_keys() -> None:
    """2 key heads of A became 4 in B, and 8 query heads 16."""
    problems = compare_settings(
        reference(LLAMA, heads=HeadDivision(8, 2)), model(LLAMA, heads=HeadDivision(16, 4))
    )
    assert [*problems] == [
        ValueChanged(
            "heads", expected=8, value=16, key="attention.head_count", is_key_missing=False
        ),
        ValueChanged(
            "kv heads", expected=2, value=4, key="attention.head_count_kv", is_key_missing=False
        ),
    ]


@pytest.mark.parametrize(
    "heads", [HeadDivision(8, 2), None], ids=["one states them", "none states them"]
)
def test_heads_that_one_model_does_not_state_are_not_compared(heads: HeadDivision | None) -> None:
    """Either A or B has 8 query heads and 2 key heads, and the other model states no heads; or none
    of the two does. There is no problem.
    """
    assert [*compare_settings(reference(LLAMA, heads=heads), model(LLAMA))] == []
    assert [*compare_settings(reference(LLAMA), model(LLAMA, heads=heads))] == []


@pytest.mark.parametrize("side", ["A", "B"])
def test_heads_are_not_compared_if_either_model_has_latent_keys(side: str) -> None:
    """GGUF states 1 kv head for the latent vector of DeepSeek, which has 4 key heads."""
    a = reference(LLAMA, heads=HeadDivision(4, 4), tensors=LATENT_KEYS if side == "A" else {})
    b = model(LLAMA, heads=HeadDivision(4, 1), tensors=LATENT_KEYS if side == "B" else {})
    assert [*compare_settings(a, b)] == []


COUNTS_OF_A = Counts(context=4096, layers=2, heads=4)


def problems_of_counts(**changes: object) -> list[SettingsProblem]:
    """Compare A with a GGUF file that states the counts of A with some changes."""
    a = reference(LLAMA, counts=COUNTS_OF_A)
    b = model(LLAMA, counts=COUNTS_OF_A._replace(**changes))
    return [*compare_settings(a, b)]


@pytest.mark.parametrize(
    ("count", "key"),
    [
        ("context", "context_length"),
        ("layers", "block_count"),
        ("heads", "attention.head_count"),
    ],
)
def test_a_count_that_a_gguf_file_lacks_is_named_by_its_key(count: str, key: str) -> None:
    """The keys are those of the GGUF specification."""
    assert problems_of_counts(**{count: None}) == [MissingKey(key)]


def test_another_number_of_layers_is_named() -> None:
    """A has 2 layers, and the GGUF file states 3."""
    changed = ValueChanged("layers", expected=2, value=3, key="block_count", is_key_missing=False)
    assert problems_of_counts(layers=3) == [changed]


def test_a_number_of_layers_that_is_a_text_is_not_compared() -> None:
    """A has 2 layers. The .gguf file states the text "5", which is not a number that could differ."""
    assert problems_of_counts(layers="5") == []


def test_another_context_is_no_problem() -> None:
    """Two files of the same model may state different contexts: here 4096 and 8192."""
    assert problems_of_counts(context=8192) == []


def test_the_count_of_heads_is_not_compared() -> None:
    """Numbers of heads are compared by HeadDivision instead, which also has the key heads."""
    assert problems_of_counts(heads=8) == []


def test_counts_are_not_required_of_formats_that_have_no_key_for_them() -> None:
    """A states a context of 4096, 2 layers and 4 heads. B is in Meta's format, whose params.json
    has no keys for them: a missing count is no problem, as it would be in a .gguf file.
    """
    a = reference(LLAMA, counts=Counts(4096, 2, 4))
    meta = model(LLAMA, ModelFormat.META, counts=NO_COUNTS)
    assert [*compare_settings(a, meta)] == []


def test_counts_that_the_reference_does_not_state_are_not_missing() -> None:
    """Neither A nor the .gguf file B states a context, layers or heads: B lacks nothing that A has."""
    b = model(LLAMA, counts=NO_COUNTS)
    assert [*compare_settings(reference(LLAMA, counts=NO_COUNTS), b)] == []


@pytest.mark.parametrize(
    ("base", "is_changed"), [(10000.05, False), (10000.2, True), (9999.8, True), (500.0, True)]
)
def test_bases_are_equal_within_a_hundred_thousandth(base: float, is_changed: bool) -> None:
    """GGUF keeps them in float32: 10000.05 is off by 5e-6, 10000.2 by 2e-5."""
    key = {"gguf": "rope.freq_base", "meta": "rope_theta"}
    checked = {**LLAMA, "rope_theta": base}
    expected = [
        ValueChanged("base", expected=10000, value=base, key=key["gguf"], is_key_missing=False)
    ]
    assert changes(LLAMA, checked) == (expected if is_changed else [])

    in_meta = [
        ValueChanged("base", expected=10000, value=base, key=key["meta"], is_key_missing=False)
    ]
    assert changes(LLAMA, checked, ModelFormat.META) == (in_meta if is_changed else [])


def test_a_base_that_is_not_stated_is_a_default() -> None:
    """A Llama without `rope_theta` has base 10000."""
    unstated = {key: value for key, value in LLAMA.items() if key != "rope_theta"}
    (change,) = changes({**LLAMA, "rope_theta": 500000.0}, unstated)
    assert change == ValueChanged(
        "base", expected=500000, value=10000, key="rope.freq_base", is_key_missing=True
    )


def test_a_changed_layer_type_is_compared_with_the_layers_of_its_name() -> None:
    """The sliding layers of B have base 200 instead of 100; the full layers agree."""
    (change,) = changes(SLIDING_AND_FULL, {**SLIDING_AND_FULL, "rope_local_base_freq": 200.0})
    expected = ValueChanged(
        "base",
        expected=100,
        value=200,
        key="rope.freq_base",
        is_key_missing=False,
        layer_type="sliding_attention",
    )
    assert change == expected


def test_layers_without_a_counterpart_are_compared_with_the_first_encoding() -> None:
    """All layers of B have base 10000, and the sliding layers of A have 100."""
    (change,) = changes(SLIDING_AND_FULL, {**LLAMA, "head_dim": 16})
    assert isinstance(change, ValueChanged)
    assert change.layer_type == "sliding_attention"
    assert change.expected == 100
    assert change.value == 10000


HALF_ROTATES = {**LLAMA, "model_type": "phi", "partial_rotary_factor": 0.5}
"""A Phi, which may rotate a part of each head: here 8 of 16 channels."""


def test_a_gguf_file_that_lacks_the_key_for_the_rotary_dimension_has_its_default() -> None:
    """A rotates 8 of 16 channels. The .gguf file B states no rotary dimension, so that all 16 rotate:
    the change is named with the key that is missing.
    """
    (change,) = changes(HALF_ROTATES, LLAMA, ModelFormat.GGUF)
    assert change == ValueChanged(
        "rotary dimension", expected=8, value=16, key="rope.dimension_count", is_key_missing=True
    )


def test_another_base_is_not_named_beside_another_rotary_dimension() -> None:
    """A rotates 8 of 16 channels with base 10000, and B all 16 with base 500. The dimension is in the
    exponent of every frequency, so that it is mended first: other changes of frequencies are left
    out.
    """
    (change,) = changes(HALF_ROTATES, {**LLAMA, "rope_theta": 500.0}, ModelFormat.GGUF)

    assert isinstance(change, ValueChanged)
    assert change.name == "rotary dimension"
    assert change.expected == 8
    assert change.value == 16


def test_formats_without_a_key_for_the_rotary_dimension_are_not_said_to_lack_it() -> None:
    """A rotates 8 of 16 channels, and B all of them. B is in Meta's format, whose params.json has no
    key for that, so that none is missing; «its key» stands in place of a name.
    """
    (change,) = changes(HALF_ROTATES, LLAMA, ModelFormat.META)
    assert change == ValueChanged(
        "rotary dimension", expected=8, value=16, key="its key", is_key_missing=False
    )


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (GGUF, "rope.scaling.type"),
        (ModelFormat.META, "rope_scaling"),
        (ModelFormat.HUGGING_FACE, "rope_scaling"),
    ],
)
def test_a_scaling_that_is_lost_is_named_with_the_key_of_its_format(
    kind: ModelFormat, key: str
) -> None:
    """A is scaled linearly by 2, and B is not; the key states the scaling in files of the format of B."""
    assert changes(scaled("linear", factor=2.0), LLAMA, kind) == [ScalingLost("linear", key)]


@pytest.mark.parametrize(
    ("kind", "key"), [(GGUF, "rope_freqs.weight"), (ModelFormat.META, "use_scaled_rope")]
)
def test_factors_of_llama_3_are_lost_with_a_tensor_or_a_key_of_their_own(
    kind: ModelFormat, key: str
) -> None:
    """GGUF keeps the factors of a Llama 3 scaling in a tensor, and Meta's params.json has a key for it.
    A has this scaling, and B none.
    """
    numbers = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    llama3 = scaled("llama3", original_max_position_embeddings=1024, **numbers)
    assert changes(llama3, LLAMA, kind) == [ScalingLost("llama3", key)]


def test_a_lost_scaling_is_named_beside_another_base() -> None:
    """A has base 10000 and linear scaling by 2; B has base 500 and no scaling."""
    problems = changes(scaled("linear", factor=2.0), {**LLAMA, "rope_theta": 500.0})
    assert problems == [
        ValueChanged("base", expected=10000, value=500, key="rope.freq_base", is_key_missing=False),
        ScalingLost("linear", "rope.scaling.type"),
    ]


def test_another_factor_of_a_linear_scaling_changes_all_frequencies() -> None:
    """Linear scaling divides all frequencies by the factor: by 2 in A, and by 4 in B."""
    problems = changes(scaled("linear", factor=2.0), scaled("linear", factor=4.0))
    assert problems == [FrequenciesDiffer(ALL_PAIRS)]


def test_a_scaling_that_the_reference_does_not_have_changes_frequencies() -> None:
    """A is not scaled; B is scaled linearly by 4, which divides all frequencies."""
    assert changes(LLAMA, scaled("linear", factor=4.0)) == [FrequenciesDiffer(ALL_PAIRS)]


def test_frequencies_that_differ_with_another_base_are_not_named_as_well() -> None:
    """B has base 500 instead of 10000, and linear scaling by 4: the base alone is named."""
    problems = changes(LLAMA, {**scaled("linear", factor=4.0), "rope_theta": 500.0})
    assert problems == [
        ValueChanged("base", expected=10000, value=500, key="rope.freq_base", is_key_missing=False)
    ]


def test_dynamic_scalings_are_compared_at_the_longer_context() -> None:
    """Dynamic scaling changes nothing up to `max_position_embeddings`, which is 4096 in one model
    and 8192 in the other, and nothing ever in pair 0, whose frequency is 1 for any base.
    """
    a = scaled("dynamic", factor=2.0)
    b = {**a, "max_position_embeddings": 8192}
    assert changes(a, b) == [FrequenciesDiffer(ALL_PAIRS[1:], 8192)]
    assert changes(b, a) == [FrequenciesDiffer(ALL_PAIRS[1:], 8192)]
    assert changes(a, scaled("dynamic", factor=8.0)) == []


@pytest.mark.parametrize(("factor", "is_changed"), [(1.25, True), (1.0, False)])
def test_another_attention_factor_is_named(factor: float, is_changed: bool) -> None:
    """YaRN by 4 states its factor of cosines and sines; 1.0 is that of A."""
    yarn = {"factor": 4.0, "original_max_position_embeddings": 1024}
    a = scaled("yarn", attention_factor=1.0, **yarn)
    b = scaled("yarn", attention_factor=factor, **yarn)
    expected = [AttentionFactorChanged(expected=1.0, factor=1.25)] if is_changed else []
    assert changes(a, b) == expected


def test_a_gguf_file_need_not_state_that_yarn_does_not_truncate() -> None:
    """gpt-oss has `truncate: false`, for which GGUF has no key. Other formats state it."""
    yarn = {"factor": 4.0, "original_max_position_embeddings": 64, "rope_theta": 150000.0}
    a = scaled("yarn", truncate=False, **yarn)
    b = scaled("yarn", **yarn)
    assert changes(a, b) == []
    assert any(isinstance(each, FrequenciesDiffer) for each in changes(a, b, ModelFormat.META))


def test_other_sections_of_m_rope_are_named() -> None:
    """Sections are the numbers of pairs that turn by time, row and column: 2, 3, 3 in A, and 4, 2, 2
    in B.
    """

    def with_sections(*sections: int) -> dict[str, Any]:
        scaling = {"rope_type": "default", "mrope_section": list(sections)}
        return {**LLAMA, "model_type": "qwen2_vl", "rope_scaling": scaling}

    problems = changes(with_sections(2, 3, 3), with_sections(4, 2, 2))
    assert problems == [SectionsChanged(expected=(2, 3, 3), sections=(4, 2, 2))]


def gguf_with_stated_rotary_dimension(key: str) -> ModelFiles:
    """Return a .gguf file that states by a key that all 16 channels of a head rotate."""
    encodings = pecli.load_config(LLAMA)
    origins = {"dim": origin_at(key)}
    stated = replace(encodings, encodings=(replace(encodings.one(), origins=origins),))
    return ModelFiles("B", GGUF, "phi", stated, "halves")


def test_a_rotary_dimension_that_a_file_states_is_not_a_default() -> None:
    """A rotates 8 of 16 channels of a head. B states 16, so that no key is missing. The finding names
    the key without the architecture before it, «phi».
    """
    checked = gguf_with_stated_rotary_dimension(key="phi.rope.dimension_count")
    (change,) = compare_settings(reference(HALF_ROTATES), checked)

    assert change == ValueChanged(
        "rotary dimension", expected=8, value=16, key="rope.dimension_count", is_key_missing=False
    )


@pytest.fixture
def gguf_without_factors(tmp_path: Path) -> Path:
    """A .gguf file with two norms, and no tensor that a rotation is made of."""
    norms = {f"blk.{layer}.attn_norm.weight": np.ones(5, np.float32) for layer in range(2)}
    path = tmp_path / "m.gguf"
    write_gguf(path, "llama", norms, {"context_length": 4096}, "F32")
    return path


def test_a_gguf_file_without_factors_has_lost_the_scaling_of_its_model(
    gguf_without_factors: Path,
) -> None:
    """Llama 3.1's scaling is in rope_freqs.weight: the header has no key for it."""
    found = pecli.verify(gguf_without_factors, "llama-3.1-8b")
    assert found.diagnosis == ("rope_freqs.weight is missing: the llama3 scaling is lost",)


def test_a_gguf_file_without_factors_has_nothing_to_compare_if_its_model_has_none(
    gguf_without_factors: Path,
) -> None:
    """Llama 2 has no scaling, so that nothing was lost."""
    with pytest.raises(FileError, match="has no positional tables of rope"):
        pecli.verify(gguf_without_factors, "llama-2-7b")
