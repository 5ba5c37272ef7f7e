"""Queries and keys whose tables are right and whose positions are not: padding, packing, moved
caches, M-RoPE.

Random queries (2 sequences, 4 heads, 24 positions, 64 channels) are rotated here by the formula,
base 10000, at the positions of each test. LEFT_PADDED_MASK hides the first 9 tokens of the second
sequence, and POSITIONS_BY_MASK counts the others from 0. M-RoPE gives each frequency to one of the
axes time, row and column, and IMAGE has the positions of patches on them. Expected words are
written by hand.
"""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.checks.verification import Verification
from tests.exit_codes import CHECK_FAILED, SUCCESS, USAGE_ERROR
from tests.oracle import turned

HEADS, LENGTH, DIM = 4, 24, 64
LEFT_PADDED_MASK = np.array([[1] * LENGTH, [0] * 9 + [1] * (LENGTH - 9)])
POSITIONS_0_TO_23 = np.arange(LENGTH)
POSITIONS_BY_MASK = np.maximum(LEFT_PADDED_MASK.cumsum(axis=1) - 1, 0)
POSITIONS_WITH_PADDING_AT_1 = np.where(LEFT_PADDED_MASK, POSITIONS_BY_MASK, 1)
"""POSITIONS_BY_MASK, except that padding is at position 1, as transformers fills it."""

TWO_PACKED_SEQUENCES = np.r_[np.arange(16), np.arange(8)]
"""The positions 0 … 15 of one sequence, and 0 … 7 of another behind it."""

