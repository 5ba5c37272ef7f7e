#!/bin/sh
# Dumps of a model in a manifest, for CI: a table for people, a JUnit report, an exit code.
set -e
python3 - <<'PYTHON'
import numpy as np
inv_freq = 1 / 10000 ** (np.arange(0, 128, 2) / 128)
angles = np.arange(512)[:, None] * inv_freq
np.savez("dump.npz", **{
    "rotary_emb.cos_cached": np.cos(np.concatenate([angles, angles], 1)).astype(np.float32),
    "rotary_emb.sin_cached": np.sin(np.concatenate([angles, angles], 1)).astype(np.float32),
    "rotary_emb.inv_freq": inv_freq.astype(np.float32),
})
PYTHON
pecli alibi --heads 12 --seq-len 64 -q -o bias.safetensors
cat > pecli.toml <<'TOML'
[defaults]
atol = 1e-6

[[check]]
name = "the caches of a model"
file = "dump.npz"
model = "llama-2-7b"

[[check]]
name = "one of them, against a scheme"
file = "dump.npz:rotary_emb.sin_cached"
scheme = "rope"
seq_len = 512
dim = 128
layout = "halves"

[[check]]
file = "bias.safetensors"
max_ulp = 0
TOML
pecli verify pecli.toml --junit report.xml
# A model with another base: the check fails, and says so.
sed 's/llama-2-7b/llama-3-8b/' pecli.toml > other.toml
if pecli verify other.toml; then exit 1; fi
