"""One rotary table in the shapes that dumps give it has one verdict, by every command and function
alike.

DUMPS (tests/checks/rope_dumps.py) are NumPy's tables of 12 positions, 16 channels and base 500000
in many shapes, with whether each is right; OTHERS has base 10000. A reading is the arrangement in
which an array was understood, stated in a note.
"""

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
from tests.exit_codes import CHECK_FAILED, SUCCESS
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
    """Return True if all tensors are found to be the table, apart from how they are arranged and
    stored.
    """
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


def write_dump(folder: Path, arrays: dict[str, Array]) -> Path:
    """Write arrays to a .safetensors file, or to an .npz file if some are complex numbers."""
    is_complex = any(array.dtype.kind == "c" for array in arrays.values())
    if is_complex:
        file = folder / "dump.npz"
        np.savez(file, **arrays)
        return file
    file = folder / "dump.safetensors"
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, file)
    return file


@pytest.mark.parametrize("dump", [*QUICK, *map(thorough, SLOW)])
@pytest.mark.sample(4)
def test_every_command_and_function_has_the_same_verdict_on_a_dump(
    run_pecli: Any, tmp_path: Path, dump: str
) -> None:
    """Each case of DUMPS is the rotary table in another shape, with whether it is right: for
    example, «vLLM: cosines, then sines» is right and «cos and sin exchanged» is not. verify, rope
    --verify, diff and identify must agree; identify has no tolerance, so its verdict on the dumps
    in UNDECIDED is not compared.
    """

    def passes(*words: object) -> bool:
        outcome = run_pecli(*words, "--atol", ATOL, "--json")
        assert outcome.exit_code in (SUCCESS, CHECK_FAILED), outcome.err
        assert outcome.json["passed"] == (outcome.exit_code == SUCCESS)
        return bool(outcome.json["passed"])

    arrays, is_right = DUMPS[dump]
    file = write_dump(tmp_path, arrays)
    golden = tmp_path / "golden.safetensors"
    pecli.save(golden, ROTATED)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    scheme = ("rope", "--seq-len", LENGTH, "--dim", DIM, "--theta", BASE, "--layout", "halves")
    options = {"atol": ATOL, "reasons": False}

    verdicts = {
        "verify": passes("verify", file, "--config", config),
        "--verify": passes(*scheme, "--verify", file),
        "diff": passes("diff", golden, file),
        "identify": is_right if dump in UNDECIDED else is_identified(arrays),
        "pecli.verify": pecli.verify(arrays, ROTATED, **options).passed,
        "pecli.diff, dump first": pecli.diff(arrays, ROTATED.tables(), **options).passed,
    }
    assert verdicts == dict.fromkeys(verdicts, is_right)


def test_the_arrangement_of_a_table_is_stated_in_a_note(run_pecli: Any, tmp_path: Path) -> None:
    """The dump has the right cosines with their columns doubled, an axis of length 1, and twice along
    a first axis of 2; its sines are as expected. Both functions and the command state this, for the
    cosines only.
    """
    dump = {"cos": np.tile(doubled_as_halves(COS), (2, 1, 1, 1)), "sin": SIN}
    note = "two columns per frequency (c0 c1 … c0 c1 …), axes of length 1 dropped, repeated 2× along axis 0"

    assert pecli.verify(dump, ROPE).readings == {"cos": note}
    assert pecli.diff(ROPE.tables(), dump).readings == {"cos": f"B: {note}"}

    # The command prints the note as well.
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
def test_cosines_above_sines_pass_with_a_note(
    change: Callable[[Array], Array], layout: str
) -> None:
    """One array has rows of cosines above rows of sines, each column once or twice. It is right for
    the scheme, and for the model; a model rotates halves unless the layout is given.
    """
    table = np.concatenate([change(COS), change(SIN)])
    model = pecli.load_config(CONFIG)
    options = {"layout": "interleaved"} if layout == "interleaved" else {}

    for result in (pecli.verify(table, ROPE), pecli.verify(table, model, **options)):
        assert result.passed
        assert "rows of cosines, then rows of sines" in result.readings["cos_sin"]


