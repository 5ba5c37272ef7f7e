"""Interactive pages: the HTML file is complete without a network, and its sliders compute what the
engine does.

Where Chromium is installed, the page runs in it, and the wavelengths and scores that it draws are
compared with those of `pecli.Rope`.
"""

import base64
import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pecli
from pecli.views.interactive.rope_sliders import slider_settings
from pecli.views.pictures.plot_sources import of_model, of_scheme
from tests.conftest import Outcome
from tests.exit_codes import SUCCESS, USAGE_ERROR

pytest.importorskip("plotly", reason="interactive pages need plotly: pip install plotly")

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")

BROWSER_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--virtual-time-budget=30000",  # Timers of the page run as fast as they can.
)


def page_data(path: Path) -> dict[str, Any]:
    """Return the JSON that a page draws."""
    found = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', path.read_text("utf-8"), re.S
    )
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def unpacked(array: dict[str, str]) -> NDArray[np.float32]:
    """Return an array that plotly reads from base64."""
    rows, columns = map(int, array["shape"].split(","))
    return np.frombuffer(base64.b64decode(array["bdata"]), "<f4").reshape(rows, columns)


def test_the_heatmap_of_a_page_holds_the_table_bit_for_bit(
    run_pecli: Callable[..., Outcome], tmp_path: Path
) -> None:
    """`pecli plot -o x.html` writes the numbers of the table as base64; unpacked, they are those of
    the same scheme in Python.
    """
    run_pecli("plot", "sinusoidal", "--seq-len", "20", "--dim", "8", "-o", tmp_path / "x.html")
    (panel,) = page_data(tmp_path / "x.html")["panels"]
    expected = pecli.Sinusoidal(seq_len=20, dim=8).tables()["pe"]

    np.testing.assert_array_equal(unpacked(panel["data"][0]["z"]), expected)


