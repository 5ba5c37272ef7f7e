"""Sentences about explanations, and the commands that reproduce them.

An explanation has edits (differences from the spec, such as Parameter("base", 1.0, 2.0): expected
1, found 2), the scheme that makes the table, and the tensors that it is about. All expected
sentences are written by hand.
"""

import math
from typing import Any

import pytest

import pecli
from pecli.engine.edits import (
    Dtype,
    Edit,
    Heads,
    Layout,
    Negated,
    Parameter,
    Recipe,
    Rotation,
    Rows,
    RowsWrong,
    Runtime,
    Scaled,
    Swapped,
)
from pecli.explain.explanation import ComparedRows, Explanation
from pecli.explain.words import (
    FILE_A,
    NOTHING,
    Context,
    clause,
    command_of,
    format_value,
    lacking,
    reproduction,
    sentence,
    undetermined,
)

ROPE_4_BY_8 = pecli.Rope(4, 8)
SINUSOIDAL_4_BY_8 = pecli.Sinusoidal(4, 8)
YARN = pecli.Rope(
    8,
    8,
    scaling="yarn",
    factor=4.0,
    original_max_position_embeddings=8,
    attention_factor=1.1,
)
BASE_2_FOR_1 = Parameter("base", 1.0, 2.0)


def explanation_with(*edits: Edit, scheme: Any = ROPE_4_BY_8, **fields: Any) -> Explanation:
    return Explanation(edits, scheme, ("x",), **fields)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "none"),
        (True, "true"),
        ("x", "x"),
        ((1.0, 2.5), "1,2.5"),
        (9999, "9999"),
        (-10000, "-10,000"),
        (2.0, "2"),
        (0.1, "0.1"),
        (math.inf, "inf"),
    ],
)
def test_values_are_formatted(value: Any, words: str) -> None:
    """None is «none», integers from 10,000 on have commas, whole floats no decimals."""
    assert format_value(value) == words


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ((Runtime("vllm"), Recipe("float32")), "x: as vllm computes it; exact"),
        (
            (Swapped(), Dtype("float16"), Recipe("float32")),
            "x: sin and cos are swapped; rounded to float16, computed by the recipe float32; exact",
        ),
        (
            (Runtime("vllm"), Dtype("float16"), Recipe("float32")),
            "x: as vllm computes it; rounded to float16; exact",
        ),
        ((RowsWrong((3,)),), "x: only row 3 differs; all others are exact"),
    ],
)
def test_a_recipe_is_named_unless_a_runtime_implies_it(edits: tuple[Edit, ...], words: str) -> None:
    """vLLM computes in float32 by itself; beside another mistake the recipe stays."""
    assert sentence(explanation_with(*edits)) == words


def test_an_unknown_residual_is_not_mentioned() -> None:
    """`sentence` writes an explanation in words, and normally adds the residual, the largest
    difference that it leaves. Infinity stands for an unknown one, which is left out.
    """
    found = explanation_with(Parameter("dim", 8, 6), residual=math.inf)
    assert sentence(found) == "x: rotary dimension is 6 (the spec says 8)"


def test_the_dim_of_a_sinusoidal_table_is_not_called_a_rotary_dimension() -> None:
    """The same edit of a rotary table is «rotary dimension is 6», in the test above."""
    found = explanation_with(Parameter("dim", 8, 6), scheme=SINUSOIDAL_4_BY_8)
    assert sentence(found) == "x: dim is 6 (the spec says 8); exact"


def test_sines_that_are_all_at_position_0_are_called_zeros() -> None:
    """Not «all rows are at position 0», since sin 0 = 0 at every frequency."""
    found = Explanation((Rows("constant", 0),), None, ("sin",))
    assert sentence(found) == "sin: all values are 0; exact"


def test_rows_that_were_not_compared_are_mentioned() -> None:
    """Only 3 of 9 rows were compared: the sentence about the explanation must say so, and so must
    the list of what is undetermined.
    """
    found = explanation_with(Swapped(), compared=ComparedRows(3, 9))
    words = "x: sin and cos are swapped; explains what was compared, 3 of 9 rows (to 0)"

    assert sentence(found) == words
    assert undetermined(found) == ("3 of 9 rows were compared",)


def test_a_search_that_the_time_limit_ended_is_mentioned() -> None:
    """The explanation is that cosines and sines are exchanged."""
    found = explanation_with(Swapped()).cut_short()
    doubt = "the time limit ended the search: a shorter reason may exist"

    assert sentence(found) == f"x: sin and cos are swapped; exact; {doubt}"


def test_a_difference_of_two_files_quotes_the_value_in_a() -> None:
    """The mistake is base 2 instead of 1."""
    assert sentence(explanation_with(BASE_2_FOR_1), FILE_A) == "x: in B, base is 2 (in A 1); exact"


def test_a_value_as_in_a_does_not_mention_a_spec() -> None:
    """A factor of 4 that is named since it matters for another edit; of two files, A stands for the
    spec.
    """
    same = explanation_with(Parameter("factor", 4.0, 4.0))
    assert sentence(same) == "x: factor is 4, as the spec says; exact"
    assert sentence(same, FILE_A) == "x: in B, factor is 4, as in A; exact"


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (BASE_2_FOR_1, "base is 2"),
        (Layout("compact", "halves"), "layout is halves"),
        (Parameter("offset", 0, 1234), "positions start at 1,234"),
        (Negated("sin"), "sin is negated (it rotates the other way)"),
        (Heads((1, 0)), "heads are in another order (1, 0)"),
    ],
)
def test_without_a_reference_nothing_is_quoted(edit: Edit, words: str) -> None:
    """`identify` compares with no spec: «base is 2», and not «base is 2 (the spec says 3)»."""
    assert clause(edit, Context(NOTHING)) == words


