"""Loops compiled by numba make the same bytes as NumPy.

The expected numbers are NumPy's, from the same call with the loops forbidden (PECLI_KERNELS=0); the
tables of NumPy are held against arbitrary precision in test_cos_sin_tables.py. The fixture `uses`
counts how often the loops are fetched, and `layouts_by_loop` lists what they rotate, so that a test
cannot pass because NumPy was used twice.
"""

import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given

import pecli
from pecli.engine import application
from pecli.engine.arrays import AnyArray
from pecli.engine.numerics import kernels
from pecli.engine.schemes.scheme import Scheme
from tests import oracle
from tests.engine import strategies
from tests.exit_codes import SUCCESS

pytest.importorskip("numba", reason="compiled loops need numba: pip install 'pecli-posenc[fast]'")

SCHEMES = {
    "pairs": pecli.Sinusoidal(3_000, 96),
    "odd-width": pecli.Sinusoidal(3_000, 95),
    "wider-than-a-tile": pecli.Sinusoidal(300, 2_052),
    "far-positions": pecli.Sinusoidal(700, 64, offset=2**39),
    "cosines-before-sines": pecli.Sinusoidal(700, 64, layout="halves"),
    "rotary-pairs": pecli.Rope(5_000, 128),
    "amplitude": pecli.Rope(
        2_000, 64, scaling="yarn", factor=4.0, original_len=512, attention_factor=1.37
    ),
    "half-precision-stays-with-numpy": pecli.Rope(500, 64, dtype="bfloat16"),
    "one-row": pecli.Rope(1, 64),
    "recipe": pecli.Sinusoidal(3_000, 96, recipe="float32"),
    "recipe-of-cosines-and-sines": pecli.Rope(3_000, 96, offset=200_000, recipe="float32"),
}
LONG_SCHEMES = {
    "pairs": pecli.Sinusoidal(100_000, 1_024),
    "cosines-before-sines-of-far-positions": pecli.Sinusoidal(
        200_000, 512, layout="halves", offset=2**39
    ),
    "rotary-pairs": pecli.Rope(800_000, 256, base=500_000.0),
    "recipe": pecli.Sinusoidal(100_000, 1_024, recipe="float32"),
    "recipe-of-cosines": pecli.Rope(800_000, 256, recipe="float32"),
}
"""Tables whose first tensor has 10^8 elements."""


class Rotation(NamedTuple):
    """Queries of which 64 channels are multiplied by unit complex numbers, two channels by one."""

    dtype: str
    dtype_of_factors: str
    channels: int = 64
    first_channel: int = 0  #: The first of the 64 that rotate; channels before and after them stay.


ROTATIONS = {
    "float32": Rotation("float32", "complex64"),
    "rounded-once-from-float64": Rotation("float32", "complex128"),
    "float64": Rotation("float64", "complex128"),
    "channels-that-stay": Rotation("float32", "complex64", channels=100),
    "last-channels": Rotation("float32", "complex128", channels=100, first_channel=36),
}


@pytest.fixture
def uses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by an item whenever compiled loops are used."""
    calls: list[int] = []
    loaded = kernels._loaded

    def counted() -> object:
        calls.append(len(calls))
        return loaded()

    monkeypatch.setattr(kernels, "_loaded", counted)
    return calls


@pytest.fixture
def layouts_by_loop(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by a layout whenever a compiled loop rotates queries of that layout.

    Loops for interleaved pairs exist only on processors that compute a·b + c with one rounding.
    This fixture pretends that the processor does.
    """
    layouts: list[str] = []
    loops = kernels._loaded()
    assert loops is not None
    monkeypatch.setattr(loops, "_numpy_fuses_products", lambda: True)
    loop_for = loops.rotation_loop

    def recording_loop_for(layout: str) -> Callable[..., None]:
        def recording_loop(*arguments: object) -> None:
            layouts.append(layout)
            loop_for(layout)(*arguments)

        return recording_loop

    monkeypatch.setattr(loops, "rotation_loop", recording_loop_for)
    return layouts


