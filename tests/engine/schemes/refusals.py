"""What schemes have to say to values that break a rule, and to those of a kind that is never right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pecli.engine.schemes.scheme import Scheme
from pecli.errors import KindError, ParameterError


def breaks_a_rule(kind: type[Scheme], values: Mapping[str, Any], name: str, given: str, rule: str) -> None:
    """The scheme is not made: the error names the parameter, what was given, and the rule."""
    with pytest.raises(ParameterError) as caught:
        kind(**values)
    assert type(caught.value) is ParameterError
    assert caught.value.name == name
    assert str(caught.value).startswith(f"{name} is {given}; ")
    assert rule in str(caught.value)


def is_never_right(kind: type[Scheme], values: Mapping[str, Any], name: str, rule: str = "it must be") -> None:
    """The same of a value of the wrong kind."""
    with pytest.raises(KindError, match=f"^{name} is .*; {rule}") as caught:
        kind(**values)
    assert repr(values[name]) in str(caught.value)
