"""Resampling is torch's, kernel by kernel; what a kernel must keep, it keeps."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pecli.engine.resample import taps
from pecli.engine.table import table_of
from pecli.tensors.resize import Resizing, resize

CASES = json.loads(Path(__file__).with_name("interpolate.json").read_text("ascii"))["cases"]


def decoded(text: str, grid: list[int]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<f4").reshape(grid[0] * grid[1], 2).astype(np.float64)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['mode']}-{c['antialias']}-{c['old']}-{c['new']}")
def test_as_torch_interpolates(case: dict[str, Any]) -> None:
    kernel = "cubic" if case["mode"] == "bicubic" else "linear"
    resizing = Resizing(tuple(case["old"]), tuple(case["new"]), kernel, case["antialias"])
    made = resize(table_of("w", decoded(case["given"], case["old"])), resizing).array()
    # torch works out the places in float32: 128 rows · 2**-24 · a difference of 0.1 between neighbours
    assert np.abs(made - decoded(case["made"], case["new"])).max() < 1e-6


@pytest.mark.parametrize("kernel", ["linear", "cubic"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize(("old", "new"), [(1, 7), (7, 1), (5, 5), (3, 100), (100, 3), (16, 24)])
def test_a_constant_stays_and_weights_add_up(kernel: str, antialias: bool, old: int, new: int) -> None:
    made = taps(old, new, kernel, antialias)
    assert np.abs(made.weights.sum(axis=1) - 1).max() < 1e-14
    assert np.abs(made.apply(np.full((old, 2), 3.0)) - 3).max() < 1e-14
    assert made.rows.min() >= 0
    assert made.rows.max() < old


@pytest.mark.parametrize(("kernel", "antialias"), [("linear", False), ("linear", True), ("cubic", True)])
def test_a_straight_line_stays_straight_inside(kernel: str, antialias: bool) -> None:
    made = taps(40, 100, kernel, antialias).apply(np.arange(40.0)[:, None])[:, 0]
    assert np.abs(np.diff(made)[10:90] - 0.4).max() < 1e-12
