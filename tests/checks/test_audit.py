"""Audits: how far the tables of a recipe are from exact ones, by position, decade and frequency.

A recipe computes a table in the dtypes of some project; its drift is its error as positions grow.
Expected errors are computed here from the same tables, whole and at once, from NumPy's float32, or
are half a unit of a dtype.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.checks import position_errors
from pecli.checks.audit import Audit, Decade, audit
from pecli.checks.position_errors import Drift
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal

Array = np.ndarray[Any, Any]
ROWS = 700
TOLERANCE = 1e-4


def drift_of(found: Audit) -> Drift:
    (drift,) = found.drifts
    return drift


def cos_and_sin(rope: Rope, recipe: str) -> Array:
    """Return the rows of a recipe: cosines and sines side by side, in float64."""
    tables = replace(rope, recipe=recipe).tables()
    return np.concatenate([tables["cos"], tables["sin"]], axis=1).astype(np.float64)


class AuditInBlocks(NamedTuple):
    """An audit of 700 positions that are read in blocks, and the errors of the whole table."""

    found: Audit
    drift: Drift
    rows: Array  #: of the recipe: 8 cosines and 8 sines per position
    errors: Array  #: |recipe − exact| of the whole tables at once, by NumPy


@pytest.fixture(params=[1 << 19, 1000, 64], ids=lambda elements: f"blocks of {elements}")
def audit_in_blocks(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., AuditInBlocks]:
    """Return a function that audits a recipe in blocks of so many elements."""
    monkeypatch.setattr(position_errors, "DRIFT_BLOCK_ELEMENTS", request.param)

    def call(recipe: str, offset: int) -> AuditInBlocks:
        rope = Rope(seq_len=ROWS, dim=16, offset=offset)
        found = audit(replace(rope, layout="halves"), [recipe], TOLERANCE)
        rows = cos_and_sin(rope, recipe)
        errors = np.abs(rows - cos_and_sin(rope, "exact"))
        return AuditInBlocks(found, drift_of(found), rows, errors)

    return call


RECIPES = ["float32", "bfloat16-positions", "bfloat16-phases", "bfloat16-table"]
OFFSETS = [0, 250, 995]
"""First positions of the audited tables."""


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.sample(6)
def test_errors_measured_in_blocks_equal_those_of_the_whole_table(
    audit_in_blocks: Callable[..., AuditInBlocks], recipe: str, offset: int
) -> None:
    """The largest and the mean error, and the largest of each frequency, of cosine or sine."""
    found, drift, _, errors = audit_in_blocks(recipe, offset)
    by_frequency = np.maximum(errors[:, :8], errors[:, 8:]).max(axis=0)

    assert drift.max_abs_error == pytest.approx(errors.max(), rel=1e-6)
    assert found.mean(drift) == pytest.approx(errors.mean(), rel=1e-5)
    assert drift.by_frequency == pytest.approx(by_frequency, rel=1e-6)


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.sample(6)
def test_an_audit_in_blocks_finds_the_first_position_beyond_the_tolerance(
    audit_in_blocks: Callable[..., AuditInBlocks], recipe: str, offset: int
) -> None:
    """`first_beyond` is the first position with an error above TOLERANCE, or None. The positions
    before it are kept: all 700 if there is none.
    """
    found, drift, _, errors = audit_in_blocks(recipe, offset)
    is_beyond = (errors > TOLERANCE).any(axis=1)

    if is_beyond.any():
        assert drift.first_beyond == offset + is_beyond.argmax()
        assert found.kept_positions(drift) == is_beyond.argmax()
    else:
        assert drift.first_beyond is None
        assert found.kept_positions(drift) == ROWS


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.sample(6)
def test_an_audit_in_blocks_finds_the_first_row_that_repeats_the_one_before(
    audit_in_blocks: Callable[..., AuditInBlocks], recipe: str, offset: int
) -> None:
    """`first_equal` is the first position whose row equals that of the position before, as of
    positions that are rounded to one number, or None.
    """
    _, drift, rows, _ = audit_in_blocks(recipe, offset)
    equals_row_before = (rows[1:] == rows[:-1]).all(axis=1)

    if equals_row_before.any():
        assert drift.first_equal == offset + 1 + equals_row_before.argmax()
    else:
        assert drift.first_equal is None


DECADES_OF_700_POSITIONS = {
    0: [(0, 9), (10, 99), (100, 699)],
    250: [(250, 949)],
    995: [(995, 999), (1000, 1694)],
}
"""The first and last positions of each decade, by the first of 700 audited positions."""


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.sample(6)
def test_an_audit_in_blocks_has_the_errors_of_each_decade_of_positions(
    audit_in_blocks: Callable[..., AuditInBlocks], recipe: str, offset: int
) -> None:
    """`in_decade` has the largest and the mean error at the positions between two powers of ten, as
    far as they were audited: of the 700 from 995 on, those of 995 to 999 and of 1000 to 1694.
    Expected are NumPy's maximum and mean over these rows of the whole table.
    """
    found, drift, _, errors = audit_in_blocks(recipe, offset)

    for first, last in DECADES_OF_700_POSITIONS[offset]:
        errors_inside = errors[first - offset : last + 1 - offset]
        in_decade = found.in_decade(drift, Decade(first, last))
        assert in_decade.max_abs_error == pytest.approx(errors_inside.max(), rel=1e-5)
        assert in_decade.mean_abs_error == pytest.approx(errors_inside.mean(), rel=1e-5)


@pytest.mark.parametrize(
    ("offset", "decades"),
    [
        pytest.param(0, [(0, 9), (10, 99), (100, 999)], id="from 0"),
        pytest.param(5, [(5, 9), (10, 99), (100, 999), (1000, 1004)], id="from 5"),
        pytest.param(99, [(99, 99), (100, 999), (1000, 1098)], id="from 99"),
    ],
)
def test_decades_are_cut_at_both_ends(offset: int, decades: list[tuple[int, int]]) -> None:
    """`decades` splits an audit by powers of ten of the position: the table has 1000 positions from
    `offset` on, which begin and end within a decade.
    """
    found = audit(Rope(1000, 8, offset=offset), "float32")
    assert found.decades() == [Decade(*decade) for decade in decades]


@pytest.mark.parametrize(("offset", "kept"), [(0, 257), (250, 7), (256, 1)])
def test_positions_in_bfloat16_are_whole_up_to_256(offset: int, kept: int) -> None:
    """bfloat16 has 8 bits: 257 is rounded to 256, so that its row equals that of 256. The positions
    that are kept are those from `offset` to 256: 257, 7 or 1 of them.
    """
    found = audit(Rope(300, 8, offset=offset), "bfloat16-positions")
    drift = drift_of(found)

    assert drift.first_beyond == 257
    assert drift.first_equal == 257
    assert found.kept_positions(drift) == kept


def test_all_recipes_but_the_exact_one_are_audited_by_default() -> None:
    """A recipe is a way in which some project computes its tables, by the dtype of a step, such as
    «bfloat16-positions»; the exact one has no drift.
    """
    assert sorted(drift.recipe for drift in audit(Rope(8, 8)).drifts) == [
        "bfloat16-autocast",
        "bfloat16-inv-freq",
        "bfloat16-module",
        "bfloat16-phases",
        "bfloat16-positions",
        "bfloat16-table",
        "float16-all",
        "float16-inv-freq",
        "float16-phases",
        "float16-positions",
        "float16-table",
        "float32",
        "float32-bfloat16-table",
        "float32-recurrence",
    ]


@pytest.mark.parametrize(
    ("recipe", "error"), [("bfloat16-table", 2**-9), ("float16-table", 2**-12)]
)
def test_a_table_that_is_cast_is_off_by_half_a_unit(recipe: str, error: float) -> None:
    """`audit` of a recipe that rounds exact cosines and sines to the dtype. Below 1, half the
    distance between neighbouring numbers is 2^-9 in bfloat16 (8 bits) and 2^-12 in float16 (11
    bits); the largest of 5000 · 64 errors comes within 1 % of it.
    """
    drift = drift_of(audit(Rope(5000, 128), recipe))
    assert 0.99 * error < drift.max_abs_error <= error


def test_a_cast_to_float16_stays_within_the_default_tolerance() -> None:
    """Cosines and sines below 1 are rounded by up to 2^-12 = 0.00024 in float16, less than the
    default tolerance of 0.001: no position is beyond it.
    """
    assert drift_of(audit(Rope(5000, 128), "float16-table")).first_beyond is None


def test_frequencies_by_products_in_float32_drift_further_than_those_by_powers() -> None:
    """The recipe «float32» computes each frequency base^(-k/64) as a power. «float32-recurrence»
    multiplies the one before by base^(-1/64), so that rounding errors add up.

    The bound: each of k steps adds two roundings of up to 2^-24, of the factor and of the product,
    so the angle p · base^(-k/64) is off by up to 2k · 2^-24 of itself. For p = 5000, this is most at
    k = 7, 1.5e-3; rounding the angle itself adds at most 5000 · 2^-24 = 3e-4: less than 2e-3.
    """
    scheme = Rope(seq_len=5000, dim=128, base=10000.0)
    by_powers, by_products = audit(scheme, ["float32", "float32-recurrence"]).drifts

    assert by_powers.max_abs_error < by_products.max_abs_error
    assert by_products.max_abs_error < 2e-3


def test_phases_in_float32_give_every_position_a_row_of_its_own() -> None:
    """`first_equal` is the first position whose row equals the row before, None if there is none.
    float32 holds all whole numbers up to 2^24, bfloat16 only those up to 256: there, position 257
    is rounded to 256 and has its row.
    """
    scheme = Rope(seq_len=5000, dim=128)
    in_float32, in_bfloat16 = audit(scheme, ["float32", "bfloat16-positions"]).drifts

    assert in_float32.first_equal is None
    assert in_bfloat16.first_equal == 257


def test_rows_that_are_equal_in_the_exact_table_are_not_counted() -> None:
    """Position 5 is listed twice, so that two equal rows are right: `first_equal`, the first row
    that a recipe wrongly makes equal to the one before, is None.
    """
    assert drift_of(audit(Rope(dim=16, positions=(5, 5, 6)), ["float32"])).first_equal is None


def errors_of_phases_in_float32(positions: Array, dim: int) -> Array:
    """Return the largest error of a cosine or sine at each position, computed as transformers does.

    It rounds base^(2i/dim), 1 / base^(2i/dim) and position / base^(2i/dim) to float32 in turn. The
    exact phase is position / base^(2i/dim) in float64.
    """
    powers = 10000.0 ** (2 * np.arange(dim // 2) / dim)
    exact_phases = positions[:, None] / powers

    frequencies = np.float32(1) / powers.astype(np.float32)
    rounded_phases = positions.astype(np.float32)[:, None] * frequencies

    phases = rounded_phases.astype(np.float64)
    cos_errors = np.abs(np.cos(phases) - np.cos(exact_phases))
    sin_errors = np.abs(np.sin(phases) - np.sin(exact_phases))
    return np.maximum(cos_errors, sin_errors).max(axis=1)


def test_the_first_position_beyond_a_tolerance_is_reported() -> None:
    """Expected errors are those of phases in NumPy's float32. At the reported position, the error is
    over the tolerance of 1e-4; at all positions before, it is not.
    """
    drift = drift_of(audit(Rope(4000, 64), ["float32"], tolerance=1e-4))
    errors = errors_of_phases_in_float32(np.arange(4000), dim=64)
    first = drift.first_beyond

    assert first is not None
    assert errors[first] > 1e-4
    assert errors[:first].max() <= 1e-4


def sinusoidal_of_300_rows(layout: str, dim: int) -> Sinusoidal:
    """Return a table whose waves have the amplitude 2, and whose row 4 is padding, all zeros."""
    return Sinusoidal(
        seq_len=300, dim=dim, layout=layout, cos_first=True, padding_idx=4, amplitude=2.0
    )


@pytest.mark.parametrize(
    ("layout", "dim", "columns"),
    [
        pytest.param("interleaved", 33, 33, id="17 cosines and 16 sines, interleaved"),
        pytest.param("halves", 33, 32, id="halves of 16, without the column of zeros behind them"),
        pytest.param("interleaved", 1, 1, id="one cosine"),
    ],
)
def test_an_audit_reads_a_sinusoidal_table_as_a_cosine_and_a_sine_of_each_frequency_in_turn(
    layout: str, dim: int, columns: int
) -> None:
    """Whatever the layout, the columns of the audited rows are c0 s0 c1 s1 …. Expected is NumPy's
    2 · cos or 2 · sin of position · 10000^(-2i / columns) for frequency i, and 0 in row 4, which is
    padding. Halves need an even number of columns: of 33 channels, 32 have waves.
    """
    rows = sinusoidal_of_300_rows(layout, dim).in_dtype("float64").audited_rows()
    table = rows.read(0, 300)

    assert table.shape == (300, columns)
    for column in range(columns):
        frequency = 10000.0 ** (-2 * (column // 2) / columns)
        wave = np.cos if column % 2 == 0 else np.sin
        expected = 2 * wave(np.arange(300) * frequency)
        expected[4] = 0
        assert table[:, column] == pytest.approx(expected, abs=1e-9)
        assert rows.groups[column] == column // 2
        assert rows.values[column // 2] == pytest.approx(frequency, rel=1e-12)


@pytest.mark.parametrize(
    ("layout", "dim", "frequencies"),
    [("interleaved", 33, 17), ("halves", 33, 16), ("interleaved", 1, 1)],
    ids=["a cosine without a sine", "pairs only", "one cosine"],
)
def test_an_audit_of_a_sinusoidal_table_has_an_error_per_frequency(
    layout: str, dim: int, frequencies: int
) -> None:
    """33 channels are 16 pairs, each of one frequency, and one more channel: interleaved, it is the
    cosine of a frequency of its own; as halves, it has no wave.
    """
    drift = drift_of(audit(sinusoidal_of_300_rows(layout, dim), ["bfloat16-table"]))
    assert drift.by_frequency.shape == (frequencies,)


SLOPES_OF_8_HEADS = 2.0 ** -np.arange(1, 9)
SLOPES_OF_12_HEADS = np.append(SLOPES_OF_8_HEADS, 2.0 ** -np.array([0.5, 1.5, 2.5, 3.5]))
"""ALiBi's slopes by the paper: those of 8 heads, and every other one of 16 heads."""


