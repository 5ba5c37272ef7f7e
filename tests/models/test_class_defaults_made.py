"""Models made from the defaults of their classes: every rotary table right, every other table reported or named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pecli
from pecli.models.find import load_config

MADE = json.loads((Path(__file__).parent / "data" / "class_defaults_made.json").read_text())
QUIRKS = {
    "mistral4/linear": "the class forgets its partial factor when other settings come",
    "mistral4/new-partial": "as above",
    "mistral4/head_dim": "a head_dim beside the sizes of its parts",
}
ROTATED = ("roformer", "codegen", "gptj", "ctrl")  # whose tables are those of the rotation


def test_rotary_tables_of_class_defaults() -> None:
    wrong = []
    for name, case in MADE["rope"].items():
        found = {each.layer_type: each for each in load_config(case["config"]) if each.is_rotary}
        for layer, (count, second, last, factor) in case["tables"].items():
            encoding = found.get(layer) or next(iter(found.values()))
            values = encoding.inverse_frequencies() or [0.0]
            ends = (len(values), values[min(1, count - 1)], values[-1])
            right = ends == pytest.approx((count, second, last), rel=2e-5, abs=1e-30)
            if not right or (factor is not None and encoding.attention_factor() != pytest.approx(factor, rel=1e-5)):
                wrong.append(name)
    assert set(wrong) <= set(QUIRKS)


def shapes(model: pecli.models.encoding.ModelEncodings) -> set[tuple[int, ...]]:
    return {
        (each.parameters.get("max_len") or each.parameters.get("seq_len") or 0, each.parameters["dim"])
        for each in model
        if each.scheme in ("learned", "sinusoidal")
    }


def test_other_tables_of_class_defaults_are_reported_or_named() -> None:
    silent = []
    for name, tensors in MADE["tables"].items():
        try:
            model = load_config({"model_type": name})
        except pecli.FileError:  # a shell around parts, which says what it misses
            continue
        said = " ".join(model.warnings)
        known = {(rows + more, dim) for rows, dim in shapes(model) for more in (0, 2)}  # fairseq's have two rows more
        reported = bool(known & {tuple(shape) for shape in tensors.values()}) or any(
            not each.is_rotary for each in model
        )
        if not reported and not ("table" in said or "relative" in said) and name not in ROTATED:
            silent.append(name)
    assert silent == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lxmert", {(512, 768)}),
        ("dpr", {(512, 768)}),
        ("dpt", {(577, 768)}),
        ("nystromformer", {(512, 768)}),
        ("yoso", {(4098, 768)}),
        ("led", {(16384, 1024), (1024, 1024)}),
        ("parakeet_encoder", {(5000, 1024)}),
        ("wav2vec2-conformer", {(5000, 768)}),
    ],
)
def test_rows_and_columns_of_some(name: str, expected: set[tuple[int, int]]) -> None:
    model = load_config({"model_type": name})
    assert shapes(model) == expected
    assert not any("no key names one" in warning for warning in model.warnings)


def test_a_conformer_has_sines_of_relative_positions() -> None:
    """As transformers' ParakeetEncoderRelPositionalEncoding makes them, to 2e-6."""
    (encoding,) = load_config({"model_type": "parakeet_encoder"})
    assert encoding.parameters["relative"] is True
    assert encoding.parameters["layout"] == "interleaved"
