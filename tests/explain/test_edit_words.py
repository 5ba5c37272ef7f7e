"""The words for each edit: a difference between a table and its spec as an object, and the clause
that states it.

An edit is, for example, Parameter("base", 500000.0, 10000.0): expected, then found. Clauses are
written by hand.
"""

import json
import math

import pytest

from pecli.engine import edits
from pecli.explain.words import clause

EDITS_AND_THEIR_WORDS: list[tuple[edits.Edit, str]] = [
    (edits.Parameter("base", 500000.0, 10000.0), "base is 10000 (the spec says 500000)"),
    (edits.Parameter("offset", 0, 1234), "positions start at 1,234 (the spec says 0)"),
    (edits.Parameter("dim", 64, 32), "rotary dimension is 32 (the spec says 64)"),
    (edits.Parameter("beta_fast", 32.0, 64.0), "beta_fast is 64 (the spec says 32)"),
    (edits.Parameter("scaling", "llama3", "none"), "the llama3 scaling is missing"),
    (
        edits.Parameter("scaling", "yarn", "yarn, applied twice"),
        "the yarn scaling is applied twice",
    ),
    (edits.Parameter("scale", 1.0, 1000.0), "positions are multiplied by 1000 (the spec says 1)"),
    (edits.Parameter("padding_idx", 1, None), "the row of padding_idx is not zeros"),
    (
        edits.Parameter("exponent_dim", 64, 128),
        "frequencies are over 128 channels (the spec says 64)",
    ),
    (edits.Layout("interleaved", "halves"), "layout is halves (the spec says interleaved)"),
    (edits.Swapped(), "sin and cos are swapped"),
    (edits.Rotation("none"), "nothing is rotated: the values are those before"),
    (edits.Rotation("none added"), "nothing is added: the values are those before"),
    (edits.Negated("sin"), "sin is negated (it rotates the other way)"),
    (edits.Scaled(2.0), "values are scaled by 2"),
    (edits.Transposed((1, 0)), "the table is transposed"),
    (edits.Repeated(0, 2), "repeated 2× along axis 0"),
    (edits.Rows("wrapped", 128), "positions wrap at row 128"),
    (edits.Rows("padded", 5), "the table starts at row 5, after padding"),
    (edits.Channels("reversed"), "channels are in reverse order"),
    (edits.Heads((1, 0, 2)), "heads are in another order (1, 0, 2)"),
    (edits.Mask("-1e+09"), "mask differs: -1e+09"),
    (edits.RowShift(), "a constant is added to each row, which softmax ignores"),
    (edits.Dtype("float16"), "rounded to float16"),
    (edits.ExpectedDtype("float16"), "not rounded (the spec says to float16)"),
    (
        edits.RoundingMode("toward zero", "bfloat16"),
        "rounded toward zero to bfloat16, not to nearest",
    ),
    (edits.RoundingMode("down", "4 decimals"), "rounded down to 4 decimals, not to nearest"),
    (edits.Decimals(4), "rounded to 4 decimals"),
    (edits.FixedPoint(1 / 127), "rounded to steps of 1/127"),
    (edits.Noise(1e-05), "noise of 1e-05"),
    (edits.Recipe("float32"), "computed by the recipe float32"),
    (edits.Runtime("transformers", ("vllm",)), "as transformers and vllm compute it"),
    (
        edits.Runtime(
            "llama.cpp", (), ("rounds YaRN's limits to 8 and 18; the config has truncate: false",)
        ),
        "as llama.cpp computes it; rounds YaRN's limits to 8 and 18; the config has truncate: false",
    ),
    (edits.RowsZero((5,)), "row 5 is zero after the rotation, and not before it"),
    (
        edits.RowsZero(tuple(range(54, 64))),
        "rows 54–63 are zero after the rotation, and not before it",
    ),
    (edits.RowsZero((5, 6), "before"), "rows 5, 6 are zero before the rotation, and not after it"),
    (edits.RowsWrong((5,)), "only row 5 differs"),
    (edits.ColumnsWrong((5, 7)), "only columns 5, 7 differ"),
    (edits.UninitialisedValues(), "values were never initialised"),
    (edits.UninitialisedValues((3,)), "row 3 was never initialised"),
    (edits.UninitialisedValues((3, 4, 5, 9)), "rows 3–5, 9 were never initialised"),
    (
        edits.MemoryOrder(expected=(8, 40, 128), found=(40, 8, 128)),
        "lies as (40, 8, 128) in memory, not (8, 40, 128)",
    ),
    (
        edits.MemoryOrder(expected=(8, 40, 128), found=(40, 8, 128), which="both"),
        "the tensors before and after the rotation lie as (40, 8, 128) in memory, not (8, 40, 128)",
    ),
    (edits.SomeRows((1, 5, 7)), "only rows 1, 5, 7 are there"),
    (edits.SomeRows((4, 12, 20)), "only every 8th row is there, from row 4 on"),
    (edits.SomeRows((9, 2, 4)), "only rows 9, 2, 4 are there"),
    (edits.AddedRows((1, 2, 3, 7)), "rows 1–3, 7 are added"),
    (edits.AddedRows((40,)), "row 40 is added"),
    (
        edits.Rotation("across the head"),
        "channels are paired across the whole head, not in its rotary part",
    ),
    (edits.Bits("bfloat16"), "values are the bits of bfloat16"),
    (edits.Bits("swapped"), "values are byte-swapped"),
    (edits.Rows("cut", 5), "truncated to the first 5 rows"),
    (
        edits.Parameter("inv_freq", "frequencies", "wavelengths"),
        "inv_freq holds wavelengths, not frequencies",
    ),
    (edits.RowsWrong((5, *range(29, 35))), "only rows 5, 29–34 differ"),
    (edits.ElementsWrong(((77, 3),)), "only element [77, 3] differs"),
    (edits.HeadsWrong(((2,), (1, 2))), "only heads 2, [1, 2] differ"),
    (edits.RowRange(4096, 8191), "only in rows 4,096 to 8,191"),
    (edits.Incomplete("halves"), "columns are not doubled: the second half is zeros"),
    (edits.Incomplete("interleaved"), "columns are not doubled: every other one is zeros"),
    (
        edits.Incomplete("angles"),
        "values are the angles, position × inv_freq, and not their cosines or sines",
    ),
    (
        edits.Positions("0 … 255", "0 × 9, then 0 … 246"),
        "positions are 0 × 9, then 0 … 246; expected 0 … 255",
    ),
    (
        edits.Positions("0 … 63", "0 × 64", "nothing is rotated"),
        "positions are 0 × 64; expected 0 … 63: nothing is rotated",
    ),
    (
        edits.Parameter("base", 1e16, 999999999999999.0),
        "base is 999999999999999 (the spec says 1e+16)",
    ),
    (edits.Parameter("dim", 9999, 10000), "rotary dimension is 10,000 (the spec says 9999)"),
    (
        edits.Parameter("positions along h and w", 0, -0.5),
        "positions along h and w are off by -0.5",
    ),
    (edits.Parameter("offset", 3, 3), "offset is 3, as the spec says"),
    (
        edits.Parameter("attention_factor", 1.2, 1.44),
        "the attention factor is applied twice: 1.44, not 1.2",
    ),
    (edits.Parameter("attention_factor", 1.2, 1.0), "attention factor is 1 (the spec says 1.2)"),
    (edits.Parameter("base", 3.0, 9.0), "base is 9 (the spec says 3)"),
    (edits.Parameter("factor", None, 4.0), "factor is 4"),
    (edits.Parameter("factor", 4.0, None), "factor is none (the spec says 4)"),
    (edits.Parameter("scale", None, 4.0), "positions are multiplied by 4 (the spec says none)"),
    (
        edits.Parameter("scale", 1, 180 / math.pi),
        "angles are converted to degrees, and taken for radians",
    ),
    (
        edits.Parameter("scale", 2, 180 / math.pi),
        "positions are multiplied by 57.29578 (the spec says 2)",
    ),
    (edits.Parameter("base", 1e14, 1e16), "base is 1e+16 (the spec says 100000000000000)"),
    (edits.RowsWrong((5, 6)), "only rows 5, 6 differ"),
    (edits.RowsWrong((5, 6, 7, 9, 8)), "only rows 5–7, 9, 8 differ"),
    (edits.RowsWrong(tuple(range(0, 16, 2))), "only rows 0, 2, 4, 6, 8, 10, 12, 14 differ"),
    (edits.RowsWrong(tuple(range(0, 18, 2))), "only rows 0, 2, 4, 6, 8, 10, 12, 14 … differ"),
    (edits.HeadsWrong(((2,), (3,), (4,))), "only heads 2–4 differ"),
    (edits.HeadsWrong(((1, 2), (1, 3))), "only heads [1, 2], [1, 3] differ"),
    (
        edits.Channels("in reverse order along each axis"),
        "channels are in reverse order along each axis",
    ),
    (
        edits.Heads((0, 1, 2, 3, 4, 5, 6, 7, 11, 10, 9, 8)),
        "heads are in another order (from 8 on: 11, 10, 9, 8)",
    ),
    (edits.Heads(tuple(range(9, 0, -1))), "heads are in another order (9, 8, 7, 6, 5, 4, 3, 2 …)"),
    (
        edits.Runtime("mlx-lm", ("transformers", "vllm")),
        "as mlx-lm, transformers and vllm compute it",
    ),
    (edits.FixedPoint(1.0), "rounded to integers"),
    (edits.FixedPoint(0.3), "rounded to steps of 0.3"),
    (edits.FixedPoint(2.0), "rounded to steps of 2"),
]


