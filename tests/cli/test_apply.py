"""`pecli apply`: an encoding is added to the tensors of files, or rotates them, and new files are written.

Expected values are other projects' formulas in float64 (Hugging Face's rotate_half, GPT-J's
interleaved pairs, DeepSeek's), and numbers that projects publish with their tests (Gemma,
ONNX Runtime). Messages are the tool's own.
"""

import io
import math

import ml_dtypes
import numpy as np
import pytest

import pecli
from tests.exit_codes import SUCCESS
from tests.oracle import turned


def random_normal(*shape: int, dtype=np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.fixture
def run_apply(run_pecli):
    """Run `pecli apply` on arrays, which become files x.npy, k.npy, …; the arrays that it writes."""

    def call(scheme: str, *words: object, output: str = "out.npz", **arrays: np.ndarray):
        for name, array in arrays.items():
            np.save(f"{name}.npy", array)
        outcome = run_pecli("apply", scheme, *words, "-o", output)
        assert outcome.exit_code == SUCCESS, outcome.err
        return pecli.load(output)

    return call


def test_a_file_name_that_is_no_text_becomes_one(run_apply) -> None:
    """A byte that is not UTF-8 is U+FFFD in the name of the tensor."""
    name = b"x\xff.npy".decode("utf-8", "surrogateescape")
    np.save(name, np.zeros((2, 4)))

    for output, tensor in (("out.npz", "x\ufffd"), ("out.npy", "array")):
        made = run_apply("sinusoidal", name, output=output)
        assert np.array_equal(made[tensor], pecli.Sinusoidal(2, 4, dtype="float64").tables()["pe"])


def hugging_face(q: np.ndarray, positions) -> np.ndarray:
    """Llama and NeoX there: q·cos + rotate_half(q)·sin."""
    angles = np.asarray(positions, np.float64)[:, None] * 10000.0 ** (
        -np.arange(0, q.shape[-1], 2) / q.shape[-1]
    )
    cos, sin = (np.concatenate([f(angles), f(angles)], axis=-1) for f in (np.cos, np.sin))
    first, second = np.split(q.astype(np.float64), 2, axis=-1)
    return (
        np.concatenate([first, second], axis=-1) * cos
        + np.concatenate([-second, first], axis=-1) * sin
    )


def test_numbers_published_with_gemma(run_apply):
    """Gemma's own test of apply_rope: ones at position 1, wavelengths up to 100."""
    found = run_apply(
        "rope", "x.npy", "--base", 100, "--offset", 1, x=np.ones((1, 1, 4), np.float32)
    )["x"]
    np.testing.assert_allclose(
        found[0, 0], [-0.30116868, 0.89517075, 1.3817732, 1.0948375], rtol=0, atol=5e-7
    )


ONNX_INPUT = [
    [-1.0574, -0.1188, -0.9078, 0.3452, -0.5713, -0.2351],
    [1.0076, -0.7529, -0.2250, -0.4327, -1.5071, -0.4586],
]
ONNX_OUTPUT = {
    "interleaved": [[-0.4713, -0.9540, -0.9229, 0.3027, -0.5708, -0.2363],
        [0.2653, 1.2295, -0.1839, -0.4517, -1.5052, -0.4651]],
    "halves": [[-0.8618, -0.0922, -0.9073, -0.7032, -0.5762, -0.2371],
        [-0.0259, -0.6099, -0.2230, 1.0963, -1.5704, -0.4595]],
}  # fmt: skip


@pytest.mark.parametrize("layout", ONNX_OUTPUT)
def test_numbers_published_with_onnxruntime(run_apply, layout):
    """The tests of its RotaryEmbedding operator: head size 6, the rows of positions 1 and 2, in four decimals."""
    found = run_apply(
        "rope", "x.npy", "--offset", "1", "--layout", layout, x=np.array(ONNX_INPUT, np.float32)
    )["x"]
    np.testing.assert_allclose(found, ONNX_OUTPUT[layout], rtol=0, atol=2.5e-4)


def test_a_model_states_the_layout_and_the_rotary_channels(run_apply, run_pecli):
    """GPT-J rotates the first 64 of 256 channels by interleaved pairs; the expected values are the
    rotation's formula in float64.
    """
    q = random_normal(1, 2, 6, 256)
    found = run_apply("rope", "q.npy", "--model", "gpt-j-6b", q=q)["q"]
    angles = np.outer(range(6), 10000.0 ** (-np.arange(0, 64, 2) / 64))
    expected = np.concatenate([turned(q[..., :64], angles, "interleaved"), q[..., 64:]], axis=-1)

    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-13)

    outcome = run_pecli("apply", "rope", "q.npy", "--model", "gpt-j-6b", "-o", "y.npy")
    assert (
        "interleaved (as gpt-j-6b has it), the first 64 of 256 channels, positions 0 … 5"
        in outcome.out
    )

    rotary = run_apply("rope", "part.npy", "--model", "gpt-j-6b", part=q[..., :64])["part"]
    np.testing.assert_array_equal(rotary, found[..., :64])


