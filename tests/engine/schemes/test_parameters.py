"""Which values and texts a parameter accepts, what they become, and how others are refused.

`check` takes a value from Python, `parse` a text from the command line. Expected values are written
by hand in the tables below; an error states what was given and the rule of the parameter.
"""

import inspect
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.parameters import Choice, Flag, ListOf, ParameterRule, Real, Whole
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.row_places import RANGE
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import KindError, ParameterError

COUNT = Whole("", low=1, high=2**40)
EVEN = Whole("", low=2, high=65536, even=True)
SIZE = Real("", above=0, up_to=256)
ANY = Real("")
WORD = Choice("", options=("interleaved", "halves"))
FLAG = Flag("")


VALUES_AND_WHAT_THEY_MEAN = {
    COUNT: [
        (7, 7),
        (np.int64(7), 7),
        (np.uint8(7), 7),
        (2**40, 2**40),
        ("7", 7),
        (" 7 ", 7),
        ("1_000", 1000),
    ],
    EVEN: [(2, 2), ("128", 128)],
    SIZE: [
        (3, 3.0),
        (np.float32(0.5), 0.5),
        (256, 256.0),
        (5e-324, 5e-324),
        ("1e2", 100.0),
        (".5", 0.5),
    ],
    ANY: [(-1e308, -1e308), (10**300, 1e300), ("-3", -3.0)],
    WORD: [("halves", "halves")],
    FLAG: [(True, True), (False, False)],
}
NINES = "9" * 37 + "…"
TEXTS_REFUSED = {
    COUNT: [*((text, text) for text in ("0", "-1", str(2**63))),
        *((text, repr(text)) for text in ("4.0", "", "four", "0x10")),
        *((text, NINES) for text in ("9" * 41, "9" * 10**6))],
    EVEN: [("7", "7")],
    SIZE: [*((text, text) for text in ("nan", "inf", "-inf", "0", "257")), ("1e999", "inf"),
        ("x" * 99, repr("x" * 40))],
    ANY: [("", "''")],
    WORD: [("halve", "'halve'")],
}  # fmt: skip
KINDS_REFUSED = {
    COUNT: (True, False, "4", 4.0, np.float64(4), None, [4], b"4", 4j),
    SIZE: (True, "4", b"4", None, [4.0], 4j, object()),
    FLAG: (0, 1, "true", None, np.True_),
    WORD: (5, None, ["halves"], 0.5),
}


def shown(value: object) -> str:
    """Return the id of a case: a value cut to 40 characters, or the class of an object."""
    if isinstance(value, ParameterRule) or type(value) is object:
        return type(value).__name__
    return repr(value)[:40]


@pytest.mark.parametrize(
    ("parameter", "argument", "value"),
    [
        (parameter, argument, value)
        for parameter, cases in VALUES_AND_WHAT_THEY_MEAN.items()
        for argument, value in cases
    ],
    ids=shown,
)
def test_a_value_or_text_that_is_accepted_becomes_a_plain_python_value(parameter, argument, value):
    """A parameter parses texts of the command line, and checks values of Python. The text "1_000" and
    the number np.uint8(7) become ints, for example, and np.float32(0.5) a float.
    """
    if isinstance(argument, str):
        accepted = parameter.parse("x", argument)
    else:
        accepted = parameter.check("x", argument)

    assert accepted == value
    assert type(accepted) is type(value)


@pytest.mark.parametrize(
    ("parameter", "text", "quoted"),
    [
        (parameter, text, quoted)
        for parameter, cases in TEXTS_REFUSED.items()
        for text, quoted in cases
    ],
    ids=shown,
)
def test_a_wrong_text_is_refused_in_one_short_line_with_the_rule(parameter, text, quoted):
    """The message quotes the text, of which at most 40 characters are shown."""
    with pytest.raises(ParameterError) as caught:
        parameter.parse("size", text)

    message = str(caught.value)
    assert message.startswith(f"size is {quoted}; {parameter.rule}")
    assert len(message) < 200
    assert "\n" not in message