@pytest.mark.parametrize("change", [np.copy, doubled_as_halves, doubled_as_neighbours])
def test_sines_above_cosines_without_a_name_are_weak(change: Callable[[Array], Array]) -> None:
    """One array has rows of sines above rows of cosines, and no name that states the order. It
    passes, but most programs put cosines first, so that the pass has a remark in `weak`.
    """
    sines_above_cosines = np.concatenate([change(SIN), change(COS)])
    result = pecli.verify(sines_above_cosines, ROPE, atol=ATOL)

    assert result.weak


@pytest.mark.parametrize("change", [np.copy, doubled_as_halves, doubled_as_neighbours])
def test_another_base_of_cosines_above_sines_is_named(change: Callable[[Array], Array]) -> None:
    """OTHERS are NumPy's tables of base 10000, stored in one array, cosines above sines; the config
    has base 500000.
    """
    cos, sin = OTHERS
    cosines_above_sines = np.concatenate([change(cos), change(sin)])
    result = pecli.verify(cosines_above_sines, pecli.load_config(CONFIG))

    assert "base is 10000 (the spec says 500000)" in result.diagnosis[0]


@pytest.mark.parametrize(
    ("change", "layout"),
    [(np.copy, "compact"), (doubled_as_halves, "halves"), (doubled_as_neighbours, "interleaved")],
)
@pytest.mark.parametrize("decimals", [8, 4])
def test_cosines_above_sines_are_identified_even_at_four_decimals(
    change: Callable[[Array], Array], layout: str, decimals: int
) -> None:
    """`identify` gets one array, NumPy's cosines above sines of base 500000 (BASE) and 12 positions
    (LENGTH), rounded to 8 or 4 decimals.
    """
    table = np.concatenate([change(COS), change(SIN)]).round(decimals)
    (match,) = pecli.identify(table).matches
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
def test_random_dumps_have_the_verdict_that_is_known_by_construction(seeds: range) -> None:
    """`attempt_verdict` draws a right or wrong table in a random form from the seed, by formulas in
    NumPy. `problem` is empty if `verify` and the other functions agree with what was drawn.
    """
    problems = [attempt_verdict(seed).problem for seed in seeds]
    assert [problem for problem in problems if problem] == []


FORMS_TOLD_APART_BY_SHAPE = (
    "flat", "flat, doubled", "transposed", "vLLM: cosines, then sines", "vLLM, flat",
    "SGLang: both, then both, doubled", "pairs", "pairs, interleaved", "pairs with axes of torchtune", "complex",
    "rotation matrices", "rotation matrices of a batch", "stacked", "stacked, doubled",
    "rows of cosines, then rows of sines",
)  # fmt: skip


@pytest.mark.parametrize("dump", FORMS_TOLD_APART_BY_SHAPE)
@pytest.mark.sample(3)
def test_pictures_show_cosines_and_sines_by_position(
    run_pecli: Any, tmp_path: Path, dump: str
) -> None:
    """Whatever the form of the dump, such as flat, transposed or complex numbers, a picture draws two
    tables, whose columns are those of COS and SIN in some order.
    """
    arrays, _ = DUMPS[dump]
    np.savez(tmp_path / "dump.npz", **arrays)
    (subject,) = of_file("dump.npz", open_tensors(str(tmp_path / "dump.npz")))

    for table, expected in zip(subject.tables, (COS, SIN), strict=True):
        shown = table.array()
        assert {*map(tuple, shown.T.round(3))} == {*map(tuple, expected.T.round(3))}

    note = run_pecli("plot", tmp_path / "dump.npz").out.splitlines()[0]
    assert note.startswith("dump.npz (")
