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
    not_made_by_command,
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
def test_a_value_is_written_as_in_a_sentence(value: Any, words: str) -> None:
    """Sentences such as «base is 2» have None as «none», commas in integers from 10,000 on, and no
    decimals in whole floats.
    """
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
    """An edit is a difference as an object, and `sentence` writes those of an explanation of tensor
    x. vLLM computes in float32 by itself, so that Recipe("float32") beside Runtime("vllm") is left
    out; beside Swapped(), an exchange of sine and cosine, the recipe stays.
    """
    assert sentence(explanation_with(*edits)) == words


def test_the_dim_of_a_sinusoidal_table_is_not_called_a_rotary_dimension() -> None:
    """The edit Parameter("dim", 8, 6), expected and found, of a sinusoidal scheme. Of a rotary one it
    is «rotary dimension is 6», in the test above.
    """
    explanation = explanation_with(Parameter("dim", 8, 6), scheme=SINUSOIDAL_4_BY_8)
    assert sentence(explanation) == "x: dim is 6 (the spec says 8); exact"


def test_sines_that_are_all_at_position_0_are_called_zeros() -> None:
    """Rows("constant", 0) is «all rows are at position 0» otherwise. Of a table of sines that means
    zeros, since sin 0 = 0 at every frequency.
    """
    explanation = Explanation((Rows("constant", 0),), None, ("sin",))
    assert sentence(explanation) == "sin: all values are 0; exact"


def test_rows_that_were_not_compared_are_mentioned() -> None:
    """Only 3 of 9 rows were compared: the sentence about the explanation must say so, and so must
    the list of what is undetermined. «(to 0)» is the residual, the largest difference that the
    explanation leaves in the compared rows.
    """
    explanation = explanation_with(Swapped(), compared=ComparedRows(3, 9), residual=0.0)
    words = "x: sin and cos are swapped; explains what was compared, 3 of 9 rows (to 0)"

    assert sentence(explanation) == words
    assert undetermined(explanation) == ("3 of 9 rows were compared",)


def test_a_search_that_the_time_limit_ended_is_mentioned() -> None:
    """An explanation, «sin and cos are swapped», was found before the limit ended the search;
    `cut_short` marks it so, and the sentence must end with the doubt.
    """
    explanation = explanation_with(Swapped()).cut_short()
    doubt = "the time limit ended the search: a shorter reason may exist"

    assert sentence(explanation) == f"x: sin and cos are swapped; exact; {doubt}"


def test_a_difference_of_two_files_quotes_the_value_in_a() -> None:
    """`diff` compares file B with file A, so that A takes the place of «the spec»: B has base 2 where
    A has 1.
    """
    explanation = explanation_with(Parameter("base", 1.0, 2.0))
    assert sentence(explanation, FILE_A) == "x: in B, base is 2 (in A 1); exact"


def test_a_value_that_is_as_expected_is_written_so_of_a_spec_and_of_file_a() -> None:
    """The factor should be 4 and is 4; it is named because it matters for another edit. `diff`
    compares file B with file A, which takes the place of the spec.
    """
    as_expected = explanation_with(Parameter("factor", 4.0, 4.0))
    assert sentence(as_expected) == "x: factor is 4, as the spec says; exact"
    assert sentence(as_expected, FILE_A) == "x: in B, factor is 4, as in A; exact"


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (Parameter("base", 1.0, 2.0), "base is 2"),
        (Layout("compact", "halves"), "layout is halves"),
        (Parameter("offset", 0, 1234), "positions start at 1,234"),
        (Negated("sin"), "sin is negated (it rotates the other way)"),
        (Heads((1, 0)), "heads are in another order (1, 0)"),
    ],
)
def test_without_a_reference_nothing_is_quoted(edit: Edit, words: str) -> None:
    """`identify` compares with no spec, so that the expected value of an edit is left out:
    Parameter("base", 1.0, 2.0) is «base is 2», and not «base is 2 (the spec says 1)».
    """
    assert clause(edit, Context(NOTHING)) == words


