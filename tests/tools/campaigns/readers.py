"""Damage files of every format: every answer is right or one clear line, and memory stays small.

Each file is a good one with a few changes: bytes replaced, inserted and removed, lines cut, moved
and repeated, words of other files put in. Tables are inspected and verified, configurations read;
what must never happen is a traceback, exit code 70, an error of several lines, or more than four
times its size of memory.
"""

import io
import json
import random
import sys
import tempfile
import tracemalloc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import chdir
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import pecli
from pecli.errors import FileError
from pecli.files.load import load_file
from tests.eval_callback_log import eval_callback_log
from tests.tools.campaigns import Result
from tests.tools.campaigns.answers import Answer, answer_to

ROWS = 24
DIM = 64
CODES = (0, 1, 2, 3)
MAX_FACTOR = 4
SMALL = 1 << 20
"""Bytes of memory that any file may take: pieces of text, and what Python keeps of a module."""
MODEL = "tinyllama-1.1b"
RAW = ("--shape", f"2,-1,{DIM}", "--raw-dtype", "f32")
SPLINTERS = (
    *(b"...", b"nan", b"inf", b"1e999", b"-", b"[", b"]", b"{", b"}", b"\0", b"\xff\xfe", b"\n"),
    *(b"0x", b"1_0", b"tensor(", b"q = ", b"cos[3] =", b'"', b"\\", b"null", b"9" * 400, b",,"),
    *(
        b" ROPE(",
        b"= (f32)",
        b"{64, 4, 9, 1}",
        b"\xe2\x80\xa6",
        b"1e-",
        b"e",
        b"/*",
        b"#",
        b"\x1b[0m",
    ),
)


DATA = Path(__file__).parents[2] / "files" / "data"
BINARY_SAMPLES = (
    DATA / "torch_views.pt",
    DATA / "tiny.gguf",
    DATA / "tiny_llama" / "onnx" / "model.onnx",
)
CONFIG = "config.json"


def good_files() -> dict[str, bytes]:
    """Return good files by their names: one of each form."""
    return {**text_files(), **binary_files(), **configurations()}


def text_files() -> dict[str, bytes]:
    """Return tables as text, as JSON, and as raw numbers."""
    tables = pecli.Rope(ROWS, DIM).tables()
    cos = tables["cos"]
    sin = tables["sin"]
    queries = np.random.default_rng(0).standard_normal((9, 4, DIM)).astype(np.float32)
    named = {"Qcur-0": queries}
    rows = [" ".join(f"{value:.6f}" for value in row) for row in cos]
    labelled = []
    for number in range(ROWS):
        for name, table in (("cos", cos), ("sin", sin)):
            numbers = ", ".join(f"{value:.4f}" for value in table[number])
            labelled.append(f"[INFO] {name}[{number}] = {numbers}")
    with np.printoptions(threshold=sys.maxsize):
        printed = f"cos = {cos!r}\nsin = {sin!r}\n"
    typed = {"shape": list(cos.shape), "cos": {n: float(x) for n, x in enumerate(cos.flat)}}
    lists = {"model": "x", "cos": cos.tolist(), "sin": sin.tolist()}
    braces = ",\n".join("{" + ", ".join(f"{value:.8f}f" for value in row) + "}" for row in cos)
    texts = {
        "rows.txt": "\n".join(rows) + "\n",
        "column.txt": "\n".join(map(str, cos.reshape(-1))) + "\n",
        "labelled.log": "\n".join(labelled) + "\n",
        "printed.txt": printed,
        "header.h": f"static const float cos[{ROWS}][{DIM // 2}] = {{\n{braces}\n}};\n",
        "heads.log": "\n".join(lines_per_head(queries)) + "\n",
        "typed.json": json.dumps(typed),
        "lists.json": json.dumps(lists),
        "list.json": json.dumps(cos.tolist()),
        "cut.log": eval_callback_log(named, named),
        "whole.log": eval_callback_log(named, named, edge=4096),
    }
    files = {name: text.encode() for name, text in texts.items()}
    return {**files, "raw.bin": np.stack([cos, sin]).tobytes(), "raw.f32": cos.tobytes()}


def lines_per_head(queries: NDArray[np.float32]) -> Iterator[str]:
    """Yield lines of few digits, as a loop over positions and heads prints them."""
    for name in ("q_before", "q_after"):
        for row, heads in enumerate(queries):
            for head, channels in enumerate(heads):
                numbers = " ".join(f"{value:.2f}" for value in channels)
                yield f"{name} pos {row} head {head}: {numbers}"


