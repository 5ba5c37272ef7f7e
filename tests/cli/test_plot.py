"""`pecli plot`, and `--plot` of the commands that make tables: text in a terminal, figures in files.

What the pictures show is tested in tests/views/pictures; here it is options, files and exit codes.
"""

import json
import os
import re
import shlex
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import pecli
from tests.exit_codes import CHECK_FAILED, SUCCESS, USAGE_ERROR
from tests.models.facts import write_gguf

SMALL_TABLE = ["sinusoidal", "--seq-len", "64", "--dim", "16"]
LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}


def test_a_figure_has_the_same_bytes_if_no_home_folder_can_be_written_to(
    process, run_pecli
) -> None:
    """Matplotlib writes a cache into the home folder; here, every home is /dev/null. `pecli plot`
    in such a process must succeed, and write the bytes of the same command in this process.
    """
    environment = {name: value for name, value in os.environ.items() if name != "MPLCONFIGDIR"}
    for variable in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        environment[variable] = os.devnull
    words = ["plot", *SMALL_TABLE, "--size", "4x3", "--dpi", "50"]
    without_home = process(*words, "-o", "a.png", env=environment)

    assert without_home.returncode == SUCCESS
    assert without_home.stderr == b""
    assert without_home.stdout.startswith(b"a.png: 4 \xc3\x97 3 inches, ")
    assert run_pecli(*words, "-o", "b.png").exit_code == SUCCESS
    assert Path("a.png").read_bytes() == Path("b.png").read_bytes()


FIGURE_OF_4_BY_3_INCHES = ["-o", "x.png", "--size", "4x3", "--dpi", "50", "--dark", "-q"]


