"""Which other table it is that was found: by the parameters that differ, or by the command that makes it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pecli.engine.scalings import yarn

if TYPE_CHECKING:
    from pecli.checks.identify.match import Match
    from pecli.engine.schemes.rope import Rope
    from pecli.engine.schemes.scheme import Scheme
    from pecli.engine.table import Table

_TOLD = (
    "dim",
    "base",
    "offset",
    "factor",
    "original_max_position_embeddings",
    "low_freq_factor",
    "high_freq_factor",
    *yarn.DEFAULTS,
    "layout",
    "seq_len",
)
_WORDS = {"base": "theta", "layout": "the layout"}
_ALONE = ("the cosine alone", "the sine alone")
_FEW = 3
"""Parameters that may differ before the command says it better."""


def another(held: Scheme, found: Mapping[str, Table]) -> list[str]:
    """Which table it is instead of the one held against it; learned values are nothing to go by."""
    from pecli.checks.identify.identification import identify_tables
    from pecli.engine.schemes.rope import Rope

    matches = [
        match for match in identify_tables("", list(found.values())).matches if match.scheme.name != "learned-init"
    ]
    if not matches:
        return []
    match, names = matches[0], ", ".join(matches[0].tensors)
    if _frequencies(held) == _frequencies(match.scheme):
        return [f"{names}: {words}" for words in _computed(held, match)]
    if isinstance(held, Rope) and isinstance(match.scheme, Rope):
        causes = min((list(_parameters(held, each)) for each in reversed(_alike(held, match.scheme))), key=len)
        plain = not match.form or match.form.startswith(_ALONE)
        if 0 < len(causes) <= _FEW and match.recipe == held.recipe and plain:
            verb = "matches" if len(match.tensors) == 1 else "match"
            return [f"{names}: {verb} if {' and '.join(causes)}; residual {match.max_abs_error:.2g}"]
        if match.scheme.scaling == "longrope" != held.scaling:
            return [f"{names}: its frequencies follow no rule that is known; pecli identify lists what divides them"]
    return [f"{names}: it is another table, which {match.command.partition(' -o ')[0]} makes"]


def _computed(held: Scheme, match: Match) -> Iterator[str]:
    """What to say of the same angles; nothing where the table is right but for some of its rows."""
    recipe = getattr(held, "recipe", "exact")
    if match.recipe != "exact":
        yield f"computed by the recipe {match.recipe}; verify with --recipe {match.recipe}"
    elif recipe != "exact":
        off = f"{match.max_abs_error:.2g}"
        yield f"within {off} of the exact table, but not computed by the recipe {recipe}; verify with --atol instead"


def _frequencies(scheme: Scheme) -> object:
    """What tells rotary schemes apart, but for how they are computed and laid out."""
    from pecli.engine.schemes.rope import Rope

    return (
        (scheme.frequencies().values, scheme.offset, scheme.attention_factor_value())
        if isinstance(scheme, Rope)
        else scheme
    )


def _alike(held: Rope, found: Rope) -> list[Rope]:
    """The scheme that was found, and others of the same frequencies that people are likelier to have meant."""
    every = [found]
    original, factor = held.original_max_position_embeddings, held.factor
    if original is None or found.scaling != held.scaling or found.original_max_position_embeddings in (None, original):
        return every
    if held.scaling == "llama3":  # which knows the length only together with both factors
        by = original / (found.original_max_position_embeddings or 1)
        limits = {name: getattr(found, name) * by for name in ("low_freq_factor", "high_freq_factor")}
        every.append(replace(found, original_max_position_embeddings=original, **limits))
    for length in (round(original * (factor or 1)), held.max_position_embeddings):
        if held.scaling == "yarn" and length:
            other = replace(found, original_max_position_embeddings=length)
            every += [other] if other.frequencies().values == found.frequencies().values else []
    return every


def _parameters(held: Rope, found: Rope) -> Iterator[str]:
    """«factor is 32 (the spec says 8)», for all that differs between two of a kind; nothing of two kinds."""
    if held.partial_rotary_factor is not None or held.scaling != found.scaling:
        if found.scaling == "none" and (dim := _exponent_over(held, found)):
            yield f"the {held.scaling} scaling is ignored"
            yield f"the exponent is over {dim} instead of {held.exponent_dim}"
        return
    for name in _TOLD:
        given, other = (getattr(each, name) for each in (held, found))
        given, other = (yarn.DEFAULTS.get(name) if value is None else value for value in (given, other))
        if given == other:
            continue
        if name == "base" and (dim := _exponent_over(held, found)):
            yield f"the exponent is over {dim} instead of {held.exponent_dim}"
        else:
            yield f"{_WORDS.get(name, name)} is {_spelled(other)} (the spec says {_spelled(given)})"
    usual = held if held.scaling != "yarn" or held.attention_factor else replace(held, factor=found.factor)
    given, other = usual.attention_factor_value(), found.attention_factor_value()
    if not math.isclose(given, other, rel_tol=1e-6):
        yield f"the attention factor is {other:.7g} (the spec says {given:.7g})"


def _exponent_over(held: Rope, found: Rope) -> int:
    """What the exponents of another base would have to be divided by, with the base of the spec; 0 if no such dim."""
    if held.scaling not in ("none", "llama3") or found.scaling != "none" or 1.0 in (held.base, found.base):
        return 0
    dim = held.exponent_dim * math.log(held.base) / math.log(found.base)
    whole = dim > held.exponent_dim and abs(dim - round(dim)) < 1e-6 * dim and round(dim) % held.exponent_dim == 0
    return round(dim) if whole else 0


def _spelled(value: object) -> str:
    from pecli.engine.text import spelled

    return "none" if value is None else spelled(value)
