"""What cosines and sines may have been multiplied by."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from pecli.checks.diagnose.causes import FITTED, Cause
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal

_NEAR = 0.02
"""How far a fitted amplitude may be from the one it is tried as; the residual decides."""


def candidates(scheme: Rope | Sinusoidal, usual: float, fitted: float) -> Iterator[tuple[float, tuple[Cause, ...]]]:
    """Amplitudes near the fitted one, each with its name; at last the fitted one itself."""
    if _near(usual, fitted):
        yield usual, ()
    named = _of_rope(scheme, usual) if isinstance(scheme, Rope) else _of_waves(scheme)
    for value, words in named:
        if _near(value, fitted) and not math.isclose(value, usual, rel_tol=1e-9):
            yield value, (Cause(words),)
    if not math.isclose(fitted, usual, rel_tol=1e-6):
        yield fitted, (Cause(f"it is scaled by {fitted / usual:.5g}", FITTED),)


def _near(value: float, fitted: float) -> bool:
    return abs(value - fitted) <= _NEAR * abs(fitted)


def _of_rope(rope: Rope, usual: float) -> Iterator[tuple[float, str]]:
    factor = rope.attention_factor_value()
    name = f"the {'YaRN' if rope.scaling == 'yarn' else rope.scaling} attention factor"
    if factor != 1:
        yield 1.0, f"{name}, {factor:.5g}, is dropped"
        yield factor**2, f"it is scaled by {factor:.5g} = {name}, applied twice"
        yield factor, f"{name}, {factor:.5g}, is applied all the same"
    if rope.scaling in ("yarn", "longrope") and (rope.factor or rope.max_position_embeddings):
        given = "attention_factor" if rope.attention_factor is not None else "mscale"
        plain = replace(rope, attention_factor=None, mscale=None, mscale_all_dim=None).attention_factor_value()
        yield plain, f"the attention factor is {plain:.5g}, as if {given} were not given"
        if rope.mscale_all_dim and factor == 1:
            yield plain**2, f"it is scaled by {plain**2:.5g} = {plain:.5g}², which belongs to the softmax scale"
        yield plain * factor, f"it is scaled by {plain:.5g} = the attention factor of the rule, on top of the given one"


def _of_waves(pe: Sinusoidal) -> Iterator[tuple[float, str]]:
    if pe.amplitude != 1:
        yield 1.0, f"the amplitude, {pe.amplitude:.5g}, is dropped"
    for value, words in (
        (math.sqrt(2 / pe.dim), "sqrt(2/D), as mlx does"),
        (pe.dim**-0.5, "1/sqrt(D), as x-transformers does"),
        (pe.dim**0.5, "sqrt(D), as embeddings are"),
    ):
        yield pe.amplitude * value, f"it is scaled by {words}"
