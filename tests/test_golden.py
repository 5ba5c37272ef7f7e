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
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
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


def has_one_axis_of_positions(entry: Mapping[str, Any]) -> bool:
    """Return False for points of a grid, and for positions of time, row and column (mrope)."""
    return not {"grid", "axes", "mrope_section"} & entry["parameters"].keys()


def rotary_cases(suite: Path, start: str) -> dict[str, dict[str, Any]]:
    """Return the entries of right rotary tables over one axis of positions whose names begin so.

    Known mistakes (with edits) and rotations (with settings) are left out.
    """
    return {
        name: entry
        for name, entry in entries_of_index(suite).items()
        if name.startswith(start)
        and entry.get("scheme") == "rope"
        and not {"edits", "settings"} & entry.keys()
        and has_one_axis_of_positions(entry)
    }


def test_golden_frequencies_are_those_of_arb(suite: Path) -> None:
    """Cases «frequencies-…» have a base or a scaling each, 20, or are of a model, 26. The formulas of
    frequencies and attention factors are computed in Arb's balls (intervals of arbitrary precision):
    every spelling of a number must be the ball's value, correctly rounded to its dtype.
    """
    cases = rotary_cases(suite, "frequencies-")
    assert len(cases) == 20 + 26

    for name, entry in cases.items():
        parameters = entry["parameters"]
        numbers = tensors_of_case(suite, name)
        assert numbers.keys() == {"inv_freq", "attention_factor"}
        assert_equal_to_balls(partial(inverse_frequencies_of, parameters), numbers["inv_freq"])
        assert_equal_to_balls(partial(attention_factor_of, parameters), numbers["attention_factor"])


@pytest.mark.parametrize(
    ("start", "count"),
    [
        pytest.param("table-", 20 + 4 + 2, id="20 scalings, 4 dims, 2 layouts"),
        pytest.param("model-", 26, marks=pytest.mark.thorough, id="26 models"),
    ],
)
def test_golden_cosines_and_sines_are_those_of_arb(suite: Path, start: str, count: int) -> None:
    """attention factor · cos(position · frequency) is computed in Arb's balls (intervals of arbitrary
    precision): every spelling of a number must be the ball's value, correctly rounded to its dtype.
    In two layouts each column is there twice, which another test compares.
    """
    cases = rotary_cases(suite, start)
    assert len(cases) == count

    for name, entry in cases.items():
        parameters = entry["parameters"]
        numbers = tensors_of_case(suite, name)
        assert numbers.keys() == {"inv_freq", "cos", "sin"}
        assert_equal_to_balls(partial(inverse_frequencies_of, parameters), numbers["inv_freq"])
        if parameters["layout"] == "compact":
            for part in ("cos", "sin"):
                assert_equal_to_balls(partial(waves_of_table, parameters, part), numbers[part])


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_golden_tables_of_two_columns_per_frequency_have_each_compact_column_twice(
    suite: Path, layout: str
) -> None:
    """The case `table-default` has one column per frequency, c0 c1 …. `table-halves` has them as
    c0 c1 … c0 c1 …, and `table-interleaved` as c0 c0 c1 c1 …, in every spelling.
    """
    doubled = tensors_of_case(suite, f"table-{layout}")
    compact = tensors_of_case(suite, "table-default")
    for part in ("cos", "sin"):
        for spelling in ("decimal", "float32", "float16", "bfloat16"):
            found = np.array(doubled[part][spelling]).reshape(doubled[part]["shape"])
            once = np.array(compact[part][spelling]).reshape(compact[part]["shape"])
            if layout == "halves":
                expected = np.concatenate([once, once], axis=1)
            else:
                expected = np.repeat(once, 2, axis=1)
            np.testing.assert_array_equal(found, expected)


def inverse_frequencies_of(parameters: Mapping[str, Any]) -> list[arb]:
    return frequencies(parameters)[0]


def attention_factor_of(parameters: Mapping[str, Any]) -> list[arb]:
    return [frequencies(parameters)[1]]


def waves_of_table(parameters: Mapping[str, Any], part: str) -> list[arb]:
    """Return the cosines or sines of all positions, row by row, times the attention factor."""
    inverse_frequencies, amplitude = frequencies(parameters)
    values = []
    for position in parameters["positions"]:
        for frequency in inverse_frequencies:
            angle = rational(position) * frequency
            values.append(amplitude * (angle.cos() if part == "cos" else angle.sin()))
    return values


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


