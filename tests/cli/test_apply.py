"""`pecli apply`: an encoding is added to the tensors of files, or rotates them, and new files are written.

Expected values are other projects' formulas in float64 (Hugging Face's rotate_half, GPT-J's
interleaved pairs, DeepSeek's), and numbers that projects publish with their tests (Gemma,
ONNX Runtime). Messages are the tool's own.
"""

import io
import math
import os

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


@pytest.mark.parametrize(
    ("output", "tensor"),
    [
        pytest.param("out.npz", "x\ufffd", id="npz: x and U+FFFD"),
        pytest.param("out.npy", "array", id="npy: array"),
    ],
)
def test_a_byte_that_is_not_utf8_in_a_file_name_is_replaced_in_the_name_of_the_tensor(
    run_apply, output: str, tensor: str
) -> None:
    """The file is called x and the byte FF: FF becomes U+FFFD in the name of the written tensor. A
    .npy file has no names, so there the tensor is «array». Zeros get the sinusoidal table added.
    """
    name = b"x\xff.npy".decode("utf-8", "surrogateescape")
    np.save(name, np.zeros((2, 4)))
    written = run_apply("sinusoidal", name, output=output)

    table = pecli.Sinusoidal(2, 4, dtype="float64").tables()["pe"]
    assert np.array_equal(written[tensor], table)


def gpt_j_query() -> np.ndarray:
    """Return a query of GPT-J, which rotates the first 64 of 256 channels by interleaved pairs."""
    return random_normal(1, 2, 6, 256)


def rotate_half_in_float64(x: np.ndarray, positions) -> np.ndarray:
    """Rotate as Llama and NeoX of transformers do: x·cos + rotate_half(x)·sin, with base 10000."""
    dim = x.shape[-1]
    frequencies = 10000.0 ** (-np.arange(0, dim, 2) / dim)
    angles = np.outer(positions, frequencies)
    cos = np.concatenate([np.cos(angles), np.cos(angles)], axis=-1)
    sin = np.concatenate([np.sin(angles), np.sin(angles)], axis=-1)
    first, second = np.split(x.astype(np.float64), 2, axis=-1)
    whole = np.concatenate([first, second], axis=-1)
    half_rotated = np.concatenate([-second, first], axis=-1)
    return whole * cos + half_rotated * sin


def test_the_numbers_published_with_gemma_are_computed(run_apply):
    """Gemma's own test of apply_rope rotates a vector of ones at position 1, with wavelengths up to
    100, and expects these four numbers.
    """
    ones = np.ones((1, 1, 4), np.float32)
    rotated = run_apply("rope", "x.npy", "--base", 100, "--offset", 1, x=ones)["x"]

    published = [-0.30116868, 0.89517075, 1.3817732, 1.0948375]
    np.testing.assert_allclose(rotated[0, 0], published, rtol=0, atol=5e-7)


@pytest.mark.parametrize(
    ("layout", "published"),
    [
        pytest.param(
            "interleaved",
            [
                [-0.4713, -0.9540, -0.9229, 0.3027, -0.5708, -0.2363],
                [0.2653, 1.2295, -0.1839, -0.4517, -1.5052, -0.4651],
            ],
            id="interleaved",
        ),
        pytest.param(
            "halves",
            [
                [-0.8618, -0.0922, -0.9073, -0.7032, -0.5762, -0.2371],
                [-0.0259, -0.6099, -0.2230, 1.0963, -1.5704, -0.4595],
            ],
            id="halves",
        ),
    ],
)
def test_the_numbers_published_with_onnxruntime_are_computed(
    run_apply, layout: str, published: list[list[float]]
):
    """The tests of ONNX Runtime's operator RotaryEmbedding have this input with head size 6, and
    the outputs of both layouts at positions 1 and 2, in four decimals.
    """
    published_input = [
        [-1.0574, -0.1188, -0.9078, 0.3452, -0.5713, -0.2351],
        [1.0076, -0.7529, -0.2250, -0.4327, -1.5071, -0.4586],
    ]
    x = np.array(published_input, np.float32)
    rotated = run_apply("rope", "x.npy", "--offset", "1", "--layout", layout, x=x)["x"]

    np.testing.assert_allclose(rotated, published, rtol=0, atol=2.5e-4)


