"""One table of answers, answers.txt: an expression, and the value that it must have, which is known for a reason."""

from collections.abc import Callable
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import numpy as np
import pytest

from pecli import checks
from pecli.errors import PecliError
from tests.checks import test_one_reading

ROWS = Path(__file__).with_name("answers.txt").read_text(encoding="utf-8").splitlines()
MODULES = [each.name for each in walk_packages(checks.__path__, "pecli.checks.")]
NAMES: dict[str, Any] = {**vars(test_one_reading), **{name.rpartition(".")[2]: import_module(name) for name in MODULES}}
ARRANGED = {name: dump for name, (dump, right) in test_one_reading.DUMPS.items() if right and len(dump) == 1}
INTERLEAVING = {**test_one_reading.CONFIG, "head_dim": 16, "partial_rotary_factor": 1.0}
NAMES |= {"ARRANGED": ARRANGED, "INTERLEAVING": INTERLEAVING, "X": np.ones((2, 5, 8), "f4"), "sha256": sha256}
NAMES |= {"SLOPES": 2.0 ** -np.arange(1, 9), "NAIVE": 2.0 ** (-8 * np.arange(1, 7) / 6)}


def csv(table: Any, name: str = "t.csv") -> str:
    np.savetxt(name, table, delimiter=",", fmt="%s")
    return name


def error(call: Callable[[], object]) -> str:
    with pytest.raises(PecliError) as caught:
        call()
    return str(caught.value)


def test_every_answer_is_the_right_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for code, _, expected in (row.partition(" | ") for row in ROWS if row[:1] not in ("", "#")):
        found = eval(code, NAMES | {"csv": csv, "error": error})
        assert found == eval(expected, NAMES), f"{code}: {found}"
