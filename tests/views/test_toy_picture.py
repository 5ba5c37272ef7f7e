"""A new kind of picture is a function and a row of KINDS; no file of the engine names it."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from pecli.views.pictures import fitting
from pecli.views.pictures.kinds import KINDS
from pecli.views.pictures.kinds.kind import PictureKind
from pecli.views.pictures.panels import Chart, Curve, Picture
from pecli.views.pictures.plot_sources import PlotRequest, PlotSource
from tests.exit_codes import SUCCESS, USAGE_ERROR

SINUSOIDAL_COMMAND = ("sinusoidal", "--seq-len", "16", "--dim", "8")


def draw_toy(subjects: Sequence[PlotSource], request: PlotRequest) -> Picture:
    line = np.arange(4.0)
    curves = [Curve(subject.label, line, line) for subject in subjects]
    return Picture("a toy", [Chart("", curves)])


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "toy", PictureKind("toy", "a line", draw_toy))
    monkeypatch.setattr(fitting, "TABLE_KINDS", (*fitting.TABLE_KINDS, "toy"))


def test_the_command_draws_a_new_kind_of_picture(run_pecli: Callable) -> None:
    """The toy kind is registered by this module, as a plug-in would do; `pecli plot --kind toy`
    finds it.
    """
    outcome = run_pecli("plot", *SINUSOIDAL_COMMAND, "--kind", "toy")
    assert outcome.exit_code == SUCCESS
    assert "a toy" in outcome.out


def test_a_new_kind_of_picture_is_written_to_a_figure(run_pecli: Callable, tmp_path: Path) -> None:
    """`pecli plot --kind toy -o t.svg` draws the kind that this module registers."""
    file = tmp_path / "t.svg"
    assert run_pecli("plot", *SINUSOIDAL_COMMAND, "--kind", "toy", "-o", file).exit_code == SUCCESS


def test_a_new_kind_of_picture_refuses_schemes_that_it_does_not_fit(run_pecli: Callable) -> None:
    """The toy kind is registered by this module for tables. Without a length, `pecli plot alibi`
    has slopes only, which it does not fit.
    """
    outcome = run_pecli("plot", "alibi", "--heads", "4", "--kind", "toy")
    assert outcome.exit_code == USAGE_ERROR
