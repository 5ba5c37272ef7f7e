"""Dumps of models with two kinds of layers: which kind a tensor is of, by its name, its number or
its fit; and weak passes.

Gemma 3 has sliding layers with base 1e4 and, as every sixth, full attention with base 1e6. Tables
are Rope's of these bases, queries random ones rotated by them. `weak` are remarks on a pass that
proves little.
"""

from typing import Any

import numpy as np
import pytest

import pecli
from pecli.checks.verification import Verification

GEMMA_3_1B = "gemma-3-1b"
GEMMA_4 = {"model_type": "gemma4_text"}
FULL_ATTENTION = "full_attention"
SLIDING_ATTENTION = "sliding_attention"
BASES = {FULL_ATTENTION: 1e6, SLIDING_ATTENTION: 1e4}
"""By the kind of layer, the base of Gemma 3; every sixth layer has full attention."""


def tables_of_layers(kind: str, prefix: str = "", suffix: str = "") -> dict[str, Any]:
    """Return the tables of one kind of layer under names with a prefix or a suffix."""
    made = pecli.Rope(32, 256, base=BASES[kind], layout="halves").tables()
    return {f"{prefix}{name}{suffix}": made[name] for name in ("cos", "sin")}


def verify_queries_rotated_by(name: str, rotated_by: str) -> Verification:
    """Verify queries of this name that were rotated by the base of one kind of layer."""
    before = np.random.default_rng(0).normal(size=(2, 12, 256)).astype("f4")
    after = pecli.apply(before, pecli.Rope(12, 256, base=BASES[rotated_by]), layout="halves")
    options: dict[str, Any] = {"before": {name: before}, "atol": 1e-5, "reasons": False}
    return pecli.verify({name: after}, GEMMA_3_1B, **options)


@pytest.mark.parametrize(
    "name", ["Qcur-11", "q11", "q_11", "q.11", "layers[11].q", "q_L11", "blk.11.q", "h.11.k"]
)
def test_queries_are_checked_by_the_layer_number_in_their_name(name: str) -> None:
    """The names are as several programs write them for layer 11. In Gemma 3, it has full attention
    (as every sixth, counted from 0: 5, 11, …), with base 1e6: queries rotated by it pass, and those
    by 1e4, the base of sliding attention, fail.
    """
    right = verify_queries_rotated_by(name, FULL_ATTENTION)
    assert right.passed
    assert not right.weak
    assert not verify_queries_rotated_by(name, SLIDING_ATTENTION).passed


@pytest.mark.parametrize("name", ["Kcur-4", "k[4]", "query_4", "key.4", "model.layers.4.k"])
def test_queries_of_layer_4_are_checked_with_the_base_of_sliding_attention(name: str) -> None:
    """The name states the layer: layer 4 of Gemma 3 is a sliding one with base 1e4, so the rotation
    of full attention, with base 1e6, fails.
    """
    assert verify_queries_rotated_by(name, SLIDING_ATTENTION).passed
    assert not verify_queries_rotated_by(name, FULL_ATTENTION).passed


@pytest.mark.parametrize("kind", [FULL_ATTENTION, SLIDING_ATTENTION])
@pytest.mark.parametrize("name", ["q", "query_states", "after"])
def test_queries_without_a_layer_pass_weakly(name: str, kind: str) -> None:
    """Gemma 3 has base 1e6 in layers of full attention and 1e4 in sliding ones. A name without a
    number states no layer: queries rotated by either base fit some layer, and prove little.
    """
    result = verify_queries_rotated_by(name, kind)
    assert result.passed
    assert any("no name states" in line for line in result.weak)


@pytest.mark.parametrize("kind", [FULL_ATTENTION, SLIDING_ATTENTION])
def test_a_table_without_a_layer_passes_weakly(kind: str) -> None:
    """Tables called «cos» and «sin» state no layer. Those of either base of Gemma 3, 1e6 for full
    attention and 1e4 for sliding, fit some layer, and prove little.
    """
    result = pecli.verify(tables_of_layers(kind), GEMMA_3_1B)
    assert result.passed
    assert any("no name states" in line for line in result.weak)


