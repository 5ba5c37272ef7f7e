"""Rotated queries with mistakes: `python -m tests.tools.rotation_matrix`.

Not part of the test suite, which holds a few of them. Queries of random numbers are rotated by the textbook formula, in
float64, with one mistake each, kept in a dtype, and compared with what a model asks for; counts how often the first
explanation names the planted edits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import pecli
from pecli.engine.arrays import round_to, widened
from pecli.explain.edits import Edit, Layout, Negated, Parameter

MODELS = ("llama-3.1-8b", "gpt-oss-20b", "gpt-j-6b")
LENGTH, HEADS, BATCH = 256, 32, 2


def rotated(
    x: np.ndarray, inv: np.ndarray, positions: np.ndarray, layout: str, height: float = 1.0, sign: int = 1
) -> np.ndarray:
    """The textbook rotation of the first 2 · len(inv) channels; positions (L,), or (…, L) for each sequence."""
    half = len(inv)
    angle = sign * positions[..., None] * inv
    cos, sin = height * np.cos(angle), height * np.sin(angle)
    first, second = (
        (slice(0, half), slice(half, 2 * half))
        if layout == "halves"
        else (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
    )
    out = x.copy()
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., second] * cos + x[..., first] * sin
    return out


Case = tuple[str, Callable[[np.ndarray], np.ndarray], tuple[Edit, ...]]


def cases(rope: Any, layout: str) -> list[Case]:
    """Mistakes of a rotation, with the edits that name them."""
    inv, height, p = np.array(rope.frequencies().floats()), rope.attention_factor_value(), np.arange(LENGTH)
    d = 2 * len(inv)
    plain = rope.base ** (-np.arange(len(inv)) / len(inv))
    other = "interleaved" if layout == "halves" else "halves"
    theta = 10000.0 if rope.base != 10000 else 500000.0
    from dataclasses import replace

    wrong_theta = np.array(replace(rope, base=theta).frequencies().floats())
    twice = inv**2 / plain
    part = np.array(replace(rope, dim=d // 2).frequencies().floats())
    double_edit: tuple[Edit, ...] = (Parameter("scaling", rope.scaling, f"{rope.scaling}, applied twice"),)

    def by_head(x: np.ndarray) -> np.ndarray:
        return rotated(x.swapaxes(-2, -3), inv, np.arange(x.shape[-3]), layout, height).swapaxes(-2, -3)

    found: list[Case] = [
        ("offset 1", lambda x: rotated(x, inv, p + 1, layout, height), (Parameter("offset", 0, 1),)),
        ("offset 37", lambda x: rotated(x, inv, p + 37, layout, height), (Parameter("offset", 0, 37),)),
        ("theta", lambda x: rotated(x, wrong_theta, p, layout, height), (Parameter("base", rope.base, theta),)),
        ("layout", lambda x: rotated(x, inv, p, other, height), (Layout(layout, other),)),
        ("direction", lambda x: rotated(x, inv, p, layout, height, -1), (Negated("sin"),)),
        ("partial", lambda x: rotated(x, part, p, layout, height), (Parameter("dim", d, d // 2),)),
        ("head axis", by_head, (Parameter("position_axis", -2, -3),)),
        ("scaled", lambda x: 1.25 * rotated(x, inv, p, layout, height), ()),
    ]  # fmt: skip
    if rope.scaling != "none":
        found.append(
            ("scaling missing", lambda x: rotated(x, plain, p, layout), (Parameter("scaling", rope.scaling, "none"),))
        )
        found.append(("scaling twice", lambda x: rotated(x, twice, p, layout, height), double_edit))
    pad = np.maximum(np.arange(LENGTH)[None] - np.array([[0], [9]]), 0)
    found.append(("left padding", lambda x: rotated(x, inv, pad[:, None], layout, height), ()))
    return found


def main(only: str = "") -> int:
    rng, right, total = np.random.default_rng(0), 0, 0
    for name in MODELS:
        model = pecli.load_model(name)
        encoding = next(each for each in model.encodings if each.is_rotary)
        rope = encoding.rope(LENGTH, dtype="float64")
        layout = encoding.layout or "halves"
        width = encoding.head_dim or rope.rotary_dim
        for mistake, make, planted in cases(rope, layout):
            if only not in f"{name} {mistake}":
                continue
            for dtype in ("float32", "float16", "bfloat16"):
                before = widened(round_to(rng.normal(size=(BATCH, HEADS, LENGTH, width)), dtype))
                after = round_to(make(before), dtype)
                result = pecli.verify(after, model, before=round_to(before, dtype), atol=1e-6)
                first = result.explanations[0] if result.explanations else None
                if mistake == "left padding":
                    good = first is not None and first.tensors == ("sequence 1",) and "9" in str(first.mistakes)
                elif mistake == "scaled":
                    good = first is not None and any(edit.kind in ("scaled", "parameter") for edit in first.mistakes)
                else:
                    good = first is not None and first.mistakes == planted
                right, total = right + good, total + 1
                if not good:
                    print(f"{name} | {mistake} | {dtype} | {first.mistakes if first else 'nothing'}", flush=True)
    if not total:
        print(f"no model and mistake is called {only!r}")
        return 2
    print(f"{right} of {total} rotations are explained by the planted edits: {right / total:.1%}")
    return 0 if right >= 0.95 * total else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
