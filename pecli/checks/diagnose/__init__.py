"""Why a table does not match: the mistakes that ports make, tried one by one and together."""

from __future__ import annotations

from collections.abc import Mapping

from pecli.checks.diagnose.causes import Explanation, together
from pecli.checks.tolerance import Tolerance
from pecli.engine.alibi import Alibi
from pecli.engine.bundle import Bundle
from pecli.engine.learned import LearnedInit
from pecli.engine.rope import Rope
from pecli.engine.scheme import Scheme
from pecli.engine.sinusoidal import Sinusoidal
from pecli.engine.table import Table


def explain(scheme: Scheme, found: Mapping[str, Table], tolerance: Tolerance) -> tuple[str, ...]:
    """Sentences that say which mistake made the tables that were found, the best first; none where none fits.

    `found` has them by the names of the scheme's tensors; shapes and dtypes may be any.
    """
    if isinstance(scheme, Bundle):
        return tuple(
            f"{part}.{sentence}"
            for part, each in scheme.parts
            for sentence in explain(each, _part(part, found), tolerance)
        )
    named: dict[str, list[Explanation]] = {}
    sentences: list[str] = []
    for name, table in found.items():
        explanations, plainly = _tensor(scheme, name, table, tolerance)
        named[name] = explanations
        sentences += [plainly] if plainly else []
    return (*together(named), *sentences)


def _part(part: str, found: Mapping[str, Table]) -> dict[str, Table]:
    """The tensors of one part of a bundle, by their own names."""
    start = f"{part}."
    return {name.removeprefix(start): table for name, table in found.items() if name.startswith(start)}


def _tensor(scheme: Scheme, name: str, table: Table, tolerance: Tolerance) -> tuple[list[Explanation], str]:
    """Explanations of one tensor, or a plain sentence about it."""
    from pecli.checks.diagnose.plainly import passes, plain_words

    if not table.size or passes(scheme, name, table, tolerance):
        return [], ""
    words = plain_words(scheme, name, table)
    if words:
        return [], words
    if isinstance(scheme, LearnedInit) and scheme.init == "sinusoidal" and name == "weight":
        scheme, name = Sinusoidal(scheme.max_len, scheme.dim, dtype=scheme.dtype), "pe"
    if isinstance(scheme, Rope) and name == "inv_freq":
        from pecli.checks.diagnose.inverse import explain_inverse

        return explain_inverse(scheme, table)
    if isinstance(scheme, (Rope, Sinusoidal)):
        from pecli.checks.diagnose.waves import explain_waves

        return explain_waves(scheme, name, table)
    if isinstance(scheme, Alibi):
        from pecli.checks.diagnose.alibi import explain_alibi

        return explain_alibi(scheme, name, table), ""
    if isinstance(scheme, LearnedInit):
        from pecli.checks.diagnose.learned import explain_learned

        return explain_learned(scheme, table), ""
    return [], ""