def binary_files() -> dict[str, bytes]:
    """Return tables in formats with a header, some of which other libraries have written."""
    table = pecli.Rope(ROWS, DIM)
    files = {path.name: path.read_bytes() for path in BINARY_SAMPLES}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("rope.npy", "rope.npz", "rope.safetensors"):
            path = Path(folder, name)
            pecli.save(path, table)
            files[name] = path.read_bytes()
    compressed = io.BytesIO()
    np.savez_compressed(compressed, **table.tables())
    return {**files, "compressed.npz": compressed.getvalue()}


def configurations() -> dict[str, bytes]:
    """Return a model's configuration in JSON, with a scaling of many numbers."""
    scaling = {
        "rope_type": "longrope",
        "short_factor": [1.0] * 16,
        "long_factor": [float(number) for number in range(1, 17)],
        "original_max_position_embeddings": 4096,
    }
    config = {
        "model_type": "phi3",
        "hidden_size": 128,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_hidden_layers": 2,
        "max_position_embeddings": 131072,
        "rope_theta": 10000.0,
        "partial_rotary_factor": 1.0,
        "rope_scaling": scaling,
        "layer_types": ["full_attention", "sliding_attention"],
        "sliding_window": 64,
    }
    return {CONFIG: json.dumps(config, indent=1).encode()}


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Return a file with one or two changes."""
    result = bytearray(data)
    for _ in range(chance.randint(1, 2)):
        start = chance.randrange(len(result) + 1)
        stop = min(len(result), start + chance.choice((1, 1, 4, 40, 4000)))
        match chance.randrange(9):
            case 0:
                result[start:stop] = chance.randbytes(stop - start)
            case 1:
                result[start:start] = chance.choice(SPLINTERS)
            case 2:
                del result[start:stop]
            case 3:
                result[start:start] = result[start:stop]
            case 4:
                del result[start:]
            case 5:
                result[start:stop] = chance.choice(SPLINTERS) * chance.choice((1, 1, 50))
            case _:
                digits = [place for place in range(start, stop) if result[place] in b"0123456789"]
                for place in digits[:1]:
                    result[place] = chance.choice(b"0123456789")
    return bytes(result)


def peak_memory(path: str) -> int:
    """Return the most bytes that reading a file took at a time."""
    tracemalloc.start()
    try:
        load_file(path)
    except FileError:
        pass  # Refusing it takes memory as well.
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return peak


def commands_for(path: str) -> list[tuple[str, ...]]:
    """Return the command lines that read a file."""
    if path == CONFIG:
        return [
            ("config", path, "--json"),
            ("rope", "--config", path, "--seq-len", "4", "--json"),
            ("runtimes", path, "--json"),
        ]
    raw = RAW if path.startswith("raw") else ()
    return [
        ("inspect", path, "--stats", *raw),
        ("verify", path, "--model", MODEL, "-q", "--atol", "1e-3", *raw),
    ]


def attempt_file(path: str, data: bytes, label: str) -> Result:
    """Run the commands that read a file, and measure the memory that reading it takes."""
    outcomes = []
    problems = []
    for words in commands_for(path):
        answer = answer_to(*words)
        outcomes.append(f"exit {answer.code:d}")
        problems += [f"{words[0]} {problem}" for problem in problems_of(answer)]
    peak = peak_memory(path)
    if peak > MAX_FACTOR * len(data) + SMALL:
        problems.append(f"takes {peak:,} bytes of memory for {len(data):,}")
    result = Result()
    result.add(label, outcomes, problems)
    return result


def problems_of(answer: Answer) -> Iterator[str]:
    """Yield what is wrong with an answer."""
    if answer.code not in CODES:
        yield f"exits with {answer.code}: {answer.error}"
    if answer.code == 3 and answer.error.count("\n"):
        yield f"prints several lines: {answer.error}"
    if answer.code == 3 and not answer.error.startswith("pecli: error: "):
        yield "gives no reason"


def attempt(numbers: Iterable[int], seed: int) -> Iterator[Result]:
    """Damage a file per number, and yield the answers to it."""
    yield from attempt_files(good_files(), numbers, seed)


def attempt_files(
    files: Mapping[str, bytes], numbers: Iterable[int], seed: int
) -> Iterator[Result]:
    """Damage one of the files per number, and yield the answers to it."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for name, data in files.items():
            # Modules that a format needs are imported here: their memory is not the file's.
            Path(name).write_bytes(data)
            peak_memory(name)
        for number in numbers:
            chance = random.Random(f"{seed}/{number}")
            name = chance.choice(sorted(files))
            data = damaged(files[name], chance)
            Path(name).write_bytes(data)
            yield attempt_file(name, data, f"file {seed}/{number}, {name}")
