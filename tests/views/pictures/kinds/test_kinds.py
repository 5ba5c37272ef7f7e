"""What all kinds have in common: which schemes they fit, and the names they give."""

from __future__ import annotations

import numpy as np
import pytest

import pecli
from pecli.engine.table import Table, table_of
from pecli.errors import ParameterError
from pecli.views.pictures import kinds as figures
from pecli.views.pictures.panels import Chart, PlotRequest, Subject
from pecli.views.pictures.subjects import labelled, of_scheme, title_of
from tests.views.pictures.kinds.drawing import made


@pytest.mark.parametrize("kind", ["heatmap", "curves", "similarity"])
def test_rows_that_no_memory_holds_are_refused_unread(kind: str) -> None:
    def fill(start: int, out: np.ndarray) -> None:
        raise AssertionError("read")

    subject = Subject("wide.npy", (Table("array", "float32", (8, 1 << 40), fill),))
    with pytest.raises(ParameterError, match="are too long; up to"):
        figures.picture(kind, [subject], PlotRequest())


@pytest.mark.parametrize("kind", ["decay", "similarity", "wavelengths"])
def test_every_axis_has_a_name(kind: str) -> None:
    charts = [panel for panel in made(kind, pecli.Rope(64, 16)).panels if isinstance(panel, Chart)]
    assert charts
    assert all(chart.x and chart.y for chart in charts)


def test_titles_count_heads_and_leave_out_what_is_drawn() -> None:
    named = {1: "alibi, 1 head: it", 8: "alibi, 8 heads: it"}
    for heads, title in named.items():
        assert title_of(labelled(of_scheme(pecli.Alibi(heads, slopes=True))), "it") == title
    assert title_of(labelled(of_scheme(pecli.Rope(9, 8, base=1e7))), "it") == "rope, dim 8, base 1e7: it"


SCHEMES = {
    "sinusoidal": pecli.Sinusoidal(64, 16),
    "rope": pecli.Rope(64, 16),
    "alibi": pecli.Alibi(4, 64),
    "learned-init": pecli.LearnedInit(64, 16),
}


_TABLES = {"heatmap", "curves", "similarity"}
_WAVES = {"wavelengths", "decay", "circle"}
FITTING = {
    "sinusoidal": _TABLES | _WAVES,
    "rope": _TABLES | _WAVES,
    "alibi": {"heatmap", "curves", "decay", "slopes"},
    "learned-init": _TABLES,
}


@pytest.mark.parametrize("kind", figures.KINDS)
@pytest.mark.parametrize("name", SCHEMES)
def test_every_kind_fits_or_says_what_does(kind: str, name: str) -> None:
    if kind in FITTING[name]:
        assert made(kind, SCHEMES[name]).panels
    else:
        with pytest.raises(ParameterError, match=f"{name} has no such picture; take one of heatmap"):
            made(kind, SCHEMES[name])


@pytest.mark.parametrize("kind", sorted(_TABLES))
def test_files_without_a_spec_have_their_kinds(kind: str) -> None:
    subject = Subject("x.npy", (table_of("array", np.random.default_rng(0).normal(size=(64, 8))),))
    assert figures.picture(kind, [subject], PlotRequest()).panels


@pytest.mark.parametrize("kind", ["heatmap", "curves", "wavelengths", "similarity", "decay"])
def test_two_are_compared_under_names_that_tell_them_apart(kind: str) -> None:
    picture = made(kind, pecli.Rope(64, 16), pecli.Rope(64, 16, base=500.0))
    words = [panel.title for panel in picture.panels]
    words += [curve.label for panel in picture.panels if isinstance(panel, Chart) for curve in panel.curves]
    assert any("base 10000" in word for word in words)
    assert any("base 500" in word for word in words)


@pytest.mark.parametrize(
    "subjects",
    [
        [pecli.Rope(512, 64), pecli.Rope(1024, 64)],
        [pecli.Rope(64, 64), pecli.Rope(64, 64)],
        [pecli.Rope(64, 64), pecli.Rope(128, 64), pecli.Rope(64, 64)],
        [pecli.Sinusoidal(64, 8, base=1e4 + k, layout="halves", cos_first=bool(k), scale=0.125) for k in range(2)],
    ],
)
@pytest.mark.parametrize("label", ["", "llama-3.1-8b"])
def test_no_two_names_are_alike_and_none_is_cut(subjects: list[pecli.Scheme], label: str) -> None:
    found = [each.label for each in labelled([each for scheme in subjects for each in of_scheme(scheme, label)])]
    assert len(set(found)) == len(found)
    words = {word for scheme in subjects for word in map(str, scheme.spec()["parameters"].values())}
    for name in found:
        value = name.split(" (")[0].rsplit(" ", 1)[-1]
        assert value in (label or "rope") or value in {*words, "true", "false"} or float(value) in (10000, 10001)


def test_names_that_are_given_count() -> None:
    subjects = of_scheme(pecli.Rope(8, 8)) + of_scheme(pecli.Alibi(2))
    assert [each.label for each in labelled(subjects, ["one", "other"])] == ["one", "other"]
    with pytest.raises(ParameterError, match="1 name; there are 2 subjects"):
        labelled(subjects, ["one"])