def test_latent_attention_turns_the_last_channels(run_apply, run_pecli):
    """DeepSeek-V3: of a query, 128 channels stay and 64 turn: taken apart by view and transpose, then rotate_half."""
    q = random_normal(2, 5, 192, dtype=np.float64)
    words = ("rope", "q.npy", "--model", "deepseek-v3")
    found = run_apply(*words, q=q)["q"]

    np.testing.assert_array_equal(found[..., :128], q[..., :128])

    alone = run_apply("rope", "part.npy", "--model", "deepseek-v3", part=q[..., 128:])["part"]
    np.testing.assert_array_equal(found[..., 128:], alone)
    assert "the last 64 of 192 channels" in run_pecli("apply", *words, "-o", "y.npy").out

    plain = run_apply("rope", "part.npy", "--layout", "deepseek")["part"]
    apart = q[..., 128:].reshape(2, 5, 32, 2).swapaxes(-1, -2).reshape(2, 5, 64)
    np.testing.assert_allclose(plain, hugging_face(apart, range(5)), rtol=0, atol=1e-14)


def test_names_dtypes_and_texts_are_kept(run_apply):
    """Rotated values are those of rotate_half in float64; of the metadata, only what describes the
    input as made by pecli is dropped.
    """
    from safetensors import safe_open
    from safetensors.numpy import save_file

    arrays = {
        "layer.0.q": random_normal(1, 4, 8, 16),
        "layer.0.k": random_normal(1, 2, 8, 16, dtype=np.float16),
    }
    save_file(arrays, "in.safetensors", metadata={"format": "pt", "pecli": "{}"})
    found = run_apply("rope", "in.safetensors", output="out.safetensors")

    assert {name: array.dtype for name, array in found.items()} == {
        name: a.dtype for name, a in arrays.items()
    }

    for name, array in arrays.items():
        np.testing.assert_allclose(found[name], hugging_face(array, range(8)), rtol=5e-4, atol=1e-6)
    with safe_open("out.safetensors", "numpy") as file:
        assert file.metadata() == {"format": "pt"}  # what made the input has not made the output

    one = run_apply("rope", "in.safetensors:layer.0.k", output="one.npy")["array"]
    np.testing.assert_array_equal(one, found["layer.0.k"])
    assert list(run_apply("rope", "in.safetensors", "--tensor", "layer.0.q", output="one.npz")) == [
        "layer.0.q"
    ]


def test_names_are_looked_for_in_all_files(run_apply):
    """`--tensor` picks one tensor per name from several files; tensors without names are called as
    their files.
    """
    np.savez("a.npz", q=random_normal(4, 8), v=random_normal(4, 8))
    np.savez("b.npz", k=random_normal(4, 8), v=random_normal(4, 8))

    assert sorted(run_apply("rope", "a.npz", "b.npz", "--tensor", "k", "--tensor", "q")) == [
        "k",
        "q",
    ]

    unnamed = {"x": random_normal(4, 8), "y": random_normal(2, 4, 8)}
    assert sorted(run_apply("rope", "x.npy", "y.npy", **unnamed)) == [
        "x",
        "y",
    ]  # called as their files


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_float8_is_rounded_once(run_apply, dtype):
    """The nearest of all values, of two as near the one with an even pattern."""
    x = random_normal(4, 50, 8).astype(dtype)
    pecli.save("x.safetensors", {"x": x})
    found = run_apply("rope", "x.safetensors", output="y.safetensors")["x"]
    every = np.arange(256, dtype=np.uint8).view(dtype)
    every = every[np.isfinite(every.astype(np.float64))]
    far = np.abs(hugging_face(x, range(50))[..., None] - every.astype(np.float64))
    far[..., every.view(np.uint8) % 2 == 1] += 1e-300

    assert found.dtype == dtype
    np.testing.assert_array_equal(
        found.astype(np.float64), every[far.argmin(axis=-1)].astype(np.float64)
    )


