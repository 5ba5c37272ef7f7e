"""What docstrings show is what happens."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pecli

ROOT = Path(pecli.__file__).parents[1]


def test_examples_in_docstrings_run() -> None:
    shown = 0
    for path in sorted(ROOT.glob("pecli/**/*.py")):
        if ">>> " in path.read_text(encoding="utf-8"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            failed, tried = doctest.testmod(importlib.import_module(name))
            assert failed == 0, name
            shown += tried
    assert shown > 20
