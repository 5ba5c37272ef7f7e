"""Configurations of public projects: their encodings are those that the projects' own code computes.

A row of public_configs.jsonl has the file of a project (`source`), as text or as an object, and what
the code named in `notes` makes of it.
"""

import json
from typing import Any

import numpy as np
import pytest

from pecli.models.config_files import parse_config
from pecli.models.dialects import read_object
from pecli.models.encoding import Encoding, ModelEncodings
from tests.models.facts import stored

Row = dict[str, Any]
ROWS: list[Row] = stored("public_configs.jsonl")
ROTARY = [row for row in ROWS if row["expected"]["encodings"]]
TABLES = [row for row in ROWS if row["expected"]["schemes"]]


def model_of(row: Row) -> ModelEncodings:
    text = row["text"] if "text" in row else json.dumps(row["config"])
    return read_object(parse_config(row["file"], text.encode()), row["file"])


def row_name(row: Row) -> str:
    return str(row["source"])


def has_frequencies(encoding: Encoding, frequencies: list[float]) -> bool:
    values = encoding.inverse_frequencies() or []
    return len(values) == len(frequencies) and np.allclose(values, frequencies, rtol=2e-5, atol=0)


@pytest.mark.parametrize("row", ROTARY, ids=row_name)
def test_rotary_encodings_are_those_of_the_projects_code(row: Row) -> None:
    ropes = model_of(row).ropes()
    for expected in row["expected"]["encodings"]:
        matches = [rope for rope in ropes if has_frequencies(rope, expected["inv_freq"])]
        assert matches
        assert expected["layout"] in (None, matches[0].layout)
        assert matches[0].attention_factor() == pytest.approx(expected["attention_factor"])


@pytest.mark.parametrize("row", TABLES, ids=row_name)
def test_tables_are_those_of_the_projects_code(row: Row) -> None:
    model = model_of(row)
    for expected in row["expected"]["schemes"]:
        size = {name: value for name, value in expected.items() if name != "scheme"}
        encodings = [encoding for encoding in model if encoding.scheme == expected["scheme"]]
        sizes = [{name: encoding.parameters.get(name) for name in size} for encoding in encodings]
        assert size in sizes


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${.length}", 512),
        ("${model.length}", 512),
        ("${..top}", 7),
        ("${...top}", "${...top}"),
        ("${other}", 512),
        ("${absent}", "${absent}"),
        ("${model}", "${model}"),
        ("${loop}", "${loop}"),
        ("${multiply:2,3}", "${multiply:2,3}"),
        ("5e5", 500000.0),
        ("1.e-8", 1e-8),
        ("'5e5'", "5e5"),
    ],
)
def test_references_and_numbers_of_yaml(text: str, value: object) -> None:
    lines = [
        "top: 7",
        "other: ${model.length}",
        "loop: ${loop}",
        "model:",
        "  length: 512",
        f"  x: {text}",
    ]
    config = parse_config("a.yaml", "\n".join(lines).encode())
    model = config["model"]
    assert isinstance(model, dict)
    assert model["x"] == value
