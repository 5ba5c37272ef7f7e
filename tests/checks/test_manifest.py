"""Manifests (pecli.toml): the keys that checks may have, their defaults, and one line for every
mistake in them.

The folder has config.json of a small Llama with base 10000, and dumps that NumPy made of its tables
(6 positions, 16 channels): cos.npy, both.npz, and own.safetensors, which carries its spec. A status
is passed, failed or error; expected ones follow from these files.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.checks.manifest import read_manifest
from pecli.checks.run import run_all
from pecli.errors import FileError, ParameterError
from tests.checks.waves import cos_and_sin_tables, inverse_frequencies
from tests.exit_codes import FILE_ERROR, USAGE_ERROR

CONFIG = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "rope_theta": 10000.0}
TABLES = cos_and_sin_tables(6, inverse_frequencies(10000.0, 16))
ROPE_6_BY_16 = {"scheme": "rope", "seq_len": 6, "dim": 16}
FROM_CONFIG = {"config": "config.json"}
Write = Callable[..., str]


def check_lines(file: str = "cos.npy", **keys: Any) -> str:
    """Return the lines of a manifest for one check of a file."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in {"file": file, **keys}.items()]
    return "\n".join(["[[check]]", *lines, ""])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a config, dumps of its tables, and a file that carries its spec."""
    folder = tmp_path / "sub"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    np.save(folder / "cos.npy", TABLES["cos"])
    np.savez(folder / "both.npz", **TABLES)
    pecli.save(folder / "own.safetensors", pecli.Alibi(4, 5))
    return folder


@pytest.fixture
def write_manifest(folder: Path) -> Write:
    """Return a function that writes a manifest into the folder, and returns its path."""

    def write(*texts: str) -> str:
        path = folder / "pecli.toml"
        path.write_text("".join(texts), encoding="utf-8")
        return str(path)

    return write


def statuses_of_checks(path: str, tolerances: dict[str, float] | None = None) -> list[str]:
    checks = read_manifest(path, tolerances, reasons=False)
    return [str(outcome.status) for outcome in run_all(checks)]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        pytest.param(check_lines(name="cosines", **FROM_CONFIG), "passed", id="by config"),
        pytest.param(
            check_lines("both.npz:sin", max_ulp=1, **FROM_CONFIG),
            "passed",
            id="one tensor of a file",
        ),
        pytest.param(
            check_lines(base=10000, **ROPE_6_BY_16), "passed", id="by scheme and parameters"
        ),
        pytest.param(check_lines("own.safetensors"), "passed", id="by the file's own spec"),
        pytest.param(check_lines(model="gemma-3-1b"), "failed", id="by another model"),
        pytest.param(check_lines(offset=1, **FROM_CONFIG), "failed", id="one position off"),
        pytest.param(check_lines(dtype="float16", **ROPE_6_BY_16), "failed", id="by another dtype"),
        pytest.param(check_lines("not there.npy"), "error", id="a missing file"),
        pytest.param(check_lines(config="not there.json"), "error", id="a missing config"),
    ],
)
def test_a_check_by_config_scheme_spec_or_model_has_this_status(
    write_manifest: Write, text: str, status: str
) -> None:
    """cos.npy, which `check_lines` checks unless it is given a file, and both.npz are tables of
    config.json (6 positions, 16 channels, base 10000); own.safetensors carries its spec. One
    position off, another model or another dtype fails, and a missing file is an error.
    """
    assert statuses_of_checks(write_manifest("[defaults]\natol = 1e-6\n", text)) == [status]


def test_a_config_that_is_missing_is_a_file_error_of_its_check_only(
    write_manifest: Write, folder: Path
) -> None:
    """The manifest itself is read without an error; the check has a FileError as its result. It names
    the path in the manifest's folder, in which the file was searched for.
    """
    (outcome,) = run_all(read_manifest(write_manifest(check_lines(config="not there.json"))))
    assert isinstance(outcome.result, FileError)
    assert str(folder / "not there.json") in str(outcome.result)


def test_checks_have_the_paths_and_names_of_the_manifest(
    write_manifest: Write, folder: Path
) -> None:
    """The first check is named «cosines» and is of cos.npy, the second has no name. The name or else
    the file is the label of a check; files are relative to the manifest.
    """
    path = write_manifest(
        check_lines(name="cosines", **FROM_CONFIG), check_lines("own.safetensors")
    )
    checks = read_manifest(path)

    assert [check.label for check in checks] == ["cosines", "own.safetensors"]
    assert [check.manifest for check in checks] == [path, path]
    assert checks[0].file == str(folder / "cos.npy")


def test_files_of_a_pattern_are_labelled_and_grouped(write_manifest: Write, folder: Path) -> None:
    """In the folder, b* matches both.npz, and o* own.safetensors; cos.npy is no pattern, so that its
    check is in no group.
    """
    path = write_manifest(check_lines("b*", name="n"), check_lines("o*"), check_lines("cos.npy"))
    checks = read_manifest(path)

    assert [check.label for check in checks] == ["n: both.npz", "own.safetensors", "cos.npy"]
    assert [check.group for check in checks] == [f"{path}: b*", f"{path}: o*", ""]


@pytest.mark.parametrize(
    ("default", "of_check", "of_command", "status"),
    [
        pytest.param(1e-2, {}, {}, "passed", id="a large default"),
        pytest.param(1e-6, {}, {}, "failed", id="a small default"),
        pytest.param(1e-6, {}, {"atol": 1e-2}, "passed", id="the command wins over the default"),
        pytest.param(1e-6, {"atol": 1e-2}, {}, "passed", id="the check wins over the default"),
        pytest.param(
            1e-2, {"atol": 1e-6}, {"atol": 1e-2}, "failed", id="the check wins over the command"
        ),
    ],
)
def test_the_tolerance_of_a_check_wins_over_the_commands_and_the_defaults(
    write_manifest: Write,
    default: float,
    of_check: dict[str, float],
    of_command: dict[str, float],
    status: str,
) -> None:
    """The tolerance `atol` is stated in [defaults], by the command, or by the check. The check has
    base 9990 for a table of 10000, which is off by less than 1e-2 and more than 1e-6.
    """
    path = write_manifest(
        f"[defaults]\natol = {default}\n", check_lines(base=9990, **ROPE_6_BY_16, **of_check)
    )
    assert statuses_of_checks(path, of_command) == [status]


@pytest.mark.parametrize(("style", "status"), [("whisper", "passed"), ("paper", "failed")])
def test_the_style_of_a_sinusoidal_table_is_a_key_of_a_check(
    write_manifest: Write, folder: Path, style: str, status: str
) -> None:
    """The table is Whisper's (5 positions, 6 channels), which has all sines and then all cosines;
    the paper's has them in turn.
    """
    pecli.save(folder / "pe.npy", pecli.Sinusoidal(5, 6, style="whisper", dtype="float16"))
    keys = {"scheme": "sinusoidal", "seq_len": 5, "dim": 6, "style": style}

    assert statuses_of_checks(write_manifest(check_lines("pe.npy", **keys))) == [status]


def test_the_factors_of_longrope_are_keys_of_a_check(write_manifest: Write) -> None:
    """The 6 positions are fewer than the original 64, so that the short factors count. They are all
    1: the tables of cos.npy, which are not scaled, pass.
    """
    scaling = {"scaling": "longrope", "original_max_position_embeddings": 64, "factor": 1}
    factors = {"short_factor": [1.0] * 8, "long_factor": [2] * 8}

    assert statuses_of_checks(
        write_manifest(check_lines(**ROPE_6_BY_16, **scaling, **factors, atol=1e-6))
    ) == ["passed"]


@pytest.mark.parametrize(("theta", "status"), [(10000, "passed"), (10001, "failed")])
def test_theta_is_another_key_for_the_base(write_manifest: Write, theta: int, status: str) -> None:
    """A check of a manifest states theta instead of base. The tables of both.npz have base 10000,
    so any other value fails.
    """
    assert statuses_of_checks(
        write_manifest(check_lines("both.npz", **ROPE_6_BY_16, theta=theta, atol=1e-6))
    ) == [status]


def test_theta_beside_base_is_refused(write_manifest: Write) -> None:
    """theta is another name of the parameter base, so a check of a manifest may state only one of
    them.
    """
    with pytest.raises(ParameterError, match="theta is given beside base; they are one parameter"):
        read_manifest(write_manifest(check_lines(**ROPE_6_BY_16, theta=1, base=1)))


MASK = [[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1]]
"""Two sequences of 6 tokens; the first two tokens of the second one are padding."""
PADDED_POSITIONS = [[0, 1, 2, 3, 4, 5], [0, 0, 0, 1, 2, 3]]
"""The positions that MASK implies: tokens are counted from the first that is no padding."""
QUERIES = np.random.default_rng(0).normal(size=(2, 4, 6, 16))
"""Of 2 sequences, 4 heads, 6 tokens and 16 channels, before any rotation."""
ROTATION_CHECK = {**FROM_CONFIG, "before": "queries.npy", "atol": 1e-6}
ADDITION_CHECK = {"table": "table.npy", "before": "inputs.npy", "atol": 1e-6}


def rotate_in_halves(queries: np.ndarray, positions: Any) -> np.ndarray:
    """Return queries rotated as config.json states: base 10000, channels (i, i + 8) as pairs.

    Args:
        queries: The queries (sequences, heads, tokens, 16).
        positions: The positions (sequences, tokens).
    """
    angles = np.multiply.outer(positions, 10000.0 ** (-np.arange(0, 16, 2) / 16))
    rotations = np.exp(1j * angles)[:, None]  # the same for all heads
    rotated = (queries[..., :8] + 1j * queries[..., 8:]) * rotations
    return np.concatenate([rotated.real, rotated.imag], axis=-1)


@pytest.mark.parametrize(
    ("mask_key", "status"),
    [
        pytest.param({}, "failed", id="without a mask"),
        pytest.param({"attention_mask": MASK}, "passed", id="with a mask"),
        pytest.param({"attention_mask": "mask.npy"}, "passed", id="with a mask in a file"),
        pytest.param({"attention_mask": "not there.npy"}, "error", id="with a missing mask"),
    ],
)
def test_queries_with_left_padding_pass_only_with_their_mask(
    write_manifest: Write, folder: Path, mask_key: dict[str, Any], status: str
) -> None:
    """Left padding moves the tokens of the second sequence to positions 0 to 3; without the mask,
    positions 2 to 5 are expected. The mask may be a list or a file.
    """
    np.save(folder / "queries.npy", QUERIES)
    np.save(folder / "rotated.npy", rotate_in_halves(QUERIES, PADDED_POSITIONS))
    np.save(folder / "mask.npy", MASK)

    manifest = write_manifest(check_lines("rotated.npy", **ROTATION_CHECK, **mask_key))
    assert statuses_of_checks(manifest) == [status]


@pytest.mark.parametrize(
    ("shift", "status"),
    [
        pytest.param(-3, "passed", id="the shift of the file"),
        pytest.param(3, "failed", id="the shift the other way"),
    ],
)
def test_a_shifted_cache_passes_only_with_its_shift(
    write_manifest: Write, folder: Path, shift: int, status: str
) -> None:
    """A cache of rotated keys is shifted by −3 if every key, wherever it is, is rotated again by the
    angles of position −3. NumPy does that here.
    """
    cache = QUERIES
    np.save(folder / "cache.npy", cache)
    np.save(folder / "shifted.npy", rotate_in_halves(cache, np.full((2, 6), -3)))

    keys = {**FROM_CONFIG, "before": "cache.npy", "shift": shift, "atol": 1e-6}
    assert statuses_of_checks(write_manifest(check_lines("shifted.npy", **keys))) == [status]


@pytest.mark.parametrize(
    ("keys", "status"),
    [
        pytest.param({}, "failed", id="without a mask"),
        pytest.param({"attention_mask": MASK}, "passed", id="with a mask"),
        pytest.param({"attention_mask": "mask.npy"}, "passed", id="with a mask in a file"),
        pytest.param({"attention_mask": "not there.npy"}, "error", id="with a missing mask"),
        pytest.param({"positions": PADDED_POSITIONS}, "failed", id="with positions only"),
    ],
)
def test_inputs_to_which_rows_were_added_pass_only_with_their_mask(
    write_manifest: Write, folder: Path, keys: dict[str, Any], status: str
) -> None:
    """A learned table has a row for each position, which the model adds to its token, but adds nothing
    to the two tokens of padding. With positions only, row 0 would be expected on them as well.
    """
    table = np.eye(8, 16)  # row n has a single 1, in channel n
    inputs = QUERIES[:, 0]
    sums = inputs + table[PADDED_POSITIONS]
    sums[1, :2] = inputs[1, :2]  # the padding
    np.save(folder / "table.npy", table)
    np.save(folder / "inputs.npy", inputs)
    np.save(folder / "sums.npy", sums)
    np.save(folder / "mask.npy", MASK)

    manifest = write_manifest(check_lines("sums.npy", **ADDITION_CHECK, **keys))
    assert statuses_of_checks(manifest) == [status]


CHECK = '[[check]]\nfile = "cos.npy"\n'
MALFORMED_MANIFESTS = json.loads(
    Path(__file__).with_name("malformed_manifests.json").read_text(encoding="utf-8")
) | {
    f"[[check]]\nfile = 0x{'f' * 5000}": "check 1: file is a number of thousands of digits; it must be a text",
    CHECK
    + f"scheme = 'alibi'\nheads = 4\nrule = [0x{'f' * 5000}]": "rule is a number of thousands of digits",
    CHECK + f"scheme = '{'a' * 5000}'": "scheme is 'aaaaaaaa",
    ("a." * 20000) + "a = 1": "nested too deep in line 1",
    "[" + '"a" . ' * 40 + "a]": "nested too deep in line 1",
    CHECK + "x = {" + "a." * 40 + "a = 1}": "nested too deep in line 3",
    "#" * (3 << 20): "larger than 512 KB",
    "a = [" * 5000: "is not TOML: ",
    f"a = {'1' * 5000}": "is not TOML: ",
}


@pytest.mark.parametrize("text", MALFORMED_MANIFESTS, ids=lambda text: text[:60])
def test_a_malformed_manifest_is_reported_in_one_line(
    write_manifest: Write, run_pecli: Any, text: str
) -> None:
    """Each case of MALFORMED_MANIFESTS is a text with a mistake and the part of the error that
    names it: a manifest of 3 MiB is «larger than 512 KB», for example. Broken TOML is a file error,
    everything else a usage error.
    """
    path = write_manifest(text)
    outcome = run_pecli("verify", path)

    assert outcome.exit_code == (FILE_ERROR if "is not TOML" in outcome.err else USAGE_ERROR)
    assert outcome.out == ""
    assert outcome.err.startswith(f"pecli: error: {path}")
    assert MALFORMED_MANIFESTS[text] in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_manifest_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    """The manifest begins with the byte 0xFF, which begins no character in UTF-8."""
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(FileError, match="UTF-8"):
        read_manifest(str(tmp_path / "x.toml"))


def test_a_manifest_that_is_missing_is_a_file_error(tmp_path: Path) -> None:
    """`read_manifest` reads the TOML file with the checks of a project; y.toml does not exist."""
    with pytest.raises(FileError, match="does not exist"):
        read_manifest(str(tmp_path / "y.toml"))


def test_a_folder_is_refused_as_a_manifest(tmp_path: Path) -> None:
    """A manifest is a TOML file of checks; `read_manifest` is given the path of a folder."""
    with pytest.raises(FileError, match="folder"):
        read_manifest(str(tmp_path))


def test_a_manifest_has_at_most_512_kilobytes(write_manifest: Write) -> None:
    """A check followed by a comment that fills the file to 512 · 1024 bytes is read; one character
    more is refused.
    """
    text = check_lines("a")
    largest = text.ljust(512 * 1024, "#")

    assert len(read_manifest(write_manifest(largest))) == 1
    with pytest.raises(ParameterError, match="larger than 512 KB; a manifest has thousands"):
        read_manifest(write_manifest(f"{largest}#"))


@pytest.mark.parametrize(
    "key", ["file = 'pipe'", "file = 'pipe:cos'", "file = 'x.npy'\nbefore = 'pipe'"]
)
def test_a_pipe_is_refused_as_a_file_of_a_check(
    write_manifest: Write, run_pecli: Any, key: str
) -> None:
    """«pipe» is a named pipe, which nothing writes: reading it would wait for ever."""
    path = write_manifest(f"[[check]]\n{key}\nscheme = 'rope'\nseq_len = 4\ndim = 4\n")
    os.mkfifo(os.path.join(os.path.dirname(path), "pipe"))
    outcome = run_pecli("verify", path)

    assert outcome.exit_code == FILE_ERROR
    assert "is a pipe or a device" in outcome.err


READ_UNKNOWN = """
import sys
from pecli.checks.manifest import read_manifest
from pecli.errors import ParameterError