@pytest.mark.parametrize("layout", ["compact", "stacked", "cos alone", "sin alone"])
def test_commands_make_a_schemes_own_layout_and_parts_of_it(layout: str) -> None:
    """`lacking` returns the edits that no option of a command makes."""
    assert lacking([Layout("compact", layout)], ROPE_4_BY_8) == ()


@pytest.mark.parametrize(
    ("edit", "scheme"),
    [
        (Layout("compact", "halves"), ROPE_4_BY_8),
        (Swapped(), ROPE_4_BY_8),
        (Scaled(1.2), YARN),
        (Parameter("attention_factor", 2.0, 3.0), ROPE_4_BY_8),
        (Parameter("offset", 5, -3), ROPE_4_BY_8),
        (Parameter("position_axis", 1, 2), ROPE_4_BY_8),
        (Parameter("inv_freq", 1, 2), ROPE_4_BY_8),
        (Parameter("distance", 1, 2), ROPE_4_BY_8),
        (Parameter("slopes", 1, 2), ROPE_4_BY_8),
        (Recipe("float32"), ROPE_4_BY_8),
    ],
)
def test_an_edit_without_an_option_is_lacking_in_a_command(edit: Edit, scheme: Any) -> None:
    """`lacking` returns the edits that no option of a command makes: swapped functions of a rotary
    table, negative offsets, and so on.
    """
    assert lacking([edit], scheme) == (edit,)


@pytest.mark.parametrize(
    ("edit", "scheme"),
    [
        (Swapped(), SINUSOIDAL_4_BY_8),
        (Scaled(1.1), YARN),
        (Parameter("attention_factor", 2.0, 1.0), ROPE_4_BY_8),
        (Parameter("offset", 5, 0), ROPE_4_BY_8),
        (Parameter("scheme", 1, 2), ROPE_4_BY_8),
        (Parameter("base", 1, 2), ROPE_4_BY_8),
        (Rotation("none"), ROPE_4_BY_8),
    ],
)
def test_an_edit_with_an_option_is_not_lacking_in_a_command(edit: Edit, scheme: Any) -> None:
    """`lacking` returns the edits that no option of a command makes: none here. Swapped functions
    of a sinusoidal table are --cos-first, and 1.1 is YaRN's attention factor.
    """
    assert lacking([edit], scheme) == ()


def test_a_recipe_that_a_runtime_implies_is_not_lacking_in_a_command() -> None:
    """`lacking` returns the edits that no option of a command makes; --runtime vllm computes in
    float32.
    """
    assert lacking([Recipe("float32"), Runtime("vllm")], ROPE_4_BY_8) == ()


ROPE_COMMAND = "pecli rope --seq-len 4 --dim 8"


def test_a_command_reproduces_parameters() -> None:
    """An explanation holds the scheme that makes the wrong table; it is made by hand here, so that
    its scheme is Rope(4, 8), whatever its mistake says, and the command has that scheme's numbers.
    """
    found = explanation_with(BASE_2_FOR_1, scheme=ROPE_4_BY_8)
    assert [*reproduction(found)] == [f"reproduce with {ROPE_COMMAND}"]


@pytest.mark.parametrize(
    "found",
    [
        explanation_with(Swapped()),
        explanation_with(Swapped(), Recipe("float32")),
        explanation_with(BASE_2_FOR_1, scheme=None),
    ],
    ids=["no mistake has an option", "nor has a recipe", "no scheme"],
)
def test_mistakes_without_an_option_have_no_command(found: Explanation) -> None:
    """Exchanged functions of a rotary table cannot be asked for on the command line; an explanation
    without a scheme has no command either.
    """
    assert [*reproduction(found)] == []


@pytest.mark.parametrize(
    ("edit", "statement"),
    [
        (Layout("compact", "halves"), "layout is halves"),
        (Negated("sin"), "sin is negated"),
        (Heads((1, 0)), "heads are in another order"),
    ],
)
def test_edits_that_the_command_lacks_are_named_without_asides(edit: Edit, statement: str) -> None:
    """The aside of a negated sine, «it rotates the other way», is left out."""
    words = f"apart from that ({statement}), reproduce with {ROPE_COMMAND}"
    assert [*reproduction(explanation_with(edit, BASE_2_FOR_1))] == [words]


@pytest.mark.parametrize(("last", "length", "count"), [(0, 200, 1), (10, 201, 0)])
def test_a_command_of_more_than_200_letters_is_not_printed(
    last: int, length: int, count: int
) -> None:
    """85 listed positions make a command of 200 letters, and one of them with two digits a command
    of 201.
    """
    scheme = pecli.Rope(dim=8, positions=[0] * 84 + [last])
    assert len(command_of(scheme, output=False)) == length
    assert len([*reproduction(explanation_with(BASE_2_FOR_1, scheme=scheme))]) == count


def test_commands_write_one_array_to_npy_and_others_to_safetensors() -> None:
    """A .npy file holds one array, and no bfloat16."""
    narrow = pecli.Sinusoidal(4, 8, dtype="bfloat16")
    waves = "pecli sinusoidal --seq-len 4 --dim 8"

    assert command_of(SINUSOIDAL_4_BY_8) == f"{waves} -o again.npy"
    assert command_of(SINUSOIDAL_4_BY_8, 2) == f"{waves} -o again.safetensors"
    assert command_of(ROPE_4_BY_8) == f"{ROPE_COMMAND} -o again.safetensors"
    assert command_of(narrow, output=False) == f"{waves} --dtype bfloat16"
    assert command_of(narrow) == f"{waves} --dtype bfloat16 -o again.safetensors"