def test_a_model_states_the_layout_and_the_rotary_channels(run_apply):
    """GPT-J rotates the first 64 of 256 channels as neighbours. The expected values are the
    rotation's formula in float64.
    """
    q = gpt_j_query()
    rotated = run_apply("rope", "q.npy", "--model", "gpt-j-6b", q=q)["q"]
    angles = np.outer(range(6), 10000.0 ** (-np.arange(0, 64, 2) / 64))
    expected = np.concatenate([turned(q[..., :64], angles, "interleaved"), q[..., 64:]], axis=-1)

    np.testing.assert_allclose(rotated, expected, rtol=1e-7, atol=1e-13)


def test_the_layout_and_the_rotary_channels_of_a_model_are_printed(run_pecli):
    """GPT-J rotates neighbouring channels, the first 64 of 256; the query has six positions."""
    np.save("q.npy", gpt_j_query())
    outcome = run_pecli("apply", "rope", "q.npy", "--model", "gpt-j-6b", "-o", "y.npy")
    words = "interleaved (as gpt-j-6b has it), the first 64 of 256 channels, positions 0 … 5"
    assert words in outcome.out


def test_a_query_of_only_the_rotary_channels_is_rotated_like_a_whole_one(run_apply):
    """GPT-J rotates the first 64 of 256 channels; `pecli apply` takes whole heads, or these
    channels only.
    """
    q = gpt_j_query()
    whole = run_apply("rope", "q.npy", "--model", "gpt-j-6b", q=q)["q"]
    part = run_apply("rope", "part.npy", "--model", "gpt-j-6b", part=q[..., :64])["part"]
    np.testing.assert_array_equal(part, whole[..., :64])


def deepseek_query() -> np.ndarray:
    """Return a query of DeepSeek-V3, which rotates the last 64 of 192 channels."""
    return random_normal(2, 5, 192, dtype=np.float64)


def test_deepseek_rotates_the_last_64_of_192_channels(run_apply, run_pecli):
    """Of 192 channels, 128 stay, and the last 64 turn as if they were given alone."""
    q = deepseek_query()
    rotated = run_apply("rope", "q.npy", "--model", "deepseek-v3", q=q)["q"]
    alone = run_apply("rope", "part.npy", "--model", "deepseek-v3", part=q[..., 128:])["part"]

    np.testing.assert_array_equal(rotated[..., :128], q[..., :128])
    np.testing.assert_array_equal(rotated[..., 128:], alone)

    outcome = run_pecli("apply", "rope", "q.npy", "--model", "deepseek-v3", "-o", "y.npy")
    assert "the last 64 of 192 channels" in outcome.out


def test_the_layout_deepseek_reads_neighbours_and_writes_halves(run_apply):
    """DeepSeek's code moves even channels before odd ones (view and transpose), then rotates as
    Hugging Face's rotate_half does. That formula in float64 has the expected numbers.
    """
    rotary_channels = deepseek_query()[..., 128:]  # 2 heads, 5 positions, 32 pairs
    rotated = run_apply("rope", "q.npy", "--layout", "deepseek", q=rotary_channels)["q"]

    pairs = rotary_channels.reshape(2, 5, 32, 2)
    even_before_odd = pairs.swapaxes(-1, -2).reshape(2, 5, 64)
    expected = rotate_half_in_float64(even_before_odd, range(5))
    np.testing.assert_allclose(rotated, expected, rtol=0, atol=1e-14)


@pytest.fixture
def two_tensors(working_folder) -> dict[str, np.ndarray]:
    """The tensors of in.safetensors, in float32 and float16; its metadata are a format and a spec."""
    from safetensors.numpy import save_file

    tensors = {
        "layer.0.q": random_normal(1, 4, 8, 16),
        "layer.0.k": random_normal(1, 2, 8, 16, dtype=np.float16),
    }
    save_file(tensors, "in.safetensors", metadata={"format": "pt", "pecli": "{}"})
    return tensors


def test_tensors_keep_their_names_and_dtypes(run_apply, two_tensors):
    """in.safetensors has layer.0.q in float32 and layer.0.k in float16. The expected values are
    those of rotate_half in float64, up to the rounding of float16.
    """
    rotated = run_apply("rope", "in.safetensors", output="out.safetensors")
    assert sorted(rotated) == ["layer.0.k", "layer.0.q"]
    for name, tensor in two_tensors.items():
        assert rotated[name].dtype == tensor.dtype
        expected = rotate_half_in_float64(tensor, range(8))
        np.testing.assert_allclose(rotated[name], expected, rtol=5e-4, atol=1e-6)