IMAGE = np.stack([np.full(LENGTH, 5), 5 + POSITIONS_0_TO_23 // 6, 5 + POSITIONS_0_TO_23 % 6])
"""Positions (time, row, column) of the 4 × 6 patches of an image, which follows 5 tokens of text."""

BY_MASK: dict[str, Any] = {"attention_mask": LEFT_PADDED_MASK}
AS_PACKED: dict[str, Any] = {"positions": TWO_PACKED_SEQUENCES}
AS_IMAGE: dict[str, Any] = {"positions": IMAGE}
"""Options of `verify` that state at which positions the tokens should be."""


def llama_of_base_10000(**more: Any) -> dict[str, Any]:
    sizes = {
        "hidden_size": HEADS * DIM,
        "num_attention_heads": HEADS,
        "num_key_value_heads": 2,
        "head_dim": DIM,
    }
    return {
        "model_type": "llama",
        **sizes,
        "rope_theta": 10000.0,
        "max_position_embeddings": 4096,
        **more,
    }


QWEN2 = llama_of_base_10000(
    model_type="qwen2_vl", rope_scaling={"rope_type": "default", "mrope_section": [8, 12, 12]}
)
QWEN3 = llama_of_base_10000(
    model_type="qwen3_vl_text",
    rope_scaling={
        "rope_type": "default",
        "mrope_section": [12, 10, 10],
        "mrope_interleaved": True,
    },
)
"""Models with M-RoPE, whose 32 frequencies belong to time, rows and columns: the sections of Qwen 2
follow each other, those of Qwen 3 are interleaved.
"""

GPTJ = {
    "model_type": "gptj",
    "n_embd": HEADS * DIM,
    "n_head": HEADS,
    "rotary_dim": DIM,
    "n_positions": 4096,
}
MODEL_OF_LAYOUT = {"halves": llama_of_base_10000(), "interleaved": GPTJ}

TIME, ROW, COLUMN = 0, 1, 2
AXES_OF_QWEN2 = np.repeat([TIME, ROW, COLUMN], [8, 12, 12])
AXES_OF_QWEN3 = np.full(32, TIME)
AXES_OF_QWEN3[1:30:3] = ROW
AXES_OF_QWEN3[2:30:3] = COLUMN
"""The axis of each frequency. In Qwen 3 they are by turns time, row and column, until 10 belong to
rows and 10 to columns; the last two belong to time, by transformers' apply_interleaved_mrope.
"""

BLOCKS_OF_QWEN3 = np.repeat([TIME, ROW, COLUMN], [12, 10, 10])
"""Qwen 3's sections, if they followed each other as in Qwen 2."""


def rotated_by_formula(
    x: np.ndarray,
    positions: np.ndarray,
    layout: str = "halves",
    axis_of_pair: np.ndarray | None = None,
) -> np.ndarray:
    """Rotate queries by the textbook formula.

    Args:
        x: The queries: (sequences, heads, positions, channels).
        positions: For all sequences, for each sequence, or for each head: its last axes are those
            of x without channels. With `axis_of_pair`, it has an axis (time, row, column) in front.
        layout: «halves» rotates the channels (i, i + 32), «interleaved» (2i, 2i + 1).
        axis_of_pair: The axis of each frequency for M-RoPE.
    """
    inverse = 10000.0 ** (-np.arange(DIM // 2) / (DIM // 2))
    positions = np.asarray(positions, float)
    if axis_of_pair is None:
        angles = positions[..., None] * inverse
    else:
        angles = positions[axis_of_pair].T * inverse
    is_by_sequence = angles.ndim == 3
    if is_by_sequence:
        angles = angles[:, None]  # All heads of a sequence have the same angles.
    return turned(x, angles, layout)


class Form(NamedTuple):
    """One of the forms in which programs dump queries and keys.

    `form.verify(positions, options)` rotates random queries at `positions` by the textbook formula,
    with base 10000, brings them into this form, and verifies them with `options`, which state the
    positions where they should be.
    """

    dtype: str
    layout: str
    heads_first: bool  #: (sequences, heads, positions, channels); else positions before heads.
    heads: int

    def __str__(self) -> str:
        order = "heads first" if self.heads_first else "positions first"
        return f"{self.dtype}, {self.layout}, {order}, {self.heads} heads"

    @property
    def atol(self) -> float:
        """Return a tolerance of a few roundings of numbers below 8, in bfloat16 of 2^-6 each."""
        return 3 * 2**-6 if self.dtype == "bfloat16" else 1e-4

    def verify(
        self,
        positions: np.ndarray,
        options: dict[str, Any],
        *,
        model: dict[str, Any] | None = None,
        axis_of_pair: np.ndarray | None = None,
    ) -> Verification:
        """Verify random queries that were rotated at some positions.

        Args:
            positions: The positions at which they were rotated.
            options: The options of `verify` that state where they should be.
            model: The model; None for one of the layout, without M-RoPE.
            axis_of_pair: The axis of each frequency in the rotation of M-RoPE.
        """
        dtype = ml_dtypes.bfloat16 if self.dtype == "bfloat16" else np.dtype(self.dtype)
        before = np.random.default_rng(1).normal(size=(2, self.heads, LENGTH, DIM)).astype(dtype)
        in_float64 = before.astype(np.float64)
        rotated = rotated_by_formula(in_float64, positions, self.layout, axis_of_pair)
        after = rotated.astype(dtype)
        if not self.heads_first:
            before = before.swapaxes(1, 2)
            after = after.swapaxes(1, 2)
            options = {**options, "seq_axis": 1}
        if model is None:
            model = MODEL_OF_LAYOUT[self.layout]
        return pecli.verify(after, model, before=before, atol=self.atol, **options)


FORMS = [
    Form(*values)
    for values in product(
        ["float32", "bfloat16"], ["halves", "interleaved"], [True, False], [HEADS, 2]
    )
]
"""All forms of queries of 4 heads, and of keys, which have 2 in the Llama."""

FORMS_IN_HALVES = [form for form in FORMS if form.layout == "halves"]
"""The forms for models with M-RoPE, which rotate halves."""


class Rotation(NamedTuple):
    """Positions at which queries were rotated, and where they should have been."""

    positions: np.ndarray
    options: dict[str, Any]
    mistake: str = ""  #: A part of the sentence that names it.


RIGHT_ROTATIONS = {
    # Tokens after the padding are at 0, 1, …; padding is not compared, wherever it is.
    "positions begin after the padding": Rotation(POSITIONS_BY_MASK, BY_MASK),
    "padding is at position 1": Rotation(POSITIONS_WITH_PADDING_AT_1, BY_MASK),
    # Keys in a cache are rotated already. To move them by 5, each is rotated by position 5 again.
    "a cache is moved": Rotation(np.full(LENGTH, 5), {"shift": 5}),
}
WRONG_ROTATIONS = {
    "left padding ignored": Rotation(
        POSITIONS_0_TO_23,
        BY_MASK,
        "sequence 1: positions are 0 … 23; expected 0 × 9, then 0 … 14: left padding is ignored",
    ),
    "packing not reset": Rotation(
        POSITIONS_0_TO_23,
        AS_PACKED,
        "expected 0 … 15, then 0 … 7: positions are not reset where a packed sequence begins",
    ),
    "offset per sequence": Rotation(
        np.stack([POSITIONS_0_TO_23, POSITIONS_0_TO_23 + 7]),
        {},
        "sequence 1: positions are 7 … 30; expected 0 … 23: all 7 too far",
    ),
    "cache not moved": Rotation(
        np.full(LENGTH, 0), {"shift": 5}, "expected 5 × 24: it was not moved"
    ),
    "cache moved twice": Rotation(np.full(LENGTH, 10), {"shift": 5}, "it was moved twice"),
    "cache moved back": Rotation(np.full(LENGTH, -5), {"shift": 5}, "it was moved the other way"),
}
"""By names of the mistakes. A shift of 5 states that rotated keys are rotated by 5 positions more."""


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("name", RIGHT_ROTATIONS)
@pytest.mark.sample(3)
def test_right_positions_pass_in_every_form(name: str, form: Form) -> None:
    """`form.verify` rotates random queries of two sequences in NumPy, and RIGHT_ROTATIONS has the
    positions, which are those that the options state: positions after the padding of a mask, or a
    shift of 5, by which each key of a cache is rotated once more. A form is, for example, bfloat16
    with positions before heads.
    """
    rotation = RIGHT_ROTATIONS[name]
    result = form.verify(rotation.positions, rotation.options)

    assert result.passed
    assert result.diagnosis == ()


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("name", WRONG_ROTATIONS)
@pytest.mark.sample(6)
def test_wrong_positions_are_named_in_every_form(name: str, form: Form) -> None:
    """Random queries are rotated in NumPy at other positions than the options state. For example, a
    mask is given, and both sequences are at 0 … 23: «left padding is ignored».
    """
    rotation = WRONG_ROTATIONS[name]
    result = form.verify(rotation.positions, rotation.options)

    assert not result.passed
    assert rotation.mistake in " ".join(result.diagnosis)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.sample(2)
def test_a_head_with_positions_of_the_step_before_is_named_in_every_form(form: Form) -> None:
    """All heads of both sequences are at 0 … 23, except head 1 of sequence 1, whose tokens are one
    position behind.
    """
    positions = np.tile(POSITIONS_0_TO_23, (2, form.heads, 1))
    positions[1, 1] = np.maximum(POSITIONS_0_TO_23 - 1, 0)
    result = form.verify(positions, {})

    assert not result.passed
    assert "sequence 1, head 1: positions are 0, then 0 … 22; expected 0 … 23" in " ".join(
        result.diagnosis
    )


class MropeRotation(NamedTuple):
    """A rotation at positions of an image, for a model with M-RoPE."""

    model: dict[str, Any]
    axis_of_pair: np.ndarray  #: The axis whose positions turn each frequency.
    positions: np.ndarray
    mistake: str = ""  #: A part of the sentence that names it.


RIGHT_MROPE = {
    "Qwen 2": MropeRotation(QWEN2, AXES_OF_QWEN2, positions=IMAGE),
    "Qwen 3": MropeRotation(QWEN3, AXES_OF_QWEN3, positions=IMAGE),
}
WRONG_MROPE = {
    # Rows and columns are left out: patches have positions in time only.
    "time for all axes": MropeRotation(
        QWEN2,
        AXES_OF_QWEN2,
        positions=IMAGE[[TIME, TIME, TIME]],
        mistake="1-D positions are given to M-RoPE",
    ),
    # Where (time, row, column) is expected, the axes are (time, column, row).
    "rows and columns exchanged": MropeRotation(
        QWEN2,
        AXES_OF_QWEN2,
        positions=IMAGE[[TIME, COLUMN, ROW]],
        mistake="the axes are those of (0, 2, 1)",
    ),
    # 12 frequencies of time, then 10 of rows, then 10 of columns; Qwen 3 takes the axes by turns.
    "sections in blocks": MropeRotation(
        QWEN3,
        BLOCKS_OF_QWEN3,
        positions=IMAGE,
        mistake="M-RoPE sections are blocked, where the model interleaves them",
    ),
}


@pytest.mark.parametrize("form", FORMS_IN_HALVES, ids=str)
@pytest.mark.parametrize("model", RIGHT_MROPE)
@pytest.mark.sample(2)
def test_right_positions_of_mrope_pass_in_every_form(model: str, form: Form) -> None:
    """M-RoPE rotates each of 32 frequencies by the positions on one axis, time, row or column. In
    Qwen 2, 8 frequencies of time are followed by 12 of rows and 12 of columns; in Qwen 3, the axes
    take turns. The tokens are the 4 × 6 patches of an image (IMAGE).

    `form.verify` rotates random queries by this rule in NumPy. A form is, for example, bfloat16
    with positions before heads.
    """
    rotation = RIGHT_MROPE[model]
    result = form.verify(
        rotation.positions, AS_IMAGE, model=rotation.model, axis_of_pair=rotation.axis_of_pair
    )

    assert result.passed
    assert result.diagnosis == ()


@pytest.mark.parametrize("form", FORMS_IN_HALVES, ids=str)
@pytest.mark.parametrize("name", WRONG_MROPE)
@pytest.mark.sample(3)
def test_wrong_positions_of_mrope_are_named_in_every_form(name: str, form: Form) -> None:
    """M-RoPE rotates each of 32 frequencies by the positions on one axis, time, row or column. The
    positions of 4 × 6 patches (IMAGE) are given to verify, and the queries are rotated in NumPy by
    the mistakes of WRONG_MROPE: by time for all axes; by (time, column, row), which are the axes
    (0, 2, 1); or with the frequencies of an axis in one block, where Qwen 3 takes the axes by turns.
    """
    rotation = WRONG_MROPE[name]
    result = form.verify(
        rotation.positions, AS_IMAGE, model=rotation.model, axis_of_pair=rotation.axis_of_pair
    )

    assert not result.passed
    assert rotation.mistake in " ".join(result.diagnosis)


@pytest.fixture
def verify_words(tmp_path: Path) -> tuple[Any, ...]:
    """Return the command that verifies queries at the positions of the padding mask."""
    before = np.random.default_rng(1).normal(size=(2, HEADS, LENGTH, DIM)).astype(np.float32)
    after = rotated_by_formula(before, POSITIONS_BY_MASK).astype(np.float32)
    arrays = {"q": before, "after": after, "mask": LEFT_PADDED_MASK}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    (tmp_path / "config.json").write_text(json.dumps(llama_of_base_10000()))
    given = ("--before", tmp_path / "q.npy", "--config", tmp_path / "config.json")
    return ("verify", tmp_path / "after.npy", *given, "--atol", "1e-4")


def test_padded_queries_pass_with_their_mask_on_the_command_line(
    run_pecli, tmp_path, verify_words
) -> None:
    """`verify_words` is `pecli verify` of queries of two sequences of 24 tokens, rotated at
    positions that are counted after the padding: 9 tokens of the second sequence, as in mask.npy.
    """
    found = run_pecli(*verify_words, "--attention-mask", tmp_path / "mask.npy")
    assert found.exit_code == SUCCESS


def test_padded_queries_fail_without_their_mask(run_pecli, verify_words) -> None:
    """`verify_words` is `pecli verify` of queries of two sequences, of which the second has padding
    on the left. Without the mask, both are expected at positions 0 … 23.
    """
    found = run_pecli(*verify_words)
    assert found.exit_code == CHECK_FAILED
    assert "expected 0 … 23" in found.out


def test_positions_of_two_sequences_are_listed_with_a_semicolon(run_pecli, verify_words) -> None:
    """`verify_words` is `pecli verify` of queries of two sequences, rotated at POSITIONS_BY_MASK.
    With --positions 0,1,…;0,0,… these are listed, sequence by sequence.
    """
    listed = ";".join(",".join(map(str, row)) for row in POSITIONS_BY_MASK)
    assert run_pecli(*verify_words, "--positions", listed).exit_code == SUCCESS


def test_positions_of_two_lengths_are_a_usage_error(run_pecli, verify_words) -> None:
    """`verify_words` is `pecli verify` of queries of two sequences; two positions are listed for
    the first, and one for the second.
    """
    assert run_pecli(*verify_words, "--positions", "1,2;3").exit_code == USAGE_ERROR


@pytest.mark.parametrize(("shift", "exit_code"), [("-3", SUCCESS), ("3", CHECK_FAILED)])
def test_a_cache_moved_back_by_3_passes_with_that_shift_only(
    run_pecli, tmp_path, shift: str, exit_code: int
) -> None:
    """When the first 3 tokens leave a cache, llama.cpp moves the keys behind them back by 3: each of
    these keys, which are rotated already, is rotated by position −3. --shift states this number.
    """
    cached = np.random.default_rng(1).normal(size=(2, 2, LENGTH, DIM)).astype(np.float32)
    moved = rotated_by_formula(cached, positions=np.full(LENGTH, -3)).astype(np.float32)
    np.save(tmp_path / "cached.npy", cached)
    np.save(tmp_path / "moved.npy", moved)
    (tmp_path / "config.json").write_text(json.dumps(llama_of_base_10000()))
    files = (tmp_path / "moved.npy", "--before", tmp_path / "cached.npy")
    model = ("--config", tmp_path / "config.json")
    options = ("--atol", "1e-4", "--shift", shift)

    assert run_pecli("verify", *files, *model, *options).exit_code == exit_code


def test_a_pass_that_cannot_see_padding_is_weak() -> None:
    """The first 9 of 24 tokens of sequence 1 are equal, which looks like left padding, but no mask
    is given. If positions are given, there is no doubt. `weak` are remarks on a pass that proves
    little.
    """
    before = np.random.default_rng(1).normal(size=(2, HEADS, LENGTH, DIM)).astype(np.float32)
    before[1, :, :9] = before[1, :, :1]
    after = rotated_by_formula(before, POSITIONS_0_TO_23).astype(np.float32)
    (line,) = pecli.verify(after, llama_of_base_10000(), before=before, atol=1e-4).weak

    assert "sequence 1 begins with 9 equal rows, which look like padding" in line

    placed = pecli.verify(
        after, llama_of_base_10000(), before=before, atol=1e-4, positions=POSITIONS_0_TO_23
    )
    assert placed.weak == ()


def test_a_remark_on_padding_states_a_sequence_only_if_there_is_a_batch_axis() -> None:
    """`weak` are remarks on a pass that proves little. The first 9 of 24 tokens are equal, as left
    padding is, in a tensor (heads, tokens, channels): the remark says «it begins with …». With a
    batch axis before heads, the same numbers are those of sequence 0.
    """
    before = np.random.default_rng(1).normal(size=(HEADS, LENGTH, DIM)).astype(np.float32)
    before[:, :9] = before[:, :1]
    after = rotated_by_formula(before, POSITIONS_0_TO_23).astype(np.float32)
    model = llama_of_base_10000()
    (line,) = pecli.verify(after, model, before=before, atol=1e-4).weak
    (line_of_batch,) = pecli.verify(after[None], model, before=before[None], atol=1e-4).weak

    assert "it begins with 9 equal rows, which look like padding" in line
    assert "sequence 0 begins with 9 equal rows, which look like padding" in line_of_batch


def test_a_pass_is_weak_if_no_positions_are_given_and_others_would_pass() -> None:
    """A linear scaling by 64 rotates a pair by at most 1/64 radian per position. At positions one too
    far, pairs of a length below 2√2 would be off by less than 0.05; the tolerance is 0.1. If positions are
    given, there is no doubt.
    """
    config = llama_of_base_10000(rope_scaling={"rope_type": "linear", "factor": 64.0})
    before = np.random.default_rng(1).uniform(-2, 2, (1, HEADS, LENGTH, DIM)).astype(np.float32)
    after = rotated_by_formula(before, POSITIONS_0_TO_23 / 64).astype(np.float32)
    given = {"positions": POSITIONS_0_TO_23}
    weak_without = pecli.verify(after, config, before=before, atol=0.1).weak
    weak_with = pecli.verify(after, config, before=before, atol=0.1, **given).weak

    assert "24 rows cannot tell whether positions start at 1" in " ".join(weak_without)
    assert "whether positions" not in " ".join(weak_with)


WPE = np.random.default_rng(3).normal(size=(64, 32)).astype(np.float32)
"""A learned table of 64 positions and 32 channels, which is added to inputs."""

NEOX = {
    "model_type": "gpt_neox",
    "hidden_size": HEADS * 256,
    "num_attention_heads": HEADS,
    "rotary_pct": 0.25,
}
"""A GPT-NeoX that rotates 64 of the 256 channels of a head."""


class Report(NamedTuple):
    """An issue of a public project: what was done to queries, and what should have been done."""

    model: Any  #: A configuration, or a learned table.
    options: dict[str, Any]  #: They state the right positions.
    change: Callable[[np.ndarray], np.ndarray]  #: What was done instead.
    mistake: str  #: A part of the sentence that names it.
    shape: tuple[int, ...] = (2, HEADS, LENGTH, DIM)  #: The shape of the queries or inputs.


def rotated_at_0_to_23(x: np.ndarray) -> np.ndarray:
    return rotated_by_formula(x, POSITIONS_0_TO_23)


def moved_back_by_3(x: np.ndarray) -> np.ndarray:
    return rotated_by_formula(x, np.full(LENGTH, -3))


def rotated_at_0_to_23_on_all_axes(x: np.ndarray) -> np.ndarray:
    return rotated_by_formula(x, np.stack([POSITIONS_0_TO_23] * 3), axis_of_pair=AXES_OF_QWEN2)


def rotated_by_sections_in_blocks(x: np.ndarray) -> np.ndarray:
    return rotated_by_formula(x, IMAGE, axis_of_pair=BLOCKS_OF_QWEN3)


def with_rows_0_to_23_added(x: np.ndarray) -> np.ndarray:
    return x + WPE[POSITIONS_0_TO_23]


REPORTS = {
    "unsloth#3699": Report(
        llama_of_base_10000(), BY_MASK, rotated_at_0_to_23, "left padding is ignored"
    ),
    "transformers#22161": Report(
        NEOX,
        BY_MASK,
        rotated_at_0_to_23,
        "left padding is ignored",
        shape=(2, HEADS, LENGTH, 256),
    ),
    "LlamaFactory#7318": Report(
        llama_of_base_10000(), AS_PACKED, rotated_at_0_to_23, "positions are not reset"
    ),
    "llama.cpp#3825": Report(
        llama_of_base_10000(), {"shift": -8}, moved_back_by_3, "moved by -3, not -8"
    ),
    "Liger-Kernel#276": Report(
        QWEN2, AS_IMAGE, rotated_at_0_to_23_on_all_axes, "1-D positions are given to M-RoPE"
    ),
    "MNN#4133": Report(QWEN3, AS_IMAGE, rotated_by_sections_in_blocks, "sections are blocked"),
    "nnsight#673": Report(
        WPE, BY_MASK, with_rows_0_to_23_added, "left padding is ignored", shape=(2, LENGTH, 32)
    ),
}


@pytest.mark.parametrize("issue", REPORTS)
def test_wrong_positions_that_users_reported_are_named(issue: str) -> None:
    """An issue is rebuilt on random numbers, by the formula in NumPy. In unsloth#3699, for example,
    a left-padded sequence is rotated at positions 0 … 23.
    """
    report = REPORTS[issue]
    before = np.random.default_rng(2).normal(size=report.shape).astype(np.float32)
    after = report.change(before.astype(np.float64)).astype(np.float32)
    result = pecli.verify(after, report.model, before=before, atol=1e-4, **report.options)

    assert not result.passed
    assert report.mistake in " ".join(result.diagnosis)


def test_a_cache_moved_in_too_many_channels_is_named() -> None:
    """NEOX is a GPT-NeoX that rotates a quarter of a head (rotary_pct 0.25): 64 of 256 channels.
    When the keys of its cache were moved by 5 positions, all 256 were rotated, by 10000^(−i/128)
    per position.
    """
    cache = np.random.default_rng(2).normal(size=(1, HEADS, LENGTH, 256)).astype(np.float32)
    moved = turned(cache, 5 * 10000.0 ** (-np.arange(128) / 128)).astype(np.float32)
    result = pecli.verify(moved, NEOX, before=cache, shift=5, atol=1e-4)

    assert "rotary dimension is 256 (the spec says 64)" in result.diagnosis[0]


def test_a_cache_is_not_multiplied_by_the_attention_factor_again() -> None:
    """The model has LongRoPE with an attention factor of 1.5, and factors of 1 that change no
    frequency. Cached keys have been multiplied by 1.5 already, so that moving them by 5 positions
    is a pure rotation.
    """
    ones = [1.0] * (DIM // 2)
    scaling = {
        "rope_type": "longrope",
        "short_factor": ones,
        "long_factor": ones,
        "attention_factor": 1.5,
    }
    model = llama_of_base_10000(rope_scaling={**scaling, "original_max_position_embeddings": 2048})
    cache = 1.5 * np.random.default_rng(2).normal(size=(1, HEADS, LENGTH, DIM))
    moved = {by: rotated_by_formula(cache, np.full(LENGTH, by)) for by in (5, 7)}

    assert pecli.verify(moved[5], model, before=cache, shift=5, atol=1e-6)

    result = pecli.verify(moved[7], model, before=cache, shift=5, atol=1e-6)
    assert "it was moved by 7, not 5" in result.diagnosis[0]


@pytest.mark.parametrize("model", [llama_of_base_10000(), GPTJ], ids=["halves", "interleaved"])
def test_positions_of_tables_per_batch_are_named_in_either_layout(model: dict[str, Any]) -> None:
    """The tables have axes (2 sequences, 24 positions, 32 frequencies), as cosines and sines of
    position · 10000^(−i/32); the second sequence begins at position 7. A Llama rotates halves,
    GPT-J interleaved pairs.
    """
    inverse = 10000.0 ** (-np.arange(DIM // 2) / (DIM // 2))
    angles = np.stack([POSITIONS_0_TO_23, POSITIONS_0_TO_23 + 7])[..., None] * inverse
    dump = {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
    first = pecli.verify(dump, model, atol=1e-6).diagnosis[0]

    assert first.startswith("sequence 1: positions are 7 … 30; expected 0 … 23: all 7 too far;")


def tables_at(places: np.ndarray) -> dict[str, np.ndarray]:
    """Return tables per batch, as the rotary modules of transformers do: (batch, L, head_dim)."""
    inverse = 10000.0 ** (-np.arange(DIM // 2) / (DIM // 2))
    angles = np.tile(places[..., None] * inverse, 2)
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


def test_positions_of_tables_per_batch_are_named_per_sequence() -> None:
    """`tables_at` has tables of two sequences at the given positions. In the first, 9 tokens of
    padding are at position 1, and the others count from 0; the second begins at 7. As no mask is
    given, 0 … 23 are expected of both.
    """
    places = np.stack([POSITIONS_WITH_PADDING_AT_1[1], POSITIONS_0_TO_23 + 7])
    uncounted = pecli.verify(tables_at(places), llama_of_base_10000(), atol=1e-6).diagnosis

    assert uncounted[0].startswith("sequence 0: positions are 1 × 9, then 0 … 14; expected 0 … 23;")
    assert uncounted[1].startswith(
        "sequence 1: positions are 7 … 30; expected 0 … 23: all 7 too far;"
    )


@pytest.mark.parametrize(
    "stated", [{"offset": 7}, {"positions": POSITIONS_0_TO_23 + 7}], ids=["offset", "positions"]
)
def test_stated_positions_of_tables_per_batch_are_not_doubted(stated: dict[str, Any]) -> None:
    """`tables_at` has tables of two sequences, of which only the second begins at position 7, as the
    user states for both. What is reported is that the two differ, not where they begin.
    """
    dump = tables_at(np.stack([POSITIONS_0_TO_23, POSITIONS_0_TO_23 + 7]))
    result = pecli.verify(dump, llama_of_base_10000(), atol=1e-6, **stated)

    assert result.diagnosis == ("cos: its copies differ", "sin: its copies differ")


def test_tables_per_batch_that_are_too_narrow_get_no_reason() -> None:
    """The tables have 10 columns where 32 (pairs) or 64 (channels) are expected: no positions can
    be found from them.
    """
    narrow = {
        name: table[..., :10] for name, table in tables_at(POSITIONS_WITH_PADDING_AT_1).items()
    }
    assert pecli.verify(narrow, llama_of_base_10000(), atol=1e-6).reasons == ()


def test_tables_per_batch_pass_with_their_mask_or_positions() -> None:
    """Both dumps are right for the tokens that the mask shows. Tokens of padding are at position 0,
    as in POSITIONS_BY_MASK, or at position 1, as transformers places them. A mask leaves them out;
    positions require them as well.
    """
    padding_at_0 = tables_at(POSITIONS_BY_MASK)
    padding_at_1 = tables_at(POSITIONS_WITH_PADDING_AT_1)
    by_mask = {"attention_mask": LEFT_PADDED_MASK, "atol": 1e-6}
    by_positions = {"positions": POSITIONS_BY_MASK, "atol": 1e-6}

    assert pecli.verify(padding_at_1, llama_of_base_10000(), **by_mask)
    assert pecli.verify(padding_at_0, llama_of_base_10000(), **by_positions)
    assert not pecli.verify(padding_at_1, llama_of_base_10000(), **by_positions, reasons=False)


def test_tables_per_batch_that_ignore_left_padding_are_named() -> None:
    """`tables_at` has the tables of two sequences that both count 0 … 23, although LEFT_PADDED_MASK
    hides the first 9 tokens of the second.
    """
    ignored = tables_at(np.stack([POSITIONS_0_TO_23] * 2))
    result = pecli.verify(
        ignored, llama_of_base_10000(), attention_mask=LEFT_PADDED_MASK, atol=1e-6
    )

    assert "expected 0 × 9, then 0 … 14: left padding is ignored" in result.diagnosis[0]


def test_positions_of_tables_per_batch_are_not_searched_for_without_reasons() -> None:
    """The tables count 0 … 23 in both sequences, although LEFT_PADDED_MASK hides the first 9 tokens of
    the second. The check fails, and states no reason, as none was required.
    """
    ignored = tables_at(np.stack([POSITIONS_0_TO_23] * 2))
    result = pecli.verify(
        ignored, llama_of_base_10000(), attention_mask=LEFT_PADDED_MASK, atol=1e-6, reasons=False
    )

    assert not result.passed
    assert result.reasons == ()


@pytest.mark.parametrize("names", [["cos"], ["cos", "sin"]], ids=str)
def test_tables_per_batch_that_ignore_left_padding_fail_for_two_layer_types(
    names: list[str],
) -> None:
    """The names cos and sin state no type of layer. In this Gemma 3, full attention has base 1e6,
    and sliding attention 10000, as the tables. They count 0 … 23 in both sequences, and the given
    positions begin after the padding.
    """
    gemma = llama_of_base_10000(model_type="gemma3_text", rope_theta=1e6, rope_local_base_freq=1e4)
    ignored = tables_at(np.stack([POSITIONS_0_TO_23] * 2))
    tensors = {name: ignored[name] for name in names}

    assert not pecli.verify(tensors, gemma, positions=POSITIONS_BY_MASK, atol=1e-6, reasons=False)


def test_the_command_takes_a_mask_for_tables_per_batch(run_pecli, tmp_path) -> None:
    """dump.npz has the tables of two sequences that both count 0 … 23, although mask.npy hides the
    first 9 tokens of the second.
    """
    np.savez(tmp_path / "dump.npz", **tables_at(np.stack([POSITIONS_0_TO_23] * 2)))
    np.save(tmp_path / "mask.npy", LEFT_PADDED_MASK)
    (tmp_path / "config.json").write_text(json.dumps(llama_of_base_10000()))
    words = ("verify", tmp_path / "dump.npz", "--model", tmp_path / "config.json", "--atol", "1e-6")
    outcome = run_pecli(*words, "--attention-mask", tmp_path / "mask.npy")

    assert outcome.exit_code == CHECK_FAILED
    assert "left padding is ignored" in outcome.out


def queries_of_two_sequences() -> np.ndarray:
    return np.random.default_rng(2).normal(size=(2, HEADS, LENGTH, DIM)).astype(np.float32)


@pytest.mark.parametrize(
    "tokens",
    [{}, {"shift": 5}, {"attention_mask": LEFT_PADDED_MASK}],
    ids=["positions from 0", "a shift", "a mask"],
)
def test_queries_that_are_not_finite_are_reported(tokens: dict[str, Any]) -> None:
    """All elements are NaN, before and after the rotation."""
    q = queries_of_two_sequences() * np.nan
    result = pecli.verify(q, llama_of_base_10000(), before=q, atol=1e-3, **tokens)

    assert "no finite numbers" in str(result)


def test_no_mistake_is_named_if_a_value_before_the_rotation_is_not_a_number() -> None:
    """Nothing is rotated, which is named if all values are finite. If one value is NaN, before and
    after, the problem is this value, and no mistake is searched for.
    """
    q = queries_of_two_sequences()
    (sentence,) = pecli.verify(q, llama_of_base_10000(), before=q, atol=1e-3).diagnosis
    assert sentence.startswith("after: nothing is rotated")

    q[0, 0, 5, 3] = np.nan
    result = pecli.verify(q, llama_of_base_10000(), before=q, atol=1e-3)
    problem = "1 of its values before are no finite numbers, of which nothing can be told"
    assert result.diagnosis == (f"array: {problem}",)
    assert result.explanations == ()


@pytest.mark.parametrize(
    "tokens",
    [{}, {"shift": 5}, {"attention_mask": LEFT_PADDED_MASK}],
    ids=["positions from 0", "a shift", "a mask"],
)
def test_a_pass_of_queries_of_zeros_is_weak(tokens: dict[str, Any]) -> None:
    """Any rotation of zeros is zeros, so that the check passes but proves nothing; `weak` are
    remarks on such a pass.
    """
    q = 0 * queries_of_two_sequences()
    assert pecli.verify(q, llama_of_base_10000(), before=q, atol=1e-3, **tokens).weak


def test_rows_of_padding_may_hold_nan_and_are_counted() -> None:
    """LEFT_PADDED_MASK hides 9 tokens of the second sequence, which are NaN before and after the
    rotation; all others are rotated at their positions by the formula.
    """
    q = queries_of_two_sequences()
    padded = np.where(LEFT_PADDED_MASK[:, None, :, None] == 0, np.nan, q)
    result = pecli.verify(
        rotated_by_formula(padded, POSITIONS_BY_MASK),
        llama_of_base_10000(),
        before=padded,
        attention_mask=LEFT_PADDED_MASK,
        atol=1e-4,
    )

    assert result.passed

    (reading,) = result.readings.values()
    assert reading == f"{(LEFT_PADDED_MASK == 0).sum()} rows of padding not compared"


def test_elements_of_padding_are_not_counted() -> None:
    """Of 2 · 24 tokens, LEFT_PADDED_MASK hides 9. The queries of all others are wrong."""
    q = queries_of_two_sequences()
    result = pecli.verify(
        q + 10,
        llama_of_base_10000(),
        before=q,
        attention_mask=LEFT_PADDED_MASK,
        atol=1e-3,
        reasons=False,
    )
    (tensor,) = result.tensors
    elements_of_tokens = (2 * LENGTH - 9) * HEADS * DIM

    assert tensor.size == elements_of_tokens


def test_a_sequence_beside_one_that_is_hidden_as_a_whole_is_checked() -> None:
    """The mask hides all of the first sequence, and nothing of the second, which has 1 added to
    each element instead of a rotation, and fails.
    """
    q = queries_of_two_sequences()
    mask = np.stack([np.zeros(LENGTH, int), np.ones(LENGTH, int)])
    result = pecli.verify(
        q + 1, llama_of_base_10000(), before=q, attention_mask=mask, atol=1e-3, reasons=False
    )
    assert not result


def test_sums_with_a_table_that_are_not_finite_fail() -> None:
    """A learned table of NaN was added to finite inputs."""
    x = queries_of_two_sequences()[:, 0]
    table = np.full((LENGTH, DIM), np.nan, np.float32)

    assert not pecli.verify(x + np.nan, table, before=x, atol=1e-3, reasons=False)


def test_padded_sequences_that_are_one_position_too_far_are_named() -> None:
    """LEFT_PADDED_MASK is 1 for tokens and 0 for padding: each token is rotated at the position
    after its own, in both sequences, one of which has padding.
    """
    q = np.random.default_rng(2).normal(size=(2, HEADS, LENGTH, DIM))
    result = pecli.verify(
        rotated_by_formula(q, POSITIONS_BY_MASK + LEFT_PADDED_MASK),
        llama_of_base_10000(),
        before=q,
        attention_mask=LEFT_PADDED_MASK,
        atol=1e-4,
    )

    assert len(result.diagnosis) == 2
    assert all("all 1 too far" in line for line in result.diagnosis)


@pytest.mark.parametrize(
    ("layout", "other_layout"), [("halves", "interleaved"), ("interleaved", "halves")]
)
def test_a_stated_layout_is_required_of_rotated_queries(layout: str, other_layout: str) -> None:
    """A Llama rotates halves; the option `layout` overrides that. The queries are rotated by the
    formula at positions 0 … 23, in the stated layout and in the other.
    """
    q = np.random.default_rng(2).normal(size=(2, HEADS, LENGTH, DIM))
    options = {"before": q, "layout": layout, "atol": 1e-6}

    assert pecli.verify(
        rotated_by_formula(q, POSITIONS_0_TO_23, layout), llama_of_base_10000(), **options
    )
    assert not pecli.verify(
        rotated_by_formula(q, POSITIONS_0_TO_23, other_layout),
        llama_of_base_10000(),
        **options,
        reasons=False,
    )


def test_a_mask_of_as_many_tokens_as_the_model_has_heads_states_the_axis_of_tokens() -> None:
    """The axes are (2 sequences, 3 heads, 4 tokens, channels), and the model has 4 heads: without
    the mask (2, 4), the axis of 4 could be taken for heads.
    """
    q = np.random.default_rng(2).normal(size=(2, 3, HEADS, DIM))
    mask = np.array([[0] + [1] * (HEADS - 1), [1] * HEADS])
    places = np.maximum(mask.cumsum(-1) - 1, 0)

    assert pecli.verify(
        rotated_by_formula(q, places),
        llama_of_base_10000(),
        before=q,
        attention_mask=mask,
        atol=1e-6,
    )


def test_the_only_layer_with_stale_positions_is_named() -> None:
    """Of the queries of layers 0, 1 and 2, those of layer 1 are rotated at the position before
    their own, 0 0 1 … 22, and all others at 0 1 2 … 23.
    """
    q = {
        f"layers.{k}.q": np.random.default_rng(k).normal(size=(1, HEADS, LENGTH, DIM))
        for k in range(3)
    }
    after = {
        name: rotated_by_formula(x, np.maximum(POSITIONS_0_TO_23 - (name == "layers.1.q"), 0))
        for name, x in q.items()
    }
    result = pecli.verify(after, llama_of_base_10000(), before=q, atol=1e-4)

    assert [tensor.name for tensor in result.tensors if not tensor.passed] == ["layers.1.q"]
    assert result.diagnosis[0].startswith(
        "layers.1.q: positions are 0, then 0 … 22; expected 0 … 23"
    )


INPUTS = np.random.default_rng(2).normal(size=(2, LENGTH, 32)).astype(np.float32)
INPUTS_WITH_LEARNED_ROWS = (INPUTS + WPE[POSITIONS_BY_MASK]).astype(np.float32)
"""Rows 0, 1, … of the learned table WPE are added to the tokens that the mask shows."""


def test_inputs_with_a_learned_table_pass_with_their_mask() -> None:
    """Rows 0, 1, … of the learned table WPE are added to the tokens that LEFT_PADDED_MASK shows;
    the padding of the second sequence does not count as positions.
    """
    mask = {"attention_mask": LEFT_PADDED_MASK}
    assert pecli.verify(INPUTS_WITH_LEARNED_ROWS, WPE, before=INPUTS, atol=1e-6, **mask)


def test_padding_may_have_any_row_of_a_learned_table() -> None:
    """To the tokens that LEFT_PADDED_MASK hides, row 1 of the learned table WPE is added, as
    transformers does; the others have their own rows.
    """
    filled = np.where(LEFT_PADDED_MASK[..., None], INPUTS_WITH_LEARNED_ROWS, INPUTS + WPE[1])
    mask = {"attention_mask": LEFT_PADDED_MASK}

    assert pecli.verify(filled, WPE, before=INPUTS, atol=1e-6, **mask)


def test_padding_is_not_counted_in_inputs_with_a_learned_table() -> None:
    """LEFT_PADDED_MASK hides 9 of 2 · 24 tokens. All others are wrong by 1 in their 32 channels."""
    wrong = INPUTS_WITH_LEARNED_ROWS + 1
    mask = {"attention_mask": LEFT_PADDED_MASK}
    result = pecli.verify(wrong, WPE, before=INPUTS, atol=1e-6, reasons=False, **mask)
    (tensor,) = result.tensors
    elements_of_tokens = (2 * LENGTH - 9) * 32

    assert tensor.mismatched == elements_of_tokens
    assert tensor.size == elements_of_tokens
    assert result.readings == {tensor.name: "9 rows of padding not compared"}


def test_inputs_with_a_sinusoidal_table_are_checked_at_their_positions() -> None:
    """Sines and cosines of positions 0 to 23, by the paper's formula in NumPy, are added to inputs
    of 32 channels. They pass, and fail if the positions 1 to 24 are expected.
    """
    waves = np.outer(POSITIONS_0_TO_23, 10000.0 ** (-np.arange(16) / 16))
    table = np.stack([np.sin(waves), np.cos(waves)], -1).reshape(LENGTH, 32)
    added = INPUTS + table.astype(np.float32)
    assert pecli.verify(added, pecli.Sinusoidal(64, 32), before=INPUTS, atol=1e-6)

    late = pecli.verify(
        added, pecli.Sinusoidal(64, 32), before=INPUTS, positions=POSITIONS_0_TO_23 + 1, atol=1e-6
    )
    assert "positions are 0 … 23; expected 1 … 24: all 1 too low" in late.diagnosis[0]


def test_the_command_checks_inputs_with_a_learned_table(run_pecli, tmp_path) -> None:
    """after.npy has the inputs x.npy with rows of the learned table wpe.npy, counted after the
    padding of mask.npy: with the mask they pass, without it they fail. The option --length is for
    rotary scalings only.
    """
    arrays = {"x": INPUTS, "after": INPUTS_WITH_LEARNED_ROWS, "wpe": WPE, "mask": LEFT_PADDED_MASK}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    words = (
        "verify",
        tmp_path / "after.npy",
        "--before",
        tmp_path / "x.npy",
        "--table",
        tmp_path / "wpe.npy",
    )

    assert (
        run_pecli(*words, "--attention-mask", tmp_path / "mask.npy", "--atol", "1e-6").exit_code
        == SUCCESS
    )
    assert run_pecli(*words, "--atol", "1e-6").exit_code == CHECK_FAILED
    assert run_pecli(*words, "--length", "4").exit_code == USAGE_ERROR


def test_an_array_of_the_shape_of_queries_gets_a_hint_to_give_those_before_the_rotation() -> None:
    """Random numbers of 2 sequences, 4 heads, 24 positions and 64 channels cannot be a table."""
    q = np.random.default_rng(1).normal(size=(2, HEADS, LENGTH, DIM)).astype(np.float32)
    assert "give --before FILE" in pecli.verify(q, llama_of_base_10000(), atol=1e-3).reasons[-1]


def test_a_wrong_table_gets_no_hint_about_queries() -> None:
    """The table has the cosines of base 9000 instead of 10000, with axes of batch and head, as
    queries have them.
    """
    table = np.cos(np.outer(POSITIONS_0_TO_23, 9000.0 ** (-np.arange(32) / 32)))
    cos = np.tile(table, 2)[None, None].astype(np.float32)
    diagnosis = pecli.verify({"cos": cos}, llama_of_base_10000(), atol=1e-3).diagnosis

    assert "--before" not in " ".join(diagnosis)


def test_diff_names_how_far_a_cache_was_moved(run_pecli, tmp_path) -> None:
    """b.npy holds the keys of a.npy, rotated by 4 more positions. With --plot, a picture of the
    difference is drawn as well. A file does not differ from itself.
    """
    cache = rotated_by_formula(
        np.random.default_rng(1).normal(size=(1, HEADS, LENGTH, DIM)), POSITIONS_0_TO_23
    )
    np.save(tmp_path / "a.npy", cache.astype(np.float32))
    np.save(tmp_path / "b.npy", rotated_by_formula(cache, np.full(LENGTH, 4)).astype(np.float32))
    (tmp_path / "config.json").write_text(json.dumps(llama_of_base_10000()))
    words = ("--model", tmp_path / "config.json", "--atol", "1e-4")
    moved = run_pecli(
        "diff", tmp_path / "a.npy", tmp_path / "b.npy", *words, "--plot", "-o", tmp_path / "x.svg"
    )

    assert moved.exit_code == CHECK_FAILED
    assert "B is A, whose positions are moved by 4" in moved.out
    assert (tmp_path / "x.svg").exists()
    assert run_pecli("diff", tmp_path / "a.npy", tmp_path / "a.npy", *words).exit_code == SUCCESS


@pytest.mark.parametrize("dtype", [int, bool, np.float32, ml_dtypes.bfloat16])
def test_apply_takes_positions_from_an_attention_mask_of_any_dtype(dtype: type) -> None:
    """The mask is 1 for tokens and 0 for padding on the left: positions are its cumulative sum less
    one, at which the formula rotates the expected queries.
    """
    x = np.random.default_rng(1).normal(size=(2, HEADS, LENGTH, DIM)).astype(np.float32)
    right = rotated_by_formula(x.astype(float), POSITIONS_BY_MASK)
    mask = LEFT_PADDED_MASK.astype(dtype)

    assert np.abs(pecli.apply(x, llama_of_base_10000(), attention_mask=mask) - right).max() < 1e-6


def test_the_command_apply_takes_positions_from_an_attention_mask(run_pecli, tmp_path) -> None:
    """`pecli apply rope --attention-mask` rotates at the cumulative sum of the mask less one, as
    the formula does in NumPy. An offset beside the mask is a usage error.
    """
    x = np.random.default_rng(1).normal(size=(2, HEADS, LENGTH, DIM)).astype(np.float32)
    right = rotated_by_formula(x.astype(float), POSITIONS_BY_MASK)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "mask.npy", LEFT_PADDED_MASK)
    words = (
        "apply",
        "rope",
        tmp_path / "x.npy",
        "--attention-mask",
        tmp_path / "mask.npy",
        "-o",
        tmp_path / "y.npy",
    )

    assert run_pecli(*words).exit_code == SUCCESS
    assert np.abs(np.load(tmp_path / "y.npy") - right).max() < 1e-6
    assert run_pecli(*words, "--offset", "1").exit_code == USAGE_ERROR


def test_tables_repeated_for_heads_are_not_read_as_sequences() -> None:
    """The axes are (24 positions, 30 heads, 32 frequencies), and all heads have the same numbers. As
    there are more heads than positions, the table could be mistaken for 24 sequences of 30 positions,
    of which each has one position 30 times. But it only begins at position 7 instead of 0.
    """
    positions = 7 + np.arange(24)
    frequencies = 10000.0 ** (-np.arange(32) / 32)
    angles = np.outer(positions, frequencies)
    angles_by_head = np.stack([angles] * 30, axis=1)
    dump = {
        "cos": np.cos(angles_by_head).astype(np.float32),
        "sin": np.sin(angles_by_head).astype(np.float32),
    }
    diagnosis = pecli.verify(dump, llama_of_base_10000(), atol=1e-6).diagnosis

    assert diagnosis[0] == "cos, sin: positions start at 7 (the spec says 0); exact"
    assert "sequence" not in " ".join(diagnosis)


def test_tables_of_a_batch_are_found_beside_other_tensors() -> None:
    """`tables_at` has tables of two sequences, of which the second begins at position 7. «hidden»
    are activations of another length beside them.
    """
    places = np.stack([POSITIONS_0_TO_23, POSITIONS_0_TO_23 + 7])
    hidden = np.random.default_rng(0).normal(size=(3, 5, 16))
    sentence, *_ = pecli.verify(
        {"hidden": hidden, **tables_at(places)}, llama_of_base_10000(), atol=1e-6
    ).diagnosis

    assert sentence.startswith("sequence 1: positions are 7 … 30; expected 0 … 23")
