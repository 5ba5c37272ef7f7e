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
    """Return True if `identify` finds the spec's table (base 500000, 16 channels, 12 positions) in all
    arrays.

    They may be arranged in any way (the columns once or twice, copies, axes exchanged) and stored in
    any dtype, except for interleaved columns: the model of CONFIG rotates halves.
    """
    matches = pecli.identify(arrays).matches
    if not matches:
        return False
    best = matches[0]
    covers_all_arrays = {*best.tensors} == {*arrays}
    if not covers_all_arrays or best.max_abs_error > ATOL:
        return False
    scheme: Any = best.scheme
    if scheme.name != "rope" or scheme.layout == "interleaved":
        return False
    is_the_table = scheme.base == BASE and scheme.dim == DIM and scheme.seq_len == LENGTH
    edits = {edit.as_json()["edit"] for edit in best.edits if not edit.storage}
    return is_the_table and edits <= {"layout", "repeated", "transposed"}


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
    """DUMPS are made from NumPy's tables, and `is_right` is stated where they are: True for the right
    numbers in another shape («vLLM: cosines, then sines»), False for wrong ones («another base»).
    Every command and function must agree, but `identify` has no tolerance: see UNDECIDED.
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


FIRST_SEEDS = [pytest.param(range(3), id="seeds 0 to 2")]
MORE_SEEDS = [
    pytest.param(
        range(first, first + 500),
        marks=pytest.mark.thorough,
        id=f"seeds {first} to {first + 499}",
    )
    for first in range(0, 3000, 500)
]
"""3,000 dumps in blocks, since each block is a test of its own that several processes may share."""


@pytest.mark.parametrize("seeds", [*FIRST_SEEDS, *MORE_SEEDS])
def test_random_dumps_have_the_verdict_of_their_errors(seeds: range) -> None:
    """`attempt_verdict(seed)` draws tables in NumPy, right, damaged or with up to two mistakes, in a
    random shape, dtype and tolerance. They are right if no error exceeds the tolerance; `problem` is
    empty if the function drawn (verify, diff or `pecli verify`) passes them exactly then.
    """
    problems = [attempt_verdict(seed).problem for seed in seeds]
    assert [problem for problem in problems if problem] == []


NOTES_OF_FORMS = {
    "flat": "cos: read as (12, 8); sin: read as (12, 8)",
    "flat, doubled": "cos: read as (12, 16); sin: read as (12, 16)",
    "transposed": "cos: transposed; sin: transposed",
    "vLLM: cosines, then sines": "all cosines, then all sines",
    "vLLM, flat": "all cosines, then all sines",
    "SGLang: both, then both, doubled": "all cosines, then all sines",
    "pairs": "pairs of cosines and sines",
    "pairs, interleaved": "cosines and sines interleaved",
    "pairs with axes of torchtune": "pairs of cosines and sines, axes of length 1 dropped",
    "complex": "complex numbers",
    "rotation matrices": "2 × 2 rotation matrices",
    "rotation matrices of a batch": "2 × 2 rotation matrices, repeated 2× along axis 0",
    "stacked": "the cosines, then the sines",
    "stacked, doubled": "the cosines, then the sines",
    "rows of cosines, then rows of sines": "rows of cosines, then rows of sines",
}
"""The note that a picture has on each of these dumps, whose shape alone shows how it is arranged."""


@pytest.mark.parametrize("dump", NOTES_OF_FORMS)
@pytest.mark.sample(3)
def test_pictures_show_cosines_and_sines_by_position(tmp_path: Path, dump: str) -> None:
    """Whatever the form of the dump, such as flat, transposed or complex numbers, a picture draws two
    tables, whose columns are those of COS and SIN (NumPy's, 12 × 8) in some order.
    """
    arrays, _is_right = DUMPS[dump]
    file = tmp_path / "dump.npz"
    np.savez(file, **arrays)
    (source,) = of_file("dump.npz", open_tensors(str(file)))
    cos, sin = source.tables

    assert columns_of(cos.array()) == columns_of(COS)
    assert columns_of(sin.array()) == columns_of(SIN)


def columns_of(table: Array) -> set[tuple[float, ...]]:
    """Return the columns, each once, to three decimals."""
    return {*map(tuple, table.T.round(3).tolist())}


@pytest.mark.parametrize(("dump", "note"), NOTES_OF_FORMS.items(), ids=NOTES_OF_FORMS)
@pytest.mark.sample(3)
def test_a_picture_states_how_a_file_was_read(
    run_pecli: Any, tmp_path: Path, dump: str, note: str
) -> None:
    """The first line of `pecli plot` names the file, and in brackets its arrangement: the words of
    this project for the shapes in which NumPy's COS and SIN are stored.
    """
    arrays, _is_right = DUMPS[dump]
    np.savez(tmp_path / "dump.npz", **arrays)
    first_line = run_pecli("plot", tmp_path / "dump.npz").out.splitlines()[0]

    assert first_line.startswith(f"dump.npz ({note}): cosine and sine")
