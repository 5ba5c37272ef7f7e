"""Command lines, exit codes and a line of what they print, in two tables.

What is refused is one line on standard error that says what is wrong, and nothing is written. A row is a command line,
part of what it prints, and the exit code where it is not the usual one: 2 where it is refused, 0 where it is answered.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

ROWS = f"""
sinusoidal --seq-len 0 --dim 4 | --seq-len is 0; it must be a whole number from 1 to 2^40
sinusoidal --seq-len {2**63} --dim 4 | --seq-len is {2**63};
sinusoidal --seq-len {"9" * 5000} --dim 4 | --seq-len is 999
sinusoidal --seq-len 1.5 --dim 4 | --seq-len is '1.5';
sinusoidal --seq-len 4 --dim 0 | --dim is 0; it must be a whole number from 1 to 65,536
sinusoidal --dim 4 | --seq-len is missing;
sinusoidal --seq-len 4 --dim 4 --base nan | --base is nan; it must be a finite number above 0
sinusoidal --seq-len 4 --dim 4 --base 1e-300 | --base is 1e-300; frequencies must stay below 2^64
sinusoidal --seq-len 4 --dim 4 --layout halfs | did you mean 'halves'?
sinusoidal --seq-len 4 --dim 5 --style mlx | --dim is 5; the mlx style has even dims only
sinusoidal --seq-len 4 --dim 4 --offset {2**40 - 2} | the last position must be at most 2^40
sinusoidal --seq-len 4 --dim 4 -o t.foo | --output is t.foo; the suffix must be one of .npy
sinusoidal --seq-len 4 --dim 4 -o t.npz --dtype bfloat16 | --dtype is bfloat16;
sinusoidal --seq-len 4 --dim 4 -o no/t.npy | does not exist | 3
sinusoidal --seq-len 4 --dim 4 -o t.npy --verify t.npy | either written or checked
sinusoidal --seq-len 4 --dim 4 --verify t.npy --max-ulp -1 | --max-ulp is -1;
sinusoidal --seq-len 4 --dim 4 --verify t.npy --atol nan | --atol is nan;
sinusoidal --seq-len 4 --dim 4 --atol 1 | tolerances require --verify
sinusoidal --seq-len 4 --dim 4 --plot --json | a picture or data
sinusoidal --seq-len 4 --dim 4 --plot -o - | a picture or data
sinusoidal --seq-len 4 --dim 4 --plot --verify x.npy | drawn or checked
sinusoidal --seq-len 4 --dim 4 -o - --json | the table or JSON
sinusoidal --seq-len 4 --dim 4 more | unexpected extra argument
rope --seq-len 4 --dim 5 | --dim is 5; it must be an even whole number from 2 to 65,536
rope --seq-len 4 --dim 4 --theta nan | --theta is nan; it must be a finite number above 0
rope --seq-len 4 --dim 4 --theta=0 | --theta is 0;
rope --seq-len 4 --dim 4 --scaling yarn --factor 2 --original-len 0 | --original-len is 0;
rope --seq-len 4 --dim 8 --mrope-section 2,2 --mrope-interleaved maybe | --mrope-interleaved is 'maybe'
rope --seq-len 4 --config llama.json --model gpt2 | not both
rope --config llama.json | --seq-len is missing
rope --model gpt2 --seq-len 4 | --model is gpt2; it has no rotary encoding (found: learned
rope --config gpt2 --seq-len 4 | --config is gpt2; it has no rotary encoding
rope --model llama-3.1-8c --seq-len 4 | llama-3.1-8b
rope --seq-len 4 --dim 4 --layer-type full_attention | add --config or --model
rope --config dinov3.json --seq-len 4 | no table over positions 0, 1, 2, …: its positions are centres of patches
rope --model gemma-3-1b --seq-len 4 --layer-type global | sliding_attention
rope --model gemma-3-1b --seq-len 4 -o t.npy | --layer-type is missing
rope --config llama.json --seq-len 4 -o llama.json | it would overwrite the input config
rope --config dynamic.json --seq-len 8 --runtime llama.cpp | --runtime is llama.cpp; it has no dynamic scaling | 1
alibi --heads 0 | --heads is 0;
alibi --model gpt2 | it has no alibi table, but learned
relative --model t5-small | 'encoder', 'decoder'
learned-init --max-len 4 --dim 4 --seed {2**64} | --seed is {2**64}; it must be a whole number from 0 to 2^64
apply rotary x.npy -o o.npz | the scheme is 'rotary'; it must be one of sinusoidal, learned, alibi, rope
apply rope x.npy | '--output'
apply rope none.npy -o o.npz | does not exist | 3
apply rope torn.npy -o o.npz | torn.npy: | 3
apply rope x.npy -o no/y.npy | does not exist | 3
apply rope x.npy --positions none.npy -o o.npz | does not exist | 3
apply rope two.npz -o y.npy | holds one array
apply rope vector.npy -o o.npz | (8,); it must be (…, L, D)
apply rope odd.npy -o o.npz | (2, 4, 7); D, the last axis, must be an even
apply rope x.npy --dim 16 -o o.npz | (2, 4, 8); the rotary dimension is 16
apply rope x.npy --dim 3 -o o.npz | --dim is 3; it must be an even
apply rope ids.npy:array -o o.npz | (4,) and dtype int64
apply rope x.npy odd.npy -o o.npz | they must share D
apply rope x.npy --model llama-3.1-8b -o o.npz | has 128 channels
apply rope x.npy --model gpt2 -o o.npz | --model is gpt2; its encoding is learned, not rope
apply rope x.npy --model gemma-3-1b -o o.npz | --layer-type is missing
apply rope x.npy --positions few.npy -o o.npz | --positions is of shape (3,); the array of x.npy is of shape (2, 4, 8)
apply rope x.npy --positions batch.npy -o o.npz | --positions is of shape (3, 4); the array of x.npy is of shape
apply rope x.npy --positions x.npy -o o.npz | (L,) or (axes, L)
apply rope x.npy --mrope-section 1,1,2 --positions pair.npy -o o.npz | with 3 axes
apply rope x.npy --positions cube.npy -o o.npz | (1, 2, 4); they must be (L,) or (batch, L)
apply rope x.npy --positions -1,-2,-3 -o o.npz | 3 rows; L is 4
apply rope x.npy --positions ids.npy --offset 1 -o o.npz | --offset is given; --positions says
apply rope x.npy --seq-axis 2 -o o.npz | --seq-axis is 2; the array of x.npy is of shape (2, 4, 8), whose positions
apply rope x.npy --seq-axis -1 -o o.npz | axes 0 … 1
apply rope x.npy --shift 1 --offset 1 -o o.npz | --offset is given; --shift says where rows stand
apply rope x.npy --shift 1 --inverse -o o.npz | --inverse is given; a shift goes either way; change the sign of --shift
apply rope x.npy --shift 1 --positions ids.npy -o o.npz | --shift is given; --positions says
apply rope x.npy --shift 1 --positions 0.5,1,2,3 -o o.npz | --shift is given;
apply rope x.npy --attention-mask ids.npy --positions 0.5,1,2,3 -o o.npz | --attention-mask is
apply rope x.npy --shift far -o o.npz | --shift is 'far'; it must be a whole number
apply rope x.npy --offset -1 -o o.npz | --offset is -1; it must be a whole number from 0
apply rope x.npy --offset {2**40 - 2} -o o.npz | the last position must be at most 2^40
apply rope x.npy --layout compact -o o.npz | --layout is 'compact'; it must be one of halves, interleaved, deepseek
apply rope x.npy --tensor q -o o.npz | --tensor is 'q'; x.npy has x (2, 4, 8)
apply rope two.npz:q -o o.npz | two.npz: has no tensor 'q'; it has 'a', 'b' | 3
apply rope x.npy other/x.npy -o o.npz | the array of other/x.npy is given too
apply rope empty.npz -o o.npz | empty.npz has no tensors
apply rope q.npy --config llama.json -o o.npz | axis 2 would be positions, and 4 is a number of heads of llama.json
apply rope k.npy --config llama.json -o o.npz | and 2 is a number of heads of llama.json; give --seq-axis 1
apply alibi flat.npy -o o.npz | (4, 8); scores must be (…, H, Lq, Lk)
apply alibi tall.npy -o o.npz | (2, 8, 4); scores must be (…, H, Lq, Lk) with Lq ≤ Lk
apply alibi x.npy --heads 3 -o o.npz | (2, 4, 8); --heads is 3, and H is 2
apply alibi x.npy --causal --form key -o o.npz | --causal is given; --form is key
apply sinusoidal ids.npy -o o.npz | (4,) and dtype int64
apply sinusoidal flat.npy --grid 3x3 --style mae -o o.npz | 9 rows; L is 4
apply learned x.npy -o o.npz | '--table'; see pecli apply learned --help
apply learned x.npy --table flat.npy --offset 1 -o o.npz | rows up to 5 of 4
apply learned x.npy --table flat.npy --offset -1 -o o.npz | --offset is -1; it must be a whole number from 0
apply learned x.npy --table odd.npy -o o.npz | (2, 4, 7); a table must be (rows, D)
apply learned x.npy --table narrow.npy -o o.npz | (4, 3); they must share D
apply learned x.npy --table two.npz -o o.npz | --table is two.npz; it has a (4, 8), b (4, 8); name one, as FILE:NAME
audit learned-init --max-len 3 | the scheme is 'learned-init'; it must be one of sinusoidal, rope, alibi
audit ropes | did you mean 'rope'?
audit rope --seq-len 4 | --dim is missing
audit rope --model llama-3.1-8b | --seq-len is missing
audit alibi --heads 4 | --seq-len is missing; an audit runs over distances
audit rope --seq-len 4 --dim 8 --recipes float32,float23 | recipes[1] is 'float23'; it must be one of exact, float32,
audit rope --seq-len 4 --dim 8 --recipes= | error: --recipes[0] is ''
audit rope --seq-len 4 --dim 8 --tolerance -1 | --tolerance is -1; it must be a finite number of at least 0
audit rope --seq-len 4 --dim 8 -o drift.gif | --output is drift.gif; the suffix of a picture must be one of
config | MODEL is missing
config llama.json --seq-len 0 | --seq-len is 0
config --model no-such-model | --model is 'no-such-model'
config no-such-model | MODEL is 'no-such-model'
config --model qwen3-vl | these have it: qwen3-vl-2b, qwen3-vl-4b, qwen3-vl-30b-a3b
config --model gpt-neox | did you mean 'gpt-neox-20b'?
convert pe.npy | --output is missing
convert pe.npy -o x.foo | suffix
convert pe.npy --from halves -o o.npz | --to is missing
convert pe.npy --from halfs --to interleaved -o o.npz | did you mean 'halves'?
convert pe.npy --dtype int8 -o o.npz | --dtype is 'int8'
convert pe.npy --dtype float16 -o - --json | either the table or JSON
convert pe.npy --from halves --to interleaved --rotary-dim 10 -o o.npz | at most the 8
convert pe.npy --from halves --to interleaved --kv-heads 2 -o o.npz | --heads is missing
convert pe.npy --from halves --to interleaved --heads 0 -o o.npz | --heads is 0
convert pe.npy --from halves --to interleaved --check -o o.npz | --check is given
convert pe.npy --check | --check is given; scores are those of projections that move; give --from
convert pe.npy --rotary-dim 4 -o o.npz | --from is missing; --heads, --rotary-dim and --include
convert qk.npz --from halves --to interleaved --heads 3 -o o.npz | 16 rows are not 3 heads; check --heads, --kv-heads
convert qk.npz --from halves --to interleaved --heads 4 --include wq* -o o.npz | (16, 6)
convert lone.npz --from halves --to interleaved --heads 4 -o o.npz | --kv-heads is missing
convert uneven.npz --from halves --to interleaved --heads 4 -o o.npz | self_attn.k_proj.weight
convert scores.npy --from halves --to interleaved --heads 4 -o o.npy | (2, 4, 3, 8); a projection is (rows,
convert qk.npz -o x.npy | one array
convert qk.npz:layers.0.q -o x.npy | 'layers.0.self_attn.q_proj.weight' | 3
diff no.npy none.npy | no.npy: does not exist | 3
diff no.npy none.npy -o diff.gif | .png, .svg, .pdf
diff - - | standard input can be read once only
diff x.npy x.npy --atol -1 | --atol is -1
extend | MODEL is missing
extend llama-3.1-8b | --to is missing
golden | --output is missing
inspect none.npy | does not exist | 3
inspect hollow | hollow: | 3
inspect x.npy:name | x.npy | 3
inspect two.npz --filter wpx* | has no tensor that matches 'wpx*'; it has 2 | 3
inspect x.npy --rows x | --rows is 'x'
inspect x.npy --rows 8 | --rows is 8
inspect x.npy --cols 1:2:3 | --cols is '1:2:3'
inspect many.npy --rows : --cols : | --rows is
plot rope --kind wavelength | one of heatmap, curves,
plot alibi --kind wavelengths -o x.png | alibi has no such picture; take one of heatmap
plot rope -o x.gif | .png, .svg, .pdf; pecli plot --kind circle makes a .gif
plot rope --kind circle | not drawn in a terminal
plot rope --kind circle --against rope -o x.gif | one scheme
plot rope -o no/x.png | does not exist | 3
plot ropee | a scheme is one of sinusoidal | 3
plot missing.npy | missing.npy: does not exist | 3
plot torn.npy | torn.npy: | 3
plot vector.npy | no table with rows and columns
plot flat.npy --kind wavelengths | which pecli identify does not know, has no such
plot flat.npy --dim 4 | --dim is unknown
plot rope --dimm 4 | did you mean --dim
plot rope --dim 7 | --dim is 7
plot rope --against | stands before a scheme
plot rope --size 8 -o x.png | such as 8x5
plot rope --size 8x5 | add -o x.png
plot rope --dark | --dark is given; it only applies with -o
plot rope --dpi 1 -o x.png | --dpi is 1
plot rope --dpi 2400 -o x.png | more than 67,108,864 pixels
plot rope --dpi 10 --size 100x100 -o x.png | more than 67,108,864 pixels
plot {"flat.npy " * 13}| more than 12 panels
plot {"flat.npy " * 13}--kind similarity | more than 12 panels
plot rope --cmap viridiss -o x.png | did you mean 'viridis'
plot rope --channels 99 --kind curves | numbered from 0
plot rope --channels 1,2 --kind wavelengths | --channels is 1,2; wavelengths shows all of them
plot rope --channels {",".join(map(str, range(13)))} --kind curves | 13 lines; a picture has room for 12
plot rope --kind decay --against alibi | no common axis
plot rope --against rope --theta 500 --kind decay --label ours | there are 2 subjects
report x.npy | --output is missing
report x.npy -o report.pdf | --output is report.pdf
resize pe.npy | --to is missing
resize pe.npy --to 5x5 | --grid is missing
resize pe.npy --grid 4x4 --to 5x5 | 17 rows, and 4x4 are 16; check --grid and --keep
resize pe.npy --to 9 -o - --json | either the table or JSON
resize two.npz --to 5 | name one: FILE:NAME | 3
resize two.npz:c --to 5 | has no tensor 'c' | 3
runtimes | MODEL is missing
runtimes gpt2 --model llama-3.1-8b | MODEL is given 2 times
runtimes gpt-oss-20b -o drift.txt | .png, .svg, .pdf
runtimes gpt2 --runtime ollama | --runtime is 'ollama'; it must be one of
verify x.npy --model llama-3.1-8b --config c.json | not both
verify x.npy --offset 3 | add --config or --model
verify x.npy --layer-type full_attention | add --config or --model
verify x.npy --model gemma-3-1b --layer-type no | --layer-type is 'no'
verify x.npy --model lama-3.1-8b | did you mean 'llama-3.1-8b'?
verify x.npy --model llama-3.1-8b --offset x | --offset is 'x'
verify x.npy --model llama-3.1-8b --length 0 | --length is 0
verify x.npy --model llama-3.1-8b --atol x | --atol is 'x'
verify pecli.toml --model llama-3.1-8b | a manifest or a suite says itself
verify two.npz --model gpt2 | FILE:NAME | 3
verify flat.npy --config no.json | does not exist | 3
verify flat.npy | carries no pecli spec; | 3
"""
LLAMA = {"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}
DYNAMIC = {"rope_scaling": {"type": "dynamic", "factor": 2.0}, "max_position_embeddings": 64}


def write_files() -> None:
    rng = np.random.default_rng(0)
    x, ids = rng.standard_normal((2, 4, 8)).astype(np.float32), np.arange(4)
    arrays = {"x": x, "other/x": x, "vector": x[0, 0], "odd": x[..., :7], "flat": x[0], "narrow": x[0, :, :3]}
    arrays |= {"ids": ids, "few": ids[:3], "pair": np.stack([ids] * 2), "batch": np.stack([ids] * 3)}
    arrays |= {"tall": x.swapaxes(1, 2), "cube": np.zeros((1, 2, 4), int), "pe": rng.standard_normal((17, 8))}
    arrays |= {"q": np.ones((1, 16, 4, 8)), "k": np.ones((1, 16, 2, 8)), "many": np.zeros((1000, 1000), np.int8)}
    arrays["scores"] = np.ones((2, 4, 3, 8))
    Path("other").mkdir()
    Path("hollow").mkdir()
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    Path("torn.npy").write_bytes(Path("x.npy").read_bytes()[:-1])
    query, key = (f"layers.0.self_attn.{part}_proj.weight" for part in "qk")
    np.savez("two.npz", a=x[0], b=x[0])
    np.savez("empty.npz")
    np.savez("qk.npz", **{query: np.ones((16, 6)), key: np.ones((16, 6))})
    np.savez("lone.npz", **{key: np.ones((8, 4))})
    np.savez("uneven.npz", **{query: np.ones((16, 4)), key: np.ones((12, 4))})
    Path("pecli.toml").write_text("[[check]]\nfile = 'x.npy'\n")
    configs = {"llama": LLAMA, "dinov3": {"model_type": "dinov3_vit"}, "dynamic": {**LLAMA, **DYNAMIC}}
    configs["wibble"] = {**LLAMA, "model_type": "wibble"}
    for name, config in configs.items():
        Path(f"{name}.json").write_text(json.dumps(config))


REFUSED = [row.split(" | ") for row in ROWS.strip().splitlines()]


@pytest.mark.parametrize("command", dict.fromkeys(row[0].split()[0] for row in REFUSED))
def test_what_is_wrong_is_one_line(pecli_cli, command: str) -> None:
    write_files()
    before = sorted(os.listdir())
    for line, said, *code in REFUSED:
        if line.split()[0] == command:
            outcome = pecli_cli(*line.split())
            assert (outcome.code, outcome.out, outcome.err.count("\n")) == (int(*code or [2]), "", 1), (line, outcome)
            assert outcome.err.startswith("pecli: error: ")
            assert said in outcome.err, (line, outcome.err)
            assert not re.search(r"\b(kv_heads|head_dim|rotary_dim|seq_len|layer_type)\b", outcome.err), line
    assert sorted(os.listdir()) == before


ANSWERED = """
sinusoidal --seq-len 4 --dim 8 --style whisper --json | "layout": "halves"
sinusoidal --seq-len 4 --dim 8 --style whisper --json | "freq_shift": 1
sinusoidal --seq-len 4 --dim 8 --style whisper --freq-shift 0 --json | "freq_shift": 0
sinusoidal --seq-len 4 --dim 8 --style dit --json | "cos_first": true
sinusoidal --seq-len 4 --dim 8 --style dit --no-cos-first --json | "cos_first": false
sinusoidal --seq-len 6 --dim 4 --dtype bfloat16 -o t.h | t.h: pe 6 × 4 bfloat16,
sinusoidal --seq-len 6 --dim 4 --dtype bfloat16 -o t.csv | t.csv: pe 6 × 4 bfloat16,
sinusoidal --seq-len 6 --dim 4 --dtype bfloat16 -o t.safetensors | t.safetensors: pe 6 × 4 bfloat16,
verify t.safetensors | passed  t.safetensors
sinusoidal --model whisper-large-v3 --json | "dim": 1280
alibi --heads 2 --seq-len 3 --form causal --json | "min": null
alibi --heads 2 --seq-len 3 --form causal -o c.safetensors | c.safetensors:
verify c.safetensors | passed  c.safetensors
alibi --model mpt-7b --seq-len 8 --json | "form": "key-last"
learned-init --model gpt2 --max-len 16 --json | "max_len": 16
relative --model t5-small --layer-type decoder --json | "causal": true
rope --model llama-3.1-8b --seq-len 16 --json | "scaling": "llama3"
rope --model llama-3.1-8b --seq-len 4 --recipe float32 --json | "recipe": "float32"
rope --seq-len 20 --dim 8 --recipe float32-recurrence -o r.safetensors | r.safetensors:
inspect r.safetensors --json | "recipe": "float32-recurrence"
verify r.safetensors | passed  r.safetensors
rope --seq-len 20 --dim 8 --verify r.safetensors | FAILED  r.safetensors | 1
rope --seq-len 20 --dim 8 --recipe float32-recurrence --verify r.safetensors | passed  r.safetensors
diff r.safetensors:cos r.safetensors:cos | equal
diff r.safetensors:cos r.safetensors:sin | DIFFERENT  | 1
audit alibi --heads 12 --seq-len 400 | alibi seq_len=400 heads=12
audit alibi --heads 12 --seq-len 400 --json | "recipe": "bfloat16-table"
audit sinusoidal --seq-len 30 --dim 8 --style whisper --offset 995 | sinusoidal seq_len=30 dim=8 base=10000 offset=995
audit rope --model gpt-oss-20b --seq-len 64 --json --runtime llama.cpp | "first_beyond_tolerance": 4
audit rope --model gpt-oss-20b --seq-len 64 --json --recipes float32,mlx-lm | "recipe": "mlx-lm"
runtimes gpt-oss-20b --length 64 --strict | Not as defined: llama.cpp, mlx-lm, tensorrt-llm, litgpt | 1
runtimes gpt-oss-20b --length 64 --strict --tolerance 3 | All agree up to
runtimes gpt-oss-20b --length 64 --strict --runtime vllm | All agree up to
runtimes --model llama-3.1-8b --length 4096 --strict | All agree up to float32 rounding.
plot rope --model gpt-oss-20b --seq-len 32 --runtime llama.cpp -o rope.png | rope.png: 8 ×
rope --model gpt-oss-20b --seq-len 32 --runtime llama.cpp -o rope.npz | rope.npz:
report gpt-oss-20b rope.npz --runtime llama.cpp -o report.html | report.html:
models alibi --json | "name": "bloom-560m"
models Qwen mrope | no preset has 'qwen' and 'mrope' | 1
config wibble.json | wibble
config wibble.json --strict | wibble | 1
config llama.json --strict | llama
config llama.json dinov3.json | differences
convert pe.npy --dtype float16 -o half.npz | half.npz: 1 tensor (1 cast to float16),
convert qk.npz --from interleaved --to halves --heads 4 --check -o hf.npz | hf.npz: 2 tensors (2 moved),
convert qk.npz --from interleaved --to halves --heads 4 --include *.q_proj.* -o q.npz | q.npz: 2 tensors (1 moved),
"""


def test_what_is_answered(pecli_cli) -> None:
    write_files()
    for line, said, *code in [row.split(" | ") for row in ANSWERED.strip().splitlines()]:
        outcome = pecli_cli(*line.split())
        assert (outcome.code, said in outcome.out + outcome.err) == (int(*code or [0]), True), (line, outcome)
