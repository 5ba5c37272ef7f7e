"""What a parameter takes, as a value and as a text, and how it says no."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pecli.engine.schemes import Choice, Flag, Real, Whole, nearest
from pecli.errors import KindError, ParameterError, PecliError

COUNT = Whole(help="", low=1, high=2**40)
EVEN = Whole(help="", low=2, high=65536, even=True)
SIZE = Real(help="", above=0, up_to=256)
ANY = Real(help="")
WORD = Choice(help="", options=("interleaved", "halves"))
FLAG = Flag(help="")


@pytest.mark.parametrize(
    ("parameter", "given", "value"),
    [
        (COUNT, 7, 7),
        (COUNT, np.int64(7), 7),
        (COUNT, np.uint8(7), 7),
        (COUNT, 2**40, 2**40),
        (EVEN, 2, 2),
        (SIZE, 3, 3.0),
        (SIZE, np.float32(0.5), 0.5),
        (SIZE, 256, 256.0),
        (SIZE, 5e-324, 5e-324),
        (ANY, -1e308, -1e308),
        (WORD, "halves", "halves"),
        (FLAG, True, True),
        (FLAG, False, False),
    ],
)
def test_values_that_pass(parameter, given, value):
    found = parameter.check("x", given)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("parameter", "text", "value"),
    [
        (COUNT, "7", 7),
        (COUNT, " 7 ", 7),
        (COUNT, "1_000", 1000),
        (EVEN, "128", 128),
        (SIZE, "1e2", 100.0),
        (SIZE, ".5", 0.5),
        (ANY, "-3", -3.0),
        (WORD, "halves", "halves"),
    ],
)
def test_texts_that_pass(parameter, text, value):
    assert parameter.parse("x", text) == value


@pytest.mark.parametrize(
    ("parameter", "text", "given"),
    [
        (COUNT, "0", "0"),
        (COUNT, "-1", "-1"),
        (COUNT, str(2**63), str(2**63)),
        (COUNT, "9" * 41, "9" * 37 + "…"),
        (COUNT, "9" * 10**6, "9" * 37 + "…"),
        (COUNT, "4.0", "'4.0'"),
        (COUNT, "", "''"),
        (COUNT, "four", "'four'"),
        (COUNT, "0x10", "'0x10'"),
        (EVEN, "7", "7"),
        (SIZE, "nan", "nan"),
        (SIZE, "inf", "inf"),
        (SIZE, "-inf", "-inf"),
        (SIZE, "1e999", "inf"),
        (SIZE, "0", "0"),
        (SIZE, "257", "257"),
        (SIZE, "ten", "'ten'"),
        (SIZE, "x" * 1000, "'" + "x" * 40 + "'"),
        (ANY, "", "''"),
        (WORD, "halve", "'halve'"),
    ],
)
def test_texts_that_fail(parameter, text, given):
    with pytest.raises(ParameterError) as caught:
        parameter.parse("size", text)
    assert str(caught.value).startswith(f"size is {given}; {parameter.rule}")
    assert len(str(caught.value)) < 200
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("parameter", "rule"),
    [
        (COUNT, "it must be a whole number from 1 to 2^40"),
        (EVEN, "it must be an even whole number from 2 to 65,536"),
        (Whole(help="", low=0, high=2**64 - 1), "it must be a whole number from 0 to 2^64 − 1"),
        (Whole(help="", low=0, high=9), "it must be a whole number from 0 to 9"),
        (SIZE, "it must be a finite number above 0, up to 256"),
        (ANY, "it must be a finite number"),
        (Real(help="", above=0), "it must be a finite number above 0"),
        (WORD, "it must be one of interleaved, halves"),
        (FLAG, "it must be true or false"),
    ],
)
def test_rules_in_words(parameter, rule):
    assert parameter.rule == rule


@pytest.mark.parametrize("value", [True, False, "4", 4.0, np.float64(4), None, [4], b"4", 4j], ids=repr)
@pytest.mark.parametrize("parameter", [COUNT, EVEN])
def test_kinds_that_are_no_whole_number(parameter, value):
    with pytest.raises(KindError) as caught:
        parameter.check("size", value)
    assert str(caught.value) == f"size is {value!r}; {parameter.rule}"


@pytest.mark.parametrize("value", [True, "4", b"4", None, [4.0], 4j, object()], ids=lambda value: str(type(value)))
def test_kinds_that_are_no_number(value):
    with pytest.raises(KindError) as caught:
        SIZE.check("size", value)
    assert str(caught.value) == f"size is {value!r}; {SIZE.rule}"


@pytest.mark.parametrize("value", [0, 1, "true", None, np.True_], ids=repr)
def test_kinds_that_are_no_flag(value):
    with pytest.raises(KindError, match="it must be true or false"):
        FLAG.check("size", value)


@pytest.mark.parametrize("value", [5, None, ["halves"], 0.5], ids=repr)
def test_kinds_that_are_no_word(value):
    with pytest.raises(ParameterError, match="it must be one of interleaved, halves"):
        WORD.check("size", value)


def test_errors_are_also_what_python_would_raise():
    with pytest.raises(ValueError, match="size"):
        COUNT.check("size", 0)
    with pytest.raises(TypeError, match="size"):
        COUNT.check("size", 1.5)
    assert issubclass(ParameterError, PecliError)
    problem = ParameterError("seq_len", 0, "the rule", "the advice")
    assert str(problem) == "seq_len is 0; the rule; the advice"
    assert problem.describe("--seq-len") == "--seq-len is 0; the rule; the advice"


@pytest.mark.parametrize(
    ("word", "advice"),
    [("halfs", "did you mean 'halves'?"), ("interleave", "did you mean 'interleaved'?"), ("xyz", "")],
)
def test_nearest(word, advice):
    assert nearest(word, WORD.options) == advice


def test_numbers_too_large_for_a_float():
    with pytest.raises(ParameterError, match=r"^size is inf; "):
        ANY.check("size", 10**400)
    with pytest.raises(ParameterError, match=r"^size is -?inf; "):
        ANY.check("size", -(10**400))
    assert math.isfinite(ANY.check("size", 10**300))


def test_a_very_long_integer_can_be_spoken_of():
    with pytest.raises(ParameterError) as caught:
        COUNT.check("size", 10**5000)
    assert str(caught.value).endswith(COUNT.rule)
