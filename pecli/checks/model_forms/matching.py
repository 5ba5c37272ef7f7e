"""The tensors that a model has in two formats, and the order in which each has its rows."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from pecli.checks.model_forms.findings import DifferentShape, TensorDifference, UnmatchedTensor
from pecli.checks.model_forms.model_files import ModelFiles, ModelFormat
from pecli.checks.model_forms.pair import Pair
from pecli.checks.model_forms.stored import EXPERT, ROUNDING, StoredTensor
from pecli.compare.factors import Shape
from pecli.engine.arrays import Indices
from pecli.errors import ParameterError
from pecli.tensors.head_layout import HeadDivision
from pecli.tensors.projections import projection, weight_of

NORMS_PLUS_ONE = frozenset(("gemma", "gemma2", "gemma3", "gemma-embedding", "nemotron"))
"""Architectures that multiply by 1 + weight in a norm; in GGUF the 1 is in the weight."""
EMBEDDING = "token_embd.weight"
OUTPUT = "output.weight"
LATENT_KEYS = "attn_k_b.weight"  #: DeepSeek's keys, as projected from the latent vector


class Matched(NamedTuple):
    """The tensors of both models, and those that are missing or have different shapes."""

    pairs: list[Pair]
    problems: list[TensorDifference]


def match_tensors(reference: ModelFiles, checked: ModelFiles) -> Matched:
    """Pair the tensors of a model in two formats (Hugging Face, Meta, GGUF) by their names in GGUF.

    A tensor that only one of them has is a problem, and so is one with different shapes.

    Args:
        reference: The model that defines what is right.
        checked: The model in the other format.
    """
    expected, found = _rename_as_in_gguf(reference, checked)
    pairs: list[Pair] = []
    problems: list[TensorDifference] = []
    for name in dict.fromkeys([*expected, *found]):
        if name not in found:
            problems += _find_missing(name, lacking=checked)
            continue
        if name not in expected:
            problems += _find_missing(name, lacking=reference)
            continue
        pair = _match(name, expected[name], found[name])
        if pair.reference.shape != pair.checked.shape:
            shapes = DifferentShape(pair.checked.shape, pair.reference.shape)
            problems.append(TensorDifference(name, shapes))
        elif not pair.is_empty:  # Of no elements, as with 0 experts, none can differ.
            pairs.append(_with_conversion(pair, reference, checked))
    return Matched(pairs, problems)


class _ExpectedAndFound(NamedTuple):
    """The tensors of the reference, and those of the checked model, both by their names in GGUF."""

    expected: dict[str, StoredTensor]
    found: dict[str, StoredTensor]


def _rename_as_in_gguf(reference: ModelFiles, checked: ModelFiles) -> _ExpectedAndFound:
    """Return the tensors of two models with the same names for the same weights.

    A tied output projection gets a name of its own, and DeepSeek's kv_b is split in the model that
    has it if the other model has k_b and v_b.
    """
    expected = _with_tied_output(reference.tensors, checked.tensors)
    found = _with_tied_output(checked.tensors, reference.tensors)
    split_expected = _split_latent_projections(expected, found)
    split_found = _split_latent_projections(found, split_expected)
    return _ExpectedAndFound(split_expected, split_found)


def _find_missing(name: str, lacking: ModelFiles) -> Iterator[TensorDifference]:
    """Yield that a model lacks a tensor, unless it has the tensor in a type that is not read."""
    if EXPERT.sub("", name) not in lacking.unread:
        yield TensorDifference(name, UnmatchedTensor(lacking.label))


def _match(name: str, expected: StoredTensor, found: StoredTensor) -> Pair:
    """Return two tensors of one name as a pair, in one shape if that is possible.

    GGUF drops axes of length 1, and Meta's tensors are in shards: such shapes are made alike.
    """
    found = found.with_shape(expected.shape)
    expected = expected.with_shape(found.shape)
    return Pair(name=name, reference=expected, checked=found, order=None, added_by_converter=0)


def _with_conversion(pair: Pair, reference: ModelFiles, checked: ModelFiles) -> Pair:
    """Return a pair with what a converter should have changed: the order of rows, and the 1 of norms."""
    order = find_expected_order(pair.name, pair.reference, reference, checked)
    added_by_converter = 0
    if pair.name.endswith("norm.weight"):
        added_by_converter = _number_added_to_norms(checked) - _number_added_to_norms(reference)
    return pair._replace(order=order, added_by_converter=added_by_converter)


def _number_added_to_norms(model: ModelFiles) -> int:
    """Return 1 if the format adds 1 to the weights of norms, otherwise 0."""
    return int(model.format == ModelFormat.GGUF and model.architecture in NORMS_PLUS_ONE)


def _with_tied_output(
    tensors: Mapping[str, StoredTensor], other_model: Mapping[str, StoredTensor]
) -> dict[str, StoredTensor]:
    """Return tensors with an output projection if the other model has one.

    If it is tied, a file may leave it out: it is the embedding.
    """
    complete = dict(tensors)
    if EMBEDDING in tensors and OUTPUT in other_model:
        complete.setdefault(OUTPUT, tensors[EMBEDDING])
    return complete


def _split_latent_projections(
    tensors: Mapping[str, StoredTensor], other_model: Mapping[str, StoredTensor]
) -> dict[str, StoredTensor]:
    """Return tensors with DeepSeek's kv_b projections split if the other model has keys and values apart.

    Hugging Face has kv_b, with the rows of keys and values of each head after each other; GGUF has
    k_b, transposed, and v_b. With 2 heads, keys of 3, values of 4 and a latent vector of 5
    channels, kv_b is (2 · (3 + 4), 5), k_b is (2, 5, 3) and v_b is (2, 4, 5).
    """
    split_tensors = dict(tensors)
    for keys_name in _find_latent_keys(other_model):
        values_name = keys_name.replace("k_b", "v_b")
        fused_name = keys_name.replace("k_b", "kv_b")
        if values_name not in other_model or fused_name not in tensors:
            continue
        keys_shape = other_model[keys_name].shape
        values_shape = other_model[values_name].shape
        split = _split_keys_and_values(tensors[fused_name], keys_shape, values_shape)
        if split is not None:
            del split_tensors[fused_name]
            split_tensors |= {keys_name: split.keys, values_name: split.values}
    return split_tensors


class _KeysAndValues(NamedTuple):
    """The two projections that one of DeepSeek's kv_b tensors holds."""

    keys: StoredTensor
    values: StoredTensor