@pytest.mark.usefixtures("two_tensors")
def test_metadata_are_kept_except_the_spec_of_the_input(run_apply):
    """The spec, under the key «pecli», is about the input: the output is no table of pecli."""
    from safetensors import safe_open

    run_apply("rope", "in.safetensors", output="out.safetensors")
    with safe_open("out.safetensors", "numpy") as file:
        assert file.metadata() == {"format": "pt"}


@pytest.mark.usefixtures("two_tensors")
@pytest.mark.parametrize(
    "words",
    [("in.safetensors:layer.0.k",), ("in.safetensors", "--tensor", "layer.0.k")],
    ids=["FILE:NAME", "--tensor"],
)
def test_one_tensor_of_a_file_is_rotated_if_it_is_named(run_apply, words: tuple[str, ...]):
    """in.safetensors has layer.0.q and layer.0.k. Only the latter is written, with the numbers that
    it has if both are rotated.
    """
    both = run_apply("rope", "in.safetensors", output="both.npz")
    written = run_apply("rope", *words, output="one.npz")

    (rotated,) = written.values()
    np.testing.assert_array_equal(rotated, both["layer.0.k"])


def test_tensors_that_are_named_are_looked_for_in_all_files(run_apply):
    """`--tensor k --tensor q` takes q of a.npz and k of b.npz; the tensors v of both files are left
    out.
    """
    np.savez("a.npz", q=random_normal(4, 8), v=random_normal(4, 8))
    np.savez("b.npz", k=random_normal(4, 8), v=random_normal(4, 8))
    rotated = run_apply("rope", "a.npz", "b.npz", "--tensor", "k", "--tensor", "q")
    assert sorted(rotated) == ["k", "q"]


def test_tensors_without_names_are_called_after_their_files(run_apply):
    """An .npy file holds one array and no name."""
    rotated = run_apply("rope", "x.npy", "y.npy", x=random_normal(4, 8), y=random_normal(2, 4, 8))
    assert sorted(rotated) == ["x", "y"]


APPLY_TO_X = {
    "rope": ("rope", "x.npy"),
    "sinusoidal": ("sinusoidal", "x.npy"),
    "learned": ("learned", "x.npy", "--table", "table.npy"),
}


@pytest.mark.parametrize("shape", [(0, 5, 4), (2, 0, 4)], ids=str)
@pytest.mark.parametrize("words", APPLY_TO_X.values(), ids=APPLY_TO_X)
def test_empty_tensors_stay_empty(run_apply, words: tuple[str, ...], shape: tuple[int, ...]):
    """`pecli apply` of a rope, a sinusoidal or a learned table to a tensor without heads or rows:
    the shape that went in comes out.
    """
    arrays = {"table": random_normal(9, 4), "x": np.ones(shape, np.float32)}
    assert run_apply(*words, **arrays)["x"].shape == shape


@pytest.mark.parametrize("words", APPLY_TO_X.values(), ids=APPLY_TO_X)
def test_the_axis_of_positions_is_printed(run_pecli, words: tuple[str, ...]):
    """`pecli apply` of an array (3, 5, 4): positions are on the last axis but one, axis 1 counted
    from 0.
    """
    np.save("table.npy", random_normal(9, 4))
    np.save("x.npy", np.ones((3, 5, 4), np.float32))
    outcome = run_pecli("apply", *words, "-o", "y.npy")

    assert "along axis 1 of (3, 5, 4)" in outcome.out


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_float8_is_rounded_once(run_apply, dtype):
    """The expected values are rotate_half's in float64, each rounded to the nearest of all finite
    float8 numbers; of two that are as near, to the one with an even pattern of bits.
    """
    x = random_normal(4, 50, 8).astype(dtype)
    pecli.save("x.safetensors", {"x": x})
    rotated = run_apply("rope", "x.safetensors", output="y.safetensors")["x"]

    patterns = np.arange(256, dtype=np.uint8)
    numbers = patterns.view(dtype).astype(np.float64)
    patterns = patterns[np.isfinite(numbers)]
    numbers = numbers[np.isfinite(numbers)]
    exact = rotate_half_in_float64(x, range(50))
    distances = np.abs(exact[..., None] - numbers)
    distances[..., patterns % 2 == 1] += 1e-300  # so that an even pattern wins a tie
    expected = numbers[distances.argmin(axis=-1)]

    assert rotated.dtype == dtype
    np.testing.assert_array_equal(rotated.astype(np.float64), expected)


