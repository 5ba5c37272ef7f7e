"""Random configurations: those of real models, with keys changed, dropped, added and nested."""

import json
from pathlib import Path
from typing import Any

import pecli
from versions.draw import Draw
from versions.outcomes import Case

ROPE_KEYS: dict[str, tuple[Any, ...]] = {
    "rope_theta": (10000.0, 500000, 1e6, "10000", None, -1),
    "rotary_emb_base": (10000, 25000),
    "rope_local_base_freq": (10000.0,),
    "partial_rotary_factor": (0.25, 0.5, 1.0, 0.0, 2),
    "rotary_pct": (0.25, 1.0),
    "rotary_dim": (32, 64),
    "head_dim": (64, 80, 128, 256, 0, "64"),
    "qk_rope_head_dim": (64,),
    "num_attention_heads": (8, 32, 40),
    "num_key_value_heads": (1, 8, None),
    "hidden_size": (2048, 4096, 5120),
    "max_position_embeddings": (2048, 4096, 131072, None),
    "original_max_position_embeddings": (2048, 4096),
    "model_max_length": (2048,),
    "sliding_window": (4096, None),
    "layer_types": (["full_attention", "sliding_attention"], ["full_attention"]),
    "no_rope_layers": ([1, 1, 0, 1], []),
    "alibi": (True, False),
    "use_alibi": (True,),
    "position_embedding_type": ("absolute", "rotary", "alibi", "relative_key"),
    "use_scaled_rope": (True, False),
    "rope_interleaved": (True, False),
    "mrope_section": ([16, 24, 24],),
    "unknown_setting": (1, "text"),
    "model_type": ("llama", "qwen2", "gpt_neox", "gemma3", "phi3", "mamba", "bert", "t5", "mpt"),
}
SCALING_TYPES = ("linear", "dynamic", "ntk", "yarn", "longrope", "su", "llama3", "default", "mrope")
SCALING_KEYS: dict[str, tuple[Any, ...]] = {
    "factor": (2.0, 4, 8.0, 40, "4", 0.5),
    "original_max_position_embeddings": (2048, 4096, 8192, 32768),
    "low_freq_factor": (1.0,),
    "high_freq_factor": (4.0,),
    "beta_fast": (32, 16),
    "beta_slow": (1, 2),
    "mscale": (1.0, 0.707),
    "mscale_all_dim": (1.0, 0.707),
    "attention_factor": (1.0, 1.2),
    "attn_factor": (1.0,),
    "alpha": (1000.0,),
    "truncate": (False, True),
    "rope_theta": (1e6, 10000.0),
    "mrope_section": ([16, 24, 24],),
    "long_factor": ([1.0] * 32, [2.0] * 64, [3.0]),
    "short_factor": ([1.0] * 32, [1.5] * 64),
    "partial_rotary_factor": (0.5,),
}


class Configurations:
    """Configurations of real models, from which random ones are made."""

    def __init__(self, path: Path) -> None:
        self.configs: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))

    def draw(self, draw: Draw) -> dict[str, Any]:
        """Return a model's configuration, in most cases with a few changes."""
        config = dict(draw.choice(self.configs))
        if draw.chance(0.2):
            return config
        for _ in range(draw.integer(1, 4)):
            self._change(draw, config)
        if draw.chance(0.05):
            config = {"model_type": config.get("model_type"), "text_config": config}
        return config

    def _change(self, draw: Draw, config: dict[str, Any]) -> None:
        kind = draw.choice(["set", "set", "drop", "scaling", "scaling"])
        if kind == "set":
            key = draw.choice(sorted(ROPE_KEYS))
            config[key] = draw.choice(ROPE_KEYS[key])
        if kind == "drop" and config:
            config.pop(draw.choice(sorted(config)))
        if kind == "scaling":
            key = draw.choice(["rope_scaling", "rope_scaling", "rope_parameters"])
            config[key] = self._scaling(draw)

    def _scaling(self, draw: Draw) -> Any:
        if draw.chance(0.05):
            return draw.choice([None, {}, "linear", [1], 4.0])
        kind = draw.choice(["rope_type", "rope_type", "type"])
        scaling = {kind: draw.choice(SCALING_TYPES), **draw.some(SCALING_KEYS, 0.3)}
        if draw.chance(0.5):
            scaling["factor"] = 4.0
        return scaling

    def case(self, draw: Draw) -> Case:
        """Return a case about reading a configuration."""
        config = self.draw(draw)
        length = draw.choice([None, 1, 4096, 100_000])
        return Case(f"load_config({config!r}), length {length}", lambda: _compute(config, length))


def _compute(config: dict[str, Any], length: int | None) -> dict[str, Any]:
    model = pecli.load_config(config)
    return model.as_json(length)
