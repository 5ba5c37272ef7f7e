"""One search explains tables: a sample of the matrix, recipes, rotations, unrelated tables, and weak passes."""

from dataclasses import replace

import numpy as np
import pytest

import pecli
from pecli.engine import edits as vocabulary
from pecli.engine.edits import Parameter
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.explain.recognition import recognise
from pecli.explain.search import explain
from pecli.explain.words import sentence
from tests.explain import unrelated
from tests.explain.mistakes import (
    LENGTH,
    LLAMA3,
    MISTAKES,
    alike,
    hidden,
    rotations,
    storages,
    subjects,
)

SUBJECTS = list(subjects())
COARSE = ("int8 steps", "4 decimals")  # which leave little of a vector of slopes
SPECS_MISTAKES_AND_STORAGES = [
    (subject, mistake, storage)
    for subject, (_, names) in enumerate(SUBJECTS)
    for mistake in range(len(MISTAKES))
    for storage in storages(np.random.default_rng(0))
    if names != ("slopes",) or storage not in COARSE
]


def is_explained(subject: int, mistake: int, storage: str) -> bool | None:
    """Whether the planted edits are the first explanation; None where there is no mistake, or storage hides it."""
    scheme, names = SUBJECTS[subject]
    right = {
        name: table.astype(np.float64) for name, table in scheme.tables().items() if name in names
    }
    made = MISTAKES[mistake].make(scheme, right)
    if made is None or all(np.array_equal(made[0][name], right[name]) for name in right):
        return None
    keep = storages(np.random.default_rng(3))[storage]
    tables = {
        name: np.ascontiguousarray(keep(table)).astype(np.float32)
        for name, table in made[0].items()
    }
    if hidden(right, made[0], {name: table.astype(np.float64) for name, table in tables.items()}):
        return None
    found = explain(replace(scheme, dtype="float32"), tables)
    if (
        MISTAKES[mistake].name == "truncate False"
        and found
        and isinstance(found[0].edits[0], vocabulary.Runtime)
    ):
        return "does not round YaRN's limits" in sentence(
            found[0]
        )  # which is the same, as a runtime reads the spec
    return bool(found) and alike(found[0].mistakes, made[1])


def test_planted_mistakes_are_the_first_explanation() -> None:
    """One cell in 254 of the matrix of schemes, mistakes and storages; None stands for a mistake
    that the storage hides.
    """
    verdicts = {cell: is_explained(*cell) for cell in SPECS_MISTAKES_AND_STORAGES[::254]}
    assert sum(verdict is not None for verdict in verdicts.values()) >= 3
    assert [cell for cell, verdict in verdicts.items() if verdict is False] == []


@pytest.mark.thorough
def test_97_of_100_planted_mistakes_are_the_first_explanation() -> None:
    verdicts = [
        verdict
        for cell in SPECS_MISTAKES_AND_STORAGES
        if (verdict := is_explained(*cell)) is not None
    ]
    assert sum(verdicts) >= 0.97 * len(verdicts) > 1000


@pytest.mark.parametrize(
    ("seed", "count"), [(7, 2), pytest.param(1, 500, marks=pytest.mark.thorough)]
)
def test_nothing_is_claimed_of_what_is_no_table(seed: int, count: int) -> None:
    """Noise, weights, images and other waves: a claim about one in 200 is allowed."""
    claimed = [(k, name) for k, (name, found) in enumerate(unrelated.claims(seed, count)) if found]
    assert len(claimed) <= 0.005 * count, claimed


def test_a_paper_table_at_three_decimals_is_what_it_is() -> None:
    table = np.round(Sinusoidal(128, 64, dtype="float64").tables()["pe"].astype(np.float64), 3)
    scheme = recognise({"pe": table})[0].scheme

    assert scheme == Sinusoidal(128, 64, dtype="float64")


@pytest.mark.parametrize(
    "name",
    ["llama-3.1-8b", "gpt-oss-20b", "gpt-j-6b"],
)
@pytest.mark.thorough
def test_mistakes_in_rotated_queries_are_named(name: str) -> None:
    model = pecli.load_model(name)
    encoding = model.encodings[0]
    rope = encoding.rope(LENGTH, dtype="float64")
    shape = (2, 4, LENGTH, encoding.head_dim or rope.rotary_dim)
    before = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    wide = before.astype(np.float64)

    for mistake, after, edit in rotations(rope, encoding.layout or "halves", wide):
        result = pecli.verify(after.astype(np.float32), model, before=before, atol=1e-5)
        assert result.passed == (mistake == "right"), mistake
        if mistake == "left padding":
            assert result.explanations[0].tensors == ("sequence 1",)
        assert mistake == "right" or result.explanations[0].mistakes == (edit,), mistake


SPEC = {**LLAMA3, "base": 5e5}


@pytest.mark.parametrize(
    "names", [pytest.param(["cos", "sin"], marks=pytest.mark.thorough), ["inv_freq"]]
)
def test_two_wrong_numbers_that_nobody_uses_are_named(names: list[str]) -> None:
    tables = Rope(1024, 64, **{**SPEC, "factor": 5.5, "high_freq_factor": 6.0}).tables()
    found = explain(Rope(1024, 64, **SPEC), {name: tables[name] for name in names})

    assert found[0].mistakes == (
        Parameter("factor", 8.0, 5.5),
        Parameter("high_freq_factor", 4.0, 6.0),
    )
