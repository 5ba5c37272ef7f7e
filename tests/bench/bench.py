"""Side by side in one run: pecli against NumPy, torch (where installed) and the limits of the machine.

    python tests/bench/bench.py [--quick]

Every figure is the best of several turns, taken in rotation, so that what else the machine does hits all alike.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import pecli
from pecli.engine import turning

ROWS, DIM = 65_536, 1_024
SIZES = ("1 GiB", "256 MiB")
Work = Callable[[], object]


def best(works: dict[str, Work], turns: int) -> dict[str, float]:
    """The shortest time of each, after one warm-up."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(turns + 1):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            if turn:
                times[name].append(time.perf_counter() - start)
    return {name: min(each) for name, each in times.items()}


def with_numpy(dtype: type[np.floating]) -> np.ndarray:
    """As one would write it."""
    positions = np.arange(ROWS, dtype=dtype)[:, None]
    angles = positions * (10000.0 ** (-np.arange(0, DIM, 2) / DIM)).astype(dtype)
    table = np.empty((ROWS, DIM), np.float32)
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)
    return table


def torch_work() -> Work | None:
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(2)

    def work() -> object:
        positions = torch.arange(ROWS, dtype=torch.float32)[:, None]
        angles = positions * torch.exp(torch.arange(0, DIM, 2, dtype=torch.float32) * (-np.log(10000.0) / DIM))
        table = torch.empty(ROWS, DIM)
        table[:, 0::2], table[:, 1::2] = torch.sin(angles), torch.cos(angles)
        return table

    return work


def in_memory(turns: int) -> list[tuple[str, float, str]]:
    source = np.ones((ROWS, DIM), np.float32)
    target = np.empty_like(source)
    scheme = pecli.Sinusoidal(ROWS, DIM)
    works: dict[str, Work] = {
        "pecli, every element correctly rounded": scheme.tables,
        "NumPy, float32 throughout": lambda: with_numpy(np.float32),
        "NumPy, float64 then cast": lambda: with_numpy(np.float64),
        "memcpy of the same bytes": lambda: np.copyto(target, source),
    }
    if work := torch_work():
        works["torch, float32, 2 threads"] = work
    return _against_first(best(works, turns))


def alibi(turns: int) -> list[tuple[str, float, str]]:
    scheme = pecli.Alibi(32, 2048)
    source = scheme.tables()["bias"]
    target = np.empty_like(source)
    works: dict[str, Work] = {
        "pecli alibi, 32 × 2048 × 2048": scheme.tables,
        "memcpy of the same bytes ": lambda: np.copyto(target, source),
    }
    return _against_first(best(works, turns))


def rotating(turns: int) -> list[tuple[str, float, str]]:
    """(1, 32, 4096, 128) float32 into memory that is there already; torch, as Hugging Face writes it, makes its own."""
    x = np.random.default_rng(0).standard_normal((1, 32, 4096, 128)).astype(np.float32)
    target = np.empty_like(x)
    tables = pecli.Rope(4096, 128).tables()
    factors = (tables["cos"] + 1j * tables["sin"]).astype(np.complex64)

    def copy_in_threads() -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(np.copyto, (target[0, :16], target[0, 16:]), (x[0, :16], x[0, 16:])))

    def pecli_turn(interleaved: bool) -> Work:
        return lambda: turning.turn(x, lambda start, stop: factors[start:stop], interleaved=interleaved, out=target)

    works: dict[str, Work] = {
        "memcpy, 2 threads": copy_in_threads,
        "memcpy, 1 thread": lambda: np.copyto(target, x),
        "pecli, interleaved": pecli_turn(True),
        "pecli, halves": pecli_turn(False),
    }
    return _against_first(best(works | torch_rotations(x, tables), 3 * turns), of_first=True)


def torch_rotations(x: np.ndarray, tables: dict[str, np.ndarray]) -> dict[str, Work]:
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(2)
    q, room = torch.from_numpy(x), torch.empty(x.shape)
    cos, sin = (torch.from_numpy(np.concatenate([tables[name]] * 2, axis=1)) for name in ("cos", "sin"))
    factors = torch.complex(cos[:, :64].contiguous(), sin[:, :64].contiguous())

    def halves() -> object:
        turned = torch.cat((-q[..., 64:], q[..., :64]), dim=-1)
        return (q * cos) + (turned * sin)

    def complex_product() -> object:
        pairs, into = (torch.view_as_complex(each.view(*x.shape[:-1], 64, 2)) for each in (q, room))
        return torch.mul(pairs, factors, out=into)

    return {
        "torch, interleaved, as a complex product": complex_product,
        "torch, halves, as Hugging Face writes it": halves,
    }


