"""`pecli.report`: one HTML page about models and files that needs no network, in light and dark.

Pages are parsed as HTML. Expected verdicts follow from files that the tests write: right tables, or
tables of another base.
"""

import json
import re
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import pecli
from pecli.views.html import Html, element
from pecli.views.pictures import palettes
from pecli.views.pictures.panels import Picture
from pecli.views.report import report
from pecli.views.report.draft import Draft
from tests.pixels import decoded

VOID = {"meta", "link", "img", "br"}


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
}
LLAMA3_CONFIG |= {"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", **SCALING}}
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


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Picture]:
    """In a folder of its own, the pictures of reports, none of which is drawn."""
    kept: list[Picture] = []
    monkeypatch.chdir(tmp_path)

    def keep(draft: Draft, picture: Picture) -> Html:
        kept.append(picture)
        return element("figure", picture.title)

    monkeypatch.setattr(Draft, "_figure_html", keep)
    return kept


def words_of(html: str) -> str:
    return " ".join(" ".join(Page(html).words).split())


def test_the_page_stands_alone_and_is_well_formed(page: str) -> None:
    parsed = Page(page)
    assert len(page.encode()) < 500_000
    assert all(target.startswith(("data:", "#")) for target in parsed.targets)
    assert not re.search(r"@import|url\((?!#)|https?://(?!www\.w3\.org/)|<script|<th>", page)
    assert len(set(parsed.ids)) == len(parsed.ids)
    assert "default-src 'none'" in page


def test_colours_follow_light_and_dark_and_paper(page: str) -> None:
    fills = re.findall(r"<text [^>]*fill: ([^;\"]*)", page)
    assert len(fills) > 50

    letters = {f"var(--{kind}{k})" for kind in "ct" for k in range(10)}
    assert set(fills) <= {"var(--ink)", "var(--quiet)", *letters}

    defined = [
        set(re.findall(r"--(\w+):", block)) for block in re.findall(r":root \{(.*?)\}", page, re.S)
    ]
    assert len(defined) == 3
    for names in defined:
        assert set(re.findall(r"var\(--(\w+)\)", page)) <= names


@pytest.mark.parametrize("block", range(3), ids=["light", "dark", "print"])
def test_letters_have_contrast_with_paper(page: str, block: int) -> None:
    """4.5 or more, as WCAG 2 requires."""
    themes = re.findall(r":root \{(.*?)\}", page, re.S)
    colours = dict(re.findall(r"--(\w+): (#\w{6})", themes[block]))
    letters = [*(f"t{k}" for k in range(10)), "ink", "quiet", "good", "bad", "warn"]

    for paper in ("paper", "card"):
        for name in letters:
            pair = palettes.from_hex(colours[name]), palettes.from_hex(colours[paper])
            if paper == "paper" or not name.startswith("t"):
                assert palettes.contrast(*pair) >= 4.5, (name, paper)


def test_the_reason_the_fix_and_the_picture_are_below_the_verdict(page: str) -> None:
    evidence = page[page.index('class="verdicts"') : page.index("<nav")]
    reason = evidence.index('<p class="reason">cos: base is 10000')
    fix = evidence.index("pecli rope --config config.json --seq-len 4096 -o rope.safetensors")
    picture = evidence.index("cos, expected")

    assert reason < fix < picture


def test_panels_of_a_picture_wrap_on_a_narrow_screen(page: str) -> None:
    evidence = page[page.index('class="verdicts"') : page.index("<nav")]
    panels = evidence[evidence.index('<div class="beside"') :]

    assert panels.count("<svg ") == 3
    assert re.search(r"max-width: 600px\) \{.*?\.beside svg \{ flex-basis: 100%", page, re.S)


def test_a_scaling_is_explained_in_two_sentences(page: str) -> None:
    """The config has heads of 16 channels, base 500000 and llama3 scaling by 8 from 8192 positions."""
    start = page.index("Scaling explained</h3>")
    (sentences,) = re.findall(r"<p>(.*?)</p>", page[start : page.index("<figure", start)])

    assert sentences == (
        "Trained on 8,192 positions, the model serves 16,384: its llama3 scaling slows down "
        "rotations that would leave the angles of the training. Pairs 0–3 are kept, as they turn "
        "over 4 times within the training; pair 4 is blended; pairs 5–7 are stretched ×8, as they "
        "turn less than once."
    )