def test_a_figure_may_have_the_largest_number_of_pixels(
    run_pecli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is set to 4 · 3 · 100^2 pixels: they are counted at 100 dots per inch, the least at
    which a figure is laid out. Written with 50 dots per inch, the figure has 200 × 150 pixels,
    which bytes 16 to 24 of a PNG file state.
    """
    monkeypatch.setattr("pecli.views.pictures.figure_size.MAX_PIXELS", 4 * 3 * 100**2)
    done = run_pecli("plot", *SMALL_TABLE, *FIGURE_OF_4_BY_3_INCHES)

    assert done.exit_code == SUCCESS
    assert done.out == ""
    assert struct.unpack(">II", Path("x.png").read_bytes()[16:24]) == (200, 150)


def test_a_figure_with_too_many_pixels_is_refused(
    run_pecli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is one pixel less than the 4 · 3 · 100^2 of the figure: less than 100 dots per inch
    count as 100.
    """
    monkeypatch.setattr("pecli.views.pictures.figure_size.MAX_PIXELS", 4 * 3 * 100**2 - 1)
    done = run_pecli("plot", *SMALL_TABLE, *FIGURE_OF_4_BY_3_INCHES)

    assert done.exit_code == USAGE_ERROR
    assert done.out == ""


@pytest.mark.parametrize(
    ("name", "shown", "kind"),
    [
        pytest.param("\x1b[31m", r"\x1b[31m", "curves", id="an escape sequence"),
        pytest.param("a\x00b", r"a\x00b", "curves", id="NUL"),
        pytest.param("\ufffe1", r"\ufffe1", "heatmap", id="no character"),
        pytest.param("日本語", "日本語", "heatmap", id="Japanese"),
        pytest.param("\u202e1", r"\u202e1", "heatmap", id="writing from right to left"),
    ],
)
@pytest.mark.sample(2)
def test_a_tensor_of_any_name_is_named_in_a_figure(
    run_pecli, name: str, shown: str, kind: str
) -> None:
    """A figure is drawn without a warning although Matplotlib's font lacks Japanese, and no font has
    control characters. Those are shown as Python's escapes, such as \\x1b for ESC. The title has
    only the first character of the name, so that the whole name is that of the tensor.
    """
    table = np.arange(12.0).reshape(3, 4)
    pecli.save("x.safetensors", {name: table, "other": table})
    words = ("--kind", kind, "--title", name[0])
    made = run_pecli("plot", "x.safetensors", *words, "-o", "x.svg")

    assert made.exit_code == SUCCESS
    assert made.err == ""

    texts = [text for element in ElementTree.parse("x.svg").iter() for text in element.itertext()]
    assert any(shown in text for text in texts)


TABLES_OF_EXTREME_NUMBERS = {
    "the smallest number": np.eye(6, 8) * 5e-324,
    "tiny": np.arange(48.0).reshape(6, 8) * 1e-310,
    "one large number": np.full((6, 8), 1e300),
    "large neighbours": 1e300 * (1 + np.arange(48).reshape(6, 8) % 3 * 2.3e-16),
    "the largest number": np.where(np.eye(6, 8), 1.7976931348623157e308, 0.0),
    "minus one in all rows, whose cosines differ only by rounding": -np.ones((6, 8)),
}
KINDS_WITH_FIGURES = ("heatmap", "curves", "similarity")


@pytest.mark.parametrize("kind", KINDS_WITH_FIGURES)
@pytest.mark.parametrize("name", TABLES_OF_EXTREME_NUMBERS)
@pytest.mark.sample(2)
def test_tables_of_extreme_numbers_are_drawn_or_refused(run_pecli, name: str, kind: str) -> None:
    """Tables of denormals, 1e300 or the largest double: `pecli plot` makes a picture without any
    warning, in the terminal and as a figure, or an error of one line.
    """
    np.save("x.npy", TABLES_OF_EXTREME_NUMBERS[name])
    for output in ([], ["-o", "x.svg"]):
        drawn = run_pecli("plot", "x.npy", "--kind", kind, *output)
        assert drawn.exit_code in (SUCCESS, USAGE_ERROR)
        is_refused = drawn.exit_code == USAGE_ERROR
        assert drawn.err.count("\n") == (1 if is_refused else 0)


@pytest.mark.parametrize("output", [[], ["-o", "x.svg"]], ids=["terminal", "figure"])
@pytest.mark.parametrize("name", TABLES_OF_EXTREME_NUMBERS)
@pytest.mark.sample(1)
def test_differences_of_extreme_numbers_are_drawn(run_pecli, name: str, output: list[str]) -> None:
    """y.npy has the rows of x.npy in reverse order and halved, so that the files differ. `pecli diff
    --plot` draws the differences of denormals, 1e300 or the largest double without a warning, in the
    terminal or as a figure.
    """
    table = TABLES_OF_EXTREME_NUMBERS[name]
    np.save("x.npy", table)
    np.save("y.npy", table[::-1] * 0.5)
    compared = run_pecli("diff", "x.npy", "y.npy", "--plot", *output)

    assert compared.exit_code == CHECK_FAILED
    assert compared.err == ""


def test_a_picture_in_a_pipe_is_plain_text_of_80_columns(run_pecli) -> None:
    """A terminal of unknown size is taken to have 80 columns and 24 lines, one of which the shell's
    prompt takes. The title names the table of 64 positions and 16 channels.
    """
    outcome = run_pecli("plot", *SMALL_TABLE)
    lines = outcome.out.splitlines()

    assert outcome.exit_code == SUCCESS
    assert "\x1b" not in outcome.out
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    assert lines[0] == "sinusoidal, dim 16: value over 64 positions, by channel"


def test_the_option_plot_draws_as_the_command_does(run_pecli) -> None:
    """`pecli sinusoidal … --plot` prints the picture of `pecli plot sinusoidal …`."""
    picture = run_pecli("plot", *SMALL_TABLE).out
    assert run_pecli(*SMALL_TABLE, "--plot").out == picture


def test_a_table_may_be_written_and_drawn(run_pecli) -> None:
    """The output is the line about the file, then the picture that `pecli plot` prints."""
    picture = run_pecli("plot", *SMALL_TABLE).out
    outcome = run_pecli(*SMALL_TABLE, "--plot", "-o", "pe.npy")

    assert outcome.out.startswith("pe.npy")
    assert outcome.out.endswith(picture)
    assert Path("pe.npy").exists()


def test_a_quiet_command_draws_nothing(run_pecli) -> None:
    """`pecli sinusoidal … --plot -q`: -q wins."""
    assert run_pecli(*SMALL_TABLE, "--plot", "-q").out == ""


@pytest.mark.parametrize(
    "line",
    [
        "rope --seq-len 64 --dim 16",
        "alibi --heads 4 --seq-len 16",
        "alibi --heads 4",
        "learned-init --max-len 64 --dim 16",
        "rope --model gemma-3-1b --seq-len 16",
    ],
)
def test_every_command_that_makes_tables_draws_them(run_pecli, line: str) -> None:
    """The picture has a title and more than seven lines, and there are no warnings."""
    outcome = run_pecli(*line.split(), "--plot")
    assert outcome.exit_code == SUCCESS
    assert outcome.err == ""
    assert len(outcome.out.splitlines()) > 8


def test_a_title_that_no_font_has_is_drawn(run_pecli) -> None:
    """The name of the file is no text either: it has a byte that is not UTF-8."""
    np.save("\udcff.npy", np.ones((3, 4)))
    outcome = run_pecli("plot", "\udcff.npy", "--title", "漢字 of 1", "-o", "x.png")
    assert outcome.exit_code == SUCCESS
    assert outcome.err == ""


def test_a_title_may_have_two_lines(run_pecli) -> None:
    """The title of --title stands above the picture."""
    outcome = run_pecli("plot", *SMALL_TABLE, "--title", "two\nlines")
    assert outcome.out.startswith("two\nlines\n")


def test_a_file_is_named_in_the_title(run_pecli) -> None:
    """The file has a sinusoidal table of 64 positions."""
    pecli.save("pe.safetensors", pecli.Sinusoidal(64, 16))
    outcome = run_pecli("plot", "pe.safetensors")
    assert outcome.out.startswith("pe.safetensors: value over 64 positions")


def test_a_file_with_a_spec_has_the_pictures_of_its_scheme(run_pecli) -> None:
    """The file carries the spec of a sinusoidal scheme, so `pecli plot` can draw its wavelengths; a
    bare array has none.
    """
    pecli.save("pe.safetensors", pecli.Sinusoidal(64, 16))
    outcome = run_pecli("plot", "pe.safetensors", "--kind", "wavelengths")
    assert outcome.exit_code == SUCCESS


def test_files_and_schemes_are_drawn_beside_each_other(run_pecli) -> None:
    """`pecli plot` of a tensor of a file (FILE:NAME), a file, and, after --against, a scheme with
    its options: all are drawn in one picture.
    """
    pecli.save("pe.safetensors", pecli.Sinusoidal(64, 16))
    np.save("w.npy", np.ones((8, 4)))
    outcome = run_pecli("plot", "pe.safetensors:pe", "w.npy", "--against", "rope", "--dim", "4")

    assert outcome.exit_code == SUCCESS
    assert "w.npy" in outcome.out
    assert "rope" in outcome.out


@pytest.fixture
def two_files_of_one_name(working_folder: Path) -> tuple[str, str]:
    for folder in ("ours", "theirs"):
        Path(folder).mkdir()
        np.save(f"{folder}/pe.npy", np.ones((4, 4)))
    return "ours/pe.npy", "theirs/pe.npy"


def test_files_of_one_name_are_named_with_their_folders(run_pecli, two_files_of_one_name) -> None:
    """The files are ours/pe.npy and theirs/pe.npy; without folders, the curves in the picture of
    `pecli plot` could not be distinguished.
    """
    outcome = run_pecli("plot", *two_files_of_one_name, "--kind", "curves")
    assert outcome.exit_code == SUCCESS
    assert "ours/" in outcome.out
    assert "theirs/" in outcome.out


def test_a_single_file_is_named_without_its_folder(run_pecli, two_files_of_one_name) -> None:
    """The title of the picture of ours/pe.npy begins with «pe.npy»."""
    assert run_pecli("plot", "ours/pe.npy").out.startswith("pe.npy: ")


def test_labels_name_the_curves_in_order(run_pecli) -> None:
    """Without colours, the curves are drawn with the letters * and o."""
    words = ("rope", "--against", "rope", "--theta", "500", "--kind", "decay")
    outcome = run_pecli("plot", *words, "--label", "first", "--label", "second")
    assert "* first   o second" in outcome.out


def test_a_missing_file_is_not_taken_for_a_scheme(run_pecli) -> None:
    """`pecli plot` takes a scheme or a file; «none.npy» has the suffix of a file."""
    assert run_pecli("plot", "none.npy").err == "pecli: error: none.npy: does not exist\n"


def test_a_scheme_after_against_has_the_size_of_the_one_before_it(run_pecli) -> None:
    """Heads of Llama 3.1 have 128 channels. The rope after --against has no --dim of its own, so it
    is drawn like one with --dim 128; only its size is taken over, and its base is its own. The
    legend names both curves (* and o), that of Llama 3.1 by its context before and after scaling.
    """
    words = ("plot", "rope", "--model", "llama-3.1-8b", "--against", "rope", "--theta", "10000")
    kind = ("--kind", "wavelengths")
    without_dim = run_pecli(*words, *kind)
    with_dim_128 = run_pecli(*words, "--dim", 128, *kind)
    with_dim_64 = run_pecli(*words, "--dim", 64, *kind)

    assert without_dim.exit_code == SUCCESS
    legend = "* llama-3.1-8b, 8,192 → 131,072   o rope, dim 128, base 10000"
    assert without_dim.out.splitlines()[-1] == legend
    assert without_dim.out == with_dim_128.out
    assert without_dim.out != with_dim_64.out


LIMIT_OF_MEMORY = 1 << 26
"""Bytes, 64 MiB: as much as the smaller of the large tables, so that none can be held whole."""


@pytest.fixture
def peak_of_pythons_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """Start to measure memory; the value is a function that returns its peak in bytes."""
    monkeypatch.setenv("PECLI_KERNELS", "0")  # Loading compiled loops takes memory once.
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


@pytest.mark.parametrize("kind", KINDS_WITH_FIGURES)
def test_a_large_file_is_drawn_without_being_held_in_memory(
    run_pecli, kind: str, peak_of_pythons_memory: Callable[[], int]
) -> None:
    """large.npy has 2^18 rows of 128 zeros in float32, which are 2^27 bytes = 128 MiB, twice the
    limit.
    """
    rows = 1 << 18
    with open("large.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f4", "fortran_order": False, "shape": (rows, 128)}
        )
        file.truncate(file.tell() + rows * 128 * 4)  # zeros, which take no room on the disk

    assert run_pecli("plot", "large.npy", "--kind", kind).exit_code == SUCCESS
    assert peak_of_pythons_memory() < LIMIT_OF_MEMORY


