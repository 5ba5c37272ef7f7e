"""Tables of small questions, answers.txt in the folders of tests: an expression, and what it is, for a known reason.

A line without a bar is a statement, done where it stands: an import, or a name that the rows after it use. After a line
`# of MODULE` the names are those of that module. Arrays, and what is generated, are compared as lists.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli

TABLES = sorted(Path(__file__).parent.rglob("answers.txt"))


def listed(value: Any) -> Any:
    return (
        value.tolist()
        if isinstance(value, np.ndarray)
        else [*value]
        if isinstance(value, Iterator)
        else value
    )


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.parent.name)
def test_every_answer(table: Path) -> None:
    common = {"approx": pytest.approx, "np": np, "pecli": pecli}
    names: dict[str, Any] = {**common}
    for line in table.read_text(encoding="utf-8").splitlines():
        if line.startswith("# of "):
            names = {**common, **vars(import_module(line.split()[-1]))}
        question, bar, answer = line.partition(" | ")
        try:
            with np.errstate(all="ignore" if "explain" in table.parts else None):  # as in a search
                found = listed(eval(question, names) if bar else exec(line, names))
                expected = eval(answer or "None", names)
        except Exception as problem:
            problem.add_note(line)
            raise
        assert found == expected, line
