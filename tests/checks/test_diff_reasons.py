"""Dumps of two runs: which layer departs first, and what its rotation does otherwise."""

from pathlib import Path

import numpy as np
import pytest

import pecli
from tests.checks.waves import powers
from tests.oracle import turned

LENGTH, PAIRS = 24, 16


def run(wrong: int, base: float, layout: str, sides: tuple[str, str] = ("before", "after")) -> dict[str, np.ndarray]:
    dump = {}
    for layer in range(3):
        for name in "qk":
            heads = () if sides == ("pre", "post") else (2, 4)
            x = np.random.default_rng([layer, ord(name)]).normal(size=(*heads, LENGTH, 2 * PAIRS))
            frequencies = powers(base if layer >= wrong else 10000.0, 2 * PAIRS)
            after = turned(x, np.outer(np.arange(LENGTH), frequencies), layout)
            for side, value in zip(sides, (x, after), strict=True):
                dump[f"model.layers.{layer}.{name}.{side}"] = value.astype(np.float32)
    return dump


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
@pytest.mark.parametrize("sides", [("before", "after"), ("pre", "post")])
def test_the_first_layer_and_its_rotation(layout: str, sides: tuple[str, str]) -> None:
    result = pecli.diff(run(9, 1.0, layout, sides), run(1, 500000.0, layout, sides), atol=1e-4)
    where, why = result.diagnosis
    assert where.startswith(f"layer 1 is the first that departs, by model.layers.1.q.{sides[1]}, model.layers.1.k")
    assert f"model.layers.1.q.{sides[0]}" in where.partition(";")[2]
    assert "base is 500000 (in A 10000)" in why


def test_folders_of_arrays(tmp_path: Path) -> None:
    for folder, wrong in (("a", 9), ("b", 2)):
        (tmp_path / folder).mkdir()
        for name, array in run(wrong, 500000.0, "halves").items():
            np.save(tmp_path / folder / f"{name}.npy", array)
    result = pecli.diff(tmp_path / "a", tmp_path / "b", atol=1e-4)
    assert result.diagnosis[0].startswith("layer 2 is the first that departs")
    assert pecli.diff(tmp_path / "a", tmp_path / "a", atol=1e-4)


def test_what_no_rotation_explains() -> None:
    a, b = (run(9, 1.0, "halves") for _ in range(2))
    for name in a:
        if "layers.1" in name:
            b[name] = a[name] + np.random.default_rng(0).normal(size=a[name].shape).astype(np.float32)
    result = pecli.diff(a, b, atol=1e-4)
    assert result.diagnosis[0].startswith("layer 1 is the first that departs")
    assert "rotation" not in " ".join(result.diagnosis)


def test_what_is_no_dump_of_a_run() -> None:
    a, b = (run(9, 1.0, "halves", ("weight", "bias")) for _ in range(2))
    b["model.layers.1.q.bias"] = a["model.layers.1.q.bias"] + 1
    assert "first that departs" not in " ".join(pecli.diff(a, b, atol=1e-4).diagnosis)


@pytest.mark.parametrize("odd", [np.zeros((4, 0, 8)), np.full((4, 6), np.nan), np.ones((4, 6), complex)])
def test_what_has_no_rotation_is_not_looked_at(odd: np.ndarray) -> None:
    names = ("layers.0.q.before", "layers.0.q.after", f"layers.{'9' * 5000}.q.before", "layers.1.q.before")
    a = {**dict.fromkeys(names, np.ones((4, 6))), "layers.1.q.before": odd, "layers.1.q.after": odd}
    result = pecli.diff(a, {**a, "layers.1.q.after": odd.astype("c16") + 1, "layers.0.q.after": np.zeros((4, 6))})
    assert any(line.startswith("layer 0 is the first") for line in result.diagnosis)