def test_the_audit_of_alibi_has_the_largest_error_of_each_head_in_the_place_of_a_frequency() -> (
    None
):
    """The bias of a head is −slope · distance, so an audit needs the distances 0 … 599 only. The
    recipe «bfloat16-table» rounds it to bfloat16. Expected is |bfloat16 − float32| by NumPy.
    """
    found = audit(Alibi(heads=12, seq_len=600, form="causal"), ["bfloat16-table"])
    drift = drift_of(found)

    bias = SLOPES_OF_12_HEADS[:, np.newaxis] * np.arange(600)  # (heads, distances)
    in_bfloat16 = bias.astype(ml_dtypes.bfloat16).astype(np.float64)
    errors = np.abs(in_bfloat16 - bias.astype(np.float32))

    assert drift.by_frequency.tolist() == errors.max(axis=1).tolist()
    assert drift.max_abs_error == errors.max()


def test_the_audit_of_alibi_has_slopes_in_the_place_of_frequencies() -> None:
    """`numbers.values` are frequencies in the audit of a RoPE; here they are the slopes of the heads
    by ALiBi's formula.
    """
    found = audit(Alibi(heads=12, seq_len=600, form="causal"), ["float32"])

    assert drift_of(found).recipe == "float32"
    assert found.numbers.kind == "slopes"
    assert found.numbers.values == pytest.approx(SLOPES_OF_12_HEADS, rel=1e-15)


