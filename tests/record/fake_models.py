"""Small models over `fake_torch`, written as the code of well-known projects is.

Their rotations are formulas of their own, so that pecli's are not compared with themselves.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from tests.record.fake_torch import Module, Tensor, tensor

HEAD_DIM = 16
HEADS = 4
KEY_HEADS = 2
LLAMA = {
    "model_type": "llama",
    "hidden_size": HEADS * HEAD_DIM,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KEY_HEADS,
    "num_hidden_layers": 3,
    "rope_theta": 10000.0,
    "max_position_embeddings": 512,
}
GEMMA = {
    **LLAMA,
    "model_type": "gemma3_text",
    "head_dim": HEAD_DIM,
    "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
}
SMOLLM = {**LLAMA, "model_type": "smollm3", "no_rope_layers": [1, 0, 1]}


def frequencies(base: float = 10000.0) -> np.ndarray:
    return (base ** (-np.arange(0, HEAD_DIM, 2) / HEAD_DIM)).astype(np.float32)


def join(*parts: Any) -> Tensor:
    return tensor(np.concatenate(parts, axis=-1))


def rotate_half(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return join(-x[..., half:], x[..., :half])


def apply_rotary_pos_emb(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1
) -> tuple[Tensor, Tensor]:
    """Rotate as transformers does."""
    cos = np.expand_dims(cos, unsqueeze_dim).view(Tensor)
    sin = np.expand_dims(sin, unsqueeze_dim).view(Tensor)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


class Rotary(Module):
    """Tables at position ids, as transformers makes them."""

    def __init__(self, base: float) -> None:
        super().__init__()
        self.register_buffer("inv_freq", frequencies(base))

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angles = position_ids[..., None].astype(np.float32) * self.inv_freq
        doubled = join(angles, angles)
        return np.cos(doubled), np.sin(doubled)


class Attention(Module):
    """Queries and keys by random projections, rotated, and nothing else."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = np.random.default_rng(seed)
        width = HEADS * HEAD_DIM
        self.w_q = generator.standard_normal((width, width)).astype(np.float32) / 8
        self.w_k = generator.standard_normal((width, KEY_HEADS * HEAD_DIM)).astype(np.float32) / 8
        self.rotates = True
        self.shift = 0

    def heads(self, x: Tensor, weight: np.ndarray) -> Tensor:
        projected = np.asarray(x) @ weight
        by_head = projected.reshape(*x.shape[:2], -1, HEAD_DIM)
        return tensor(np.swapaxes(by_head, 1, 2))

    def forward(self, x: Tensor, positions: Tensor, tables: tuple[Tensor, Tensor]) -> Tensor:
        query = self.heads(x, self.w_q)
        key = self.heads(x, self.w_k)
        cos, sin = tables
        if self.shift:
            angles = (positions + self.shift)[..., None] * frequencies()
            cos = np.cos(join(angles, angles))
            sin = np.sin(join(angles, angles))
        if self.rotates:
            query, key = apply_rotary_pos_emb(query, key, cos, sin)
        mixed = np.swapaxes(np.asarray(query), 1, 2).reshape(x.shape) + key.mean()
        return tensor(np.tanh(mixed))


class Layer(Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self.self_attn = Attention(seed)

    def forward(self, x: Tensor, positions: Tensor, tables: tuple[Tensor, Tensor]) -> Tensor:
        return x + self.self_attn(x, positions, tables)


class Cache:
    """A cache that knows how many tokens it has, as transformers' DynamicCache does."""

    def __init__(self) -> None:
        self.length = 0

    def get_seq_length(self) -> int:
        return self.length


class Transformer(Module):
    """A model whose code follows transformers' Llama and Gemma 3."""

    def __init__(self, config: dict[str, Any], bases: Sequence[float] = (10000.0,)) -> None:
        super().__init__()
        self.config = config
        self.layers = [Layer(seed) for seed in range(config["num_hidden_layers"])]
        self.embedding = np.random.default_rng(9).standard_normal((64, HEADS * HEAD_DIM))
        self.rotary_emb = Rotary(bases[0])
        self.rotary_emb_local = Rotary(bases[-1])
        self.ignores_padding = False

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
    ) -> Tensor:
        x = tensor(self.embedding[np.asarray(input_ids)].astype(np.float32))
        positions = self.positions(input_ids, attention_mask, position_ids, past_key_values)
        if past_key_values is not None:
            past_key_values.length += input_ids.shape[1]
        types = self.config.get("layer_types", ["full"] * len(self.layers))
        tables = {"full": self.rotary_emb(x, positions)}
        if "sliding_attention" in types:
            tables["sliding_attention"] = self.rotary_emb_local(x, positions)
            tables["full_attention"] = tables["full"]
        for layer, layer_type in zip(self.layers, types, strict=True):
            x = layer(x, positions, tables[layer_type])
        return x

    def positions(
        self,
        input_ids: Tensor,
        mask: Tensor | None,
        position_ids: Tensor | None,
        cache: Cache | None,
    ) -> Tensor:
        if position_ids is not None:
            return position_ids
        length = input_ids.shape[1]
        if mask is not None and not self.ignores_padding:
            return tensor(np.maximum(np.cumsum(mask, axis=1) - 1, 0)[:, -length:])
        first = 0 if cache is None else cache.get_seq_length()
        return tensor(np.arange(first, first + length)[None])


