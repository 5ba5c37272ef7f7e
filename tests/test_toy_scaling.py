"""A scaling is one class and one line of the registry, also if it has a parameter of its own.

With both added here, every command accepts the parameter, and `verify` names a wrong value of it.
The toy divides frequency i by 1 + sharpness · i / factor; tables with sharpness 2 and factor 4 are
computed by NumPy. Commands run in a process in which the toy is registered.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.exit_codes import CHECK_FAILED, SUCCESS, USAGE_ERROR
from tests.toy_process import Run, process_with

TOY = """
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from pecli.engine import scalings
from pecli.engine.scalings.scaling import NewParameter, Scaling, divided, new_parameter, unscaled

@dataclass(frozen=True)
class Toy(Scaling):
    per_frequency = True

    factor: float
    sharpness: float | None = new_parameter(NewParameter("toy: growth of the divisors"))

    def frequencies(self, base, dim):
        divisors = [1 + Fraction(self.sharpness) * i / Fraction(self.factor) for i in range(dim // 2)]
        return divided(unscaled(base, dim), divisors)

    def approximate(self, plain, base, half):
        return plain / (1 + self.sharpness * np.arange(plain.shape[-1]) / self.factor)

scalings.SCALINGS["toy"] = Toy
scalings.PARAMETERS = (*scalings.PARAMETERS, "sharpness")
"""
TOY_COMMAND = "rope --seq-len 64 --dim 16 --scaling toy --factor 4"
CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "rope_scaling": {"rope_type": "toy", "factor": 4.0, "sharpness": 2.0},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a config, and with the toy's cosines and sines at sharpness 2."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    pair = np.arange(8)
    frequencies = 10000.0 ** (-pair / 8) / (1 + 2 * pair / 4)
    angles = np.outer(np.arange(64), frequencies)
    np.savez(
        tmp_path / "dump.npz",
        cos=np.cos(angles).astype(np.float32),
        sin=np.sin(angles).astype(np.float32),
    )
    return tmp_path


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with process_with(TOY) as run:
        yield run


def test_a_table_is_made_with_the_parameter_of_an_added_scaling(run: Run, folder: Path) -> None:
    """The toy is a scaling that divides frequency i by 1 + sharpness · i / factor; it is registered in
    the process that `run` uses. TOY_COMMAND is «rope … --scaling toy --factor 4», and dump.npz has
    NumPy's cosines with divisors 1 + 2 i / 4.
    """
    code, output = run(folder, f"{TOY_COMMAND} --sharpness 2 -o made.npz -q")
    assert code == SUCCESS, output

    with np.load(folder / "made.npz") as made, np.load(folder / "dump.npz") as expected:
        np.testing.assert_allclose(made["cos"], expected["cos"], rtol=0, atol=1e-7)


def test_the_parameter_of_an_added_scaling_has_its_rule(run: Run, folder: Path) -> None:
    """The toy, a scaling, has the parameter sharpness, which is declared with NewParameter; such a
    number must be above 0. TOY_COMMAND is «rope … --scaling toy --factor 4».
    """
    code, output = run(folder, f"{TOY_COMMAND} --sharpness 0")
    assert code == USAGE_ERROR
    assert "--sharpness is 0; it must be a finite number above 0" in output


def test_other_scalings_do_not_have_the_parameter_of_an_added_one(run: Run, folder: Path) -> None:
    """The toy is a scaling with the parameter sharpness. Without --scaling toy, --sharpness has no
    meaning, and is refused.
    """
    code, output = run(folder, "rope --seq-len 4 --dim 8 --sharpness 2")
    assert code == USAGE_ERROR
    assert "only toy scaling uses it" in output


def test_a_config_states_the_parameter_of_an_added_scaling(run: Run, folder: Path) -> None:
    """The toy is a scaling with the parameter sharpness. `rope_scaling` of config.json has the type
    «toy» and sharpness 2, and dump.npz NumPy's tables with this: they pass, within one unit in the
    last place.
    """
    code, output = run(folder, "verify dump.npz --config config.json --max-ulp 1")
    assert code == SUCCESS, output


def test_verify_names_a_wrong_parameter_of_an_added_scaling(run: Run, folder: Path) -> None:
    """The toy is a scaling with the parameter sharpness. dump.npz has NumPy's tables with sharpness 2,
    and config.json is written with 3.
    """
    scaling: dict[str, Any] = {**CONFIG["rope_scaling"], "sharpness": 3.0}
    (folder / "config.json").write_text(json.dumps({**CONFIG, "rope_scaling": scaling}))
    code, output = run(folder, "verify dump.npz --config config.json")

    assert code == CHECK_FAILED
    assert "sharpness is 2 " in output
