"""Random command lines: whatever the words are, the answer is a result or one line, and in time.

A command line is a right one with a few options of its command added, some of them with values
that fit and some with hostile ones; every fourth line is spoilt afterwards. Exit codes are those of
the contract, an error is one line, JSON is JSON, and no temporary file is left behind.
"""

import json
import os
import random
import resource
import shlex
import shutil
import signal
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

import pecli
from tests.command_reference import all_commands
from tests.tools.campaigns import Result
from tests.tools.campaigns.answers import Answer, answer_to

CODES = (0, 1, 2, 3)
MAX_SECONDS = 60
MAX_FILE_BYTES = 256 << 20
MAX_LINE = 1200  # letters; the command cuts longer lines

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "max_position_embeddings": 128,
    "rope_theta": 10000.0,
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
}
CALLS = {
    "rope": ("--seq-len 8 --dim 16", "--model llama-3.1-8b --seq-len 8", "--grid 2x3 --dim 16"),
    "sinusoidal": ("--seq-len 8 --dim 16", "--grid 3x4 --dim 16 --style mae"),
    "alibi": ("--heads 8", "--heads 3 --seq-len 5"),
    "learned-init": ("--max-len 6 --dim 4",),
    "relative": ("--style t5 --seq-len 6", "--style swin --grid 3x3", "--model t5-small"),
    "config": ("config.json", "llama-3.1-8b", "gpt2 bert-base", "folder"),
    "models": ("", "llama", "zzz"),
    "inspect": ("rope.npz", "cos.npy", "cut.npz", "folder", "table.csv", "missing.npy", "raw.bin"),
    "verify": (
        "rope.npz --model config.json",
        "cos.npy --model config.json",
        "after.npy --before before.npy --model config.json",
        "pecli.toml",
        "cut.npz rope.npz",
        "rope.npz",
    ),
    "diff": ("rope.npz rope.safetensors", "cos.npy table.npy", "before.npy after.npy"),
    "identify": ("rope.npz", "cos.npy", "table.csv", "cut.npz", "raw.bin"),
    "audit rope": ("--seq-len 16 --dim 16",),
    "audit sinusoidal": ("--seq-len 16 --dim 8",),
    "audit alibi": ("--heads 4",),
    "runtimes": ("config.json --length 64", "gpt-oss-20b --length 256"),
    "extend": ("config.json --to 1024", "llama-3.1-8b --to 1000000"),
    "positions": ("qwen2.5-vl-7b --segments text:4,image:1x4x4,text:2",),
    "convert": (
        "rope.safetensors -o out.npz",
        "weights.safetensors --from halves --to interleaved --heads 2 -o out.safetensors",
    ),
    "resize": ("table.npy --to 9 -o out.npy", "table.npy --to 5x5 --grid 3x4 -o out.npy"),
    "apply rope": ("before.npy --model config.json -o out.npy", "before.npy -o out.npy"),
    "apply sinusoidal": ("before.npy -o out.npy",),
    "apply learned": ("before.npy --table table.npy -o out.npy",),
    "apply alibi": ("scores.npy -o out.npy",),
    "plot": ("rope --dim 16 --seq-len 32", "cos.npy", "config.json", "alibi --heads 4"),
    "golden": ("phi-2 -o golden",),
    "report": ("config.json -o report.html", "rope.npz -o report.html"),
}
"""Words that each command can be called with."""
SLOW = {"golden": 0.05, "report": 0.1, "plot": 0.3}
"""Slow commands, and the share of their draws that are kept."""

