"""Tiny random models of Hugging Face, and models of our own, for tests that have torch."""

import json
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip(
    "torch", reason="torch is not installed: live models are not recorded"
)

DATA = json.loads((Path(__file__).parent / "data" / "families.json").read_text(encoding="utf-8"))
FAMILIES = sorted(DATA["families"])
ENCODERS = ("bert", "roberta", "modernbert")
HEAD_DIM = 16
HEADS = 4


def _with_common(values: dict[str, Any]) -> dict[str, Any]:
    config = dict(DATA["common"]) if values.get("common") else {}
    for name, value in values.items():
        if name != "common":
            config[name] = _with_common(value) if name.endswith("_config") else value
    return config


def hugging_face_model(family: str, **options: Any) -> Any:
    """Return a random model of a family."""
    transformers: Any = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, **_with_common(DATA["families"][family]))
    loader = transformers.AutoModelForCausalLM
    if family in ENCODERS:
        loader = transformers.AutoModel
    elif family.endswith("_vl"):
        loader = transformers.AutoModelForImageTextToText
    return loader.from_config(config, **options).eval()


def token_ids(batch: int = 2, length: int = 12) -> Any:
    generator = torch.Generator().manual_seed(7)
    return torch.randint(3, 100, (batch, length), generator=generator)


def rotary_modules(model: Any) -> list[Any]:
    """Return the modules that hold the frequencies of the text."""
    modules = []
    for name, module in model.named_modules():
        holds = any("inv_freq" in buffer for buffer, _ in module.named_buffers(recurse=False))
        if holds and "visual" not in name:
            modules.append(module)
    return modules


def set_frequencies(model: Any, change: Any, name: str = "inv_freq") -> None:
    """Change the frequencies whose buffers have this in their names."""
    for module in rotary_modules(model):
        for buffer, values in module.named_buffers(recurse=False):
            if name in buffer and "original" not in buffer:
                values.data = change(values.data)


def attention_of(model: Any, layer: int) -> Any:
    """Return the attention module of a layer."""
    for name, module in model.named_modules():
        is_attention = name.endswith((".self_attn", ".attention", ".self_attention"))
        if is_attention and f".{layer}." in name and "visual" not in name:
            return module
    raise AssertionError("no attention module")


def shift_layer(model: Any, layer: int, shift: int = 1) -> None:
    """Give one layer the tables of other positions."""
    (rotary,) = rotary_modules(model)

    def shifted(module: Any, args: Any, kwargs: Any) -> Any:
        cos, _ = kwargs["position_embeddings"]
        positions = torch.arange(cos.shape[-2])[None] + shift
        arguments = [cos, positions]
        if hasattr(rotary, "layer_types"):  # Gemma 3
            arguments.append(model.config.layer_types[layer])
        return args, {**kwargs, "position_embeddings": rotary(*arguments)}

    attention_of(model, layer).register_forward_pre_hook(shifted, with_kwargs=True)


# Models of our own: complex tables as Meta's, one rotary module per layer, a table as an attribute


def apply_rotary_emb(xq: Any, xk: Any, freqs_cis: Any) -> tuple[Any, Any]:
    """Rotate (batch, L, heads, D) by complex numbers, interleaved, as Meta's Llama does."""

    def rotated(x: Any) -> Any:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        turned = pairs * freqs_cis[None, :, None, :]
        return torch.view_as_real(turned).flatten(3).type_as(x)

    return rotated(xq), rotated(xk)


def frequencies(base: float) -> Any:
    return 1.0 / base ** (torch.arange(0, HEAD_DIM, 2).float() / HEAD_DIM)