def test_a_large_table_that_is_computed_is_drawn_without_being_held_in_memory(
    run_pecli, peak_of_pythons_memory: Callable[[], int]
) -> None:
    """2^18 = 262,144 rows of 64 float32 are 2^26 bytes, as much as the limit. The last label of the
    axis of positions is 200000: the labels are steps of 100,000 or of a part of it.
    """
    drawn = run_pecli("plot", "sinusoidal", "--seq-len", 1 << 18, "--dim", 64)

    assert drawn.exit_code == SUCCESS
    assert "200000 │" in drawn.out
    assert peak_of_pythons_memory() < LIMIT_OF_MEMORY


@pytest.mark.parametrize(
    "words",
    [("--model", "llama-3.1-8b"), ("--config=llama-3.1-8b",), ("llama-3.1-8b",)],
    ids=" ".join,
)
def test_a_model_stands_for_its_rotary_scheme(run_pecli, words: tuple[str, ...]) -> None:
    """The name of a model alone draws the same as its scheme with --model."""
    kind = ("--kind", "wavelengths")
    expected = run_pecli("plot", "rope", "--model", "llama-3.1-8b", *kind).out
    assert expected != ""
    assert run_pecli("plot", *words, *kind).out == expected


def test_models_without_options_stand_beside_each_other(run_pecli) -> None:
    """Two names or paths mean the same as `--model A --against rope --config B`."""
    Path("config.json").write_text(json.dumps(LLAMA))
    pair = ("--model", "llama-2-7b", "--against", "rope", "--config", "config.json")
    expected = run_pecli("plot", "rope", *pair, "--kind", "decay").out
    assert expected != ""
    assert run_pecli("plot", "llama-2-7b", "config.json", "--kind", "decay").out == expected