def test_a_shard_of_alibis_heads_has_the_errors_of_these_heads() -> None:
    """Heads 4 … 7 of 8 have the slopes 2**-5 … 2**-8, and no errors but theirs."""
    whole = audit(Alibi(8, 600, form="causal"), ["bfloat16-table"])
    shard = audit(Alibi(8, 600, form="causal", head_range=(4, 8)), ["bfloat16-table"])
    errors_of_last_heads = drift_of(whole).by_frequency[4:]

    assert shard.numbers.values == [2**-5, 2**-6, 2**-7, 2**-8]
    assert drift_of(shard).by_frequency.tolist() == errors_of_last_heads.tolist()


@pytest.mark.parametrize(("dtype", "error"), [("float32", 0), ("bfloat16", 2**-9), ("float64", 0)])
def test_the_recipe_exact_drifts_only_by_rounding_to_the_dtype(dtype: str, error: float) -> None:
    """The recipe «exact» rounds true values once to the dtype. An audit compares with the table of
    exact values in float32, or in the dtype if it is finer: so there is no error in float32 and
    float64. In bfloat16, which has 8 bits, cosines below 1 are off by half a unit in the last place
    at most: 2^-9.
    """
    drift = drift_of(audit(Rope(400, 32, dtype=dtype), ["exact"]))
    assert drift.max_abs_error == pytest.approx(error, rel=0.01)