X = random_normal(2, 5, 6, dtype=np.float64)  # (batch, positions, channels)
TABLE = random_normal(9, 6)  # (positions, channels)
SCORES = random_normal(1, 2, 3, 4, dtype=np.float64)  # (batch, heads, queries, keys)
Q = random_normal(2, 6, 4, 8)  # (batch, positions, heads, channels): positions are on axis 1
IDS = np.array([[5, 3, 9, 0, 1, 2], [7, 7, 100000, 2, 0, 1]])  # positions of both sequences
ROW = IDS[0].astype(np.uint16)  # positions that both sequences share
MASK = np.array([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0]])  # 0 is padding
FILES = {"x": X, "w": TABLE, "s": SCORES, "q": Q, "ids": IDS, "row": ROW, "mask": MASK}
"""Arrays by the names of their files: «x» is written to x.npy."""

ROPE_OF_8 = pecli.Rope(6, 8)
PYTHON_CALLS_OF_COMMAND_LINES = {
    "sinusoidal x.npy --offset 3": (X, pecli.Sinusoidal(5, 6, offset=3), {}),
    "learned x.npy --table w.npy --offset 2": (X, TABLE, {"offset": 2}),
    "learned-init x.npy --table w.npy": (X, TABLE, {}),
    "alibi s.npy": (SCORES, pecli.Alibi(2), {}),
    "alibi s.npy --causal": (SCORES, pecli.Alibi(2, form="causal"), {}),
    "rope x.npy --dim 4 --trailing": (X, pecli.Rope(5, 4), {"trailing": True}),
}
CALLS_THAT_ROTATE_Q_ALONG_AXIS_1 = {
    "--offset 100": {"offset": 100},
    "--positions ids.npy": {"positions": IDS},
    "--positions row.npy": {"positions": [5, 3, 9, 0, 1, 2]},
    "--attention-mask mask.npy": {"attention_mask": MASK},
    "--shift -3": {"shift": -3},
    "--inverse": {"inverse": True},
}


@pytest.mark.parametrize("line", PYTHON_CALLS_OF_COMMAND_LINES)
def test_a_command_line_computes_what_the_python_function_computes(run_apply, line: str):
    """`pecli apply sinusoidal x.npy --offset 3` and `pecli.apply(x, Sinusoidal(5, 6, offset=3))`
    give the same bits. The table has the words after `pecli apply`, and the array, the scheme and
    the settings of the function.
    """
    array, scheme, settings = PYTHON_CALLS_OF_COMMAND_LINES[line]
    (written,) = run_apply(*line.split(), **FILES).values()
    np.testing.assert_array_equal(written, pecli.apply(array, scheme, **settings))


@pytest.mark.parametrize("options", CALLS_THAT_ROTATE_Q_ALONG_AXIS_1)
def test_an_option_of_a_rotation_means_the_setting_of_the_python_function(run_apply, options: str):
    """`pecli apply rope q.npy --seq-axis 1 --offset 100` and
    `pecli.apply(q, rope, seq_axis=1, offset=100)` give the same bits.
    """
    settings = CALLS_THAT_ROTATE_Q_ALONG_AXIS_1[options]
    (written,) = run_apply("rope", "q.npy", "--seq-axis", 1, *options.split(), **FILES).values()
    np.testing.assert_array_equal(written, pecli.apply(Q, ROPE_OF_8, seq_axis=1, **settings))


def test_the_axis_of_positions_may_be_counted_from_the_last_one(run_apply):
    """q.npy has the axes (batch, positions, heads, channels): --seq-axis -3 is axis 1."""
    words = ("rope", "q.npy", "--positions", "ids.npy")
    (from_the_end,) = run_apply(*words, "--seq-axis", "-3", **FILES).values()
    expected = pecli.apply(Q, ROPE_OF_8, seq_axis=1, positions=IDS)
    np.testing.assert_array_equal(from_the_end, expected)


WITH_LLAMA_AND_MASK = ("--model", "llama-3.1-8b", "--attention-mask", "mask.npy")
APPLY_WITH_MASK = ("apply", "rope", "q.npy", *WITH_LLAMA_AND_MASK, "-o", "o.npy")


def test_an_axis_that_may_be_heads_is_warned_of(run_pecli):
    """Positions are taken from the last axis but one. Its length in q.npy is 32, which is also the
    number of heads of Llama 3.1, so that the axis may be that of heads.
    """
    np.save("q.npy", random_normal(2, 4, 32, 128))
    np.save("mask.npy", np.ones((2, 32), int))
    outcome = run_pecli(*APPLY_WITH_MASK)

    assert "32 is a number of heads" in outcome.err