FILES = (
    *("rope.npz", "rope.npz:cos", "cos.npy", "cut.npz", "before.npy", "table.csv", "weights.h"),
    *("config.json", "pecli.toml", "rope.safetensors", "folder", "raw.bin", "missing.npy", "-"),
)
OUTPUTS = (
    *("t.npy", "t.npz", "t.safetensors", "t.csv", "t.json", "t.h", "t.png", "t.svg", "t.html", "-"),
    *("t.gif", "t.pdf", "t.xml", "no/t.npy", "t.xyz", "t", ".npy", "folder", "cos.npy"),
    *("/dev/null", "/dev/full", "", "a" * 300 + ".npy"),
)
OUTPUT_OPTIONS = ("output", "junit")
NUMBERS = ("1", "2", "4", "8", "16", "64", "0", "-1", "7", "1.5", "1e-3", "0.25", "1k", "1e400")
SIZES = ("4x4", "2x3x4", "3x", "0x4", "8,8", "2,-1,8", "0:4", "4:0", ":", "-2:", "1,2,3", "a,b")
NAMES = (
    *("llama-3.1-8b", "gpt2", "config.json", "t5-small", "unknown-model", "halves", "interleaved"),
    *("float32", "float16", "bfloat16", "f16", "int8", "yarn", "linear", "longrope", "t5", "mae"),
    *("vllm", "llama.cpp", "causal", "normal", "full_attention", "heatmap", "curves", "cubic"),
    *("--max-model-len 64", "--rope-scaling {}", "-c 4096 --rope-freq-base 1e6", "cos", "q*"),
)
HOSTILE = (
    *("", " ", "nan", "inf", "-inf", "--", "-", "=", "\0", "\n", "a\nb", "\udc80", "\x1b[31m", "é"),
    *("9" * 400, "-" + "9" * 400, "1e308", "5e-324", "0x10", "1_000", "٣", "a" * 100_000, "[", "{"),
    *(
        "[" * 5000,
        '{"a": [1, {',
        "null",
        "true",
        "../..",
        "/",
        "/proc/self/mem",
        "*",
        "%s%n",
        ":::",
    ),
    *(str(2**63), str(2**70), "1,2," * 2000, "x" * 50 + "," * 50, "🦙", "$(id)", "NaN,1"),
)


def draw_value(name: str, chance: random.Random) -> str:
    """Return a value for an option, which fits it more often than not."""
    if name in OUTPUT_OPTIONS:
        return chance.choice(OUTPUTS)
    kinds = (NUMBERS, NUMBERS, SIZES, NAMES, NAMES, FILES, HOSTILE)
    return chance.choice(chance.choice(kinds))


def draw_words(chance: random.Random, commands: dict[str, Any]) -> list[str]:
    """Return a random command line."""
    name = chance.choice(sorted(CALLS))
    while chance.random() > SLOW.get(name, 1.0):
        name = chance.choice(sorted(CALLS))
    words = shlex.split(f"{name} {chance.choice(CALLS[name])}")
    options = [option for option in commands[name].params if option.param_type_name == "option"]
    for option in chance.sample(options, min(len(options), chance.choice((0, 1, 1, 2, 3)))):
        words.append(chance.choice(option.opts))
        if not option.is_flag:
            words.append(draw_value(option.name, chance))
    if chance.random() < 0.25:
        spoil(words, chance)
    return words


def spoil(words: list[str], chance: random.Random) -> None:
    """Change one word of a command line, but for values of `-o`, so that all files stay here."""
    free = [place for place in range(len(words)) if words[place - 1] not in ("-o", "--output")]
    place = chance.choice(free)
    match chance.randrange(5):
        case 0:
            words.insert(place, words[place])
        case 1:
            words[place] = words[place][:-1] + "z"
        case 2:
            words[place] = chance.choice(HOSTILE)
        case 3:
            words.append(chance.choice(FILES))
        case _:
            words[place] = words[place].upper()


def write_files() -> None:
    """Write the files that command lines name into this folder."""
    rope = pecli.Rope(16, 16, base=10000.0)
    pecli.save("rope.npz", rope)
    pecli.save("rope.safetensors", rope)
    Path("cut.npz").write_bytes(Path("rope.npz").read_bytes()[:700])
    cos = rope.tables()["cos"]
    np.save("cos.npy", cos)
    np.savetxt("table.csv", cos, delimiter=",")
    Path("raw.bin").write_bytes(cos.tobytes())
    draws = np.random.default_rng(0)
    before = draws.standard_normal((4, 16, 16)).astype(np.float32)
    np.save("before.npy", before)
    np.save("after.npy", pecli.apply(before, rope))
    np.save("scores.npy", draws.standard_normal((4, 8, 8)).astype(np.float32))
    np.save("table.npy", draws.standard_normal((16, 16)).astype(np.float32))
    names = ("layers.0.self_attn.q_proj.weight", "layers.0.self_attn.k_proj.weight")
    pecli.save("weights.safetensors", dict.fromkeys(names, before[0]))
    Path("config.json").write_text(json.dumps(CONFIG))
    Path("folder").mkdir()
    shutil.copy("config.json", "folder")
    check = "[[check]]\nfile = 'rope.npz'\nmodel = 'config.json'\natol = 1e-3\n"
    Path("pecli.toml").write_text(check)


