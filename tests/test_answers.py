"""One table of small answers, answers.txt: expressions that are true of what spells, counts and shapes things."""

from collections.abc import Callable
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

import pecli

MODULES = """checks.compare cli engine.table errors files.contents files.gguf_file files.load files.npz
views.check_results views.encodings views.file_summary views.pictures.panels views.pictures.subjects views.preview
views.screen"""


def said(show: Callable[..., None], *what: Any) -> str:
    with redirect_stdout(StringIO()) as output:
        show(*what)
    return output.getvalue()


NAMES: dict[str, Any] = {"np": np, "pecli": pecli, "said": said}
NAMES |= {name.rpartition(".")[2]: import_module(f"pecli.{name}") for name in MODULES.split()}


def test_every_answer_is_true() -> None:
    for row in Path(__file__).with_name("answers.txt").read_text(encoding="utf-8").splitlines():
        assert row.startswith("#") or eval(row, dict(NAMES)) is True, row
