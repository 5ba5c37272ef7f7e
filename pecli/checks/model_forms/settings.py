"""Comparing the settings of a model in two formats: counts, and encodings by the frequencies that they mean."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from pecli.checks.model_forms.findings import (
    AttentionFactorChanged,
    EncodingChange,
    FrequenciesDiffer,
    MissingKey,
    NoRotaryEncoding,
    ScalingLost,
    SectionsChanged,
    SettingsProblem,
    ValueChanged,
)
from pecli.checks.model_forms.matching import has_latent_keys
from pecli.checks.model_forms.model_files import ModelFiles, ModelFormat
from pecli.models.dialects.gguf import ROPE_FREQS_TENSOR
from pecli.models.encoding import Encoding

SAME_FREQUENCY = 1e-5  #: relative; GGUF keeps bases and factors in float32
ROTARY_DIM = "rotary dimension"
KEYS = {
    ModelFormat.GGUF: {
        "base": "rope.freq_base",
        ROTARY_DIM: "rope.dimension_count",
        "llama3": "rope_freqs.weight",
        "longrope": "rope_factors_long.weight",
        "kv heads": "attention.head_count_kv",
        "layers": "block_count",
        "context": "context_length",
        "heads": "attention.head_count",
    },
    ModelFormat.META: {"base": "rope_theta", "llama3": "use_scaled_rope", "kv heads": "n_kv_heads"},
    ModelFormat.HUGGING_FACE: {"base": "rope_theta", "kv heads": "num_key_value_heads"},
}
"""The key or tensor of each format that states a number or a scaling."""
ANY_KEY = "its key"


def compare_settings(reference: ModelFiles, checked: ModelFiles) -> Iterator[SettingsProblem]:
    """Yield what the configuration of one model states differently than that of the other.

    One may be a Hugging Face folder, and the other a .gguf file; the reference defines the model.
    Rotary encodings are compared by the frequencies that they mean, not by their keys.
    """
    expected = reference.encodings.ropes()
    found = checked.encodings.ropes()
    if bool(expected) != bool(found):
        lacking = checked if expected else reference
        yield NoRotaryEncoding(lacking.label)
        return
    yield from _find_head_changes(reference, checked)
    yield from _find_count_problems(reference, checked)
    length = max(reference.encodings.context or 1, checked.encodings.context or 1)
    found_by_layers = {encoding.layer_type: encoding for encoding in found}
    for encoding in expected:
        # If no name agrees, the first one is compared.
        counterpart = found_by_layers.get(encoding.layer_type, found[0])
        for change in _find_encoding_changes(encoding, counterpart, checked.format, length):
            yield replace(change, layer_type=encoding.layer_type)


def _find_head_changes(reference: ModelFiles, checked: ModelFiles) -> Iterator[ValueChanged]:
    """Yield different numbers of query heads, and of key heads: 8 kv heads that became 32.

    With latent attention (DeepSeek) they are not compared: GGUF states one kv head for it, which is
    the latent vector.
    """
    if has_latent_keys(reference) or has_latent_keys(checked):
        return
    found = _count_heads(checked)
    for name, count in _count_heads(reference).items():
        found_count = found.get(name, count)
        if found_count != count:
            yield _make_change(name, count, found_count, checked.format)


def _count_heads(model: ModelFiles) -> dict[str, int]:
    """Return the numbers of heads: {"heads": 32, "kv heads": 8}.

    There are none if they differ by layer, or if nothing rotates.
    """
    if model.heads is None:
        return {}
    return {"heads": model.heads.heads, "kv heads": model.heads.key_heads}


def _make_change(
    name: str,
    expected: float,
    value: float,
    model_format: ModelFormat,
    *,
    is_key_missing: bool = False,
) -> ValueChanged:
    """Return that a number of the model differs, with the key that states it in such files.

    A base of 500000 that became 10000 in a .gguf file has the key `rope.freq_base`.

    Args:
        name: The number, one of those in KEYS.
        expected: Its value in the reference.
        value: Its value in the checked model.
        model_format: The format of the checked model.
        is_key_missing: True if that key is not there, so that the value is a default.
    """
    return ValueChanged(
        name=name,
        expected=expected,
        value=value,
        key=KEYS[model_format].get(name, ANY_KEY),
        is_key_missing=is_key_missing,
    )


def _find_count_problems(reference: ModelFiles, checked: ModelFiles) -> Iterator[SettingsProblem]:
    """Yield a missing key for each count that a .gguf file does not state, and a different layer count.

    The counts are the context, the layers and the heads. Only the layers are compared here: two
    files of a model may state different contexts, and `_find_head_changes` compares the heads.
    """
    if checked.format != ModelFormat.GGUF:
        return  # Other formats may lack a count, or have another key for it in each family.
    keys = KEYS[ModelFormat.GGUF]
    expected_counts = reference.counts._asdict()
    counts = checked.counts._asdict()
    for name, expected in expected_counts.items():
        is_missing = counts[name] is None and expected is not None
        if is_missing:
            yield MissingKey(keys[name])
        elif name == "layers":
            yield from _find_layers_change(expected, counts[name], checked.format)


def _find_layers_change(
    expected: object, count: object, model_format: ModelFormat
) -> Iterator[ValueChanged]:
    """Yield a different number of layers; what is not stated, or is no integer, is not compared."""
    if isinstance(expected, int) and isinstance(count, int) and expected != count:
        yield _make_change("layers", expected, count, model_format)


def _find_encoding_changes(
    expected: Encoding, found: Encoding, model_format: ModelFormat, length: int
) -> Iterator[EncodingChange]:
    """Yield what differs between two rotary encodings that should be the same.

    A different rotary dimension or base, or a lost scaling, explains different frequencies: these
    are compared only if there is none of them.

    Args:
        expected: The encoding of the reference.
        found: That of the same layers in the checked model.
        model_format: The format of the checked model.
        length: The full context, at which frequencies are compared as well.
    """
    if model_format == ModelFormat.GGUF:
        found = _without_default_of_truncate(expected, found)
    if expected.rotary_dim != found.rotary_dim:
        yield _find_rotary_dim_change(expected, found, model_format)
        return
    parameter_changes = [*_find_parameter_changes(expected, found, model_format)]
    yield from parameter_changes
    is_scaling_lost = _has_scaling(expected) and not _has_scaling(found)
    if is_scaling_lost:
        yield find_lost_scaling(expected, model_format)
    elif not parameter_changes:
        # Those of short prompts mostly differ at the full context as well: one finding is enough.
        yield from islice(_find_frequency_changes(expected, found, length), 1)


def _has_scaling(encoding: Encoding) -> bool:
    """Return True if an encoding has a scaling of its frequencies, such as llama3's or YaRN's."""
    return bool(encoding.parameters["scaling"] != "none")


def _without_default_of_truncate(expected: Encoding, found: Encoding) -> Encoding:
    """Return the encoding of a .gguf file with the `truncate: false` that gpt-oss requires of YaRN.

    GGUF has no key for it, so that the file cannot state it, and its default would be a difference.
    """
    is_required = expected.parameters.get("truncate") is False
    if not is_required or "truncate" not in found.parameters:
        return found
    return replace(found, parameters={**found.parameters, "truncate": False})


def _find_rotary_dim_change(
    expected: Encoding, found: Encoding, model_format: ModelFormat
) -> ValueChanged:
    """Return a finding on a different rotary dimension, and whether its key is missing.

    A .gguf without `rope.dimension_count` has the default, the whole head, for example.
    """
    key = KEYS[model_format].get(ROTARY_DIM, "")
    # The keys of a .gguf file begin with its architecture.
    is_stated = any(name.endswith(key) for name in found.stated_by("dim"))
    dims = (expected.rotary_dim or 0, found.rotary_dim or 0)
    return _make_change(ROTARY_DIM, *dims, model_format, is_key_missing=not is_stated)


def _find_parameter_changes(
    expected: Encoding, found: Encoding, model_format: ModelFormat
) -> Iterator[EncodingChange]:
    """Yield a different base, and different sections of M-RoPE.

    Bases are equal within 1e-5, since GGUF keeps them in float32.
    """
    base = expected.parameters["base"]
    found_base = found.parameters["base"]
    if not math.isclose(base, found_base, rel_tol=SAME_FREQUENCY):
        is_default = not found.stated_by("base")
        yield _make_change("base", base, found_base, model_format, is_key_missing=is_default)
    sections = _read_sections(expected)
    found_sections = _read_sections(found)
    if sections != found_sections:
        yield SectionsChanged(sections, found_sections)


def _read_sections(encoding: Encoding) -> tuple[int, ...]:
    return tuple(map(int, encoding.sections.mrope_section or ()))


def _find_frequency_changes(
    expected: Encoding, found: Encoding, length: int
) -> Iterator[FrequenciesDiffer | AttentionFactorChanged]:
    """Yield differences of frequencies, or else of attention factors.

    They are compared for short prompts, then at the full context, where dynamic and longrope
    scalings have others.

    Args:
        expected: The encoding of the reference.
        found: That of the same layers in the checked model.
        length: The full context.
    """
    for context in (None, length):
        frequencies = np.array(expected.inverse_frequencies(context))
        found_frequencies = np.array(found.inverse_frequencies(context))
        is_close = np.isclose(frequencies, found_frequencies, rtol=SAME_FREQUENCY, atol=0)
        factor = expected.attention_factor(context) or 1.0
        found_factor = found.attention_factor(context) or 1.0
        if not is_close.all():
            yield FrequenciesDiffer(tuple(np.flatnonzero(~is_close).tolist()), context)
        elif not math.isclose(factor, found_factor, rel_tol=SAME_FREQUENCY):
            yield AttentionFactorChanged(expected=factor, factor=found_factor, length=context)


def find_lost_scaling(encoding: Encoding, model_format: ModelFormat) -> ScalingLost:
    """Return the scaling that a file without any has lost, and the key that it lacks."""
    scaling = encoding.parameters["scaling"]
    if ROPE_FREQS_TENSOR in encoding.stated_by("long_factor"):
        scaling = "llama3"  # A .gguf keeps the factors of llama3 like those of longrope.
    any_key = "rope.scaling.type" if model_format == ModelFormat.GGUF else "rope_scaling"
    return ScalingLost(scaling, KEYS[model_format].get(scaling, any_key))