def _split_keys_and_values(
    fused: StoredTensor, keys_shape: Shape, values_shape: Shape
) -> _KeysAndValues | None:
    """Return the keys and the values of a kv_b projection; None if its shape is not that of both.

    Args:
        fused: The projection, (heads · (key channels + value channels), latent channels).
        keys_shape: The shape that keys should have, (heads, latent channels, key channels).
        values_shape: The shape that values should have, (heads, value channels, latent channels).
    """
    if len(keys_shape) != 3 or len(values_shape) != 3:
        return None
    heads, latent_channels, key_channels = keys_shape
    _, value_channels, _ = values_shape
    fused_shape = (heads * (key_channels + value_channels), latent_channels)
    if fused.dtype not in ROUNDING or fused.shape != fused_shape:
        return None
    by_head = fused.values.reshape(heads, -1, latent_channels)
    keys = by_head[:, :key_channels].swapaxes(1, 2)  # GGUF has them transposed.
    values = by_head[:, key_channels:]
    return _KeysAndValues(keys=StoredTensor.of(keys), values=StoredTensor.of(values))


def _find_latent_keys(tensors: Mapping[str, StoredTensor]) -> list[str]:
    return [name for name in tensors if name.endswith(LATENT_KEYS)]


def has_latent_keys(model: ModelFiles) -> bool:
    """Return True if the keys of a model are projected from a latent vector, as in DeepSeek-V2."""
    return bool(_find_latent_keys(model.tensors))


def find_expected_order(
    name: str, stored: StoredTensor, reference: ModelFiles, checked: ModelFiles
) -> Indices | None:
    """Return the rows of the reference that the checked model should have; None for all in order.

    Row i of the checked tensor should be row order[i] of the reference. Converters move the rows of
    query and key projections in two steps:

    1. Some models fuse queries, keys and values head by head, q0 k0 v0 q1 k1 v1. GGUF has all
       queries, then all keys, then all values: q0 q1 k0 k1 v0 v1.
    2. The pairs (0, 2) and (1, 3) of channels 0 1 2 3 become neighbours: 0 2 1 3.

    Args:
        name: The name of the tensor in GGUF, such as `blk.3.attn_q.weight`.
        stored: The tensor of the reference.
        reference: The model that defines what is right.
        checked: The model in the other format.
    """
    role = projection(name)  # of queries, keys, or latent vectors; None for other weights
    heads = reference.heads
    if role is None or heads is None:
        return None
    rows = np.arange(len(stored.rows))
    order = rows
    is_fused_by_head = role.kind == "qkv" and heads.fused
    if is_fused_by_head and _is_converted_to_gguf(reference, checked):
        order = _find_order_by_part(stored, heads)
    is_rotated = role.kind != "latent"  # Latent vectors are compressed keys and values.
    if is_rotated and reference.layout != checked.layout:
        second_move = _find_order_in_layout(name, stored, heads, reference.layout, checked.layout)
        order = order[second_move]  # Rows 6 7 8 9 after the first step become 6 8 7 9.
    is_unchanged = (order == rows).all()
    return None if is_unchanged else order


def _is_converted_to_gguf(reference: ModelFiles, checked: ModelFiles) -> bool:
    """Return True if the checked model is a .gguf file that was made from the reference."""
    return reference.format != ModelFormat.GGUF and checked.format == ModelFormat.GGUF


def _find_order_in_layout(
    name: str, stored: StoredTensor, heads: HeadDivision, layout: str, new_layout: str
) -> Indices:
    """Return the rows of a projection in the order that another layout of pairs requires.

    For heads of 4, rows 0 1 2 3 in halves, whose pairs are (0, 2) and (1, 3), become 0 2 1 3
    interleaved. Rows that do not divide into the heads stay as they are.

    Args:
        name: The name of the projection in GGUF.
        stored: The projection.
        heads: The numbers of query and key heads.
        layout: The layout of its pairs, halves or interleaved.
        new_layout: The other one.
    """
    first_column = stored.rows[:, 0]  # All columns move alike.
    try:
        return heads.move(weight_of(name, first_column), layout, new_layout).order
    except ParameterError:
        return np.arange(len(stored.rows))


def _find_order_by_part(stored: StoredTensor, heads: HeadDivision) -> Indices:
    """Return the rows of a fused projection, all queries before all keys before all values.

    GGUF has them so. Rows q0 k0 v0 q1 k1 v1 of GPT-NeoX are the slots q, k, v, q, k, v, and come in the order 0 3 1 4 2 5.
    """
    rows = np.arange(len(stored.rows))
    slots = heads.head_letters(weight_of("qkv", stored.rows))
    if len(rows) % len(slots):
        return rows
    by_part = np.argsort(["qkv".index(slot) for slot in slots], kind="stable")
    return rows.reshape(len(slots), -1)[by_part].reshape(-1)
