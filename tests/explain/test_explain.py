"""The search for reasons, over a matrix of schemes, mistakes and storages: the planted mistake is
the first reason.

Mistakes are planted by formulas in tests/explain/mistakes.py, which also has the edits (differences
such as «base is 10000») that name them. A storage keeps a table in a dtype, in decimals or in steps
of integers. Tables of nothing that pecli knows (tests/explain/unrelated.py) must have no reason.
"""

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
    """Return whether the planted edits are the first explanation; None if there is no mistake, or
    the storage hides it.
    """
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
        # A runtime that reads the spec in this way makes the same table.
        return "does not round YaRN's limits" in sentence(found[0])
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
    """All cells of the matrix of schemes, mistakes and storages, of which there are more than 1000
    without those that a storage hides.
    """
    verdicts = [
        verdict
        for cell in SPECS_MISTAKES_AND_STORAGES
        if (verdict := is_explained(*cell)) is not None
    ]
    assert sum(verdicts) >= 0.97 * len(verdicts) > 1000


@pytest.mark.parametrize(
    ("seed", "count"), [(7, 2), pytest.param(1, 500, marks=pytest.mark.thorough)]
)
def test_nothing_is_claimed_of_tables_of_nothing_that_pecli_knows(seed: int, count: int) -> None:
    """`unrelated.claims` draws noise, weights, images and other waves, and returns what `identify`
    claims to find in each. At most one false claim in 200 is allowed, so none among 2.
    """
    claimed = [(k, name) for k, (name, found) in enumerate(unrelated.claims(seed, count)) if found]
    assert len(claimed) <= 0.005 * count, claimed


def test_a_sinusoidal_table_in_three_decimals_is_recognised_without_other_parameters() -> None:
    """Rounding could be taken for another base, scale or offset."""
    table = np.round(Sinusoidal(128, 64, dtype="float64").tables()["pe"].astype(np.float64), 3)
    scheme = recognise({"pe": table})[0].scheme

    assert scheme == Sinusoidal(128, 64, dtype="float64")


@pytest.mark.parametrize(
    "name",
    ["llama-3.1-8b", "gpt-oss-20b", "gpt-j-6b"],
)
@pytest.mark.thorough
def test_mistakes_in_rotated_queries_are_named(name: str) -> None:
    """Random queries are rotated with each mistake of `rotations` (for example from position 37
    on), by formulas in float64; the only edit that is reported is that mistake, and the right
    rotation passes. A mistake of one sequence is reported as of that sequence.
    """
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
def test_two_wrong_numbers_that_no_model_has_are_named(names: list[str]) -> None:
    """Llama 3's factor is 5.5 instead of 8, and high_freq_factor 6 instead of 4: neither can be
    found in a list of common values, so both are fitted.
    """
    tables = Rope(1024, 64, **{**SPEC, "factor": 5.5, "high_freq_factor": 6.0}).tables()
    found = explain(Rope(1024, 64, **SPEC), {name: tables[name] for name in names})

    assert found[0].mistakes == (
        Parameter("factor", 8.0, 5.5),
        Parameter("high_freq_factor", 4.0, 6.0),
    )
