"""Small configurations that several tests of models begin with."""

from typing import Any

Config = dict[str, Any]

#: A Llama of usual size: heads of 128 channels.
LLAMA_CONFIG: Config = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "max_position_embeddings": 8192,
}
#: A rotary model of no known family: heads of 16 channels.
SMALL_CONFIG: Config = {"hidden_size": 64, "num_attention_heads": 4, "rope_theta": 1e4}

UNSCALED: Config = {"rope_type": "default"}
LINEAR_SCALING: Config = {"rope_type": "linear", "factor": 2.0}
DYNAMIC_SCALING: Config = {"type": "dynamic", "factor": 2.0}
#: YaRN whose magnitudes of both kinds are given, as in DeepSeek-V3.
YARN_SCALING: Config = {
    "type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 32,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
}
LONGROPE_SCALING: Config = {
    "type": "longrope",
    "factor": 2.0,
    "original_max_position_embeddings": 32,
    "short_factor": [1.0] * 8,
    "long_factor": [2.0] * 8,
}
#: A model of MaxText: heads of 128 channels.
MAXTEXT_CONFIG: Config = {"base_emb_dim": 4096, "base_num_query_heads": 32, "head_dim": 128}
