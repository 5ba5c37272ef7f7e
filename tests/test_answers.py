"""Tables of small questions, answers.txt in the folders of tests: an expression, and what it is, for a known reason.

A line without a bar is a statement, done where it stands: an import, or a name that the rows after it use.
"""

from pathlib import Path
from typing import Any

import pytest

TABLES = sorted(table for table in Path(__file__).parent.rglob("answers.txt") if table.parent.name != "checks")


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.parent.name)
def test_every_answer(table: Path) -> None:
    names: dict[str, Any] = {"approx": pytest.approx}
    for line in table.read_text(encoding="utf-8").splitlines():
        question, bar, answer = line.partition(" | ")
        try:
            found = eval(question, names) if bar else exec(line, names)
            expected = eval(answer or "None", names)
        except Exception as problem:
            problem.add_note(line)
            raise
        assert found == expected, line