@pytest.mark.parametrize(
    ("parameter", "value"),
    [(parameter, value) for parameter, values in KINDS_REFUSED.items() for value in values],
    ids=shown,
)
def test_a_value_of_another_type_is_refused_with_the_rule(parameter, value):
    """The error is a KindError, which is a TypeError too. For a choice among words it is a
    ParameterError, as any other word is no choice either.
    """
    with pytest.raises(ParameterError if parameter is WORD else KindError) as caught:
        parameter.check("size", value)

    assert str(caught.value) == f"size is {value!r}; {parameter.rule}"


USUAL: dict[type[Scheme], dict[str, Any]] = {
    Sinusoidal: {"seq_len": 4, "dim": 8},
    Rope: {"seq_len": 4, "dim": 8},
    Alibi: {"heads": 4, "seq_len": 8},
    LearnedInit: {"max_len": 4, "dim": 8},
}
NEVER_RIGHT = {
    Whole: (True, "4", 4.0, np.float32(4), 4 + 0j, [4], b"4"),
    Real: (True, "1", b"1", 1j, [1.0], object),
    Flag: (1, 0, "yes", "true"),
    ListOf: ("1", b"1", 4),
}


@pytest.mark.parametrize("kind", USUAL)
def test_every_parameter_of_a_scheme_refuses_values_of_a_wrong_type(kind):
    """A whole number is not given as True, "4" or 4.0, for example (NEVER_RIGHT lists such values
    by type of parameter); the error has the name, the value and the rule. A scheme has at least 9
    such pairs.
    """
    tried = 0
    for name, parameter in kind.parameters().items():
        if name in ("keep", "grid_base", "grid_scale"):
            continue  # Without a grid these are refused, whatever their value is.
        for value in next(
            (values for way, values in NEVER_RIGHT.items() if isinstance(parameter, way)), ()
        ):
            with pytest.raises(KindError, match=f"^{name} is .*; {parameter.rule[:12]}") as caught:
                kind(**{**USUAL[kind], name: value})
            assert repr(value) in str(caught.value)
            tried += 1
    assert tried >= 9


@pytest.mark.parametrize("kind", USUAL)
def test_every_choice_of_a_scheme_refuses_a_word_that_is_none_of_its_options(kind):
    """A choice is a parameter with a list of words. Each in turn is given the word zzz; each scheme has
    at least one choice, its dtype.
    """
    choices = [
        name for name, parameter in kind.parameters().items() if isinstance(parameter, Choice)
    ]
    assert "dtype" in choices
    for name in choices:
        with pytest.raises(ParameterError, match=f"^{name} is 'zzz'; it must be one of"):
            kind(**{**USUAL[kind], name: "zzz"})


class DtypeOfTorch:
    """A stand-in for torch.bfloat16, which is recognised by its repr."""

    def __repr__(self) -> str:
        return "torch.bfloat16"


@pytest.mark.parametrize(
    ("parameter", "word", "meaning"),
    [
        *(
            ("dtype", word, "float16")
            for word in ("fp16", "half", "F16", "f2", np.float16, np.dtype(np.float16))
        ),
        *(
            ("dtype", word, "bfloat16")
            for word in ("bf16", ml_dtypes.bfloat16, "torch.bfloat16", DtypeOfTorch())
        ),
        *(("dtype", word, "float64") for word in ("double", float, np.float64)),
        *(("layout", word, "halves") for word in ("neox", "rotate_half", "half")),
        *(("layout", word, "interleaved") for word in ("gptj", "traditional")),
        ("scaling", "default", "none"),
    ],
)
def test_words_of_other_projects_for_a_value_are_understood(
    parameter: str, word: Any, meaning: str
) -> None:
    """fp16, half and F16 are written for float16, for example; "half" as a layout is rotate_half,
    whose pairs are halves apart. Names are those of NumPy, torch and other projects.
    """
    assert getattr(Rope(4, 8, **{parameter: word}), parameter) == meaning


def test_help_shows_the_defaults_that_count() -> None:
    """`help(pecli.Rope)` shows this signature: base=10000.0, and no value for a required number."""
    assert inspect.signature(Rope).parameters["base"].default == 10000.0
    assert inspect.signature(Alibi).parameters["heads"].default is inspect.Parameter.empty


def test_a_range_of_positions_has_no_list_of_them() -> None:
    """Its rows are counted from the offset, one by one."""
    with pytest.raises(TypeError, match="rows of a range have no list of coordinates"):
        RANGE.coordinates()