def test_golden_tables_of_other_schemes_are_those_of_arb(suite: Path) -> None:
    """The formulas of each project (`tensors_by_arb`) are written again in Arb's balls, intervals of
    arbitrary precision, and every spelling of a number in the suite must be the ball's value,
    correctly rounded. The tensors are counted, so that none is skipped.
    """
    compared: Counter[str] = Counter()
    for name, entry in entries_of_index(suite).items():
        parameters = {**entry.get("parameters", {}), "scheme": entry.get("scheme")}
        numbers = tensors_of_case(suite, name)
        kind = next((kind for kind in KINDS_OF_CASES if name.startswith(kind)), "")
        for tensor, values in tensors_by_arb(kind, parameters).items():
            assert_equal_to_balls(values, numbers[tensor])
            compared[kind] += 1

    assert compared == {
        "grid-rope": 4 * 3,  # 4 projects: frequencies, cosines and sines
        "grid-sinusoidal": 4,  # 4 projects: one table
        "sinusoidal": 8,  # 8 cases: one table
        "alibi": 5 * 4,  # slopes of 5 numbers of heads, alone and beside biases of 3 forms
    }


def test_golden_biases_of_alibi_are_those_of_arb(suite: Path) -> None:
    """ALiBi's bias is −slope · distance (`biases`), in Arb's balls. Elements that a causal mask hides
    are −∞ in every spelling.
    """
    cases_with_biases = 0
    for name, entry in entries_of_index(suite).items():
        if name.startswith("alibi-") and "bias" in entry["tensors"]:
            numbers = tensors_of_case(suite, name)["bias"]
            assert_biases_equal_to_balls(entry["parameters"], numbers)
            cases_with_biases += 1

    assert cases_with_biases == 5 * 3  # 5 numbers of heads: causal, symmetric, and by key


KINDS_OF_CASES = ("grid-rope", "grid-sinusoidal", "sinusoidal", "alibi")
"""The beginnings of the names of cases that are computed here."""


def tensors_by_arb(kind: str, parameters: Mapping[str, Any]) -> dict[str, Callable[[], list[arb]]]:
    """Return functions that compute the tensors of a case in balls, row by row."""
    style = parameters.get("style", "")
    match kind:
        case "grid-rope":
            return {
                "inv_freq": lambda: grid_frequencies(style, parameters),
                "cos": lambda: [a.cos() for row in grid_angles(style, parameters) for a in row],
                "sin": lambda: [a.sin() for row in grid_angles(style, parameters) for a in row],
            }
        case "grid-sinusoidal":
            return {"pe": lambda: grid_waves(style, parameters)}
        case "sinusoidal":
            return {"pe": lambda: sinusoidal_rows(parameters)}
        case "alibi":
            return {"slopes": lambda: slopes(parameters["heads"])}
    return {}


def grid_waves(style: str, parameters: Mapping[str, Any]) -> list[arb]:
    rows = grid_angles(style, parameters)
    return [value for row in rows for value in waves(row, ORDERS[style])]


def assert_biases_equal_to_balls(
    parameters: Mapping[str, Any], numbers: Mapping[str, list[Any]]
) -> None:
    """Assert that hidden elements are -inf in every spelling, and all others the balls' values."""
    is_visible = [value.is_finite() for value in biases(parameters)]
    for spelling, texts in numbers.items():
        if spelling not in ("shape", "hex"):
            assert [text != "-inf" for text in texts] == is_visible

    visible = {
        spelling: [*itertools.compress(texts, is_visible)] for spelling, texts in numbers.items()
    }
    assert_equal_to_balls(
        lambda: [value for value in biases(parameters) if value.is_finite()], visible
    )


def positions_by_pair(entry: Mapping[str, Any], length: int) -> np.ndarray:
    """Return the position by which each pair of channels rotates: (sequences or 1, tokens, pairs).

    A case has an offset, or a shift of all tokens, or stated positions: of the tokens, of the tokens
    of each sequence, or, with sections, of three axes (time, row and column of an image).
    """
    settings = entry["settings"]
    parameters = entry["parameters"]
    pairs = parameters["dim"] // 2
    if "shift" in settings:
        positions = np.full(length, settings["shift"])
    else:
        positions = np.array(
            settings.get("positions", np.arange(length) + settings.get("offset", 0))
        )
    if "mrope_section" in parameters:
        by_pair = positions[axis_of_each_pair(parameters)]  # (pairs, tokens)
        return by_pair.T[None]
    by_sequence = positions.reshape(-1, length)
    return np.repeat(by_sequence[:, :, None], pairs, axis=2)