def test_the_mask_that_was_used_is_printed(run_pecli):
    """The mask is of ones, so that the 32 positions are 0 to 31; axis −2 of four is axis 2."""
    np.save("q.npy", random_normal(2, 4, 32, 128))
    np.save("mask.npy", np.ones((2, 32), int))
    outcome = run_pecli(*APPLY_WITH_MASK, "--seq-axis", "-2")
    assert "positions 0 … 31 of mask.npy along axis 2" in outcome.out


@pytest.mark.parametrize(
    ("keys", "end_of_output"),
    [
        pytest.param(4, "paper slopes of 2 heads\n", id="as many keys as queries"),
        pytest.param(5, "queries are the last 4 of 5 positions\n", id="one key more"),
    ],
)
def test_the_positions_of_queries_are_printed_if_keys_are_more(
    run_pecli, keys: int, end_of_output: str
):
    """s.npy has scores of 2 heads, 4 queries and 4 or 5 keys, to which ALiBi's bias is added."""
    np.save("s.npy", random_normal(2, 4, keys))
    outcome = run_pecli("apply", "alibi", "s.npy", "-o", "o.npy")

    assert outcome.out.endswith(end_of_output)


def test_a_tensor_is_rotated_from_standard_input_to_standard_output(process):
    """`pecli apply rope - -o -` reads standard input and writes standard output. The expected
    values are rotate_half's (transformers), in float64.
    """
    x = random_normal(3, 4, 8)
    stream = io.BytesIO()
    np.save(stream, x)
    result = process("apply", "rope", "-", "-o", "-", input=stream.getvalue())

    assert result.returncode == SUCCESS
    assert result.stderr == b""
    rotated = np.load(io.BytesIO(result.stdout))
    np.testing.assert_allclose(rotated, rotate_half_in_float64(x, range(4)), rtol=1e-7, atol=1e-9)


def test_the_output_may_replace_the_input(run_apply):
    """`pecli apply rope x.npy -o x.npy`. The expected values are rotate_half's (transformers), in
    float64.
    """
    x = random_normal(3, 4, 8)
    rotated = run_apply("rope", "x.npy", output="x.npy", x=x)["array"]
    np.testing.assert_allclose(rotated, rotate_half_in_float64(x, range(4)), rtol=1e-7, atol=1e-9)


@pytest.fixture
def apply_to_q(run_pecli):
    """Run `pecli apply rope q.npy -o y.npz` with more options, on a query of 4 positions."""

    def call(*words: object):
        np.save("q.npy", random_normal(2, 4, 8))
        return run_pecli("apply", "rope", "q.npy", "-o", "y.npz", *words)

    return call


def test_apply_as_json_has_the_scheme_the_parameters_and_the_tensors(apply_to_q):
    """q has 2 heads, 4 positions and 8 channels; base and layout are those of the command line and
    the default.
    """
    data = apply_to_q("--theta", "500000", "--json").json
    assert data["scheme"] == "rope"
    assert data["output"] == "y.npz"
    assert data["tensors"]["q"]["shape"] == [2, 4, 8]
    assert data["parameters"]["base"] == 500000
    assert data["parameters"]["layout"] == "halves"


def test_a_quiet_apply_prints_nothing(apply_to_q):
    """`pecli apply -q` on a file of queries."""
    assert apply_to_q("-q").out == ""


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("", "halves (the default)"),
        (
            "--layout interleaved --inverse --offset 7",
            "interleaved (given), undone at positions 7 … 10",
        ),
        ("--shift -3", "moved by -3 positions"),
    ],
    ids=["default", "undone", "moved"],
)
def test_the_rotation_is_printed_in_words(apply_to_q, words: str, shown: str):
    """The query has four positions, so that from 7 on the last is 10."""
    assert shown in apply_to_q(*words.split()).out


FRACTIONS = [0, 0.5, -1, 2.25, 1000.125, -7]
ANGLES_OF_FRACTIONS = np.outer(FRACTIONS, 10000.0 ** (-np.arange(4) / 4))
ANGLES_OF_GRID = np.array([[h, h / 100, w, w / 100] for h in range(2) for w in range(3)])
"""Style eva on a grid of 2 x 3: two pairs turn with the row and two with the column, by 1 and 1/100."""