def test_drift_is_measured_at_the_context_of_the_model(page: str) -> None:
    assert "within 0.001 to position" in page
    assert "pecli audit rope --config config.json --seq-len 16384" in page
    assert "served with a context of 16,384" in page


def test_it_tells_what_the_model_uses_with_sources_and_commands_and_failures_have_pictures(
    page: str,
) -> None:
    words = words_of(page)
    for text in (
        "original_max_position_embeddings 8192 rope_scaling.original_max_position_embeddings",
        "Llama3 scaling, factor 8, attention factor 1",
        "stretched ×8",
        "float32-recurrence",
        "vllm (",
        "pecli rope --config config.json --seq-len 4096 -o rope.safetensors",
        "pecli report config.json wrong.npz --atol 0.001 -o report.html",
        "cos, expected",
    ):
        assert text in words
    assert re.search(r'aria-label="[^"]*wrong.npz: FAILED[^"]*max error', page)

    images = [
        decoded(b64decode(data)) for data in re.findall(r'"data:image/png;base64,\s*([^"]*)"', page)
    ]
    assert any(
        len({tuple(pixel) for row in image for pixel in row.tolist()}) > 100 for image in images
    )


def test_verdicts_come_first_with_reasons(pictures: list[Picture]) -> None:
    """The files are right, of base 10000, and too short to prove the scaling."""
    wrong = replace(RIGHT_ROPE, base=10000.0).tables()["cos"]
    for name, cos in {
        "right": RIGHT_ROPE.tables()["cos"],
        "wrong": wrong,
        "short": RIGHT_ROPE.tables()["cos"][:3],
    }.items():
        pecli.save(f"{name}.npz", {"cos": cos})
    Path("config.json").write_text(json.dumps(LLAMA3_CONFIG))
    page = report("config.json", "right.npz", "wrong.npz", "short.npz", atol=1e-3)
    box, nav, first = (
        page.index(mark) for mark in ('<section class="verdicts">', "<nav", '<h2 id="part1">')
    )

    assert page.index("<h1>") < box < nav < first

    rows = re.findall(
        r'<th scope="row"><a href="#(\w+)">([^<]*)</a></th><td><span class="\w+">(\w+)</span>', page
    )
    assert [row[1:] for row in rows[:3]] == [
        ("right.npz", "passed"),
        ("wrong.npz", "FAILED"),
        ("short.npz", "weak"),
    ]
    assert all(f'id="{target}"' in page for target, *_ in rows)
    assert "base is 10000" in page[box:nav]
    assert page.count("<h1>") == 1
    assert '<span class="warn">  weak</span>: 3 rows cannot tell llama3 scaling from none' in page

    words = words_of(page)
    for text in (
        "passed right.npz rope",
        "FAILED wrong.npz rope",
        "DIFFERENT A: right.npz B: wrong.npz",
    ):
        assert text in words
    assert words.count("Verified against config.json") == 3
    assert "pecli verify wrong.npz --config config.json --atol 0.001" in words
    assert sum("FAILED" in picture.title or "A: " in picture.title for picture in pictures) == 3


@pytest.mark.parametrize(
    ("model", "words"), [("whisper-tiny", "whisper-tiny encoder"), ("bert-base", "learned")]
)
def test_models_without_rope_show_what_they_have(
    pictures: list[Picture], model: str, words: str
) -> None:
    page = report(model)
    assert words in page
    assert page.count("<figure") == len(pictures) == (model == "whisper-tiny")

    both = {
        "model_type": "speech_to_text",
        "max_source_positions": 60,
        "max_target_positions": 10,
        "d_model": 8,
    }

    assert "Comparison" not in report(both)


