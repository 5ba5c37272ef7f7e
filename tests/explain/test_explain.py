"""One search explains tables: a sample of the matrix, recipes, rotations, unrelated tables, and weak passes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pecli
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.explain import array_transforms as transforms
from pecli.explain import edits as vocabulary
from pecli.explain.edits import Edit, Explanation, Parameter, Recipe
from pecli.explain.search import explain, recognise
from pecli.explain.words import sentence
from tests.tools import rotation_matrix as rotations
from tests.tools import unrelated_tables as unrelated
from tests.tools.mistake_matrix import LLAMA3, MISTAKES, alike, storages, subjects

GOLDEN = Path(__file__).with_name("words.json")
SUBJECTS = list(subjects(large=False))
COARSE = ("int8 steps", "noise 1e-4", "4 decimals")


def planted(subject: int, mistake: int) -> tuple[dict[str, np.ndarray], tuple[Edit, ...]] | None:
    """The tables of a scheme with a mistake, and its edits; None where it makes none."""
    _, scheme, names = SUBJECTS[subject]
    right = {name: table.astype(np.float64) for name, table in scheme.tables().items() if name in names}
    made = MISTAKES[mistake].make(scheme, right)
    return None if made is None or all(np.array_equal(made[0][name], right[name]) for name in right) else made


SAMPLE = [
    (subject, mistake, storage)
    for subject in range(len(SUBJECTS))
    for mistake in range(len(MISTAKES))
    for k, storage in enumerate(storages(np.random.default_rng(0)))
    if (7 * subject + 3 * mistake + k) % 29 == 0
    and not (storage in COARSE and len(SUBJECTS[subject][2][0]) > 4)  # which hides mistakes of vectors
    and planted(subject, mistake) is not None
]


@pytest.mark.parametrize(("subject", "mistake", "storage"), SAMPLE)
def test_planted_mistakes_are_the_first_explanation(subject: int, mistake: int, storage: str) -> None:
    made = planted(subject, mistake)
    assert made is not None
    keep = storages(np.random.default_rng(3))[storage]
    tables = {name: np.ascontiguousarray(keep(table)).astype(np.float32) for name, table in made[0].items()}
    found = explain(replace(SUBJECTS[subject][1], dtype="float32"), tables)
    assert found
    assert alike(found[0].mistakes, made[1])


def test_nothing_is_claimed_of_what_is_no_table() -> None:
    """A small part of the script, which looks at 500."""
    assert [(k, name) for k, (name, found) in enumerate(unrelated.claims(7, 40)) if found] == []


def test_no_whole_table_is_made_for_transforms_of_what_is_unrelated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows show that none of a hundred transforms comes near; hence it takes no seconds."""
    rng, whole = np.random.default_rng(2), []
    measure = transforms.Sides.left
    monkeypatch.setattr(transforms.Sides, "left", lambda sides, made: whole.append(1) or measure(sides, made))
    tables = {name: rng.normal(size=(4096, 64)).astype(np.float32) for name in ("cos", "sin")}
    assert explain(Rope(4096, 64, layout="halves"), tables) == []
    assert len(whole) == len(tables)  # each as it is


def test_a_paper_table_at_three_decimals_is_what_it_is() -> None:
    table = np.round(Sinusoidal(128, 64, dtype="float64").tables()["pe"].astype(np.float64), 3)
    scheme = recognise({"pe": table})[0].scheme
    assert scheme == Sinusoidal(128, 64, dtype="float64")


@pytest.mark.parametrize("recipe", ["bfloat16-positions", "bfloat16-inv-freq", "bfloat16-phases"])
def test_recipes_are_named(recipe: str) -> None:
    tables = Rope(1024, 64, recipe=recipe).tables()
    found = explain(Rope(1024, 64), {name: tables[name] for name in ("cos", "sin")})
    assert {edit for each in found for edit in each.edits} == {Recipe(recipe)}