@pytest.mark.parametrize("kind", [FULL_ATTENTION, SLIDING_ATTENTION])
def test_the_width_of_a_table_states_its_layer_if_heads_differ(kind: str) -> None:
    """In Gemma 4, heads of full attention have 512 channels, and those of sliding attention 256, as
    the class of transformers states: a table called «cos» fits only one kind of layer.
    """
    tables = pecli.load_model(GEMMA_4).one(kind).rope(32).tables()
    result = pecli.verify({name: tables[name] for name in ("cos", "sin")}, GEMMA_4)

    assert result.passed
    assert result.weak == ()


@pytest.mark.parametrize("module", ["rotary_emb.", "model.language_model.rotary_emb."])
def test_tables_called_rotary_emb_are_those_of_full_attention(module: str) -> None:
    """Hugging Face's Gemma 3 has `rotary_emb` for full attention and `rotary_emb_local` beside it:
    the table of sliding layers fails under the name `rotary_emb`, and the diagnosis names them.
    """
    right = pecli.verify(tables_of_layers(FULL_ATTENTION, module), GEMMA_3_1B)
    assert right.passed
    assert not right.weak

    wrong = pecli.verify(tables_of_layers(SLIDING_ATTENTION, module), GEMMA_3_1B)
    assert any(f"right for {SLIDING_ATTENTION} layers" in line for line in wrong.diagnosis)


@pytest.mark.parametrize("kind", [FULL_ATTENTION, SLIDING_ATTENTION])
def test_the_same_table_under_both_names_of_gemma_3_fails(kind: str) -> None:
    """transformers calls the tables of full layers rotary_emb and those of sliding layers
    rotary_emb_local. With one table under both, its two tensors (cos and sin) are right under one
    name only.
    """
    dump = {**tables_of_layers(kind, "rotary_emb."), **tables_of_layers(kind, "rotary_emb_local.")}
    result = pecli.verify(dump, GEMMA_3_1B)

    assert not result.passed
    assert sum(tensor.passed for tensor in result.tensors) == 2


@pytest.mark.parametrize(
    ("first", "second", "passed"),
    [
        pytest.param(FULL_ATTENTION, SLIDING_ATTENTION, True, id="full, then sliding"),
        pytest.param(SLIDING_ATTENTION, FULL_ATTENTION, True, id="sliding, then full"),
        pytest.param(SLIDING_ATTENTION, SLIDING_ATTENTION, False, id="sliding twice"),
        pytest.param(FULL_ATTENTION, FULL_ATTENTION, False, id="full twice"),
    ],
)
@pytest.mark.parametrize(
    "names",
    [(("a.", ""), ("b.", "")), (("", "_1"), ("", "_2"))],
    ids=["a.cos and b.cos", "cos_1 and cos_2"],
)
@pytest.mark.sample(4)
def test_two_tables_pass_only_if_each_kind_of_layers_has_one(
    first: str, second: str, passed: bool, names: Any
) -> None:
    """A file has the tables a.cos, a.sin, b.cos, b.sin, or cos_1, sin_1, cos_2, sin_2, whose names
    state no kind of layer. One of each kind passes in any order; two of the same kind leave the
    other kind without a table.
    """
    dump = {**tables_of_layers(first, *names[0]), **tables_of_layers(second, *names[1])}
    result = pecli.verify(dump, GEMMA_3_1B, reasons=False)

    assert result.passed == passed


def test_layers_that_rotate_alike_need_no_name() -> None:
    """OLMo 3 has sliding and full layers with one base, so a table needs no layer type to be
    verified: the pass is not weak.
    """
    sizes = {"hidden_size": 256, "num_attention_heads": 2, "num_hidden_layers": 8}
    config = {"model_type": "olmo3", **sizes, "rope_theta": 500000.0}
    dump = pecli.Rope(32, 128, base=500000.0, layout="halves").tables()
    result = pecli.verify(dump, config)

    assert result.passed
    assert not any("no name states" in line for line in result.weak)
