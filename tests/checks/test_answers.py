"""One table of answers, answers.txt: an expression, and the value that it must have, which is known for a reason."""

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import numpy as np
import pytest

import pecli
from pecli import checks, golden
from pecli.compare import comparison
from pecli.errors import NoTablesError, PecliError
from tests.checks import rope_dumps

ROWS = Path(__file__).with_name("answers.txt").read_text(encoding="utf-8").splitlines()
MODULES = [each.name for each in walk_packages(checks.__path__, "pecli.checks.")]
NAMES: dict[str, Any] = {
    **vars(rope_dumps),
    **{name.rpartition(".")[2]: import_module(name) for name in MODULES},
}
ARRANGED = {
    name: dump for name, (dump, right) in rope_dumps.DUMPS.items() if right and len(dump) == 1
}
INTERLEAVING = {**rope_dumps.CONFIG, "head_dim": 16, "partial_rotary_factor": 1.0}
NAMES |= {"compare": comparison}
NAMES |= {
    "ARRANGED": ARRANGED,
    "INTERLEAVING": INTERLEAVING,
    "X": np.ones((2, 5, 8), "f4"),
    "sha256": sha256,
    "checks": checks,
}
RANDOM = np.random.default_rng(0)
NAMES |= {
    "WEIGHT": RANDOM.normal(size=(8, 8)),
    "BEFORE": (before := RANDOM.normal(size=(3, 12, 16))),
}
after = partial(pecli.apply, before, rope_dumps.CONFIG)
RUN = {
    f"layers.{layer}.q.{when}": x
    for layer in (0, 1)
    for when, x in (("before", before), ("after", after()))
}
LAYERS = {
    "layer_types": ["sliding_attention", "full_attention"],
    "rope_local_base_freq": 100.0,
    "head_dim": 16,
}
NAMES |= {
    "golden": golden,
    "after": after,
    "RUN": RUN,
    "TWO_KINDS": rope_dumps.CONFIG | LAYERS | {"model_type": "gemma3_text"},
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
NAMES |= {"YARN": {**rope_dumps.CONFIG, "max_position_embeddings": 64, "rope_scaling": YARN}}
WRONG_IN_ONE_HEAD = {
    "cos": np.tile(rope_dumps.COS, (2, 4, 1, 2)),
    "sin": rope_dumps.SIN,
}
WRONG_IN_ONE_HEAD["cos"][1, 2, 5, 3] = 2
NAMES |= {
    "WRONG_IN_ONE_HEAD": WRONG_IN_ONE_HEAD,
    "KERAS": np.float32(np.outer(2.0 ** -np.arange(1, 9), np.arange(-15, 1)))[:, None],
}
ANGLES = np.outer((1, 4097, 131071), 1e4 ** (-np.arange(64) / 64))
NAMES |= {"FAR": {"cos": np.cos(ANGLES), "sin": np.sin(ANGLES)}}
NAMES |= {
    "SLOPES": 2.0 ** -np.arange(1, 9),
    "NAIVE": 2.0 ** (-8 * np.arange(1, 7) / 6),
}


def csv(table: Any, name: str = "t.csv") -> str:
    np.savetxt(name, table, delimiter=",", fmt="%s")
    return name


def error(call: Callable[[], object]) -> str:
    with pytest.raises(PecliError) as caught:
        call()
    return str(caught.value)


HELPERS = (csv, error, NoTablesError)
NAMES |= {each.__name__: each for each in HELPERS} | {"of": attrgetter}


def test_every_answer_is_the_right_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for code, _, expected in (row.partition(" | ") for row in ROWS if row[:1] not in ("", "#")):
        found = eval(code, NAMES)
        assert found == eval(expected, NAMES), f"{code}: {found}"
