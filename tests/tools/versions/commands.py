"""Random command lines, in a folder of small files that they can read and write."""

import io
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from versions.configs import Configurations
from versions.draw import Draw
from versions.dumps import Waves, draw_dump
from versions.outcomes import BYTES_SHOWN, Case

PRESETS = (
    "llama-3.1-8b",
    "gpt-oss-20b",
    "gemma-3-1b",
    "gpt2",
    "mpt-7b",
    "t5-small",
    "whisper-tiny",
)
TEXT_SUFFIXES = (".html", ".svg", ".pdf", ".xml")
"""Files that are mostly sentences or drawings, whose bytes are compared only with `--with-text`."""

MODEL_OPTIONS = {
    "--model": (*PRESETS, "config.json", "unknown-model"),
    "--config": ("config.json", "missing.json"),
    "--layer-type": ("full_attention", "sliding_attention", "decoder"),
}
OUTPUT_OPTIONS = {"--json": None, "-q": None, "--no-progress": None}
TOLERANCE_OPTIONS = {
    "--atol": ("1e-3", "1e-6", "-1", "x"),
    "--rtol": ("1e-3",),
    "--max-ulp": ("1", "0", "1.5"),
}
GENERATOR_OPTIONS = {
    **OUTPUT_OPTIONS,
    **TOLERANCE_OPTIONS,
    "-o": ("t.npy", "t.npz", "t.safetensors", "t.csv", "t.json", "t.h", "-", "no/t.npy", "t.xyz"),
    "--dtype": ("float64", "float16", "bfloat16", "int8", "fp16"),
    "--verify": ("cos.npy", "dump.npz", "dump.npz:cos", "missing.npy"),
    "--no-header": None,
}
ROPE_OPTIONS = {
    **GENERATOR_OPTIONS,
    **MODEL_OPTIONS,
    "--seq-len": ("4", "64", "0", "1k"),
    "--dim": ("8", "64", "7"),
    "--theta": ("10000", "500000", "-1"),
    "--offset": ("3", "-3"),
    "--layout": ("halves", "interleaved", "neox"),
    "--scaling": ("linear", "yarn", "dynamic", "llama3", "su"),
    "--factor": ("4", "0.5"),
    "--original-len": ("64", "4096"),
    "--positions": ("0,1,5", "positions.npy", "a,b"),
    "--grid": ("4x4", "2x3x4", "4"),
    "--recipe": ("float32", "float33"),
    "--runtime": ("vllm", "llama.cpp"),
    "--rope-theta": ("1",),
}
COMMANDS: dict[str, tuple[tuple[str, ...], dict[str, tuple[str, ...] | None]]] = {
    "rope": (("--seq-len 8 --dim 16", "--model llama-3.1-8b --seq-len 8"), ROPE_OPTIONS),
    "sinusoidal": (
        ("--seq-len 8 --dim 16", "--grid 3x4 --dim 16 --style mae"),
        {
            **GENERATOR_OPTIONS,
            "--base": ("100", "0"),
            "--layout": ("halves",),
            "--style": ("whisper", "wisper"),
            "--cos-first": None,
            "--padding-idx": ("0", "99"),
            "--scale": ("0.5",),
        },
    ),
    "alibi": (
        ("--heads 8", "--heads 3 --seq-len 5"),
        {
            **GENERATOR_OPTIONS,
            "--slopes": None,
            "--form": ("causal", "key", "key-last"),
            "--max-bias": ("16",),
            "--rule": ("naive",),
        },
    ),
    "learned-init": (
        ("--max-len 6 --dim 4",),
        {**GENERATOR_OPTIONS, "--init": ("uniform", "zeros", "x"), "--seed": ("7",)},
    ),
    "relative": (
        ("--style t5 --seq-len 6", "--style swin --grid 3x3", "--model t5-small"),
        {**GENERATOR_OPTIONS, "--causal": None, "--buckets": ("8", "3")},
    ),
    "config": (
        ("config.json", "llama-3.1-8b", "gpt2 bert-base", "folder", "random.json"),
        {**OUTPUT_OPTIONS, "--seq-len": ("4096", "x"), "--strict": None},
    ),
    "models": (("", "llama", "zzz"), OUTPUT_OPTIONS),
    "inspect": (
        ("dump.npz", "cos.npy", "damaged.npz", "folder", "table.csv", "missing.npy"),
        {**OUTPUT_OPTIONS, "--stats": None},
    ),
    "verify": (
        (
            "dump.npz --model config.json",
            "cos.npy --model config.json",
            "folder --model config.json",
            "after.npy --before before.npy --model config.json",
            "pecli.toml",
            "damaged.npz dump.npz",
            "rope.npz",
        ),
        {
            **OUTPUT_OPTIONS,
            **TOLERANCE_OPTIONS,
            **MODEL_OPTIONS,
            "--strict": None,
            "--junit": ("report.xml",),
            "--recipe": ("float32",),
            "--offset": ("1",),
            "--layout": ("halves", "interleaved"),
            "--seq-axis": ("-2", "0", "5"),
            "--positions": ("0,1,2", "positions.npy"),
        },
    ),
    "diff": (
        ("dump.npz rope.npz", "cos.npy dump.npz:cos", "cos.npy cos.npy", "before.npy after.npy"),
        {**OUTPUT_OPTIONS, **TOLERANCE_OPTIONS, "--model": ("config.json",)},
    ),
    "identify": (("dump.npz", "cos.npy", "table.csv", "damaged.npz"), OUTPUT_OPTIONS),
    "audit": (
        ("rope --seq-len 64 --dim 16", "sinusoidal --seq-len 32 --dim 8", "alibi --heads 4"),
        {**OUTPUT_OPTIONS, "--recipes": ("float32", "float32,x"), "--tolerance": ("1e-5",)},
    ),
    "runtimes": (
        ("config.json --length 64", "gpt-oss-20b --length 256", "random.json --length 100"),
        {**OUTPUT_OPTIONS, "--runtime": ("vllm", "x"), "--strict": None},
    ),
    "extend": (
        ("config.json --to 16384", "llama-3.1-8b --to 1000000", "qwen2.5-7b --to 65536"),
        {**OUTPUT_OPTIONS, "--method": ("yarn", "linear", "x"), "-o": ("out.json",)},
    ),
    "convert": (
        ("weights.safetensors --from halves --to interleaved --heads 2 -o out.safetensors",),
        {**OUTPUT_OPTIONS, "--kv-heads": ("1",), "--dtype": ("float16",), "--check": None},
    ),
    "resize": (
        ("table.npy --to 9 -o out.npy", "table.npy --to 5x5 --grid 3x4 -o out.npy"),
        {**OUTPUT_OPTIONS, "--method": ("cubic", "x"), "--antialias": None, "--keep": ("1",)},
    ),
    "apply": (
        (
            "rope before.npy --model config.json -o out.npy",
            "sinusoidal before.npy -o out.npy",
            "rope before.npy -o out.npy",
        ),
        {**OUTPUT_OPTIONS, "--offset": ("4",), "--inverse": None, "--layout": ("halves",)},
    ),
    "plot": (
        (
            "rope --dim 16 --seq-len 32",
            "cos.npy",
            "dump.npz:cos --kind curves",
            "alibi --heads 4 --kind slopes",
            "config.json",
        ),
        {"--kind": ("heatmap", "curves", "similarity", "x"), "--title": ("T",), "-q": None},
    ),
    "golden": (("-o golden --model config.json", "config.json -o golden"), OUTPUT_OPTIONS),
    "report": (("config.json -o report.html", "dump.npz -o report.html"), OUTPUT_OPTIONS),
    "": (("--version", "--help", "unknown", "explain x", ""), {}),
}
"""Every command: words that it can be called with, and options to add to them."""
RARE = {"plot": 0.3, "golden": 0.1, "report": 0.1}
"""Slow commands, and the share of draws of them that are kept."""


