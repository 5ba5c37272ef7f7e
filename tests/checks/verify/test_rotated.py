"""Queries and keys after the rotation, checked against those before it: which channels and axes,
which mistake, and passes that prove little.

Random queries are rotated here by the textbook formula in float64, (a, b) → (a cos − b sin, b cos +
a sin). SCALED are the frequencies of Llama 3.1 (128 channels, base 500000, Llama 3's scaling),
YARN40 those of DeepSeek-V3's 64 rotary channels, both by tests/tools/sweeps. An edit is a mistake
as an object.
"""

import shlex
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.engine.edits import (
    Dtype,
    HeadsWrong,
    Layout,
    Parameter,
    Positions,
    Recipe,
    Rotation,
    Rows,
    RowsWrong,
)
from tests.checks.waves import LLAMA3, cos_and_sin_tables, inverse_frequencies
from tests.exit_codes import CHECK_FAILED, FILE_ERROR, SUCCESS
from tests.tools.sweeps.tables import Waves

LLAMA_3_1_8B = "llama-3.1-8b"
RNG = np.random.default_rng(0)
SCALED = Waves(128, 5e5, {"type": "llama3", **LLAMA3}).frequencies()[0]
YARN40 = Waves(
    64, 1e4, {"type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096}
).frequencies()[0]
"""DeepSeek's 64 channels."""


def cos_and_sin_at(positions: Any, inv: np.ndarray = SCALED) -> tuple[np.ndarray, ...]:
    return tuple(cos_and_sin_tables(positions, inv, np.float64).values())


def random_queries(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def rotated_as_halves(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    a, b = np.split(x.astype(np.float64), 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(np.float32)


def rotated_as_deepseek_does(x: np.ndarray, channels: slice) -> np.ndarray:
    """Interleaved pairs of some channels, written as halves."""
    out, (cos, sin) = x.copy(), cos_and_sin_at(x.shape[-2], YARN40)
    a = x[..., channels][..., 0::2].astype(np.float64)
    b = x[..., channels][..., 1::2]
    out[..., channels] = np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
    return out


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float32", {"atol": 1e-6}), ("float16", {"max_ulp": 1})]
)
def test_deepseek_rotates_the_last_channels_of_a_head(
    dtype: str, tolerance: dict[str, float]
) -> None:
    """A head of DeepSeek-V3 has 192 channels, of which the last 64 are rotated: 128 to 191. Its
    code takes interleaved pairs and writes them as halves; `rotated_as_deepseek_does` is that in
    NumPy.
    """
    q = random_queries(1, 4, 32, 192).astype(dtype)
    after = rotated_as_deepseek_does(q, channels=slice(128, 192))

    assert pecli.verify(after, "deepseek-v3", before=q, **tolerance).passed


def test_the_first_channels_of_deepseek_rotated_by_mistake_are_named() -> None:
    """Of the 192 channels of a head, 0 to 63 were rotated instead of 128 to 191."""
    q = random_queries(1, 4, 32, 192)
    after = rotated_as_deepseek_does(q, channels=slice(0, 64))
    result = pecli.verify(after, "deepseek-v3", before=q, atol=1e-6)
    assert [each.edits for each in result.explanations] == [(Rotation("first channels"),)]


@pytest.mark.parametrize(
    ("model", "shape"),
    [(LLAMA_3_1_8B, (1, 2, 8, 128)), ("gpt-oss-20b", (8, 64)), ("deepseek-v3", (64, 192))],
)
def test_no_rotation_at_all_is_named(model: str, shape: tuple[int, ...]) -> None:
    """The queries after the rotation are those before it. Heads of Llama 3.1 have 128 channels, of
    gpt-oss 64, and of DeepSeek-V3 192.
    """
    q = random_queries(*shape)
    found = pecli.verify(q, model, before=q, atol=1e-3)

    assert [each.edits for each in found.explanations] == [(Rotation("none"),)]


A, B = np.split(random_queries(64, 128).astype(np.float64), 2, axis=-1)
RANDOM_QUERIES = np.concatenate([A, B], axis=-1)
LLAMA_3_1_COS, LLAMA_3_1_SIN = cos_and_sin_at(64)
INTERLEAVED = np.stack([-RANDOM_QUERIES[:, 1::2], RANDOM_QUERIES[:, 0::2]], axis=-1).reshape(
    64, 128
)
FIRST = A * LLAMA_3_1_COS - B * LLAMA_3_1_SIN
MISTAKES_OF_ROTATION = {
    Rotation("no minus"): np.concatenate(
        [A * LLAMA_3_1_COS + B * LLAMA_3_1_SIN, B * LLAMA_3_1_COS + A * LLAMA_3_1_SIN], axis=-1
    ),
    Rotation("two minuses"): np.concatenate(
        [FIRST, B * LLAMA_3_1_COS - A * LLAMA_3_1_SIN], axis=-1
    ),
    Rotation("in place"): np.concatenate(
        [FIRST, B * LLAMA_3_1_COS + FIRST * LLAMA_3_1_SIN], axis=-1
    ),
    Rotation("first half"): np.concatenate([FIRST, B], axis=-1),
    Layout("halves", "interleaved, with cos and sin doubled as halves"): RANDOM_QUERIES
    * np.tile(LLAMA_3_1_COS, 2)
    + INTERLEAVED * np.tile(LLAMA_3_1_SIN, 2),
    Layout("halves", "halves, with cos and sin doubled as interleaved"): RANDOM_QUERIES
    * np.repeat(LLAMA_3_1_COS, 2, axis=1)
    + np.concatenate([-B, A], axis=-1) * np.repeat(LLAMA_3_1_SIN, 2, axis=1),
    Rows("constant", 777): rotated_as_halves(RANDOM_QUERIES, *cos_and_sin_at(np.full(64, 777))),
}


@pytest.mark.parametrize("edit", MISTAKES_OF_ROTATION, ids=str)
def test_mistakes_of_the_formula_are_named(edit: Any) -> None:
    """MISTAKES_OF_ROTATION has queries of Llama 3.1, rotated by a wrong formula in NumPy, by the
    mistake as an object: a missing minus, (a cos + b sin, b cos + a sin), for example, or an update
    in place. The wrong formula leaves a residual of rounding only. No command rotates like that, so
    that none is printed.
    """
    found = pecli.verify(
        MISTAKES_OF_ROTATION[edit].astype(np.float32),
        LLAMA_3_1_8B,
        before=RANDOM_QUERIES.astype(np.float32),
        atol=1e-3,
    )

    assert [each.edits for each in found.explanations] == [(edit,)]
    assert found.explanations[0].residual < 1e-6
    assert not any("reproduce" in line for line in found.diagnosis)


@pytest.mark.parametrize("change", ["tanh", "noise", "not a number", "infinity"])
@pytest.mark.sample(2)
def test_queries_that_no_mistake_explains_get_no_reason(change: str) -> None:
    """Queries «after» are tanh of those before, or the right rotation with noise of 0.01, or values
    that are not finite. They fail, and no guess is made.
    """
    x = RANDOM_QUERIES[:24]
    rotated = rotated_as_halves(x, LLAMA_3_1_COS[:24], LLAMA_3_1_SIN[:24])
    after = {
        "tanh": np.tanh(x),
        "noise": rotated + 0.01 * RNG.normal(size=x.shape),
        "not a number": np.full_like(x, np.nan),
        "infinity": np.full_like(x, np.inf),
    }[change]
    found = pecli.verify(
        after.astype(np.float32), LLAMA_3_1_8B, before=x.astype(np.float32), atol=1e-3
    )

    assert not found.passed
    assert not found.diagnosis


ONE = random_queries(1, 4, 1, 128)
EIGHT = random_queries(1, 8, 64, 128)
BITS = rotated_as_halves(RANDOM_QUERIES, LLAMA_3_1_COS, LLAMA_3_1_SIN).view(np.uint32)
ROW = rotated_as_halves(RANDOM_QUERIES, LLAMA_3_1_COS, LLAMA_3_1_SIN)
HEAD = rotated_as_halves(EIGHT, LLAMA_3_1_COS, LLAMA_3_1_SIN)
ROW[37], HEAD[0, 5] = RANDOM_QUERIES[37], EIGHT[0, 5]
MANY = random_queries(1, 32, 64, 128)
NOISY = rotated_as_halves(MANY, LLAMA_3_1_COS, LLAMA_3_1_SIN)
NOISY[0, 5] += 0.01 * random_queries(64, 128)
LONG = random_queries(1, 2, 600, 128)
BFLOAT16 = ml_dtypes.bfloat16
NARROW = LONG.astype(BFLOAT16)
FIRST, SECOND = np.split(NARROW, 2, axis=-1)
COSINES, SINES = (each.astype(BFLOAT16) for each in cos_and_sin_at(600))
IN_BFLOAT16 = np.concatenate(
    [FIRST * COSINES - SECOND * SINES, SECOND * COSINES + FIRST * SINES], axis=-1
)
COARSE = SCALED.astype(BFLOAT16).astype(np.float64)
PARTLY = {
    "frequencies in bfloat16": (
        LONG,
        rotated_as_halves(LONG, *cos_and_sin_at(600, COARSE)),
        Recipe("bfloat16-inv-freq"),
    ),
    "rotated in bfloat16": (NARROW, IN_BFLOAT16, Rotation("in bfloat16")),
    "a single token at another position": (
        ONE,
        rotated_as_halves(ONE, *cos_and_sin_at([777])),
        Parameter("offset", 0, 777),
    ),
    "bfloat16": (
        RANDOM_QUERIES,
        ((BITS + 0x8000) & np.uint32(0xFFFF0000)).view(np.float32),
        Dtype("bfloat16"),
    ),
    "one wrong row": (RANDOM_QUERIES, ROW, RowsWrong((37,))),
    "noise in one of many heads": (MANY, NOISY, HeadsWrong(((0, 5),))),
    "one head that is not rotated": (
        EIGHT,
        HEAD,
        Positions("0 … 63", "0 × 64", "nothing is rotated"),
    ),
}


@pytest.mark.parametrize("case", PARTLY)
@pytest.mark.sample(3)
def test_rounding_or_a_mistake_in_a_part_of_rotated_queries_is_the_only_reason(case: str) -> None:
    """Each case of PARTLY has queries before, after, and the mistake that was made: row 37 is not
    rotated, for example, or the frequencies were rounded to bfloat16. All are rotated by the
    formula of Llama 3.1 in NumPy, and dumped in float32 unless they are in bfloat16.
    """
    before, after, planted = PARTLY[case]
    dtype = BFLOAT16 if after.dtype == BFLOAT16 else np.float32
    result = pecli.verify(after.astype(dtype), LLAMA_3_1_8B, before=before.astype(dtype), atol=1e-3)
    (reason,) = result.explanations

    assert reason.edits == (planted,)


def test_a_rotation_along_the_head_axis_is_named() -> None:
    """The axes of the queries are (2 sequences, 2 heads, 24 positions, 128 channels). They are
    rotated as if the 2 heads were the positions 0 and 1: along axis −3, not −2.
    """
    q = random_queries(2, 2, 24, 128)
    cos, sin = cos_and_sin_at(2)
    along_heads = rotated_as_halves(q, cos[:, None], sin[:, None])
    found = pecli.verify(along_heads, LLAMA_3_1_8B, before=q, atol=1e-3)

    assert [each.edits for each in found.explanations] == [(Parameter("position_axis", -2, -3),)]
    assert (
        "if positions are along axis 1 of (2, 2, 24, 128), verify with --seq-axis 1"
        in found.diagnosis
    )


def weak_remarks(before: np.ndarray, after: np.ndarray, atol: float) -> tuple[str, ...]:
    """Return the remarks on a pass that proves little, for queries of Llama 3.1."""
    before = before.astype(np.float32)
    after = after.astype(np.float32)
    result = pecli.verify(after, LLAMA_3_1_8B, before=before, atol=atol)

    assert result.passed
    return result.weak


def test_a_pass_at_position_0_is_weak() -> None:
    """At position 0, rotated queries are those before the rotation."""
    before = RANDOM_QUERIES[:1]
    after = rotated_as_halves(before, LLAMA_3_1_COS[:1], LLAMA_3_1_SIN[:1])
    (remark,) = weak_remarks(before, after, atol=1e-6)

    assert "1 row cannot detect a missing rotation" in remark


def test_a_pass_of_zeros_is_weak() -> None:
    """Zeros stay zeros, whatever the rotation is."""
    zeros = np.zeros_like(RANDOM_QUERIES)
    (remark,) = weak_remarks(zeros, zeros, atol=1e-6)

    assert "64 rows cannot detect a missing rotation" in remark


def test_a_pass_without_the_scaling_of_the_model_is_weak() -> None:
    """Three rows are rotated by base 500000 without Llama 3.1's scaling, which changes them by less
    than the tolerance of 1e-2.
    """
    before = RANDOM_QUERIES[:3]
    unscaled = cos_and_sin_at(3, inverse_frequencies(5e5, 128))
    remarks = weak_remarks(before, rotated_as_halves(before, *unscaled), atol=1e-2)

    assert "whether the llama3 scaling is missing" in " ".join(remarks)


def test_a_pass_of_64_rows_within_a_thousandth_is_not_weak() -> None:
    """Any mistake that is known, in 64 positions, changes some element by more than 1e-3."""
    after = rotated_as_halves(RANDOM_QUERIES, LLAMA_3_1_COS, LLAMA_3_1_SIN)
    assert weak_remarks(RANDOM_QUERIES, after, atol=1e-3) == ()


def test_queries_are_compared_with_the_layers_whose_heads_have_their_size() -> None:
    """By the published config, heads of Gemma 4's sliding layers have 256 channels, and those of
    full attention 512. The queries have 256, and are rotated as in sliding attention.
    """
    q = random_queries(1, 4, 6, 256)
    after = pecli.apply(q, "gemma-4-e2b", layer_type="sliding_attention")

    assert pecli.verify(after, "gemma-4-e2b", before=q)


def test_positions_are_on_the_axis_beside_that_of_the_models_heads_or_where_it_is_stated() -> None:
    """Llama 3.1 has 32 heads, so that of the axes (2, 24, 32, 128) that of 32 is taken for heads,
    and 24 are positions. Of (2, 24, 4, 128), 4 are taken for positions, unless the axis is given,
    as 1 or −3.
    """
    q = random_queries(2, 24, 32, 128)
    cos, sin = cos_and_sin_at(24)
    after = rotated_as_halves(q, cos[:, None], sin[:, None])

    assert pecli.verify(after, LLAMA_3_1_8B, before=q, atol=1e-5).passed

    few = {"before": q[:, :, :4], "atol": 1e-5}
    assert not pecli.verify(after[:, :, :4], LLAMA_3_1_8B, **few, reasons=False).passed
    for axis in (1, -3):
        assert pecli.verify(after[:, :, :4], LLAMA_3_1_8B, seq_axis=axis, **few).passed


SHAPED = [("qwen3-8b", (1, 8, 32, 128), 1e6), ("mistral-7b-v0.1", (1, 8, 32, 128), 1e4)]
SHAPED += [("gemma-2-2b", (1, 4, 8, 256), 1e4)]


@pytest.mark.parametrize(("model", "shape", "base"), SHAPED)
def test_keys_with_as_many_positions_as_query_heads_pass(
    model: str, shape: tuple[int, ...], base: float
) -> None:
    """Both models have 8 heads of keys and 32 of queries, and these keys 32 positions: as many as
    there are heads of queries. The axis of positions is the second to last, as usual.
    """
    keys = random_queries(*shape)
    after = rotated_as_halves(keys, *cos_and_sin_at(shape[2], inverse_frequencies(base, shape[3])))

    assert pecli.verify(after, model, before=keys, atol=1e-5).passed


def test_queries_rotated_along_their_heads_fail_with_the_axis_named() -> None:
    """The axes are (1, 4, 32, 128). 32 is the number of Llama 3.1's heads, so that 4 are positions;
    the queries are rotated as if it were the other way round. If it is, --seq-axis 2 makes them
    pass.
    """
    q = random_queries(1, 4, 32, 128)
    along_heads = rotated_as_halves(q, *cos_and_sin_at(32))
    found = pecli.verify(along_heads, LLAMA_3_1_8B, before=q, atol=1e-5)

    assert not found.passed
    assert found.diagnosis[0].startswith("after: positions are along axis -2, not -3; ")
    assert "verify with --seq-axis 2" in found.diagnosis[1]
    assert pecli.verify(along_heads, LLAMA_3_1_8B, before=q, seq_axis=2, atol=1e-5).passed


def test_queries_rotated_along_their_heads_from_position_1_are_named() -> None:
    """The axes are (1, 4, 32, 128), and Llama 3.1 has 32 heads. There are two mistakes: the queries
    are rotated along the axis of heads, and by the angles of positions 1 to 32 instead of 0 to 31.
    """
    q = random_queries(1, 4, 32, 128)
    cos, sin = cos_and_sin_at(np.arange(1, 33))
    found = pecli.verify(rotated_as_halves(q, cos, sin), LLAMA_3_1_8B, before=q, atol=1e-5)
    assert (
        "positions are along axis -2, not -3, and positions start at 1 (the spec says 0)"
        in found.diagnosis[0]
    )
    assert "verify with --seq-axis 2" in found.diagnosis[1]


def test_rounding_is_not_explained_as_another_axis() -> None:
    """Queries of 24 positions and 32 heads were rotated in float64, but the recipe «float32», which
    rounds angles to float32, is required: they fail, by rounding errors that no mistake explains.
    """
    q = random_queries(1, 24, 32, 128)
    cos, sin = cos_and_sin_at(24)
    after = rotated_as_halves(q, cos[:, None], sin[:, None])

    assert pecli.verify(after, LLAMA_3_1_8B, before=q, recipe="float32").diagnosis == ()


def test_tensors_of_the_same_name_are_compared_in_a_manifest(run_pecli, tmp_path) -> None:
    """A manifest is a list of checks in a .toml file. q is rotated, and k is not: the check of both
    fails, for k.
    """
    before = {"q": random_queries(1, 4, 24, 128), "k": random_queries(1, 2, 24, 128)}
    rotation = cos_and_sin_at(24)
    np.savez(tmp_path / "before.npz", **before)
    np.savez(tmp_path / "after.npz", q=rotated_as_halves(before["q"], *rotation), k=before["k"])
    (tmp_path / "pecli.toml").write_text(
        '[[check]]\nfile = "after.npz"\nbefore = "before.npz"\nmodel = "llama-3.1-8b"\natol = 1e-5\nseq_axis = 2\n'
    )
    found = run_pecli("verify", tmp_path / "pecli.toml")

    assert found.exit_code == CHECK_FAILED
    assert "k: nothing is rotated" in found.out
    assert "q: " not in found.out


def test_files_whose_tensors_have_other_names_are_refused(run_pecli, tmp_path) -> None:
    """In `pecli verify after.npz --before other.npz`, after.npz has q and k, and other.npz
    q and v.
    """
    x = random_queries(1, 4, 24, 128)
    np.savez(tmp_path / "after.npz", q=x, k=x)
    np.savez(tmp_path / "other.npz", q=x, v=x)
    missing = run_pecli(
        "verify",
        tmp_path / "after.npz",
        "--before",
        tmp_path / "other.npz",
        "--model",
        LLAMA_3_1_8B,
    )

    assert missing.exit_code == FILE_ERROR
    assert "the names must agree" in missing.err


def test_the_printed_command_rotates_as_the_file_was(run_pecli, tmp_path, monkeypatch) -> None:
    """The queries are DeepSeek's, with two mistakes: they are rotated from position 5 on, and the
    pairs of channels 128 to 191 stay interleaved. `pecli apply` with the printed options makes the
    same, within 1e-6.
    """
    monkeypatch.chdir(tmp_path)  # A command with a long path would not be printed.
    q = random_queries(48, 192)
    out, (cos, sin) = q.astype(np.float64), cos_and_sin_at(np.arange(5, 53), YARN40)
    a, b = out[:, 128::2].copy(), out[:, 129::2].copy()
    out[:, 128:] = np.stack([a * cos - b * sin, b * cos + a * sin], axis=-1).reshape(48, 64)
    np.save(tmp_path / "q.npy", q)
    np.save(tmp_path / "after.npy", out.astype(np.float32))
    given = ("--before", "q.npy", "--model", "deepseek-v3", "--atol", "1e-5")
    lines = run_pecli("verify", "after.npy", *given, "--json").json["diagnosis"]
    command = next(
        line.removeprefix("reproduce with pecli ") for line in lines if line.startswith("reproduce")
    )
    *words, _ = shlex.split(command)

    assert run_pecli(*words, tmp_path / "again.npy").exit_code == SUCCESS
    assert np.abs(np.load(tmp_path / "again.npy") - out).max() < 1e-6


def test_the_printed_command_names_the_model_and_runs(run_pecli, tmp_path, monkeypatch) -> None:
    """GPT-J rotates interleaved pairs of 64 channels; the file after.npy was rotated as halves. The
    printed command makes this file again.
    """
    monkeypatch.chdir(tmp_path)
    np.save("q.npy", np.random.default_rng(0).normal(size=(32, 64)).astype(np.float32))

    assert (
        run_pecli(
            "apply", "rope", "q.npy", "--model", "gpt-j-6b", "--layout", "halves", "-o", "after.npy"
        ).exit_code
        == SUCCESS
    )

    result = pecli.verify("after.npy", "gpt-j-6b", before="q.npy", atol=1e-4)
    command = result.diagnosis[-1].removeprefix("reproduce with pecli ")
    assert command == "apply rope q.npy --model gpt-j-6b --layout halves -o again.npy"
    assert run_pecli(*command.split()).exit_code == SUCCESS
    assert np.array_equal(np.load("again.npy"), np.load("after.npy"))


def test_a_tensor_that_is_missing_after_the_rotation_is_listed_as_unchecked() -> None:
    """There are q and k before the rotation, and only q after it."""
    q = random_queries(2, 24, 128)
    assert pecli.verify(
        {"q": rotated_as_halves(q, *cos_and_sin_at(24))},
        LLAMA_3_1_8B,
        before={"q": q, "k": q},
        atol=1e-5,
    ).unchecked == ("k",)