@pytest.mark.parametrize(
    "scheme", [("rope",), ("sinusoidal",), ("learned", "--table", "table.npy")]
)
def test_the_axis_of_positions_is_printed_and_empty_tensors_stay_empty(
    run_apply, run_pecli, scheme
):
    np.save("table.npy", random_normal(9, 4))
    words = (scheme[0], "x.npy", *scheme[1:])

    for shape in ((0, 5, 4), (2, 0, 4), (3, 5, 4)):
        assert run_apply(*words, x=np.ones(shape, np.float32))["x"].shape == shape
    assert "along axis 1 of (3, 5, 4)" in run_pecli("apply", *words, "-o", "y.npy").out


def test_the_options_are_those_of_the_python_function(run_apply):
    """Each command line must write the same bits as the call of pecli.apply beside it."""
    x, w, s = (
        random_normal(2, 5, 6, dtype=np.float64),
        random_normal(9, 6),
        random_normal(1, 2, 3, 4, dtype=np.float64),
    )
    q, ids, rope = (
        random_normal(2, 6, 4, 8),
        np.array([[5, 3, 9, 0, 1, 2], [7, 7, 100000, 2, 0, 1]]),
        pecli.Rope(6, 8),
    )
    mask = np.array([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0]])
    arrays = {
        "x": x,
        "w": w,
        "s": s,
        "q": q,
        "ids": ids,
        "row": ids[0].astype(np.uint16),
        "mask": mask,
    }
    rows = [
        ("sinusoidal x.npy --offset 3", pecli.apply(x, pecli.Sinusoidal(5, 6, offset=3))),
        ("learned x.npy --table w.npy --offset 2", pecli.apply(x, w, offset=2)),
        ("learned-init x.npy --table w.npy", pecli.apply(x, w)),
        ("alibi s.npy", pecli.apply(s, pecli.Alibi(2))),
        ("alibi s.npy --causal", pecli.apply(s, pecli.Alibi(2, form="causal"))),
        ("rope x.npy --dim 4 --trailing", pecli.apply(x, pecli.Rope(5, 4), trailing=True)),
        ("rope q.npy --seq-axis 1 --offset 100", pecli.apply(q, rope, seq_axis=1, offset=100)),
        (
            "rope q.npy --seq-axis -3 --positions ids.npy",
            pecli.apply(q, rope, seq_axis=-3, positions=ids),
        ),
        (
            "rope q.npy --seq-axis 1 --positions row.npy",
            pecli.apply(q, rope, seq_axis=1, positions=ids[0]),
        ),
        (
            "rope q.npy --seq-axis 1 --attention-mask mask.npy",
            pecli.apply(q, rope, seq_axis=1, attention_mask=mask),
        ),
        ("rope q.npy --shift -3 --seq-axis 1", pecli.apply(q, rope, shift=-3)),
        ("rope q.npy --seq-axis 1 --inverse", pecli.apply(q, rope, seq_axis=1, inverse=True)),
    ]
    for line, expected in rows:
        (made,) = run_apply(*line.split(), **arrays).values()
        np.testing.assert_array_equal(made, expected, line)


def test_the_axis_and_the_mask_that_were_used_are_printed(working_folder, run_pecli):
    """An axis of 32 could be positions or Llama's 32 heads, so a warning asks for --seq-axis."""
    np.save("q.npy", random_normal(2, 4, 32, 128))
    np.save("mask.npy", np.ones((2, 32), int))
    words = [
        "apply",
        "rope",
        "q.npy",
        "--model",
        "llama-3.1-8b",
        "--attention-mask",
        "mask.npy",
        "-o",
        "o.npy",
    ]

    assert "32 is a number of heads" in run_pecli(*words).err
    assert "positions 0 … 31 of mask.npy along axis 2" in run_pecli(*words, "--seq-axis", "-2").out
    for length, last in (
        (4, "paper slopes of 2 heads\n"),
        (5, "queries are the last 4 of 5 positions\n"),
    ):
        np.save("s.npy", random_normal(2, 4, length))
        assert run_pecli("apply", "alibi", "s.npy", "-o", "o.npy").out.endswith(last)


def test_a_tensor_goes_through_a_pipe_or_replaces_its_own_file(run_apply, process):
    """The expected values are rotate_half's, in float64."""
    stream = io.BytesIO()
    np.save(stream, x := random_normal(3, 4, 8))
    result = process("apply", "rope", "-", "-o", "-", input=stream.getvalue())

    assert result.returncode == SUCCESS
    assert result.stderr == b""
    np.testing.assert_allclose(
        np.load(io.BytesIO(result.stdout)), hugging_face(x, range(4)), rtol=1e-7, atol=1e-9
    )

    found = run_apply("rope", "x.npy", output="x.npy", x=x)["array"]
    np.testing.assert_allclose(found, hugging_face(x, range(4)), rtol=1e-7, atol=1e-9)


