"""Schemes as data: a spec (the scheme's name and parameters as JSON) makes an equal scheme with the
same bytes.

Specs are what files carry. Expected values are the scheme itself before the round trip, and lists
of names written by hand.
"""

import dataclasses
import json
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given

import pecli
from pecli.engine.schemes import SCHEMES, scheme_named
from pecli.engine.schemes.bundle import Bundle
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError
from tests.engine import strategies

SMALLEST_PARAMETERS = {
    "sinusoidal": {"seq_len": 3, "dim": 4},
    "rope": {"seq_len": 3, "dim": 4},
    "alibi": {"heads": 3, "seq_len": 4},
    "relative": {"style": "t5", "seq_len": 4},
    "learned-init": {"max_len": 3, "dim": 4},
}


def test_every_scheme_is_registered_by_its_name():
    """SMALLEST_PARAMETERS has the fewest parameters of each scheme (sinusoidal, rope, alibi, …) by its
    name, in the order of the registry.
    """
    assert list(SCHEMES) == list(SMALLEST_PARAMETERS)
    assert [scheme_named(name).name for name in SCHEMES] == list(SMALLEST_PARAMETERS)


@given(strategies.schemes())
def test_a_spec_makes_the_scheme_and_its_bytes_again(scheme):
    """A spec is the scheme as plain data, as files carry it. Specs of random schemes of all kinds go
    through JSON.
    """
    text = json.dumps(scheme.spec(), sort_keys=True, allow_nan=False)
    again = Scheme.from_spec(json.loads(text))

    assert again == scheme == type(scheme).from_spec(scheme.spec())
    assert type(again) is type(scheme)
    assert hash(again) == hash(scheme)
    assert json.dumps(again.spec(), sort_keys=True) == text

    tables = again.tables()
    for name, table in scheme.tables().items():
        assert tables[name].tobytes() == table.tobytes()


@pytest.mark.parametrize("name", SMALLEST_PARAMETERS)
def test_a_spec_names_every_parameter(name):
    """A spec is the scheme as plain data, and complete, so that a later version with other defaults
    reads the same scheme. Parameters that were added after the first version are left out if they
    have their default (`omitted_default`).
    """
    scheme = scheme_named(name)(**SMALLEST_PARAMETERS[name])
    parameters = scheme.spec()["parameters"]
    added_later = {
        parameter_name
        for parameter_name, parameter in scheme.parameters().items()
        if parameter.omitted_default is not dataclasses.MISSING
    }

    assert set(parameters) == {field.name for field in dataclasses.fields(scheme)} - added_later


@pytest.mark.parametrize("name", SMALLEST_PARAMETERS)
def test_a_spec_has_the_dtype_last(name):
    """A spec lists the parameters of a scheme in the order of its class: its own ones, then the dtype,
    which all schemes have.
    """
    parameters = scheme_named(name)(**SMALLEST_PARAMETERS[name]).spec()["parameters"]
    assert list(parameters)[-1] == "dtype"


@pytest.mark.parametrize("name", SMALLEST_PARAMETERS)
def test_a_spec_without_one_of_its_parameters_is_refused(name):
    """Each parameter in turn is left out; the error names it."""
    parameters = scheme_named(name)(**SMALLEST_PARAMETERS[name]).spec()["parameters"]
    for missing in parameters:
        fewer = {key: value for key, value in parameters.items() if key != missing}
        with pytest.raises(
            ParameterError, match=f"^{missing} is missing; a spec of {name} names every parameter"
        ):
            Scheme.from_spec({"scheme": name, "parameters": fewer})


@pytest.mark.parametrize("name", ["sinusoidal", "rope", "alibi"])
def test_a_spec_mentions_a_recipe_only_if_it_is_not_exact(name):
    """A recipe names the dtypes in which a project computes. A spec from before there were recipes
    means exact, and an exact spec is what it was then.
    """
    exact = scheme_named(name)(**SMALLEST_PARAMETERS[name])
    spec = exact.spec()

    assert "recipe" not in spec["parameters"]

    spec_with_recipe = {"scheme": name, "parameters": {**spec["parameters"], "recipe": "exact"}}
    assert Scheme.from_spec(spec) == Scheme.from_spec(spec_with_recipe)

    in_float32 = dataclasses.replace(exact, recipe="float32")
    assert in_float32 != exact
    assert in_float32.spec()["parameters"]["recipe"] == "float32"
    assert Scheme.from_spec(json.loads(json.dumps(in_float32.spec()))) == in_float32


@pytest.mark.parametrize("value", [None, [], {}, "x", 1.5, True, -1, 10**30, 1e400], ids=repr)
@pytest.mark.parametrize("name", SMALLEST_PARAMETERS)
def test_any_value_in_a_spec_is_taken_or_refused_with_a_parameter_error(name, value):
    """Each parameter in turn has the value, such as a list, infinity or 10^30; no other exception
    escapes.
    """
    good = scheme_named(name)(**SMALLEST_PARAMETERS[name]).spec()["parameters"]
    for key in good:
        with suppress(ParameterError):
            Scheme.from_spec({"scheme": name, "parameters": {**good, key: value}})


def test_blocks_are_the_rows_of_a_tensor_by_its_name():
    """`blocks` yields a tensor in parts of `rows` rows, for tables that do not fit into memory. Put
    together they are the tensor. Without a name the blocks are those of the first tensor, cos.
    """
    scheme = Rope(10, 14)
    tables = scheme.tables()

    for rows in (1, 2, 3, None):
        for name in ("cos", "sin", "inv_freq"):
            together = np.concatenate(list(scheme.blocks(name, rows=rows)))
            assert together.tolist() == tables[name].tolist()
        of_the_first = np.concatenate(list(scheme.blocks(rows=rows)))
        assert of_the_first.tobytes() == tables["cos"].tobytes()


LAYERS = Bundle(
    (("full", pecli.Rope(6, 8, 1e6, scaling="linear", factor=8.0)), ("sliding", pecli.Rope(6, 8)))
)


def test_a_bundle_has_the_tensors_of_each_layer_type_under_its_name() -> None:
    """A bundle holds the schemes of two layer types, full and sliding attention."""
    tables = LAYERS.tables()
    assert sorted(tables) == sorted(
        f"{a}.{b}" for a in ("full", "sliding") for b in ("cos", "sin", "inv_freq")
    )
    for name, scheme in LAYERS.parts:
        for tensor, array in scheme.tables().items():
            assert np.array_equal(tables[f"{name}.{tensor}"], array)


def test_the_spec_of_a_bundle_makes_the_same_bundle() -> None:
    """A bundle has a scheme per layer type. Its spec goes through JSON, as in a file."""
    assert Scheme.from_spec(json.loads(json.dumps(LAYERS.spec()))) == LAYERS


def test_a_saved_bundle_is_verified(tmp_path) -> None:
    """LAYERS has a scheme for each layer type. The file that `save` writes carries the spec of all,
    by which `verify` passes it.
    """
    pecli.save(tmp_path / "t.safetensors", LAYERS)
    assert pecli.verify(tmp_path / "t.safetensors").passed


def test_a_bundle_is_not_saved_in_a_file_of_one_array(tmp_path) -> None:
    """LAYERS is a bundle with a rope for the layer types full and sliding, which have a table each. A
    .npy file holds one array; the error lists the layer types.
    """
    with pytest.raises(ParameterError, match="full, sliding"):
        pecli.save(tmp_path / "t.npy", LAYERS)
