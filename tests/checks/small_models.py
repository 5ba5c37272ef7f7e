"""Configurations of small models: 4 heads of 16 channels, base 500,000."""

from typing import Any

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "rope_theta": 500000.0,
}
TWO_LAYER_TYPES: dict[str, Any] = {
    **CONFIG,
    "model_type": "gemma3_text",
    "layer_types": ["sliding_attention", "full_attention"],
    "rope_local_base_freq": 100.0,
    "head_dim": 16,
}
"""A Gemma 3 whose sliding layers have base 100."""
