"""Measure pecli beside NumPy, torch (if it is installed) and the limits of the machine.

    pip install torch
    python -m tests.tools.bench [--quick] [--cpu] [--write] [FOLDER]

Every figure is the best of several turns, taken in rotation, so that other load of the machine
affects all alike. On a busy machine, --cpu compares processor time instead of elapsed time. Rows
that end with «NumPy only» are measured without the compiled loops of the extra `fast`. --write puts
the figures into the reference and the README. The folder needs 6 GiB; a run takes less than ten
minutes.
"""

import argparse
import json
import math
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import pecli
from pecli.engine import application
from pecli.engine.arrays import AnyArray
from pecli.engine.table import work_through
from tests.conftest import MEASURE

Work = Callable[[], object]
Works = dict[str, Work]
"""Functions to measure, by label; the others are compared with the first one."""
Clock = Callable[[], float]


class Row(NamedTuple):
    """A measured number with its unit, and with its ratio to the first one if it is a time."""

    label: str
    value: float
    unit: str


ROOT = Path(__file__).parents[2]
FIGURES = re.compile(r"(<!-- begin figures.*? -->\n)(.*?)(<!-- end figures -->)", re.DOTALL)
PECLI = (sys.executable, "-m", "pecli")
"""The command of this checkout; an installed one may be another version."""
NUMPY_ONLY = "NumPy only"
KERNELS = "PECLI_KERNELS"
ROWS, DIM = 65_536, 1_024
LAYERS = 16
"""Layers of a quantised model, which are compared in threads."""
SUMMARY = """
65,536 × 1,024 float32 in memory, exact | pecli, every element correctly rounded | torch, float32, 2 threads
the same without numba | pecli, every element correctly rounded, NumPy only | torch, float32, 2 threads
rotating 32 × 4,096 × 128 in halves | pecli, halves | torch, halves, as Hugging Face writes it
comparing two files of 1 GiB | pecli diff, equal | cat a b > /dev/null
a small table, start-up included | pecli sinusoidal --seq-len 512 --dim 64 -o pe.npy | import numpy, typer
"""
"""The README's rows: a title, the label of pecli, and the label that it is compared with."""


