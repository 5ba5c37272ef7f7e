"""Arrays from callers: refused unless their dtype is one that encodings are applied to."""

import numpy as np
import pytest

from pecli.engine.arrays import floating
from pecli.errors import KindError


def refusal(name: str, dtype: type) -> str:
    with pytest.raises(KindError) as caught:
        floating(name, np.zeros(2, dtype))
    return str(caught.value)


def test_integers_are_refused_with_the_conversion_to_call() -> None:
    assert refusal("x", int).endswith("bfloat16; convert it first, as with x.astype('float32')")


def test_complex_numbers_are_refused_without_advice() -> None:
    """A cast would drop their imaginary parts."""
    assert refusal("x", complex).endswith("bfloat16")


def test_an_argument_without_an_identifier_is_refused_without_advice() -> None:
    assert refusal("the input", int).endswith("bfloat16")