def draw_words(draw: Draw) -> list[str]:
    """Return the words of a command line, every fifth time with a mistake."""
    name = draw.choice(sorted(COMMANDS))
    while not draw.chance(RARE.get(name, 1.0)):
        name = draw.choice(sorted(COMMANDS))
    calls, options = COMMANDS[name]
    words = shlex.split(f"{name} {draw.choice(calls)}")
    for option, values in options.items():
        if draw.chance(min(0.3, 1.5 / len(options))):
            words.append(option)
            if values is not None:
                words.append(draw.choice(values))
    if draw.chance(0.2) and words:
        _spoil(draw, words)
    return words


def _spoil(draw: Draw, words: list[str]) -> None:
    place = draw.integer(0, len(words) - 1)
    kind = draw.choice(["drop", "repeat", "mistype", "empty"])
    if kind == "drop":
        words.pop(place)
    if kind == "repeat":
        words.insert(place, words[place])
    if kind == "mistype":
        words[place] = words[place][:-1] + "z"
    if kind == "empty":
        words[place] = ""


class CommandCases:
    """Cases that run a command line in a fresh copy of a folder of small files."""

    def __init__(self, configurations: Configurations) -> None:
        self.configurations = configurations

    def case(self, draw: Draw) -> Case:
        words = draw_words(draw)
        seed = draw.integer(0, 2**31)
        return Case(f"pecli {shlex.join(words)}", lambda: self._compute(words, seed))

    def manifest_case(self, draw: Draw) -> Case:
        """Return a case that verifies the files of a random manifest."""
        words = ["verify", "pecli.toml", "--json", *draw.choice([(), ("--atol", "1e-3")])]
        seed = draw.integer(0, 2**31)
        return Case(f"files {seed}: pecli {shlex.join(words)}", lambda: self._compute(words, seed))

    def _compute(self, words: list[str], seed: int) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder, working_folder(folder):
            self._write_files(Draw(seed))
            before = _digests()
            result = run_command(words)
            written = {
                name: entry for name, entry in _digests().items() if before.get(name) != entry
            }
        return {**result, "files": written}

    def _write_files(self, draw: Draw) -> None:
        """Write the files that command lines name, with random contents."""
        dump = draw_dump(draw)
        numbers = {
            name: array if array.dtype.kind in "fc" else array.astype(np.float32)
            for name, array in dump.tensors.items()
        }
        np.savez("dump.npz", **numbers)
        cos, sin = dump.right.cos_and_sin()
        np.savez("rope.npz", cos=cos.astype(np.float32), sin=sin.astype(np.float32))
        np.save("cos.npy", cos.astype(np.float32))
        np.save("positions.npy", np.arange(cos.shape[0]))
        np.savetxt("table.csv", cos[:16].round(6), delimiter=",")
        np.save("table.npy", draw.normal(12, 4).astype(np.float32))
        before = draw.normal(4, cos.shape[0], dump.right.dim).astype(np.float32)
        np.save("before.npy", before)
        np.save("after.npy", _rotate_half(before, dump.right))
        _write_json("config.json", dump.right.config())
        _write_json("random.json", self.configurations.draw(draw))
        Path("folder").mkdir()
        shutil.copy("dump.npz", "folder/dump.npz")
        _write_json("folder/config.json", dump.right.config())
        _write_damaged(draw)
        _write_weights(draw)
        Path("pecli.toml").write_text(draw_manifest(draw), encoding="utf-8")