@pytest.mark.parametrize("mistake", ["offset 37", "theta", "layout", "direction", "scaling missing", "left padding"])
def test_rotated_queries_explain_themselves(mistake: str) -> None:
    model = pecli.load_model("llama-3.1-8b")
    rope = model.encodings[0].rope(rotations.LENGTH, dtype="float64")
    name, make, told = next(case for case in rotations.cases(rope, "halves") if case[0] == mistake)
    before = np.random.default_rng(1).normal(size=(2, 8, rotations.LENGTH, 128)).astype(np.float32)
    after = make(before.astype(np.float64)).astype(np.float32)
    result = pecli.verify(after, model, before=before, atol=1e-5)
    assert not result.passed
    if name == "left padding":
        assert [(each.tensors, each.mistakes) for each in result.explanations] == [
            (("sequence 1",), (vocabulary.Rows("padded", 9),))
        ]
    else:
        assert result.explanations[0].mistakes == told
    right = rotations.rotated(
        before.astype(np.float64), np.array(rope.frequencies().floats()), np.arange(rotations.LENGTH), "halves"
    )
    assert pecli.verify(right.astype(np.float32), model, before=before, atol=1e-5).passed


SPEC = {**LLAMA3, "base": 5e5}


def test_two_numbers_that_nobody_has() -> None:
    tables = Rope(1024, 64, **{**SPEC, "factor": 5.5, "high_freq_factor": 6.0}).tables()
    for names in (("cos", "sin"), ("inv_freq",)):
        found = explain(Rope(1024, 64, **SPEC), {name: tables[name] for name in names})
        assert found[0].mistakes == (Parameter("factor", 8.0, 5.5), Parameter("high_freq_factor", 4.0, 6.0))


def test_a_pass_that_proves_little_says_so() -> None:
    for length, weak in ((2, True), (8192, False)):
        scheme = Rope(length, 128, **SPEC)
        tables = {name: table for name, table in scheme.tables().items() if name != "inv_freq"}
        result = pecli.verify(tables, scheme, atol=1e-3)
        assert result.passed
        assert any("llama3 scaling from none" in line for line in result.weak) == weak
        assert result.as_json()["weak"] == list(result.weak)


EXAMPLES: list[Edit] = [
    Parameter("base", 500000.0, 10000.0),
    Parameter("offset", 0, 1234),
    Parameter("dim", 64, 32),
    Parameter("beta_fast", 32.0, 64.0),
    Parameter("scaling", "llama3", "none"),
    Parameter("scaling", "yarn", "yarn, applied twice"),
    Parameter("scale", 1.0, 1000.0),
    Parameter("padding_idx", 1, None),
    Parameter("exponent_dim", 64, 128),
    vocabulary.Layout("interleaved", "halves"),
    vocabulary.Swapped(),
    vocabulary.Rotation("none"),
    vocabulary.Negated("sin"),
    vocabulary.Scaled(2.0),
    vocabulary.Transposed((1, 0)),
    vocabulary.Repeated(0, 2),
    vocabulary.Rows("wrapped", 128),
    vocabulary.Rows("padded", 5),
    vocabulary.Channels("reversed"),
    vocabulary.Heads((1, 0, 2)),
    vocabulary.Mask("-1e+09"),
    vocabulary.RowShift(),
    vocabulary.Dtype("float16"),
    vocabulary.Decimals(4),
    vocabulary.FixedPoint(1 / 127),
    vocabulary.Noise(1e-5),
    Recipe("float32"),
    vocabulary.Runtime("transformers", ("vllm",)),
    vocabulary.Runtime("llama.cpp", (), ("rounds YaRN's limits to 8 and 18; the config says truncate: false",)),
    vocabulary.RowsWrong((5,)),
    vocabulary.ColumnsWrong((5, 7)),
    vocabulary.Uninitialised(),
    vocabulary.Bits("bfloat16"),
    vocabulary.Bits("swapped"),
    vocabulary.Rows("cut", 5),
    Parameter("inv_freq", "frequencies", "wavelengths"),
    vocabulary.RowsWrong((5, *range(29, 35))),
    vocabulary.ElementsWrong(((77, 3),)),
    vocabulary.HeadsWrong(((2,), (1, 2))),
    vocabulary.RowRange(4096, 8191),
    *map(vocabulary.Incomplete, ("halves", "interleaved", "angles")),
]


def test_the_wording_is_that_of_the_golden_file() -> None:
    said = [sentence(Explanation((edit,), None, ("cos", "sin"), residual=3e-8)) for edit in EXAMPLES]
    assert said == json.loads(GOLDEN.read_text(encoding="utf-8"))


def test_every_edit_has_words_and_json() -> None:
    kinds = {type(edit) for edit in EXAMPLES}
    assert kinds == {
        each
        for name, each in vars(vocabulary).items()
        if isinstance(each, type) and issubclass(each, Edit) and each is not Edit and not name.startswith("_")
    }
    for edit in EXAMPLES:
        json.dumps(edit.as_json())
        assert edit.as_json()["edit"] == edit.kind
