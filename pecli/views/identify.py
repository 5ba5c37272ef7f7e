"""What an unknown table is, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pecli.engine.text import spelled
from pecli.explain.edits import Runtime
from pecli.explain.words import clause
from pecli.views import screen

if TYPE_CHECKING:
    from pecli.checks.identify import Identification, Match


_MOST = 4
"""Numbers of a list that are all shown."""


def show(result: Identification) -> None:
    """The verdict first; then each match, with its command on a line of its own; then what has none."""
    verdict = ("not identified", "bold red")
    if result.identified:
        verdict = ("partly identified", "bold yellow") if result.description else ("identified", "bold green")
    screen.say_styled(verdict, (f"  {result.file}", ""))
    for match in result.matches:
        for line in lines(match):
            screen.say_wrapped(f"  {line}")
        screen.say_styled((match.command, "bold"))  # alone on its line, so that it can be copied
    for line in result.description:
        screen.say_wrapped(f"  {line}")


def lines(match: Match) -> Iterator[str]:
    """A match in a few lines, its command left out."""
    parameters = match.scheme.spec()["parameters"]
    kept = {name: value for name, value in parameters.items() if value is not None and name != "recipe"}
    yield f"{', '.join(match.tensors)}: {match.scheme.name}, recipe {match.recipe}, max error {match.max_abs_error:.3g}"
    yield "  ".join(f"{name}={_brief(value)}" for name, value in kept.items())
    if match.runtimes:
        yield clause(Runtime(match.runtimes[0], match.runtimes[1:]))
    if match.form:
        yield f"in the file: {match.form}"
    for sentence in match.undetermined:
        yield f"not determined: {sentence}"


def _brief(value: object) -> str:
    """A value as text; of a long list its ends, since the command has it all.

    >>> _brief([1.0, 2.0, 3.0, 4.0, 5.5])
    '1,2,3,…,5.5 (5 numbers)'
    """
    if isinstance(value, (list, tuple)) and len(value) > _MOST:
        return f"{spelled(value[:3])},…,{spelled(value[-1])} ({len(value)} numbers)"
    return spelled(value)
