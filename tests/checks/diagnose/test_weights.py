"""What goes wrong with learned tables is named."""

from __future__ import annotations

import numpy as np
import pytest

from pecli.engine.schemes.learned import LearnedInit
from tests.checks.diagnose.conftest import Diagnosed
from tests.checks.diagnose.formulas import narrowed

SPECS = [(64, 32, "normal"), (100, 48, "uniform"), (300, 16, "trunc-normal")]


@pytest.mark.parametrize(("length", "dim", "init"), SPECS)
def test_transposed(diagnosed: Diagnosed, length: int, dim: int, init: str) -> None:
    scheme = LearnedInit(length, dim, init=init)
    text = diagnosed(scheme, weight=scheme.tables()["weight"].T)
    assert text.startswith("weight: matches if the table is transposed; residual ")


@pytest.mark.parametrize(("length", "dim", "init"), SPECS)
def test_rows_of_padding_before_the_first(diagnosed: Diagnosed, length: int, dim: int, init: str) -> None:
    scheme = LearnedInit(length, dim, init=init)
    more = LearnedInit(length + 2, dim, init=init).tables()["weight"]
    text = diagnosed(scheme, weight=more[2:])
    assert text.startswith("weight: matches if rows are shifted by 2: row 0 of the file is row 2")
    padded = np.concatenate([np.zeros((2, dim), np.float32), scheme.tables()["weight"]])
    text = diagnosed(scheme, weight=padded)
    assert text.startswith("weight: matches if rows are shifted by 2: row 2 of the file is row 0")


@pytest.mark.parametrize(("length", "dim", "init"), SPECS)
def test_another_std(diagnosed: Diagnosed, length: int, dim: int, init: str) -> None:
    wrong = LearnedInit(length, dim, init=init, std=1.0).tables()["weight"]
    text = diagnosed(LearnedInit(length, dim, init=init), weight=wrong)
    assert text.startswith("weight: matches if std is 1 (the spec says 0.02); residual ")


def test_another_generator(diagnosed: Diagnosed) -> None:
    wrong = LearnedInit(64, 32, rng="torch").tables()["weight"]
    text = diagnosed(LearnedInit(64, 32), weight=wrong)
    assert "rng is torch (the spec says pecli)" in text
    assert diagnosed(LearnedInit(64, 32), weight=LearnedInit(64, 32, seed=1).tables()["weight"]) == ""


def test_sinusoidal_start(diagnosed: Diagnosed) -> None:
    scheme = LearnedInit(64, 32, init="sinusoidal")
    text = diagnosed(scheme, weight=LearnedInit(65, 32, init="sinusoidal").tables()["weight"][1:])
    assert text.startswith("weight: matches if positions start at 1 (the spec says 0); residual ")


def test_cast(diagnosed: Diagnosed) -> None:
    right = LearnedInit(64, 32).tables()["weight"]
    text = diagnosed(LearnedInit(64, 32), weight=narrowed(right, "bfloat16").astype(np.float32))
    assert text.startswith("weight: matches if the table was cast to bfloat16; residual ")