def test_apply_prints_json_or_nothing_or_one_line(run_pecli):
    np.save("q.npy", random_normal(2, 4, 8))
    words = ("apply", "rope", "q.npy", "-o", "y.npz")
    data = run_pecli(*words, "--theta", "500000", "--json").json

    assert data["scheme"] == "rope"
    assert data["output"] == "y.npz"
    assert data["tensors"]["q"]["shape"] == [2, 4, 8]
    assert data["parameters"]["base"] == 500000
    assert data["parameters"]["layout"] == "halves"
    assert run_pecli(*words, "-q").out == ""
    assert "halves (the default)" in run_pecli(*words).out

    undone = run_pecli(*words, "--layout", "interleaved", "--inverse", "--offset", 7).out
    assert "interleaved (given), undone at positions 7 … 10" in undone
    assert "moved by -3 positions" in run_pecli(*words, "--shift", "-3").out


@pytest.mark.thorough
def test_the_input_is_not_copied(process, working_folder):
    """A tensor of 150 MB, with memory for little more than one of that size: the result."""
    import resource

    shape = (1, 8, 36864, 128)
    with open("x.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f4", "fortran_order": False, "shape": shape}
        )
        file.truncate(file.tell() + math.prod(shape) * 4)  # zeros, which take no room on the disk

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (400 << 20, 400 << 20))

    result = process("apply", "rope", "x.npy", "-o", "y.npy", preexec_fn=limit)

    assert result.returncode == SUCCESS, result.stderr
    assert (working_folder / "y.npy").stat().st_size == (working_folder / "x.npy").stat().st_size


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_positions_of_any_kind(run_apply, layout):
    """Fractions, negative ones and points of a grid: the formula in float64."""
    x = np.random.default_rng(4).normal(size=(2, 6, 8))
    numbers = [0, 0.5, -1, 2.25, 1000.125, -7]
    axial = np.array(
        [
            [h * f for f in (1.0, 0.01)] + [w * f for f in (1.0, 0.01)]
            for h in range(2)
            for w in range(3)
        ]
    )
    places = {
        ("--positions", ",".join(map(str, numbers))): np.outer(
            numbers, 10000.0 ** (-np.arange(4) / 4)
        ),
        ("--grid", "2x3", "--style", "eva"): axial,
    }
    for words, angles in places.items():
        found = run_apply("rope", "x.npy", "--layout", layout, *words, output="y.npy", x=x)["array"]
        np.testing.assert_allclose(found, turned(x, angles, layout), rtol=0, atol=1e-12)
        back = run_apply("rope", "y.npy", "--layout", layout, *words, "--inverse", output="z.npy")[
            "array"
        ]
        np.testing.assert_allclose(back, x, rtol=0, atol=1e-14)


@pytest.mark.parametrize("numbers", [[-1, 0, 7], [0.5, 1.0, 2.25]])
def test_positions_in_a_file_may_be_negative_or_fractions(run_apply, numbers):
    x = random_normal(1, 3, 8, dtype=np.float64)
    words = ("rope", "x.npy", "--positions", "places.npy")
    found = run_apply(*words, output="y.npy", x=x, places=np.array(numbers))["array"]
    angles = np.outer(numbers, 10000.0 ** (-np.arange(4) / 4))

    np.testing.assert_allclose(found, turned(x, angles, "halves"), rtol=0, atol=1e-12)


def test_the_sinusoidal_table_of_a_grid_is_added(run_apply):
    """Added to zeros, the result is the table itself."""
    found = run_apply(
        "sinusoidal", "x.npy", "--grid", "2x3", "--style", "mae", x=np.zeros((6, 16))
    )["x"]
    assert np.array_equal(
        found, pecli.Sinusoidal(grid=(2, 3), dim=16, style="mae", dtype="float64").tables()["pe"]
    )


def test_whole_numbers_are_places_on_axes_if_channels_of_axes_are_given(run_apply):
    """Two rows of ids would be those of a batch of two."""
    x = random_normal(2, 6, 8, dtype=np.float64)
    ids = np.array([[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]])
    words = ("--positions", "ids.npy", "--axes", "4,4")
    found = run_apply("rope", "x.npy", *words, output="y.npy", x=x, ids=ids)["array"]
    angles = np.concatenate([np.outer(places, [1.0, 0.01]) for places in ids], axis=1)

    np.testing.assert_allclose(found, turned(x, angles, "halves"), rtol=0, atol=1e-12)