def test_a_folder_with_only_a_config_is_a_model(run_pecli) -> None:
    """The folder has the config.json of a small Llama, and no weights beside it."""
    Path("folder").mkdir()
    Path("folder/config.json").write_text(json.dumps(LLAMA))
    assert run_pecli("plot", "folder", "--kind", "decay").exit_code == SUCCESS


def test_a_folder_with_weights_beside_its_config_is_drawn_as_tensors(run_pecli) -> None:
    """Its table has another picture than the encoding that the configuration describes."""
    Path("folder").mkdir()
    Path("folder/config.json").write_text(json.dumps(LLAMA))
    pecli.save("folder/model.safetensors", {"wpe.weight": np.eye(8, dtype=np.float32)})
    outcome = run_pecli("plot", "folder")

    assert outcome.exit_code == SUCCESS
    assert outcome.out.startswith("folder: value over 8 positions, by channel")


def test_a_model_takes_the_options_of_rope(run_pecli) -> None:
    """The name of a model alone stands for `rope --model` with that name."""
    expected = run_pecli("plot", "rope", "--model", "llama-2-7b", "--seq-len", "16").out
    assert expected != ""
    assert run_pecli("plot", "llama-2-7b", "--seq-len", "16").out == expected


def test_a_picture_of_a_difference_carries_its_command(run_pecli) -> None:
    """The metadata of the figure has the command, without the options that only concern output."""
    np.save("a.npy", np.zeros((4, 4)))
    np.save("b.npy", np.ones((4, 4)))
    run_pecli("diff", "a.npy", "b.npy", "--atol", "0.5", "-o", "x.svg", "-q")
    assert metadata_of_figure("x.svg")["command"] == "pecli diff a.npy b.npy --atol 0.5"


