"""`pecli.plot`, and the HTML and pictures by which schemes, models and results show themselves in
notebooks.
"""

import re
from base64 import b64decode
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.views.pictures.mistakes import comparison_picture
from tests.pixels import decoded
from tests.views.test_report import Page

ROPE_64_BY_16 = pecli.Rope(64, 16)


def failed_verification() -> Any:
    return pecli.verify({"cos": pecli.Rope(64, 16, base=500.0).tables()["cos"]}, ROPE_64_BY_16)


def difference() -> Any:
    return pecli.diff({"x": np.zeros((4, 4))}, {"x": np.ones((4, 4))})


RESULTS_AND_WORDS: dict[str, tuple[Callable[[], Any], str]] = {
    "scheme": (lambda: ROPE_64_BY_16, "seq_len=64"),
    "slopes": (lambda: pecli.Alibi(8), "heads=8"),
    "long": (lambda: pecli.Sinusoidal(10_000_000, 8), "10000000 × 8"),
    "model": (lambda: pecli.load_model("llama-3.1-8b"), "rope_scaling.factor"),
    "model of slopes": (lambda: pecli.load_model("bloom-560m"), "alibi"),
    "model without rotary encodings": (lambda: pecli.load_model("gpt2"), "learned"),
    "verification": (failed_verification, "FAILED"),
    "pass": (lambda: pecli.verify(ROPE_64_BY_16.tables(), ROPE_64_BY_16), "passed"),
    "difference": (difference, "DIFFERENT"),
    "audit": (lambda: pecli.audit(ROPE_64_BY_16, ["bfloat16-positions"]), "bfloat16-positions"),
    "runtimes": (lambda: pecli.runtimes("gpt-oss-20b", 64), "rounds YaRN's limits to 8 and 18"),
    "identification": (
        lambda: pecli.identify(ROPE_64_BY_16.tables()["cos"]),
        "pecli rope --seq-len 64 --dim 16",
    ),
}
"""Functions that make things which display themselves, each with words that have to be seen."""


@cache
def result(name: str) -> Any:
    function, _ = RESULTS_AND_WORDS[name]
    return function()


@cache
def shown(name: str) -> str:
    html: str = result(name)._repr_html_()
    return html


WITHOUT_PICTURE = {"model without rotary encodings", "pass"}


@pytest.mark.parametrize("name", RESULTS_AND_WORDS)
@pytest.mark.sample("model without rotary encodings", "pass", "audit", "runtimes", "identification")
def test_schemes_models_and_results_display_themselves_in_a_notebook(name: str) -> None:
    """RESULTS_AND_WORDS has a scheme, a model or a result for each name, and words that its HTML must
    show. The HTML has one picture, a PNG in base64, and none if the name is in WITHOUT_PICTURE.

    The picture must not be blank: more than 1 % of its pixels differ from that in the corner.
    """
    _, words = RESULTS_AND_WORDS[name]
    page = Page(shown(name))
    pictures = page.targets  # What attributes such as `src` point to.
    expected_count = 0 if name in WITHOUT_PICTURE else 1

    assert words in " ".join(" ".join(page.words).split())
    assert len(pictures) == expected_count
    for picture in pictures:
        pixels = decoded(b64decode(picture.removeprefix("data:image/png;base64,")))
        is_drawn = (pixels != pixels[0, 0]).any(axis=2)
        assert is_drawn.mean() > 0.01


def test_the_verdict_of_a_failure_is_coloured() -> None:
    """The HTML of a failed verification marks the verdict with a CSS class, and defines its
    colour.
    """
    failed = shown("verification")
    assert '<span class="bad">FAILED</span>' in failed
    assert ".bad { color" in failed


def test_a_notebook_shows_a_report_in_a_frame() -> None:
    """Jupyter calls `_repr_html_`: the page is in an iframe, so that its style does not change the
    notebook's.
    """
    page = pecli.report("gpt2")
    assert repr(page).startswith("<Page of ")
    assert page._repr_html_().startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')


