"""Whole files and arrays: random schemes are found again, and what is no table is not."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.engine.table import table_of
from pecli.errors import FileError, KindError
from pecli.explain.edits import RowsWrong
from pecli.files import save_tables
from tests.checks.waves import LLAMA3, halves, powers, waves, woven
from tests.tools.sweep_identify import attempt

WIDE = {
    "zeros": np.zeros((2, 70_000), np.float32),
    "slopes": 2.0 ** -(np.arange(1, 70_001, dtype=np.float32) / 8750),
    "frequencies of nobody": np.linspace(1, 0.1, 5000) ** 2,
}


@pytest.mark.parametrize("name", WIDE)
def test_what_is_wider_than_any_model_is_not_identified_and_takes_little_memory(name: str) -> None:
    tracemalloc.start()
    try:
        assert pecli.identify(WIDE[name]).matches == ()
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("rows", "dim"), [(20, 10_000), (500, 9_000)])
def test_wide_tables_are_looked_at_with_all_their_channels(rows: int, dim: int) -> None:
    tables = waves(rows, powers(10000.0, dim))
    assert pecli.identify(woven(tables["sin"], tables["cos"])).matches[0].scheme == pecli.Sinusoidal(rows, dim)


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 6, 7, 8])
def test_random_tables_are_found_and_made_again(seed: int) -> None:
    """A small part of the sweep, which prints every failure of thousands."""
    outcome = attempt(seed)
    assert outcome.problem == ""


PADDED = pecli.Sinusoidal(64, 32, base=5e6, layout="halves", cos_first=True, offset=2, scale=0.1, padding_idx=3)
FOUND = {
    "a base of eight digits": pecli.Rope(2048, 128, base=12345.678),
    "a row of zeros in a short table": PADDED,
    "timesteps, most channels of which turn more than once a row": pecli.Sinusoidal(128, 16, style="flux"),
    "one channel between llama3's limits": pecli.Rope(
        512, 16, base=5e5, scaling="llama3", **{**LLAMA3, "factor": 32.0}, dtype="bfloat16"
    ),
    "one channel between YaRN's limits, which are not rounded": pecli.Rope(
        1000, 16, 100.0, scaling="yarn", factor=8.0, original_len=8192, truncate=False, attention_factor=1.0
    ),
    "the scale by one channel of four that turn": pecli.Sinusoidal(
        100, 16, base=5e6, cos_first=True, freq_shift=0.5, offset=896, scale=0.25, dtype="bfloat16"
    ),
    "a base above 1e9": pecli.Rope(1000, 16, base=1.4837e9),
}


@pytest.mark.parametrize("name", FOUND)
def test_tables_that_leave_little_to_measure(name: str) -> None:
    tables = FOUND[name].tables()
    tables.pop("inv_freq", None)
    again = pecli.identify(tables).matches[0].scheme.single_array().array().astype(np.float64)
    assert np.abs(again - FOUND[name].single_array().array().astype(np.float64)).max() < 1e-6


ANY = np.exp(-np.sort(np.random.default_rng(8).uniform(0, 6, 16)))
"""Frequencies of no law."""
FAR = {
    "a base that nobody has": 918_729.5 ** (-np.arange(64) / 64),
    "divisors": 1000.0 ** (-np.arange(32) / 32) / np.round(np.linspace(1, 5, 32) ** 2, 2),
}


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("offset", [0, 2351])
@pytest.mark.parametrize("name", FAR)
def test_few_rows_far_from_position_0_are_made_again(name: str, offset: int, dtype: str) -> None:
    """Which takes frequencies a thousand times sharper than neighbouring rows tell them."""
    exact = waves(np.arange(offset, offset + 64), FAR[name], np.float64)
    (match,) = pecli.identify({key: table.astype(dtype) for key, table in exact.items()}).matches
    assert (match.scheme.offset, match.scheme.dtype) == (offset, dtype)
    for key, table in match.scheme.tables().items():
        if key in exact:
            np.testing.assert_allclose(table.astype(np.float64), exact[key], rtol=0, atol=2 * np.finfo(dtype).eps)


PHASES = {"none": 0.0, "any": np.random.default_rng(9).uniform(0, 6, 16), "half a row": 0.5 * ANY}


@pytest.mark.parametrize("phases", PHASES)
def test_waves_of_no_law_or_that_no_position_starts_are_nothing(phases: str) -> None:
    angles = np.outer(np.arange(64 if phases == "none" else 512), ANY) + PHASES[phases]
    assert pecli.identify({"cos": np.cos(angles), "sin": np.sin(angles)}).matches == ()


@pytest.mark.parametrize("dim", [91, 103])
def test_an_odd_column_of_zeros_may_have_noise(dim: int) -> None:
    scheme = pecli.Sinusoidal(128, dim, layout="halves")
    noise = 1e-5 * np.random.default_rng(dim).normal(size=(128, dim))
    assert pecli.identify((scheme.tables()["pe"] + noise).astype(np.float32)).matches[0].scheme == scheme


RNG = np.random.default_rng(2024)


def walk(shape: tuple[int, int]) -> np.ndarray:
    return RNG.normal(size=shape).cumsum(axis=0)


def picture(rows: int, columns: int) -> np.ndarray:
    """A few soft blobs on a gradient, as in a photograph."""
    y, x = np.mgrid[0:rows, 0:columns] / rows
    blobs = sum(
        a * np.exp(-((y - b) ** 2 + (x - c) ** 2) / d)
        for a, b, c, d in zip(*RNG.uniform(0.05, 1, (4, 12)), strict=True)
    )
    return blobs + 0.3 * y + RNG.normal(0, 0.01, (rows, columns))


def hadamard(order: int) -> np.ndarray:
    matrix = np.ones((1, 1))
    while len(matrix) < order:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


def negatives() -> dict[str, np.ndarray]:
    n = np.arange(64)
    return {
        "normal noise": RNG.normal(size=(300, 64)),
        "uniform noise": RNG.uniform(-1, 1, (300, 64)),
        "heavy noise": RNG.standard_t(3, (300, 64)),
        "signs": RNG.choice([-1.0, 1.0], (128, 64)),
        "a picture": picture(256, 256),
        "a checkerboard": (np.indices((64, 64)).sum(axis=0) % 2).astype(float),
        "a random walk": walk((512, 32)),
        "low rank": RNG.normal(size=(200, 3)) @ RNG.normal(size=(3, 64)),
        "a constant": np.full((64, 16), 0.7),
        "ones": np.ones((64, 16)),
        "Hadamard": hadamard(64),
        "a cosine transform": np.cos(np.pi / 64 * (n + 0.5) * n[:, None]) * np.sqrt(2 / 64),
        "a ramp": np.arange(64 * 16).reshape(64, 16) / 1024,
        "a ramp down the rows": np.linspace(0, 1, 64)[:, None] * np.ones(16),
        "a ramp along the rows": np.ones((64, 1)) * np.arange(16) / 16,
        "squares": np.outer(n.astype(float) ** 2, np.ones(16)),
        "the identity": np.eye(64),
        "an outer product": np.outer(np.linspace(0.1, 2, 64), np.linspace(0.3, 4, 16)),
        "unrelated waves": np.sin(np.outer(n, RNG.uniform(0.01, 3, 32)) + RNG.uniform(0, 6, 32)),
        "decay": np.exp(-np.outer(n / 10, np.linspace(0.1, 2, 16))),
        "a vector of noise": RNG.normal(size=64),
        "a vector of steps": np.arange(32.0),
        "a positive vector": np.sort(RNG.uniform(0, 1, 32))[::-1],
        "integers": RNG.integers(0, 100, (64, 16)),
        "complex noise": RNG.normal(size=(64, 16)) + 1j * RNG.normal(size=(64, 16)),
        "not numbers": np.full((8, 8), np.nan),
        "a scalar": np.array(3.5),
        "nothing": np.zeros((0, 16)),
        "many axes": RNG.normal(size=(2, 3, 4, 5, 6)),
    }


NEGATIVES = negatives()


@pytest.mark.parametrize("name", NEGATIVES)
def test_what_is_no_table_is_not_identified(name: str) -> None:
    table = NEGATIVES[name]
    found = pecli.identify(table.astype(np.float32) if table.dtype.kind == "f" else table)
    assert [match.command for match in found.matches] == []
    assert found.description


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("low rank", "of rank 3, not 64"),
        ("a constant", "all 0.7"),
        ("the identity", "Toeplitz"),
        ("not numbers", "64 of 64 elements are infinite or not numbers"),
        ("nothing", "empty"),
    ],
)
def test_an_unknown_table_is_described(name: str, words: str) -> None:
    assert words in "\n".join(pecli.identify(NEGATIVES[name]).description)


def test_a_file_one_tensor_and_arrays_by_name(tmp_path) -> None:
    path = tmp_path / "t.npz"
    slopes = pecli.Alibi(12).tables()["slopes"]
    pecli.save(path, {"a": slopes, "b": np.random.default_rng(1).normal(size=(50, 20))})
    found = pecli.identify(path)
    assert [match.tensors for match in found.matches] == [("a",)]
    assert found.description[0].startswith("b: 50 × 20, float64")
    assert pecli.identify(f"{path}:a").description == ()
    assert not pecli.identify(f"{path}:b").identified
    assert pecli.identify({"x": slopes.tolist()}).matches[0].tensors == ("x",)


def test_a_spec_in_the_file_is_not_believed(tmp_path) -> None:
    path = tmp_path / "t.npz"
    spec = {**pecli.Sinusoidal(12, 8).spec(), "version": "0"}
    save_tables(str(path), [table_of("pe", pecli.Alibi(12).tables()["slopes"])], spec)
    assert pecli.identify(path).matches[0].scheme.name == "alibi"


def test_the_same_table_in_many_layers_is_one_match() -> None:
    one = pecli.Alibi(12).tables()["slopes"]
    found = pecli.identify({f"layers.{k}.alibi_slopes": one for k in range(12)})
    assert len(found.matches[0].tensors) == 12


def test_a_checkpoint_without_positions_says_so() -> None:
    found = pecli.identify({f"h.{k}.weight": np.ones((2, 2)) for k in range(30)})
    assert not found.identified
    assert found.description == ("it holds 30 tensors, and no name speaks of positions: name one, as FILE:NAME",)


def test_cosines_and_sines_with_their_frequencies() -> None:
    rope = pecli.Rope(128, 64, base=500000.0, offset=7, layout="halves", dtype="bfloat16")
    (match,) = pecli.identify(rope.tables()).matches
    assert match.scheme == rope
    assert match.tensors == ("cos", "sin", "inv_freq")


def test_what_cannot_be_read_or_is_no_table() -> None:
    with pytest.raises(FileError):
        pecli.identify("/nowhere/t.npy")
    with pytest.raises(KindError):
        pecli.identify(np.array(["a"]))


def test_sinusoids_as_whisper_computes_them() -> None:
    """In float32 throughout, so that late rows are off by a thousand units of the last place."""
    step = np.float32(np.log(10000) / (384 // 2 - 1))
    angles = np.arange(1500, dtype=np.float32)[:, None] * np.exp(-step * np.arange(192, dtype=np.float32))
    table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    (match,) = pecli.identify(table).matches
    assert match.scheme == pecli.Sinusoidal(1500, 384, style="whisper", recipe=match.recipe)
    assert match.max_abs_error < 3e-4


ROPE = json.loads((Path(__file__).parents[2] / "engine" / "schemes" / "torch_rope.json").read_text())["cases"]


@pytest.mark.parametrize("case", ROPE, ids=lambda case: f"{case['dim']}-{case['base']:g}")
def test_frequencies_as_transformers_computes_them(case: dict[str, Any]) -> None:
    values = np.array([int(bits, 16) for bits in case["inv_freq"]], np.uint32).view(np.float32)
    (match,) = pecli.identify(values).matches
    scheme, scaling = match.scheme, case["scaling"]
    assert (scheme.dim, scheme.base) == (case["dim"], case["base"])
    assert scheme.scaling == scaling.get("rope_type", "none")
    if scheme.scaling == "longrope":  # whose factor makes no difference to them
        assert scheme.factor is None
        assert "factor" in " ".join(match.undetermined)
        np.testing.assert_allclose(scheme.long_factor, scaling["long_factor"], rtol=2e-7)
    else:
        assert scheme.factor == scaling.get("factor")


@pytest.mark.parametrize("form", ["complex", "pairs", "halves", "doubled"])
def test_rotary_tables_as_others_lay_them_out(form: str) -> None:
    """Meta's complex numbers, torchtune's pairs, vLLM's halves, and one function alone."""
    cosine, sine = waves(200, powers(500000.0, 64)).values()
    table = {
        "complex": (cosine + 1j * sine).astype(np.complex64),
        "pairs": np.stack([cosine, sine], axis=-1),
        "halves": np.concatenate([cosine, sine], axis=1),
        "doubled": halves(cosine)[None, None],
    }[form]
    (rope,) = (match for match in pecli.identify(table).matches if match.scheme.name == "rope")
    expected = pecli.Rope(200, 64, base=500000.0, layout="halves" if form == "doubled" else "compact")
    assert rope.scheme == expected
    assert rope.form


