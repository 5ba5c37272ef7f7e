"""What runtimes make of models: the departures that were measured with their own code, and no others."""

from collections.abc import Sequence

import numpy as np
import pytest

import pecli
from pecli.checks.runtimes import RuntimeResult
from pecli.engine.runtimes import EMULATED
from tests.engine.runtimes.test_runtimes import COMPUTED
from tests.explain.test_recipe_search import config

POSITIONS = COMPUTED["positions"]


def results(
    case: str, length: int | None = None, names: Sequence[str] = tuple(EMULATED)
) -> dict[str, RuntimeResult]:
    (found,) = pecli.runtimes(config(case), length, names=names).layers.values()
    return {each.runtime: each for each in found}


def measured(case: str, runtime: str) -> np.ndarray:
    """By position, how far the runtime's own numbers are from those of transformers, which defines the model."""
    parts = [
        COMPUTED[f"{runtime}/{case}.{part}"] - COMPUTED[f"transformers/{case}.{part}"]
        for part in ("cos", "sin")
    ]
    return np.abs(parts).max(axis=(0, 2))


@pytest.mark.parametrize("runtime", ["llama.cpp", "mlx-lm"])
def test_gpt_oss(runtime: str) -> None:
    found, error = (
        results("gpt-oss-20b", None, [runtime])[runtime],
        measured("gpt-oss-20b", runtime),
    )
    assert found.departs
    assert found.first_beyond == POSITIONS[np.argmax(error > 1e-3)] == 4
    assert found.pairs == (9, 17)
    assert found.departure == pytest.approx(2.7, abs=0.05)
    assert found.max_abs_error >= error.max() - 6e-3
    places, errors = found.curve
    near = POSITIONS[
        (POSITIONS > 0) & (POSITIONS < 10)
    ]  # farther on, a point of the curve stands for many positions
    ours = errors[np.searchsorted(places, near)]
    assert ours == pytest.approx(
        error[np.isin(POSITIONS, near)], abs=5e-4
    )  # float32 is off by that much itself
    assert errors[places < 8192].max() >= error[POSITIONS < 8192].max() - 5e-4


def test_where_all_agree_but_for_float32() -> None:
    found = pecli.runtimes("llama-3.1-8b")
    assert (found.length, found.agree) == (131072, True)
    for each in found.layers[""]:
        assert (each.departs, each.causes, each.departure) == (False, (), 0)
        assert 3.7e-3 <= each.max_abs_error < 2e-2  # 3.7e-3 at the positions that were measured


def test_phi_3_below_and_above_its_original_length() -> None:
    case = "phi-3-mini-128k, context 4096"
    below, above = results(case, 4096), results(case)
    assert [name for name, each in below.items() if each.departs] == ["mlx-lm"]
    assert below["mlx-lm"].departure == pytest.approx(measured(case, "mlx-lm").max(), abs=0.1)
    assert [name for name, each in above.items() if each.departs] == ["vllm", "llama.cpp", "mlx-lm"]
    assert all(
        "up to 4,096 tokens" in each.short_prompts for each in above.values() if each.departs
    )
    assert not any(each.causes for each in above.values())


def test_images_short_prompts_and_kinds_of_layers() -> None:
    (found,) = pecli.runtimes("qwen2.5-vl-7b", 64, names=["mlx-lm"]).layers[""]
    assert (found.departs, found.notes) == (False, ("as defined for text; no M-RoPE for images",))
    found = pecli.runtimes("phi-4-mini", 131072, names=["transformers", "llama.cpp"])
    assert [each.departs for each in found.layers[""]] == [False, True]
    found = pecli.runtimes("gemma-3-1b", 64, names=["vllm"])
    assert {name: len(each) for name, each in found.layers.items()} == {
        "full_attention": 1,
        "sliding_attention": 1,
    }
    assert list(pecli.runtimes("gemma-3-1b", 64, layer_type="full_attention").layers) == [
        "full_attention"
    ]


def test_dynamic_scaling() -> None:
    found = results("dynamic-2, context 8192", 8192)
    assert "no dynamic scaling" in found["llama.cpp"].lacks
    assert (found["vllm"].rows, found["vllm"].first_beyond) == (4096, 1)
    assert [name for name, each in found.items() if each.departs] == ["vllm", "llama.cpp"]
    assert (
        results("dynamic-2, context 8192", 4096)["vllm"].causes == ()
    )  # where nothing is scaled yet


def test_vllm_has_no_rows_beyond_its_context() -> None:
    rows = {length: results("llama-2-7b", length, ["vllm"])["vllm"].rows for length in (4096, 4097)}
    assert rows == {4096: None, 4097: 4096}
    rows = {
        length: results("linear-8", length, ["vllm"])["vllm"].rows
        for length in (8 * 131072, 8 * 131072 + 1)
    }
    assert rows == {8 * 131072: None, 8 * 131072 + 1: 8 * 131072}


def test_departures_far_out_are_found_to_the_position() -> None:
    """A factor so near to 1 that rounding the limits shows only after thousands of positions."""
    given = {
        **config("gpt-oss-20b"),
        "rope_scaling": {**config("gpt-oss-20b")["rope_scaling"], "factor": 1.0001},
    }
    (found,) = pecli.runtimes(given, 131072, names=["llama.cpp"]).layers[""]
    read = pecli.load_config(given).one().rope(1, runtime="llama.cpp").as_read()
    defined = pecli.load_config(given).one().rope(1)
    places = np.arange(found.first_beyond - 300, found.first_beyond + 1)
    assert found.first_beyond > 8192
    error = np.abs(read.at(places)["cos"].astype(float) - defined.at(places)["cos"]).max(axis=1)
    sines = np.abs(read.at(places)["sin"].astype(float) - defined.at(places)["sin"]).max(axis=1)
    assert np.flatnonzero(np.maximum(error, sines) > 1e-3).tolist() == [300]
