"""Two files: every mistake made on purpose is named, right pairs pass, and noise is explained by nothing."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pecli
from pecli.checks.compare.error_summary import error_map
from pecli.engine.table import table_of

LENGTH, DIM = 200, 32


def parts(length: int = LENGTH, dim: int = DIM, dtype: type = np.float32) -> tuple[np.ndarray, np.ndarray]:
    angles = np.arange(length)[:, None] * 10000.0 ** (-np.arange(0, dim, 2) / dim)
    return np.sin(angles).astype(dtype), np.cos(angles).astype(dtype)


def halves(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.concatenate([first, second], axis=1)


def woven(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.stack([first, second], axis=-1).reshape(len(first), -1)


@pytest.fixture
def differ(tmp_path):
    def call(a, b, **tolerance):
        paths = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
        for path, tensors in zip(paths, (a, b), strict=True):
            pecli.save(path, tensors if isinstance(tensors, dict) else {"t": np.ascontiguousarray(tensors)})
        return pecli.diff(*paths, pecli.Tolerance(**tolerance))

    return call


SIN, COS = parts()
TABLE = woven(SIN, COS)
SHUFFLED = np.random.default_rng(5).permutation(DIM)
ROWS = np.random.default_rng(6).permutation(len(TABLE))
MISTAKES = {
    "interleaved read as halves": (TABLE, halves(SIN, COS), "A is interleaved, B is in halves"),
    "halves read as interleaved": (halves(SIN, COS), TABLE, "A is in halves, B is interleaved"),
    "swapped halves": (halves(SIN, COS), halves(COS, SIN), "sin and cos are swapped (in halves)"),
    "swapped pairs": (TABLE, woven(COS, SIN), "sin and cos are swapped (interleaved)"),
    "swapped stack": (np.stack([SIN, COS]), np.stack([COS, SIN]), "sin and cos are swapped (two arrays stacked)"),
    "negated half": (halves(SIN, COS), halves(SIN, -COS), "the sign of the second half is flipped"),
    "negated channels": (TABLE, woven(-SIN, COS), "the sign of the even channels is flipped"),
    "conjugated": (COS + 1j * SIN, COS - 1j * SIN, "the sign of the second part is flipped"),
    "negated": (TABLE, -TABLE, "the sign is flipped"),
    "transposed": (TABLE, TABLE.T, "B is transposed"),
    "a square, transposed": (TABLE[:DIM], TABLE[:DIM].T, "B is transposed"),
    "permuted": (TABLE, TABLE[:, SHUFFLED], f"(those of B are {', '.join(map(str, SHUFFLED[:8]))} … of A)"),
    "reversed": (TABLE, TABLE[:, ::-1], "channels in reverse order"),
    "rows reversed": (TABLE, TABLE[::-1], "rows in reverse order"),
    "rows shuffled": (TABLE, TABLE[ROWS], f"rows in another order (those of B are {', '.join(map(str, ROWS[:8]))} …"),
    "signs lost": (TABLE, np.abs(TABLE), "B = |A|, the signs are lost"),
    "rolled": (TABLE, np.roll(TABLE, -3, axis=1), "channel i of B is channel i + 3 of A"),
    "one row late": (TABLE[1:], TABLE[:-1], "row i + 1 of B is row i of A"),
    "two rows early": (TABLE[:-2], TABLE[2:], "row i of B is row i + 2 of A"),
    "shorter": (TABLE, TABLE[:150], "A has 200 rows, B 150, and those that both have are alike"),
    "factor": (TABLE, TABLE * np.float32(1.2079), "B = 1.2079 · A"),
    "factor of a vector": (np.arange(1.0, 33), np.arange(1.0, 33) / 4, "B = 0.25 · A"),
    "doubled otherwise": (halves(COS, COS), woven(COS, COS), "B has each column twice (c0 c0 c1 c1 …)"),
    "complex": (COS + 1j * SIN, np.stack([COS, SIN], axis=-1), "A is complex numbers, B is in pairs on the last axis"),
    "rounded values": (
        TABLE,
        TABLE.astype(ml_dtypes.bfloat16).astype(np.float32),
        "B is A rounded to bfloat16",
    ),
    "rounded values in A": (TABLE.astype(np.float16).astype(np.float32), TABLE, "A is B rounded to float16"),
    "another dtype": (TABLE, TABLE.astype(np.float16), "B is A rounded to float16"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named(differ, mistake) -> None:
    a, b, words = MISTAKES[mistake]
    result = differ(a, b)
    assert not result.passed
    (found,) = result.transforms
    assert words in found.transform
    assert found.max_abs_error <= 1e-7 * np.abs(b.astype(complex)).max()
    assert any(found.transform in line for line in result.diagnosis)


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (TABLE, halves(COS, SIN), ("A is interleaved, B is in halves", "sin and cos are swapped")),
        (TABLE, halves(SIN, COS).T, ("B is transposed", "A is interleaved, B is in halves")),
        (TABLE, 1.5 * halves(SIN, COS), ("A is interleaved, B is in halves", "B = 1.5 · A")),
        (TABLE[1:], halves(SIN, COS)[:-1], ("A is interleaved, B is in halves", "rows shifted by 1")),
        (TABLE[3:], -TABLE[:-3], ("rows shifted by 3", "the sign is flipped")),
        (TABLE, halves(SIN, COS).astype(ml_dtypes.bfloat16), ("A is interleaved, B is in halves",)),
        (halves(SIN, COS), halves(COS, -SIN), ("sin and cos are swapped", "the sign of the second half is flipped")),
    ],
)
def test_two_mistakes_are_named(differ, a, b, words) -> None:
    (found,) = differ(a, b).transforms
    assert all(each in found.transform for each in words)
    assert found.max_abs_error <= 1e-7


def test_a_transform_up_to_small_errors_says_what_is_left(differ) -> None:
    noise = 1e-4 * np.sin(np.arange(TABLE.size, dtype=np.float32)).reshape(TABLE.shape)
    (found,) = differ(TABLE, halves(SIN, COS) + noise).transforms
    assert found.transform == "A is interleaved, B is in halves"
    assert found.max_abs_error == pytest.approx(1e-4, rel=1e-2)


def test_exchanged_tensors_are_named(differ) -> None:
    result = differ({"cos": COS, "sin": SIN}, {"cos": SIN, "sin": COS})
    assert [each.transform for each in result.transforms] == ["the tensors cos and sin are exchanged"] * 2
    assert [each.tensor for each in result.transforms] == ["cos", "sin"]


def biases(length: int = 40) -> dict[str, np.ndarray]:
    slopes = 2.0 ** -np.arange(1, 5)[:, None, None]
    i, j = np.mgrid[:length, :length]
    keys = slopes * np.arange(length)
    distance = -slopes * np.abs(i - j)
    return {name: array.astype(np.float32) for name, array in (
        ("distance", distance), ("causal", np.where(j > i, -np.inf, distance)),
        ("lowest", np.where(j > i, -1e9, distance)), ("key", keys), ("last", keys - slopes * (length - 1)),
    )}  # fmt: skip


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ("key", "last", "a constant a row, which softmax ignores"),
        ("causal", "key", "a constant a row, which softmax ignores, 3,120 elements are masked in A only"),
        ("distance", "key", "on and below the diagonal a constant a row, which softmax ignores"),
        ("last", "distance", "on and below the diagonal a constant a row, which softmax ignores"),
        ("causal", "lowest", "the mask is -inf in A and -1e+09 in B"),
        ("distance", "causal", "3,120 elements are masked in B only"),
    ],
)
def test_biases_are_compared_up_to_what_softmax_ignores(differ, a, b, words) -> None:
    forms = biases()
    (found,) = differ(forms[a], forms[b]).transforms
    assert (found.transform, found.max_abs_error) == (words, 0)


def test_a_flipped_bias_is_not_ignored_by_softmax(differ) -> None:
    (found,) = differ(biases()["distance"], -biases()["distance"]).transforms
    assert found.transform == "the sign is flipped"


def test_large_tables_are_known_by_a_sample(differ) -> None:
    sin, cos = parts(5000, 8)
    for b, words in ((halves(sin, cos), "in halves"), (woven(sin, cos).T, "transposed")):
        result = differ(woven(sin, cos), b)
        assert words in result.transforms[0].transform
        assert "nothing is left in 2,048 of 5,000 rows" in result.diagnosis[-1]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(4, 40), st.integers(2, 12), st.sampled_from([1.0, 1e-3]))
def test_noise_is_explained_by_nothing(tmp_path_factory, seed, length, width, size) -> None:
    folder = tmp_path_factory.mktemp("noise", numbered=True)
    draw = np.random.default_rng(seed)
    a = draw.standard_normal((length, width)).astype(np.float32)
    b = a * (size < 1) + size * draw.standard_normal((length, width)).astype(np.float32)
    pecli.save(folder / "a.npy", a)
    pecli.save(folder / "b.npy", b.astype(np.float32))
    result = pecli.diff(folder / "a.npy", folder / "b.npy")
    assert not result.passed
    assert result.transforms == ()
    assert pecli.diff(folder / "a.npy", folder / "a.npy").passed


def test_what_ports_get_wrong_otherwise_is_no_transform(differ) -> None:
    angles = np.arange(LENGTH)[:, None] * 500000.0 ** (-np.arange(0, DIM, 2) / DIM)
    for other in (woven(np.sin(angles), np.cos(angles)).astype(np.float32), np.zeros_like(TABLE)):
        assert differ(TABLE, other).transforms == ()


def test_tensors_on_one_side_only_are_findings(differ) -> None:
    result = differ({"cos": COS, "sin": SIN}, {"cos": COS, "extra": SIN})
    assert [tensor.name for tensor in result.tensors] == ["cos"]
    assert result.diagnosis == ("sin: only A has it, B does not", "extra: only B has it, A does not")
    assert not result.passed


def test_single_tensors_are_compared_whatever_their_names(differ) -> None:
    assert differ({"pe": TABLE}, {"weight": TABLE}).passed


def test_tolerances_count(differ) -> None:
    near = TABLE + np.float32(1e-6)
    assert not differ(TABLE, near).passed
    result = differ(TABLE, near, atol=2e-6)
    assert result.passed
    assert (result.transforms, result.diagnosis) == ((), ())
    with pytest.raises(pecli.KindError):
        pecli.diff("a", "b", 1e-6)


def test_empty_and_tiny_tensors(differ) -> None:
    assert differ(np.zeros((0, 4)), np.zeros((0, 4))).passed
    assert differ(np.zeros((0, 4)), np.zeros((4, 0))).transforms == ()
    assert differ(np.float32(1), np.float32(2)).transforms == ()
    assert differ(np.array([1, 2]), np.array([2, 1])).transforms == ()


def test_the_map_holds_the_largest_error_of_each_cell(monkeypatch) -> None:
    monkeypatch.setattr("pecli.engine.table.BLOCK_BYTES", 3000)
    a = np.zeros((2, 1100, 1030), np.float32)
    b = a.copy()
    b[1, 700, 1029], b[0, 700, 1028], b[0, 0, 0], b[1, 3, 5] = 2, 1, -3, np.nan
    found = error_map(table_of("a", a), table_of("b", b))
    assert (found.positions, found.channels, found.cells.shape) == (1100, 1030, (512, 512))
    marked = {tuple(place): found.cells[tuple(place)] for place in np.argwhere(found.cells).tolist()}
    assert marked == {(0, 0): 3.0, (1, 2): np.inf, (700 * 512 // 1100, 511): 2.0}


def test_the_map_of_a_vector_is_a_line() -> None:
    found = error_map(table_of("a", np.zeros(5)), table_of("b", np.arange(5.0)))
    assert (found.positions, found.channels, found.cells.tolist()) == (1, 5, [[0, 1, 2, 3, 4]])


@pytest.mark.parametrize(("heads", "dim"), [(4, 8), (2, 64), (1, 128), (8, 80)])
def test_projections_whose_pairs_lie_otherwise(tmp_path, heads, dim) -> None:
    weight = np.random.default_rng(0).standard_normal((heads * dim, 24)).astype(np.float32)
    moved = weight.reshape(heads, dim // 2, 2, 24).swapaxes(1, 2).reshape(weight.shape)
    np.save(tmp_path / "a.npy", weight)
    np.save(tmp_path / "b.npy", moved)
    (one,) = pecli.diff(tmp_path / "a.npy", tmp_path / "b.npy").transforms
    assert one.transform == f"A's rows are interleaved in heads of {dim}, B's in halves"
    (back,) = pecli.diff(tmp_path / "b.npy", tmp_path / "a.npy").transforms
    assert back.transform == f"A's rows are in halves in heads of {dim}, B's interleaved"
    assert one.max_abs_error == back.max_abs_error == 0


def test_cos_and_sin_against_both_in_one_array(tmp_path) -> None:
    pecli.save(tmp_path / "a.safetensors", pecli.Rope(40, 16))
    pecli.save(tmp_path / "a.npy", pecli.Rope(40, 16))
    pecli.save(tmp_path / "b.npy", pecli.Rope(40, 16, 500.0))
    assert pecli.diff(tmp_path / "a.safetensors", tmp_path / "a.npy").passed
    assert pecli.diff(tmp_path / "a.npy", tmp_path / "a.safetensors").passed
    assert not pecli.diff(tmp_path / "b.npy", tmp_path / "a.safetensors").passed


def test_arrays_are_compared_as_files_of_them_are(tmp_path) -> None:
    a = np.sin(np.arange(40)[:, None] * 100.0 ** (-np.arange(8) / 8))
    b = np.concatenate([a[:, 0::2], a[:, 1::2]], axis=1)
    np.save(tmp_path / "b.npy", b)
    assert pecli.diff(a, a.copy()).passed
    assert pecli.diff(b, tmp_path / "b.npy").passed
    assert pecli.diff({"x": a, "y": b}, {"y": b, "x": a}).passed
    found = pecli.diff(a, b)
    assert found.transforms == pecli.diff(a, tmp_path / "b.npy").transforms
    assert [each.transform for each in found.transforms] == ["A is interleaved, B is in halves"]
    assert (found.a, found.b) == ("", "")
    with pytest.raises(TypeError, match="array is of dtype object; a table holds numbers"):
        pecli.diff(np.array([None]), a)


def _wrong(tmp_path, **tensors) -> str:
    path = tmp_path / "dump.npz"
    np.savez(path, **tensors)
    return str(path)


def _rotary(length: int, dim: int, base: float) -> dict[str, np.ndarray]:
    angles = np.outer(np.arange(length), base ** (-np.arange(0, dim, 2) / dim))
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


def test_a_spec_in_one_file_explains_the_other(tmp_path) -> None:
    golden = tmp_path / "golden.npz"
    pecli.save(golden, pecli.Rope(300, 64, base=500_000.0))
    dump = _wrong(tmp_path, **_rotary(300, 64, 1e4))
    words = "spec makes if theta is 10000 (the spec says 500000); residual"
    for a, b, sentence in ((golden, dump, "B is what A's"), (dump, golden, "A is what B's")):
        (line,) = pecli.diff(a, b, pecli.Tolerance(atol=1e-6)).diagnosis
        assert line.startswith(f"cos, sin: {sentence} {words}")


def test_lengths_and_layouts_may_differ_from_the_spec(tmp_path) -> None:
    golden = tmp_path / "golden.npz"
    pecli.save(golden, pecli.Rope(300, 64))
    doubled = {name: np.concatenate([table, table], 1) for name, table in _rotary(100, 64, 1e4).items()}
    lines = pecli.diff(golden, _wrong(tmp_path, **doubled)).diagnosis
    assert any(
        "the layout is halves (the spec says compact) and seq_len is 100 (the spec says 300)" in x for x in lines
    )


def test_another_parameter_is_named(tmp_path) -> None:
    golden = tmp_path / "golden.npz"
    llama3 = {"scaling": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    pecli.save(golden, pecli.Rope(2048, 128, base=5e5, original_max_position_embeddings=8192, **llama3))
    other = pecli.Rope(2048, 128, base=5e5, original_max_position_embeddings=4096, **llama3).tables()
    (line,) = pecli.diff(golden, _wrong(tmp_path, cos=other["cos"], sin=other["sin"])).diagnosis
    words = "original_max_position_embeddings is 4096 (the spec says 8192)"
    assert line.startswith(f"cos, sin: B is what A's spec makes if {words}; residual ")


@pytest.mark.parametrize(
    ("power", "words"),
    [(0, "the YaRN attention factor, 1.3466, is dropped"), (2, "1.3466 = the YaRN attention factor, applied twice")],
)
def test_a_factor_is_called_what_the_spec_calls_it(tmp_path, power: int, words: str) -> None:
    golden = tmp_path / "golden.npz"
    scheme = pecli.Rope(300, 64, 150000.0, scaling="yarn", factor=32.0, original_max_position_embeddings=4096)
    pecli.save(golden, scheme)
    by = (0.1 * math.log(32) + 1) ** (power - 1)
    tables = {name: (scheme.tables()[name] * np.float64(by)).astype(np.float32) for name in ("cos", "sin")}
    (line,) = pecli.diff(golden, _wrong(tmp_path, **tables)).diagnosis
    assert line.startswith("cos, sin: B is what A's spec makes if ")
    assert words in line


def test_a_dump_without_inv_freq_is_no_difference(tmp_path) -> None:
    golden = tmp_path / "golden.npz"
    scheme = pecli.Rope(300, 64)
    pecli.save(golden, scheme)
    tables = scheme.tables()
    assert pecli.diff(golden, _wrong(tmp_path, cos=tables["cos"], sin=tables["sin"])).passed
    only = pecli.diff(golden, _wrong(tmp_path, cos=tables["cos"]))
    assert only.diagnosis == ("sin: only A has it, B does not",)


def test_advice_for_verify_is_left_out(tmp_path) -> None:
    golden = tmp_path / "golden.npz"
    pecli.save(golden, pecli.Rope(2048, 64))
    inv = (1 / np.float32(1e4) ** (np.arange(0, 64, 2, dtype=np.float32) / np.float32(64))).astype(np.float32)
    angles = np.outer(np.arange(2048).astype(np.float32), inv).astype(np.float32)
    (line,) = pecli.diff(golden, _wrong(tmp_path, cos=np.cos(angles), sin=np.sin(angles))).diagnosis
    assert "B is what A's spec makes if the phases are computed in float32, as Hugging Face does (" in line
    assert "--recipe" not in line
    assert line.count("(") == line.count(")")