def test_a_notebook_shows_a_figure_as_png() -> None:
    """Jupyter calls `_repr_png_` of a figure; its bytes must decode to pixels."""
    assert decoded(pecli.plot(ROPE_64_BY_16)._repr_png_()).size  # type: ignore[attr-defined]


def test_a_failure_shows_the_picture_of_its_errors_and_a_pass_shows_none() -> None:
    """Jupyter calls `_repr_png_` of a result. The picture of a failed check of «cos» has the tensor
    as expected, as found, and the difference, at 200 pixels per inch.
    """
    assert result("pass")._repr_png_() is None

    failure = result("verification")
    found = decoded(failure._repr_png_())
    expected = comparison_picture([failure])

    assert found.shape[:2] == tuple(round(200 * inches) for inches in reversed(expected.inches))
    assert [panel.title for panel in expected.panels] == [
        "cos, expected",
        "cos, found",
        "difference",
    ]


CELLS_OF_A_NOTEBOOK = """import pecli
pecli.Rope(64, 16)
pecli.load_model("llama-3.1-8b")
pecli.verify({"cos": pecli.Rope(64, 16, base=500.0).tables()["cos"]}, pecli.Rope(64, 16))
pecli.identify(pecli.Rope(64, 16).tables()["cos"])
pecli.audit(pecli.Rope(64, 16))
pecli.runtimes("gpt-oss-20b", 64)
pecli.plot("llama-3.1-8b", kind="wavelengths")
pecli.report("gpt2")
pecli.AlibiBias(8)"""


@pytest.mark.parametrize("name", ["scheme", "model", "verification", "runtimes"])
def test_ipython_shows_schemes_models_and_results_as_html(name: str) -> None:
    """`DisplayFormatter` is the part of IPython that chooses how a notebook shows an object; it
    finds HTML among the forms of each.
    """
    formatters = pytest.importorskip("IPython.core.formatters")
    shown_forms, _ = formatters.DisplayFormatter().format(result(name))
    assert "text/html" in shown_forms


def test_ipython_shows_a_figure_as_a_picture() -> None:
    """`DisplayFormatter` is the part of IPython that chooses how a notebook shows an object; it
    finds a PNG among the forms of a figure.
    """
    formatters = pytest.importorskip("IPython.core.formatters")
    shown_forms, _ = formatters.DisplayFormatter().format(pecli.plot(ROPE_64_BY_16))
    assert "image/png" in shown_forms


def test_ipython_shows_a_layer_by_its_repr_only() -> None:
    """`DisplayFormatter` is the part of IPython that chooses how a notebook shows an object; it
    finds neither HTML nor a picture of a layer.
    """
    formatters = pytest.importorskip("IPython.core.formatters")
    shown_forms, _ = formatters.DisplayFormatter().format(pecli.AlibiBias(8))
    assert shown_forms == {"text/plain": "AlibiBias(num_heads=8)"}