def test_several_models_are_on_one_chart_and_tables_are_identified(pictures: list[Picture]) -> None:
    for name in ("one", "other"):
        Path(name).mkdir()
        Path(name, "config.json").write_text(json.dumps(LLAMA3_CONFIG))
    page = report("one/", "other")

    assert "<h1>one, other</h1>" in page
    assert "Comparison</h2>" in page
    assert [curve.label for curve in pictures[0].panels[0].curves] == [
        "one, 8,192 → 16,384",
        "other, 8,192 → 16,384",
    ]

    np.save("pe.npy", pecli.Sinusoidal(64, 16).tables()["pe"])
    assert "pecli sinusoidal --seq-len 64 --dim 16" in report("pe.npy")


def test_the_exit_code_is_the_answer_of_the_checks(run_pecli, pictures: list[Picture]) -> None:
    pecli.save("right.safetensors", pecli.Rope(64, 16))
    pecli.save("same.npz", pecli.Rope(64, 16))
    pecli.save("other.npz", pecli.Rope(64, 16, base=5e5))
    np.save("noise.npy", np.random.default_rng(0).standard_normal((64, 16)).astype(np.float32))
    np.savez("torn.npz", cos=np.ones((8, 32)), sin=np.ones((8, 32, 1)))

    def code(*files: str) -> int:
        found = run_pecli("report", *files, "-q", "-o", "x.html")
        Path("x.html").unlink()  # which is written whatever the answer is
        assert found.err.count("\n") == (found.exit_code > 1)
        return found.exit_code

    assert code("right.safetensors") == code("right.safetensors", "same.npz") == 0
    assert code("right.safetensors", "other.npz") == 1, "both carry their spec, and differ"
    assert code("noise.npy") == 1, "nothing is identified"
    assert code("torn.npz", "gpt2") in (2, 3), (
        "it cannot be checked, which is said on standard error, too"
    )

    data = bytearray(Path("right.safetensors").read_bytes())
    data[-1] ^= 1
    Path("right.safetensors").write_bytes(data)

    assert code("right.safetensors") == 1, "it is not what its spec says"


@pytest.mark.thorough
def test_a_configuration_may_be_given_itself(pictures: list[Picture]) -> None:
    Path("config.json").write_text(json.dumps(LLAMA3_CONFIG))
    pecli.save("rope.npz", RIGHT_ROPE)

    for given in (LLAMA3_CONFIG, pecli.load_config(LLAMA3_CONFIG)):
        words = words_of(report(given, "rope.npz", atol=1e-3))
        assert "passed" in words
        assert "base 500000" in words
    assert {panel.columns for picture in pictures for panel in picture.heatmaps} == {"pair"}


def test_names_from_files_are_text_and_huge_numbers_are_drawn_without_a_warning(
    tmp_path: Path,
) -> None:
    name = "<script>alert(1)</script>\x1b</figure>"
    pecli.save(tmp_path / "x.safetensors", {name: np.array([[1e308, 1e19]] * 4)})
    page = report(tmp_path / "x.safetensors")
    Page(page)

    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_two_models_are_compared_in_a_table(pictures: list[Picture]) -> None:
    page = report(PLAIN, LLAMA3_CONFIG)
    comparison = page[page.index("Comparison</h2>") : page.index('id="part2"')]
    rows = re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td></tr>", comparison)
    by_parameter = {name: values for name, *values in rows}

    assert by_parameter["scaling"] == ["none", "llama3"]
    assert by_parameter["factor"] == ["–", "8"]


def test_sliders_are_added_if_they_are_wanted(pictures: list[Picture]) -> None:
    pytest.importorskip("plotly", reason="interactive pages need plotly: pip install plotly")
    page = report(LLAMA3_CONFIG, interactive=True)

    assert "script-src 'unsafe-inline'" in page
    assert '<div id="sliders"></div>' in page
    assert '"method":"llama3"' in page


def test_the_first_matrix_of_an_unknown_file_is_drawn(
    tmp_path: Path, pictures: list[Picture]
) -> None:
    """Random numbers are no table of any scheme; their heatmap is all that can be shown."""
    numbers = np.random.default_rng(3).normal(size=(12, 6))
    pecli.save(tmp_path / "numbers.npz", {"vector": numbers[0], "x": numbers})
    report("numbers.npz")

    (picture,) = pictures
    assert picture.title == "x, 12 × 6 float64: value over 12 positions, by channel"
