"""A kind of picture is one object: a histogram, registered here, is drawn for a scheme that names it.

The toy scheme `Ramp(n)` is the numbers 0 to n − 1. The histogram's title and labels («values in four
bins», «count») are those of the toy kind in this module.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pytest

import pecli
from pecli.engine.schemes.parameters import Whole
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table, table_of
from pecli.errors import ParameterError
from pecli.views.pictures import terminal_render
from pecli.views.pictures.figure import render
from pecli.views.pictures.fitting import TABLE_KINDS, picture_kinds
from pecli.views.pictures.kinds import KINDS, titled
from pecli.views.pictures.kinds.kind import PictureKind
from pecli.views.pictures.panels import Chart, Curve, Picture
from pecli.views.pictures.plot_sources import PlotRequest, PlotSource, of_scheme
from pecli.views.screen import Terminal


@dataclass(frozen=True)
class Ramp(Scheme):
    """Rows 0, 1, 2, …"""

    name = "ramp"
    summary = "Make ramps."
    examples = ()

    seq_len: Annotated[int, Whole(help="rows of the table")]

    def tensors(self) -> tuple[Table, ...]:
        return (table_of("pe", np.arange(float(self.seq_len))[:, None]),)


@picture_kinds.register
def _(scheme: Ramp) -> tuple[str, ...]:
    return (*TABLE_KINDS, "histogram")


def histogram(subjects: Sequence[PlotSource], request: PlotRequest) -> Picture:
    counts, edges = np.histogram(subjects[0].tables[0].array(), bins=4)
    curve = Curve("", edges[:-1], counts.astype(float))
    return Picture("values in four bins", [Chart("", [curve], x="value", y="count")])


HISTOGRAM = PictureKind("histogram", "how often values occur", histogram)


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "histogram", HISTOGRAM)


def test_a_new_kind_is_drawn_in_a_terminal_and_a_figure() -> None:
    """The toy scheme Ramp(8) has the values 0 to 7, which are two in each of the four bins of the
    toy kind «histogram».
    """
    picture = titled(of_scheme(Ramp(8), "r"), PlotRequest(), "histogram")
    (chart,) = picture.panels

    assert isinstance(chart, Chart)
    assert chart.curves[0].y.tolist() == [2.0, 2.0, 2.0, 2.0]
    assert terminal_render.lines(picture, Terminal())[0] == "r: values in four bins"
    assert render(picture).axes[0].get_ylabel() == "count"


def test_a_new_kind_does_not_fit_schemes_that_do_not_name_it() -> None:
    """The toy kind «histogram» of this module is drawn only of schemes that offer it, and Rope does
    not.
    """
    with pytest.raises(ParameterError, match="rope has no such picture"):
        titled(of_scheme(pecli.Rope(8, 4)), PlotRequest(), "histogram")


def test_a_new_kind_refuses_a_choice_of_channels_unless_it_declares_them() -> None:
    """The toy kind «histogram» of this module shows all channels."""
    with pytest.raises(ParameterError, match="histogram shows all of them"):
        titled(of_scheme(Ramp(8)), PlotRequest(channels=(0,)), "histogram")
