"""The README, the reference, the gallery, docstrings, hooks and workflows tell the same story as
the code.

Their commands and examples are run; generated parts are written again by tests/readme.py and
compared. The gallery is samples/gallery: pictures, and the script gallery.sh whose commands draw
them. Hooks are those of pre-commit; workflows are GitHub's.
"""

import doctest
import importlib
import os
import re
import runpy
import shlex
import struct
import subprocess
import sys
import venv
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from pecli.cli.app import COMMANDS
from pecli.views.pictures.theme import FONT_POINTS
from tests.command_reference import all_commands, option_names
from tests.exit_codes import CHECK_FAILED, SUCCESS
from tests.pixels import assert_alike
from tests.readme import README, REFERENCE, environment, written

ROOT = README.parent
README_TEXT = README.read_text(encoding="utf-8")


@pytest.mark.parametrize("document", [README, REFERENCE], ids=lambda path: path.name)
def test_the_generated_parts_are_up_to_date(document: Path) -> None:
    """Output of commands and tables of options come from the program."""
    assert written(document) == document.read_text(encoding="utf-8"), "run python -m tests.readme"


def test_readme_is_short_and_links_lead_somewhere() -> None:
    """180 lines are the limit that the project has set itself; links to files are relative to their
    page.
    """
    assert len(README_TEXT.splitlines()) <= 180
    for document in (README, REFERENCE, *(ROOT / ".github").glob("*.md")):
        for target in re.findall(
            r"\]\((?!https?:)([^)#]+)\)|src=\"([^\"]+)\"", document.read_text(encoding="utf-8")
        ):
            assert (document.parent / "".join(target)).exists(), target


def test_continuous_integration_runs_the_test_command_of_the_readme() -> None:
    """The script prints the second ```sh block of the README before it runs it."""
    script = ROOT / ".ci" / "run"
    start = script.read_text(encoding="utf-8").partition("bash -ec")[0]
    result = subprocess.run(
        ["bash", "-c", start, str(script)], capture_output=True, text=True, timeout=60
    )
    _, block = re.findall(r"^```sh\n(.*?)^```", README_TEXT, re.S | re.M)[:2]

    assert result.returncode == SUCCESS
    assert result.stdout == f"+ {block}"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_readme(command: str) -> None:
    """The reference has each one, too."""
    assert f"pecli {command}" in README_TEXT
    assert f"pecli {command}" in REFERENCE.read_text(encoding="utf-8")


def reference_section(words: str) -> str:
    """Return the section of a command in the reference."""
    text = REFERENCE.read_text(encoding="utf-8")
    start = text.index(f"### `pecli {words.split()[0]}`\n")
    return text[start:].partition("\n### ")[0]


@pytest.mark.parametrize("words", all_commands())
def test_every_option_of_a_command_is_in_its_section_of_the_reference(words: str) -> None:
    """Names of options are those of the program's own parser."""
    section = reference_section(words)
    for name in option_names(all_commands()[words]):
        assert f"`{name}`" in section


def test_the_python_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its assertions hold, and it prints nothing."""
    (code,) = re.findall(r"^```python\n(.*?)^```", README_TEXT, re.S | re.M)
    example = tmp_path / "example.py"
    example.write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example))

    assert capfd.readouterr().err == ""


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


DOCUMENTED = [
    module_name(path)
    for path in sorted(ROOT.glob("pecli/**/*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_examples_in_docstrings_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules with «>>>» in them; Python's doctest compares what the examples print."""
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name))

    assert result.attempted
    assert not result.failed


SAMPLES = sorted(path for path in (ROOT / "samples").glob("*") if path.suffix in (".sh", ".py"))
QUICK_SAMPLES = {"layers.py", "models.sh", "slopes.sh"}
"""Samples that start at most three processes."""


def sample_case(sample: Path) -> Any:
    is_quick = sample.name in QUICK_SAMPLES
    return pytest.param(sample, id=sample.name, marks=() if is_quick else pytest.mark.thorough)