class Projections(torch.nn.Module):  # type: ignore[misc]
    """Queries and keys (batch, L, heads, D)."""

    def __init__(self) -> None:
        super().__init__()
        self.wq = torch.nn.Linear(HEADS * HEAD_DIM, HEADS * HEAD_DIM)
        self.wk = torch.nn.Linear(HEADS * HEAD_DIM, HEADS * HEAD_DIM // 2)

    def forward(self, x: Any) -> tuple[Any, Any]:
        shape = (*x.shape[:2], -1, HEAD_DIM)
        return self.wq(x).view(shape), self.wk(x).view(shape)


class MetaBlock(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.projections = Projections()

    def forward(self, x: Any, freqs_cis: Any) -> Any:
        query, key = self.projections(x)
        query, key = apply_rotary_emb(query, key, freqs_cis)
        return x + query.flatten(2) * key.mean()


class MetaModel(torch.nn.Module):  # type: ignore[misc]
    """Meta's style: a complex table as a plain attribute, and `start_pos`."""

    def __init__(self, base: float = 10000.0) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(128, HEADS * HEAD_DIM)
        self.layers = torch.nn.ModuleList(MetaBlock() for _ in range(3))
        angles = torch.outer(torch.arange(64).float(), frequencies(base))
        self.freqs_cis = torch.polar(torch.ones_like(angles), angles)

    def forward(self, tokens: Any, start_pos: int = 0) -> Any:
        x = self.embedding(tokens)
        rows = self.freqs_cis[start_pos : start_pos + tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, rows)
        return x


class RotateHalves(torch.nn.Module):  # type: ignore[misc]
    """A rotary module that rotates one tensor (batch, heads, L, D) at given positions."""

    def __init__(self, base: float) -> None:
        super().__init__()
        self.register_buffer("inv_freq", frequencies(base))

    def forward(self, x: Any, positions: Any) -> Any:
        angles = positions[:, None, :, None].float() * self.inv_freq
        first, second = x.chunk(2, dim=-1)
        cos = angles.cos().to(x.dtype)
        sin = angles.sin().to(x.dtype)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class HalvesBlock(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, base: float) -> None:
        super().__init__()
        self.projections = Projections()
        self.turn = RotateHalves(base)

    def forward(self, x: Any, positions: Any) -> Any:
        query, key = self.projections(x)
        turned = self.turn(query.transpose(1, 2), positions)
        keys = self.turn(key.transpose(1, 2), positions)
        return x + turned.transpose(1, 2).flatten(2) * keys.mean()


class HalvesModel(torch.nn.Module):  # type: ignore[misc]
    """A rotary module in each layer, and positions that the model counts by its mask."""

    def __init__(self, base: float = 10000.0) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(128, HEADS * HEAD_DIM)
        self.stack = torch.nn.ModuleList(HalvesBlock(base) for _ in range(3))

    def forward(self, input_ids: Any, attention_mask: Any) -> Any:
        positions = (attention_mask.cumsum(-1) - 1).clamp(min=0)
        x = self.embedding(input_ids)
        for block in self.stack:
            x = block(x, positions)
        return x


class RopeInPlace(torch.nn.Module):  # type: ignore[misc]
    """A module that rotates queries and keys (batch, L, heads, D) in place, by cached tables."""

    def __init__(self, base: float) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(64).float(), frequencies(base))
        self.cos_cached = angles.cos()
        self.sin_cached = angles.sin()

    def forward(self, query: Any, key: Any, offset: int) -> tuple[Any, Any]:
        rows = slice(offset, offset + query.shape[1])
        cos = self.cos_cached[rows, None]
        sin = self.sin_cached[rows, None]
        for x in (query, key):
            first, second = x.clone().chunk(2, dim=-1)
            x[..., : HEAD_DIM // 2] = first * cos - second * sin
            x[..., HEAD_DIM // 2 :] = second * cos + first * sin
        return query, key


class InPlaceModel(torch.nn.Module):  # type: ignore[misc]
    """One rotary module that all layers share, and a cache that the model keeps to itself."""

    def __init__(self, base: float = 10000.0) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(128, HEADS * HEAD_DIM)
        self.rope = RopeInPlace(base)
        self.blocks = torch.nn.ModuleList(InPlaceBlock(self.rope) for _ in range(2))
        self.used = 0

    def forward(self, tokens: Any) -> Any:
        offset = self.used
        self.used += tokens.shape[1]
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, offset)
        return x


class InPlaceBlock(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, rope: RopeInPlace) -> None:
        super().__init__()
        self.projections = Projections()
        self.rope = rope

    def forward(self, x: Any, offset: int) -> Any:
        query, key = self.projections(x)
        query, key = self.rope(query, key, offset)
        return x + query.flatten(2) * key.mean()
