"""Rules of parameters as text: the sentence that states a rule, and the value that a typed text
stands for.

A parameter object such as Whole("", low=2) knows which values are allowed; its first argument is
the help text, empty here. Expected sentences and values are written by hand.
"""

from fractions import Fraction

import numpy as np
import pytest

from pecli.engine.schemes.command_options import options
from pecli.engine.schemes.given_positions import GivenPositions, GridParameter, PositionList
from pecli.engine.schemes.parameters import (
    Choice,
    Flag,
    ListOf,
    OptionalFlag,
    ParameterRule,
    Real,
    Whole,
)
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import ParameterError, nearest


@pytest.mark.parametrize(
    ("parameter", "rule"),
    [
        (Whole(""), "it must be a whole number from 1 to 2^40"),
        (
            Whole("", low=2, high=65536, even=True),
            "it must be an even whole number from 2 to 65,536",
        ),
        (Whole("", low=0, high=2**64 - 1), "it must be a whole number from 0 to 2^64 − 1"),
        (Whole("", low=0, high=9), "it must be a whole number from 0 to 9"),
        (Whole("", high=9999), "it must be a whole number from 1 to 9999"),
        (Whole("", high=10000), "it must be a whole number from 1 to 10,000"),
        (Whole("", high=2**20 - 1), "it must be a whole number from 1 to 2^20 − 1"),
        (Whole("", high=2**19), "it must be a whole number from 1 to 524,288"),
        (Real("", above=0, up_to=256), "it must be a finite number above 0, up to 256"),
        (Real(""), "it must be a finite number"),
        (Real("", above=0), "it must be a finite number above 0"),
        (Real("", at_least=1), "it must be a finite number of at least 1"),
        (
            Choice("", options=("interleaved", "halves")),
            "it must be one of interleaved, halves",
        ),
        (Flag(""), "it must be true or false"),
        (
            ListOf("", each=Whole("", high=9)),
            "each of them, separated by commas, must be a whole number from 1 to 9",
        ),
    ],
)
def test_the_rule_of_a_parameter_is_stated_in_words(parameter: ParameterRule, rule: str) -> None:
    """From 2^20 on, powers of two and numbers one below are written as powers; other numbers have
    commas from 10,000 on.
    """
    assert parameter.rule == rule


def test_the_placeholder_of_a_list_shows_the_kind_of_its_items() -> None:
    """A placeholder (metavar) is what the help of the command line shows behind an option."""
    assert ListOf("", each=Whole("")).metavar == "INTEGER,…"


@pytest.mark.parametrize(
    ("parameter", "text", "value"),
    [
        pytest.param(Whole(""), "0" * 39 + "7", 7, id="zeros before a number"),
        pytest.param(ListOf("", each=Real("")), "1,2.5", (1.0, 2.5), id="a list"),
        pytest.param(OptionalFlag(""), "TRUE", True, id="TRUE"),
        pytest.param(OptionalFlag(""), "false", False, id="false"),
        pytest.param(GridParameter(""), " 3 x 4 ", (3, 4), id="a grid"),
        pytest.param(GivenPositions(""), "0, 0.5", (0, 0.5), id="positions"),
        pytest.param(GivenPositions(""), "0,1;2,3", ((0, 1), (2, 3)), id="positions of two axes"),
    ],
)
def test_a_text_is_parsed_to_the_value_that_it_stands_for(
    parameter: ParameterRule, text: str, value: object
) -> None:
    """`parse` takes the parameter's name and a text from the command line."""
    assert parameter.parse("x", text) == value


def test_a_grid_may_have_two_to_the_20_points_along_an_axis() -> None:
    """2^20 is GridParameter's own limit. `check` returns an accepted value; its first argument is the
    parameter's name, for errors.
    """
    assert GridParameter("").check("grid", (2**20, 2**20)) == (2**20, 2**20)


def test_a_grid_of_more_than_two_to_the_20_points_along_an_axis_is_refused() -> None:
    """GridParameter's limit is 2^20 points along an axis. The error begins with the parameter's name
    and its value.
    """
    with pytest.raises(ParameterError, match=r"^grid is "):
        GridParameter("").check("grid", (2, 2**20 + 1))


def test_the_grid_of_a_scheme_may_be_given_as_a_text() -> None:
    """The text 2x2, as on the command line, means 2 × 2 points."""
    assert Sinusoidal(grid="2x2", dim=8, style="mae").grid == (2, 2)


def test_positions_of_long_doubles_are_pythons_floats() -> None:
    """Python has no numbers of 80 bits: 1/10 in 80 bits becomes the float64 number nearest to it."""
    tenths = np.arange(3, dtype=np.longdouble) / 10
    assert GivenPositions("").check("x", tenths) == (0, 0.1, 0.2)


@pytest.mark.parametrize(
    ("exact", "text", "kept"),
    [
        pytest.param(Fraction(4, 2), "", 2, id="2"),
        pytest.param(Fraction(1, 2), "", 0.5, id="a half"),
        pytest.param(Fraction(1, 3), "", "1/3", id="a third"),
        pytest.param(Fraction(1, 10), "0.1", "0.1", id="a tenth as typed"),
    ],
)
def test_a_position_is_kept_as_a_number_or_as_its_text(
    exact: Fraction, text: str, kept: object
) -> None:
    """2 and 1/2 are float64 numbers; 1/3 and 1/10 are none, so that their text is kept: as it was
    typed, or the fraction.
    """
    assert PositionList.number_or_text(exact, text) == kept


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("halfs", "did you mean 'halves'?"),
        ("interleave", "did you mean 'interleaved'?"),
        ("xyz", ""),
    ],
)
def test_a_misspelled_word_is_answered_with_the_nearest_one(word: str, advice: str) -> None:
    """The known words are interleaved and halves; nothing is advised if none is near."""
    assert nearest(word, ("interleaved", "halves")) == advice


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        (Rope(4, 8, 500.0, layout="halves"), "--seq-len 4 --dim 8 --theta 500 --layout halves"),
        (Sinusoidal(4, 8, cos_first=True), "--seq-len 4 --dim 8 --cos-first"),
    ],
    ids=str,
)
def test_the_options_of_a_scheme_are_those_that_differ_from_defaults(
    scheme: Scheme, expected: str
) -> None:
    """`options` returns the command line's options of a scheme; --theta is the parameter base, 500
    here instead of 10000.
    """
    assert [*options(scheme)] == expected.split()
