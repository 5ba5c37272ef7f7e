"""Commands that make a scheme again."""

from __future__ import annotations

import shlex
from dataclasses import replace

import numpy as np
import pytest

from pecli.checks.identify.match import Match, options
from pecli.cli.app import run
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.engine.text import spelled
from pecli.files import load_file
from pecli.files.provenance import carried_spec
from tests.checks.identify.specs import random_scheme


def command(scheme: Scheme, *tensors: str) -> str:
    return Match(scheme, 0.0, tensors or ("x",)).command


def test_only_what_differs_from_the_defaults_is_said() -> None:
    assert command(Sinusoidal(64, 16)) == "pecli sinusoidal --seq-len 64 --dim 16 -o again.npy"
    assert command(Alibi(8)) == "pecli alibi --heads 8 -o again.npy"
    assert command(Alibi(8, 4), "bias", "slopes") == "pecli alibi --heads 8 --seq-len 4 -o again.safetensors"
    llama = Rope(4096, 128, base=500000.0)
    assert command(llama) == "pecli rope --seq-len 4096 --dim 128 --theta 500000 -o again.safetensors"
    assert command(Sinusoidal(64, 16, dtype="bfloat16")).endswith("--dtype bfloat16 -o again.safetensors")


def test_flags_truths_and_lists_are_spelled_as_they_are_parsed() -> None:
    words = list(options(Sinusoidal(4, 4, cos_first=True)))
    assert words[-1] == "--cos-first"
    yarn = Rope(4, 4, scaling="yarn", factor=2.0, original_max_position_embeddings=64, truncate=False)
    assert list(options(yarn))[-2:] == ["--truncate", "false"]
    assert spelled((0.1, 2.0)) == "0.1,2"


@pytest.mark.parametrize("value", [1 / 3, 1e22, 1e-30, 123456789.123, 2.0**60, 5e-324])
def test_numbers_parse_to_the_very_same(value: float) -> None:
    assert float(spelled(value)) == value


def test_the_command_makes_the_very_scheme(tmp_path) -> None:
    rng = np.random.default_rng(7)
    awkward = Sinusoidal(8, 6, base=1 / 3 * 1e5, amplitude=np.sqrt(2 / 6), freq_shift=-0.5, padding_idx=0)
    seeded = LearnedInit(4, 4, init="uniform", seed=2**63 + 1, rng="torch")
    for k, scheme in enumerate([awkward, seeded, *(random_scheme(rng) for _ in range(40))]):
        *words, _ = shlex.split(command(scheme))
        path = tmp_path / f"{k}.safetensors"
        assert run([*words[1:], str(path), "-q"]) == 0
        with load_file(str(path)) as file:
            usual = {
                name: type(scheme).default_of(name) for name in scheme.inert_parameters
            }  # which the command leaves out
            assert Scheme.from_spec({**carried_spec("", file.metadata)}) == replace(scheme, **usual)


def test_json_has_what_the_contract_asks_for() -> None:
    found = Match(Alibi(6), float("inf"), ("s",), "of shape 6 × 1", ("rule: open",)).as_json()
    assert found["scheme"] == "alibi"
    assert found["recipe"] == "exact"
    assert found["parameters"]["heads"] == 6
    assert found["max_abs_error"] is None
    assert found["tensors"] == ["s"]
    assert found["undetermined"] == ["rule: open"]
