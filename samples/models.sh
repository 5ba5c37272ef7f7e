#!/bin/sh
# What a model's configuration asks for, and its tables, all kinds of layers at once.
set -e
cat > config.json <<'JSON'
{"model_type": "gemma3_text", "hidden_size": 1152, "num_attention_heads": 4, "head_dim": 256,
 "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0}
JSON
pecli config config.json
pecli rope --config config.json --seq-len 1024 -o rope.safetensors
pecli verify rope.safetensors
