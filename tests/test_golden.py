"""The golden suite against Arb's ball arithmetic, element by element, and as a folder of files.

A golden suite is a folder of cases with which ports (implementations in other languages) test
themselves: index.json, and per case a file of numbers, spelled as decimals, in hexadecimal, and
rounded to narrower dtypes. Arb computes with intervals of arbitrary precision («balls»), so that
rounding is certain; the formulas of every scheme are written again here. Cases named mistake-… hold
tables with a known mistake. Runners in samples/golden are small ports in JavaScript, Rust, C, shell
and torch.
"""

import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from flint import arb

from pecli.golden import write
from tests import oracle
from tests.exit_codes import CHECK_FAILED, FILE_ERROR, SUCCESS, USAGE_ERROR
from tests.oracle import frequencies, rational
from tests.readme import environment


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    write(str(folder))
    return folder


def entries_of_index(folder: Path) -> dict[str, Any]:
    return {
        entry["name"]: entry for entry in json.loads((folder / "index.json").read_text())["cases"]
    }


def copy_with_cases(suite: Path, folder: Path, *starts: str) -> Path:
    """A copy of the suite with the cases whose names begin so."""
    copy = shutil.copytree(suite, folder / "suite")
    index = json.loads((copy / "index.json").read_text())
    index["cases"] = [entry for entry in index["cases"] if entry["name"].startswith(starts)]
    (copy / "index.json").write_text(json.dumps(index, indent=1))
    return copy


def tensors_of_case(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / f"{name}.json").read_text())["tensors"]


def assert_equal_to_balls(make: Callable[[], list[arb]], texts: Mapping[str, list[Any]]) -> None:
    """All spellings are the balls' values, correctly rounded."""
    digits = oracle.settled(lambda: oracle.digits_of(make()))
    spellings = {
        "decimal": "float64",
        "float32": "float32",
        "float16": "float16",
        "bfloat16": "bfloat16",
    }
    for name in spellings.keys() & texts.keys():
        dtype = spellings[name]
        found = np.array(texts[name], np.float64).astype(oracle.DTYPES[dtype])
        values = (oracle.values(some, dtype) for some in (oracle.bits(found), digits.round(dtype)))
        np.testing.assert_array_equal(*values)
    assert [float.fromhex(text) for text in texts.get("hex", [])] == texts.get("decimal", [])


def plain(entry: Mapping[str, Any]) -> bool:
    """Whether it is a rotary table over one axis."""
    given = entry.get("parameters", {})
    return entry.get("scheme") == "rope" and not {"grid", "axes", "mrope_section"} & given.keys()


@pytest.mark.parametrize(
    ("is_of_a_model", "least"),
    [(False, 7_000), pytest.param(True, 9_000, marks=pytest.mark.thorough)],
    ids=["every scaling", "models"],
)
def test_golden_rotary_numbers_are_those_of_arb(
    suite: Path, is_of_a_model: bool, least: int
) -> None:
    """All spellings of every number are compared with Arb's balls, correctly rounded."""
    compared = 0
    for name, entry in entries_of_index(suite).items():
        if ("model" in entry or name.startswith("model-")) != is_of_a_model:
            continue
        if not plain(entry) or "edits" in entry or "settings" in entry:
            continue
        given = entry["parameters"]
        spelled = tensors_of_case(suite, name)
        if "inv_freq" in spelled:
            assert_equal_to_balls(lambda given=given: frequencies(given)[0], spelled["inv_freq"])
        if "attention_factor" in spelled:
            assert_equal_to_balls(
                lambda given=given: [frequencies(given)[1]], spelled["attention_factor"]
            )
        if given["layout"] != "compact":
            continue
        for part in {"cos", "sin"} & spelled.keys():

            def values(part: str = part, given: Mapping[str, Any] = given) -> list[arb]:
                inverse, amplitude = frequencies(given)
                angles = [
                    rational(place) * value for place in given["positions"] for value in inverse
                ]
                return [
                    amplitude * (angle.cos() if part == "cos" else angle.sin()) for angle in angles
                ]

            assert_equal_to_balls(values, spelled[part])
            compared += len(spelled[part]["decimal"])

    assert compared > least


