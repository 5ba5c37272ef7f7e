"""The gallery: small pictures, shown in the README with the commands that make them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.pixels import assert_alike, decoded
from tests.readme import README

GALLERY = README.parent / "samples" / "gallery"
SCRIPT = (GALLERY / "gallery.sh").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^pecli .*$", SCRIPT, re.M)
PICTURES = sorted(GALLERY.glob("*.png"))


def test_every_picture_has_its_command_and_every_command_its_picture() -> None:
    assert sorted(command.rsplit(" ", 1)[1] for command in COMMANDS) == [picture.name for picture in PICTURES]
    others = {line for line in SCRIPT.splitlines() if line not in COMMANDS and not line.startswith("#")}
    assert others == {"set -e"}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.rsplit(" ", 1)[1])
def test_its_commands_draw_the_pictures(command: str, pecli_cli, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, *words = shlex.split(command)
    assert pecli_cli(*words).code == 0
    assert_alike((tmp_path / words[-1]).read_bytes(), (GALLERY / words[-1]).read_bytes())


def test_the_readme_shows_every_picture_and_its_command() -> None:
    text = README.read_text(encoding="utf-8")
    for command in COMMANDS:
        assert f"samples/gallery/{command.rsplit(' ', 1)[1]}" in text
        assert f"`{command.replace(' --size 6.4x4', '')}`" in text


def test_pictures_are_small_and_told_apart() -> None:
    assert all(len(picture.read_bytes()) < 100_000 for picture in PICTURES)
    assert {decoded(picture.read_bytes()).shape for picture in PICTURES} == {(400, 640, 3)}
    for one, other in zip(PICTURES, PICTURES[1:] + PICTURES[:1], strict=True):
        with pytest.raises(AssertionError):
            assert_alike(one.read_bytes(), other.read_bytes())