def test_a_table_in_float64_of_phases_in_float32_drifts_by_their_rounding() -> None:
    """The recipe «float32» has phases up to 400 in float32, off by up to 400 · 2^-24 = 2e-5; the
    largest error is of that order, also if the table is float64.
    """
    drift = drift_of(audit(Rope(400, 32, dtype="float64"), ["float32"]))
    assert 1e-6 < drift.max_abs_error < 1e-4


def test_a_scheme_of_a_runtime_is_audited_as_that_runtime() -> None:
    """vLLM computes the table in its own dtypes, so no recipe is tried: the only drift is vLLM's."""
    drift = drift_of(audit(Rope(8, 8, runtime="vllm", length=8)))
    assert drift.recipe == "vllm"


def test_the_curve_of_an_audit_leaves_out_position_0_and_errors_of_0() -> None:
    """The curve is drawn on logarithmic axes, which have no place for position 0: it begins at 1.
    The errors of the recipe «exact» are 0, which has no place either, and become NaN.
    """
    found = audit(Rope(5, 8), "exact")
    curve = found.curve(drift_of(found))

    assert curve.positions.round(9).tolist() == [1, 2, 3, 4]
    assert np.isnan(curve.errors).all()


def test_the_json_of_a_recipe_has_its_errors_by_decade_and_frequency() -> None:
    """The recipe «exact» is off by 0 at each of 8 positions, all of which are kept; 4 channels have
    two frequencies. Positions 0 to 7 are in one decade.
    """
    (recipe,) = pecli.audit(Rope(8, 4), "exact").as_json()["recipes"]
    assert recipe == {
        "recipe": "exact",
        "max_abs_error": 0.0,
        "mean_abs_error": 0.0,
        "kept_positions": 8,
        "first_beyond_tolerance": None,
        "first_equal_neighbours": None,
        "by_decade": [{"first": 0, "last": 7, "max_abs_error": 0.0, "mean_abs_error": 0.0}],
        "by_frequency": [0.0, 0.0],
    }


