"""Every command that a reason prints («reproduce with pecli …») runs, and makes the numbers of the
wrong table.
"""

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli
from tests.exit_codes import SUCCESS
from tests.explain.mistakes import LENGTH, MISTAKES, rotations, subjects
from tests.tools.sweeps.tables import MODELS

POSITIONS = (0, 3, 1, 4, 15, 9, 26, 5, 35, 8, 97, 93)
DIVISORS = tuple(1.0 + 0.25 * k for k in range(16))
LONGROPE: Any = {
    "scaling": "longrope",
    "original_max_position_embeddings": 64,
    "long_factor": DIVISORS,
    "factor": 4.0,
}
YARN: Any = {"scaling": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
ROPE = pecli.Rope(seq_len=48, dim=32)
MAE = pecli.Sinusoidal(dim=32, grid=(7, 6), style="mae")
DYNAMIC: Any = {"scaling": "dynamic", "factor": 2.0, "max_position_embeddings": 64}
WEIGHTS = [
    [0.346, 0.822],
    [0.33, -1.303],
    [0.905, 0.446],
    [-0.537, 0.581],
    [0.126, -0.132],
    [0.64, 0.105],
    [-0.536, 0.362],
    [1.304, 0.947],
]
"""Weights of 8 buckets and 2 heads."""
Changed = tuple[Any, dict[str, Any]]
"""A scheme, and the parameters that are others in the wrong table."""
CHANGES_WITH_A_COMMAND: dict[str, Changed] = {
    "base of listed positions": (replace(ROPE, positions=POSITIONS, seq_len=None), {"base": 500000.0}),
    "base of a grid": (pecli.Rope(dim=32, grid=(6, 5), style="pixtral"), {"base": 500.0}),
    "base of a grid in halves": (pecli.Rope(dim=32, grid=(6, 4), style="qwen2-vl", layout="halves"), {"base": 100.0}),
    "base of a sinusoidal grid": (MAE, {"base": 100.0}),
    "cosines before sines": (MAE, {"cos_first": True}),
    "amplitude": (MAE, {"amplitude": 2.0}),
    "attention factor of YaRN": (replace(ROPE, positions=POSITIONS, seq_len=None, **YARN), {"attention_factor": 2.0}),
    "original length of YaRN": (replace(ROPE, seq_len=128, **YARN), {"original_max_position_embeddings": 256}),
    "length of dynamic NTK": (replace(ROPE, seq_len=128, **DYNAMIC), {"length": 100}),
    "base in float16": (replace(ROPE, seq_len=64, dtype="float16"), {"base": 1e6}),
    "first position": (replace(ROPE, seq_len=64, layout="interleaved"), {"offset": 5}),
    "rule of ALiBi's slopes": (pecli.Alibi(12, 32), {"rule": "naive"}),
    "max_bias": (pecli.Alibi(12, 32, form="causal"), {"max_bias": 16.0}),
    "form of a bias": (pecli.Alibi(12, 32), {"form": "causal"}),
    "max_bias of slopes": (pecli.Alibi(8), {"max_bias": 4.0}),
    "part of the heads": (pecli.Alibi(12, 32, head_range=(6, 9)), {"head_range": (0, 3)}),
    "number of heads": (pecli.Alibi(12, 32, head_range=(6, 9)), {"heads": 3, "head_range": None}),
    "distance of T5's buckets": (pecli.Relative("t5", seq_len=32), {"max_distance": 64}),
    "distance of T5's buckets with weights": (
        pecli.Relative("t5", seq_len=16, buckets=8, max_distance=8, weights=WEIGHTS), {"max_distance": 16}),
}  # fmt: skip
"""Schemes of every kind, and what is different in their tables."""
OTHER_CHANGES: list[Changed] = [
    (replace(ROPE, positions=POSITIONS, seq_len=None), {"positions": None, "seq_len": 12}),
    (replace(ROPE, short_factor=(1.0,) * 16, seq_len=128, **LONGROPE), {"base": 500000.0}),
    (replace(ROPE, seq_len=128), {"short_factor": (1.0,) * 16, **LONGROPE}),
    (pecli.LearnedInit(40, 16), {"std": 0.5}),
]
"""Changes for which no command is printed; one with LongRoPE's lists would be too long to be read."""


def planted() -> Iterator[tuple[Any, dict[str, np.ndarray]]]:
    """Yield specs, and tables with a mistake in them: of all changes above, and of MISTAKES."""
    for scheme, changes in [*CHANGES_WITH_A_COMMAND.values(), *OTHER_CHANGES]:
        yield scheme, replace(scheme, **changes).tables()
    for scheme, names in subjects():
        right = {
            name: table.astype(np.float64)
            for name, table in scheme.tables().items()
            if name in names
        }
        for mistake in MISTAKES:
            if (made := mistake.make(scheme, right)) is not None:
                yield (
                    scheme,
                    {
                        name: np.ascontiguousarray(table, np.float32)
                        for name, table in made[0].items()
                    },
                )


def numbers(file: Path, name: str) -> np.ndarray:
    tables = pecli.load(file)
    return np.asarray(tables.get(name, next(iter(tables.values()))), np.float64)


def words_of_the_command(diagnosis: list[str]) -> list[str]:
    """Return the words after «reproduce with pecli», or none if there is not exactly one command."""
    beginning = "reproduce with pecli "
    commands = [line for line in diagnosis if line.startswith(beginning)]
    if len(commands) != 1:
        return []
    return shlex.split(commands[0].removeprefix(beginning))


def assert_command_makes(tables: dict[str, np.ndarray], result: dict[str, Any], run: Any) -> None:
    """Run the command that a verification printed: it makes the tables that the reason is about."""
    words = words_of_the_command(result["diagnosis"])
    outcome = run(*words, "-q", "-o", "again.safetensors")
    assert outcome.exit_code == SUCCESS, (words, outcome.err)

    for name in result["explanations"][0]["tensors"]:
        again = numbers(Path("again.safetensors"), name)
        table = np.asarray(tables[name], np.float64).reshape(again.shape)
        assert np.allclose(again, table, rtol=1e-5, atol=1e-5), (words, name)


@pytest.mark.parametrize(
    ("scheme", "changes"), CHANGES_WITH_A_COMMAND.values(), ids=CHANGES_WITH_A_COMMAND
)
def test_the_printed_command_makes_the_table_of_another_parameter(
    scheme: Any, changes: dict[str, Any], run_pecli: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """The table is that of `scheme` with other parameters. `verify` prints «reproduce with pecli …»;
    this command makes the numbers of the wrong table within 1e-5.
    """
    monkeypatch.chdir(tmp_path)
    tables = replace(scheme, **changes).tables()
    result = pecli.verify(tables, scheme, atol=1e-5).as_json()

    assert words_of_the_command(result["diagnosis"])
    assert_command_makes(tables, result, run_pecli)


@pytest.mark.thorough
def test_every_printed_command_makes_its_table(
    run_pecli: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """Formulas plant mistakes in the tables of many schemes (`planted`). Not every mistake has a
    command, but each one that is printed makes its table. 92 mistakes had one when they were counted,
    so that no fewer may have.
    """
    monkeypatch.chdir(tmp_path)
    commands_count = 0
    for spec, tables in planted():
        result = pecli.verify(tables, spec, atol=1e-5).as_json()
        if words_of_the_command(result["diagnosis"]) and len(result["explanations"]) == 1:
            assert_command_makes(tables, result, run_pecli)
            commands_count += 1

    assert commands_count >= 92


def test_a_reason_has_positions_between_whole_numbers() -> None:
    """DETR's grid of 2 × 3 points is at rows 1/2, 1 and columns 1/3, 2/3, 1 (divided by 2 + 10^-6 and
    3 + 10^-6). In the table the first point comes last, so that the reason lists the points.
    """
    specified = pecli.Sinusoidal(dim=32, grid=(2, 3), style="detr")
    table = np.roll(specified.tables()["pe"], -1, axis=0)
    (explanation,) = pecli.verify({"pe": table}, specified).explanations
    scheme: Any = explanation.scheme

    rows, columns = scheme.positions
    assert rows == pytest.approx([1 / 2, 1 / 2, 1, 1, 1, 1 / 2], abs=1e-6)
    assert columns == pytest.approx([2 / 3, 1, 1 / 3, 2 / 3, 1, 1 / 3], abs=1e-6)
    np.testing.assert_allclose(scheme.tables()["pe"], table, atol=1e-6)


@pytest.mark.parametrize("model", [MODELS[1], MODELS[4]], ids=["plain", "llama3"])
@pytest.mark.sample(1)
def test_printed_commands_rotate_queries(
    model: Any, run_pecli: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """`rotations` yields random queries that NumPy rotated with a mistake, such as from position 37
    on («offset 37»). The command that `pecli verify` prints applies the same mistake to the queries
    before: it writes again.npy, with the wrong numbers within 1e-4. At least five mistakes have one.
    """
    monkeypatch.chdir(tmp_path)
    before = np.random.default_rng(7).normal(size=(2, 3, LENGTH, 64))
    np.save("before.npy", before.astype(np.float32))
    Path("config.json").write_text(json.dumps(model.config), encoding="utf-8")
    options = ("--before", "before.npy", "--config", "config.json", "--atol", 1e-4)
    mistakes_with_a_command = set()

    for mistake, after, _ in rotations(model.scheme(LENGTH), "halves", before):
        np.save("after.npy", after.astype(np.float32))
        diagnosis = run_pecli("verify", "after.npy", *options, "--json").json["diagnosis"]
        for line in diagnosis:
            if line.startswith("reproduce with pecli "):
                mistakes_with_a_command.add(mistake)
                words = shlex.split(line.removeprefix("reproduce with pecli "))
                assert run_pecli(*words, "-q").exit_code == SUCCESS, line
                assert np.abs(np.load("again.npy") - after).max() < 1e-4, line

    expected = {"offset 1", "offset 37", "theta", "layout", "head axis"}
    assert mistakes_with_a_command >= expected