try:
    read_manifest(sys.argv[1])
except ParameterError as problem:
    assert "unknown" in str(problem)
"""


@pytest.mark.thorough
def test_the_largest_manifest_of_nested_tables_is_refused_within_220_mib(
    write_manifest: Write, peak_memory: Callable[..., int]
) -> None:
    """A manifest has at most 512 KB, so that TOML's parser takes little memory. These 35,000 nested
    tables, of unknown names, fill it: measured were 143 MiB, 38 of them for Python and pecli, and
    220 leaves room for other versions of Python. A file ten times as long would take 1 GiB.
    """
    path = write_manifest(*(f"[{number:x}.a]\nb.c=1\n" for number in range(35_000)))

    assert 500 * 1024 < os.path.getsize(path) <= 512 * 1024
    assert peak_memory("-c", READ_UNKNOWN, path) < 220


def test_a_check_with_a_pattern_of_a_thousand_folders_matches_no_file(tmp_path: Path) -> None:
    """Python's glob would exceed the limit of recursion on «*/*/*/…»; the check ends with an
    ordinary error.
    """
    manifest = tmp_path / "deep.toml"
    manifest.write_text(f"[[check]]\nfile = '{'*/' * 1000}*'\n")
    (check,) = read_manifest(str(manifest))

    with pytest.raises(FileError, match="matches no file"):
        check.run()
