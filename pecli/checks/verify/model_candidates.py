"""The tables of a model's encodings that a tensor of a file may hold.

A configuration fixes the numbers, not how they are arranged: that is up to the file, and found out by
`find_best_reading`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pecli.checks.verify.alibi_candidates import find_alibi_candidates
from pecli.checks.verify.rope_candidates import find_rope_candidates
from pecli.checks.verify.sinusoidal_candidates import find_sinusoidal_candidates
from pecli.checks.verify.table_settings import TableSettings
from pecli.checks.verify.tensor_with_role import TensorWithRole
from pecli.compare.candidate import CandidateTable, EncodingOrigin, candidate_of
from pecli.engine.schemes.relative import Relative
from pecli.models.encoding import Encoding


def find_model_candidates(
    tensor: TensorWithRole, encoding: Encoding, settings: TableSettings
) -> Iterator[CandidateTable]:
    """Yield every table of an encoding that a tensor may hold, the likelier ones first.

    A tensor `cos` of a Llama checkpoint may hold cosines; a tensor without a name, frequencies,
    cosines, sines, or both. Whether it does is decided later, by its values.

    Args:
        tensor: The tensor, and the table that its name states.
        encoding: One of the model's encodings.
        settings: Where the rows of tables are, and how they were computed.
    """
    if not tensor.array.size:
        return
    if tensor.role == "rows" and encoding.is_rotary:
        tensor = tensor._replace(role=None)  # The name states that it is a table, not of what.
    origin = EncodingOrigin(encoding.scheme, encoding.layer_type)
    find_candidates = _CANDIDATES_BY_SCHEME[encoding.scheme]
    for candidate in find_candidates(tensor, encoding, settings):
        if tensor.may_hold(candidate):
            yield replace(candidate, origin=origin)


def _find_relative_candidates(
    tensor: TensorWithRole, encoding: Encoding, settings: TableSettings
) -> Iterator[CandidateTable]:
    """Yield the table of bucket numbers, (L, L), or the learned biases of all buckets.

    T5 sorts distances between tokens into 32 buckets, and learns a bias for each bucket and head,
    (32, heads). Bucket numbers follow from the scheme. Biases are learned, so that only their shape can
    be checked.

    Args:
        tensor: The tensor; its name may state that it holds the learned biases.
        encoding: The encoding.
        settings: Not used. All functions of _CANDIDATES_BY_SCHEME take the positions of rows.
    """
    column_count = tensor.array.shape[-1]
    if tensor.role == "bias_rows":
        shape = (_count_buckets(encoding), column_count)  # (buckets, heads)
        yield _make_learned_table(tensor.role, tensor.array.dtype, shape)
    else:
        scheme = _make_relative_scheme(encoding, length=column_count)
        yield candidate_of({"index": scheme.single_array()}, scheme, words=f"as in {scheme.style}")


def _count_buckets(encoding: Encoding) -> int:
    """Return the number of buckets into which an encoding sorts distances, 32 for T5."""
    any_length = 1  # Distances between more tokens have the same buckets.
    return _make_relative_scheme(encoding, length=any_length).numbers


def _make_relative_scheme(encoding: Encoding, length: int) -> Relative:
    """Return the scheme of relative positions between so many tokens, or between a grid's patches.

    Args:
        encoding: An encoding with relative positions.
        length: The number of tokens. Swin's grid of 7 × 7 patches has 49, whatever is given here.
    """
    parameters = dict(encoding.parameters)
    parameters["seq_len"] = None if "grid" in parameters else length
    return Relative(**parameters)


def _find_learned_candidates(
    tensor: TensorWithRole, encoding: Encoding, settings: TableSettings
) -> Iterator[CandidateTable]:
    """Yield a table of the right shape, since the values of a learned one are not known."""
    shape = (encoding.parameters["max_len"], encoding.parameters["dim"])
    yield _make_learned_table("weight", tensor.array.dtype, shape)


def _make_learned_table(
    name: str, dtype: "np.dtype[Any]", shape: tuple[int, int]
) -> CandidateTable:
    """Return a candidate with zeros in place of the values, which are never compared."""
    nothing = np.broadcast_to(np.zeros((), dtype), shape)
    return candidate_of({name: nothing}, words="values are learned; the shape is right")


_CANDIDATES_BY_SCHEME: Mapping[
    str, Callable[[TensorWithRole, Encoding, TableSettings], Iterator[CandidateTable]]
] = {
    "rope": find_rope_candidates,
    "alibi": find_alibi_candidates,
    "sinusoidal": find_sinusoidal_candidates,
    "learned": _find_learned_candidates,
    "relative": _find_relative_candidates,
}
"""By scheme, the function that yields the tables of an encoding that a tensor may hold.

All take the same arguments, although only rows at given positions depend on the settings.
"""