@pytest.mark.parametrize("name", SCHEMES)
def test_compiled_loops_make_a_table_of_the_same_bytes(
    name: str, uses: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment variable PECLI_KERNELS=0 forbids the loops, so that NumPy makes the expected
    table, and 1 requires them. SCHEMES has tables of odd width, far positions, an amplitude, one row,
    and so on; those in 16 bits are made by NumPy in both cases. The fixture `uses` counts the uses of
    loops.
    """
    scheme = SCHEMES[name]
    monkeypatch.setenv("PECLI_KERNELS", "0")
    expected = scheme.tables()

    assert not uses

    monkeypatch.setenv("PECLI_KERNELS", "1")
    found = scheme.tables()
    assert bool(uses) == (scheme.dtype == "float32")
    for tensor, table in expected.items():
        assert found[tensor].tobytes() == table.tobytes(), tensor


@given(strategies.schemes())
def test_compiled_loops_change_no_byte_of_any_scheme(
    monkeypatch: pytest.MonkeyPatch, scheme: Scheme
) -> None:
    """Random schemes are made by NumPy (PECLI_KERNELS=0) and by compiled loops (1); the bytes of all
    their tensors must be equal.
    """
    monkeypatch.setenv("PECLI_KERNELS", "0")
    expected = scheme.tables()
    monkeypatch.setenv("PECLI_KERNELS", "1")
    found = scheme.tables()

    assert found.keys() == expected.keys()
    for tensor, table in expected.items():
        assert found[tensor].tobytes() == table.tobytes(), tensor


@pytest.mark.thorough
@pytest.mark.parametrize("name", LONG_SCHEMES)
def test_compiled_loops_change_no_byte_of_a_hundred_million_elements(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The expected bytes are NumPy's (PECLI_KERNELS=0), block by block."""
    table = LONG_SCHEMES[name].tensors()[0]
    step = table.block_rows()
    for start in range(0, table.rows, step):
        stop = min(start + step, table.rows)
        monkeypatch.setenv("PECLI_KERNELS", "0")
        expected = table.read(start, stop)
        monkeypatch.setenv("PECLI_KERNELS", "1")
        found = table.read(start, stop)
        assert found.tobytes() == expected.tobytes(), f"rows {start} … {stop - 1}"


@pytest.mark.thorough
def test_samples_of_a_hundred_million_elements_are_correctly_rounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """20,000 random elements of a sinusoidal table of 100,000 × 1,024, made by the compiled loops,
    have the bits of the true values, which Arb (python-flint) computes and rounds once.
    """
    monkeypatch.setenv("PECLI_KERNELS", "1")
    table = pecli.Sinusoidal(100_000, 1_024).tables()["pe"]
    random = np.random.default_rng(5)
    rows = random.integers(0, 100_000, 20_000)
    columns = random.integers(0, 1_024, 20_000)

    expected = oracle.sinusoidal_bits(rows, columns, dim=1_024)
    np.testing.assert_array_equal(oracle.bits(table[rows, columns]), expected)


def rotated_queries(name: str, layout: str, *, in_place: bool) -> AnyArray:
    """Return random queries (3, 2, 90 positions, channels), rotated by a random angle per pair.

    Among them are infinity, a number near the largest float32, and both zeros.
    """
    rotation = ROTATIONS[name]
    random = np.random.default_rng(8)
    x = random.standard_normal((3, 2, 90, rotation.channels)).astype(rotation.dtype)
    x[0, 0, 5, :4] = [np.inf, 1e38, 0, -0.0]
    pairs = 32  # 64 channels rotate.
    factors = np.exp(1j * random.uniform(0, 6, (90, pairs))).astype(rotation.dtype_of_factors)
    return application.rotate(
        x,
        lambda start, stop: factors[start:stop],
        layout,
        layout,
        first_channel=rotation.first_channel,
        out=x if in_place else None,
    )


@pytest.mark.parametrize("name", ROTATIONS)
@pytest.mark.parametrize("layout", ["halves", "interleaved"])
@pytest.mark.parametrize("in_place", [False, True], ids=["to a new array", "in place"])
def test_rotated_queries_do_not_depend_on_whether_loops_are_compiled(
    name: str, layout: str, in_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The expected numbers are NumPy's (PECLI_KERNELS=0 forbids compiled loops). The dtypes of
    queries and of factors, and the channels that rotate, are those of ROTATIONS.
    """
    monkeypatch.setenv("PECLI_KERNELS", "0")
    expected = rotated_queries(name, layout, in_place=in_place)
    monkeypatch.setenv("PECLI_KERNELS", "1")
    found = rotated_queries(name, layout, in_place=in_place)

    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ROTATIONS)
@pytest.mark.parametrize("in_place", [False, True], ids=["to a new array", "in place"])
def test_a_compiled_loop_rotates_halves(
    name: str, in_place: bool, layouts_by_loop: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy needs several calls for pairs (i, i + d/2), so that a loop is always faster; it is used
    unless PECLI_KERNELS=0 forbids it.
    """
    monkeypatch.setenv("PECLI_KERNELS", "0")
    rotated_queries(name, "halves", in_place=in_place)
    assert layouts_by_loop == []

    monkeypatch.setenv("PECLI_KERNELS", "1")
    rotated_queries(name, "halves", in_place=in_place)
    assert set(layouts_by_loop) == {"halves"}


@pytest.mark.parametrize(
    ("name", "is_by_loop"),
    [
        ("float32", False),
        ("float64", False),
        ("channels-that-stay", False),
        ("rounded-once-from-float64", True),
        ("last-channels", True),
    ],
)
@pytest.mark.parametrize("in_place", [False, True], ids=["to a new array", "in place"])
def test_a_compiled_loop_rotates_interleaved_pairs_only_if_factors_are_wider_than_queries(
    name: str,
    is_by_loop: bool,
    in_place: bool,
    layouts_by_loop: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Interleaved pairs are complex numbers. NumPy multiplies them by factors of the same width as
    fast as a loop would; float32 queries and factors in complex128 it would have to convert.
    """
    monkeypatch.setenv("PECLI_KERNELS", "1")
    rotated_queries(name, "interleaved", in_place=in_place)

    assert bool(layouts_by_loop) == is_by_loop


def shifted_read_only_queries(layout: str) -> AnyArray:
    """Return queries (2, 3, 40 positions, 16 channels) of a read-only array, rotated by the same 8
    angles, one per pair, at all positions.
    """
    random = np.random.default_rng(9)
    x = random.standard_normal((2, 3, 40, 16)).astype(np.float32)
    x.flags.writeable = False
    one_row_of_factors = np.exp(1j * random.uniform(0, 6, (1, 8)))
    return application.rotate(x, lambda start, stop: one_row_of_factors, layout, layout)


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_a_shift_of_read_only_memory_does_not_depend_on_whether_loops_are_compiled(
    layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shift of a KV cache rotates all positions by the same angles, and a file that is mapped
    into memory cannot be written to. The expected numbers are NumPy's (PECLI_KERNELS=0).
    """
    monkeypatch.setenv("PECLI_KERNELS", "0")
    expected = shifted_read_only_queries(layout)
    monkeypatch.setenv("PECLI_KERNELS", "1")
    found = shifted_read_only_queries(layout)

    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_a_compiled_loop_shifts_read_only_memory(
    layout: str, layouts_by_loop: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither read-only queries nor one row of factors for all positions need NumPy."""
    monkeypatch.setenv("PECLI_KERNELS", "1")
    shifted_read_only_queries(layout)

    assert set(layouts_by_loop) == {layout}


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
@pytest.mark.parametrize(
    ("dtype", "dtype_of_factors"), [("float16", "complex64"), ("float64", "complex64")]
)
def test_queries_without_a_compiled_loop_are_rotated_by_numpy(
    layout: str, dtype: str, dtype_of_factors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no loop for float16, nor for factors that are narrower than the queries. The expected
    numbers are NumPy's.
    """
    random = np.random.default_rng(10)
    x = random.standard_normal((2, 3, 40, 16)).astype(dtype)
    factors = np.exp(1j * random.uniform(0, 6, (40, 8))).astype(dtype_of_factors)

    monkeypatch.setenv("PECLI_KERNELS", "0")
    expected = application.rotate(x, lambda start, stop: factors[start:stop], layout, layout)
    monkeypatch.setenv("PECLI_KERNELS", "1")
    found = application.rotate(x, lambda start, stop: factors[start:stop], layout, layout)

    np.testing.assert_array_equal(found, expected)


def test_compiled_loops_make_interleaved_sections_at_given_positions(
    uses: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Qwen3-VL's tables the columns of one axis (time, height or width) do not lie side by side:
    the loops must gather them. The expected table is NumPy's.
    """
    sections = {"mrope_section": [6, 6, 4], "mrope_interleaved": True}
    rope = pecli.Rope(60, 32, recipe="float32", **sections)
    positions = np.array([[3, 50, 7], [0, 59, 8], [20, 1, 9]])

    monkeypatch.setenv("PECLI_KERNELS", "0")
    expected = rope.at(positions)["cos"]
    monkeypatch.setenv("PECLI_KERNELS", "1")
    found = rope.at(positions)["cos"]

    assert uses
    np.testing.assert_array_equal(found, expected)


def test_compiled_loops_widen_every_float16_number_to_float32_as_numpy_does() -> None:
    """There are 2^16 of them, among them subnormal numbers, infinities and NaN."""
    loops = kernels._loaded()
    assert loops is not None
    bits = np.arange(1 << 16, dtype=np.uint16).view(np.int16)
    out = np.empty(len(bits), np.float32)

    loops.widen_halves(bits, out)

    expected = bits.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(np.signbit(out), np.signbit(expected))


def test_no_loop_rotates_interleaved_pairs_where_numpy_rounds_them_differently(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """a·b + c is rounded once on processors with a fused instruction, which the loops use, and
    twice on others. There NumPy's bytes would differ, so no loop is offered for interleaved pairs
    (None means NumPy).
    """
    loops = kernels._loaded()
    assert loops is not None

    monkeypatch.setattr(loops, "_numpy_fuses_products", lambda: False)
    assert loops.rotation_loop("interleaved") is None
    assert loops.rotation_loop("halves") is loops.rotate_halves


def test_loops_are_loaded_only_after_much_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing numba takes longer than making a small table. `compiled_loops(n)` adds n elements to
    the work done so far and returns the loops if the sum exceeds LOAD_AFTER, else None (for NumPy).
    """
    monkeypatch.delenv("PECLI_KERNELS", raising=False)
    monkeypatch.setattr(kernels, "_elements", 0)  # No work is done yet.

    assert kernels.compiled_loops(kernels.LOAD_AFTER) is None
    assert kernels.compiled_loops(1) is not None  # The sum is LOAD_AFTER + 1.


def test_announced_work_loads_the_loops_before_its_first_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Work of more than LOAD_AFTER elements that comes in pieces of one element has the loops from the
    first piece on. Work of LOAD_AFTER elements counts only when it is done.
    """
    monkeypatch.delenv("PECLI_KERNELS", raising=False)
    monkeypatch.setattr(kernels, "_elements", 0)  # No work is done yet.

    kernels.announce_work(kernels.LOAD_AFTER)
    assert kernels.compiled_loops(1) is None

    kernels.announce_work(kernels.LOAD_AFTER + 1)
    assert kernels.compiled_loops(1) is not None


def test_a_small_table_does_not_import_numba() -> None:
    """4096 × 128 elements are 2^19, fewer than the 2^27 after which numba is loaded."""
    program = "import sys, pecli; pecli.Rope(4096, 128).tables(); sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == SUCCESS


def test_without_numba_the_table_is_made_by_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that is None in sys.modules raises ImportError, as it does if numba is not
    installed; the setting 1 is then ignored. 4 channels have the frequencies 1 and 0.01.
    """
    monkeypatch.setenv("PECLI_KERNELS", "1")
    monkeypatch.setattr(kernels, "_loops", None)
    monkeypatch.setattr(kernels, "_is_missing", False)
    monkeypatch.setitem(sys.modules, "pecli.engine.numerics.compiled_loops", None)

    assert kernels.compiled_loops(1) is None

    cos = pecli.Rope(2, 4).tables()["cos"]
    np.testing.assert_allclose(cos, [[1, 1], [np.cos(1), np.cos(0.01)]], rtol=1e-7)
