"""One table in the shapes that dumps give it has one verdict, whichever way it is asked for."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import pecli
from pecli.files.load import open_tensors
from pecli.views.pictures.subjects import of_file
from tests.checks.waves import Array, halves, interleaved, powers, waves, woven
from tests.tools.sweeps.judging import attempt_verdict

LENGTH, DIM, BASE = 12, 16, 500000.0
CONFIG = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "rope_theta": BASE}
ROPE = pecli.Rope(seq_len=LENGTH, dim=DIM, theta=BASE)
ROTATED = pecli.Rope(seq_len=LENGTH, dim=DIM, theta=BASE, layout="halves")
ATOL = 1e-3
INV_FREQ = powers(BASE, DIM)
COS, SIN = waves(LENGTH, INV_FREQ).values()


def both(change: Callable[[Array], Array], cos: Array = COS, sin: Array = SIN) -> dict[str, Array]:
    return {"cos": change(cos), "sin": change(sin)}


def spoilt(table: Array, *place: int) -> Array:
    changed = table.copy()
    changed[place] += 0.01
    return changed


OTHERS = tuple(waves(LENGTH, powers(10000.0, DIM)).values())
POSITION_0 = np.ones_like(COS), np.zeros_like(SIN)


def matrices(cos: Array, sin: Array) -> Array:
    return np.stack([cos, -sin, sin, cos], -1).reshape(*cos.shape, 2, 2)


def fixed_point(table: Array, one: int, dtype: str) -> Array:
    return np.rint(table.astype(np.float64) * one).astype(dtype)


def cache(array: Array) -> dict[str, Array]:
    return {"cos_sin_cache": array}


DUMPS: dict[str, tuple[dict[str, Array], bool]] = {
    "one column per frequency": (both(np.copy), True),
    "halves": (both(halves), True),
    "big-endian complex": (cache((COS + 1j * SIN).astype(">c8")), True),
    "interleaved, where the model rotates halves": (both(interleaved), False),
    "transformers": (both(lambda x: halves(x)[None]), True),
    "a batch axis and a head axis": (both(lambda x: x[None, None]), True),
    "megatron": (both(lambda x: halves(x)[:, None, None]), True),
    "a batch of two": (both(lambda x: np.stack([x, x])), True),
    "a batch of three, doubled": (both(lambda x: np.stack([halves(x)] * 3)), True),
    "expanded heads": (both(lambda x: np.broadcast_to(x[None, None], (1, 4, LENGTH, DIM // 2)).copy()), True),
    "a batch and heads, doubled": (both(lambda x: np.tile(halves(x), (2, 4, 1, 1))), True),
    "a batch and heads, doubled otherwise": (both(lambda x: np.tile(interleaved(x), (2, 4, 1, 1))), False),
    "heads after positions": (both(lambda x: np.repeat(x[:, None], 4, 1)), True),
    "float64": (both(lambda x: x.astype(np.float64)), True),
    "float16": (both(lambda x: x.astype(np.float16)), True),
    "float16, doubled": (both(lambda x: halves(x).astype(np.float16)[None]), True),
    "int16": (both(lambda x: fixed_point(x, 32767, "int16")), True),
    "int16, doubled": (both(lambda x: fixed_point(halves(x), 32768 // 2, "int16")), True),
    "int8 is coarser than the tolerance": (both(lambda x: fixed_point(OTHERS[0], 127, "int8")), False),
    "within the tolerance": (both(lambda x: x + np.float32(5e-4)), True),
    "with frequencies": ({**both(halves), "inv_freq": INV_FREQ.astype(np.float32)}, True),
    "frequencies of float32 arithmetic": ({**both(halves), "inv_freq": (INV_FREQ * (1 + 4e-6)).astype("f4")}, True),
    "flat": (both(np.ravel), True),
    "flat, doubled": (both(lambda x: halves(x).ravel()), True),
    "transposed": (both(lambda x: x.T), True),
    "vLLM: cosines, then sines": (cache(np.concatenate([COS, SIN], -1)), True),
    "vLLM, flat": (cache(np.concatenate([COS, SIN], -1).ravel()), True),
    "SGLang: both, then both, doubled": (cache(np.concatenate([halves(COS), halves(SIN)], -1)), True),
    "pairs": (cache(np.stack([COS, SIN], -1)), True),
    "pairs, interleaved": (cache(woven(COS, SIN)), True),
    "pairs with axes of torchtune": (cache(np.stack([COS, SIN], -1)[None, :, None]), True),
    "complex": ({"freqs_cis": (COS + 1j * SIN).astype(np.complex64)}, True),
    "rotation matrices": (cache(matrices(COS, SIN)), True),
    "rotation matrices of a batch": (cache(np.stack([matrices(COS, SIN)] * 2)), True),
    "rotation matrices, transposed": (cache(matrices(COS, -SIN)), False),
    "stacked": (cache(np.stack([COS, SIN])), True),
    "stacked, doubled": (cache(np.stack([halves(COS), halves(SIN)])), True),
    "stacked, doubled otherwise": (cache(np.stack([interleaved(COS), interleaved(SIN)])), False),
    "rows of cosines, then rows of sines": (cache(np.concatenate([COS, SIN])), True),
    "sines first under a name of cosines": (cache(np.concatenate([SIN, COS], -1)), False),
    "all rows at position 0": (both(np.copy, *POSITION_0), False),
    "all rows at position 0, stacked": (cache(np.stack(POSITION_0)), False),
    "all rows at position 0, doubled, a batch": (both(lambda x: np.stack([halves(x)] * 2), *POSITION_0), False),
    "all rows at position 0, cosines, then sines": (cache(np.concatenate(POSITION_0, -1)), False),
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
    "another base, pairs": (cache(np.stack(OTHERS, -1)), False),
    "cos and sin exchanged": (both(halves, SIN, COS), False),
    "doubled with the sign changed": (both(lambda x: np.concatenate([x, -x], -1)), False),
    "an element of the second copy": (both(lambda x: np.stack([x, spoilt(x, 3, 2)])), False),
    "an element of the second half": (both(lambda x: spoilt(halves(x), 3, 13)), False),
    "an element of a matrix": (cache(spoilt(matrices(COS, SIN), 3, 2, 0, 1)), False),
    "a batch of other positions": (both(lambda x: np.stack([x, np.roll(x, 1, 0)])), False),
    "not a number": (both(lambda x: np.where(np.arange(DIM // 2) == 3, np.float32(np.nan), x)), False),
}  # fmt: skip


UNDECIDED = (
    "frequencies in bfloat16",
    "frequencies in float16",
)  # which are that law's, with no tolerance given


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


@pytest.mark.parametrize("dump", DUMPS)
@pytest.mark.sample(10)
def test_every_door_has_one_verdict(pecli_cli: Any, tmp_path: Path, dump: str) -> None:
    def passes(*words: object) -> bool:
        outcome = pecli_cli(*words, "--atol", ATOL, "--json")
        assert outcome.code in (0, 1), outcome.err
        assert outcome.json["passed"] == (outcome.code == 0)
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


def test_how_a_table_was_read_is_said_in_a_note(pecli_cli: Any, tmp_path: Path) -> None:
    dump = {"cos": np.tile(halves(COS), (2, 1, 1, 1)), "sin": SIN}
    note = "two columns per frequency (c0 c1 … c0 c1 …), axes of length 1 dropped, repeated 2× along axis 0"
    assert pecli.verify(dump, ROPE).readings == {"cos": note}
    assert pecli.diff(ROPE.tables(), dump).readings == {"cos": f"B: {note}"}
    save_file(dump, tmp_path / "dump.safetensors")
    pecli.save(tmp_path / "golden.safetensors", ROPE)
    shown = pecli_cli(
        "diff", tmp_path / "golden.safetensors", tmp_path / "dump.safetensors", "--no-plot"
    )
    assert (shown.code, note in shown.out) == (0, True)


@pytest.mark.parametrize(
    ("change", "layout"), [(np.copy, "compact"), (halves, "halves"), (interleaved, "interleaved")]
)
def test_rows_of_cosines_then_rows_of_sines(change: Callable[[Array], Array], layout: str) -> None:
    pairs = ((COS, SIN), OTHERS, (COS, SIN.round(4)))
    right, other, four = (np.concatenate([change(cos), change(sin)]) for cos, sin in pairs)
    model = pecli.load_config(CONFIG)
    meant = {"layout": "interleaved"} if layout == "interleaved" else {}
    for found in (pecli.verify(right, ROPE), pecli.verify(right, model, **meant)):
        assert (
            found.passed,
            "rows of cosines, then rows of sines" in found.readings["cos_sin"],
        ) == (True, True)
    assert pecli.verify(np.concatenate([change(SIN), change(COS)]), ROPE, atol=ATOL).weak
    assert "base is 10000 (the spec says 500000)" in pecli.verify(other, model).diagnosis[0]
    for dump in (right, four):
        (match,) = pecli.identify(dump).matches
        scheme: Any = match.scheme
        assert (scheme.name, scheme.base, scheme.seq_len, scheme.layout) == (
            "rope",
            BASE,
            LENGTH,
            layout,
        )


MANY = [
    pytest.param(range(1000 * k + 100, 1000 * k + 600), marks=pytest.mark.thorough)
    for k in range(6)
]


@pytest.mark.parametrize("seeds", [range(20), *MANY])
def test_verdicts_of_random_dumps(seeds: range) -> None:
    assert [*filter(None, (attempt_verdict(seed).problem for seed in seeds))] == []


APART = (
    "flat", "flat, doubled", "transposed", "vLLM: cosines, then sines", "vLLM, flat",
    "SGLang: both, then both, doubled", "pairs", "pairs, interleaved", "pairs with axes of torchtune", "complex",
    "rotation matrices", "rotation matrices of a batch", "stacked", "stacked, doubled",
    "rows of cosines, then rows of sines",
)  # fmt: skip


@pytest.mark.parametrize("dump", APART)
def test_pictures_show_cosines_and_sines_by_position(
    pecli_cli: Any, tmp_path: Path, dump: str
) -> None:
    arrays, _ = DUMPS[dump]
    np.savez(tmp_path / "dump.npz", **arrays)
    (subject,) = of_file("dump.npz", open_tensors(str(tmp_path / "dump.npz")))
    for table, expected in zip(subject.tables, (COS, SIN), strict=True):
        shown = table.array()
        assert {*map(tuple, shown.T.round(3))} == {*map(tuple, expected.T.round(3))}
    note = pecli_cli("plot", tmp_path / "dump.npz").out.splitlines()[0]
    assert note.startswith("dump.npz (")