def test_a_page_needs_no_network(run_pecli: Callable[..., Outcome], tmp_path: Path) -> None:
    """No element of the page loads anything by HTTP."""
    run_pecli("plot", "llama-3.1-8b", "--kind", "wavelengths", "-o", tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text("utf-8")

    assert not re.search(r'<(script|link|img)[^>]+(src|href)="?http', page)


def test_a_page_holds_the_whole_script_of_plotly(
    run_pecli: Callable[..., Outcome], tmp_path: Path
) -> None:
    """Without a network the page cannot load plotly.js, so it contains the file of the installed
    package, unchanged.
    """
    run_pecli("plot", "llama-3.1-8b", "--kind", "wavelengths", "-o", tmp_path / "x.html")
    script = files("plotly") / "package_data" / "plotly.min.js"

    assert script.read_text("utf-8") in (tmp_path / "x.html").read_text("utf-8")


def test_a_label_cannot_end_the_script_that_holds_the_data(
    run_pecli: Callable[..., Outcome], tmp_path: Path
) -> None:
    """The page keeps its data as JSON in a <script>. A label that contains </script> is escaped
    there, and read back as JSON it is the label that was given.
    """
    label = "</script><b>"
    run_pecli("plot", "rope", "--kind", "decay", "--label", label, "-o", tmp_path / "x.html")

    assert "</script><b>" not in (tmp_path / "x.html").read_text("utf-8")
    assert page_data(tmp_path / "x.html")["sliders"][0]["label"] == label


@pytest.mark.parametrize(
    ("model", "method", "factor"),
    [
        ("llama-3.1-8b", "llama3", 8.0),  # rope_scaling of its config.json
        ("gpt-oss-20b", "yarn", 32.0),  # rope_scaling of its config.json
        ("llama-2-7b", "none", 4.0),  # It has no scaling; 4 is the slider's default.
    ],
)
def test_sliders_start_at_the_scaling_of_the_model(
    run_pecli: Callable[..., Outcome], tmp_path: Path, model: str, method: str, factor: float
) -> None:
    """The page has a slider for the factor, and a choice of the method. Expected are those of the
    model's config.json.
    """
    run_pecli("plot", model, "--kind", "wavelengths", "-o", tmp_path / "x.html")
    settings = page_data(tmp_path / "x.html")["sliders"][0]

    assert settings["method"] == method
    assert settings["factor"] == factor


def test_sliders_of_a_model_without_a_scaling_have_the_usual_parameters() -> None:
    """The betas of YaRN's paper are 32 and 1, and Llama 3.1's config.json has a low_freq_factor of 1
    and a high_freq_factor of 4.
    """
    (settings,) = slider_settings(of_scheme(pecli.Rope(64, 64)))

    assert settings.beta_fast == 32
    assert settings.beta_slow == 1
    assert settings.truncate is True
    assert settings.low_freq_factor == 1
    assert settings.high_freq_factor == 4
    assert settings.attention_factor is None


def test_sliders_start_at_the_trained_context_and_not_at_a_sliding_window() -> None:
    """Mistral 7B v0.1 has a window of 4,096 and a context of 32,768 positions, by its config."""
    sources = of_model(pecli.load_model("mistral-7b-v0.1"), "m")
    (settings,) = slider_settings(sources)

    assert settings.original_length == 32_768
    assert settings.length == 32_768


@pytest.mark.parametrize(
    ("truncate", "is_rounded"), [(None, True), (True, True), (False, False)], ids=str
)
def test_the_limits_of_yarn_are_rounded_unless_the_scheme_forbids_it(
    truncate: bool | None, is_rounded: bool
) -> None:
    """YaRN's code rounds the limits of its ramp; gpt-oss has truncate: false."""
    yarn = pecli.Rope(64, 64, original_len=4096, scaling="yarn", factor=4.0, truncate=truncate)
    (settings,) = slider_settings(of_scheme(yarn))

    assert settings.truncate == is_rounded


def test_a_scaling_by_a_list_of_factors_has_no_slider(
    run_pecli: Callable[..., Outcome], tmp_path: Path
) -> None:
    """A slider moves one factor, and the longrope of Phi-3 has 48: one per pair of channels."""
    run_pecli("plot", "phi-3-mini-128k-2024-04", "--kind", "wavelengths", "-o", tmp_path / "x.html")
    assert page_data(tmp_path / "x.html")["sliders"] == []


def data_of_plotted_page(
    run_pecli: Callable[..., Outcome], folder: Path, *options: str
) -> dict[str, Any]:
    """Return the JSON of the page that `pecli plot` makes with some options."""
    page = folder / "x.html"
    assert run_pecli("plot", *options, "-o", page).exit_code == SUCCESS
    return page_data(page)


def test_a_circle_has_the_angle_of_each_position_in_degrees(
    run_pecli: Callable[..., Outcome], tmp_path: Path
) -> None:
    """The first pair of a rotary table has the frequency 1: position p is at p radians."""
    options = "rope --seq-len 4 --dim 4 --kind circle"
    panels = data_of_plotted_page(run_pecli, tmp_path, *options.split())["panels"]
    first_pair = panels[0]["data"][0]

    assert first_pair["type"] == "scatterpolar"

    turned = np.degrees(np.arange(4)) % 360
    np.testing.assert_allclose(np.mod(first_pair["theta"], 360), turned, rtol=1e-6)


def test_the_area_of_a_spread_lies_between_two_lines_without_colour(
    run_pecli: Callable[..., Outcome], tmp_path: Path
) -> None:
    """9,000 positions have more distances than the curve has points, so that a point stands for
    several and has a spread.

    It is drawn by two lines of width 0, low and high; Plotly's «tonexty» fills the area between a
    line and the line before it.
    """
    options = "rope --seq-len 9000 --dim 8 --kind decay"
    low, high, median = data_of_plotted_page(run_pecli, tmp_path, *options.split())["panels"][0][
        "data"
    ][:3]

    assert low["line"]["width"] == 0
    assert high["fill"] == "tonexty"
    assert (np.array(low["y"]) <= np.array(median["y"])).all()
    assert (np.array(high["y"]) >= np.array(median["y"])).all()


def test_contexts_of_models_are_dots_at_their_lengths(
    run_pecli: Callable[..., Outcome], tmp_path: Path
) -> None:
    """Llama 3.1 was trained on 8,192 positions and serves 131,072; Llama 2 has 4,096."""
    options = "llama-3.1-8b llama-2-7b --kind wavelengths"
    traces = data_of_plotted_page(run_pecli, tmp_path, *options.split())["panels"][0]["data"]
    dots = [trace["y"] for trace in traces if trace["mode"] == "markers"]

    assert dots == [[8192, 131072], [4096]]


@pytest.mark.parametrize("method", ["linear", "ntk"])
def test_a_slider_starts_at_the_factor_of_the_table(
    run_pecli: Callable[..., Outcome], tmp_path: Path, method: str
) -> None:
    """The factor 8 is an option of the command; the settings in the page are those that its sliders
    have when it is opened.
    """
    options = f"rope --kind wavelengths --scaling {method} --factor 8"
    (settings,) = data_of_plotted_page(run_pecli, tmp_path, *options.split())["sliders"]

    assert settings["method"] == method
    assert settings["factor"] == 8


@pytest.mark.parametrize(
    ("options", "has_sliders"),
    [("--dim 4", True), ("--dim 2", False), ("--dim 8 --theta 1", False)],
    ids=["two frequencies", "one frequency", "equal frequencies"],
)
def test_only_tables_of_different_frequencies_have_sliders(
    run_pecli: Callable[..., Outcome], tmp_path: Path, options: str, has_sliders: bool
) -> None:
    """A frequency is theta^(-2i/dim) for each pair i of channels. Two channels are one pair, and
    with theta 1 all frequencies are 1: a scaling has nothing to show.
    """
    data = data_of_plotted_page(run_pecli, tmp_path, "rope", "--kind", "curves", *options.split())
    assert len(data["sliders"]) == (1 if has_sliders else 0)


@pytest.mark.parametrize("option", ["--dpi 200", "--size 8x5", "--cmap magma"])
def test_a_page_refuses_the_options_of_figures(
    run_pecli: Callable[..., Outcome], tmp_path: Path, option: str
) -> None:
    """Pixels per inch, a size in inches and a palette are for images, not for an .html page."""
    done = run_pecli("plot", "rope", "-o", tmp_path / "x.html", *option.split())
    assert done.exit_code == USAGE_ERROR
    assert "an .html page has the size of its window" in done.err


# In a browser

MOVES_OF_SLIDERS: dict[str, dict[str, Any]] = {
    "as-opened": {},
    "theta": {"base": 300},
    "factor": {"factor": 450},
    "original-length": {"original_length": 200},
    "linear": {"method": "linear", "factor": 100},
    "ntk": {"method": "ntk"},
    "yarn": {"method": "yarn", "original_length": 250},
    "none": {"method": "none"},
}
"""Controls that are moved, with their steps."""

HOVERED_PAIR = 40
"""The pair over which the mouse is moved."""

DRIVER = """
<script>
(async () => {
  const results = {};
  const moves = MOVES;
  for (const [name, controls] of Object.entries(moves)) {
    document.querySelector("#sliders button").click();
    for (const [control, value] of Object.entries(controls)) {
      const element = document.querySelector(`#sliders [name=${control}]`);
      element.value = value;
      element.dispatchEvent(new Event(control === "method" ? "change" : "input"));
    }
    await new Promise((done) => setTimeout(done, 300));
    const plots = document.querySelectorAll("#sliders .plot");
    const drawn = (plot, trace) => ({ x: [...plot.data[trace].x], y: [...plot.data[trace].y] });
    const read = (control) => document.querySelector(`#sliders [name=${control}]`);
    const shown = (control) => read(control).parentNode.querySelector("output").value;
    results[name] = {
      method: read("method").value,
      base: shown("base"), factor: shown("factor"), length: shown("original_length"),
      wavelengths: drawn(plots[0], 1), low: drawn(plots[1], 0), median: drawn(plots[1], 2),
    };
  }
  document.querySelector("#sliders button").click();
  await new Promise((done) => setTimeout(done, 300));
  results.hovers = {};
  for (const [name, selector, trace] of [["panel", "#panels .plot", 0], ["sliders", "#sliders .plot", 1]]) {
    const plot = document.querySelector(selector);
    const area = plot.querySelector(".nsewdrag");
    const corner = area.getBoundingClientRect();
    const { xaxis, yaxis } = plot._fullLayout;
    const clientX = corner.left + xaxis.d2p(plot.data[trace].x[HOVERED_PAIR]);
    const clientY = corner.top + yaxis.d2p(plot.data[trace].y[HOVERED_PAIR]);
    area.dispatchEvent(new MouseEvent("mousemove", { bubbles: true, clientX, clientY }));
    await new Promise((done) => setTimeout(done, 500));
    results.hovers[name] = plot.querySelector(".hoverlayer").textContent;
  }
  const output = document.createElement("pre");
  output.id = "results";
  output.textContent = JSON.stringify(results);
  document.body.append(output);
})();
</script>
"""


@pytest.fixture(scope="module")
def drawn_in_browser(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what a browser has drawn after each move of the sliders of Llama 3.1."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no Chromium on this machine draws the page")
    folder = tmp_path_factory.mktemp("page")
    path = folder / "x.html"
    words = ["plot", "llama-3.1-8b", "--kind", "wavelengths", "-q", "-o", str(path)]
    subprocess.run([sys.executable, "-m", "pecli", *words], check=True)
    page = path.read_text("utf-8")
    driver = DRIVER.replace("MOVES", json.dumps(MOVES_OF_SLIDERS))
    driver = driver.replace("HOVERED_PAIR", str(HOVERED_PAIR))
    path.write_text(page.replace("</body>", driver + "</body>"), "utf-8")
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run(
        [browser, *BROWSER_FLAGS, profile, "--dump-dom", path.as_uri()],
        check=True,
        capture_output=True,
        text=True,
        timeout=200,
    )
    found = re.search(r'<pre id="results">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stderr
    results: dict[str, Any] = json.loads(found[1])
    return results


def rope_of(shown: dict[str, Any]) -> pecli.Rope:
    """Return the engine's encoding with the settings that a page shows."""
    method = shown["method"]
    settings: dict[str, Any] = {"base": float(shown["base"].replace(",", ""))}
    if method != "none":
        settings |= {"scaling": method, "factor": float(shown["factor"])}
    if method in ("yarn", "llama3"):
        settings["original_len"] = int(shown["length"].replace(",", ""))
    if method == "llama3":
        settings |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    return pecli.Rope(16, 128, **settings)


@pytest.mark.parametrize("move", MOVES_OF_SLIDERS)
def test_the_browser_draws_the_wavelengths_of_pecli_rope(
    drawn_in_browser: dict[str, Any], move: str
) -> None:
    """After each move of the sliders, Chromium has run the page's JavaScript. `rope_of` is a
    pecli.Rope with the settings that the sliders show then; a wavelength is 2π / frequency.
    """
    shown = drawn_in_browser[move]
    expected = 2 * math.pi / np.array(rope_of(shown).angular_frequencies())

    np.testing.assert_allclose(shown["wavelengths"]["y"], expected, rtol=1e-9)


@pytest.mark.parametrize("move", MOVES_OF_SLIDERS)
def test_the_browser_draws_the_scores_of_pecli_rope(
    drawn_in_browser: dict[str, Any], move: str
) -> None:
    """The score at distance d is the mean of cos(d · frequency), times the square of the attention
    factor. `rope_of` is a pecli.Rope with the settings that the sliders show.

    Up to distance 40, a point of the curve is a single distance.
    """
    shown = drawn_in_browser[move]
    rope = rope_of(shown)
    distances = np.array(shown["median"]["x"][:20], np.float64)
    phases = distances[:, None] * np.array(rope.angular_frequencies())
    expected = rope.attention_factor_value() ** 2 * np.cos(phases).mean(axis=1)

    assert distances[-1] <= 40
    np.testing.assert_allclose(shown["median"]["y"][:20], expected, atol=1e-9)


def test_every_slider_changes_the_wavelengths(drawn_in_browser: dict[str, Any]) -> None:
    """`drawn_in_browser` has the curves of the page in a browser, as opened and after moving each
    slider.
    """
    opened = drawn_in_browser["as-opened"]
    for move in ("theta", "factor", "original-length"):
        assert drawn_in_browser[move]["wavelengths"] != opened["wavelengths"]


@pytest.mark.parametrize(
    "plot",
    ["panel", "sliders"],
    ids=["picture at the top of the page", "chart that follows the sliders"],
)
def test_hovering_shows_the_pair_and_its_wavelength(
    drawn_in_browser: dict[str, Any], plot: str
) -> None:
    """A page of Llama 3.1 has two charts of wavelengths. With the mouse on pair 40, a text such as
    «pair 40», «183284.7 positions» appears in each. It has seven digits (hence 1e-6).

    Llama 3.1 has base 500,000 and 64 pairs, and stretches pair 40 by its factor, 8.
    """
    shown = drawn_in_browser["hovers"][plot]
    label = f"pair {HOVERED_PAIR}"
    expected = 8 * 2 * math.pi * 500_000 ** (HOVERED_PAIR / 64)

    assert label in shown

    long_numbers = re.findall(r"[\d.]{6,}", shown.replace(label, ""))  # Not the 3.1 of a name.
    (wavelength,) = long_numbers
    assert float(wavelength) == pytest.approx(expected, rel=1e-6)


def test_the_error_about_an_unknown_suffix_lists_html(
    run_pecli: Callable[..., Outcome], tmp_path: Path
) -> None:
    """.jpg is not a format of pictures; pages are among the formats that could be taken."""
    done = run_pecli("plot", "rope", "-o", tmp_path / "x.jpg")
    assert done.err.rstrip().endswith("must be one of .png, .svg, .pdf, .html")
