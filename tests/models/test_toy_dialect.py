"""A new dialect is a module with a function `read`, and a row that names its keys.

A dialect is the way in which a project spells its configurations. The toy is registered here: it
calls the base `toy_base`, 12345 in CONFIG, and is recognised by that key.
"""

import sys
from types import ModuleType

import pytest

from pecli import load_model
from pecli.models import dialects
from pecli.models.dialects import Dialect
from pecli.models.dialects.translation import (
    ropes_by_hugging_face_rules,
    values_by_hugging_face_name,
)
from pecli.models.encoding import ModelEncodings, ParsedEncodings
from pecli.models.families import ModelFamily
from pecli.models.keys import Keys

CONFIG = {"toy_base": 12345.0, "hidden_size": 64, "num_attention_heads": 4}
"""A config of the toy dialect, recognised by `toy_base`: the base, and heads of 16 channels."""


def read_toy(keys: Keys) -> ParsedEncodings:
    """Read the keys of CONFIG: toy_base stands for rope_theta, and two keys are Hugging Face's."""
    settings = values_by_hugging_face_name(keys, rope_theta="toy_base")
    shared_names = ("hidden_size", "num_attention_heads")
    return ropes_by_hugging_face_rules(
        keys, ModelFamily("Toy"), shared_names=shared_names, settings=settings
    )


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ModelEncodings:
    """CONFIG as a model, after the toy dialect was added.

    A dialect is a module in pecli.models.dialects with a function `read`, here made of `read_toy`,
    and a row in the list of dialects.
    """
    module = ModuleType("pecli.models.dialects.toy")
    monkeypatch.setattr(module, "read", read_toy, raising=False)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    row = Dialect.of({"module": "toy", "has": ["toy_base"]})
    rows = (row, *dialects.dialects())
    monkeypatch.setattr(dialects, "dialects", lambda: rows)
    return load_model(CONFIG)


def test_the_base_of_the_toy_dialect_is_read(model: ModelEncodings) -> None:
    """The dialect of configs that this module adds calls the base toy_base; CONFIG has toy_base
    12345.
    """
    assert model.one().parameters["base"] == 12345.0


def test_the_source_of_the_base_is_the_key_of_the_toy_dialect(model: ModelEncodings) -> None:
    """The dialect of configs that this module adds calls the base toy_base. Reports show this key of
    the file, not rope_theta, to which it is translated.
    """
    assert model.one().sources["base"] == "toy_base"


def test_no_key_of_the_toy_dialect_is_left_unread(model: ModelEncodings) -> None:
    """A key about positions that a dialect does not read has a warning. The toy dialect reads all keys
    of CONFIG: toy_base, hidden_size and num_attention_heads.
    """
    assert model.warnings == ()

    (warning,) = load_model({**CONFIG, "rope_wibble": 3}).warnings
    assert "rope_wibble" in warning


def test_a_config_of_another_dialect_is_read_as_before(model: ModelEncodings) -> None:
    """The fixture `model` has added a dialect that is recognised by the key toy_base. A Llama's config
    does not have the key: it is read as Hugging Face's, with the class's default base, 10000.
    """
    config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}
    assert load_model(config).one().parameters["base"] == 10000.0