@pytest.mark.parametrize("layout", ["compact", "stacked", "cos alone", "sin alone"])
def test_a_command_lacks_nothing_for_its_own_layout_and_parts_of_it(layout: str) -> None:
    """`not_made_by_command` returns the edits that no option of a command makes. Rope(4, 8) is compact: its
    command writes cosines and sines, which may be stacked, or one taken alone.
    """
    assert not_made_by_command([Layout("compact", layout)], ROPE_4_BY_8) == ()


@pytest.mark.parametrize(
    ("edit", "scheme"),
    [
        pytest.param(
            Layout("compact", "halves"), ROPE_4_BY_8, id="halves, of a command that writes compact"
        ),
        pytest.param(Swapped(), ROPE_4_BY_8, id="sin for cos, for which rope has no option"),
        pytest.param(Scaled(1.2), YARN, id="times 1.2, of a command with --attention-factor 1.1"),
        pytest.param(
            Parameter("attention_factor", 2.0, 3.0),
            ROPE_4_BY_8,
            id="attention factor 3, of a command without scaling",
        ),
        pytest.param(Parameter("offset", 5, -3), ROPE_4_BY_8, id="offset -3, of a command from 0"),
        pytest.param(
            Parameter("position_axis", -2, -3), ROPE_4_BY_8, id="heads taken for positions"
        ),
        pytest.param(
            Parameter("inv_freq", "frequencies", "wavelengths"),
            ROPE_4_BY_8,
            id="wavelengths in place of frequencies",
        ),
        pytest.param(
            Parameter("distance", "i − j", "i − j + 1"), ROPE_4_BY_8, id="distances off by one"
        ),
        pytest.param(
            Parameter("slopes", "exact", "bfloat16"), ROPE_4_BY_8, id="slopes rounded beforehand"
        ),
        pytest.param(Recipe("float32"), ROPE_4_BY_8, id="float32, of a command without --recipe"),
    ],
)
def test_an_edit_that_the_command_does_not_make_is_lacking_in_it(edit: Edit, scheme: Any) -> None:
    """An edit is a difference of the wrong table, with the expected and the found value; the command
    is that of `scheme`. `not_made_by_command` returns the edits that no option makes, or that this
    command has another value for.
    """
    assert not_made_by_command([edit], scheme) == (edit,)


@pytest.mark.parametrize(
    ("edit", "scheme"),
    [
        pytest.param(Swapped(), SINUSOIDAL_4_BY_8, id="sin for cos: --cos-first of sinusoidal"),
        pytest.param(Scaled(1.1), YARN, id="times 1.1: --attention-factor 1.1"),
        pytest.param(
            Parameter("attention_factor", 2.0, 1.0),
            ROPE_4_BY_8,
            id="attention factor 1: as without scaling",
        ),
        pytest.param(Parameter("offset", 5, 0), ROPE_4_BY_8, id="offset 0: the default"),
        pytest.param(
            Parameter("scheme", "sinusoidal", "rope"), ROPE_4_BY_8, id="rope: the command itself"
        ),
        pytest.param(Parameter("base", 500.0, 10000.0), ROPE_4_BY_8, id="base 10000: the default"),
        pytest.param(
            Rotation("none"), ROPE_4_BY_8, id="a wrong rotation of queries by the right tables"
        ),
    ],
)
def test_an_edit_that_the_command_makes_is_not_lacking_in_it(edit: Edit, scheme: Any) -> None:
    """An edit is a difference of the wrong table, with the expected and the found value; the command
    is that of `scheme`. `not_made_by_command` returns none of those that it makes.
    """
    assert not_made_by_command([edit], scheme) == ()