@pytest.mark.thorough
def test_a_large_input_is_not_copied(process, working_folder):
    """The input has 1 · 8 · 51,200 · 128 · 4 bytes = 200 MiB, and so has the result. A process that
    may have 400 MiB of data holds the result and Python itself, but not also a copy of the input:
    200 + 200 MiB would leave nothing for Python. A file that is mapped into memory, as the input
    is, does not count (RLIMIT_DATA).
    """
    import resource

    shape = (1, 8, 51200, 128)
    with open("x.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f4", "fortran_order": False, "shape": shape}
        )
        file.truncate(file.tell() + math.prod(shape) * 4)  # zeros, which take no room on the disk

    def limit_data_to_400_mib() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (400 << 20, 400 << 20))

    one_thread = {**os.environ, "PECLI_THREADS": "1"}  # Each thread has memory of its own.
    words = ("apply", "rope", "x.npy", "-o", "y.npy")
    result = process(*words, preexec_fn=limit_data_to_400_mib, env=one_thread)

    assert result.returncode == SUCCESS, result.stderr
    assert (working_folder / "y.npy").stat().st_size == (working_folder / "x.npy").stat().st_size


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
@pytest.mark.parametrize(
    ("words", "angles"),
    [
        (("--positions", ",".join(map(str, FRACTIONS))), ANGLES_OF_FRACTIONS),
        (("--grid", "2x3", "--style", "eva"), ANGLES_OF_GRID),
    ],
    ids=["fractions and negative ones", "points of a grid"],
)
def test_positions_may_be_fractions_negative_or_points_of_a_grid(
    run_apply, layout: str, words: tuple[str, ...], angles: np.ndarray
):
    """The angles are the positions 0, 0.5, −1, 2.25, 1000.125 and −7 times 10000^(−i/4), or the row
    and the column of a grid 2 × 3 times 1 and 1/100. `turned` is the textbook rotation in float64;
    --inverse undoes it.
    """
    x = random_normal(2, 6, 8, dtype=np.float64)
    words = ("--layout", layout, *words)
    rotated = run_apply("rope", "x.npy", *words, output="y.npy", x=x)["array"]
    np.testing.assert_allclose(rotated, turned(x, angles, layout), rtol=0, atol=1e-12)

    undone = run_apply("rope", "y.npy", *words, "--inverse", output="z.npy")["array"]
    np.testing.assert_allclose(undone, x, rtol=0, atol=1e-14)


@pytest.mark.parametrize("numbers", [[-1, 0, 7], [0.5, 1.0, 2.25]])
def test_positions_in_a_file_may_be_negative_or_fractions(run_apply, numbers):
    """The angle of pair i at position p is p · 10000^(−i/4), and numbers of places.npy are the
    positions; `turned` is the textbook rotation in NumPy.
    """
    x = random_normal(1, 3, 8, dtype=np.float64)
    words = ("rope", "x.npy", "--positions", "places.npy")
    found = run_apply(*words, output="y.npy", x=x, places=np.array(numbers))["array"]
    angles = np.outer(numbers, 10000.0 ** (-np.arange(4) / 4))

    np.testing.assert_allclose(found, turned(x, angles, "halves"), rtol=0, atol=1e-12)


def test_the_sinusoidal_table_of_a_grid_is_added(run_apply):
    """`pecli apply sinusoidal` adds the table of 2 × 3 patches to zeros: the result is the table."""
    zeros = np.zeros((6, 16))
    added = run_apply("sinusoidal", "x.npy", "--grid", "2x3", "--style", "mae", x=zeros)["x"]

    scheme = pecli.Sinusoidal(grid=(2, 3), dim=16, style="mae", dtype="float64")
    assert np.array_equal(added, scheme.tables()["pe"])


def test_with_axes_two_rows_of_position_ids_are_rows_and_columns(run_apply):
    """`--axes 4,4` gives 4 of 8 channels to each of two axes, so that the two rows of ids are
    places on the axes; without it they would be those of a batch of two. On an axis of 4 channels,
    the frequencies are 1 and 10000^(−1/2) = 0.01.
    """
    x = random_normal(2, 6, 8, dtype=np.float64)
    rows = [0, 0, 0, 1, 1, 1]
    columns = [0, 1, 2, 0, 1, 2]
    words = ("rope", "x.npy", "--positions", "ids.npy", "--axes", "4,4")
    rotated = run_apply(*words, output="y.npy", x=x, ids=np.array([rows, columns]))["array"]

    frequencies = [1.0, 0.01]
    angles = np.hstack([np.outer(rows, frequencies), np.outer(columns, frequencies)])
    np.testing.assert_allclose(rotated, turned(x, angles, "halves"), rtol=0, atol=1e-12)
