"""Random dumps through everything that judges tables.

A verdict is wrong if it is not that of comparing the numbers element by element, or if anything is
raised. A search is wrong if its reasons do not name the planted mistakes, if a claim leaves more
than the tolerance and the storage explain, or if it takes more than two seconds of CPU.
"""

import contextlib
import io
import json
import math
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import pecli
from pecli.cli.app import run
from tests.tools.sweeps import Attempt
from tests.tools.sweeps.dumps import STORAGES, Dump, draw_dump, draw_wrong_dump

MAX_CPU_SECONDS = 2.0
Judge = Callable[[Dump, bool], dict[str, Any]]


def _verify(dump: Dump, spec: Any, reasons: bool) -> dict[str, Any]:
    return pecli.verify(dump.arrays(), spec, atol=dump.atol, reasons=reasons).as_json()


def _by_scheme(dump: Dump, reasons: bool) -> dict[str, Any]:
    return _verify(dump, dump.subject.scheme(dump.rows), reasons)


def _by_model(dump: Dump, reasons: bool) -> dict[str, Any]:
    return _verify(dump, dump.subject.config, reasons)


def _by_diff(dump: Dump, reasons: bool) -> dict[str, Any]:
    right = dump.right_arrays()
    return pecli.diff(right, dump.arrays(), atol=dump.atol, reasons=reasons).as_json()


def _by_file(dump: Dump, reasons: bool) -> dict[str, Any]:
    words = f"verify dump.safetensors --config config.json --atol {dump.atol!r}"
    return _command(dump, words)


def _by_identify(dump: Dump, reasons: bool) -> dict[str, Any]:
    return {"matches": pecli.identify(dump.arrays()).matches}


def _by_inspect(dump: Dump, reasons: bool) -> dict[str, Any]:
    return _command(dump, "inspect dump.safetensors --stats")


def _command(dump: Dump, words: str) -> dict[str, Any]:
    """Run a command on files of the dump and of the model's configuration; return its JSON."""
    out = io.StringIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
    ):
        pecli.save("dump.safetensors", dump.arrays())
        Path("config.json").write_text(json.dumps(dump.subject.config), encoding="utf-8")
        code = run([*words.split(), "--json"])
        assert code in (0, 1)
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


JUDGES: Mapping[str, Judge] = {
    "scheme": _by_scheme,
    "model": _by_model,
    "diff": _by_diff,
    "file": _by_file,
    "identify": _by_identify,
    "inspect": _by_inspect,
}
"""The answer of each to a dump: with reasons, or only the verdict."""


def verdict_problem(dump: Dump) -> str:
    """Return what is wrong with the verdict; empty if nothing is, or rounding decides it."""
    errors = dump.errors()
    margin = 1e-9 + 0.02 * dump.atol
    if any(abs(error - dump.atol) < margin for error in errors):
        return ""
    is_right = errors.to_exact <= dump.atol
    if is_right != (errors.to_rounded <= dump.atol):
        return ""
    passed = bool(JUDGES[dump.judge](dump, False).get("passed", is_right))
    if passed == is_right:
        return ""
    kind = "pass" if passed else "failure"
    return f"false {kind} (off by {errors.to_exact:.3g})"


def search_problem(dump: Dump) -> str:
    """Return what is wrong with the reasons; empty if nothing is, or the error is too small."""
    step = STORAGES[dump.storage].step
    if dump.errors().to_exact <= 3 * max(dump.atol, step):
        return ""
    start = time.process_time()
    answer = JUDGES[dump.judge](dump, True)
    seconds = time.process_time() - start
    if seconds > 1.25 * MAX_CPU_SECONDS:
        return f"slow ({seconds:.1f} s)"
    largest = max(1.0, *(float(np.abs(table).max()) for table in dump.tables))
    allowed = 1.05 * max(dump.atol, 4 * step * largest)
    named: set[str] = set()
    for reason in answer["explanations"]:
        residual = math.inf if reason["residual"] is None else reason["residual"]
        if residual > allowed:
            return f"a claim leaves {residual:.3g}: {answer['diagnosis']}"
        named |= {edit.get("name", edit["edit"]) for edit in reason["edits"]}
    missing = [mistake.name for mistake in dump.mistakes if not named & {*mistake.edits}]
    if not missing:
        return ""
    return f"not named: {', '.join(missing)}; diagnosis: {answer['diagnosis']}"


def attempt_verdict(seed: int) -> Attempt:
    """Judge a random dump, right or wrong."""
    return _attempt(draw_dump(np.random.default_rng([seed, 0])), verdict_problem)


def attempt_search(seed: int) -> Attempt:
    """Search for the reasons why a random dump fails."""
    return _attempt(draw_wrong_dump(np.random.default_rng([seed, 1])), search_problem)


def _attempt(dump: Dump, problem_of: Callable[[Dump], str]) -> Attempt:
    try:
        problem = problem_of(dump)
    except Exception:
        problem = f"raised {traceback.format_exc(limit=-2)}"
    if problem:
        problem = f"{problem}\n    {dump}"
    return Attempt(dump.judge, problem)