@pytest.mark.parametrize("sample", [*map(sample_case, SAMPLES)])
def test_every_sample_runs(
    sample: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A sample is a script of samples/; it must end well and print something."""
    settings = environment(tmp_path_factory.mktemp("bin"))
    words = [sys.executable if sample.suffix == ".py" else "sh", str(sample)]
    result = subprocess.run(
        words, cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=60
    )

    assert result.returncode == SUCCESS, result.stderr
    assert result.stdout


GALLERY = README.parent / "samples" / "gallery"
SCRIPT = (GALLERY / "gallery.sh").read_text(encoding="utf-8")
PLOT_COMMANDS_OF_THE_GALLERY = re.findall(r"^pecli plot .*$", SCRIPT, re.M)
DUMP, FAILURE = re.findall(r"^pecli (?:rope|verify) .*$", SCRIPT, re.M)
PICTURES = sorted(GALLERY.glob("*.png"))


def picture_of(command: str) -> str:
    """Return the name of the picture that a command draws."""
    words = shlex.split(command)
    return words[words.index("-o") + 1]


def test_pictures_and_commands_go_together_in_the_gallery_and_the_readme() -> None:
    """Each picture in samples/gallery is drawn by one command, and the README shows both the
    picture and the command.
    """
    drawn = sorted(map(picture_of, [*PLOT_COMMANDS_OF_THE_GALLERY, FAILURE]))
    assert drawn == [picture.name for picture in PICTURES]

    text = README.read_text(encoding="utf-8")
    for name in drawn:
        assert f"samples/gallery/{name}" in text
    for command in PLOT_COMMANDS_OF_THE_GALLERY:
        assert f"`{command}`" in text


def test_nothing_else_is_in_the_script_of_the_gallery() -> None:
    """So that every line of it is tested here."""
    lines = {line for line in SCRIPT.splitlines() if not line.startswith("#")}
    assert lines - {*PLOT_COMMANDS_OF_THE_GALLERY, DUMP, FAILURE} == {"set -e", "rm dump.npz"}


@pytest.mark.parametrize("command", PLOT_COMMANDS_OF_THE_GALLERY, ids=picture_of)
@pytest.mark.sample(1)
def test_commands_of_the_gallery_draw_its_pictures(
    command: str, run_pecli, tmp_path: Path, monkeypatch
) -> None:
    """Pictures are compared by the mean colour of squares, as fonts differ between versions."""
    monkeypatch.chdir(tmp_path)
    _, *words = shlex.split(command)

    assert run_pecli(*words).exit_code == SUCCESS
    assert_alike((tmp_path / words[-1]).read_bytes(), (GALLERY / words[-1]).read_bytes())


@pytest.mark.thorough
def test_the_failure_of_the_readme_draws_its_picture(
    run_pecli, tmp_path: Path, monkeypatch
) -> None:
    """`verify` of a wrong dump draws failure.png and exits with 1."""
    monkeypatch.chdir(tmp_path)
    _, *words = shlex.split(DUMP)

    assert run_pecli(*words).exit_code == SUCCESS

    _, *words = shlex.split(FAILURE.removesuffix(" || test $? = 1"))
    assert run_pecli(*words).exit_code == CHECK_FAILED

    drawn = (tmp_path / "failure.png").read_bytes()
    assert_alike(drawn, (GALLERY / "failure.png").read_bytes())


def test_pictures_are_small_and_told_apart() -> None:
    """The comparison must fail for two different pictures."""
    assert all(len(picture.read_bytes()) < 250_000 for picture in PICTURES)
    for one, other in pairwise(PICTURES[:3]):
        with pytest.raises(AssertionError):
            assert_alike(one.read_bytes(), other.read_bytes())


SHOWN_WIDTH = 350  #: Pixels of a picture in the gallery on GitHub.
MIN_LETTERS = 8.0  #: Height of letters, in pixels, that can be read.


@pytest.mark.parametrize("command", PLOT_COMMANDS_OF_THE_GALLERY, ids=picture_of)
def test_pictures_of_the_gallery_can_be_read_at_their_size(command: str) -> None:
    """GitHub shows them 350 pixels wide; letters must keep 8 pixels. PNG files have width and
    height at bytes 16 to 24, and pecli draws 200 pixels per inch.
    """
    words = shlex.split(command)
    width, height = map(float, words[words.index("--size") + 1].split("x"))
    header = (GALLERY / picture_of(command)).read_bytes()[16:24]

    assert struct.unpack(">II", header) == (round(200 * width), round(200 * height))

    points_per_inch = 72
    assert FONT_POINTS / points_per_inch * SHOWN_WIDTH / width >= MIN_LETTERS


HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    angles = np.arange(4)[:, None] * 10000.0 ** (-np.arange(4) / 4)
    np.save("cos.npy", np.cos(angles))
    Path("pecli.toml").write_text(
        '[[check]]\nfile = "*.npy"\nscheme = "rope"\nseq_len = 4\ndim = 8\natol = 1e-6\n'
    )
    Path("config.json").write_text(
        '{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}'
    )
    return tmp_path


@pytest.mark.parametrize("name", HOOKS)
def test_pre_commit_hooks_run_on_a_project(
    checked: Path, run_pecli: Callable[..., Any], name: str
) -> None:
    """The project has a manifest pecli.toml, a right table and a config.json; the hook's pattern of
    files matches them.
    """
    hook = HOOKS[name]
    files = [] if hook.get("pass_filenames") is False else ["config.json"]
    command, *words = shlex.split(hook["entry"])

    assert command == "pecli"
    assert run_pecli(*words, *hook["args"], *files).exit_code == SUCCESS
    assert re.search(hook["files"], "sub/pecli.toml" if "verify" in name else "sub/config.json")


def test_the_sample_names_hooks_that_there_are_and_templates_ask_for_something() -> None:
    """The sample of a user's configuration lists all hooks; three templates of issues have a
    required field each.
    """
    sample = (ROOT / "samples" / "ci" / "pre-commit-config.yaml").read_text()
    assert re.findall(r"- id: (\S+)", sample) == list(HOOKS)

    templates = [*(ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml")]
    forms = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in templates]
    assert len(forms) == 3
    assert all(
        any(part.get("validations", {}).get("required") for part in form["body"]) for form in forms
    )


def workflow_commands(job: str) -> list[str]:
    jobs = yaml.safe_load(
        (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    )["jobs"]
    return [step["run"] for step in jobs[job]["steps"] if "run" in step]


def test_the_projects_own_workflow_runs_what_the_readme_says() -> None:
    """The second ```sh block of the README is the test command; on Windows, Python is called
    otherwise.
    """
    _, block = re.findall(
        r"^```sh\n(.*?)\n```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S | re.M
    )[:2]
    assert workflow_commands("linux") == [".ci/run"]
    assert workflow_commands("macos") == [block]

    spelled = block.replace(".venv/bin", ".venv/Scripts").replace("python3", "python")
    assert workflow_commands("windows") == [spelled]


WORKFLOW = yaml.safe_load(
    (ROOT / "samples" / "ci" / "github-workflow.yml").read_text(encoding="utf-8")
)


def shell(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, **environment}
    return subprocess.run(
        ["sh", "-c", command], cwd=folder, env=given, capture_output=True, text=True, timeout=300
    )


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment of its own that has pip and the libraries which pecli needs, but not pecli."""
    folder = tmp_path_factory.mktemp("machine")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(folder),
        ".",
    ]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=300)
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    libraries = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (site / "libraries.pth").write_text("\n".join(libraries), encoding="utf-8")
    pip = folder / "venv" / "bin" / "pip"
    pip.write_text(f'#!/bin/sh\nexec "{folder}/venv/bin/python" -m pip "$@"\n', encoding="utf-8")
    pip.chmod(0o755)
    (wheel,) = folder.glob("pecli_posenc-*.whl")
    options = {
        "PIP_FORCE_REINSTALL": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
    }  # nothing is fetched
    path = f"{folder}/venv/bin{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "PYTHONPATH": "", "PECLI": str(wheel), **options}


INSTALL, CHECK = (step["run"] for step in WORKFLOW["jobs"]["pecli"]["steps"] if "run" in step)


def test_the_check_of_the_workflow_passes_and_writes_its_report(
    checked: Path, run_pecli: Callable[..., Any]
) -> None:
    """pecli.xml is the report in JUnit's format that the sample workflow uploads."""
    _, *words = shlex.split(CHECK)
    assert run_pecli(*words).exit_code == SUCCESS
    assert (checked / "pecli.xml").exists()


def test_the_check_of_the_workflow_annotates_a_wrong_file(
    checked: Path, run_pecli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """GitHub shows lines «::error file=…» beside the file; cosines that are all 1 are wrong."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    np.save("cos.npy", np.ones((4, 4)))
    _, *words = shlex.split(CHECK)
    outcome = run_pecli(*words)

    assert outcome.exit_code == CHECK_FAILED
    assert "::error file=cos.npy" in outcome.out


@pytest.mark.thorough
@pytest.mark.skipif(os.name == "nt", reason="the sample is for Linux")
def test_workflow_steps_run(machine: dict[str, str], tmp_path: Path) -> None:
    """The steps of samples/ci/github-workflow.yml: cosines of base 10000 pass, and ones fail."""
    assert "PECLI" in WORKFLOW["env"]

    installed = shell(INSTALL, tmp_path, **machine)
    assert installed.returncode == SUCCESS, installed.stderr

    angles = np.arange(4)[:, None] * 10000.0 ** (-np.arange(4) / 4)
    np.save(tmp_path / "cos.npy", np.cos(angles))
    manifest = '[[check]]\nfile = "*.npy"\nscheme = "rope"\nseq_len = 4\ndim = 8\natol = 1e-6\n'
    (tmp_path / "pecli.toml").write_text(manifest, encoding="utf-8")
    passed = shell(CHECK, tmp_path, **machine, GITHUB_ACTIONS="true")

    assert passed.returncode == SUCCESS, passed.stderr
    assert (tmp_path / "pecli.xml").exists()

    np.save(tmp_path / "cos.npy", np.ones((4, 4)))
    failed = shell(CHECK, tmp_path, **machine, GITHUB_ACTIONS="true")
    assert failed.returncode == CHECK_FAILED
    assert "::error file=cos.npy" in failed.stdout
