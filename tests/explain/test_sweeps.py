"""A few random cases of the sweeps that attack the search for reasons; `python -m
tests.tools.sweep` tries thousands.

A sweep draws a scheme, a mistake and a storage from a seed, by formulas of its own in NumPy, so
that it knows the answer.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import pecli
from tests.explain import unrelated
from tests.tools.sweeps.attack import KINDS, Attack, Random
from tests.tools.sweeps.dumps import draw_dump
from tests.tools.sweeps.judging import verdict_problem
from tests.tools.sweeps.unrelated import ANOTHER as ANOTHER_SCHEME
from tests.tools.sweeps.unrelated import unrelated_problem


def has_fields(edit: dict[str, Any], expected: Mapping[str, Any]) -> bool:
    """Return True if an edit (in JSON) has all expected fields, numbers to six digits."""
    for name, value in expected.items():
        is_same = edit.get(name) == value
        if isinstance(value, float) and isinstance(edit.get(name), float):
            is_same = bool(np.isclose(edit[name], value, rtol=1e-6))
        if not is_same:
            return False
    return True


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.sample(
    "damaged_heads", "other_base", "other_scaling_number", "missing_scaling", "grid_base"
)
def test_the_first_reason_is_the_planted_mistake(kind: Callable[[Random], Attack]) -> None:
    """A kind is a function that plants a mistake in tables by NumPy. `other_base`, for example, returns
    Attack(spec=Rope(512, 64), arrays=tables of base 500000, edits=…): for each mistake the
    descriptions of it that are accepted, here {"name": "base", "found": 500000.0}.
    """
    attack = kind(np.random.default_rng([KINDS.index(kind), 2]))
    answer = pecli.verify(attack.arrays, attack.spec, atol=1e-6)
    assert not answer.passed

    found = [edit.as_json() for edit in answer.explanations[0].mistakes]
    assert len(found) == len(attack.edits)
    for descriptions in attack.edits:
        assert any(has_fields(edit, fields) for edit in found for fields in descriptions)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.sample("2", "6")
def test_a_dump_passes_if_and_only_if_it_is_right_within_its_tolerance(seed: int) -> None:
    """`draw_dump` draws NumPy's tables of some scheme, without or with a mistake, a storage such as
    bfloat16, and a tolerance. It is right if no element is off by more than the tolerance.
    `verdict_problem` has it judged by `verify`, `diff` or a command, and returns a text, such as
    «false pass (off by 0.3)», if their verdict is another one.
    """
    dump = draw_dump(np.random.default_rng([seed, 0]))
    assert verdict_problem(dump) == ""


UNRELATED_KINDS = [*unrelated.KINDS, ANOTHER_SCHEME]
"""Noise, weights, images, masks and so on; and the table of another scheme than the spec."""


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.sample("9")
def test_nothing_is_claimed_of_an_array_that_has_nothing_to_do_with_the_spec(seed: int) -> None:
    """The arrays take turns in their kind, ten in all. `unrelated_problem` returns what `identify`
    recognises in one, or the reason that `verify` gives, such as «claimed: base is 500000», though
    nothing of the kind was drawn; it is empty if there is no such claim.
    """
    kind = UNRELATED_KINDS[seed % len(UNRELATED_KINDS)]
    assert unrelated_problem(kind, seed) == ""