def to_disk(turns: int, folder: Path) -> list[tuple[str, float, str]]:
    table = pecli.Sinusoidal(ROWS, DIM).tables()["pe"]

    def save_and_sync() -> None:
        with open(folder / "ready.npy", "wb") as file:
            np.save(file, table)
            file.flush()
            os.fsync(file.fileno())

    scheme = pecli.Sinusoidal(ROWS, DIM)
    works: dict[str, Work] = {
        "pecli.save to .npy, made and synced": lambda: pecli.save(folder / "made.npy", scheme),
        "pecli.save to .safetensors, hashed too": lambda: pecli.save(folder / "made.safetensors", scheme),
        "np.save + fsync of a ready array": save_and_sync,
    }
    return _against_first(best(works, turns))


def compared(turns: int, folder: Path, size: int) -> list[tuple[str, float, str]]:
    """Whole commands on files that are in memory already: equal, and different in one way or another."""
    command = str(Path(sys.executable).with_name("pecli"))
    paths = {name: folder / f"{name}.npy" for name in ("a", "same", "few", "off", "noise")}
    random = np.random.default_rng(0)
    draw = random.standard_normal((size // 4096, 1024), dtype=np.float32)
    for name in ("a", "same"):
        np.save(paths[name], draw)
    np.save(paths["off"], (draw.view(np.int32) + 1).view(np.float32))
    flat = draw.reshape(-1)
    places = random.choice(flat.size, 1000, replace=False)
    flat[places] += np.float32(0.01)
    np.save(paths["few"], draw)
    flat[places] -= np.float32(0.01)
    for rows in np.array_split(draw, 64):
        rows *= 1 + np.float32(1e-4) * random.standard_normal(rows.shape, dtype=np.float32)
    np.save(paths["noise"], draw)

    def run(*words: str | Path) -> Work:
        return lambda: subprocess.run(words, check=False, stdout=subprocess.DEVNULL)

    def diff(other: str, *options: str) -> Work:
        return run(command, "diff", "-q", paths["a"], paths[other], *options)

    works: dict[str, Work] = {
        "cat a b > /dev/null": run("cat", paths["a"], paths["off"]),
        "pecli diff, equal": diff("same"),
        "pecli diff, 1,000 elements changed": diff("few"),
        "pecli diff, every element off by one unit": diff("off"),
        "pecli diff, noise on every element": diff("noise"),
        "pecli diff, noise, with --atol 1e-3": diff("noise", "--atol", "1e-3"),
    }
    times = best(works, turns)
    for path in paths.values():
        path.unlink()
    base = times["cat a b > /dev/null"]
    return [(name, value * 1000, f"ms  {value / base:.2f} × cat") for name, value in times.items()]


def converted(folder: Path, layers: int) -> list[tuple[str, float, str]]:
    """A checkpoint whose q and k move, against a copy of it; each into a new file, on a disk that is at rest."""
    source, target = folder / "model.safetensors", folder / "out.safetensors"
    shapes = {"q_proj": 4096, "k_proj": 1024, "v_proj": 1024, "o_proj": 4096, "up_proj": 11008}
    tensors = {
        f"layers.{k}.{name}": np.ones((rows, 4096), np.float16) for k in range(layers) for name, rows in shapes.items()
    }
    pecli.save(source, tensors)
    command = [str(Path(sys.executable).with_name("pecli")), "convert", str(source), "-q", "-o", str(target)]
    command += ["--from", "halves", "--to", "interleaved", "--heads", "32"]
    times: dict[str, list[float]] = {"cp": [], "pecli convert, written and synced": []}
    for _ in range(4):
        for name, words in zip(times, (["cp", str(source), str(target)], command), strict=True):
            os.sync()
            start = time.perf_counter()
            subprocess.run(words, check=True)
            times[name].append(time.perf_counter() - start)
            target.unlink()
    source.unlink()
    return _against_first({name: min(each) for name, each in times.items()}, of_first=True)


def start_up(turns: int, folder: Path) -> list[tuple[str, float, str]]:
    def run(*words: str) -> Work:
        return lambda: subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

    python, command = sys.executable, str(Path(sys.executable).with_name("pecli"))
    small = [command, "sinusoidal", "--seq-len", "512", "--dim", "64", "-o", str(folder / "pe.npy")]
    rows = []
    for works in (
        {
            "pecli sinusoidal --seq-len 512 --dim 64 -o pe.npy": run(*small),
            "import numpy, typer": run(python, "-c", "import numpy, typer"),
        },
        {"pecli --version": run(command, "--version"), "import typer": run(python, "-c", "import typer")},
    ):
        rows += _against_first(best(works, turns * 3))
    return rows


def pictures(turns: int, folder: Path) -> list[tuple[str, float, str]]:
    """Figures against importing what draws them; a picture in the terminal against the same command without."""

    def run(*words: str) -> Work:
        return lambda: subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

    command = str(Path(sys.executable).with_name("pecli"))
    table = ["sinusoidal", "--seq-len", "512", "--dim", "64"]
    model = ["rope", "--model", "llama-3.1-8b", "--kind", "wavelengths"]
    works: dict[str, Work] = {
        "import matplotlib.figure, …backend_agg": run(
            sys.executable, "-c", "import matplotlib.figure, matplotlib.backends.backend_agg"
        ),
        "pecli plot, a heatmap, to .png": run(command, "plot", *table, "-o", str(folder / "x.png")),
        "pecli plot, wavelengths, to .png": run(command, "plot", *model, "-o", str(folder / "x.png")),
    }
    rows = _against_first(best(works, turns * 2), of_first=True)
    plain = [command, *table, "-o", str(folder / "pe.npy")]
    shown = best({"without": run(*plain), "with": run(*plain, "--plot")}, turns * 3)
    return [*rows, ("--plot in the terminal, beside -o pe.npy", 1000 * (shown["with"] - shown["without"]), "ms more")]


MEASURE = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(child.pid, 0)
assert status == 0, status
print(usage.ru_maxrss / 1024)
"""
"""A small process of its own: a child's peak counts that of the process it was forked from."""


def peak_memory(folder: Path) -> list[tuple[str, float, str]]:
    """The largest resident size of whole commands."""
    command = str(Path(sys.executable).with_name("pecli"))
    rows = []
    for label, length in (("4 MiB", 1024), ("4 GiB", 1024 * 1024)):
        output = folder / "large.npy"
        words = [command, "sinusoidal", "--seq-len", str(length), "--dim", "1024", "-o", str(output)]
        result = subprocess.run([sys.executable, "-c", MEASURE, *words], check=True, capture_output=True, text=True)
        rows.append((f"peak memory of a {label} table", float(result.stdout), "MiB"))
        output.unlink()
    return [*rows, ("  the difference", rows[1][1] - rows[0][1], "MiB")]


def _against_first(times: dict[str, float], *, of_first: bool = False) -> list[tuple[str, float, str]]:
    """With `of_first` the factor is how many times longer than the first line each takes, not the other way round."""
    (first, base), *others = times.items()
    rows = [(first, base * 1000, "ms")]
    ratios = [value / base if of_first else base / value for _, value in others]
    return rows + [(name, value * 1000, f"ms  × {k:.2f}") for (name, value), k in zip(others, ratios, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer turns, and no 4 GiB table")
    quick = parser.parse_args().quick
    turns = 2 if quick else 7
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        sections = [
            (f"in memory, {ROWS:,} × {DIM:,} float32", in_memory(turns)),
            ("ALiBi", alibi(turns)),
            ("rotating 1 × 32 × 4096 × 128 float32 (× is how many times longer than the first line)", rotating(turns)),
            ("to disk, 268 MB", to_disk(turns, folder)),
            (f"comparing two files of {SIZES[quick]}", compared(turns, folder, 1 << (28 if quick else 30))),
            (
                "converting a checkpoint (× is how many times longer)",
                converted(folder, 3 if quick else 12),
            ),
            ("start-up", start_up(turns, folder)),
            ("pictures (× is how many times longer than the first line)", pictures(turns, folder)),
        ]
        if not quick:
            sections.append(("memory", peak_memory(folder)))
    print("× is how many times longer the first line of a part takes\n")
    for title, rows in sections:
        print(title)
        for label, value, unit in rows:
            print(f"  {label:<52} {value:>8.1f} {unit}")


if __name__ == "__main__":
    main()