def token_ids(batch: int = 2, length: int = 12) -> Tensor:
    return tensor(np.random.default_rng(3).integers(0, 64, (batch, length)))


# Models of other projects


def apply_rotary_emb(xq: Tensor, xk: Tensor, freqs_cis: Tensor) -> tuple[Tensor, Tensor]:
    """Rotate (batch, L, heads, D) by complex numbers, as Meta's Llama does."""

    def rotated(x: Tensor) -> Tensor:
        pairs = np.asarray(x[..., 0::2] + 1j * x[..., 1::2]) * np.asarray(freqs_cis)[:, None, :]
        both = np.stack((pairs.real, pairs.imag), axis=-1)
        return tensor(both.reshape(x.shape).astype(np.float32))

    return rotated(xq), rotated(xk)


class MetaAttention(Module):
    def forward(self, x: Tensor, freqs_cis: Tensor) -> Tensor:
        query = tensor(np.asarray(x).reshape(*x.shape[:2], HEADS, HEAD_DIM))
        key = query[:, :, :KEY_HEADS]
        query, key = apply_rotary_emb(query, key, freqs_cis)
        return tensor(np.asarray(query).reshape(x.shape))


class MetaModel(Module):
    """A model in the style of Meta's Llama: complex tables, `start_pos`, interleaved pairs."""

    def __init__(self, base: float = 10000.0) -> None:
        super().__init__()
        self.blocks = [MetaAttention() for _ in range(2)]
        angles = np.outer(np.arange(64), frequencies(base))
        self.freqs_cis = tensor(np.exp(1j * angles).astype(np.complex64))

    def forward(self, tokens: Tensor, start_pos: int) -> Tensor:
        generator = np.random.default_rng(5)
        x = tensor(generator.standard_normal((*tokens.shape, HEADS * HEAD_DIM)).astype(np.float32))
        rows = self.freqs_cis[start_pos : start_pos + tokens.shape[1]]
        for block in self.blocks:
            x = block(x, rows)
        return x


class OwnRope(Module):
    """A rotary module of its own kind: it rotates one tensor, in place, from an offset on."""

    def __init__(self, base: float) -> None:
        super().__init__()
        self.inverse_frequencies = tensor(frequencies(base))

    def forward(self, x: Tensor, offset: int) -> Tensor:
        angles = np.outer(np.arange(offset, offset + x.shape[-2]), self.inverse_frequencies)
        half = HEAD_DIM // 2
        first = np.array(x[..., :half])
        second = np.array(x[..., half:])
        x[..., :half] = first * np.cos(angles) - second * np.sin(angles)
        x[..., half:] = second * np.cos(angles) + first * np.sin(angles)
        return x


class HeadsLast(Module):
    """A module that rotates (batch, L, heads, D): its tables get their axis of heads at 2."""

    def forward(self, query: Tensor) -> Tensor:
        angles = np.outer(np.arange(query.shape[1]), frequencies())[None]
        doubled = join(angles, angles)
        cos = np.cos(doubled)
        sin = np.sin(doubled)
        rotated, _ = apply_rotary_pos_emb(query, query, cos, sin, unsqueeze_dim=2)
        return rotated


class KeysFirst(Module):
    """A layer that rotates its keys before its queries, one after the other, as GPT-J's does."""

    def __init__(self) -> None:
        super().__init__()
        self.rope = OwnRope(10000.0)

    def forward(self, states: Tensor) -> Tensor:
        key = tensor(np.array(states))
        query = tensor(2 * np.array(states))
        self.rope(key, offset=0)
        return self.rope(query, offset=0)


class OwnModel(Module):
    """A model that keeps its cache to itself: nobody tells it where a call begins."""

    def __init__(self, base: float = 10000.0) -> None:
        super().__init__()
        self.stack = [OwnBlock(base) for _ in range(2)]
        self.used = 0

    def forward(self, x: Tensor) -> Tensor:
        first = self.used
        self.used += x.shape[1]
        for block in self.stack:
            x = block(x, first)
        return x


class OwnBlock(Module):
    def __init__(self, base: float) -> None:
        super().__init__()
        self.rope = OwnRope(base)

    def forward(self, x: Tensor, first: int) -> Tensor:
        by_head = np.asarray(x).reshape(*x.shape[:2], HEADS, HEAD_DIM)
        query = tensor(np.swapaxes(by_head, 1, 2).copy())
        key = query[:, :KEY_HEADS].copy()
        query = self.rope(query, offset=first)
        self.rope(key, offset=first)
        return tensor(np.swapaxes(np.asarray(query), 1, 2).reshape(x.shape))


class PositionTable(Module):
    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        weight = np.random.default_rng(1).standard_normal((rows, width)).astype(np.float32)
        self.parameters["weight"] = tensor(weight)

    def forward(self, ids: Tensor) -> Tensor:
        return tensor(np.asarray(self.weight)[np.asarray(ids)])


class LearnedModel(Module):
    """A model in the style of GPT-2, whose `wpe` adds learned rows."""

    config: ClassVar = {
        "model_type": "gpt2",
        "n_embd": 64,
        "n_head": 4,
        "n_positions": 32,
        "n_layer": 2,
    }

    def __init__(self, shift: int = 0) -> None:
        super().__init__()
        self.wpe = PositionTable(32, 64)
        self.shift = shift

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        ids = tensor(np.arange(input_ids.shape[1])[None] + self.shift)
        return self.wpe(ids)
