"""`pecli.report`: one HTML page about models and files that needs no network, in light and dark.

Pages are parsed as HTML. Expected verdicts follow from files that the tests write: right tables, or
tables of another base.
"""

import json
import re
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import pecli
from pecli.errors import ParameterError
from pecli.views.html import Html, element
from pecli.views.interactive import SliderParts, slider_parts
from pecli.views.pictures import palettes
from pecli.views.pictures.panels import Picture
from pecli.views.report import report
from pecli.views.report.draft import Draft
from tests.exit_codes import CHECK_FAILED, FILE_ERROR, SUCCESS, USAGE_ERROR
from tests.pixels import decoded

VOID = {"meta", "link", "img", "br"}
"""Elements that have no content, and so are never closed."""


class Page(HTMLParser):
    """Tags that are closed in order, and where attributes point."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.targets: list[str] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            self.targets += (
                [value or ""] if name in ("src", "href", "xlink:href", "action", "data") else []
            )
            self.ids += [value or ""] if name == "id" else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["script"], ["style"]):
            self.words.append(data)


SCALING = {
    "factor": 8.0,
    "original_max_position_embeddings": 8192,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}
LLAMA3_CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "max_position_embeddings": 16384,
    "rope_theta": 5e5,
    "rope_scaling": {"rope_type": "llama3", **SCALING},
}
PLAIN = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}
PLAIN |= {"max_position_embeddings": 512}
RIGHT_ROPE = pecli.Rope(4096, 16, base=5e5, scaling="llama3", **SCALING)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model and a file that is wrong, drawn; the tests of other pages draw nothing."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "config.json").write_text(json.dumps(LLAMA3_CONFIG))
    wrong = replace(RIGHT_ROPE, seq_len=64, base=10000.0)
    pecli.save(folder / "wrong.npz", {"cos": wrong.tables()["cos"]})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return report("config.json", "wrong.npz", atol=1e-3)


def keep_pictures(monkeypatch: pytest.MonkeyPatch) -> list[Picture]:
    """Return a list that gets the pictures of reports, none of which is drawn."""
    kept: list[Picture] = []

    def keep(draft: Draft, picture: Picture) -> Html:
        kept.append(picture)
        return element("figure", picture.title)

    monkeypatch.setattr(Draft, "_figure_html", keep)
    return kept


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Picture]:
    """In a folder of its own, the pictures of reports, none of which is drawn."""
    monkeypatch.chdir(tmp_path)
    return keep_pictures(monkeypatch)


def words_of(html: str) -> str:
    return " ".join(" ".join(Page(html).words).split())


def test_the_tags_of_a_report_are_closed_in_order_and_no_id_is_there_twice(page: str) -> None:
    """`page` is a report on a model and a wrong file. `Page` parses it, and fails if an element is
    closed that is not the innermost one, or never. Links lead to ids.
    """
    parsed = Page(page)
    assert parsed.ids
    assert len(set(parsed.ids)) == len(parsed.ids)


@pytest.mark.parametrize(
    "loads_something",
    [
        pytest.param(r"@import", id="another style sheet"),
        pytest.param(r"url\((?!#)", id="an image or font in CSS, other than url(#id)"),
        pytest.param(r"https?://(?!www\.w3\.org/)", id="an address, except names of SVG's format"),
        pytest.param(r"<script", id="a script"),
    ],
)
def test_a_report_loads_nothing(page: str, loads_something: str) -> None:
    """A report needs no network. SVG names its format by «http://www.w3.org/2000/svg», which no
    browser loads.
    """
    assert not re.search(loads_something, page)


def test_links_of_a_report_lead_into_it_and_its_images_are_in_it(page: str) -> None:
    """An attribute such as `href` or `src` is «#id» or «data:…». Besides, `default-src 'none'`
    forbids browsers to load anything else.
    """
    targets = Page(page).targets
    assert targets
    assert all(target.startswith(("data:", "#")) for target in targets)
    assert "default-src 'none'" in page


def test_a_report_with_pictures_has_less_than_500_kb(page: str) -> None:
    """A page is sent by mail or kept by CI; pictures as SVG and reduced heatmaps make it small."""
    assert len(page.encode()) < 500_000


def test_every_heading_of_a_table_in_a_report_has_a_direction(page: str) -> None:
    """Screen readers need `<th scope="col">` or `<th scope="row">` to read a cell with its heading:
    a bare `<th>` is not accessible.
    """
    assert "<th scope=" in page
    assert "<th>" not in page


BLOCK_OF_COLOURS = re.compile(r":root \{(.*?)\}", re.S)
"""A block of CSS that defines names of colours, such as `--ink: #202020`."""


def test_texts_of_pictures_have_names_of_colours_that_themes_define(page: str) -> None:
    """In `page`, a report with pictures, a text is not black but has a colour by its name, such as
    var(--ink), so that it can be read on light and on dark paper. --c0 to --c9 are the colours of
    curves, and --t0 to --t9 those of their names.
    """
    fills = re.findall(r"<text [^>]*fill: ([^;\"]*)", page)
    curves = {f"var(--c{k})" for k in range(10)}
    names_of_curves = {f"var(--t{k})" for k in range(10)}

    assert len(fills) > 50  # All texts: titles, numbers at axes, names of curves.
    assert set(fills) <= {"var(--ink)", "var(--quiet)", *curves, *names_of_curves}


def test_colours_of_a_report_are_defined_for_light_dark_and_print(page: str) -> None:
    """There are three blocks of CSS with colours; each must define all names that the page uses."""
    light, dark, printed = BLOCK_OF_COLOURS.findall(page)
    used_names = set(re.findall(r"var\(--(\w+)\)", page))

    assert "ink" in used_names
    for block in (light, dark, printed):
        defined_names = set(re.findall(r"--(\w+):", block))
        assert used_names <= defined_names


@pytest.mark.parametrize("block", range(3), ids=["light", "dark", "print"])
def test_letters_of_a_report_have_contrast_with_their_paper(page: str, block: int) -> None:
    """WCAG 2 (level AA) requires a contrast of 4.5 or more between text and background. The colours
    t0 to t9 are names of curves, which stand on «paper» only; all others stand on cards too.
    """
    themes = re.findall(r":root \{(.*?)\}", page, re.S)
    colours = dict(re.findall(r"--(\w+): (#\w{6})", themes[block]))
    letters = [*(f"t{k}" for k in range(10)), "ink", "quiet", "good", "bad", "warn"]

    for paper in ("paper", "card"):
        for name in letters:
            pair = palettes.from_hex(colours[name]), palettes.from_hex(colours[paper])
            if paper == "paper" or not name.startswith("t"):
                assert palettes.contrast(*pair) >= 4.5, (name, paper)


def test_the_reason_the_fix_and_the_picture_are_below_the_verdict(page: str) -> None:
    """`page` is a report on a file of cosines with base 10000 for a model with base 500000. Between
    the verdicts and the navigation stand the reason, the command that makes the right file, and the
    picture, in this order. Commands for tables have the context of the model, here 16,384, but at
    most 4,096 rows.
    """
    evidence = page[page.index('class="verdicts"') : page.index("<nav")]
    reason = evidence.index('<p class="reason">cos: base is 10000')
    fix = evidence.index("pecli rope --config config.json --seq-len 4096 -o rope.safetensors")
    picture = evidence.index("cos, expected")

    assert reason < fix < picture


def test_panels_of_a_picture_wrap_on_a_narrow_screen(page: str) -> None:
    """The three panels (expected, found, difference) stand beside each other; CSS gives each the
    whole width on screens of up to 600 pixels.
    """
    evidence = page[page.index('class="verdicts"') : page.index("<nav")]
    panels = evidence[evidence.index('<div class="beside"') :]

    assert panels.count("<svg ") == 3
    assert re.search(r"max-width: 600px\) \{.*?\.beside svg \{ flex-basis: 100%", page, re.S)


def test_a_scaling_is_explained_in_two_sentences(page: str) -> None:
    """The config of `page` has heads of 16 channels, base 500000, and llama3 scaling by 8 from 8192
    positions with the limits 1 and 4; its context is 16384.

    The wavelengths of its 8 pairs are 2π · 500000^(i/8): 862 for pair 3, which is kept, as it is
    below 8192 / 4; 4443 for pair 4, which is blended; and 22910 for pair 5, which is stretched, as
    it is above 8192.
    """
    start = page.index("Scaling explained</h3>")
    (sentences,) = re.findall(r"<p>(.*?)</p>", page[start : page.index("<figure", start)])

    assert sentences == (
        "Trained on 8,192 positions, the model serves 16,384: its llama3 scaling slows down "
        "rotations that would leave the angles of the training. Pairs 0–3 are kept, as they turn "
        "over 4 times within the training; pair 4 is blended; pairs 5–7 are stretched ×8, as they "
        "turn less than once."
    )


def test_drift_is_measured_at_the_context_of_the_model(page: str) -> None:
    """The config of `page` has a context of 16,384 positions; the report's audit uses that
    length.
    """
    assert "within 0.001 to position" in page
    assert "pecli audit rope --config config.json --seq-len 16384" in page
    assert "served with a context of 16,384" in page


def test_drift_is_measured_at_4096_positions_if_the_model_states_no_context(
    pictures: list[Picture],
) -> None:
    """The configuration has no max_position_embeddings. The section «Drift by recipe» has the
    number of positions in its heading, in its verdicts and in its command.
    """
    no_context = {"hidden_size": 64, "num_attention_heads": 4, "rope_theta": 1e4}
    words = words_of(report(no_context))
    _, _, drift_and_rest = words.partition("Drift by recipe ")
    drift, _, _ = drift_and_rest.partition("What runtimes compute")

    assert drift.startswith("rope seq_len=4096 dim=16 base=10000 ")
    assert "within 0.001 at all 4,096 positions : float32 " in drift
    assert drift.rstrip().endswith("pecli audit rope --config config.json --seq-len 4096")


SECTIONS_OF_A_MODEL = {
    "source of a value": "original_max_position_embeddings 8192 rope_scaling.original_max_position_embeddings",
    "scaling": "Llama3 scaling, factor 8, attention factor 1",
    "ranges of pairs": "stretched ×8",
    "drift by recipe": "float32-recurrence",
    "runtimes": "vllm (",
    "command of the tables": "pecli rope --config config.json --seq-len 4096 -o rope.safetensors",
    "command of the report": "pecli report config.json wrong.npz --atol 0.001 -o report.html",
    "picture of a failure": "cos, expected",
}
"""Words of the page about LLAMA3_CONFIG and a wrong file, by what they stand for."""


@pytest.mark.parametrize("section", SECTIONS_OF_A_MODEL)
def test_a_report_has_all_sections_about_a_model(page: str, section: str) -> None:
    """`page` is a report on a model with llama3 scaling and on a wrong file. SECTIONS_OF_A_MODEL
    has words that it must contain, each by the section in which they stand: where a value comes
    from, drift by recipe, runtimes, the command that makes the tables, ….
    """
    assert SECTIONS_OF_A_MODEL[section] in words_of(page)


def test_a_picture_of_a_failure_has_a_description_for_screen_readers(page: str) -> None:
    """The picture of the failed file wrong.npz has an aria-label with the verdict and the largest
    error.
    """
    assert re.search(r'aria-label="[^"]*wrong.npz: FAILED[^"]*max error', page)


def test_heatmaps_of_the_page_are_images_of_many_colours(page: str) -> None:
    """Heatmaps of the report are PNG images in base64. One of waves has more than 100 colours; an
    empty image would have one.
    """
    images = re.findall(r'"data:image/png;base64,\s*([^"]*)"', page)
    colours_of_images = []
    for image in images:
        pixels = decoded(b64decode(image)).reshape(-1, 3)
        colours_of_images.append(len(np.unique(pixels, axis=0)))
    assert max(colours_of_images) > 100


class ReportOfFiles(NamedTuple):
    """A report, and its pictures, none of which is drawn."""

    page: str
    pictures: list[Picture]


@pytest.fixture(scope="module")
def report_of_three_files(tmp_path_factory: pytest.TempPathFactory) -> ReportOfFiles:
    """Return a report on config.json, whose base is 500000, and three files of cosines.

    right.npz has the cosines of the config, wrong.npz those of base 10000, and short.npz the first
    three rows of right.npz. The tolerance is 0.001.
    """
    folder = tmp_path_factory.mktemp("three files")
    (folder / "config.json").write_text(json.dumps(LLAMA3_CONFIG))
    right = RIGHT_ROPE.tables()["cos"]
    wrong = replace(RIGHT_ROPE, base=10000.0).tables()["cos"]
    pecli.save(folder / "right.npz", {"cos": right})
    pecli.save(folder / "wrong.npz", {"cos": wrong})
    pecli.save(folder / "short.npz", {"cos": right[:3]})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        pictures = keep_pictures(patch)
        page = report("config.json", "right.npz", "wrong.npz", "short.npz", atol=1e-3)
    return ReportOfFiles(page, pictures)


@pytest.fixture
def page_of_three_files(report_of_three_files: ReportOfFiles) -> str:
    return report_of_three_files.page


def test_verdicts_come_first(page_of_three_files: str) -> None:
    """A report on three files has one title, then the verdicts, then the navigation, and then its
    first part.
    """
    marks = ("<h1>", '<section class="verdicts">', "<nav", '<h2 id="part1">')
    places = [page_of_three_files.index(mark) for mark in marks]
    assert places == sorted(places)
    assert page_of_three_files.count("<h1>") == 1


def test_each_file_has_a_verdict_that_links_to_its_section(page_of_three_files: str) -> None:
    """right.npz has the cosines of the model, wrong.npz those of another base, and short.npz the
    first three rows of right.npz. Three rows are too few to prove the scaling: they pass, but the
    check is weak.
    """
    row = r'<th scope="row"><a href="#(\w+)">([^<]*)</a></th><td><span class="\w+">(\w+)</span>'
    verdicts = re.findall(row, page_of_three_files)

    assert [(name, verdict) for _, name, verdict in verdicts[:3]] == [
        ("right.npz", "passed"),
        ("wrong.npz", "FAILED"),
        ("short.npz", "weak"),
    ]
    for section, _, _ in verdicts:
        assert f'id="{section}"' in page_of_three_files


def test_failed_and_weak_verdicts_have_their_reasons(page_of_three_files: str) -> None:
    """Of the three files, wrong.npz has base 10000 and fails; short.npz has 3 rows, which cannot
    rule out that llama3 scaling is missing, and passes weakly.
    """
    start = page_of_three_files.index('<section class="verdicts">')
    verdicts = page_of_three_files[start : page_of_three_files.index("<nav")]
    assert "base is 10000" in verdicts

    weak = '<span class="warn">  weak</span>: 3 rows cannot tell llama3 scaling from none'
    assert weak in page_of_three_files


def test_each_file_of_a_report_is_verified_against_the_model(page_of_three_files: str) -> None:
    """right.npz and short.npz have the base of the config, and wrong.npz has another."""
    words = words_of(page_of_three_files)
    assert words.count("Verified against config.json") == 3
    assert "Verified against config.json passed right.npz" in words
    assert "Verified against config.json FAILED wrong.npz" in words
    assert "Verified against config.json passed short.npz" in words


def test_later_files_of_a_report_are_compared_with_the_first(page_of_three_files: str) -> None:
    """right.npz is the first file (A). wrong.npz differs from it in its base, and short.npz in its
    number of rows. The two later files are not compared with each other.
    """
    words = words_of(page_of_three_files)
    assert "DIFFERENT A: right.npz B: wrong.npz" in words
    assert "DIFFERENT A: right.npz B: short.npz" in words
    assert "A: wrong.npz" not in words


@pytest.mark.parametrize("file", ["right.npz", "wrong.npz", "short.npz"])
def test_a_report_has_the_command_that_repeats_a_check(page_of_three_files: str, file: str) -> None:
    """The report was made with `atol=1e-3`, and its model is config.json."""
    command = f"pecli verify {file} --config config.json --atol 0.001"
    assert command in words_of(page_of_three_files)


def test_failures_and_differences_have_pictures(report_of_three_files: ReportOfFiles) -> None:
    """Three pictures are of errors: wrong.npz fails against the model (FAILED), and wrong.npz and
    short.npz differ from the first file, right.npz (A: …).
    """
    titles = [picture.title for picture in report_of_three_files.pictures]
    assert sum("FAILED" in title or "A: " in title for title in titles) == 3


def test_a_model_with_sinusoids_has_a_picture_of_them(pictures: list[Picture]) -> None:
    """Whisper's encoder has a sinusoidal table, its decoder a learned one, of which there is
    nothing to draw: one picture.
    """
    assert "whisper-tiny encoder" in report("whisper-tiny")
    assert len(pictures) == 1


def test_a_model_with_a_learned_table_has_no_picture(pictures: list[Picture]) -> None:
    """The table of BERT is learned: its numbers are weights, which no configuration has."""
    assert "learned" in report("bert-base")
    assert not pictures


@pytest.mark.usefixtures("pictures")
def test_two_tables_of_one_model_are_not_compared() -> None:
    """Speech2Text has sinusoids in its encoder, 60 rows, and in its decoder, 10 rows. Only reports
    on several models have a section «Comparison».
    """
    model = {
        "model_type": "speech_to_text",
        "max_source_positions": 60,
        "max_target_positions": 10,
        "d_model": 8,
    }
    assert "Comparison" not in report(model)


def test_several_models_are_on_one_chart(pictures: list[Picture]) -> None:
    """Two folders have the same config.json, LLAMA3_CONFIG, which is trained on 8,192 positions and
    serves 16,384. Curves are labelled with the folders, and with both contexts.
    """
    for folder in ("first", "second"):
        Path(folder).mkdir()
        Path(folder, "config.json").write_text(json.dumps(LLAMA3_CONFIG))
    page = report("first/", "second")

    assert "<h1>first, second</h1>" in page
    assert "Comparison</h2>" in page
    labels = [curve.label for curve in pictures[0].panels[0].curves]
    assert labels == ["first, 8,192 → 16,384", "second, 8,192 → 16,384"]


@pytest.mark.usefixtures("pictures")
def test_a_table_without_a_model_is_identified() -> None:
    """pe.npy has 64 sinusoidal rows of 16 channels; the report states the command that
    makes them.
    """
    np.save("pe.npy", pecli.Sinusoidal(seq_len=64, dim=16).tables()["pe"])
    assert "pecli sinusoidal --seq-len 64 --dim 16" in report("pe.npy")


@pytest.fixture
def report_on(run_pecli, pictures: list[Picture]):
    """Run `pecli report`, which writes a page whatever the exit code is."""
    right = pecli.Rope(64, 16)
    pecli.save("right.safetensors", right)
    pecli.save("same.npz", right)
    pecli.save("other_base.npz", pecli.Rope(64, 16, base=5e5))
    noise = np.random.default_rng(0).standard_normal((64, 16))
    np.save("noise.npy", noise.astype(np.float32))
    np.savez("torn.npz", cos=np.ones((8, 32)), sin=np.ones((8, 32, 1)))
    changed = bytearray(Path("right.safetensors").read_bytes())
    changed[-1] ^= 1
    Path("changed.safetensors").write_bytes(changed)

    def call(files: str):
        outcome = run_pecli("report", *files.split(), "-q", "-o", "x.html")
        assert Path("x.html").exists()
        return outcome

    return call


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ("right.safetensors", SUCCESS),
        ("right.safetensors same.npz", SUCCESS),
        ("right.safetensors other_base.npz", CHECK_FAILED),
        ("noise.npy", CHECK_FAILED),
        ("changed.safetensors", CHECK_FAILED),
    ],
    ids=["its own spec", "equal files", "different files", "not identified", "changed bit"],
)
def test_the_exit_code_of_a_report_is_the_answer_of_its_checks(
    report_on, files: str, code: int
) -> None:
    """right.safetensors and same.npz hold the same tables, other_base.npz those of another base,
    noise.npy no table; a bit of changed.safetensors differs from its spec.
    """
    outcome = report_on(files)
    assert outcome.exit_code == code
    assert outcome.err == ""


def test_a_file_that_cannot_be_checked_is_an_error(report_on) -> None:
    """The cosines of torn.npz have two axes, and its sines three: they are no tables of one rope,
    and there is no check that could fail or pass. One line on standard error states why.

    The page is written all the same, about the model gpt2, which is named beside the file.
    """
    outcome = report_on("torn.npz gpt2")

    assert outcome.exit_code == FILE_ERROR
    assert outcome.err.count("\n") == 1
    assert "torn.npz" in outcome.err
    assert "gpt2" in words_of(Path("x.html").read_text("utf-8"))


@pytest.mark.thorough
@pytest.mark.parametrize("load", [dict, pecli.load_config], ids=["mapping", "model"])
def test_report_takes_a_configuration_as_a_mapping_or_a_model(
    pictures: list[Picture], load: Callable[[dict[str, Any]], Any]
) -> None:
    """LLAMA3_CONFIG has base 500000, and rope.npz is the table that it defines: the file passes.
    The columns of its heatmaps are pairs of channels.
    """
    pecli.save("rope.npz", RIGHT_ROPE)
    words = words_of(report(load(LLAMA3_CONFIG), "rope.npz", atol=1e-3))

    assert "passed" in words
    assert "base 500000" in words
    assert {panel.columns for picture in pictures for panel in picture.heatmaps} == {"pair"}


def test_names_from_files_are_text_and_huge_numbers_are_drawn_without_a_warning(
    tmp_path: Path,
) -> None:
    """The name of a tensor is a script and an escape sequence, which the page shows as text. The
    numbers, 1e308 and 1e19, overflow when they are multiplied; warnings are errors in these tests.
    """
    name = "<script>alert(1)</script>\x1b</figure>"
    pecli.save(tmp_path / "x.safetensors", {name: np.array([[1e308, 1e19]] * 4)})
    page = report(tmp_path / "x.safetensors")
    Page(page)

    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_two_models_are_compared_in_a_table(pictures: list[Picture]) -> None:
    """PLAIN is a Llama without a scaling, and so without a factor («–»); LLAMA3_CONFIG has llama3
    with factor 8. A row of the table has a parameter and its value in both models.
    """
    page = report(PLAIN, LLAMA3_CONFIG)
    comparison = page[page.index("Comparison</h2>") : page.index('id="part2"')]
    rows = re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td></tr>", comparison)
    by_parameter = {name: values for name, *values in rows}

    assert by_parameter["scaling"] == ["none", "llama3"]
    assert by_parameter["factor"] == ["–", "8"]


def test_sliders_are_added_if_they_are_wanted(pictures: list[Picture]) -> None:
    """With interactive=True the page has sliders, which start at the settings of LLAMA3_CONFIG. The
    only scripts that it allows are those in the page itself («unsafe-inline»).
    """
    pytest.importorskip("plotly", reason="interactive pages need plotly: pip install plotly")
    page = report(LLAMA3_CONFIG, interactive=True)

    assert "script-src 'unsafe-inline'" in page
    assert '<div id="sliders"></div>' in page
    assert '"method":"llama3"' in page


def test_a_model_without_frequencies_has_no_sliders() -> None:
    """BLOOM has the slopes of ALiBi, which no parameter of a rotation changes."""
    page = report({"model_type": "bloom", "n_head": 4, "hidden_size": 64}, interactive=True)

    assert "script-src" not in page
    assert 'id="sliders"' not in page


def test_the_first_matrix_of_an_unknown_file_is_drawn(
    tmp_path: Path, pictures: list[Picture]
) -> None:
    """numbers.npz has a vector and a matrix x of 12 × 6 random numbers (float64), which are no
    table of any scheme; the heatmap of the matrix is all that can be shown.
    """
    numbers = np.random.default_rng(3).normal(size=(12, 6))
    pecli.save(tmp_path / "numbers.npz", {"vector": numbers[0], "x": numbers})
    report("numbers.npz")

    (picture,) = pictures
    assert picture.title == "x, 12 × 6 float64: value over 12 positions, by channel"


def test_a_report_is_only_written_as_html(run_pecli) -> None:
    """The rule is stated before the file is looked for."""
    outcome = run_pecli("report", "missing.npy", "-o", "report.pdf")
    assert outcome.exit_code == USAGE_ERROR
    assert "--output is report.pdf; a report is one page of HTML" in outcome.err


def test_vectors_before_a_rotation_need_a_model() -> None:
    """Nothing else says how they are rotated; the files need not exist."""
    with pytest.raises(ParameterError, match=r"before is q\.npy; a model rotates them"):
        pecli.report("missing.npy", before="q.npy")


def test_a_page_without_models_has_no_sliders() -> None:
    """A page of a report has sliders for the scaling of each model. Without models, there are none."""
    assert slider_parts([]) == SliderParts()