class TooSlowError(BaseException):
    """A command has taken more than MAX_SECONDS."""


def _stop(*_: object) -> NoReturn:
    raise TooSlowError


def attempt(numbers: Iterable[int], seed: int) -> Iterator[Result]:
    """Run a random command line per number, each in a fresh folder."""
    limit_process()
    commands = all_commands()
    with tempfile.TemporaryDirectory() as name:
        model = Path(name, "model")
        model.mkdir()
        with chdir(model):
            write_files()
        for number in numbers:
            words = draw_words(random.Random(f"{seed}/{number}"), commands)
            folder = Path(name, "work")
            shutil.copytree(model, folder)
            with chdir(folder):
                yield attempt_words(words, f"command {seed}/{number}")
            shutil.rmtree(folder)


def limit_process() -> None:
    """Let no command of this process read or write the standard streams, or write a large file."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE_BYTES, MAX_FILE_BYTES))
    os.environ.update(NO_COLOR="1", COLUMNS="100", MPLBACKEND="agg")


def attempt_words(words: list[str], label: str) -> Result:
    """Run a command line in this folder."""
    shown = shlex.join(word if len(word) < 80 else f"{word[:80]}…" for word in words)
    case = f"{label}, pecli {shown!r}"
    result = Result()
    try:
        with limited_time():
            answer = answer_to(*words)
    except TooSlowError:
        result.add(case, ["too slow"], [f"takes more than {MAX_SECONDS} s"])
        return result
    result.add(case, [f"exit {answer.code:d}"], problems_of(answer, words))
    return result


@contextmanager
def limited_time() -> Iterator[None]:
    """Raise TooSlowError in a block that takes more than MAX_SECONDS of CPU time."""
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def problems_of(answer: Answer, words: list[str]) -> Iterator[str]:
    """Yield what is wrong with an answer, and with the folder after it."""
    lines = answer.error.splitlines()
    if answer.code not in CODES:
        yield f"exits with {answer.code}: {answer.error[:300]}"
    if answer.code in (2, 3) and len(lines) > most_errors(words):
        yield f"prints {len(lines)} lines: {answer.error[:300]!r}"
    if answer.code == 3 and not lines:
        yield "exits with 3, and gives no reason"
    if any(not line.startswith("pecli: ") for line in lines):
        yield f"prints {answer.error[:300]!r} on standard error"
    if any(len(line) > MAX_LINE for line in lines):
        yield f"prints a line of {max(map(len, lines))} letters: {answer.error[:100]}"
    if "--json" in words and answer.code in (0, 1) and "--help" not in words:
        yield from _json_problems(answer.output)
    litter = [path.name for path in Path().rglob(".*.tmp")]
    if litter:
        yield f"leaves {litter}"


def most_errors(words: list[str]) -> int:
    """Return how many lines of errors there may be: one per file of commands that read several."""
    if words[0] not in ("config", "verify", "identify"):
        return 1
    before, separator, after = " ".join(words[1:]).partition("-- ")
    # A lone dash is standard input.
    files = [word for word in before.split() if word == "-" or not word.startswith("-")]
    files += [word for word in before.split() if word in ("--config", "--model")]
    if separator:  # Whatever follows is a file, even if it looks like an option.
        files += after.split()
    return max(1, len(files))


def _json_problems(output: str) -> Iterator[str]:
    for line in output.splitlines():
        try:
            json.loads(line, parse_constant=_refuse)
        except ValueError as problem:
            yield f"prints JSON that is none: {problem}: {line[:200]}"


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