class HalfTurns(NamedTuple):
    """An angle in units of π, whose waves that are multiples of a half are those (Niven: no others are rational)."""

    value: arb

    def sin(self) -> arb:
        return self._settled(self.value.sin_pi())

    def cos(self) -> arb:
        return self._settled(self.value.cos_pi())

    def _settled(self, wave: arb) -> arb:
        return arb(round(float(2 * wave))) / 2 if (2 * wave).contains_integer() else wave


def inverse(pairs: int, base: float) -> list[arb]:
    """base^(−i/pairs), of which the first is exactly 1."""
    return [rational(base) ** (arb(-k) / pairs) if k else arb(1) for k in range(pairs)]


def grid_angles(style: str, given: Mapping[str, Any]) -> list[list[Any]]:
    """The angles at each point of a grid, rows before columns, as each project's convention has them."""
    sizes = given["grid"]
    pairs = given["dim"] // (4 if given["scheme"] == "sinusoidal" else 2)
    points = list(itertools.product(*map(range, sizes)))
    laws = [
        inverse(pairs // (1 if given["scheme"] == "sinusoidal" else len(sizes)), given["base"])
    ] * len(sizes)
    if style == "qwen2-vl":  # blocks of 2 × 2, one after the other
        points.sort(key=lambda point: (point[0] // 2, point[1] // 2, *point))
    elif style == "pixtral":
        laws = [inverse(pairs, given["base"])[first::2] for first in (0, 1)]
    elif style in (
        "dinov3",
        "detr",
    ):  # in half turns: from −1 to 1 between the edges, or a share of the size
        places = [[Fraction(2 * p + 1, size) - 1 for p in range(size)] for size in sizes]
        if style == "detr":
            places = [
                [(p + 1) / (size + Fraction(1, 10**6)) for p in range(size)] for size in sizes
            ]
        points = list(itertools.product(*places))
    unit = HalfTurns if style in ("dinov3", "detr") else arb
    scale = 2 if unit is HalfTurns else 1
    return [
        [
            unit(scale * rational(place) * value)
            for place, law in zip(point, laws, strict=True)
            for value in law
        ]
        for point in points
    ]


def grid_frequencies(style: str, given: Mapping[str, Any]) -> list[arb]:
    dim, count = given["dim"], len(given["grid"])
    if style == "pixtral":
        return inverse(dim // 2, given["base"])[::2] + inverse(dim // 2, given["base"])[1::2]
    return [
        (2 * arb.pi() if style == "dinov3" else 1) * f
        for f in inverse(dim // (2 * count), given["base"])
    ] * count


def waves(angles: list[Any], order: str) -> list[arb]:
    """Sines and cosines of rows (h) and columns (w): the parts of a row in order, or each sine with its cosine."""
    half = len(angles) // 2
    parts = {"h": angles[:half], "w": angles[half:], "a": angles}
    if order == "pairs":
        return [wave for angle in angles for wave in (angle.sin(), angle.cos())]
    return [
        angle.sin() if word[0] == "s" else angle.cos()
        for word in order.split()
        for angle in parts[word[1]]
    ]


ORDERS = {"mae": "sw cw sh ch", "vit-mae": "sh ch sw cw", "timm": "sa ca", "detr": "pairs"}


def sinusoidal_rows(given: Mapping[str, Any]) -> list[arb]:
    dim = given["dim"]
    half = given["dim"] // 2
    interleaved = given["layout"] == "interleaved"
    over = arb(dim) / 2 if interleaved else half - rational(given["freq_shift"])
    law = [
        rational(given["base"]) ** (-k / over) if k else arb(1)
        for k in map(arb, range(-(-dim // 2)))
    ]
    order = "pairs" if interleaved else "ca sa" if given["cos_first"] else "sa ca"
    turned = [
        [rational(place) * rational(given["scale"]) * value for value in law]
        for place in given["positions"]
    ]
    return [
        rational(given["amplitude"]) * value
        for angles in turned
        for value in waves(angles, order)[:dim]
    ]


def biases(given: Mapping[str, Any]) -> list[arb]:
    """Infinite where a causal mask hides a key."""
    found, each = [], range(given["seq_len"])
    for slope in slopes(given["heads"]):
        if given["form"] == "key":
            found += [slope * key for key in each]
        else:
            hidden = given["form"] == "causal"
            found += [
                arb("-inf") if hidden and k > q else -slope * abs(q - k) for q in each for k in each
            ]
    return found


def slopes(heads: int) -> list[arb]:
    return [arb(2) ** rational(-exponent) for exponent in oracle.get_slopes(heads)]


def test_golden_tables_of_other_schemes_are_those_of_arb_all_of_them(suite: Path) -> None:
    """The formulas of each project are written again in Arb's balls; `compared` counts the tensors,
    so that none is skipped.
    """
    compared = {"grid-rope": 0, "grid-sinusoidal": 0, "sinusoidal": 0, "alibi": 0, "table": 0}
    for name, entry in entries_of_index(suite).items():
        given = {**entry.get("parameters", {}), "scheme": entry.get("scheme")}
        spelled = tensors_of_case(suite, name)
        kind, style = (
            next((kind for kind in compared if name.startswith(kind)), ""),
            given.get("style"),
        )
        checks: dict[str, Callable[[], list[arb]]] = {}
        if kind == "grid-rope":
            checks["inv_freq"] = lambda style=style, given=given: grid_frequencies(style, given)
            checks["cos"] = lambda style=style, given=given: [
                a.cos() for row in grid_angles(style, given) for a in row
            ]
            checks["sin"] = lambda style=style, given=given: [
                a.sin() for row in grid_angles(style, given) for a in row
            ]
        elif kind == "grid-sinusoidal":
            checks["pe"] = lambda style=style, given=given: [
                value for row in grid_angles(style, given) for value in waves(row, ORDERS[style])
            ]
        elif kind == "sinusoidal":
            checks["pe"] = lambda given=given: sinusoidal_rows(given)
        elif kind == "alibi":
            checks["slopes"] = lambda given=given: slopes(given["heads"])
            if "bias" in spelled:
                seen = [value.is_finite() for value in biases(given)]
                for texts in (
                    texts for key, texts in spelled["bias"].items() if key not in ("shape", "hex")
                ):
                    assert [value != "-inf" for value in texts] == seen
                bias = {
                    key: [*itertools.compress(texts, seen)]
                    for key, texts in spelled["bias"].items()
                }
                assert_equal_to_balls(
                    lambda given=given: [value for value in biases(given) if value.is_finite()],
                    bias,
                )
        elif kind == "table" and given.get("layout") in ("halves", "interleaved"):
            for part, key in itertools.product(
                ("cos", "sin"), ("decimal", "float32", "float16", "bfloat16")
            ):
                rows = np.array(spelled[part][key]).reshape(spelled[part]["shape"])
                compact = np.array(tensors_of_case(suite, "table-default")[part][key]).reshape(
                    len(rows), -1
                )
                doubled = (
                    [compact, compact]
                    if given["layout"] == "halves"
                    else [np.repeat(compact, 2, axis=1)]
                )
                np.testing.assert_array_equal(rows, np.concatenate(doubled, axis=1))
            compared[kind] += 1
        for tensor, make in checks.items():
            assert_equal_to_balls(make, spelled[tensor])
            compared[kind] += 1
    assert compared == {
        "grid-rope": 12,
        "grid-sinusoidal": 4,
        "sinusoidal": 8,
        "alibi": 20,
        "table": 2,
    }


def rotated(before: np.ndarray, entry: Mapping[str, Any]) -> list[arb]:
    settings, given = entry["settings"], entry["parameters"]
    axis = settings.get("seq_axis", -2)
    sections = given.get("mrope_section")
    x = np.moveaxis(before, axis, -2)
    dim = given["dim"]
    half = given["dim"] // 2
    length = x.shape[-2]
    start = x.shape[-1] - dim if settings.get("trailing") else 0
    places = np.array(settings.get("positions", np.arange(length) + settings.get("offset", 0)))
    if "shift" in settings:
        places = np.full(length, settings["shift"])
    owner = np.zeros(half, int)
    if sections and given.get("mrope_interleaved"):
        owner = np.array([k % 3 if k % 3 and k // 3 < sections[k % 3] else 0 for k in range(half)])
    elif sections:
        owner = np.repeat(np.arange(3), sections)
    inverse, _ = frequencies({**given, "positions": [0]})
    out = [[rational(float(value)) for value in row] for row in x.reshape(-1, x.shape[-1])]
    paired = settings["layout"] != "halves"
    for row, index in enumerate(np.ndindex(x.shape[:-1])):
        old = list(out[row])
        for pair in range(half):
            place = places[owner[pair]] if sections else places
            place = place[index[0]] if place.ndim == 2 else place
            angle = inverse[pair] * int(place[index[-1]])
            cos = angle.cos()
            sin = -angle.sin() if settings.get("inverse") else angle.sin()
            first, second = (2 * pair, 2 * pair + 1) if paired else (pair, pair + half)
            a, b = old[start + first], old[start + second]
            if settings["layout"] == "deepseek":
                first, second = pair, pair + half
            out[row][start + first], out[row][start + second] = a * cos - b * sin, b * cos + a * sin
    order = np.moveaxis(np.arange(before.size).reshape(x.shape), -2, axis).reshape(-1)
    flat = [value for row in out for value in row]
    return [flat[place] for place in order]


def test_golden_rotations_are_those_of_arb_all_of_them(suite: Path) -> None:
    """Queries before and after a rotation, given in float32: Arb rotates what is before, by the
    case's own settings (layout, offset, axes), and rounds once.
    """
    for name, entry in entries_of_index(suite).items():
        if not name.startswith("rotate-"):
            continue
        spelled = tensors_of_case(suite, name)
        assert "decimal" not in spelled["after"]
        assert spelled["before"]["bfloat16"] == spelled["before"]["float32"]
        before = np.array(spelled["before"]["float32"]).reshape(spelled["before"]["shape"])
        after = {key: values for key, values in spelled["after"].items() if key != "shape"}
        assert_equal_to_balls(lambda before=before, entry=entry: rotated(before, entry), after)


def test_golden_suite_is_small_complete_and_the_same_every_time(
    suite: Path, tmp_path: Path
) -> None:
    """At least 150 cases in at most 3.5 MB; writing again gives the same bytes, and the index their
    SHA-256.
    """
    again = write(str(tmp_path))
    tolerances = {entry["name"]: entry["tolerances"] for entry in again}

    assert len(tolerances) == len(again) >= 150
    assert (
        tolerances["frequencies-default"]["float32_arithmetic"]
        == tolerances["frequencies-default"]["float32"]
    )
    assert sum(path.stat().st_size for path in suite.iterdir()) <= 3_500_000
    assert tensors_of_case(suite, "t5-encoder")["index"]["int"][:8] == [
        0,
        *range(17, 24),
    ]  # T5's: later keys, each its own
    for path in suite.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name
    for entry in again:
        for file, digest in entry["files"].items():
            assert hashlib.sha256((suite / file).read_bytes()).hexdigest() == digest


def test_the_command_writes_suites_and_refuses_unknown_models(run_pecli, tmp_path: Path) -> None:
    """A suite of one model has two cases; a second suite in the same folder reports the files that
    are not its own. Nothing is written for an unknown name.
    """
    outcome = run_pecli(
        "golden", "llama-3.1-8b", "-o", tmp_path / "suite", "--format", "all", "--json"
    )
    assert outcome.json["cases"] + outcome.json["others"] == [
        "frequencies-llama-3.1-8b",
        "model-llama-3.1-8b",
    ]
    assert {path.suffix for path in (tmp_path / "suite").iterdir()} == {
        ".json",
        ".safetensors",
        ".h",
    }

    again = run_pecli("golden", "qwen2.5-7b", "-o", tmp_path / "suite").out
    assert (
        "2 cases and index.json; beside them 6 files of no case: frequencies-llama-3.1-8b.h, "
        in again
    )
    assert (
        "static const float model_llama_3_1_8b_cos[3][64] ="
        in (tmp_path / "suite" / "model-llama-3.1-8b.h").read_text()
    )
    assert run_pecli("golden", "no-such-model", "-o", tmp_path / "y").exit_code == USAGE_ERROR
    assert not (tmp_path / "y").exists()
    assert (
        run_pecli(
            "golden", "llama-3.1-8b", "-o", tmp_path / "z", "--format", "safetensors"
        ).exit_code
        == SUCCESS
    )
    assert run_pecli("verify", tmp_path / "z").exit_code == SUCCESS


RUNNERS = Path(__file__).parents[1] / "samples" / "golden"


def lines_printed_by(*words: object) -> list[str]:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=120)
    return done.stdout.splitlines()


def path_of_program(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def test_golden_runner_in_javascript_fails_where_float32_does(suite: Path) -> None:
    """The runner computes in float32; with --mistake it takes base 10000 for every case."""
    node = path_of_program("node")
    *lines, summary = lines_printed_by(node, RUNNERS / "runner.js", suite)

    assert summary.startswith("4 passed, ")

    failures = [line for line in lines if line.startswith("FAILED")]
    assert failures
    assert all(line.endswith("(float32 arithmetic explains it)") for line in failures)

    wrong = [
        line
        for line in lines_printed_by(node, RUNNERS / "runner.js", suite, "--mistake")
        if line.startswith("FAILED")
    ]
    named = {line.split()[1] for line in wrong if not line.endswith("explains it)")}
    bases = {
        name: entry["parameters"].get("base")
        for name, entry in entries_of_index(suite).items()
        if "parameters" in entry
    }

    assert {"table-theta-500000", "frequencies-theta-500000", "model-llama-3-8b"} <= named
    assert all(bases[name] != 10000.0 for name in named)


def test_golden_runner_in_rust_fails_where_float32_does(suite: Path, tmp_path: Path) -> None:
    """The runner computes in float32; with --mistake it fails everywhere."""
    subprocess.run(
        [path_of_program("rustc"), "-o", tmp_path / "runner", RUNNERS / "runner.rs"],
        check=True,
        capture_output=True,
    )
    lines = lines_printed_by(tmp_path / "runner", suite)

    assert lines[-1] == "1 passed, 5 failed"
    assert any(line.startswith("passed  table-dim-2 ") for line in lines)
    assert lines_printed_by(tmp_path / "runner", suite, "--mistake")[-1] == "0 passed, 6 failed"


def test_golden_runner_in_c_fails_where_float32_does(tmp_path: Path) -> None:
    """The runner computes in float32; the fifth word from the end of a line is its error at small
    positions.
    """
    path_of_program("cc")
    write(str(tmp_path), formats=("h",))
    lines = lines_printed_by("sh", RUNNERS / "run_c.sh", tmp_path)
    near = [float(line.split()[-5]) for line in lines]

    assert [line.split()[0] for line in lines].count("passed") == 1
    assert max(near) < 1e-6


@pytest.mark.thorough
def test_golden_runner_in_c_fails_everywhere_with_a_mistake(tmp_path: Path) -> None:
    """-DMISTAKE compiles a port that exchanges sines and cosines: errors at small positions exceed
    0.1, which rounding cannot explain.
    """
    path_of_program("cc")
    write(str(tmp_path), formats=("h",))
    wrong = lines_printed_by("sh", RUNNERS / "run_c.sh", tmp_path, "-DMISTAKE")

    assert {line.split()[0] for line in wrong} == {"FAILED"}
    assert min(float(line.split()[-5]) for line in wrong) > 0.1


@pytest.mark.thorough
@pytest.mark.skipif(os.name == "nt", reason="Windows has no sh")
def test_golden_runner_in_shell_names_its_mistake(suite: Path, tmp_path: Path) -> None:
    """The port takes the base 10000 for all cases; `table-dim-2` has a single frequency, 1."""
    few = copy_with_cases(suite, tmp_path, "table-dim-2", "table-theta-500000")
    done = subprocess.run(
        ["sh", str(RUNNERS / "run_verify.sh"), str(few), "--mistake"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
    )
    right, wrong = done.stdout.splitlines()

    assert right == "passed  table-dim-2"
    assert wrong.startswith("FAILED  table-theta-500000: ")
    assert "base is 10000 (the spec says 500000)" in wrong


@pytest.mark.thorough
@pytest.mark.skipif(os.name == "nt", reason="Windows has no sh")
def test_golden_runner_in_shell_fails_where_seven_digits_do(suite: Path, tmp_path: Path) -> None:
    """The port computes with awk's seven digits; only a case with a single frequency, 1, passes.
    With --mistake its base is 10000 for all.
    """
    few = copy_with_cases(suite, tmp_path, "table-dim-2", "table-theta-500000")

    def lines(*more: str) -> dict[str, str]:
        words = ["sh", str(RUNNERS / "run_verify.sh"), str(few), *more]
        done = subprocess.run(
            words, env=environment(tmp_path), capture_output=True, text=True, timeout=120
        )
        return {line.split()[1].rstrip(":"): line for line in done.stdout.splitlines()}

    naive, wrong = lines(), lines("--mistake")

    assert [name for name, line in naive.items() if line.startswith("passed")] == ["table-dim-2"]
    assert all(
        line.endswith("explains it)") for line in naive.values() if line.startswith("FAILED")
    )
    assert [name for name in naive if wrong[name] != naive[name]] == ["table-theta-500000"]
    assert "base is 10000 (the spec says 500000)" in wrong["table-theta-500000"]


@pytest.mark.thorough
def test_golden_runner_in_torch_fails_where_float32_does(suite: Path) -> None:
    """Every failure of the float32 port is explained by float32; with --mistake a rotation fails."""
    pytest.importorskip("torch", reason="torch is not installed")
    lines = lines_printed_by(sys.executable, RUNNERS / "runner_torch.py", suite)

    assert all("explains it" in line for line in lines if line.startswith("FAILED"))

    wrong = lines_printed_by(sys.executable, RUNNERS / "runner_torch.py", suite, "--mistake")
    assert any(line.startswith("FAILED  rotate-interleaved") for line in wrong)


@pytest.mark.parametrize(
    ("cases", "least"), [("mistake-r", 5), pytest.param("", 40, marks=pytest.mark.thorough)]
)
def test_golden_suite_verifies_and_every_mistake_is_named(
    run_pecli, suite: Path, tmp_path: Path, cases: str, least: int
) -> None:
    """`verify` passes a case with a mistake if it finds the mistake's reason; all of them do, and
    there are at least as many as now.
    """
    outcome = run_pecli("verify", copy_with_cases(suite, tmp_path, cases), "--json")
    results = {result["file"]: result for result in map(json.loads, outcome.out.splitlines())}

    assert outcome.exit_code == SUCCESS, {
        name: result["diagnosis"] for name, result in results.items() if not result["passed"]
    }
    assert len([name for name in results if name.startswith("mistake-")]) >= least


def test_golden_suite_that_was_changed_fails(run_pecli, suite: Path, tmp_path: Path) -> None:
    """Changed: a number, a missing file, a right table that claims a mistake, another reason,
    another factor.
    """
    copy = shutil.copytree(suite, tmp_path / "suite")
    index = json.loads((copy / "index.json").read_text())
    (copy / "table-default.json").write_text(
        (copy / "table-default.json").read_text().replace("0.5", "0.6", 1)
    )
    by_name = {entry["name"]: entry for entry in index["cases"]}
    (copy / "table-ntk.json").unlink()
    changed = (
        "table-default",
        "table-ntk",
        "table-linear",
        "mistake-swapped-functions",
        "table-yarn",
    )
    index["cases"] = [
        by_name[name]
        for name in ("table-dim-2", "rotate-interleaved", "mistake-reversed-rows", *changed)
    ]
    by_name["mistake-swapped-functions"]["edits"] = [
        {"edit": "negated", "which": "cos"}
    ]  # a reason that is not the right one
    by_name["table-linear"]["edits"] = by_name["mistake-reversed-rows"][
        "edits"
    ]  # of a table that is right
    by_name["table-yarn"]["parameters"]["factor"] = 8.0
    (copy / "index.json").write_text(json.dumps(index))
    outcome = run_pecli("verify", copy, "--json")
    failed = {
        row["file"]: row["diagnosis"]
        for row in map(json.loads, outcome.out.splitlines())
        if not row["passed"]
    }

    assert outcome.exit_code == CHECK_FAILED
    assert failed.keys() == {*changed}
    assert failed["table-linear"] == ["a known mistake passes"]


def test_golden_answers_of_a_port_get_verdicts_with_reasons(
    run_pecli, suite: Path, tmp_path: Path
) -> None:
    """The port's tables are computed by NumPy: those of four cases, of which one is wrong, because
    its sines for theta 500000 have base 10000.
    """
    places = np.array(json.loads((suite / "index.json").read_text())["positions"], np.float64)
    angles = places[:, None] * 10000.0 ** (-np.arange(16) / 16)
    spelled = tensors_of_case(suite, "rotate-interleaved")["before"]
    before = np.array(spelled["float32"]).reshape(spelled["shape"])
    after = [
        float(value) for value in rotated(before, entries_of_index(suite)["rotate-interleaved"])
    ]
    answers = {
        "rotate-interleaved": np.array(after).reshape(before.shape),
        "table-default.cos": np.cos(angles).astype(np.float32),
        "table-default.sin": np.sin(angles).astype(np.float32),
        "table-theta-500000/cos": np.cos(
            places[:, None] * 500000.0 ** (-np.arange(16) / 16)
        ),  # and sines as before
        "table-theta-500000/sin": np.sin(angles),
        "frequencies-default": 10000.0 ** (-np.arange(16) / 16),
    }
    np.savez(tmp_path / "answers.npz", **answers)
    outcome = run_pecli("verify", "--golden", suite, tmp_path / "answers.npz", "--json")
    results = {result["file"]: result for result in map(json.loads, outcome.out.splitlines())}
    (unanswered,) = results.pop(str(suite))["weak"]  # but for mistakes, which are no questions
    asked = [
        case
        for case in json.loads((suite / "index.json").read_text())["cases"]
        if "edits" not in case
    ]

    assert unanswered.startswith(f"{len(asked) - 4} of {len(asked)} cases have no answer: ")
    assert results.keys() == {
        "table-default",
        "table-theta-500000",
        "frequencies-default",
        "rotate-interleaved",
    }
    assert [name for name, result in results.items() if not result["passed"]] == [
        "table-theta-500000"
    ]
    assert results["table-theta-500000"]["explanations"][0]["edits"][0]["name"] == "base"


@pytest.fixture
def one_answer(tmp_path: Path) -> Path:
    """A file with the right answer to one case: 10000^(−i/16), by NumPy."""
    path = tmp_path / "one.npz"
    np.savez(path, **{"frequencies-default": 10000.0 ** (-np.arange(16) / 16)})
    return path


@pytest.mark.parametrize(("options", "code"), [([], SUCCESS), (["--strict"], CHECK_FAILED)])
def test_cases_without_an_answer_fail_only_a_strict_check(
    run_pecli, suite: Path, one_answer: Path, options: list[str], code: int
) -> None:
    """A port answers one case of the golden suite only; --strict requires an answer to each."""
    assert run_pecli("verify", "--golden", suite, one_answer, *options).exit_code == code


def test_golden_answers_to_an_unknown_case_are_refused(
    run_pecli, suite: Path, tmp_path: Path
) -> None:
    """The error shows the form of names, CASE.TENSOR, and the cases that there are."""
    np.savez(tmp_path / "other.npz", **{"no-such-case.cos": np.ones(4)})
    outcome = run_pecli("verify", "--golden", suite, tmp_path / "other.npz")

    assert outcome.exit_code == FILE_ERROR
    assert "name answers CASE.TENSOR; cases are " in outcome.err


def test_golden_answers_beside_another_index_json_are_refused(
    run_pecli, tmp_path: Path, one_answer: Path
) -> None:
    """Many programs write a file of that name; an empty object is no index of a suite."""
    (tmp_path / "index.json").write_text("{}")
    outcome = run_pecli("verify", "--golden", tmp_path, one_answer)

    assert "is not the index of a golden" in outcome.err


def test_a_model_beside_a_golden_suite_is_refused(run_pecli, suite: Path, one_answer: Path) -> None:
    """The suite states what is right, so that --model would have no effect."""
    words = ("verify", "--golden", suite, one_answer, "--model", "llama-2-7b")
    assert run_pecli(*words).exit_code == USAGE_ERROR


def test_golden_models_agree_with_transformers_within_the_stated_tolerance(suite: Path) -> None:
    """golden_transformers.json holds tables of transformers' own float32 modules: near position 0
    they keep twice the float32 tolerance, farther out the one of float32 arithmetic, which is
    larger for that reason.
    """
    theirs = json.loads((Path(__file__).parent / "golden_transformers.json").read_text())
    assert len(theirs) >= 20

    index = entries_of_index(suite)
    for name, parts in theirs.items():
        spelled = tensors_of_case(suite, f"model-{name}")
        for part, values in parts.items():
            found = np.array(spelled[part]["decimal"]).reshape(spelled[part]["shape"])
            error = np.abs(found - np.array(values).reshape(found.shape)).max(axis=1)
            near, far = error[0], error.max()
            limits = index[f"model-{name}"]["tolerances"]
            assert near <= 2 * limits["float32"], name
            assert far <= limits["float32_arithmetic"], name
            assert far > limits["float32"], name  # float32 arithmetic shows


def test_a_plain_float64_port_keeps_the_float64_tolerance(suite: Path) -> None:
    """NumPy's power and cosine in float64 up to position 10^6: off by more than 1e-13, because
    angles are rounded, but within the case's tolerance.
    """
    positions = np.array(
        [0, 1, 2, 255, 256, 257, 4095, 4096, 4097, 32767, 131071, 1_000_000], np.float64
    )
    name = "table-theta-500000"
    spelled = tensors_of_case(suite, name)["cos"]
    exact = np.array(spelled["decimal"]).reshape(spelled["shape"])
    pairs = exact.shape[1]
    found = np.cos(np.outer(positions, 500000.0 ** -(np.arange(pairs) / pairs)))

    assert (
        1e-13
        < np.abs(found - exact).max()
        <= entries_of_index(suite)[name]["tolerances"]["float64"]
        < 1e-9
    )