def cpu_time() -> float:
    """Return the processor time of this process and of its children that have ended."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def both_ways(label: str, work: Work) -> Works:
    """Return a function with compiled loops, if numba is installed, and with NumPy only."""

    def work_with(setting: str) -> Work:
        def call() -> None:
            os.environ[KERNELS] = setting
            try:
                work()
            finally:
                del os.environ[KERNELS]

        return call

    works = {f"{label}, {NUMPY_ONLY}": work_with("0")}
    if find_spec("numba"):
        works = {label: work_with("1"), **works}
    return works


def run(*words: object, check: bool = True) -> Work:
    return lambda: subprocess.run([*map(str, words)], check=check, stdout=subprocess.DEVNULL)


def best(works: Works, turns: int, clock: Clock) -> list[Row]:
    """Return the shortest time of each function after one warm-up."""
    shortest = dict.fromkeys(works, math.inf)
    for turn in range(turns + 1):
        for label, work in works.items():
            start = clock()
            work()
            elapsed = clock() - start
            if turn > 0:
                shortest[label] = min(shortest[label], elapsed)
    first = next(iter(shortest.values()))
    rows = []
    for label, seconds in shortest.items():
        rows.append(Row(label, 1000 * seconds, f"ms  × {seconds / first:.2f}"))
    return rows


def plain_table(library: Any, dtype: str, table_dtype: str = "float32") -> object:
    """Return a sinusoidal table as a user of NumPy or torch would compute it in a dtype."""
    computed = getattr(library, dtype)
    positions = library.arange(ROWS, dtype=computed)[:, None]
    exponents = library.arange(0, DIM, 2, dtype=computed) * (-math.log(10000.0) / DIM)
    angles = positions * library.exp(exponents)
    table = library.empty((ROWS, DIM), dtype=getattr(library, table_dtype))
    table[:, 0::2] = library.sin(angles)
    table[:, 1::2] = library.cos(angles)
    return table


def table_into(target: AnyArray) -> None:
    """Write an exact sinusoidal table into an array, in threads."""
    table = pecli.Sinusoidal(*target.shape).tensors()[0]
    step = table.block_rows()

    def fill_block(start: int) -> None:
        table.fill(start, target[start : start + step])

    work_through(fill_block, range(0, len(target), step))


def tables_in_float32() -> Works:
    """Compute a table in float32, as NumPy does, but with the same bits on every machine."""
    recipe = pecli.Sinusoidal(ROWS, DIM, recipe="float32")
    return {
        "NumPy, float32": lambda: plain_table(np, "float32"),
        **both_ways("pecli --recipe float32", recipe.tables),
    }


def tables(torch: Any) -> Iterator[Works]:
    source = np.ones((ROWS, DIM), np.float32)
    target = np.empty_like(source)
    exact = pecli.Sinusoidal(ROWS, DIM)
    works = both_ways("pecli, every element correctly rounded", exact.tables)
    works |= both_ways("pecli, into existing memory", lambda: table_into(target))
    if torch:  # Its threads keep spinning for a while, so NumPy comes before pecli's next turn.
        works["torch, float32, 2 threads"] = lambda: plain_table(torch, "float32")
    works["NumPy, float32 throughout"] = lambda: plain_table(np, "float32")
    works["NumPy, float64 then cast"] = lambda: plain_table(np, "float64")
    works["memcpy of the same bytes"] = lambda: np.copyto(target, source)
    yield works
    yield {
        "NumPy, float64, not exact": lambda: plain_table(np, "float64", "float64"),
        "pecli --dtype float64": pecli.Sinusoidal(ROWS, DIM, dtype="float64").tables,
    }
    alibi = pecli.Alibi(32, 2048)
    bias = alibi.tables()["bias"]
    room = np.empty_like(bias)
    yield {
        "memcpy of a bias": lambda: np.copyto(room, bias),
        "pecli alibi, 32 × 2048 × 2048": alibi.tables,
    }
    draws = np.random.default_rng(0)
    works = {
        "NumPy, standard_normal in float32": lambda: (
            0.02 * draws.standard_normal((ROWS, DIM), np.float32)
        ),
        "pecli learned-init": pecli.LearnedInit(ROWS, DIM).tables,
    }
    if torch:
        works["torch, normal_"] = lambda: torch.empty(ROWS, DIM).normal_(0, 0.02)
    yield works


def rotations(torch: Any) -> Iterator[Works]:
    """Rotate (1, 32, 4096, 128) in float32, into existing memory except for Hugging Face's way.

    Then compare a layer, which rotates in float32 and keeps its factors, with `pecli.apply`, which
    rotates in float64, into new memory both.
    """
    x = np.random.default_rng(0).standard_normal((1, 32, 4096, 128)).astype(np.float32)
    target = np.empty_like(x)
    made = pecli.Rope(4096, 128).tables()
    factors = (made["cos"] + 1j * made["sin"]).astype(np.complex64)

    def rotated(layout: str) -> Work:
        return lambda: application.rotate(
            x, lambda start, stop: factors[start:stop], layout, layout, out=target
        )

    works: Works = {
        "memcpy": lambda: np.copyto(target, x),
        **both_ways("pecli, interleaved", rotated("interleaved")),
        **both_ways("pecli, halves", rotated("halves")),
    }
    if torch:
        q, room = torch.from_numpy(x), torch.empty(x.shape)
        cos, sin = (
            torch.from_numpy(np.concatenate([made[name]] * 2, axis=1)) for name in ("cos", "sin")
        )
        turns = torch.complex(cos[:, :64].contiguous(), sin[:, :64].contiguous())
        pairs, into = (
            torch.view_as_complex(tensor.view(*x.shape[:-1], 64, 2)) for tensor in (q, room)
        )
        works["torch, interleaved, as a complex product"] = lambda: torch.mul(
            pairs, turns, out=into
        )
        works["torch, halves, as Hugging Face writes it"] = lambda: (
            (q * cos) + (torch.cat((-q[..., 64:], q[..., :64]), dim=-1) * sin)
        )
    yield works
    rope = pecli.Rope(4096, 128)
    works = {}
    for layout in ("halves", "interleaved"):
        layer = pecli.RotaryPosEmbedding(128, interleaved=layout == "interleaved")
        works |= both_ways(f"pecli.RotaryPosEmbedding, {layout}", partial(layer, x))
        works |= both_ways(f"pecli.apply, {layout}", partial(pecli.apply, x, rope, layout=layout))
    yield works


def to_disk(folder: Path) -> Iterator[Works]:
    scheme = pecli.Sinusoidal(ROWS, DIM)
    table = scheme.tables()["pe"]

    def save_and_sync() -> None:
        with open(folder / "ready.npy", "wb") as file:
            np.save(file, table)
            file.flush()
            os.fsync(file.fileno())

    yield {
        "np.save + fsync of a ready array": save_and_sync,
        "pecli.save to .npy, made and synced": lambda: pecli.save(folder / "made.npy", scheme),
        "pecli.save to .safetensors, hashed too": lambda: pecli.save(
            folder / "made.safetensors", scheme
        ),
    }


def text_files(folder: Path) -> Iterator[Works]:
    table = pecli.Sinusoidal(2_000, 1_000).tables()["pe"]
    paths = {suffix: folder / f"t.{suffix}" for suffix in ("csv", "json", "h")}

    def json_dump() -> None:
        with open(folder / "other.json", "w") as file:
            json.dump({"pe": table.tolist()}, file)

    works: Works = {
        "np.savetxt, nine digits": lambda: np.savetxt(folder / "other.csv", table, "%.9g", ","),
        "json.dump": json_dump,
    }
    for suffix, path in paths.items():
        works[f"pecli.save to .{suffix}"] = lambda path=path: pecli.save(path, {"pe": table})
    yield works
    yield {
        "np.loadtxt": lambda: np.loadtxt(paths["csv"], delimiter=",", skiprows=1),
        "pecli.load of .csv": lambda: pecli.load(paths["csv"]),
        "pecli.load of .json": lambda: pecli.load(paths["json"]),
    }
    program = f"import numpy; numpy.loadtxt({str(paths['csv'])!r}, delimiter=',', skiprows=1)"
    yield {
        "np.loadtxt, start-up included": run(sys.executable, "-c", program),
        "pecli identify of .csv": run(*PECLI, "identify", "-q", paths["csv"], check=False),
    }


def compared(folder: Path, size: int) -> Iterator[Works]:
    """Compare files with whole commands: equal ones, and ones that differ in three ways."""
    random = np.random.default_rng(0)
    draw = random.standard_normal((size // 4096, 1024), dtype=np.float32)
    noise = draw * (1 + np.float32(1e-4) * random.standard_normal(draw.shape, dtype=np.float32))
    files = {
        "a": draw,
        "same": draw,
        "off": (draw.view(np.int32) + 1).view(np.float32),
        "noise": noise,
    }
    paths = {name: folder / f"{name}.npy" for name in files}
    for name, table in files.items():
        np.save(paths[name], table)

    def diff(other: str, *options: str) -> Work:
        return run(*PECLI, "diff", "-q", paths["a"], paths[other], *options, check=False)

    yield {
        "cat a b > /dev/null": run("cat", paths["a"], paths["off"]),
        "pecli diff, equal": diff("same"),
        "pecli diff, every element off by one unit": diff("off"),
        "pecli diff, noise on every element": diff("noise"),
        "pecli diff, noise, with --atol 1e-3": diff("noise", "--atol", "1e-3"),
    }
    for path in paths.values():
        path.unlink()


def write_quantised(path: Path, weights: AnyArray) -> None:
    """Write a Llama in Q8_0, with a matrix per layer."""
    from gguf import GGMLQuantizationType, GGUFWriter
    from gguf.quants import quantize

    writer = GGUFWriter(str(path), "llama")
    writer.add_context_length(4096)
    writer.add_embedding_length(weights.shape[1])
    writer.add_block_count(LAYERS)
    writer.add_head_count(8)
    writer.add_rope_freq_base(10000.0)
    kind = GGMLQuantizationType.Q8_0
    for layer, matrix in enumerate(np.array_split(weights, LAYERS)):
        writer.add_tensor(f"blk.{layer}.ffn_up.weight", quantize(matrix, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def compared_models(folder: Path, size: int) -> Iterator[Works]:
    """Compare models in Q8_0 with a whole command; all elements differ."""
    random = np.random.default_rng(0)
    weights = random.standard_normal((size // 1088, 1024), dtype=np.float32)  # 34 bytes for 32
    paths = (folder / "a.gguf", folder / "b.gguf")
    write_quantised(paths[0], weights)
    write_quantised(paths[1], weights * np.float32(1.001))
    words = ("diff", "-q", *paths)
    yield {
        "cat of models > /dev/null": run("cat", *paths),
        **both_ways("pecli diff, Q8_0", run(*PECLI, *words, check=False)),
    }
    for path in paths:
        path.unlink()


def start_up(folder: Path) -> Iterator[Works]:
    python = sys.executable
    table = ("sinusoidal", "--seq-len", "512", "--dim", "64")
    small = (*PECLI, *table, "-o", folder / "pe.npy")
    yield {
        "import numpy, typer": run(python, "-c", "import numpy, typer"),
        "pecli sinusoidal --seq-len 512 --dim 64 -o pe.npy": run(*small),
        "  the same with --plot, in the terminal": run(*small, "--plot"),
    }
    yield {
        "import typer": run(python, "-c", "import typer"),
        "pecli --version": run(*PECLI, "--version"),
    }
    model = ("rope", "--model", "llama-3.1-8b", "--kind", "wavelengths")
    imports = "import matplotlib.figure, matplotlib.backends.backend_agg"
    yield {
        "import matplotlib.figure, …backend_agg": run(python, "-c", imports),
        "pecli plot, a heatmap, to .png": run(*PECLI, "plot", *table, "-o", folder / "x.png"),
        "pecli plot, wavelengths, to .png": run(*PECLI, "plot", *model, "-o", folder / "x.png"),
    }


def peak_memory(folder: Path) -> list[Row]:
    rows = []
    for label, length in (("4 MiB", 1024), ("4 GiB", 1024 * 1024)):
        output = folder / "large.npy"
        words = [*PECLI, "sinusoidal", "--seq-len", str(length), "--dim", "1024", "-o", str(output)]
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, *words], check=True, capture_output=True, text=True
        )
        peak = float(done.stdout.split()[1])
        rows.append(Row(f"peak memory of a {label} table", peak, "MiB"))
        output.unlink()
    small, large = rows
    return [small, large, Row("  the difference", large.value - small.value, "MiB")]


def sections(folder: Path, clock: Clock, *, quick: bool) -> dict[str, list[Row]]:
    """Measure everything, and return the rows of each section."""
    turns = 2 if quick else 7
    # Two threads are compared with NumPy's one here. Those of torch would take a core from them.
    figures = {f"tables of {ROWS:,} × {DIM:,} in float32": best(tables_in_float32(), turns, clock)}
    torch = import_module("torch") if find_spec("torch") else None
    if torch:
        torch.set_num_threads(2)
    compared_bytes = 1 << (28 if quick else 30)
    compared_size = "256 MiB" if quick else "1 GiB"
    parts = {
        f"tables of {ROWS:,} × {DIM:,} in memory": tables(torch),
        "rotating 1 × 32 × 4096 × 128 float32": rotations(torch),
        "to disk, 268 MB": to_disk(folder),
        "2 M numbers as text": text_files(folder),
        f"comparing two files of {compared_size}": compared(folder, compared_bytes),
        f"comparing two models in Q8_0 of {compared_size}": compared_models(folder, compared_bytes),
        "start-up and pictures": start_up(folder),
    }
    for title, part in parts.items():
        figures[title] = []
        for works in part:
            figures[title] += best(works, turns, clock)
    if not quick:
        figures["memory"] = peak_memory(folder)
    return figures


def text_of(figures: dict[str, list[Row]]) -> str:
    """Return all figures as text, for the reference."""
    lines = ["× is how many times longer than the last line with × 1.00"]
    for title, rows in figures.items():
        lines += ["", title]
        lines += [f"  {row.label:<52} {row.value:>8.1f} {row.unit}" for row in rows]
    return "\n".join(lines)


def setting() -> str:
    """Return the versions and the machine of a run: «torch 2.15.0, NumPy 2.4.0, 2 cores (x86)»."""
    words = [f"NumPy {np.__version__}", f"Python {platform.python_version()}"]
    if find_spec("torch"):
        words.insert(0, f"torch {import_module('torch').__version__}")
    if find_spec("numba"):  # Compiled loops are used after some turns, and the best turn counts.
        words.append(f"numba {version('numba')}")
    words.append(f"{os.cpu_count()} cores ({platform.machine()})")
    return ", ".join(words)


def table_of(figures: dict[str, list[Row]]) -> str:
    """Return the rows of SUMMARY as a Markdown table, for the README."""
    times = {row.label: row.value for rows in figures.values() for row in rows}
    lines = [f"| {setting()} | pecli | compared with | | time ratio |", "|---|---|---|---|---|"]
    for summary in SUMMARY.strip().splitlines():
        title, ours, other = summary.split(" | ")
        if ours not in times or other not in times:
            continue
        ratio = times[ours] / times[other]
        lines.append(
            f"| {title} | {times[ours]:,.0f} ms | {other} | {times[other]:,.0f} ms | {ratio:.2f} |"
        )
    return "\n".join(lines)


def write_figures(path: Path, figures: str) -> None:
    """Replace the figures between the two comments of a page."""
    page = path.read_text(encoding="utf-8")
    written = FIGURES.sub(lambda match: f"{match[1]}\n{figures}\n\n{match[3]}", page, count=1)
    path.write_text(written, encoding="utf-8")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="fewer turns, smaller files, no 4 GiB table"
    )
    parser.add_argument("--cpu", action="store_true", help="processor time, not elapsed time")
    parser.add_argument(
        "--write", action="store_true", help="put the figures in samples/reference.md and README.md"
    )
    parser.add_argument("folder", nargs="?", default=".", help="where to write tables")
    return parser.parse_args()


def main() -> None:
    options = parse_arguments()
    clock = cpu_time if options.cpu else time.perf_counter
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        # Commands start as they do when installed: with compiled modules.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(name) / "pycache")
        figures = sections(Path(name), clock, quick=options.quick)
    text = text_of(figures)
    table = table_of(figures)
    print(f"{text}\n\n{table}")
    if options.write:
        about = f"The last run of `python -m tests.tools.bench --write`: {setting()}."
        write_figures(ROOT / "samples/reference.md", f"{about}\n\n```text\n{text}\n```")
        write_figures(ROOT / "README.md", table)


if __name__ == "__main__":
    main()