def test_a_picture_of_an_audit_carries_its_command_and_spec(run_pecli) -> None:
    """The command also has the default of the tolerance, which a later version may change."""
    line = "audit rope --seq-len 64 --dim 8 --recipes float32"
    run_pecli(*line.split(), "-o", "y.svg", "-q")
    metadata = metadata_of_figure("y.svg")

    assert metadata["command"] == f"pecli {line} --tolerance 0.001"
    assert metadata["specs"] == [as_json(pecli.Rope(64, 8).spec())]


def test_wavelengths_of_a_file_without_a_spec_are_those_of_the_identified_scheme(run_pecli) -> None:
    """Wavelengths belong to a scheme. An .npy file has no spec, so that the scheme is identified
    from the numbers of the table.
    """
    np.save("pe.npy", pecli.Sinusoidal(256, 32, base=500.0).tables()["pe"])
    outcome = run_pecli("plot", "pe.npy", "--kind", "wavelengths", "-o", "x.svg")
    assert outcome.exit_code == SUCCESS
    assert outcome.err == ""


def metadata_of_figure(name: str) -> dict[str, Any]:
    """Return the JSON object that pecli writes into every figure: its command and its specs."""
    readers = {".png": metadata_of_png, ".svg": metadata_of_svg, ".pdf": metadata_of_pdf}
    path = Path(name)
    return json.loads(readers[path.suffix](path))


def metadata_of_png(path: Path) -> bytes:
    """Return the text with the keyword «pecli»: a chunk is its length (4 bytes, big-endian), its type
    tEXt, and then the keyword, NUL and the text.
    """
    data = path.read_bytes()
    start = data.index(b"tEXt")
    (length,) = struct.unpack(">I", data[start - 4 : start])
    content = data[start + 4 : start + 4 + length]
    keyword, _, text = content.partition(b"\0")
    assert keyword == b"pecli"
    return text