@pytest.mark.parametrize("size", [1e-12, 100.0, 1e15])
def test_sizes_far_from_one_break_nothing(size: float) -> None:
    tables = pecli.Rope(128, 32).tables()
    found = pecli.identify({"cos": tables["cos"] * np.float32(size), "sin": tables["sin"] * np.float32(size)})
    assert found.matches or found.description
    table = pecli.Sinusoidal(100, 20).tables()["pe"] * np.float32(size)
    assert pecli.identify(table).matches[0].scheme == pecli.Sinusoidal(100, 20, amplitude=size)


@pytest.mark.parametrize(
    "scheme",
    [
        pecli.Sinusoidal(300, 32),
        pecli.Rope(300, 32, base=500_000.0),
        pecli.Rope(300, 32, layout="halves", recipe="float32"),
    ],
    ids=lambda scheme: f"{scheme.name}-{getattr(scheme, 'layout', '')}",
)
def test_float32_numbers_in_a_float64_file_are_what_they_are(scheme: Any) -> None:
    """A .csv knows no dtypes: every table comes back from it as float64."""
    name, table = next(iter(scheme.tables().items()))
    (match,) = pecli.identify({name: table.astype(np.float64)}).matches
    assert match.scheme == scheme


@pytest.mark.parametrize(
    "table",
    [
        pecli.Sinusoidal(1024, 256, offset=3, base=500000.0).tables()["pe"],
        pecli.Sinusoidal(1024, 256, layout="halves", dtype="float16").tables()["pe"],
        pecli.Rope(2048, 256).tables()["cos"],
    ],
    ids=["offset", "halves", "cos alone"],
)
def test_the_first_rows_tell_what_all_of_them_would(monkeypatch, table) -> None:
    (quick,) = pecli.identify(table).matches
    monkeypatch.setattr("pecli.checks.identify.MIN_ELEMENTS", table.size + 1)
    (whole,) = pecli.identify(table).matches
    assert replace(quick, max_abs_error=whole.max_abs_error) == whole
    assert quick.max_abs_error == pytest.approx(whole.max_abs_error, rel=1e-4)


def test_what_is_wrong_beyond_the_first_rows_is_seen() -> None:
    table = pecli.Sinusoidal(1024, 256).tables()["pe"]
    table[900] = 0.25
    (found,) = pecli.identify(table).matches
    assert RowsWrong((900,)) in found.edits
