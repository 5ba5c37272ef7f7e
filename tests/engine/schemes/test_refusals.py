"""What schemes have to say to values that break a rule, and to those of a kind that is never right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pecli.engine.schemes import Choice, Flag, ListOf, Real, Whole, scheme_named
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import KindError, ParameterError

USUAL: dict[type[Scheme], dict[str, Any]] = {
    Sinusoidal: {"seq_len": 4, "dim": 8},
    Rope: {"seq_len": 4, "dim": 8},
    Alibi: {"heads": 4, "seq_len": 8},
    LearnedInit: {"max_len": 4, "dim": 8},
}
REFUSED = [
    *json.loads(Path(__file__).with_name("refusals.json").read_text()),
    ("sinusoidal", {"positions": np.arange(8).reshape(2, 2, 2), "dim": 4}, "positions is of shape (2, 2, 2)"),
]


def test_values_that_break_a_rule() -> None:
    """The scheme is not made: the error says which parameter it was, what was given, and the rule."""
    for scheme, parameters, *words in REFUSED:
        with pytest.raises(ParameterError) as caught:
            scheme_named(scheme)(**parameters)
        assert [word for word in words if word not in str(caught.value)] == [], parameters


NEVER_RIGHT = {
    Whole: (True, "4", 4.0, np.float32(4), 4 + 0j, [4], b"4"),
    Real: (True, "1", b"1", 1j, [1.0], object),
    Flag: (1, 0, "yes", "true"),
    ListOf: ("1", b"1", 4),
}


@pytest.mark.parametrize("kind", USUAL)
def test_kinds_that_are_never_right(kind):
    """Every parameter of every scheme refuses values that are not even of its kind, in one line with what was given."""
    tried = 0
    for name, parameter in kind.parameters().items():
        if name in ("keep", "grid_base", "grid_scale"):  # which are refused without a grid, whatever they are
            continue
        for value in next((values for way, values in NEVER_RIGHT.items() if isinstance(parameter, way)), ()):
            with pytest.raises(KindError, match=f"^{name} is .*; {parameter.rule[:12]}") as caught:
                kind(**{**USUAL[kind], name: value})
            assert repr(value) in str(caught.value)
            tried += 1
        if isinstance(parameter, Choice):
            with pytest.raises(ParameterError, match=f"^{name} is 'zzz'; it must be one of"):
                kind(**{**USUAL[kind], name: "zzz"})
    assert tried >= 9
