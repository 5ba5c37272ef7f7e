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
def test_the_generated_parts_of_the_documents_are_up_to_date(document: Path) -> None:
    """In the README and the reference, the output of commands and the tables of options come from the
    program. `written` returns the document with these parts written again; nothing may change.
    """
    assert written(document) == document.read_text(encoding="utf-8"), "run python -m tests.readme"


def test_readme_is_short_and_links_lead_somewhere() -> None:
    """180 lines are the limit that the project has set itself. Links to files, [text](PATH) and
    src="PATH", are relative to their page.
    """
    link = r"\]\((?!https?:)([^)#]+)\)"
    picture = r"src=\"([^\"]+)\""

    assert len(README_TEXT.splitlines()) <= 180
    for document in (README, REFERENCE, *(ROOT / ".github").glob("*.md")):
        text = document.read_text(encoding="utf-8")
        for target in re.findall(link, text) + re.findall(picture, text):
            assert (document.parent / target).exists(), target


def test_continuous_integration_runs_the_test_command_of_the_readme() -> None:
    """The second ```sh block of the README is the test command. The script .ci/run takes it from
    there and prints it after «+», before it runs it with «bash -ec»; only the part before that runs
    here.
    """
    script = ROOT / ".ci" / "run"
    start, _, _ = script.read_text(encoding="utf-8").partition("bash -ec")
    result = subprocess.run(
        ["bash", "-c", start, str(script)], capture_output=True, text=True, timeout=60
    )
    _, test_command, *_ = re.findall(r"^```sh\n(.*?)^```", README_TEXT, re.S | re.M)

    assert result.returncode == SUCCESS
    assert result.stdout == f"+ {test_command}"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_readme(command: str) -> None:
    """«pecli COMMAND» is in the README and in the reference."""
    assert f"pecli {command}" in README_TEXT
    assert f"pecli {command}" in REFERENCE.read_text(encoding="utf-8")


def reference_section(words: str) -> str:
    """Return the section of a command in the reference."""
    text = REFERENCE.read_text(encoding="utf-8")
    start = text.index(f"### `pecli {words.split()[0]}`\n")
    return text[start:].partition("\n### ")[0]


@pytest.mark.parametrize("words", all_commands())
def test_every_option_of_a_command_is_in_its_section_of_the_reference(words: str) -> None:
    """The names of options, such as `--seq-len`, are those that the program's own parser accepts."""
    section = reference_section(words)
    for name in option_names(all_commands()[words]):
        assert f"`{name}`" in section


