"""One table in the shapes that dumps give it has one verdict, whichever way it is asked for."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import pecli
from pecli.files.load import open_tensors
from pecli.views.pictures.plot_sources import of_file
from tests.checks.rope_dumps import (
    ATOL,
    BASE,
    CONFIG,
    COS,
    DIM,
    DUMPS,
    LENGTH,
    OTHERS,
    ROPE,
    ROTATED,
    SIN,
)
from tests.checks.waves import Array, doubled_as_halves, doubled_as_neighbours
from tests.exit_codes import SUCCESS
from tests.tools.sweeps.judging import attempt_verdict

UNDECIDED = (
    "frequencies in bfloat16",
    "frequencies in float16",
    "within the tolerance",
)
"""Dumps that `identify` judges differently, because it has no tolerance: coarse frequencies are those of
the law, and a table with 0.0005 added is not one that is only rounded.
"""


SLOW = [dump for dump in DUMPS if dump.startswith("int8")]
"""Dumps that `identify` searches for seconds before it finds nothing."""
QUICK = [dump for dump in DUMPS if dump not in SLOW]


def thorough(dump: str) -> Any:
    return pytest.param(dump, marks=pytest.mark.thorough)


def is_identified(arrays: dict[str, Array]) -> bool:
    """Whether all tensors are found to be the table, but for how they are arranged and stored."""
    matches = pecli.identify(arrays).matches
    if not matches or {*matches[0].tensors} != {*arrays} or matches[0].max_abs_error > ATOL:
        return False
    scheme: Any = matches[0].scheme
    edits = [edit.as_json()["edit"] for edit in matches[0].edits if not edit.storage]
    law = (scheme.name, getattr(scheme, "base", 0), scheme.dim, scheme.seq_len) == (
        "rope",
        BASE,
        DIM,
        LENGTH,
    )
    return (
        law and scheme.layout != "interleaved" and {*edits} <= {"layout", "repeated", "transposed"}
    )


@pytest.mark.parametrize("dump", [*QUICK, *map(thorough, SLOW)])
@pytest.mark.sample(6)
def test_every_command_and_function_has_the_same_verdict_on_a_dump(
    run_pecli: Any, tmp_path: Path, dump: str
) -> None:
    """Each dump is the rotary table of 12 positions in another shape, with whether it is right."""

    def passes(*words: object) -> bool:
        outcome = run_pecli(*words, "--atol", ATOL, "--json")
        assert outcome.exit_code in (0, 1), outcome.err
        assert outcome.json["passed"] == (outcome.exit_code == SUCCESS)
        return bool(outcome.json["passed"])

    arrays, right = DUMPS[dump]
    is_complex = any(array.dtype.kind == "c" for array in arrays.values())
    file, golden, config = (
        tmp_path / name for name in ("dump.npz", "golden.safetensors", "config.json")
    )
    if is_complex:
        np.savez(file, **arrays)
    else:
        file = tmp_path / "dump.safetensors"
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, file)
    pecli.save(golden, ROTATED)
    config.write_text(json.dumps(CONFIG))
    scheme = ("rope", "--seq-len", LENGTH, "--dim", DIM, "--theta", BASE, "--layout", "halves")
    verdicts = {
        "verify": passes("verify", file, "--config", config),
        "--verify": passes(*scheme, "--verify", file),
        "diff": passes("diff", golden, file),
        "identify": right if dump in UNDECIDED else is_identified(arrays),
        "pecli.verify": pecli.verify(arrays, ROTATED, atol=ATOL, reasons=False).passed,
        "pecli.diff, the other way round": pecli.diff(
            arrays, ROTATED.tables(), atol=ATOL, reasons=False
        ).passed,
    }

    assert verdicts == dict.fromkeys(verdicts, right)


def test_how_a_table_was_read_is_said_in_a_note(run_pecli: Any, tmp_path: Path) -> None:
    """The cosines are doubled, with axes of length 1 and 2; the sines are as expected."""
    dump = {"cos": np.tile(doubled_as_halves(COS), (2, 1, 1, 1)), "sin": SIN}
    note = "two columns per frequency (c0 c1 … c0 c1 …), axes of length 1 dropped, repeated 2× along axis 0"

    assert pecli.verify(dump, ROPE).readings == {"cos": note}
    assert pecli.diff(ROPE.tables(), dump).readings == {"cos": f"B: {note}"}

    save_file(dump, tmp_path / "dump.safetensors")
    pecli.save(tmp_path / "golden.safetensors", ROPE)
    shown = run_pecli(
        "diff", tmp_path / "golden.safetensors", tmp_path / "dump.safetensors", "--no-plot"
    )

    assert shown.exit_code == SUCCESS
    assert note in shown.out


@pytest.mark.parametrize(
    ("change", "layout"),
    [(np.copy, "compact"), (doubled_as_halves, "halves"), (doubled_as_neighbours, "interleaved")],
)
def test_rows_of_cosines_then_rows_of_sines(change: Callable[[Array], Array], layout: str) -> None:
    """Stacked tables pass, with base 10000 they fail by name, and `identify` finds their base even
    at four decimals.
    """
    pairs = ((COS, SIN), OTHERS, (COS.round(4), SIN.round(4)))
    right, other, four = (np.concatenate([change(cos), change(sin)]) for cos, sin in pairs)
    model = pecli.load_config(CONFIG)
    meant = {"layout": "interleaved"} if layout == "interleaved" else {}

    for found in (pecli.verify(right, ROPE), pecli.verify(right, model, **meant)):
        assert found.passed
        assert "rows of cosines, then rows of sines" in found.readings["cos_sin"]
    assert pecli.verify(np.concatenate([change(SIN), change(COS)]), ROPE, atol=ATOL).weak
    assert "base is 10000 (the spec says 500000)" in pecli.verify(other, model).diagnosis[0]
    for dump in (right, four):
        (match,) = pecli.identify(dump).matches
        scheme: Any = match.scheme
        assert scheme.name == "rope"
        assert scheme.base == BASE
        assert scheme.seq_len == LENGTH
        assert scheme.layout == layout


MANY = [
    pytest.param(range(1000 * k + 100, 1000 * k + 600), marks=pytest.mark.thorough)
    for k in range(6)
]


@pytest.mark.parametrize("seeds", [range(3), *MANY])
def test_verdicts_of_random_dumps(seeds: range) -> None:
    """Random tables in random forms, right and wrong, whose verdict is known by construction."""
    assert [*filter(None, (attempt_verdict(seed).problem for seed in seeds))] == []


FORMS_TOLD_APART_BY_SHAPE = (
    "flat", "flat, doubled", "transposed", "vLLM: cosines, then sines", "vLLM, flat",
    "SGLang: both, then both, doubled", "pairs", "pairs, interleaved", "pairs with axes of torchtune", "complex",
    "rotation matrices", "rotation matrices of a batch", "stacked", "stacked, doubled",
    "rows of cosines, then rows of sines",
)  # fmt: skip


@pytest.mark.parametrize("dump", FORMS_TOLD_APART_BY_SHAPE)
@pytest.mark.sample(6)
def test_pictures_show_cosines_and_sines_by_position(
    run_pecli: Any, tmp_path: Path, dump: str
) -> None:
    """Whatever the form of the dump, a picture has the columns of COS and SIN, in some order."""
    arrays, _ = DUMPS[dump]
    np.savez(tmp_path / "dump.npz", **arrays)
    (subject,) = of_file("dump.npz", open_tensors(str(tmp_path / "dump.npz")))

    for table, expected in zip(subject.tables, (COS, SIN), strict=True):
        shown = table.array()
        assert {*map(tuple, shown.T.round(3))} == {*map(tuple, expected.T.round(3))}

    note = run_pecli("plot", tmp_path / "dump.npz").out.splitlines()[0]
    assert note.startswith("dump.npz (")