@pytest.mark.parametrize(
    ("edit", "words"), EDITS_AND_THEIR_WORDS, ids=[words[:40] for _, words in EDITS_AND_THEIR_WORDS]
)
def test_an_edit_is_stated_in_these_words(edit: edits.Edit, words: str) -> None:
    """An edit is a difference from the spec as an object. For example, Parameter("base", 500000.0,
    10000.0), expected and found, is «base is 10000 (the spec says 500000)». EDITS_AND_THEIR_WORDS
    is a list of such pairs, written by hand.
    """
    assert clause(edit) == words


@pytest.mark.parametrize("edit", [edit for edit, _ in EDITS_AND_THEIR_WORDS], ids=str)
def test_the_json_of_an_edit_names_its_kind(edit: edits.Edit) -> None:
    """An edit is a change that explains a difference, such as Swapped or Scaled. Its `as_json` can be
    written as JSON, and states the kind of the edit under «edit».
    """
    written = json.dumps(edit.as_json())
    assert json.loads(written)["edit"] == edit.kind


def test_every_kind_of_edit_has_words() -> None:
    """EDITS_AND_THEIR_WORDS, which the tests above check, has at least one edit of every public
    class of edits, so that a new class without words is noticed.
    """
    public = [kind for name, kind in vars(edits).items() if not name.startswith("_")]
    classes = {kind for kind in public if isinstance(kind, type) and issubclass(kind, edits.Edit)}
    classes_with_words = {type(edit) for edit, _ in EDITS_AND_THEIR_WORDS}

    assert classes_with_words == classes - {edits.Edit}
