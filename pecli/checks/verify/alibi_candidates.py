"""The tables of an ALiBi encoding that a tensor of a file may hold: slopes and biases."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pecli.checks.verify.alibi_parts import find_alibi_parts
from pecli.checks.verify.table_settings import TableSettings
from pecli.checks.verify.tensor_with_role import TensorWithRole
from pecli.compare.candidate import CandidateTable, candidate_of
from pecli.engine.arrays import AnyArray, Floats, as_dtype, round_to, widened
from pecli.engine.schemes.alibi import Alibi
from pecli.models.encoding import Encoding

ALIBI_FORMS = ("symmetric", "causal", "key", "key-last")


def find_alibi_candidates(
    tensor: TensorWithRole, encoding: Encoding, settings: TableSettings
) -> Iterator[CandidateTable]:
    """Yield ALiBi's slopes (heads,), and its biases (heads, queries, keys) in each of their forms.

    The model's own form comes first: a bias of few positions may be the same in several forms.
    """
    yield from _find_slope_candidates(encoding, tensor)
    for form in dict.fromkeys((encoding.parameters["form"], *ALIBI_FORMS)):
        scheme = Alibi(
            seq_len=tensor.array.shape[-1],
            form=form,
            dtype=tensor.table_dtype,
            heads=encoding.parameters["heads"],
            max_bias=encoding.parameters["max_bias"],
        )
        yield from _find_bias_candidates(encoding, scheme, tensor.array)


def _make_slope_scheme(encoding: Encoding, dtype: str) -> Alibi:
    """Return the scheme whose only table is a model's slopes."""
    heads = encoding.parameters["heads"]
    return Alibi(heads=heads, max_bias=encoding.parameters["max_bias"], slopes=True, dtype=dtype)


def _find_slope_candidates(encoding: Encoding, tensor: TensorWithRole) -> Iterator[CandidateTable]:
    """Yield slopes (heads,): of all heads, of the heads of a shard, and rounded as the model rounds them.

    transformers' Falcon computes slopes in bfloat16, so that a float32 file may hold numbers with 8
    significant bits.
    """
    scheme = _make_slope_scheme(encoding, tensor.wide_dtype)
    yield candidate_of({"slopes": scheme.single_array()}, scheme)
    yield from find_alibi_parts(scheme, tensor.array)
    if encoding.slope_dtype:
        rounded = _make_slope_scheme(encoding, encoding.slope_dtype).single_array().array()
        words = f"rounded to {encoding.slope_dtype}"
        yield candidate_of({"slopes": as_dtype(rounded, scheme.dtype)}, scheme, words=words)


def _find_bias_candidates(
    encoding: Encoding, scheme: Alibi, array: AnyArray
) -> Iterator[CandidateTable]:
    """Yield the biases of one form that an array may hold: all heads and queries, or some of them.

    A form is a way to write the same bias: «key» has one row, (heads, 1, keys), for all queries.

    Args:
        encoding: The model's encoding.
        scheme: The scheme of its biases in this form, with as many keys as the array has columns.
        array: The tensor.
    """
    note = f"in the {scheme.form} form"
    # Biases are masked: −∞, or the most negative number of a dtype, hides keys after a query.
    yield candidate_of({"bias": scheme.single_array()}, scheme, words=note, masked=True)
    yield from find_alibi_parts(scheme, array)
    if scheme.form != "key":
        return
    # Falcon, which has this form, computes biases in bfloat16, or divides them.
    for computed in _compute_inexact_biases(encoding, scheme):
        expected = {"bias": round_to(computed.values, scheme.dtype)}
        yield candidate_of(expected, scheme, words=f"{note}, {computed.words}", masked=True)


class _ComputedBias(NamedTuple):
    """A bias as a model computes it, and the words for how that differs from the exact one."""

    words: str
    values: Floats

    def divided_by(self, divisor: float) -> "_ComputedBias":
        """Return the bias divided by √head_dim, rounded to float32."""
        words = ", ".join(filter(None, (self.words, "divided by √head_dim")))
        return _ComputedBias(words, self.values / divisor)


def _compute_inexact_biases(encoding: Encoding, scheme: Alibi) -> list[_ComputedBias]:
    """Return the biases (heads, 1, keys) that programs compute for a model, other than the exact one.

    transformers' Falcon rounds slopes, positions and products to bfloat16, and divides the bias by
    √head_dim, as attention divides the scores. Other runtimes do only one of these. So there are
    three: rounded, exact but divided, and both rounded and divided. Other models have none.
    """
    exact_bias = scheme.single_array()
    rounded: list[_ComputedBias] = []
    if encoding.slope_dtype:
        key_count = exact_bias.shape[-1]
        rounded.append(_compute_rounded_bias(encoding, key_count, encoding.slope_dtype))
    divided: list[_ComputedBias] = []
    if encoding.bias_divisor:
        divisor = float(np.float32(encoding.bias_divisor))  # Programs hold it as a float32.
        exact = _ComputedBias("", widened(exact_bias.array()))
        divided = [bias.divided_by(divisor) for bias in (exact, *rounded)]
    return [*rounded, *divided]


def _compute_rounded_bias(encoding: Encoding, key_count: int, dtype: str) -> _ComputedBias:
    """Return slope · position for each head and key, (heads, 1, keys), with each step rounded.

    In bfloat16, position 257 becomes 256: it has 8 significant bits.
    """
    slopes = _make_slope_scheme(encoding, dtype).single_array().array()  # (heads,)
    positions = widened(round_to(np.arange(key_count, dtype=np.float64), dtype))
    products = widened(slopes)[:, None, None] * positions
    words = f"slopes and products rounded to {dtype}"
    return _ComputedBias(words, widened(round_to(products, dtype)))
