"""Functions of the search one by one: functions.txt has calls by module, and what they return.

Rows without a value define names for those below. Arrays, and what is generated, are compared as lists.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli

TEXT = Path(__file__).with_name("functions.txt").read_text(encoding="utf-8")
SECTIONS = [section.splitlines() for section in TEXT.split("# ")[1:]]


def listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else [*value] if isinstance(value, Iterator) else value


@np.errstate(all="ignore")  # as in a search
@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section[0])
def test_functions_return(section: list[str]) -> None:
    module, *rows = section
    names = {
        "np": np,
        "pecli": pecli,
        "approx": pytest.approx,
        **vars(importlib.import_module(f"pecli.explain.{module}")),
    }
    for row in filter(None, rows):
        code, *expected = row.split(" | ")
        if not expected:
            exec(code, names)
        for value in expected:
            assert listed(eval(code, names)) == eval(value, names), row
