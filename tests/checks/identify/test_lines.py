"""Tables in lines of text: their dtype and axes are found out with the rest."""

from __future__ import annotations

import numpy as np
import pytest

import pecli

SCHEMES = [
    *(
        pecli.Sinusoidal(40, 16, layout="halves", dtype=dtype)
        for dtype in ("float32", "float64", "float16", "bfloat16")
    ),
    pecli.Rope(40, 16, 500000.0),
    pecli.Rope(40, 16, layout="halves", dtype="float64"),
    pecli.Alibi(6, 8),
    pecli.Alibi(6, 8, form="causal"),
    pecli.Alibi(12),
]


@pytest.mark.parametrize(
    "scheme", SCHEMES, ids=lambda scheme: f"{scheme.name} {scheme.dtype} {scheme.single_array().shape}"
)
def test_what_is_written_is_identified(tmp_path, scheme) -> None:
    pecli.save(tmp_path / "t.csv", scheme)
    pecli.save(tmp_path / "again.csv", pecli.identify(tmp_path / "t.csv").matches[0].scheme)
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "t.csv").read_bytes()


def test_decimals_of_float64_are_not_taken_for_narrower_ones(tmp_path) -> None:
    angles = np.arange(40)[:, None] * 10000.0 ** (-np.arange(8) / 8)
    np.savetxt(tmp_path / "t.csv", np.concatenate([np.sin(angles), np.cos(angles)], 1), delimiter=",", fmt="%.17g")
    (match,) = pecli.identify(tmp_path / "t.csv").matches
    assert (match.scheme.name, match.scheme.dtype) == ("sinusoidal", "float64")


def test_numbers_without_an_explanation_are_described_as_they_stand(tmp_path) -> None:
    np.savetxt(tmp_path / "t.csv", np.random.default_rng(0).standard_normal((16, 8)), delimiter=",")
    found = pecli.identify(tmp_path / "t.csv")
    assert not found.identified
    assert found.description[0].startswith("array: 16 × 8, float64")