def test_the_python_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The README has one ```python block: it runs, its assertions hold, and it prints no warnings."""
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
    """The modules are those of the package that have «>>>» in them. Python's doctest runs the examples
    and compares what they print with the next line.
    """
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


def test_the_script_of_the_gallery_has_only_the_commands_that_are_tested() -> None:
    """gallery.sh draws the pictures of the documents. Its plot commands, and the dump and the failed
    check of the README, are run by the tests here; two lines are left, which draw nothing.
    """
    lines = {line for line in SCRIPT.splitlines() if not line.startswith("#")}
    tested = {*PLOT_COMMANDS_OF_THE_GALLERY, DUMP, FAILURE}

    assert lines - tested == {"set -e", "rm dump.npz"}


@pytest.mark.parametrize("command", PLOT_COMMANDS_OF_THE_GALLERY, ids=picture_of)
@pytest.mark.sample(1)
def test_commands_of_the_gallery_draw_its_pictures(
    command: str, run_pecli, tmp_path: Path, monkeypatch
) -> None:
    """A command ends with the name of its picture, «-o NAME.png». The picture that it draws and the
    one in the gallery are compared by the mean colour of squares, as fonts differ between versions.
    """
    monkeypatch.chdir(tmp_path)
    _, *words = shlex.split(command)
    name = words[-1]

    assert run_pecli(*words).exit_code == SUCCESS
    assert_alike((tmp_path / name).read_bytes(), (GALLERY / name).read_bytes())


@pytest.mark.thorough
def test_the_failure_of_the_readme_draws_its_picture(
    run_pecli, tmp_path: Path, monkeypatch
) -> None:
    """Two commands of gallery.sh: DUMP writes a wrong dump, and FAILURE verifies it, draws
    failure.png and exits with 1. The picture must be like the one in the gallery.
    """
    monkeypatch.chdir(tmp_path)
    _, *words_of_dump = shlex.split(DUMP)
    assert run_pecli(*words_of_dump).exit_code == SUCCESS

    _, *words_of_failure = shlex.split(FAILURE.removesuffix(" || test $? = 1"))
    assert run_pecli(*words_of_failure).exit_code == CHECK_FAILED

    drawn = (tmp_path / "failure.png").read_bytes()
    assert_alike(drawn, (GALLERY / "failure.png").read_bytes())


def test_pictures_of_the_gallery_are_small_and_differ_from_each_other() -> None:
    """A picture has less than 250 kB. `assert_alike`, with which the tests here compare pictures, must
    fail for two different ones: the first and second, and the second and third.
    """
    assert all(len(picture.read_bytes()) < 250_000 for picture in PICTURES)
    for picture, next_picture in pairwise(PICTURES[:3]):
        with pytest.raises(AssertionError):
            assert_alike(picture.read_bytes(), next_picture.read_bytes())


SHOWN_WIDTH = 350  #: Pixels of a picture in the gallery on GitHub.
MIN_LETTERS = 8.0  #: Height of letters, in pixels, that can be read.


@pytest.mark.parametrize("command", PLOT_COMMANDS_OF_THE_GALLERY, ids=picture_of)
def test_pictures_of_the_gallery_can_be_read_at_their_size(command: str) -> None:
    """GitHub shows them 350 pixels wide (SHOWN_WIDTH); letters must keep 8 pixels (MIN_LETTERS). PNG
    files have width and height at bytes 16 to 24, and pecli draws 200 pixels per inch.
    """
    words = shlex.split(command)
    width, height = map(float, words[words.index("--size") + 1].split("x"))  # in inches
    width_and_height = (GALLERY / picture_of(command)).read_bytes()[16:24]
    points_per_inch = 72
    letters_in_inches = FONT_POINTS / points_per_inch

    assert struct.unpack(">II", width_and_height) == (round(200 * width), round(200 * height))
    assert letters_in_inches * SHOWN_WIDTH / width >= MIN_LETTERS


HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with NumPy's cosines of base 10000, a manifest and a config; it is entered."""
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
    """A hook of .pre-commit-hooks.yaml is a command of pecli that users run before a commit, and a
    pattern of the files that it is for: the manifest pecli.toml, or config.json. It must succeed in
    `checked`, a folder with both and a right table.
    """
    hook = HOOKS[name]
    files = [] if hook.get("pass_filenames") is False else ["config.json"]
    file_of_the_hook = "sub/pecli.toml" if "verify" in name else "sub/config.json"
    command, *words = shlex.split(hook["entry"])

    assert command == "pecli"
    assert run_pecli(*words, *hook["args"], *files).exit_code == SUCCESS
    assert re.search(hook["files"], file_of_the_hook)


def test_the_sample_of_a_configuration_lists_all_hooks() -> None:
    """samples/ci/pre-commit-config.yaml shows users how to run the hooks of .pre-commit-hooks.yaml
    before a commit.
    """
    sample = (ROOT / "samples" / "ci" / "pre-commit-config.yaml").read_text()
    assert re.findall(r"- id: (\S+)", sample) == list(HOOKS)


def test_each_of_three_templates_of_issues_has_a_required_field() -> None:
    """Templates are the forms in .github/ISSUE_TEMPLATE; config.yml there is none of them."""
    templates = [*(ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml")]
    forms = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in templates]

    assert len(forms) == 3
    for form in forms:
        assert any(part.get("validations", {}).get("required") for part in form["body"])


def workflow_commands(job: str) -> list[str]:
    jobs = yaml.safe_load(
        (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    )["jobs"]
    return [step["run"] for step in jobs[job]["steps"] if "run" in step]


def test_the_projects_own_workflow_runs_what_the_readme_says() -> None:
    """The second ```sh block of the README is the test command. The workflow runs it on macOS; on
    Linux by the script .ci/run, and on Windows with the names that Python's files have there.
    """
    _, test_command, *_ = re.findall(r"^```sh\n(.*?)\n```", README_TEXT, re.S | re.M)
    assert workflow_commands("linux") == [".ci/run"]
    assert workflow_commands("macos") == [test_command]

    on_windows = test_command.replace(".venv/bin", ".venv/Scripts").replace("python3", "python")
    assert workflow_commands("windows") == [on_windows]


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
    """CHECK is the command of the sample workflow, a `pecli verify`; it passes in `checked`, a folder
    with a manifest and a right table, and writes pecli.xml, the report in JUnit's format that the
    workflow uploads.
    """
    _, *words = shlex.split(CHECK)
    assert run_pecli(*words).exit_code == SUCCESS
    assert (checked / "pecli.xml").exists()


def test_the_check_of_the_workflow_annotates_a_wrong_file(
    checked: Path, run_pecli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """CHECK is the command of the sample workflow, a `pecli verify`, and `checked` a folder with a
    manifest, in which the cosines are replaced by ones. GitHub shows lines «::error file=…» beside
    the file.
    """
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    np.save("cos.npy", np.ones((4, 4)))
    _, *words = shlex.split(CHECK)
    outcome = run_pecli(*words)

    assert outcome.exit_code == CHECK_FAILED
    assert "::error file=cos.npy" in outcome.out


@pytest.fixture(scope="module")
def machine_with_pecli(
    machine: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Return the environment of a machine on which the workflow's INSTALL has installed pecli.

    INSTALL is `pip install "$PECLI"`. Users set PECLI in the workflow; here it is the wheel of this
    folder.
    """
    assert "PECLI" in WORKFLOW["env"]

    installed = shell(INSTALL, tmp_path_factory.mktemp("install"), **machine)
    assert installed.returncode == SUCCESS, installed.stderr
    return {**machine, "GITHUB_ACTIONS": "true"}


@pytest.mark.thorough
@pytest.mark.skipif(os.name == "nt", reason="the sample is for Linux")
def test_the_installed_workflow_passes_a_right_table(
    machine_with_pecli: dict[str, str], checked: Path
) -> None:
    """CHECK is the command of samples/ci/github-workflow.yml, which a shell runs as GitHub does. By the
    manifest of `checked`, NumPy's cosines of base 10000 pass, and the report pecli.xml is written.
    """
    done = shell(CHECK, checked, **machine_with_pecli)
    assert done.returncode == SUCCESS, done.stderr
    assert (checked / "pecli.xml").exists()


@pytest.mark.thorough
@pytest.mark.skipif(os.name == "nt", reason="the sample is for Linux")
def test_the_installed_workflow_annotates_a_wrong_table(
    machine_with_pecli: dict[str, str], checked: Path
) -> None:
    """CHECK is the command of samples/ci/github-workflow.yml, which a shell runs as GitHub does. The
    cosines of `checked` are replaced by ones; GitHub shows a line «::error file=…» beside the file.
    """
    np.save(checked / "cos.npy", np.ones((4, 4)))
    done = shell(CHECK, checked, **machine_with_pecli)

    assert done.returncode == CHECK_FAILED
    assert "::error file=cos.npy" in done.stdout