def _write_json(path: str, value: Any) -> None:
    Path(path).write_text(json.dumps(value), encoding="utf-8")


def _rotate_half(before: np.ndarray[Any, Any], waves: Waves) -> np.ndarray[Any, Any]:
    cos, sin = waves.cos_and_sin()
    first, second = np.split(before, 2, axis=-1)
    after = np.concatenate([first * cos - second * sin, second * cos + first * sin], -1)
    return after.astype(np.float32)


def _write_damaged(draw: Draw) -> None:
    """Write a copy of dump.npz that is cut, or in which some bytes are changed."""
    data = bytearray(Path("dump.npz").read_bytes())
    if draw.chance(0.3):
        del data[draw.integer(0, len(data)) :]
    for _ in range(draw.integer(0, 3)):
        if data:
            data[draw.integer(0, len(data) - 1)] = draw.integer(0, 255)
    Path("damaged.npz").write_bytes(data)


def _write_weights(draw: Draw) -> None:
    """Write a small checkpoint as .safetensors, whose header is JSON behind its length."""
    names = ("layers.0.self_attn.q_proj.weight", "layers.0.self_attn.k_proj.weight", "norm.weight")
    header = {}
    data = b""
    for name in names:
        tensor = draw.normal(16, 4).astype(np.float32)
        end = len(data) + tensor.nbytes
        header[name] = {"dtype": "F32", "shape": [16, 4], "data_offsets": [len(data), end]}
        data += tensor.tobytes()
    text = json.dumps(header).encode()
    Path("weights.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)


MANIFEST_KEYS = {
    "file": ('"dump.npz"', '"cos.npy"', '"*.npz"', '"missing.npy"', '"after.npy"', "3", '""'),
    "model": ('"config.json"', '"llama-3.1-8b"', '"unknown"'),
    "config": ('"config.json"', '"missing.json"'),
    "scheme": ('"rope"', '"sinusoidal"', '"rop"'),
    "table": ('"table.npy"', "[[1, 2], [3, 4]]"),
    "name": ('"a check"', '""'),
    "before": ('"before.npy"',),
    "attention_mask": ('"positions.npy"', "[[1, 1]]", "3"),
    "atol": ("1e-3", "-1", '"x"'),
    "max_ulp": ("2",),
    "recipe": ('"float32"', '"x"'),
    "runtime": ('"vllm"',),
    "shift": ("3",),
    "offset": ("0", "1", '"a"'),
    "positions": ('"positions.npy"', "[0, 1, 2]"),
    "layer_type": ('"full_attention"',),
    "seq_len": ("8",),
    "dim": ("16",),
    "unknown": ("1",),
}
"""Values of keys of a manifest: right ones first, then wrong ones."""
RIGHT_CHECKS: tuple[dict[str, str], ...] = (
    {"model": '"config.json"', "atol": "1e-3"},
    {"config": '"config.json"', "atol": "1e-3"},
    {"scheme": '"rope"', "seq_len": "8", "dim": "16"},
    {"file": '"after.npy"', "config": '"config.json"', "before": '"before.npy"', "atol": "1e-3"},
    {"file": '"before.npy"', "table": '"table.npy"', "before": '"before.npy"'},
    {},
)


def draw_manifest(draw: Draw) -> str:
    """Return the text of a manifest with a few checks, some of them wrong."""
    lines = []
    if draw.chance(0.2):
        lines = [
            "[defaults]",
            draw.choice(["atol = 1e-3", "max_ulp = 1", "name = 'x'", "rtol = -1"]),
        ]
    for _ in range(draw.choice([0, 1, 1, 1, 2, 3])):
        check = {"file": draw.choice(MANIFEST_KEYS["file"][:4]), **draw.choice(RIGHT_CHECKS)}
        check |= draw.some(MANIFEST_KEYS, 0.02)
        lines.append("[[check]]")
        lines += [f"{key} = {value}" for key, value in check.items()]
    if draw.chance(0.05):
        lines.append(draw.choice(["[[", "check = 3", "[x.y.z.w]"]))
    return "\n".join(lines)


def run_command(words: list[str]) -> dict[str, Any]:
    """Run a command line in this process; return its exit code and what it printed."""
    from pecli.cli.app import run

    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err
    try:
        code = run(words)
    finally:
        sys.stdout, sys.stderr = streams
    return {"code": int(code), "stdout": _printed(out), "stderr": _printed(err)}


def _printed(stream: io.TextIOWrapper) -> Any:
    """Return JSON where that was printed, numbers where only they were, a digest of other bytes."""
    data = stream.buffer.getvalue()  # type: ignore[attr-defined]
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"bytes": sha256(data).hexdigest()[:BYTES_SHOWN]}
    for parse in (_json_lines, _numbers):
        try:
            return parse(text)
        except ValueError:
            continue
    return text


def _json_lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def _numbers(text: str) -> list[float]:
    return [float(word) for word in text.split()]


def _digests() -> dict[str, Any]:
    """Return a digest of every file in this folder.

    Digests of files that are mostly text have a blank, so that they count as sentences.
    """
    digests: dict[str, Any] = {}
    for path in sorted(Path().rglob("*")):
        if path.is_file():
            data = _without_seconds(path.read_bytes())
            digests[str(path)] = sha256(data).hexdigest()[:BYTES_SHOWN]
            if path.suffix in TEXT_SUFFIXES:
                digests[str(path)] = f"text {digests[str(path)]}"
    return digests


def _without_seconds(data: bytes) -> bytes:
    """Return a file without the seconds of a JUnit report, which differ in every run."""
    if not data.startswith(b"<?xml"):
        return data
    return re.sub(rb' time="[0-9.]+"', b"", data)


@contextmanager
def working_folder(path: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)
