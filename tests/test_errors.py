"""What pecli raises, and how it reads in Python and on a command line."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import pecli
from pecli.cli import option_name
from pecli.errors import FileError, KindError, ParameterError, PecliError


def test_a_parameter_goes_by_its_own_name_in_python_and_by_its_option_in_a_command() -> None:
    problem = ParameterError("kv_heads", 3, "4 `heads` are no multiple of 3", "check `heads` and `kv_heads`")
    assert str(problem) == "kv_heads is 3; 4 `heads` are no multiple of 3; check `heads` and `kv_heads`"
    spelled = "--kv-heads is 3; 4 --heads are no multiple of 3; check --heads and --kv-heads"
    assert problem.spelled(option_name) == spelled
    problem = ParameterError("name", "'`heads`'", "what is given is never taken for a name")
    assert problem.spelled(option_name) == "--name is '`heads`'; what is given is never taken for a name"
    assert str(ParameterError("dim", 0, "")) == "dim is 0"
    assert str(FileError("pe.npy", "is empty")) == "pe.npy: is empty"
    assert str(FileError("pe.npy", "is empty", "write it again")) == "pe.npy: is empty; write it again"


def test_errors_are_those_that_python_users_catch() -> None:
    caught = {
        ParameterError: (PecliError, ValueError),
        KindError: (ParameterError, TypeError),
        FileError: (PecliError,),
    }
    assert all(issubclass(error, kind) for error, kinds in caught.items() for kind in kinds)
    assert not issubclass(FileError, ValueError)


def test_what_python_functions_cannot_take_is_an_error_of_ours_that_says_why() -> None:
    table = pecli.Rope(seq_len=4, dim=8)
    wrong: dict[str, Callable[[], object]] = {
        "path is b'x'; it must be a path": lambda: pecli.load(b"x"),  # type: ignore[arg-type]
        "path is None; it must be a path": lambda: pecli.save(None, table),  # type: ignore[arg-type]
        "a table has rows of one length": lambda: pecli.identify([[1, 2], [3]]),
        "tolerance is 5; it must be a Tolerance": lambda: pecli.report("pe.npy", tolerance=5),  # type: ignore[arg-type]
        "a picture shows a scheme, a model, a file or an array": pecli.plot,
    }
    for text, call in wrong.items():
        with pytest.raises(ParameterError, match=re.escape(text)):
            call()
