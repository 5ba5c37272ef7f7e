"""Schemes from words."""

from __future__ import annotations

import pytest

import pecli
from pecli.cli.options import parse_scheme
from pecli.errors import ParameterError


def test_words_make_the_scheme_that_python_makes() -> None:
    words = ["--seq-len", "8", "--dim=4", "--theta", "500", "--layout", "halves"]
    assert parse_scheme("rope", words) == pecli.Rope(8, 4, base=500.0, layout="halves")
    assert parse_scheme("sinusoidal", ["--seq-len", "8", "--dim", "4", "--cos-first"]) == pecli.Sinusoidal(
        8, 4, cos_first=True
    )


def test_defaults_count_for_what_is_left_out() -> None:
    assert parse_scheme("rope", ["--dim", "8"], {"seq_len": "16", "dim": "4"}) == pecli.Rope(16, 8)
    assert parse_scheme("alibi", [], {"seq_len": "16", "heads": "4", "dim": "9"}) == pecli.Alibi(4, 16)


def test_a_model_decides_all_but_the_length() -> None:
    scheme = parse_scheme("rope", ["--model", "llama-3.1-8b"], {"seq_len": "16", "dim": "4"})
    assert isinstance(scheme, pecli.Rope)
    assert (scheme.seq_len, scheme.dim, scheme.scaling) == (16, 128, "llama3")


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ParameterError, match="dim is missing"):
        parse_scheme("sinusoidal", [])
