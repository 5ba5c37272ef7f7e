"""One table of refusals: what is given, which parameter is named, and part of the rule it breaks.

A row beside a boundary has its neighbour in ACCEPTED: what is refused, and what is just not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pecli
from pecli.cli import option_name
from pecli.engine.application import add_bias
from pecli.engine.arrays import indices
from pecli.engine.schemes.positions import whole_positions
from pecli.engine.table import table_of
from pecli.errors import FileError, KindError, ParameterError, PecliError

LAST = 2**40
YARN: dict[str, Any] = {"scaling": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
LONG: dict[str, Any] = {"scaling": "longrope", "original_max_position_embeddings": 64}
FACTORS: dict[str, Any] = {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
GRID: dict[str, Any] = {"grid": (4, 4), "dim": 16, "style": "pixtral"}
MAE: dict[str, Any] = {"dim": 16, "style": "mae"}
X = np.ones((2, 5, 8), np.float32)
NAMES = {"np": np, "pecli": pecli, "indices": indices, "whole_positions": whole_positions, "add_bias": add_bias}
NAMES |= {"table_of": table_of, "YARN": YARN, "LONG": LONG, "FACTORS": FACTORS, "GRID": GRID, "MAE": MAE}
NAMES |= {"X": X, "LAST": LAST}

REFUSED = [
    # schemes
    ("pecli.Rope(4, 8, scaling='ntk', factor=2.0, partial_rotary_factor=0.25)", "dim", "divides by d − 2"),
    ("pecli.Rope(4, 8, **LONG, **FACTORS)", "factor", "longrope scaling needs it"),
    ("pecli.Rope(4, 8, **{**LONG, 'original_max_position_embeddings': 1}, **FACTORS, factor=2.0)",
     "original_max_position_embeddings", "divides by ln O"),
    ("pecli.Rope(4, 8, **LONG, factor=2.0, **{**FACTORS, 'short_factor': [1.0]})", "short_factor", "one for each"),
    ("pecli.Rope(4, 8, **LONG, factor=2.0, **{**FACTORS, 'long_factor': [1.0] * 5})", "long_factor", "one for each"),
    ("pecli.Rope(4, 8, **{**YARN, 'factor': None})", "factor", "yarn scaling needs it"),
    ("pecli.Rope(4, 8, **{**YARN, 'factor': None}, max_position_embeddings=63)",
     "max_position_embeddings", "below the original"),
    ("pecli.Rope(4, 8, base=1.0, **YARN)", "base", "divides by ln b"),
    ("pecli.Rope(4, 8, **YARN, beta_fast=1.0, beta_slow=2.0)", "beta_fast", "at least beta_slow"),
    ("pecli.Rope(4, 8, **YARN, mscale=-8.0, mscale_all_dim=1.0)", "mscale", "must be above 0"),
    ("pecli.Rope(4, 8, **YARN, mscale=1.0, mscale_all_dim=-8.0)", "mscale_all_dim", "must be above 0"),
    ("pecli.Rope(4, 8, **YARN, mscale=1e9, mscale_all_dim=1e-9)", "mscale", "the attention factor is not"),
    ("pecli.Rope(4, 8, factor=2.0)", "factor", "scaling uses it"),
    ("pecli.Rope(4, 8, scaling='linear')", "factor", "linear scaling needs it"),
    ("pecli.Rope(4, 8, partial_rotary_factor=0.1)", "partial_rotary_factor", "channels rotate in pairs"),
    ("pecli.Rope(4, 8, recipe='float32', runtime='vllm')", "recipe", "an arithmetic of its own"),
    ("pecli.Rope(dim=8, positions=[0, 2], runtime='vllm')", "runtime", "one position after the other"),
    ("pecli.Rope(dim=8, positions=[[0, 1], [0, 1]], axes=[4, 2])", "axes", "must add up to dim, 8"),
    ("pecli.Rope(4, 8, axes=[4, 4])", "axes", "--positions or of a --grid"),
    ("pecli.Rope(4, 8, mrope_section=[1, 2])", "mrope_section", "must add up to 4"),
    ("pecli.Rope(4, 8, mrope_interleaved=True)", "mrope_interleaved", "belongs to mrope_section"),
    ("pecli.Rope(dim=8, positions=[[0, 1], [0, 1]])", "positions", "must be of shape (L,)"),
    ("pecli.Rope(dim=8, positions=[[0, 1]], mrope_section=[2, 2])", "positions", "follow 2 axes"),
    ("pecli.Rope(4, 8, theta=10.0, base=10.0)", "theta", "they are one parameter"),
    ("pecli.Rope(4, 8, offset=LAST)", "offset", "2^40"),
    ("pecli.Rope(**GRID, grid_base=[1.0, 2.0, 3.0])", "grid_base", ""),
    ("pecli.Sinusoidal(grid=(4, 4), **MAE, grid_scale=[1.0, 2.0, 3.0])", "grid_scale", "one for each axis"),
    ("pecli.Sinusoidal(grid=(3, 4, 4), **MAE)", "grid", "no axis of time"),
    ("pecli.Rope(grid=(3, 4), dim=16, style='qwen2-vl')", "grid", "merges 2 x 2"),
    ("pecli.Rope(grid=(4, 3), dim=16, style='qwen2-vl')", "grid", "merges 2 x 2"),
    ("pecli.Sinusoidal(4, 8, relative=True, padding_idx=0)", "padding_idx", "no row of padding"),
    ("pecli.Sinusoidal(grid=(4, 4), **MAE, padding_idx=0)", "padding_idx", "no row of padding"),
    ("pecli.Sinusoidal(4, 8, relative=True, offset=1)", "offset", "positions are given otherwise"),
    ("pecli.Sinusoidal(dim=8, relative=True, positions=[1])", "relative", "positions of its own"),
    ("pecli.audit(pecli.Sinusoidal(4, 1, layout='halves'), ['float32'])", "dim", "leaves no frequency"),
    ("pecli.audit(pecli.LearnedInit(4, 8), ['float32'])", "the scheme", "its numbers are random"),
    ("pecli.audit(pecli.Alibi(4), ['float32'])", "seq_len", "runs over distances"),
    # positions
    *((f"pecli.Sinusoidal(dim=8, positions={value})", "positions", "positions") for value in (
        "np.array([True])", "np.array([1j])", "np.zeros((0,))", "np.zeros((1, 2, 3, 4))", "'7'", "7", "[]")),
    *((f"pecli.Sinusoidal(dim=8, positions=[0, {value}])", "positions[1]", "finite number") for value in (
        "True", "float('nan')", "float('inf')", "'1e'", "'9' * 5000")),
    *((f"pecli.Sinusoidal(dim=8, positions=[{value}])", "positions[0]", "from −2^40 to 2^40") for value in (
        "LAST + 1", "-LAST - 0.5")),
    ("pecli.Rope(dim=8, positions=[[0, 1], [0]], mrope_section=[2, 2])", "positions", "positions"),
    ("pecli.Rope(4, 8).at([0.5])", "position_ids", "positions are integers"),
    ("pecli.Rope(4, 8).at([[0], [1]])", "position_ids", "of shape (L,)"),
    ("pecli.Rope(4, 8).at([-1])", "position_ids", "at most 2^40"),
    ("pecli.Rope(4, 8).at([LAST + 1])", "position_ids", "at most 2^40"),
    ("whole_positions('positions', np.array([0.5]))", "positions", "positions are integers"),
    ("whole_positions('positions', np.array([-1]))", "positions", "0 or more"),
    ("whole_positions('positions', np.array([LAST + 1]))", "positions", "at most 2^40"),
    # arrays
    ("add_bias(X, table_of('bias', np.ones((2, 5, 5))))", "scores", "does not fit"),
    ("add_bias(X[..., None], table_of('bias', np.ones((3, 5, 1))))", "scores", "does not fit"),
    ("add_bias(X[None], table_of('bias', np.ones((2, 8, 7))))", "scores", "does not fit"),
    ("add_bias(np.ones((2, 9, 8)), table_of('bias', np.ones((2, 9, 8))))", "scores", "does not fit"),
    ("pecli.Relative(style='t5', seq_len=4).applied_to(X)", "weights", "looked up in them"),
    ("pecli.Sinusoidal(5, 8).applied_to(np.ones((5, 8), int))", "x", "it must be float64"),
    ("pecli.Sinusoidal(5, 8).applied_to(np.ones(8))", "x", "(…, L, D)"),
    ("pecli.Sinusoidal(5, 8).applied_to(np.ones((5, 7)))", "x", "does not fit"),
    ("pecli.Sinusoidal(5, 8).applied_to(np.ones((6, 8)))", "x", "does not fit"),
    ("pecli.Relative(style='t5', seq_len=4, weights=np.ones((32, 2), 'S1'))", "weights", "(buckets, heads)"),
    ("pecli.identify([[1.0, 2.0], [3.0]])", "array", "rows of one length"),
    ("indices('rows', '1:2:3', 10)", "rows", "a number or a range"),
    ("indices('rows', '10', 10)", "rows", "there are 10"),
    ("indices('rows', '-11', 10)", "rows", "there are 10"),
    ("pecli.resize(np.ones((5, 2)), to=2, keep=2)", "to", "one must be left"),
    ("pecli.resize(np.ones((5, 2)), to=3, keep=5)", "keep", "one must be left"),
    ("pecli.resize(np.ones((4, 2)), to='3x3')", "grid", "must be one now"),
    ("pecli.resize(np.ones((4, 2)), to='3x3', grid='2x2x1')", "grid", "rows x columns"),
    ("pecli.resize(np.ones((4, 2)), to=(3, 3, 3), grid=(2, 2))", "to", "(rows, columns)"),
    ("pecli.resize(np.ones((4, 2)), to=3, grid=(2, 2))", "to", "(rows, columns)"),
    ("pecli.load(b'x')", "path", "must be a path"),
    ("pecli.verify(np.ones((4, 8), np.longdouble), pecli.Rope(4, 8), atol=1e-3)", "array", "convert it to float64"),
    ("pecli.verify({1: np.ones((4, 8))}, pecli.Rope(4, 8))", "name", "must be texts"),
    ("pecli.audit(pecli.Rope(4, 8), float('nan'))", "recipes", "the name of a recipe"),
    ("pecli.load_config({1: 2})", "config", "must be texts"),
    ("pecli.save(None, pecli.Rope(4, 8))", "path", "must be a path"),
    ("pecli.report('pe.npy', tolerance=5)", "tolerance", "must be a Tolerance"),
    ("pecli.plot()", "what", "a picture shows a scheme, a model, a file or an array"),
    ("pecli.apply(X, pecli.load_model('gemma-3-12b'))", "layer_type", ""),
    ("pecli.apply(X, pecli.Rope(5, 8), offset=LAST - 3)", "offset", "beyond 2^40"),
    ("pecli.apply(X, pecli.Rope(5, 8), seq_axis=2)", "seq_axis", ""),
    ("pecli.apply(X, pecli.Rope(5, 8), seq_axis=-4)", "seq_axis", ""),
]  # fmt: skip

ACCEPTED = [
    "pecli.Rope(4, 8, **LONG, **FACTORS, factor=2.0)",
    "pecli.Rope(4, 8, **LONG, **FACTORS, attention_factor=1.0)",
    "pecli.Rope(4, 8, **LONG, **FACTORS, max_position_embeddings=128)",
    "pecli.Rope(4, 8, **{**LONG, 'original_max_position_embeddings': 2}, **FACTORS, factor=2.0)",
    "pecli.Rope(4, 8, **{**LONG, 'original_max_position_embeddings': 1}, **FACTORS, factor=1.0)",
    "pecli.Rope(4, 8, **{**YARN, 'factor': None}, max_position_embeddings=64)",
    "pecli.Rope(4, 8, **YARN, beta_fast=2.0, beta_slow=2.0)",
    "pecli.Rope(4, 8, scaling='ntk', factor=2.0, partial_rotary_factor=0.5)",
    "pecli.Rope(1, 8, offset=LAST)",
    "pecli.Rope(4, 8).at([0, LAST])",
    "pecli.Sinusoidal(dim=8, positions=[LAST, -LAST])",
    "whole_positions('positions', np.array([0, LAST]))",
    "indices('rows', '-10', 10)",
    "indices('rows', '9', 10)",
    "pecli.resize(np.ones((5, 2)), to=3, keep=2)",
    "pecli.resize(np.ones((5, 2)), to=6, keep=4)",
    "pecli.Sinusoidal(5, 8).applied_to(X)",
    "pecli.apply(X, pecli.Rope(5, 8), offset=LAST - 4)",
    "pecli.apply(X, pecli.Rope(5, 8), seq_axis=-3)",
    "add_bias(X[None, :, :, :5], table_of('bias', np.ones((2, 5, 5))))",
    "add_bias(X[None, :, :, :5], table_of('bias', np.ones((2, 1, 5))))",
    "add_bias(X[None, :, :3, :5], table_of('bias', np.ones((2, 5, 5))))",
]


def test_every_refusal_names_its_parameter() -> None:
    for code, name, rule in REFUSED:
        with pytest.raises(pecli.ParameterError) as caught:
            eval(code, dict(NAMES))
        assert (caught.value.name, rule in str(caught.value)) == (name, True), f"{code}: {caught.value}"


def test_what_is_just_within_a_rule_is_accepted() -> None:
    for code in ACCEPTED:
        eval(code, dict(NAMES))


def test_a_parameter_goes_by_its_own_name_in_python_and_by_its_option_in_a_command() -> None:
    problem = ParameterError("kv_heads", 3, "4 `heads` are no multiple of 3", "check `heads` and `kv_heads`")
    assert str(problem) == "kv_heads is 3; 4 `heads` are no multiple of 3; check `heads` and `kv_heads`"
    spelled = "--kv-heads is 3; 4 --heads are no multiple of 3; check --heads and --kv-heads"
    assert problem.spelled(option_name) == spelled
    problem = ParameterError("name", "'`heads`'", "what is given is never taken for a name")
    assert problem.spelled(option_name) == "--name is '`heads`'; what is given is never taken for a name"
    assert str(ParameterError("dim", 0, "")) == "dim is 0"
    assert str(FileError("pe.npy", "is empty")) == "pe.npy: is empty"
    assert str(FileError("pe.npy", "is empty", "write it again")) == "pe.npy: is empty; write it again"


def test_errors_are_those_that_python_users_catch() -> None:
    caught = {
        ParameterError: (PecliError, ValueError),
        KindError: (ParameterError, TypeError),
        FileError: (PecliError,),
    }
    assert all(issubclass(error, kind) for error, kinds in caught.items() for kind in kinds)
    assert not issubclass(FileError, ValueError)
    for key, rule in (("model_type", "must be a text"), ("rope_scaling", "must be an object")):
        with pytest.raises(PecliError, match=rule):
            pecli.load_config({"model_type": "llama", key: np.arange(3)})