def test_a_recipe_that_a_runtime_implies_is_not_lacking_in_a_command() -> None:
    """A reason prints a command that makes the wrong table; `not_made_by_command` returns the edits that none of
    its options makes. Without a runtime, the recipe float32 is one; --runtime vllm implies it.
    """
    assert not_made_by_command([Recipe("float32"), Runtime("vllm")], ROPE_4_BY_8) == ()


def test_a_command_reproduces_parameters() -> None:
    """An explanation holds the scheme that makes the wrong table, here of base 2 where 1 is expected.
    The command has the numbers of this scheme.
    """
    explanation = explanation_with(BASE_2_FOR_1, scheme=pecli.Rope(4, 8, base=2.0))
    (line,) = reproduction(explanation)

    assert line == "reproduce with pecli rope --seq-len 4 --dim 8 --theta 2"


@pytest.mark.parametrize(
    "explanation",
    [
        explanation_with(Swapped()),
        explanation_with(Swapped(), Recipe("float32")),
        explanation_with(BASE_2_FOR_1, scheme=None),
    ],
    ids=["no mistake has an option", "nor has a recipe", "no scheme"],
)
def test_mistakes_without_an_option_have_no_command(explanation: Explanation) -> None:
    """`reproduction` yields lines «reproduce with pecli …». No option exchanges the functions of a
    rotary table (Swapped), and an explanation without a scheme has no command either.
    """
    assert [*reproduction(explanation)] == []


@pytest.mark.parametrize(
    ("edit", "statement"),
    [
        (Layout("compact", "halves"), "layout is halves"),
        (Negated("sin"), "sin is negated"),
        (Heads((1, 0)), "heads are in another order"),
    ],
)
def test_edits_that_the_command_lacks_are_named_without_asides(edit: Edit, statement: str) -> None:
    """An explanation has two edits: base 2, which the option --theta makes, and `edit`, which no option
    makes. The latter is named before the command; its aside, such as «(it rotates the other way)»
    of negated sines, is left out.
    """
    with_base_2 = pecli.Rope(4, 8, base=2.0)
    explanation = explanation_with(edit, Parameter("base", 1.0, 2.0), scheme=with_base_2)
    (line,) = reproduction(explanation)

    command = "pecli rope --seq-len 4 --dim 8 --theta 2"
    assert line == f"apart from that ({statement}), reproduce with {command}"


@pytest.mark.parametrize(
    ("last_position", "letters", "is_printed"), [(0, 200, True), (10, 201, False)]
)
def test_a_command_of_more_than_200_letters_is_not_printed(
    last_position: int, letters: int, is_printed: bool
) -> None:
    """85 listed positions of one digit make a command of 200 letters, «--positions 0,0,…,0»; a last
    one of two digits makes it 201.
    """
    scheme = pecli.Rope(dim=8, positions=[0] * 84 + [last_position])
    lines = [*reproduction(explanation_with(BASE_2_FOR_1, scheme=scheme))]

    assert len(command_of(scheme, output=False)) == letters
    assert bool(lines) == is_printed


def test_commands_write_one_array_to_npy_and_others_to_safetensors() -> None:
    """A .npy file holds one array, and no bfloat16. A sinusoidal table is one array, unless two
    tensors are to be written (the second argument); a rotary one is cosines and sines.
    """
    sinusoidal = "pecli sinusoidal --seq-len 4 --dim 8"
    assert command_of(pecli.Sinusoidal(4, 8)) == f"{sinusoidal} -o again.npy"
    assert command_of(pecli.Sinusoidal(4, 8), 2) == f"{sinusoidal} -o again.safetensors"

    rope = "pecli rope --seq-len 4 --dim 8"
    assert command_of(pecli.Rope(4, 8)) == f"{rope} -o again.safetensors"

    in_bfloat16 = pecli.Sinusoidal(4, 8, dtype="bfloat16")
    command = f"{sinusoidal} --dtype bfloat16"
    assert command_of(in_bfloat16, output=False) == command
    assert command_of(in_bfloat16) == f"{command} -o again.safetensors"