def axis_of_each_pair(parameters: Mapping[str, Any]) -> list[int]:
    """Return the axis of positions, 0 to 2, that each pair of channels has.

    Sections (2, 3, 3) in blocks are 0 0 1 1 1 2 2 2. Sections (4, 2, 2) interleaved are 0 1 2 0 1 2 0 0:
    in turn as long as axes 1 and 2 have pairs left, and then axis 0.
    """
    sections = parameters["mrope_section"]
    pairs = range(parameters["dim"] // 2)
    if not parameters.get("mrope_interleaved"):
        return np.repeat([0, 1, 2], sections).tolist()
    axes = []
    for pair in pairs:
        turn, axis = divmod(pair, 3)
        axes.append(axis if turn < sections[axis] else 0)
    return axes


def rotated_vector(vector: list[arb], angles: list[arb], layout: str) -> list[arb]:
    """Return a vector with each pair (a, b) rotated: (a cos − b sin, b cos + a sin).

    Pair 1 of 8 is channels 1 and 9 in the layout `halves`, and 2 and 3 in `interleaved`. DeepSeek's
    code takes channels 2 and 3, and puts the result into 1 and 9.
    """
    result = list(vector)
    for pair, angle in enumerate(angles):
        in_halves = (pair, pair + len(angles))
        side_by_side = (2 * pair, 2 * pair + 1)
        first, second = in_halves if layout == "halves" else side_by_side
        a, b = vector[first], vector[second]
        first, second = side_by_side if layout == "interleaved" else in_halves
        result[first] = a * angle.cos() - b * angle.sin()
        result[second] = b * angle.cos() + a * angle.sin()
    return result


def rotated(before: np.ndarray, entry: Mapping[str, Any]) -> list[arb]:
    """Return the queries `before` of a case after its rotation, in balls, in the order of the file.

    The first `dim` channels rotate, or the last ones if the case is `trailing`; others stay.
    """
    settings = entry["settings"]
    dim = entry["parameters"]["dim"]
    token_axis = settings.get("seq_axis", -2)
    queries = np.moveaxis(before, token_axis, -2)  # (batch, heads, tokens, channels)
    first_channel = queries.shape[-1] - dim if settings.get("trailing") else 0
    rotary = slice(first_channel, first_channel + dim)
    direction = -1 if settings.get("inverse") else 1

    inverse_frequencies = inverse_frequencies_of({**entry["parameters"], "positions": [0]})
    positions = positions_by_pair(entry, length=queries.shape[-2])
    positions = np.broadcast_to(positions, (len(queries), *positions.shape[1:]))
    result = np.empty(queries.shape, object)
    for sequence, head, token in np.ndindex(queries.shape[:-1]):
        vector = [rational(float(value)) for value in queries[sequence, head, token]]
        angles = [
            direction * int(position) * frequency
            for position, frequency in zip(
                positions[sequence, token], inverse_frequencies, strict=True
            )
        ]
        vector[rotary] = rotated_vector(vector[rotary], angles, settings["layout"])
        for channel, value in enumerate(vector):
            result[sequence, head, token, channel] = value
    return list(np.moveaxis(result, -2, token_axis).reshape(-1))


def rotation_cases(suite: Path) -> dict[str, dict[str, Any]]:
    """Return the entries of cases «rotate-…», which have queries before and after a rotation."""
    entries = entries_of_index(suite)
    return {name: entry for name, entry in entries.items() if name.startswith("rotate-")}


def test_golden_rotations_are_those_of_arb(suite: Path) -> None:
    """A case «rotate-…» states the layout, offset or axes of a rotation. `rotated` rotates its queries
    `before` in Arb's balls (intervals of arbitrary precision), pair by pair; those `after` must be
    the result in every dtype, correctly rounded.
    """
    cases = rotation_cases(suite)
    assert len(cases) == 17

    for name, entry in cases.items():
        numbers = tensors_of_case(suite, name)
        before = np.array(numbers["before"]["float32"]).reshape(numbers["before"]["shape"])
        after = {key: values for key, values in numbers["after"].items() if key != "shape"}
        assert_equal_to_balls(partial(rotated, before, entry), after)


def test_golden_queries_before_a_rotation_are_the_same_numbers_in_every_dtype(
    suite: Path,
) -> None:
    """They are multiples of 1/4 up to 2, which every dtype holds exactly: a port of any dtype starts
    from the same numbers. They are spelled in the dtypes of queries only, not in float64.
    """
    for name in rotation_cases(suite):
        numbers = tensors_of_case(suite, name)
        assert numbers["before"].keys() == {"shape", "float32", "float16", "bfloat16"}
        assert numbers["after"].keys() == numbers["before"].keys()
        assert numbers["before"]["bfloat16"] == numbers["before"]["float32"]
        assert numbers["before"]["float16"] == numbers["before"]["float32"]
        assert all(abs(value) <= 2 for value in numbers["before"]["float32"])
        assert all(float(4 * value).is_integer() for value in numbers["before"]["float32"])


def test_golden_suite_has_the_same_bytes_every_time_and_their_checksums(
    suite: Path, tmp_path: Path
) -> None:
    """`suite` was written before, and is written again here. Every file has the same bytes, and the
    index the SHA-256 of each file of a case.
    """
    entries = write(str(tmp_path))

    for path in suite.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name
    for entry in entries:
        for file, digest in entry["files"].items():
            assert hashlib.sha256((suite / file).read_bytes()).hexdigest() == digest


def test_golden_suite_has_150_different_cases_in_3_5_megabytes(suite: Path) -> None:
    """The limit of the size is one that the project has set itself; cases may be added within it."""
    cases = json.loads((suite / "index.json").read_text())["cases"]
    names = {case["name"] for case in cases}

    assert len(names) == len(cases)
    assert len(cases) >= 150
    assert sum(path.stat().st_size for path in suite.iterdir()) <= 3_500_000


def test_golden_frequencies_have_no_tolerance_for_angles(suite: Path) -> None:
    """A tolerance «float32_arithmetic» is for angles that a port computes in float32. Frequencies have
    no positions and so no angles: theirs is that of float32.
    """
    tolerances = entries_of_index(suite)["frequencies-default"]["tolerances"]
    assert tolerances["float32_arithmetic"] == tolerances["float32"]


def test_golden_buckets_of_t5_begin_with_those_of_the_first_query(suite: Path) -> None:
    """T5's encoder has 32 buckets: 0 for the same position, and from 16 + 1 on one for each distance to
    a later key, up to 7. The table begins with the first query, which is the first key.
    """
    buckets = tensors_of_case(suite, "t5-encoder")["index"]["int"]
    assert buckets[:8] == [0, 17, 18, 19, 20, 21, 22, 23]


def test_a_golden_suite_of_one_model_has_two_cases_in_every_format(
    run_pecli, tmp_path: Path
) -> None:
    """`pecli golden llama-3.1-8b --format all`: the model's frequencies, and its tables at 3 positions
    of 64 pairs.
    """
    folder = tmp_path / "suite"
    outcome = run_pecli("golden", "llama-3.1-8b", "-o", folder, "--format", "all", "--json")
    cases = outcome.json["cases"] + outcome.json["others"]
    header = (folder / "model-llama-3.1-8b.h").read_text()

    assert cases == ["frequencies-llama-3.1-8b", "model-llama-3.1-8b"]
    assert {path.suffix for path in folder.iterdir()} == {".json", ".safetensors", ".h"}
    assert "static const float model_llama_3_1_8b_cos[3][64] =" in header


def test_a_second_golden_suite_in_a_folder_reports_the_files_of_the_first(
    run_pecli, tmp_path: Path
) -> None:
    """The first suite has two cases in three formats, so that six files in the folder are of no case
    of the second.
    """
    run_pecli("golden", "llama-3.1-8b", "-o", tmp_path, "--format", "all")
    outcome = run_pecli("golden", "qwen2.5-7b", "-o", tmp_path)

    words = "2 cases and index.json; beside them 6 files of no case: frequencies-llama-3.1-8b.h, "
    assert words in outcome.out


def test_no_golden_suite_is_written_for_an_unknown_model(run_pecli, tmp_path: Path) -> None:
    """`pecli golden no-such-model -o FOLDER` is a wrong command line, and makes no folder."""
    folder = tmp_path / "suite"

    assert run_pecli("golden", "no-such-model", "-o", folder).exit_code == USAGE_ERROR
    assert not folder.exists()


def test_a_golden_suite_without_json_is_verified(run_pecli, tmp_path: Path) -> None:
    """A suite is written in safetensors only; `pecli verify` computes its cases again."""
    options = ("-o", tmp_path, "--format", "safetensors")

    assert run_pecli("golden", "llama-3.1-8b", *options).exit_code == SUCCESS
    assert run_pecli("verify", tmp_path).exit_code == SUCCESS


RUNNERS = Path(__file__).parents[1] / "samples" / "golden"


def lines_printed_by(*words: object) -> list[str]:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=120)
    return done.stdout.splitlines()


