"""Why a table does not match: the mistakes that ports make, tried one by one and together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

import numpy as np

from pecli.checks.diagnose.again import again
from pecli.checks.diagnose.causes import Explanation, together
from pecli.checks.diagnose.copies import bytes_turned
from pecli.checks.diagnose.in_part import wrong_in_part
from pecli.checks.diagnose.kept import kept_otherwise
from pecli.checks.diagnose.plainly import bare_angles, constant, misread, not_finite, passes, unwritten
from pecli.checks.diagnose.precision import places
from pecli.checks.diagnose.rows import misplaced
from pecli.checks.diagnose.stepwise import reckoned_otherwise
from pecli.checks.tolerance import Tolerance
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.bundle import Bundle
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.engine.table import Table, cast

_ENOUGH = 24
"""Bits of precision with which slow waves are not all the same."""


_LOOKS = (
    bytes_turned,
    misplaced,
    kept_otherwise,
    unwritten,
    misread,
    again,
    wrong_in_part,
    reckoned_otherwise,
)
"""What is looked for where no search finds anything, the surest first."""


def explain(scheme: Scheme, found: Mapping[str, Table], tolerance: Tolerance) -> tuple[str, ...]:
    """Sentences that say which mistake made the tables that were found, the best first; none where none fits.

    `found` has them by the names of the scheme's tensors; shapes and dtypes may be any.
    """
    if not isinstance(scheme, Bundle):
        return tuple(_sentences(scheme, "", found, tolerance))
    each = (_sentences(part, f"{name}.", found, tolerance) for name, part in scheme.parts)
    return tuple(chain.from_iterable(each))


def _sentences(scheme: Scheme, start: str, found: Mapping[str, Table], tolerance: Tolerance) -> list[str]:
    """About the tensors whose names start so."""
    named: dict[str, list[Explanation]] = {}
    plain: dict[str, list[str]] = {}
    own = {table.name: table for table in (scheme.single_array(), *scheme.tensors())}
    for name, table in found.items():
        if name.startswith(start) and table.size:
            short = name.removeprefix(start)
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # whatever numbers a file holds
                if short not in own or not passes(own[short], table, tolerance):
                    named[name], words = _tensor(scheme, short, table)
                else:
                    words = wrong_in_part(scheme, short, table)
            if words:
                plain.setdefault(words, []).append(name)
    return [*together(named), *(f"{', '.join(names)}: {words}" for words, names in plain.items())]


def _tensor(scheme: Scheme, name: str, table: Table) -> tuple[list[Explanation], str]:
    """Explanations of one tensor, or plain words about it."""
    words = not_finite(scheme, name, table)
    words = (bytes_turned(scheme, name, table) or words) if words else bare_angles(scheme, name, table)
    if not words and table.dtype.startswith(("int", "uint")):
        words = kept_otherwise(scheme, name, table)
    if words:
        return [], words
    same = "" if name == "inv_freq" else constant(scheme, name, table)
    if same and places(table.dtype) >= _ENOUGH:
        return [], same
    explanations, words = _searched(scheme, name, table)
    if explanations:
        return explanations, words
    for look in _LOOKS:
        if plain := look(scheme, name, table):
            return [], plain
    return [], words or same


def _searched(scheme: Scheme, name: str, table: Table) -> tuple[list[Explanation], str]:
    """What the search for mistakes finds, by the kind of table."""
    if table.dtype.startswith("complex") and name not in ("cos", "sin", "cos_sin", "pe"):
        return [], ""
    if isinstance(scheme, LearnedInit) and scheme.init == "sinusoidal" and name == "weight":
        scheme, name = Sinusoidal(scheme.max_len, scheme.dim, dtype=scheme.dtype), "pe"
    if isinstance(scheme, Rope) and name == "inv_freq":
        from pecli.checks.diagnose.inverse import explain_inverse

        return explain_inverse(scheme, table)
    if isinstance(scheme, (Rope, Sinusoidal)):
        from pecli.checks.diagnose.waves import explain_waves

        found = explain_waves(scheme, name, table)
        if not any(found) and table.dtype == "float64":  # float32 numbers, multiplied in float64
            retried, _ = explain_waves(scheme, name, cast(table, "float32"))
            causes = [tuple(each for each in why.causes if "cast to" not in each.words) for why in retried]
            found = [replace(why, causes=kept) for why, kept in zip(retried, causes, strict=True) if kept], ""
        return found
    if isinstance(scheme, Alibi):
        from pecli.checks.diagnose.alibi import explain_alibi

        return explain_alibi(scheme, name, table), ""
    if isinstance(scheme, LearnedInit):
        from pecli.checks.diagnose.learned import explain_learned

        return explain_learned(scheme, table), ""
    return [], ""
