"""Tensors of live torch modules, with stand-ins for torch's classes, so that torch need not be
installed.

A module registers buffers and parameters; some code keeps its table as a plain attribute instead.
The config is a Llama with heads of 16 channels, whose frequencies are 10000^(−i/8).
"""

import numpy as np
import pytest

import pecli
from pecli.files.load import opened
from tests.record.fake_torch import MetaTensor, Module, tensor

CONFIG = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}
FREQUENCIES = 10000.0 ** (-np.arange(8) / 8)


class Block(Module):
    """A block that keeps its table as Meta's Llama does: an attribute that is not a buffer."""

    def __init__(self, base: float = 10000.0) -> None:
        super().__init__()
        angles = np.outer(np.arange(16), base ** (-np.arange(8) / 8))
        self.freqs_cis = tensor(np.exp(1j * angles).astype("complex64"))


class Model(Module):
    def __init__(self, base: float = 10000.0) -> None:
        super().__init__()
        self.block = Block(base)


def test_a_table_that_is_a_plain_attribute_of_a_module_is_found() -> None:
    """Meta's Llama keeps its complex table `freqs_cis` as a plain attribute, which is no buffer.
    `Model` has such a block as its attribute «block».
    """
    _, loaded = opened(Model())
    assert {*loaded.tensors} == {"block.freqs_cis"}


def test_a_module_with_a_right_table_passes() -> None:
    """`Model` has the table exp(i · position · 10000^(−k/8)) in complex64, for 16 positions, and
    CONFIG is a Llama with heads of 16 channels and the default base 10000.
    """
    assert pecli.verify(Model(), CONFIG, atol=1e-5)


def test_a_module_with_a_wrong_table_fails() -> None:
    """The tables of the module have base 500000, and those of the configuration 10000."""
    assert not pecli.verify(Model(base=500000.0), CONFIG, atol=1e-5, reasons=False)


def test_the_only_tensor_of_a_module_is_found_even_if_its_name_is_not_positional() -> None:
    """«thing» is no name of a table, but it is the only tensor that the module has."""
    module = Module()
    module.thing = tensor(FREQUENCIES)
    _, loaded = opened(module)

    assert {*loaded.tensors} == {"thing"}


def test_attributes_that_are_not_tensors_are_left_out() -> None:
    """«cos» is the name of a table, but here it holds a text."""
    module = Module()
    module.cos = "a text"
    module.register_buffer("inv_freq", FREQUENCIES)
    _, loaded = opened(module)

    assert {*loaded.tensors} == {"inv_freq"}


@pytest.mark.parametrize("place", ["attribute", "buffer"])
def test_a_table_that_is_a_meta_tensor_is_refused_by_its_name(place: str) -> None:
    """Tensors on torch's device «meta» have a shape and no numbers; a buffer or an attribute may be
    one.
    """
    module = Module()
    if place == "attribute":
        module.inv_freq = MetaTensor()
    else:
        module.buffers["inv_freq"] = MetaTensor()  # type: ignore[assignment]

    with pytest.raises(pecli.KindError, match="inv_freq is a meta tensor; it has no values"):
        pecli.verify(module, CONFIG)


def test_a_meta_tensor_that_is_no_table_is_not_read() -> None:
    """Reading a tensor on torch's device «meta», which has no numbers, is an error. Only the tensors
    with a positional name are read, here inv_freq: 10000^(−i/8), the frequencies of CONFIG.
    """
    module = Module()
    module.register_buffer("inv_freq", FREQUENCIES)
    module.weight_of_attention = MetaTensor()
    result = pecli.verify(module, CONFIG)

    assert [tensor.name for tensor in result.tensors] == ["inv_freq"]
    assert result.passed