@pytest.mark.thorough
def test_a_notebook_shows_html_or_a_picture_of_each_result() -> None:
    """A kernel runs CELLS_OF_A_NOTEBOOK: cell 0 imports pecli, 7 is a figure, 9 a layer; the other
    cells are results that have HTML.
    """
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(line) for line in CELLS_OF_A_NOTEBOOK.splitlines()]
    )
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = [
        {kind for output in cell.outputs for kind in output.get("data", {})}
        for cell in notebook.cells
    ]

    assert outputs[0] == set()
    assert all("text/html" in kinds for kinds in (*outputs[1:7], outputs[8]))
    assert "image/png" in outputs[7]
    assert notebook.cells[9].outputs[0].data["text/plain"] == "AlibiBias(num_heads=8)"


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ([ROPE_64_BY_16], None),
        (["llama-3.1-8b", pecli.load_model("llama-3-8b")], "wavelengths"),
        ([{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}], "wavelengths"),
        ([np.eye(8)], "heatmap"),
        ([{"a": np.eye(8), "b": np.ones((8, 8))}], "heatmap"),
        ([[[0.0, 1.0], [1.0, 0.0]]], None),
    ],
    ids=["scheme", "name and model", "configuration", "array", "arrays by name", "list"],
)
def test_plot_draws_schemes_models_and_arrays_in_a_figure_of_the_given_size_and_title(
    what: list[Any], kind: str | None
) -> None:
    """Size and title of the figure are those of the call, and the paper is white: red, green, blue
    and opacity are 1. Without a kind, plot chooses one that fits.
    """
    made = pecli.plot(*what, kind=kind, size=(6, 4), title="of mine")
    assert made.get_size_inches().tolist() == [6.0, 4.0]
    assert made.texts[0].get_text() == "of mine"
    assert made.get_facecolor() == (1.0, 1.0, 1.0, 1.0)
    assert made.axes


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (
            pecli.RotaryPosEmbedding(128, base=5e5),
            "RotaryPosEmbedding(embed_dim=128, base=500000.0)",
        ),
        (pecli.AlibiBias(8), "AlibiBias(num_heads=8)"),
        (pecli.SinusoidalPosEmbedding(), "SinusoidalPosEmbedding()"),
    ],
    ids=["rotary", "alibi", "sinusoidal"],
)
def test_the_repr_of_a_layer_has_only_what_was_set(layer: Any, text: str) -> None:
    """Arguments that have their default are left out of the repr."""
    assert repr(layer) == text


def test_the_traceback_of_a_bad_parameter_is_two_lines() -> None:
    """IPython calls `_render_traceback_` of an exception: the call in the user's code and the
    message are shown, and no frame of pecli.
    """
    with pytest.raises(pecli.ParameterError) as raised:
        pecli.Rope(64, 15)

    call, message = raised.value._render_traceback_()
    assert call.endswith("pecli.Rope(64, 15)")
    assert message.startswith("ParameterError: dim is 15; ")


def test_an_error_that_was_not_raised_has_only_its_message() -> None:
    """IPython calls `_render_traceback_`; an exception that was only constructed has no call to
    show.
    """
    error = pecli.ParameterError("dim", 15, "it must be even")
    assert error._render_traceback_() == ["ParameterError: dim is 15; it must be even"]


def test_cells_of_a_notebook_are_aligned_left_and_lines_have_columns() -> None:
    """Jupyter aligns cells right; the HTML of a comparison of runtimes has a rule of CSS against
    it. Lines of text, whose columns are made by spaces, are in a monospaced font.
    """
    page = shown("runtimes")
    assert ".pecli tr :is(th, td) { text-align: left" in page
    assert re.search(r"\.pecli \.said \{[^}]*font-family: monospace", page)


def test_a_range_of_values_is_the_ends_of_colours() -> None:
    """pecli.plot draws a heatmap by default; the colours of its matplotlib image range from −0.5 to
    0.25, as given.
    """
    figure = pecli.plot(ROPE_64_BY_16, value_range=(-0.5, 0.25))
    assert figure.axes[0].images[0].get_clim() == (-0.5, 0.25)


def test_a_range_of_values_is_the_ends_of_the_vertical_axis() -> None:
    """With kind="curves", value_range sets the limits of the vertical axis."""
    figure = pecli.plot(ROPE_64_BY_16, kind="curves", value_range=(-0.5, 0.25))
    assert figure.axes[0].get_ylim() == (-0.5, 0.25)


def test_curves_of_files_have_the_labels_that_are_given(tmp_path: Path) -> None:
    """One file is drawn twice, named by a Path and by a str, under the labels «first» and «second».
    The curve of channel 3 is column 3 of its table.
    """
    path = tmp_path / "a.npy"
    table = pecli.Sinusoidal(64, 8).tables()["pe"]
    np.save(path, table)
    figure = pecli.plot(path, str(path), kind="curves", labels=["first", "second"], channels=[3])
    (axes,) = figure.axes

    assert [text.get_text() for text in axes.texts] == ["first, channel 3", "second, channel 3"]
    assert axes.lines[0].get_ydata() == pytest.approx(table[:, 3])
