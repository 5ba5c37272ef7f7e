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
DYNAMIC: Any = {"scaling": "dynamic", "factor": 2.0, "max_position_embeddings": 64}
WEIGHTS = [
    [0.346, 0.822],
    [0.33, -1.303],
    [0.905, 0.446],
    [-0.537, 0.581],
]
"""Weights of 4 buckets and 2 heads."""
CHANGED: list[tuple[Any, dict[str, Any]]] = [
    (replace(ROPE, positions=POSITIONS, seq_len=None), {"base": 500000.0}),
    (replace(ROPE, positions=POSITIONS, seq_len=None), {"positions": None, "seq_len": 12}),
    (pecli.Rope(dim=32, grid=(6, 5), style="pixtral"), {"base": 500.0}),
    (pecli.Rope(dim=32, grid=(6, 4), style="qwen2-vl", layout="halves"), {"base": 100.0}),
    (pecli.Sinusoidal(dim=32, grid=(7, 6), style="mae"), {"base": 100.0}),
    (pecli.Sinusoidal(dim=32, grid=(7, 6), style="mae"), {"cos_first": True}),
    (pecli.Sinusoidal(dim=32, grid=(7, 6), style="mae"), {"amplitude": 2.0}),
    (replace(ROPE, positions=POSITIONS, seq_len=None, **YARN), {"attention_factor": 2.0}),
    (replace(ROPE, short_factor=(1.0,) * 16, seq_len=128, **LONGROPE), {"base": 500000.0}),
    (replace(ROPE, seq_len=128, **YARN), {"original_max_position_embeddings": 256}),
    (replace(ROPE, seq_len=128, **DYNAMIC), {"length": 100}),
    (replace(ROPE, seq_len=64, dtype="float16"), {"base": 1e6}),
    (replace(ROPE, seq_len=64, layout="interleaved"), {"offset": 5}),
    (pecli.Alibi(12, 32), {"rule": "naive"}),
    (pecli.Alibi(12, 32, form="causal"), {"max_bias": 16.0}),
    (pecli.Alibi(12, 32), {"form": "causal"}),
    (pecli.Alibi(8), {"max_bias": 4.0}),
    (pecli.Alibi(12, 32, head_range=(6, 9)), {"head_range": (0, 3)}),
    (pecli.Alibi(12, 32, head_range=(6, 9)), {"heads": 3, "head_range": None}),
    (pecli.Relative("t5", seq_len=32), {"max_distance": 64}),
    (pecli.Relative("t5", seq_len=16, buckets=4, max_distance=8, weights=WEIGHTS), {"max_distance": 16}),
]  # fmt: skip
"""Schemes and what is wrong with their tables: given positions, grids, lists of factors, every kind of scheme."""
WITHOUT_A_COMMAND: list[tuple[Any, dict[str, Any]]] = [
    (replace(ROPE, seq_len=128), {"short_factor": (1.0,) * 16, **LONGROPE}),
    (pecli.LearnedInit(40, 16), {"std": 0.5}),
]
"""Other changes, for which long searches find no command."""


def changed(
    changes_of_schemes: list[tuple[Any, dict[str, Any]]] = CHANGED,
) -> Iterator[tuple[Any, dict[str, np.ndarray]]]:
    """Yield specs, and tables of the same schemes with other parameters."""
    for scheme, changes in changes_of_schemes:
        yield scheme, replace(scheme, **changes).tables()


def planted() -> Iterator[tuple[Any, dict[str, np.ndarray]]]:
    """Yield specs, and tables with a mistake in them."""
    yield from changed(CHANGED + WITHOUT_A_COMMAND)
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


@pytest.mark.parametrize(
    ("cases", "least_count"),
    [
        pytest.param(changed, 18, id="another parameter"),
        pytest.param(planted, 94, id="any mistake", marks=pytest.mark.thorough),
    ],
)
def test_printed_commands_make_the_tables(
    run_pecli: Any, tmp_path: Path, monkeypatch: Any, cases: Any, least_count: int
) -> None:
    """`cases` yields specs of every kind, and wrong tables: of the same scheme with another base,
    length, rule and so on. The diagnosis has a line «reproduce with pecli …»; this command must
    run, and make the wrong table's numbers within 1e-5. As many commands were counted once as are
    required here at least; drawn weights have none.
    """
    monkeypatch.chdir(tmp_path)
    schemes_with_a_command = []
    for spec, tables in cases():
        result = pecli.verify(tables, spec, atol=1e-5).as_json()
        words = words_of_the_command(result["diagnosis"])
        if not words or len(result["explanations"]) != 1:
            continue
        schemes_with_a_command.append(spec.name)
        outcome = run_pecli(*words, "-q", "-o", "again.safetensors")
        assert outcome.exit_code == SUCCESS, (words, outcome.err)

        for name in result["explanations"][0]["tensors"]:
            again = numbers(tmp_path / "again.safetensors", name)
            table = np.asarray(tables[name], np.float64).reshape(again.shape)
            assert np.allclose(again, table, rtol=1e-5, atol=1e-5), (words, name)

    assert len(schemes_with_a_command) >= least_count
    assert {*schemes_with_a_command} == {"sinusoidal", "rope", "alibi", "relative"}


def test_positions_of_a_command_are_not_cut_to_whole_numbers() -> None:
    """DETR's points lie at multiples of 2π/3 along three columns. The first row comes last here, so that
    the command would list the points.
    """
    specified = pecli.Sinusoidal(dim=32, grid=(2, 3), style="detr")
    table = np.roll(specified.tables()["pe"], -1, axis=0)
    (explanation,) = pecli.verify({"pe": table}, specified).explanations

    assert explanation.scheme is not None
    np.testing.assert_allclose(explanation.scheme.tables()["pe"], table, atol=1e-6)


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