def path_of_program(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def failures_of_javascript(suite: Path, *options: str) -> list[str]:
    """Return the lines «FAILED CASE …» of the sample runner in JavaScript, a port in float32."""
    node = path_of_program("node")
    lines = lines_printed_by(node, RUNNERS / "runner.js", suite, *options)
    return [line for line in lines if line.startswith("FAILED")]


def test_golden_runner_in_javascript_passes_four_cases(suite: Path) -> None:
    """The sample runner checks itself against the suite, and its last line counts the cases."""
    node = path_of_program("node")
    *_, summary = lines_printed_by(node, RUNNERS / "runner.js", suite)
    assert summary.startswith("4 passed, ")


def test_golden_runner_in_javascript_fails_only_by_float32(suite: Path) -> None:
    """The runner computes in float32, and states of each failure that this explains it."""
    failures = failures_of_javascript(suite)
    assert failures
    assert all(line.endswith("(float32 arithmetic explains it)") for line in failures)


def test_golden_runner_in_javascript_shows_a_mistake_that_float32_does_not_explain(
    suite: Path,
) -> None:
    """With --mistake, the runner takes base 10000 for every case. Failures that float32 does not
    explain are all of cases with another base, which index.json of the suite states.
    """
    failures = failures_of_javascript(suite, "--mistake")
    unexplained = {line.split()[1] for line in failures if not line.endswith("explains it)")}
    bases = {
        name: entry["parameters"].get("base")
        for name, entry in entries_of_index(suite).items()
        if "parameters" in entry
    }

    assert {"table-theta-500000", "frequencies-theta-500000", "model-llama-3-8b"} <= unexplained
    assert all(bases[name] != 10000.0 for name in unexplained)


def test_golden_runner_in_rust_fails_where_float32_does(suite: Path, tmp_path: Path) -> None:
    """The sample runner is a port in float32, which checks itself against six cases of the suite. It
    passes the one of a single frequency, 1, and fails where float32 does; with --mistake it makes a
    mistake in each of them, and fails everywhere.
    """
    subprocess.run(
        [path_of_program("rustc"), "-o", tmp_path / "runner", RUNNERS / "runner.rs"],
        check=True,
        capture_output=True,
    )
    lines = lines_printed_by(tmp_path / "runner", suite)

    assert lines[-1] == "1 passed, 5 failed"
    assert any(line.startswith("passed  table-dim-2 ") for line in lines)
    assert lines_printed_by(tmp_path / "runner", suite, "--mistake")[-1] == "0 passed, 6 failed"


class LineOfRunnerInC(NamedTuple):
    """A line such as «FAILED  table-dim-4.h  off by 3.1e-05, by 0.0e+00 at positions below 3»."""

    verdict: str
    case: str
    error_at_small_positions: float


def lines_of_runner_in_c(folder: Path, *options: str) -> list[LineOfRunnerInC]:
    """Write the suite's C headers, compile the sample runner for six of them, and run it."""
    path_of_program("cc")
    write(str(folder), formats=("h",))
    pattern = r"(passed|FAILED)  .*/(.+)\.h  off by .+, by (.+) at positions below 3"
    lines = []
    for text in lines_printed_by("sh", RUNNERS / "run_c.sh", folder, *options):
        match = re.fullmatch(pattern, text)
        assert match is not None, text
        lines.append(LineOfRunnerInC(match[1], match[2], float(match[3])))
    assert len(lines) == 6
    return lines


@pytest.fixture(scope="module")
def lines_in_float32(tmp_path_factory: pytest.TempPathFactory) -> list[LineOfRunnerInC]:
    """Return what the sample runner in C, a port in float32, prints about six tables."""
    return lines_of_runner_in_c(tmp_path_factory.mktemp("headers"))


def test_golden_runner_in_c_fails_where_float32_does(
    lines_in_float32: list[LineOfRunnerInC],
) -> None:
    """The table with a single frequency, 1, passes: its angles are whole numbers. Of the others, angles
    at positions up to 131071 are rounded to float32.
    """
    verdicts = {line.case: line.verdict for line in lines_in_float32}
    assert verdicts.pop("table-dim-2") == "passed"
    assert {*verdicts.values()} == {"FAILED"}


def test_golden_runner_in_c_is_right_at_small_positions(
    lines_in_float32: list[LineOfRunnerInC],
) -> None:
    """Angles of positions 0 to 2 are rounded to float32 by up to 1.2e-7, so that errors of cosines and
    sines are below 1e-6 in all tables.
    """
    assert max(line.error_at_small_positions for line in lines_in_float32) < 1e-6


@pytest.mark.thorough
def test_golden_runner_in_c_fails_everywhere_with_a_mistake(tmp_path: Path) -> None:
    """-DMISTAKE compiles a port that exchanges sines and cosines. Also at positions 0 to 2 its errors
    exceed 0.1, which rounding to float32 cannot explain: at position 1 and frequency 1, cos − sin is
    0.3.
    """
    lines = lines_of_runner_in_c(tmp_path, "-DMISTAKE")
    assert {line.verdict for line in lines} == {"FAILED"}
    assert min(line.error_at_small_positions for line in lines) > 0.1


def lines_of_runner_in_shell(suite: Path, folder: Path, *options: str) -> list[str]:
    """Return a line per case of the sample port in shell, which awk computes and pecli verifies.

    The cases are table-dim-2, with a single frequency, 1, and table-theta-500000, of another base
    than 10000.
    """
    few = copy_with_cases(suite, folder, "table-dim-2", "table-theta-500000")
    done = subprocess.run(
        ["sh", str(RUNNERS / "run_verify.sh"), str(few), *options],
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout.splitlines()


@pytest.mark.thorough
@pytest.mark.skipif(os.name == "nt", reason="Windows has no sh")
def test_golden_runner_in_shell_names_its_mistake(suite: Path, tmp_path: Path) -> None:
    """With --mistake, the port takes the base 10000 for all cases. Of a single frequency, 1, the base
    does not matter.
    """
    right, wrong = lines_of_runner_in_shell(suite, tmp_path, "--mistake")

    assert right == "passed  table-dim-2"
    assert wrong.startswith("FAILED  table-theta-500000: ")
    assert "base is 10000 (the spec says 500000)" in wrong


@pytest.mark.thorough
@pytest.mark.skipif(os.name == "nt", reason="Windows has no sh")
def test_golden_runner_in_shell_fails_where_seven_digits_do(suite: Path, tmp_path: Path) -> None:
    """The port computes with awk's seven digits, about as many as float32 has: this explains that the
    table of base 500000 fails. A single frequency, 1, is exact.
    """
    assert lines_of_runner_in_shell(suite, tmp_path) == [
        "passed  table-dim-2",
        "FAILED  table-theta-500000 (float32 arithmetic explains it)",
    ]


@pytest.mark.thorough
def test_golden_runner_in_torch_fails_where_float32_does(suite: Path) -> None:
    """The sample port in torch computes in float32 and checks itself against the suite: of each
    failure it states that float32 explains it. With --mistake a rotation fails as well.
    """
    pytest.importorskip("torch", reason="torch is not installed")
    lines = lines_printed_by(sys.executable, RUNNERS / "runner_torch.py", suite)

    assert all("explains it" in line for line in lines if line.startswith("FAILED"))

    wrong = lines_printed_by(sys.executable, RUNNERS / "runner_torch.py", suite, "--mistake")
    assert any(line.startswith("FAILED  rotate-interleaved") for line in wrong)


@pytest.mark.parametrize(
    ("cases", "least"),
    [("mistake-r", 5), pytest.param("", 40, marks=pytest.mark.thorough)],
    ids=["some mistakes", "all cases"],
)
def test_golden_suite_verifies_and_every_mistake_is_named(
    run_pecli, suite: Path, tmp_path: Path, cases: str, least: int
) -> None:
    """A case «mistake-…» is a wrong table, and passes if `verify` finds the reason that it states.
    All cases whose name begins with `cases` pass, and at least as many mistakes as now are among
    them.
    """
    outcome = run_pecli("verify", copy_with_cases(suite, tmp_path, cases), "--json")
    results = {result["file"]: result for result in map(json.loads, outcome.out.splitlines())}
    failures = {
        name: result["diagnosis"] for name, result in results.items() if not result["passed"]
    }
    mistakes = [name for name in results if name.startswith("mistake-")]

    assert outcome.exit_code == SUCCESS, failures
    assert len(mistakes) >= least


def test_the_cases_of_a_golden_suite_that_were_changed_fail(
    run_pecli, suite: Path, tmp_path: Path
) -> None:
    """Of eight cases, five are changed: a number, a missing file, a right table that claims to be a
    mistake, a mistake that states another reason, and a factor that is not the table's. Exactly
    these fail.
    """
    unchanged = ("table-dim-2", "rotate-interleaved", "mistake-reversed-rows")
    copy = shutil.copytree(suite, tmp_path / "suite")
    entries = entries_of_index(copy)

    with_another_number = copy / "table-default.json"
    with_another_number.write_text(with_another_number.read_text().replace("0.5", "0.6", 1))
    (copy / "table-ntk.json").unlink()
    entries["table-linear"]["edits"] = entries["mistake-reversed-rows"]["edits"]
    entries["mistake-swapped-functions"]["edits"] = [{"edit": "negated", "which": "cos"}]
    entries["table-yarn"]["parameters"]["factor"] = 8.0
    changed = (
        "table-default",
        "table-ntk",
        "table-linear",
        "mistake-swapped-functions",
        "table-yarn",
    )

    index = json.loads((copy / "index.json").read_text())
    index["cases"] = [entries[name] for name in (*unchanged, *changed)]
    (copy / "index.json").write_text(json.dumps(index))
    outcome = run_pecli("verify", copy, "--json")
    results = [json.loads(line) for line in outcome.out.splitlines()]
    failures = {result["file"]: result["diagnosis"] for result in results if not result["passed"]}

    assert outcome.exit_code == CHECK_FAILED
    assert failures.keys() == {*changed}
    assert failures["table-linear"] == ["a known mistake passes"]


FREQUENCIES_OF_10000 = 10000.0 ** (-np.arange(16) / 16)


@pytest.fixture
def results_of_a_port(run_pecli, suite: Path, tmp_path: Path) -> dict[str, Any]:
    """Return what `pecli verify --golden` reports about a port, by case.

    It answers four cases with tables that NumPy (and for the rotation Arb) computes here. One is
    wrong: the sines of the case of theta 500000 have base 10000.
    """
    index = json.loads((suite / "index.json").read_text())
    positions = np.array(index["positions"], np.float64)
    angles_of_10000 = np.outer(positions, FREQUENCIES_OF_10000)
    angles_of_500000 = np.outer(positions, 500000.0 ** (-np.arange(16) / 16))
    queries = tensors_of_case(suite, "rotate-interleaved")["before"]
    before = np.array(queries["float32"]).reshape(queries["shape"])
    after = rotated(before, entries_of_index(suite)["rotate-interleaved"])
    answers = {
        "rotate-interleaved": np.array([*map(float, after)]).reshape(before.shape),
        "table-default.cos": np.cos(angles_of_10000).astype(np.float32),
        "table-default.sin": np.sin(angles_of_10000).astype(np.float32),
        "table-theta-500000/cos": np.cos(angles_of_500000),
        "table-theta-500000/sin": np.sin(angles_of_10000),
        "frequencies-default": FREQUENCIES_OF_10000,
    }
    np.savez(tmp_path / "answers.npz", **answers)
    outcome = run_pecli("verify", "--golden", suite, tmp_path / "answers.npz", "--json")
    return {result["file"]: result for result in map(json.loads, outcome.out.splitlines())}


def test_golden_answers_of_a_port_pass_unless_they_are_wrong(
    results_of_a_port: dict[str, Any], suite: Path
) -> None:
    """Each case with an answer has a verdict, beside that of the whole suite."""
    passed = {name for name, result in results_of_a_port.items() if result["passed"]}

    assert results_of_a_port.keys() - passed == {"table-theta-500000"}
    assert passed == {str(suite), "table-default", "frequencies-default", "rotate-interleaved"}


def test_a_wrong_golden_answer_has_its_reason(results_of_a_port: dict[str, Any]) -> None:
    """The sines of the case of theta 500000 have base 10000."""
    (explanation, *_) = results_of_a_port["table-theta-500000"]["explanations"]
    assert explanation["edits"][0]["name"] == "base"


def answer_with_float32_frequencies(folder: Path) -> Path:
    """Write Phi-2's cosines and sines by NumPy, at the positions of its case, with frequencies in float32."""
    frequencies = (1e4 ** (-np.arange(16) / 16)).astype(np.float32)
    angles = np.outer([1, 4097, 131071], frequencies.astype(np.float64))
    answer = folder / "answer.npz"
    cos = np.cos(angles).astype(np.float32)
    sin = np.sin(angles).astype(np.float32)
    np.savez(answer, **{"model-phi-2.cos": cos, "model-phi-2.sin": sin})
    return answer


def test_the_advice_for_a_golden_answer_in_float32_names_no_recipe(
    run_pecli, suite: Path, tmp_path: Path
) -> None:
    """Cosines are off by 9.4e-4 at the position 131,071. A suite states its own recipe, so that
    `--recipe` is refused beside it.
    """
    outcome = run_pecli("verify", "--golden", suite, answer_with_float32_frequencies(tmp_path))
    assert "verify with --atol 1e-3\n" in outcome.out


def test_a_golden_answer_in_float32_passes_with_the_tolerance_of_the_advice(
    run_pecli, suite: Path, tmp_path: Path
) -> None:
    """Cosines are off by 9.4e-4 at the position 131,071, and the advice is `--atol 1e-3`."""
    answer = answer_with_float32_frequencies(tmp_path)
    outcome = run_pecli("verify", "--golden", suite, answer, "--atol", "1e-3")
    assert outcome.exit_code == SUCCESS


def test_a_golden_suite_counts_the_cases_without_an_answer(
    results_of_a_port: dict[str, Any], suite: Path
) -> None:
    """Four cases have an answer. Cases of mistakes, which have `edits`, need none."""
    index = json.loads((suite / "index.json").read_text())
    cases = [case for case in index["cases"] if "edits" not in case]
    (remark,) = results_of_a_port[str(suite)]["weak"]

    assert remark.startswith(f"{len(cases) - 4} of {len(cases)} cases have no answer: ")


@pytest.fixture
def one_answer(tmp_path: Path) -> Path:
    """A file with the right answer to one case: 10000^(−i/16), by NumPy."""
    path = tmp_path / "one.npz"
    np.savez(path, **{"frequencies-default": FREQUENCIES_OF_10000})
    return path


@pytest.mark.parametrize(("options", "code"), [([], SUCCESS), (["--strict"], CHECK_FAILED)])
def test_cases_without_an_answer_fail_only_a_strict_check(
    run_pecli, suite: Path, one_answer: Path, options: list[str], code: int
) -> None:
    """A port answers one case of the golden suite rightly, and no other. --strict requires an answer
    to each.
    """
    assert run_pecli("verify", "--golden", suite, one_answer, *options).exit_code == code


def test_golden_answers_to_an_unknown_case_are_refused(
    run_pecli, suite: Path, tmp_path: Path
) -> None:
    """A port answers «no-such-case», which the suite does not have. The error shows the form of names,
    CASE.TENSOR, and the cases that there are.
    """
    np.savez(tmp_path / "other.npz", **{"no-such-case.cos": np.ones(4)})
    outcome = run_pecli("verify", "--golden", suite, tmp_path / "other.npz")

    assert outcome.exit_code == FILE_ERROR
    assert "name answers CASE.TENSOR; cases are " in outcome.err


def test_golden_answers_beside_another_index_json_are_refused(
    run_pecli, tmp_path: Path, one_answer: Path
) -> None:
    """--golden names a folder with an index.json, as many programs write, which is an empty object
    and no index of a suite.
    """
    (tmp_path / "index.json").write_text("{}")
    outcome = run_pecli("verify", "--golden", tmp_path, one_answer)

    assert "is not the index of a golden" in outcome.err


def test_a_model_beside_a_golden_suite_is_refused(run_pecli, suite: Path, one_answer: Path) -> None:
    """--golden names a suite, which states what is right, so that --model would have no effect."""
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
        ours = tensors_of_case(suite, f"model-{name}")
        tolerances = index[f"model-{name}"]["tolerances"]
        for part, values in parts.items():
            table = np.array(ours[part]["decimal"]).reshape(ours[part]["shape"])
            error_of_row = np.abs(table - np.array(values).reshape(table.shape)).max(axis=1)
            assert error_of_row[0] <= 2 * tolerances["float32"], name
            assert error_of_row.max() <= tolerances["float32_arithmetic"], name
            # The larger tolerance is needed: float32 arithmetic shows.
            assert error_of_row.max() > tolerances["float32"], name


def test_a_plain_float64_port_keeps_the_float64_tolerance(suite: Path) -> None:
    """A port computes NumPy's power and cosine in float64 up to position 10^6. It is off by more than
    1e-13, because angles are rounded, but within the float64 tolerance that the case states, which
    is below 1e-9.
    """
    positions = np.array(
        [0, 1, 2, 255, 256, 257, 4095, 4096, 4097, 32767, 131071, 1_000_000], np.float64
    )
    name = "table-theta-500000"
    numbers = tensors_of_case(suite, name)["cos"]
    exact = np.array(numbers["decimal"]).reshape(numbers["shape"])
    pairs = exact.shape[1]
    found = np.cos(np.outer(positions, 500000.0 ** -(np.arange(pairs) / pairs)))
    error = np.abs(found - exact).max()
    tolerance = entries_of_index(suite)[name]["tolerances"]["float64"]

    assert error > 1e-13
    assert error <= tolerance
    assert tolerance < 1e-9
