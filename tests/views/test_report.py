"""The report: one page that stands alone, in light and dark."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import pecli
from pecli.checks.tolerance import Tolerance
from pecli.views.report import report
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
            self.targets += [value or ""] if name in ("src", "href", "xlink:href", "action", "data") else []
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


@pytest.fixture(scope="module")
def llama() -> str:
    return report("llama-3.1-8b")


def test_the_page_stands_alone_and_is_well_formed(llama: str) -> None:
    page = Page(llama)
    assert len(llama.encode()) < 500_000
    assert all(target.startswith(("data:", "#")) for target in page.targets)
    assert not re.search(r"@import|url\((?!#)|https?://(?!www\.w3\.org/)", llama)
    assert len(set(page.ids)) == len(page.ids)
    assert "default-src 'none'" in llama


def test_it_tells_what_the_model_uses_with_sources_and_commands(llama: str) -> None:
    words = " ".join(" ".join(Page(llama).words).split())
    for text in (
        "original_max_position_embeddings 8192 rope_scaling.original_max_position_embeddings",
        "llama3 scaling, factor 8, attention factor 1",
        "stretched ×8",
        "float32-recurrence",
        "pecli rope --model llama-3.1-8b --seq-len 4096 -o rope.safetensors",
        "pecli report llama-3.1-8b -o report.html",
    ):
        assert text in words
    images = [decoded(b64decode(data)) for data in re.findall(r'"data:image/png;base64,\s*([^"]*)"', llama)]
    assert any(len({tuple(pixel) for row in image for pixel in row.tolist()}) > 100 for image in images)


def test_files_have_verdicts_with_reasons(tmp_path: Path) -> None:
    right = pecli.load_model("llama-3.1-8b").one().rope(64)
    pecli.save(tmp_path / "right.safetensors", right)
    pecli.save(tmp_path / "wrong.npz", {"cos": pecli.Rope(64, 128).tables()["cos"]})
    files = [tmp_path / "right.safetensors", tmp_path / "wrong.npz"]
    words = " ".join(" ".join(Page(report("llama-3.1-8b", *files, tolerance=Tolerance(atol=1e-4))).words).split())
    assert words.count("Verified against llama-3.1-8b") == 2
    assert f"passed {files[0]} rope" in words
    assert f"FAILED {files[1]} rope" in words
    assert re.search(r"(theta|base) is 10000", words), "the reason"
    assert "DIFFERENT A: " in words
    assert f"pecli verify {tmp_path / 'wrong.npz'} --model llama-3.1-8b --atol 0.0001" in words


def test_verdicts_come_first_and_failures_have_pictures(tmp_path: Path) -> None:
    rope = pecli.load_model("llama-3.1-8b").one().rope(4096)
    names = {"right": rope.tables(), "wrong": pecli.Rope(4096, 128).tables()}
    names["short"] = {"cos": rope.tables()["cos"][:3]}
    for name, tables in names.items():
        pecli.save(tmp_path / f"{name}.npz", {"cos": tables["cos"]})
    page = report("llama-3.1-8b", *(tmp_path / f"{name}.npz" for name in names), atol=1e-3)
    box, nav, first = (page.index(mark) for mark in ('<section class="verdicts">', "<nav", '<h2 id="part1">'))
    assert page.index("<h1>") < box < nav < first
    rows = re.findall(r'<th scope="row"><a href="#(\w+)">([^<]*)</a></th><td><span class="\w+">(\w+)</span>', page)
    assert [row[1:] for row in rows[:3]] == [("right.npz", "passed"), ("wrong.npz", "FAILED"), ("short.npz", "weak")]
    assert all(f'id="{target}"' in page for target, *_ in rows)
    assert "base is 10000" in page[box:nav]
    assert re.search(r'aria-label="[^"]*wrong.npz: FAILED[^"]*max error', page)
    assert "cos, expected" in page
    assert page.count("<h1>") == 1
    assert "<script" not in page
    assert "<th>" not in page


@pytest.mark.parametrize(("model", "words"), [("whisper-tiny", "whisper-tiny encoder"), ("bert-base", "learned")])
def test_models_without_rope_show_what_they_have(model: str, words: str) -> None:
    page = report(model)
    assert words in page
    assert page.count("<figure") == (model == "whisper-tiny")


def test_several_models_are_on_one_chart() -> None:
    page = report("llama-2-7b", "llama-3.1-8b")
    chart = page[page.index("Wavelengths of all models</h2>") :]
    assert all(f">{name}, " in chart or f">{name}<" in chart for name in ("llama-2-7b", "llama-3.1-8b"))


def test_the_exit_code_is_the_answer_of_the_checks(pecli_cli, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    pecli.save("right.safetensors", pecli.Rope(64, 16))
    pecli.save("same.npz", pecli.Rope(64, 16))
    pecli.save("other.npz", pecli.Rope(64, 16, base=5e5))
    np.save("noise.npy", np.random.default_rng(0).standard_normal((64, 16)).astype(np.float32))

    def code(*files: str) -> int:
        found = pecli_cli("report", *files, "-q", "-o", "x.html").code
        Path("x.html").unlink()  # which is written whatever the answer is
        return found

    assert code("right.safetensors") == code("right.safetensors", "same.npz") == 0
    assert code("right.safetensors", "other.npz") == 1, "both carry their spec, and differ"
    assert code("noise.npy") == 1, "nothing is identified"
    data = bytearray(Path("right.safetensors").read_bytes())
    data[-1] ^= 1
    Path("right.safetensors").write_bytes(data)
    assert code("right.safetensors") == 1, "it is not what its spec says"


def test_a_weak_pass_is_called_one(tmp_path: Path) -> None:
    pecli.save(tmp_path / "short.npz", {"cos": pecli.Rope(3, 128, base=5e5).tables()["cos"]})
    page = report("llama-3.1-8b", tmp_path / "short.npz", tolerance=Tolerance(atol=1e-3))
    assert '<span class="warn">  weak</span>: 3 rows cannot tell llama3 scaling from none' in page


def test_a_configuration_may_be_given_itself(tmp_path: Path) -> None:
    config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 256}
    (tmp_path / "config.json").write_text(json.dumps(config))
    pecli.save(tmp_path / "rope.npz", pecli.Rope(64, 16, recipe="float32"))
    for given in (config, pecli.load_config(config), tmp_path / "config.json"):
        words = " ".join(Page(report(given, tmp_path / "rope.npz", atol=1e-3)).words)
        assert "passed" in words
        assert "base 10000" in " ".join(words.split())
        assert "vllm" in words
    with pytest.raises(ValueError, match="they say the same"):
        report(config, tolerance=Tolerance(), atol=1e-3)


def test_names_from_files_are_text(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>\x1b</figure>"
    pecli.save(tmp_path / "x.safetensors", {name: np.eye(4, dtype=np.float32)})
    page = report(tmp_path / "x.safetensors")
    Page(page)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_table_without_a_spec_is_identified(tmp_path: Path) -> None:
    np.save(tmp_path / "pe.npy", pecli.Sinusoidal(64, 16).tables()["pe"])
    assert "pecli sinusoidal --seq-len 64 --dim 16" in report(tmp_path / "pe.npy")


@pytest.mark.parametrize("words", [["llama-3.1-8b"], ["llama-3.1-8b", "-o", "x.pdf"], ["missing.npy", "-o", "x.html"]])
def test_errors_are_one_line(pecli_cli, tmp_path: Path, monkeypatch, words: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    found = pecli_cli("report", *words)
    assert found.code in (2, 3)
    assert found.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_colours_follow_light_and_dark_and_paper(llama: str) -> None:
    fills = re.findall(r"<text [^>]*fill: ([^;\"]*)", llama)
    assert len(fills) > 50
    assert set(fills) <= {"var(--ink)", "var(--quiet)"}
    defined = [set(re.findall(r"--(\w+):", block)) for block in re.findall(r":root \{(.*?)\}", llama, re.S)]
    assert len(defined) == 3
    assert all(names == set(re.findall(r"var\(--(\w+)\)", llama)) for names in defined)


def test_huge_numbers_are_drawn_without_a_warning(tmp_path: Path) -> None:
    np.save(tmp_path / "huge.npy", np.array([[1e308, 1e19]] * 4))
    assert "huge.npy" in report(tmp_path / "huge.npy")


def test_a_file_that_cannot_be_checked_is_told_on_standard_error_too(pecli_cli, tmp_path) -> None:
    np.savez(tmp_path / "t.npz", cos=np.ones((8, 32)), sin=np.ones((8, 32, 1)))
    outcome = pecli_cli("report", tmp_path / "t.npz", "gpt2", "-o", tmp_path / "r.html")
    assert outcome.code in (2, 3)
    assert outcome.err.count("\n") == 1
