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
    """A cell of the matrix is a scheme, a mistake that a formula plants in its tables, and a storage
    such as float16. `is_explained` returns True if the first explanation is that mistake, and None
    if the storage hides it. One cell in 254 is tried here: at least 3 are visible, none is False.
    """
    verdicts = {cell: is_explained(*cell) for cell in SPECS_MISTAKES_AND_STORAGES[::254]}
    visible = [verdict for verdict in verdicts.values() if verdict is not None]
    not_explained = [cell for cell, verdict in verdicts.items() if verdict is False]

    assert len(visible) >= 3
    assert not_explained == []


@pytest.mark.thorough
def test_97_of_100_planted_mistakes_are_the_first_explanation() -> None:
    """A cell of the matrix is a scheme, a mistake that a formula plants in its tables, and a storage
    such as float16. `is_explained` returns True if the first explanation is that mistake, and None
    if the storage hides it. More than 1000 cells are visible.
    """
    verdicts = [is_explained(*cell) for cell in SPECS_MISTAKES_AND_STORAGES]
    visible = [verdict for verdict in verdicts if verdict is not None]

    assert sum(visible) >= 0.97 * len(visible)
    assert 0.97 * len(visible) > 1000


@pytest.mark.parametrize(
    ("seed", "count"), [(7, 2), pytest.param(1, 500, marks=pytest.mark.thorough)]
)
def test_nothing_is_claimed_of_tables_of_nothing_that_pecli_knows(seed: int, count: int) -> None:
    """`unrelated.claims` draws noise, weights, images and other waves, and returns what `identify`
    claims to find in each. At most one false claim in 200 is allowed, so none among 2.
    """
    false_claims = [
        (number, kind)
        for number, (kind, claim) in enumerate(unrelated.claims(seed, count))
        if claim
    ]
    assert len(false_claims) <= 0.005 * count, false_claims


def test_a_sinusoidal_table_in_three_decimals_is_recognised_without_other_parameters() -> None:
    """The scheme that is recognised has the default base, scale and offset, though others near them
    make the same three decimals.
    """
    scheme = Sinusoidal(128, 64, dtype="float64")
    in_three_decimals = np.round(scheme.tables()["pe"].astype(np.float64), 3)
    first, *_ = recognise({"pe": in_three_decimals})

    assert first.scheme == scheme


@pytest.mark.parametrize(
    "name",
    ["llama-3.1-8b", "gpt-oss-20b", "gpt-j-6b"],
)
@pytest.mark.thorough
def test_mistakes_in_rotated_queries_are_named(name: str) -> None:
    """`rotations` yields a mistake's name, random queries rotated with it by formulas in float64
    (for example from position 37 on), and the edit that describes it. The right rotation passes;
    each other is explained by that edit only. «left padding» is a mistake of sequence 1.
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
        if mistake != "right":
            assert result.explanations[0].mistakes == (edit,), mistake
        if mistake == "left padding":
            assert result.explanations[0].tensors == ("sequence 1",)


SPEC = {**LLAMA3, "base": 5e5}


@pytest.mark.parametrize(
    "names", [pytest.param(["cos", "sin"], marks=pytest.mark.thorough), ["inv_freq"]]
)
def test_two_wrong_numbers_that_no_model_has_are_named(names: list[str]) -> None:
    """Llama 3's factor is 5.5 instead of 8, and high_freq_factor 6 instead of 4: neither can be
    found in a list of common values, so both are fitted.
    """
    spec = Rope(1024, 64, **SPEC)
    tables = replace(spec, factor=5.5, high_freq_factor=6.0).tables()
    first, *_ = explain(spec, {name: tables[name] for name in names})

    assert first.mistakes == (
        Parameter("factor", 8.0, 5.5),
        Parameter("high_freq_factor", 4.0, 6.0),
    )
