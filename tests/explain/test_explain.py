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
from pecli.explain.explanation import Explanation
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
"""Schemes, such as Rope(512, 64), each with the names of the tensors that are looked at."""

STORAGES = storages(np.random.default_rng(0))
"""Functions that store a float64 table in float32, float16, bfloat16, decimals or steps of int8."""

COARSE = ("int8 steps", "4 decimals")  # which leave little of a vector of slopes
SPECS_MISTAKES_AND_STORAGES = [
    (subject, mistake, storage)
    for subject, (_, names) in enumerate(SUBJECTS)
    for mistake in range(len(MISTAKES))
    for storage in STORAGES
    if names != ("slopes",) or storage not in COARSE
]
"""The cells of a matrix: numbers in SUBJECTS and MISTAKES, and the name of a storage."""


def is_explained(subject: int, mistake: int, storage: str) -> bool | None:
    """Return True if the first explanation of a table is the mistake that a formula planted in it.

    None stands for a cell that shows no mistake: it does not exist for the scheme, or the storage
    changes the table as much as the mistake does.
    """
    scheme, names = SUBJECTS[subject]
    right = {
        name: table.astype(np.float64) for name, table in scheme.tables().items() if name in names
    }
    planted = MISTAKES[mistake].make(scheme, right)
    if planted is None:
        return None
    wrong, expected_edits = planted
    if all(np.array_equal(wrong[name], right[name]) for name in right):
        return None
    store = STORAGES[storage]
    tables = {
        name: np.ascontiguousarray(store(table)).astype(np.float32) for name, table in wrong.items()
    }
    if hidden(right, wrong, {name: table.astype(np.float64) for name, table in tables.items()}):
        return None
    found = explain(replace(scheme, dtype="float32"), tables)
    if not found:
        return False
    if MISTAKES[mistake].name == "truncate False" and is_a_runtime_without_truncation(found[0]):
        return True
    return alike(found[0].mistakes, expected_edits)


def is_a_runtime_without_truncation(explanation: Explanation) -> bool:
    """Return True if the explanation is a program that does not round YaRN's limits (onnxruntime-genai):
    this is `truncate` False as well.
    """
    is_runtime = isinstance(explanation.edits[0], vocabulary.Runtime)
    return is_runtime and "does not round YaRN's limits" in sentence(explanation)


def test_planted_mistakes_are_the_first_explanation() -> None:
    """A cell is a scheme, a mistake that a formula plants in its tables (tests/explain/mistakes.py),
    and a storage such as float16. Every 254th of 2924 cells is tried. Of these 12, nine show no
    mistake (ALiBi has no base that could be another), which leaves three: a scale and two signs.
    """
    verdicts = {cell: is_explained(*cell) for cell in SPECS_MISTAKES_AND_STORAGES[::254]}
    visible = [verdict for verdict in verdicts.values() if verdict is not None]
    not_explained = [cell for cell, verdict in verdicts.items() if verdict is False]

    assert len(visible) >= 3
    assert not_explained == []


@pytest.mark.thorough
def test_97_of_100_planted_mistakes_are_the_first_explanation() -> None:
    """A cell is a scheme, a mistake that a formula plants in its tables (tests/explain/mistakes.py),
    and a storage such as float16. In 3 of 100 another explanation of the table may be as short. More
    than 1030 cells show their mistake, which guards against a matrix that an error of the test empties.
    """
    verdicts = [is_explained(*cell) for cell in SPECS_MISTAKES_AND_STORAGES]
    visible = [verdict for verdict in verdicts if verdict is not None]

    assert len(visible) > 1030
    assert sum(visible) >= 0.97 * len(visible)


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
