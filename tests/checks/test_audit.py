"""Audits against errors that are computed here, from whole tables at once."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pecli.checks import audit as module
from pecli.checks.audit import audit
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal


def errors(rope: Rope, recipe: str) -> tuple[np.ndarray, np.ndarray]:
    """|Δ| of cos and sin side by side, in float64, and the recipe's own rows."""
    exact, found = (replace(rope, recipe=name).tables() for name in ("exact", recipe))
    rows = np.concatenate([found["cos"], found["sin"]], axis=1).astype(np.float64)
    return np.abs(
        rows - np.concatenate([exact["cos"], exact["sin"]], axis=1).astype(np.float64)
    ), rows


@pytest.mark.parametrize("elements", [1 << 19, 1000, 64])
@pytest.mark.parametrize("offset", [0, 250, 995])
@pytest.mark.parametrize(
    "recipe", ["float32", "bfloat16-positions", "bfloat16-phases", "bfloat16-table"]
)
@pytest.mark.sample(9)
def test_numbers_do_not_depend_on_blocks(monkeypatch, recipe, offset, elements):
    monkeypatch.setattr(module, "BLOCK_ELEMENTS", elements)
    rope = Rope(700, 16, offset=offset, layout="halves")
    found = audit(rope, [recipe], tolerance=1e-4)
    (drift,) = found.drifts
    error, rows = errors(replace(rope, layout="compact"), recipe)
    assert drift.max_abs_error == pytest.approx(error.max(), rel=1e-6)
    assert found.mean(drift) == pytest.approx(error.mean(), rel=1e-5)
    assert drift.by_frequency == pytest.approx(
        np.maximum(error[:, :8], error[:, 8:]).max(axis=0), rel=1e-6
    )
    beyond = np.flatnonzero((error > 1e-4).any(axis=1))
    assert drift.first_beyond == (offset + beyond[0] if beyond.size else None)
    assert found.kept_positions(drift) == (beyond[0] if beyond.size else 700)
    equal = np.flatnonzero((rows[1:] == rows[:-1]).all(axis=1))
    assert drift.first_equal == (offset + equal[0] + 1 if equal.size else None)
    for low, high in [(0, 10), (10, 100), (100, 1000), (1000, 10000)]:
        inside = error[max(0, low - offset) : max(0, high - offset)]
        named = [
            decade
            for decade in found.decades()
            if decade[0] == max(low, offset) and decade[1] < high
        ]
        assert len(named) == (inside.size > 0)
        for decade in named:
            assert decade[1] == min(high, offset + 700) - 1
            assert found.in_decade(drift, decade) == pytest.approx(
                (inside.max(), inside.mean()), rel=1e-5
            )


def test_the_numbers_of_conventions():
    """bfloat16 positions collide from 257 on; a table cast to bfloat16 is off by 2^-9 at most."""
    found = {drift.recipe: drift for drift in audit(Rope(5000, 128)).drifts}
    assert len(found) == 13
    assert (
        found["bfloat16-positions"].first_equal == found["bfloat16-positions"].first_beyond == 257
    )
    assert found["float32"].first_equal is None
    assert (
        audit(Rope(dim=16, positions=(5, 5, 6)), ["float32"]).drifts[0].first_equal is None
    )  # exact rows are, too
    assert 0.99 * 2**-9 < found["bfloat16-table"].max_abs_error <= 2**-9
    assert 0.99 * 2**-12 < found["float16-table"].max_abs_error <= 2**-12
    assert found["float16-table"].first_beyond is None
    assert found["float32"].max_abs_error < found["float32-recurrence"].max_abs_error < 2e-3


def test_float32_keeps_what_its_phases_keep():
    """HF's phases by hand: the first position whose cos or sin is off by more than 1e-4."""
    inv_freq = np.float32(1) / np.array([10000.0 ** (2 * i / 64) for i in range(32)]).astype(
        np.float32
    )
    positions = np.arange(4000)
    phases = (positions.astype(np.float32)[:, None] * inv_freq).astype(np.float64)
    true = positions[:, None] * np.array([10000.0 ** (-2 * i / 64) for i in range(32)])
    error = np.maximum(
        np.abs(np.cos(phases) - np.cos(true)), np.abs(np.sin(phases) - np.sin(true))
    ).max(axis=1)
    found = audit(Rope(4000, 64), ["float32"], 1e-4)
    assert found.drifts[0].first_beyond == np.flatnonzero(error > 1e-4)[0]


def test_sinusoidal_columns_belong_to_their_frequencies():
    for layout, dim in (("interleaved", 33), ("halves", 33), ("interleaved", 1)):
        scheme = Sinusoidal(300, dim, layout=layout, cos_first=True, padding_idx=4, amplitude=2.0)
        numbers = scheme.in_dtype("float64").by_position()
        table = numbers.read(0, 300)
        assert table.shape[1] == (dim if layout == "interleaved" else dim - 1)
        for column, group in enumerate(numbers.groups):
            wave = 2 * (np.cos, np.sin)[column % 2](np.arange(300) * numbers.values[group])
            wave[4] = 0
            assert table[:, column] == pytest.approx(wave, abs=1e-9)
        assert audit(scheme, ["bfloat16-table"]).drifts[0].by_frequency.shape == (
            len(numbers.values),
        )


def test_alibi_by_distance():
    scheme = Alibi(12, 600, form="causal")
    found = audit(scheme, ["bfloat16-table", "float32"])
    biases = (
        Alibi(12, 600, form="key", dtype=dtype).tables()["bias"]
        for dtype in ("float32", "bfloat16")
    )
    exact, narrow = (bias[:, 0].astype(float) for bias in biases)
    error = np.abs(narrow - exact)
    assert found.drifts[0].by_frequency.tolist() == error.max(axis=1).tolist()
    assert found.drifts[0].max_abs_error == error.max()
    assert found.numbers.values == pytest.approx(Alibi(12).tables()["slopes"], rel=1e-7)
    assert found.drifts[1].recipe == "float32"


def test_an_exact_table_drifts_by_its_rounding_alone():
    assert audit(Rope(400, 32), ["exact"]).drifts[0].max_abs_error == 0
    assert audit(Rope(400, 32, dtype="bfloat16"), ["exact"]).drifts[
        0
    ].max_abs_error == pytest.approx(2**-9, rel=0.01)
    double = audit(Rope(400, 32, dtype="float64"), ["exact", "float32"])
    assert double.drifts[0].max_abs_error == 0
    assert 1e-6 < double.drifts[1].max_abs_error < 1e-4


def test_json_has_no_infinities():
    scheme = Alibi(1, 2**18, max_bias=0.3)
    (drift,) = (found := audit(scheme, ["float16-table"])).drifts
    assert drift.max_abs_error == np.inf  # beyond 65504, float16 ends
    text = json.loads(json.dumps(found.as_json(), allow_nan=False))
    (described,) = text["recipes"]
    assert described["max_abs_error"] is None
    assert described["first_beyond_tolerance"] == drift.first_beyond


def test_progress_adds_up():
    seen: list[int] = []
    scheme = Rope(20000, 64, dtype="float16")
    audit(scheme, ["bfloat16-positions", "float16-table"], on_block=seen.append)
    assert len(seen) > 1
    assert sum(seen) == 20000


@pytest.mark.parametrize("tolerance", ["x", float("nan"), -1])
def test_a_tolerance_of_an_audit_is_a_number(tolerance):
    with pytest.raises(ValueError, match="a finite number of at least 0"):
        audit(Rope(8, 8), tolerance=tolerance)
