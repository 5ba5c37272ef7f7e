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
    """SMALLEST_PARAMETERS has one entry for each scheme, in the order of the registry."""
    assert list(SCHEMES) == list(SMALLEST_PARAMETERS)
    assert [scheme_named(name).name for name in SCHEMES] == list(SMALLEST_PARAMETERS)


@given(strategies.schemes())
def test_a_spec_makes_the_scheme_and_its_bytes_again(scheme):
    """Random schemes of all kinds; the spec goes through JSON."""
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
    """Except those that were added later, which are left out if they have their default."""
    scheme = scheme_named(name)(**SMALLEST_PARAMETERS[name])
    parameters = scheme.spec()["parameters"]
    omitted = {
        name
        for name, each in scheme.parameters().items()
        if each.omitted_default is not dataclasses.MISSING
    }

    assert set(parameters) == {field.name for field in dataclasses.fields(scheme)} - omitted
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

    said = {"scheme": name, "parameters": {**spec["parameters"], "recipe": "exact"}}
    assert Scheme.from_spec(spec) == Scheme.from_spec(said)

    other = dataclasses.replace(exact, recipe="float32")
    assert other.spec()["parameters"]["recipe"] == "float32"
    assert Scheme.from_spec(json.loads(json.dumps(other.spec()))) == other != exact


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
    """inv_freq has one axis, so that its blocks are vectors; without a name the blocks are those of
    the first tensor, cos.
    """
    scheme = Rope(10, 14)
    tables = scheme.tables()

    for rows in (1, 2, 3, None):
        for name in ("cos", "sin", "inv_freq"):
            assert (
                np.concatenate(list(scheme.blocks(name, rows=rows))).tolist()
                == tables[name].tolist()
            )
        assert np.concatenate(list(scheme.blocks(rows=rows))).tobytes() == tables["cos"].tobytes()


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
    """A .npy file holds one array; the error lists the layer types."""
    with pytest.raises(ParameterError, match="full, sliding"):
        pecli.save(tmp_path / "t.npy", LAYERS)
