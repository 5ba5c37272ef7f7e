"""Positions of the tokens of a call, by the arguments of the model."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Array, as_numpy
from pecli.files.torch_module import TorchTensor, is_tensor
from pecli.live.rotations import Arguments, holds_integers

TOKEN_NAMES = ("input_ids", "inputs_embeds", "hidden_states", "tokens", "idx", "x")
"""Arguments that hold a token per column, the usual names first."""
NO_MASK = np.empty((1, 0), np.int64)
CACHES = ("past_key_values", "past_key_value", "layer_past", "cache")


class CallPositions(NamedTuple):
    """The positions of the tokens of a call.

    Attributes:
        positions: (batch, L), or (axes, batch, L) as the caller gave them; None if no argument has an
            axis of tokens.
        attention_mask: 0 for padding, (batch, L), if positions count only tokens.
        is_start_stated: False if nothing states the position of the first token, so that 0 was assumed.
    """

    positions: Array | None
    attention_mask: Array | None = None
    is_start_stated: bool = True


def token_positions(arguments: Arguments) -> CallPositions:
    """Return the positions that the tokens of a call should have.

    Position ids of the caller count, unless they are 0, 1, 2, … although the attention mask states
    left padding. Without ids, tokens are counted: those of the mask, or all from the end of the
    cache on.
    """
    shape = _token_shape(arguments.by_name)
    mask = _mask_of(arguments.by_name)
    ids = _ids_of_caller(arguments, shape)
    if ids is not None and not _ignores_padding(ids, mask):
        return CallPositions(ids)
    if shape is None:
        return CallPositions(None)
    if mask.shape[-1] >= shape.length:
        return _counted_by_mask(mask, shape.length)
    return _counted_from_cache(arguments, shape)


class TokenShape(NamedTuple):
    """The number of sequences, and the number of tokens in each."""

    batch: int
    length: int


def _counted_from_cache(arguments: Arguments, shape: TokenShape) -> CallPositions:
    """Count all tokens from the end of the cache on; from 0 if no argument states its length."""
    start = _start(arguments)
    first = start or 0
    positions = np.tile(np.arange(first, first + shape.length), (shape.batch, 1))
    return CallPositions(positions, is_start_stated=start is not None)


def _ids_of_caller(arguments: Arguments, shape: TokenShape | None) -> Array | None:
    """Return the position ids that the caller passed as (batch, L); None if there are none.

    One row of ids, (L,) or (1, L), is for all sequences. M-RoPE's (axes, batch, L) stay.
    """
    tensor = arguments.position_ids()
    if tensor is None:
        return None
    ids = np.array(as_numpy("position_ids", tensor), np.int64)
    if ids.ndim > 2 or shape is None:
        return np.atleast_2d(ids)
    return np.array(np.broadcast_to(ids, (shape.batch, ids.shape[-1])))


def _counted_by_mask(mask: Array, length: int) -> CallPositions:
    """Return the positions of the last tokens of a mask: how many tokens precede each.

    The mask covers the tokens in the cache and then those of this call. The mask 0 0 1 1 1 of a
    call with three tokens gives the positions 0 1 2.

    Args:
        mask: 1 for tokens, 0 for padding: (batch, L of all tokens).
        length: The number of tokens of this call.
    """
    positions = np.maximum(np.cumsum(mask, axis=-1) - 1, 0)
    mask_of_call = mask[:, -length:]
    has_padding = not mask_of_call.all()
    return CallPositions(positions[:, -length:], mask_of_call if has_padding else None)


def _ignores_padding(ids: Array, mask: Array) -> bool:
    """Return True if all sequences count from 0 although some begin with padding."""
    if ids.ndim > 2 or mask.shape[-1] != ids.shape[-1]:
        return False
    starts_with_padding = (mask[:, 0] == 0).any()
    return bool(starts_with_padding and (ids == np.arange(ids.shape[-1])).all())


def _token_shape(values: Mapping[str, object]) -> TokenShape | None:
    """Return the shape of a call's tokens, by an argument such as `input_ids`, or any tensor."""
    usual = map(values.get, TOKEN_NAMES)
    shapes = map(_tokens_in, filter(is_tensor, [*usual, *values.values()]))
    return next(filter(None, shapes), None)


def _tokens_in(tensor: TorchTensor) -> TokenShape | None:
    """Return the shape of a tensor's tokens; None if it has another number of axes.

    Queries are (batch, heads, L, D), vectors (batch, L, D) or (L, D). Whole numbers are ids (batch,
    L) or (L,); an id without axes is one token.
    """
    sides = [int(side) for side in tensor.shape] or [1]
    if len(sides) == 4:
        batch, _heads, length, _channels = sides
        return TokenShape(batch, length)
    are_ids = holds_integers(tensor)
    sides_of_tokens = sides if are_ids else sides[:-1]  # The last axis of vectors is D.
    match sides_of_tokens:
        case [length]:
            return TokenShape(1, length)
        case [batch, length]:
            return TokenShape(batch, length)
    return None


def _mask_of(values: Mapping[str, object]) -> Array:
    """Return the attention mask (batch, L) as 0 and 1; without any column if there is none of this form."""
    mask = values.get("attention_mask")
    if not is_tensor(mask) or len(mask.shape) != 2:
        return NO_MASK
    array = as_numpy("attention_mask", mask)
    return np.array(array != 0, np.int64)


def _start(arguments: Arguments) -> int | None:
    """Return the position of the first token; None if no argument states it.

    It is an argument such as start_pos = 12, or the number of tokens that the cache holds already.
    """
    start = arguments.start()
    if start is not None:
        return start
    for name in CACHES:
        cache = arguments.by_name.get(name)
        if hasattr(cache, "get_seq_length"):
            return int(cache.get_seq_length())
    return None
