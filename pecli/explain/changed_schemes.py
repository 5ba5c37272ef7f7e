"""Schemes with other parameters than those that were specified."""

from dataclasses import replace
from typing import Any, TypeVar

from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError

SchemeT = TypeVar("SchemeT", bound=Scheme)


def with_parameters(scheme: SchemeT, **changes: Any) -> SchemeT:
    """Return a scheme with other parameters; raise ParameterError if they do not fit.

    The number of rows of a grid or of listed positions follows from these: a scheme states it, but
    refuses it as a parameter beside them.
    """
    length_follows = "seq_len" in scheme.inert_parameters
    if length_follows:
        changes["seq_len"] = None
    return replace(scheme, **changes)


def permitted(scheme: SchemeT, **changes: Any) -> SchemeT | None:
    """Return a scheme with other parameters; None if it has no such parameter, or refuses a value.

    A rotary scheme has no `padding_idx`, and refuses a `dim` of 63 channels.
    """
    if not changes.keys() <= scheme.parameters().keys():
        return None
    try:
        return with_parameters(scheme, **changes)
    except ParameterError:
        return None
