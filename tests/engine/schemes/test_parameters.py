"""Which values and texts a parameter accepts, what they become, and how others are refused.

`check` takes a value from Python, `parse` a text from the command line. Expected values are written
by hand in the tables below; an error states what was given and the rule of the parameter.
"""

import inspect
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.parameters import Choice, Flag, ListOf, ParameterRule, Real, Whole
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import KindError, ParameterError

# The first argument, the text for --help, does not matter here.
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
    # A text that is a number of the right kind is quoted as that number, any other text by repr.
    COUNT: [*((text, text) for text in ("0", "-1", str(2**63))),
        *((text, repr(text)) for text in ("4.0", "", "four", "0x10")),
        *((text, NINES) for text in ("9" * 41, "9" * 10**6))],
    EVEN: [("7", "7")],
    SIZE: [*((text, text) for text in ("nan", "inf", "-inf", "0", "257")), ("1e999", "inf"),
        ("x" * 99, repr("x" * 40))],
    ANY: [("", "''")],
    WORD: [("halve", "'halve'")],
}  # fmt: skip
"""Texts that a parameter refuses, each with its quotation in the message."""
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
    """COUNT is a whole number from 1 to 2^40, for example, and its message «size is 0; it must be a
    whole number from 1 to 2^40». A number is quoted as it is (1e999, which is beyond float64, as inf),
    any other text with quotes; of a longer one, 37 digits or 40 characters are shown.
    """
    with pytest.raises(ParameterError) as caught:
        parameter.parse("size", text)

    message = str(caught.value)
    assert message.startswith(f"size is {quoted}; {parameter.rule}")
    assert len(message) < 200  # Two lines of a terminal hold it, with a million digits as well.
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
"""Arguments that make a scheme of each class."""
VALUES_OF_WRONG_TYPES = {
    Whole: (True, "4", 4.0, np.float32(4), 4 + 0j, [4], b"4"),
    Real: (True, "1", b"1", 1j, [1.0], object),
    Flag: (1, 0, "yes", "true"),
    ListOf: ("1", b"1", 4),
}
"""Values of Python that are not converted, by the class of a parameter."""
ONLY_WITH_A_GRID = ("keep", "grid_base", "grid_scale")
"""Parameters that are refused without a grid, whatever their value is."""


def parameters_of_plain_types() -> Iterator[Any]:
    """Yield the class of a scheme, a name and values of wrong types for each parameter that has a
    class of VALUES_OF_WRONG_TYPES.
    """
    for kind in USUAL:
        for name, parameter in kind.parameters().items():
            for parameter_class, values in VALUES_OF_WRONG_TYPES.items():
                if isinstance(parameter, parameter_class) and name not in ONLY_WITH_A_GRID:
                    yield pytest.param(kind, name, values, id=f"{kind.__name__}-{name}")


@pytest.mark.parametrize(("kind", "name", "values"), [*parameters_of_plain_types()])
def test_a_scheme_refuses_values_of_a_wrong_type(
    kind: type[Scheme], name: str, values: tuple[object, ...]
) -> None:
    """Nothing is converted that may be a mistake: True, "4" and 4.0 are no whole numbers, 1 is no
    flag, and a text is no list. The message has the parameter's name, the value and the rule.
    """
    rule = kind.parameters()[name].rule
    for value in values:
        with pytest.raises(KindError) as caught:
            kind(**{**USUAL[kind], name: value})
        assert str(caught.value) == f"{name} is {value!r}; {rule}"


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (Sinusoidal, {"seq_len", "dim", "base", "cos_first"}),
        (Rope, {"seq_len", "dim", "base", "factor", "truncate", "short_factor"}),
        (Alibi, {"heads", "seq_len", "max_bias", "slopes"}),
        (LearnedInit, {"max_len", "dim", "std", "seed"}),
    ],
    ids=["Sinusoidal", "Rope", "Alibi", "LearnedInit"],
)
def test_values_of_wrong_types_are_tried_for_parameters_of_each_scheme(
    kind: type[Scheme], names: set[str]
) -> None:
    """Some names of whole numbers, real numbers, flags and lists, so that the test above has them."""
    tried = {case.values[1] for case in parameters_of_plain_types() if case.values[0] is kind}
    assert names <= tried


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
    """The rows of a table are at listed positions, or at a range: offset, offset + 1, …, which
    are computed when they are needed.
    """
    listed = Rope(positions=[3, 1, 3], dim=8)._row_places
    assert listed.coordinates().values == ([1, 3],)  # Each position is listed once.

    consecutive = Rope(seq_len=4, offset=100, dim=8)._row_places
    with pytest.raises(TypeError, match="rows of a range have no list of coordinates"):
        consecutive.coordinates()
