"""One table in the shapes that dumps give it has one verdict, whichever way it is asked for."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import pecli

LENGTH, DIM, BASE = 12, 16, 500000.0
CONFIG = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "rope_theta": BASE}
ROPE = pecli.Rope(seq_len=LENGTH, dim=DIM, theta=BASE)
ATOL = 1e-3
INV_FREQ = np.array([math.pow(BASE, -2 * i / DIM) for i in range(DIM // 2)])
ANGLES = np.arange(LENGTH)[:, None] * INV_FREQ
COS, SIN = np.cos(ANGLES).astype(np.float32), np.sin(ANGLES).astype(np.float32)
Array = np.ndarray[Any, Any]


def halves(table: Array) -> Array:
    return np.concatenate([table, table], -1)


def interleaved(table: Array) -> Array:
    return np.repeat(table, 2, -1)


def both(change: Callable[[Array], Array], cos: Array = COS, sin: Array = SIN) -> dict[str, Array]:
    return {"cos": change(cos), "sin": change(sin)}


def spoilt(table: Array, *place: int) -> Array:
    changed = table.copy()
    changed[place] += 0.01
    return changed


OTHER = np.arange(LENGTH)[:, None] * np.array([math.pow(10000, -2 * i / DIM) for i in range(DIM // 2)])
OTHERS = np.cos(OTHER).astype(np.float32), np.sin(OTHER).astype(np.float32)
DUMPS: dict[str, tuple[dict[str, Array], bool]] = {
    "as it is": (both(np.copy), True),
    "halves": (both(halves), True),
    "interleaved": (both(interleaved), True),
    "transformers": (both(lambda x: halves(x)[None]), True),
    "a batch axis and a head axis": (both(lambda x: x[None, None]), True),
    "megatron": (both(lambda x: halves(x)[:, None, None]), True),
    "a batch of two": (both(lambda x: np.stack([x, x])), True),
    "a batch of three, doubled": (both(lambda x: np.stack([halves(x)] * 3)), True),
    "expanded heads": (both(lambda x: np.broadcast_to(x[None, None], (1, 4, LENGTH, DIM // 2)).copy()), True),
    "a batch and heads, doubled": (both(lambda x: np.tile(interleaved(x), (2, 4, 1, 1))), True),
    "heads after positions": (both(lambda x: np.repeat(x[:, None], 4, 1)), True),
    "float64": (both(lambda x: x.astype(np.float64)), True),
    "float16": (both(lambda x: x.astype(np.float16)), True),
    "float16, doubled": (both(lambda x: halves(x).astype(np.float16)[None]), True),
    "within the tolerance": (both(lambda x: x + np.float32(5e-4)), True),
    "with frequencies": ({**both(halves), "inv_freq": INV_FREQ.astype(np.float32)}, True),
    "frequencies of float32 arithmetic": ({**both(halves), "inv_freq": (INV_FREQ * (1 + 4e-6)).astype("f4")}, True),
    "flat": (both(np.ravel), True),
    "flat, doubled": (both(lambda x: halves(x).ravel()), True),
    "flat, another base": (both(np.ravel, *OTHERS), False),
    "flat, an element missing": (both(lambda x: x.ravel()[:-1]), False),
    "other names": ({"cos_cached": halves(COS), "sin_cached": halves(SIN)}, True),
    "frequencies with axes": ({**both(halves), "inv_freq": INV_FREQ.astype(np.float32)[None, :, None]}, True),
    "frequencies off by 8": ({**both(halves), "inv_freq": (INV_FREQ / np.r_[np.ones(5), [8] * 3]).astype("f4")}, False),
    "frequencies off by 1e-4": ({**both(np.copy), "inv_freq": (INV_FREQ * (1 + 1e-4)).astype("f4")}, False),
    "frequencies in bfloat16": ({**both(np.copy), "inv_freq": INV_FREQ.astype(ml_dtypes.bfloat16)}, False),
    "frequencies in float16": ({**both(np.copy), "inv_freq": INV_FREQ.astype(np.float16)}, False),
    "another base": (both(np.copy, *OTHERS), False),
    "another base, doubled": (both(lambda x: halves(x)[None], *OTHERS), False),
    "cos and sin exchanged": (both(halves, SIN, COS), False),
    "doubled with the sign changed": (both(lambda x: np.concatenate([x, -x], -1)), False),
    "an element of the second copy": (both(lambda x: np.stack([x, spoilt(x, 3, 2)])), False),
    "an element of the second half": (both(lambda x: spoilt(halves(x), 3, 13)), False),
    "a batch of other positions": (both(lambda x: np.stack([x, np.roll(x, 1, 0)])), False),
    "not a number": (both(lambda x: np.where(np.arange(DIM // 2) == 3, np.float32(np.nan), x)), False),
}  # fmt: skip


def _passes(pecli_cli: Any, *words: object) -> bool:
    outcome = pecli_cli(*words, "--atol", ATOL, "--json")
    assert outcome.code in (0, 1), outcome.err
    assert outcome.json["passed"] == (outcome.code == 0)
    return bool(outcome.json["passed"])


@pytest.mark.parametrize("dump", DUMPS)
def test_every_door_has_one_verdict(pecli_cli: Any, tmp_path: Path, dump: str) -> None:
    arrays, right = DUMPS[dump]
    file, golden, config = tmp_path / "dump.safetensors", tmp_path / "golden.safetensors", tmp_path / "config.json"
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, file)
    pecli.save(golden, ROPE)
    config.write_text(json.dumps(CONFIG))
    verdicts = {
        "verify": _passes(pecli_cli, "verify", file, "--config", config),
        "--verify": _passes(pecli_cli, "rope", "--seq-len", LENGTH, "--dim", DIM, "--theta", BASE, "--verify", file),
        "diff": _passes(pecli_cli, "diff", golden, file),
        "pecli.verify": pecli.verify(arrays, ROPE, atol=ATOL).passed,
        "pecli.verify, a model": pecli.verify(arrays, pecli.load_config(CONFIG), atol=ATOL).passed,
        "pecli.diff": pecli.diff(ROPE.tables(), arrays, atol=ATOL).passed,
        "pecli.diff, the other way round": pecli.diff(arrays, ROPE.tables(), atol=ATOL).passed,
    }
    assert verdicts == dict.fromkeys(verdicts, right)


def test_there_are_thirty_dumps() -> None:
    assert len(DUMPS) >= 30


def test_how_a_table_was_read_is_said_in_a_note(pecli_cli: Any, tmp_path: Path) -> None:
    dump = {"cos": np.tile(halves(COS), (2, 1, 1, 1)), "sin": SIN}
    note = "two columns per frequency (c0 c1 … c0 c1 …), axes of length 1 dropped, repeated 2× along axis 0"
    assert pecli.verify(dump, ROPE).readings == {"cos": note}
    assert pecli.diff(ROPE.tables(), dump).readings == {"cos": f"B: {note}"}
    save_file(dump, tmp_path / "dump.safetensors")
    pecli.save(tmp_path / "golden.safetensors", ROPE)
    shown = pecli_cli("diff", tmp_path / "golden.safetensors", tmp_path / "dump.safetensors", "--no-plot")
    assert (shown.code, note in shown.out) == (0, True)


def test_copies_that_differ_are_a_finding() -> None:
    dump = {"cos": np.stack([COS, spoilt(COS, 3, 2)]), "sin": SIN}
    result = pecli.verify(dump, ROPE)
    assert result.problems == ("cos: its copies differ",)
    assert result.tensors[0].worst_index == (1, 3, 2)


def test_columns_that_are_not_doubled_are_the_same_table_and_other_doublings_are_not() -> None:
    wide = pecli.Rope(seq_len=LENGTH, dim=DIM, base=BASE, layout="halves")
    assert pecli.verify(both(np.copy), wide).passed
    assert not pecli.verify(both(interleaved), wide).passed
    assert pecli.diff(both(halves), both(np.copy)).passed
    assert not pecli.diff(both(halves), both(interleaved)).passed
    assert not pecli.diff({"pe": COS}, {"pe": halves(COS)}).passed  # which nobody doubles


def test_a_row_that_is_missing_is_no_copy_where_all_rows_are_the_same() -> None:
    zeros = np.zeros((2, 32), np.float32)
    assert not pecli.diff(zeros, zeros[:1]).passed
    assert not pecli.diff(zeros[:1], zeros).passed
    assert not pecli.verify(zeros, pecli.LearnedInit(max_len=1, dim=32, init="zeros")).passed
    assert pecli.diff(zeros[:1], zeros[:, None]).passed  # a batch of tables of one row


@pytest.mark.parametrize(("change", "layout"), [(np.copy, "compact"), (halves, "halves"), (interleaved, "interleaved")])
def test_rows_of_cosines_then_rows_of_sines(change: Callable[[Array], Array], layout: str) -> None:
    right, other, four = (
        np.concatenate([change(cos), change(sin)]) for cos, sin in ((COS, SIN), OTHERS, (COS, SIN.round(4)))
    )
    model = pecli.load_config(CONFIG)
    for spec in (ROPE, model):
        found = pecli.verify(right, spec)
        assert found.passed, found.sentences
        assert f"read as (2, 12, {right.shape[1]})" in found.readings["cos_sin"]
    assert not pecli.verify(np.concatenate([change(SIN), change(COS)]), ROPE, atol=ATOL).passed
    assert "base is 10000 (the spec says 500000)" in pecli.verify(other, model).diagnosis[0]
    assert not pecli.verify(np.concatenate([change(COS), change(COS)]), model, atol=ATOL).passed
    for dump in (right, four):
        (match,) = pecli.identify(dump).matches
        scheme: Any = match.scheme
        assert (scheme.name, scheme.base, scheme.seq_len, scheme.layout) == ("rope", BASE, LENGTH, layout)


def test_a_vector_in_lines_and_its_copies(tmp_path: Path) -> None:
    vector, copies = tmp_path / "vector.csv", tmp_path / "copies.csv"
    np.savetxt(vector, COS[1], delimiter=",")
    np.savetxt(copies, np.stack([COS[1]] * 3), delimiter=",")
    assert pecli.diff(vector, copies).passed
    np.savetxt(copies, np.stack([COS[1], COS[1], COS[2]]), delimiter=",")
    assert not pecli.diff(vector, copies).passed