def test_the_json_of_an_audit_has_the_scheme_and_its_positions() -> None:
    """The table has the 8 positions from 3 on; its 4 channels have the frequencies 1 and
    10000^(-1/2) = 0.01. The tolerance is the default, 0.001.
    """
    fields = pecli.audit(Rope(8, 4, offset=3), "float32").as_json()
    assert fields["scheme"] == "rope"
    assert fields["tolerance"] == 0.001
    assert fields["first_position"] == 3
    assert fields["positions"] == 8
    assert fields["frequencies"] == [1.0, 0.01]


def test_an_infinite_error_is_null_in_the_json_of_an_audit() -> None:
    """The largest bias, slope 2^-0.3 times 2^18, is beyond float16, which ends at 65504; JSON has
    null for infinity.
    """
    found = audit(Alibi(1, 2**18, max_bias=0.3), ["float16-table"])
    drift = drift_of(found)

    assert drift.max_abs_error == np.inf

    (recipe,) = json.loads(json.dumps(found.as_json(), allow_nan=False))["recipes"]
    assert recipe["max_abs_error"] is None
    assert recipe["first_beyond_tolerance"] == drift.first_beyond


def test_the_progress_of_an_audit_adds_up_to_all_positions() -> None:
    """`on_block` is called with the number of positions of each block. Two recipes are computed for
    20000 positions, of which each counts once.
    """
    counts: list[int] = []
    recipes = ["bfloat16-positions", "float16-table"]
    audit(Rope(20000, 64, dtype="float16"), recipes, on_block=counts.append)

    assert len(counts) > 1
    assert sum(counts) == 20000


@pytest.mark.parametrize("tolerance", ["x", float("nan"), -1])
def test_a_tolerance_that_is_no_finite_number_of_at_least_0_is_refused(tolerance: Any) -> None:
    """`audit` is given a text, NaN, and a negative number as its tolerance."""
    with pytest.raises(ValueError, match="a finite number of at least 0"):
        audit(Rope(8, 8), tolerance=tolerance)


def test_an_audit_of_a_name_instead_of_a_scheme_is_refused() -> None:
    """`audit` needs an object such as Rope(…): the name has no sizes."""
    with pytest.raises(TypeError, match="it must be a scheme"):
        audit("rope")  # type: ignore[arg-type]


def test_a_number_is_refused_as_the_name_of_a_recipe() -> None:
    """`audit` takes the name of a recipe, or a list of names, beside the scheme."""
    with pytest.raises(TypeError, match="it must be the name of a recipe, or several"):
        audit(Rope(8, 8), 3)  # type: ignore[arg-type]
