"""Tables of nothing that pecli knows: noise, weights, learned tables, images, other waves, and tables of one scheme
compared with another. Nothing may be claimed of them, by identify or by verify.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.explain.explanation import Explanation
from pecli.explain.recognition import recognise
from pecli.explain.search import explain

Rng = np.random.Generator
Array = np.ndarray[Any, Any]


def noise(rng: Rng, rows: int, dim: int) -> Array:
    draw = [rng.normal, rng.uniform, rng.laplace, rng.logistic][int(rng.integers(4))]
    return np.asarray(rng.choice([0.02, 1.0, 5.0]) * draw(size=(rows, dim)))


def weights(rng: Rng, rows: int, dim: int) -> Array:
    """A product of thin matrices with some noise, or an orthogonal matrix."""
    if rng.random() < 0.3:
        return np.linalg.qr(rng.normal(size=(max(rows, dim), min(rows, dim))))[0].reshape(
            -1, min(rows, dim)
        )
    rank = int(rng.integers(1, 16))
    return rng.normal(size=(rows, rank)) @ rng.normal(size=(rank, dim)) / rank + 0.01 * rng.normal(
        size=(rows, dim)
    )


def learned(rng: Rng, rows: int, dim: int) -> Array:
    """Rows that are like their neighbours, as training makes them; or a walk."""
    steps = rng.normal(size=(rows, dim))
    if rng.random() < 0.5:
        return np.cumsum(steps, axis=0) / np.sqrt(rows)
    width = int(rng.integers(2, 20))
    kernel = np.exp(-(np.arange(-2 * width, 2 * width + 1) ** 2) / width**2)
    return np.stack(
        [np.convolve(column, kernel / kernel.sum(), "same") for column in steps.T], axis=1
    )


def image(rng: Rng, rows: int, dim: int) -> Array:
    """Soft blobs on a gradient, sometimes in 256 greys."""
    y, x = np.mgrid[0:rows, 0:dim] / max(rows, dim)
    blobs = rng.uniform(0.05, 1, (int(rng.integers(2, 12)), 4))
    found = sum(a * np.exp(-((y - b) ** 2 + (x - c) ** 2) / d) for a, b, c, d in blobs)
    found = found + rng.normal() * y + rng.choice([0.0, 0.01]) * rng.normal(size=(rows, dim))
    return np.asarray(np.round(found * 50) if rng.random() < 0.3 else found)


def other_waves(rng: Rng, rows: int, dim: int) -> Array:
    """Waves of other frequencies: any, harmonic, rising; sums, squares, fading ones; pairs of any phase."""
    at, index = np.arange(rows)[:, None], np.arange(dim)
    harmonics = np.pi / rows * (at + 0.5) * index
    angles = at * rng.uniform(0.01, 3, dim) + rng.uniform(0, 6, dim)
    makers: list[Callable[[], Any]] = [
        lambda: np.cos(angles),
        lambda: np.cos(harmonics),
        lambda: np.sin(at**2 * rng.uniform(1e-4, 1e-2, dim)),
        lambda: (
            sum(np.sin(at * rng.uniform(0.01, 2, dim) + rng.uniform(0, 6, dim)) for _ in range(4))
            / 4
        ),
        lambda: np.sign(np.sin(angles)),
        lambda: np.exp(-at / rng.uniform(20, 200, dim)) * np.sin(at * rng.uniform(0.05, 1, dim)),
        lambda: np.exp(1j * harmonics).view(np.float64).reshape(rows, dim, 2),
        lambda: np.exp(1j * angles).view(np.float64).reshape(rows, dim, 2),
    ]
    return np.asarray(makers[int(rng.integers(len(makers)))]())


def vector(rng: Rng, rows: int, dim: int) -> Array:
    values = rng.uniform(0, 1, dim) if rng.random() < 0.5 else rng.normal(size=dim)
    return np.sort(values)[::-1] if rng.random() < 0.5 else values


def mask(rng: Rng, rows: int, dim: int) -> Array:
    """Causal masks and windows, of zeros and ones or of large negative numbers."""
    distance = np.subtract.outer(np.arange(rows), np.arange(rows))
    seen = (distance >= 0) & (distance < int(rng.choice([rows, 16, 8])))
    return np.where(seen, 0.0, float(rng.choice([-np.inf, -10000.0, -65504.0, 1.0])))


def signal(rng: Rng, rows: int, dim: int) -> Array:
    """Frames of sound, wavelets, a DCT, Fourier features of coordinates (NeRF), timesteps at random times."""
    at, index = np.arange(rows)[:, None], np.arange(dim)
    kind = int(rng.integers(5))
    if kind == 0:
        sound = np.sin(np.cumsum(rng.uniform(0.01, 0.3, rows * dim))) + 0.01 * rng.normal(
            size=rows * dim
        )
        return np.asarray(sound.reshape(rows, dim))
    if kind == 1:
        scale = np.geomspace(1, rows / 8, dim)
        return np.exp(-(((at - rows / 2) / scale) ** 2)) * np.cos(5 * (at - rows / 2) / scale)
    if kind == 2:
        return np.cos(np.pi / dim * (index + 0.5) * at) * np.sqrt(2 / dim)
    if kind == 3:
        return np.sin(
            np.pi * 2.0 ** (index % 10) * rng.uniform(-1, 1, (rows, 1))
            + np.pi / 2 * (index // 10 % 2)
        )
    angles = rng.uniform(0, 1000, (rows, 1)) * 10000.0 ** (-np.arange(dim // 2) / (dim // 2))
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)


def bent(rng: Rng, rows: int, dim: int) -> Array:
    """tanh, squares and other functions of the elements of real tables."""
    angles = np.outer(np.arange(rows), 10000.0 ** (-np.arange(dim) / dim))
    wave = np.cos(angles) if rng.random() < 0.5 else np.sin(angles)
    bend = [
        np.tanh,
        np.square,
        lambda x: x**3,
        np.abs,
        lambda x: np.maximum(x, 0),
        lambda x: np.exp(x) - 1,
    ]
    return np.asarray(bend[int(rng.integers(len(bend)))](wave))


KINDS: dict[str, Callable[[Rng, int, int], Array]] = {
    make.__name__: make
    for make in (noise, weights, learned, image, other_waves, vector, mask, signal, bent)
}


def of_another(rng: Rng, rows: int, dim: int) -> tuple[Scheme, dict[str, Array]]:
    """A scheme, and the table of another one by its name."""
    dim += dim % 2
    bias = Alibi(8, dim).tables()["bias"]
    drawn = LearnedInit(rows, dim, seed=int(rng.integers(1 << 30))).tables()["weight"]
    waves = Rope(rows, dim).tables()["cos"]
    wide = np.concatenate([waves, waves], axis=1)
    of_other_base = Sinusoidal(rows, dim, base=5000.0).tables()["pe"]
    cases: list[tuple[Scheme, dict[str, Array]]] = [
        (Sinusoidal(rows, dim), {"pe": drawn}),
        (Sinusoidal(dim, dim), {"pe": bias[3]}),
        (Rope(rows, dim, layout="halves"), {"cos": drawn, "sin": drawn[::-1]}),
        (LearnedInit(rows, dim), {"weight": wide}),
        (LearnedInit(rows, dim), {"weight": of_other_base}),  # its init may be of base 10000
        (Alibi(8, dim), {"bias": rng.normal(size=(8, dim, dim))}),
        (Alibi(8), {"slopes": rng.uniform(size=8)}),
    ]
    return cases[int(rng.integers(len(cases)))]


def claims(seed: int, count: int) -> Iterator[tuple[str, list[Explanation]]]:
    """The kind of each table, and what was claimed of it."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        rows = int(rng.choice([32, 64, 100, 200, 512]))
        dim = int(rng.choice([16, 32, 48, 64, 96, 128]))
        name = [*KINDS, "another scheme"][k % (len(KINDS) + 1)]
        if name == "another scheme":
            prior, tables = of_another(rng, rows, dim)
            yield (
                name,
                explain(prior, {key: np.ascontiguousarray(each) for key, each in tables.items()}),
            )
        else:
            table = KINDS[name](rng, rows, dim).astype(
                rng.choice([np.float32, np.float16, np.float64])
            )
            yield name, recognise({"x": np.ascontiguousarray(table)})
