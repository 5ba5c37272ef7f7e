"""What schemes have to say to values that break a rule, and to those of a kind that is never right."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from pecli.engine.schemes import Choice, Flag, ListOf, Real, Whole
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
WHOLE, EVEN, REAL = (
    "it must be a whole number from",
    "it must be an even whole number from",
    "it must be a finite number",
)
TOO_FAST, LAST = "frequencies must stay below 2^64 radians per position", "the last position must be at most 2^40"
WRONG: list[tuple[type[Scheme], dict[str, Any], str, str]] = [
    (Sinusoidal, {"seq_len": 0}, "0", f"{WHOLE} 1 to 2^40"),
    (Sinusoidal, {"seq_len": 2**63}, "9223372036854775808", f"{WHOLE} 1 to 2^40"),
    (Sinusoidal, {"seq_len": None}, "missing", f"{WHOLE} 1 to 2^40"),
    (Sinusoidal, {"dim": None}, "missing", f"{WHOLE} 1 to 65,536"),
    (Sinusoidal, {"dim": 65537}, "65537", f"{WHOLE} 1 to 65,536"),
    (Sinusoidal, {"offset": 2, "seq_len": 2**40}, "2", LAST),
    (Sinusoidal, {"offset": -1}, "-1", f"{WHOLE} 0 to 2^40"),
    (Sinusoidal, {"base": math.nan}, "nan", f"{REAL} above 0"),
    (Sinusoidal, {"base": -math.inf}, "-inf", f"{REAL} above 0"),
    (Sinusoidal, {"base": -0.0}, "-0", f"{REAL} above 0"),
    (Sinusoidal, {"base": 10**400}, "inf", f"{REAL} above 0"),
    (Sinusoidal, {"base": 1e-30}, "1e-30", TOO_FAST),
    (Sinusoidal, {"scale": 0}, "0", f"{REAL} above 0"),
    (Sinusoidal, {"scale": 1e30}, "1e+30", TOO_FAST),
    (Sinusoidal, {"amplitude": 0}, "0", f"{REAL} above 1e-30"),
    (Sinusoidal, {"freq_shift": 4}, "4", "it must leave at least 0.5 of D/2 = 4"),
    (Sinusoidal, {"freq_shift": 3.75}, "3.75", "it must leave at least 0.5 of D/2 = 4"),
    (Sinusoidal, {"padding_idx": -1}, "-1", f"{WHOLE} 0 to 2^40"),
    (Sinusoidal, {"dtype": "bfloat"}, "'bfloat'", "did you mean 'bfloat16'?"),
    (Sinusoidal, {"layout": "halfs"}, "'halfs'", "it must be one of interleaved, halves; did you mean 'halves'?"),
    (Sinusoidal, {"layout": ""}, "''", "it must be one of interleaved, halves"),
    (Sinusoidal, {"style": "wisper"}, "'wisper'", "did you mean 'whisper'?"),
    (Sinusoidal, {"dim": 7, "style": "marian"}, "7", "the marian style has even dims only"),
    (Rope, {"offset": 2**40 - 2}, "1099511627774", LAST),
    (Rope, {"dim": 0}, "0", f"{EVEN} 2 to 65,536"),
    (Rope, {"dim": 7}, "7", f"{EVEN} 2 to 65,536"),
    (Rope, {"base": 1e-20}, "1e-20", TOO_FAST),
    (Rope, {"layout": "interleave"}, "'interleave'", "did you mean 'interleaved'?"),
    (Alibi, {"heads": None}, "missing", f"{WHOLE} 1 to 65,536"),
    (Alibi, {"seq_len": 2**63}, "9223372036854775808", f"{WHOLE} 1 to 2^24"),
    (Alibi, {"max_bias": 0}, "0", f"{REAL} above 1e-30, up to 256"),
    (Alibi, {"max_bias": 257}, "257", f"{REAL} above 1e-30, up to 256"),
    (Alibi, {"form": "key_last"}, "'key_last'", "did you mean 'key-last'?"),
    (LearnedInit, {"std": 1e31}, "1e+31", f"{REAL} above 0, up to 1e+30"),
    (LearnedInit, {"seed": 2**64}, "18446744073709551616", f"{WHOLE} 0 to 2^64 − 1"),
    (LearnedInit, {"init": "xavier"}, "'xavier'", "it must be one of normal, trunc-normal, uniform, xavier-uniform"),
]


@pytest.mark.parametrize(("kind", "change", "given", "rule"), WRONG, ids=str)
def test_values_that_break_a_rule(kind, change, given, rule):
    """The scheme is not made: the error names the first of these parameters, what was given, and the rule."""
    name = next(iter(change))
    with pytest.raises(ParameterError) as caught:
        kind(**{**USUAL[kind], **change})
    assert type(caught.value) is ParameterError
    assert (caught.value.name, str(caught.value.given)) == (name, given)
    assert rule in str(caught.value)


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