def metadata_of_svg(path: Path) -> str:
    """Return the only description of the image, in the terms of Dublin Core."""
    root = ElementTree.parse(path).getroot()
    (description,) = root.iter("{http://purl.org/dc/elements/1.1/}description")
    return description.text or ""


def metadata_of_pdf(path: Path) -> bytes:
    """Return the subject of the document: text in round brackets, in which a backslash stands before
    brackets and backslashes.
    """
    subject = re.search(rb"/Subject \((.*?[^\\])\)", path.read_bytes(), re.S)
    assert subject is not None
    return re.sub(rb"\\(.)", rb"\1", subject[1])


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
@pytest.mark.sample("png", "svg")
def test_a_figure_carries_its_command_and_its_specs(run_pecli, suffix: str) -> None:
    """A figure in any format has the command that drew it, without its output file, and the spec of
    each of its schemes with the label of its curve. Both schemes have 512 positions, the default for
    pictures of wavelengths.
    """
    words = ["rope", "--model", "llama-3.1-8b", "--against", "rope", "--dim", "32"]
    options = ["--kind", "wavelengths", "--label", "scaled (3.1)", "--label", "plain"]
    drawn = run_pecli("plot", *words, *options, "-o", f"x.{suffix}")
    assert drawn.exit_code == SUCCESS

    metadata = metadata_of_figure(f"x.{suffix}")
    assert metadata["command"] == "pecli " + shlex.join(["plot", *words, *options])

    llama = pecli.load_model("llama-3.1-8b").one().rope(512)
    plain = pecli.Rope(512, 32)
    spec_of_llama, spec_of_plain = metadata["specs"]
    assert spec_of_llama == as_json({"label": "scaled (3.1)", **llama.spec()})
    assert spec_of_plain == as_json({"label": "plain", **plain.spec()})


def as_json(value: object) -> Any:
    """Return a value as a JSON file has it, with lists in place of tuples."""
    return json.loads(json.dumps(value))


def test_the_command_that_a_figure_carries_makes_the_same_bytes_again(run_pecli) -> None:
    """The command stands in the description of an SVG file, without the name of the file."""
    words = ["rope", "--model", "llama-3.1-8b", "--against", "rope", "--dim", "32"]
    labels = ["--label", "scaled (3.1)", "--label", "plain"]
    run_pecli("plot", *words, "--kind", "wavelengths", *labels, "-o", "x.svg")
    command = metadata_of_figure("x.svg")["command"]
    again = run_pecli(*shlex.split(command)[1:], "-o", "y.svg")

    assert again.exit_code == SUCCESS
    assert Path("y.svg").read_bytes() == Path("x.svg").read_bytes()


LLAMA_GGUF = {"context_length": 64, "embedding_length": 64, "attention.head_count": 4}


@pytest.mark.parametrize(
    ("options", "reason"),
    [([], "none of them has rows and columns"), (["--kind", "slopes"], "none of them fits --kind")],
)
def test_a_gguf_without_tables_is_refused_with_the_command_that_draws_its_encoding(
    run_pecli, options: list[str], reason: str
) -> None:
    """The file has a single tensor, a vector, as the header of a Llama 3.1 may have."""
    write_gguf(Path("m.gguf"), "llama", LLAMA_GGUF, {"rope_freqs.weight": [1.0] * 8})
    outcome = run_pecli("plot", "m.gguf", *options)

    assert outcome.exit_code == USAGE_ERROR
    assert reason in outcome.err
    assert outcome.err.endswith("pecli plot --model m.gguf draws its encoding\n")


def test_the_option_model_of_plot_takes_a_gguf_file(run_pecli) -> None:
    """The header of a GGUF file describes a model, here a small Llama with a rope. `pecli plot
    --model` draws the table of a rope with the title «cosine and sine over … positions».
    """
    write_gguf(Path("m.gguf"), "llama", LLAMA_GGUF)
    outcome = run_pecli("plot", "--model", "m.gguf")

    assert outcome.exit_code == SUCCESS
    assert "cosine and sine over" in outcome.out.splitlines()[0]
