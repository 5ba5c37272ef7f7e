"""The mistake of a converter is recognised from one tensor in two forms of a model.

A form is how files keep the weights: Hugging Face's folder with the channels of a head as halves
(A), GGUF with interleaved ones (B). Tensors are random; the mistakes are made here by NumPy, and
the expected finding is written by hand. `permutation` is LlamaModel.permute of llama.cpp's
convert_hf_to_gguf.py.
"""

from typing import Any

import numpy as np
import pytest

import pecli
from pecli.checks.model_forms.findings import (
    BeyondRounding,
    ConverterMistake,
    DifferentShape,
    Finding,
    Multiplied,
    NormOffset,
    PermutedInHeads,
    SwappedLayer,
    SwappedTensor,
    TensorDifference,
    UnmatchedTensor,
)
from pecli.checks.model_forms.matching import Matched, match_tensors
from pecli.checks.model_forms.model_files import ModelFiles, ModelFormat
from pecli.checks.model_forms.reasons import find_reason
from pecli.checks.model_forms.stored import StoredTensor
from pecli.models.encoding import ModelEncodings
from pecli.tensors.head_layout import HeadDivision

Arrays = dict[str, np.ndarray[Any, Any]]
RANDOM = np.random.default_rng(0)
RANDOM_SQUARE = RANDOM.normal(size=(8, 8))
RANDOM_TABLES = RANDOM.normal(size=(3, 12, 16))
RANDOM_QUERIES = RANDOM.normal(size=(16, 3))
NORM_WEIGHTS = np.arange(3.0)
TWO_HEADS = HeadDivision(heads=2, kv_heads=1)


def two_forms(
    tensors: Arrays,
    checked: Arrays,
    architecture: str = "llama",
    heads: HeadDivision | None = None,
    kind: ModelFormat = ModelFormat.HUGGING_FACE,
    layouts: tuple[str, str] = ("halves", "interleaved"),
) -> tuple[ModelFiles, ModelFiles]:
    """Return a form whose weights are in halves, and one in GGUF, where they are interleaved."""

    def form(label: str, kind: ModelFormat, layout: str, arrays: Arrays) -> ModelFiles:
        stored = {name: StoredTensor.of(array) for name, array in arrays.items()}
        encodings = ModelEncodings("", "", ())
        return ModelFiles(label, kind, architecture, encodings, layout, heads, tensors=stored)

    first, second = layouts
    return form("A", kind, first, tensors), form("B", ModelFormat.GGUF, second, checked)


def match_tensors_of(tensors: Arrays, checked: Arrays, **about: Any) -> Matched:
    return match_tensors(*two_forms(tensors, checked, **about))


def reason_of_difference(
    array: np.ndarray[Any, Any], checked: np.ndarray[Any, Any], name: str = "a", **about: Any
) -> Finding | None:
    """Return the reason why a tensor differs; None if it does not."""
    return reasons_of_differences({name: array}, {name: checked}, **about).get(name)


def reasons_of_differences(tensors: Arrays, checked: Arrays, **about: Any) -> dict[str, Finding]:
    models = two_forms(tensors, checked, **about)
    exact = pecli.Tolerance()
    changed = [pair for pair in match_tensors(*models).pairs if pair.compare(exact).mismatched]
    return {pair.name: find_reason(pair, *models, exact) for pair in changed}


def permutation(heads: int, rows: int = 16) -> np.ndarray[Any, Any]:
    """Return the order of rows by LlamaModel.permute of convert_hf_to_gguf.py."""
    return np.arange(rows).reshape(heads, 2, -1).swapaxes(1, 2).reshape(-1)


def test_a_tensor_that_b_lacks_is_missing_in_b() -> None:
    """A has the tensors «a» and «b», B has «a»: the problem is a tensor without a match in B."""
    both = {"a": RANDOM_SQUARE, "b": RANDOM_SQUARE}
    only_a = {"a": RANDOM_SQUARE}
    problems = match_tensors_of(both, only_a).problems

    assert problems == [TensorDifference("b", UnmatchedTensor("B"))]


def test_a_tensor_that_a_lacks_is_missing_in_a() -> None:
    """A has the tensor «a», B has «a» and «b»: the problem is a tensor without a match in A."""
    both = {"a": RANDOM_SQUARE, "b": RANDOM_SQUARE}
    only_a = {"a": RANDOM_SQUARE}
    problems = match_tensors_of(only_a, both).problems

    assert problems == [TensorDifference("b", UnmatchedTensor("A"))]


def test_an_output_projection_is_not_missing_if_it_is_tied_to_the_embedding() -> None:
    """A tied model uses the embedding as output projection, which one form may store and the other
    not.
    """
    tied = {"token_embd.weight": RANDOM_SQUARE}
    assert not match_tensors_of(tied, {**tied, "output.weight": RANDOM_SQUARE}).problems


def test_empty_tensors_are_not_compared() -> None:
    """`match_tensors_of` pairs the tensors of two files by name. One without elements can have
    neither an error nor a problem, so it is left out.
    """
    matched = match_tensors_of({"a": np.zeros((0, 4))}, {"a": np.zeros((0, 4))})
    assert not matched.pairs
    assert not matched.problems


@pytest.mark.parametrize("shape", [(3, 12), (12, 4)])
def test_tensors_of_different_shapes_are_named(shape: tuple[int, int]) -> None:
    """A has the shape (12, 3); B is transposed or has a fourth column."""
    problems = match_tensors_of({"a": np.zeros((12, 3))}, {"a": np.zeros(shape)}).problems
    assert problems == [TensorDifference("a", DifferentShape(shape, (12, 3)))]


def test_a_latent_projection_in_one_tensor_equals_the_two_of_later_files() -> None:
    """Early .gguf files of DeepSeek-V2 have keys and values in one tensor; here 2 heads of 4 channels
    of keys and 2 of values, (2 · 6, 64). Later ones have keys, transposed, and values in two.
    """
    by_head = RANDOM.normal(size=(2, 6, 64))
    fused = {"attn_kv_b.weight": by_head.reshape(12, 64)}
    split = {
        "attn_k_b.weight": by_head[:, :4].swapaxes(1, 2),
        "attn_v_b.weight": by_head[:, 4:],
    }
    matched = match_tensors_of(split, fused, architecture="deepseek2", kind=ModelFormat.GGUF)

    assert not matched.problems
    assert [pair.compare(pecli.Tolerance()).mismatched for pair in matched.pairs] == [0, 0]


@pytest.mark.parametrize(
    ("architecture", "kind", "added"),
    [
        pytest.param("gemma2", ModelFormat.HUGGING_FACE, 1, id="Gemma converted to GGUF"),
        pytest.param("llama", ModelFormat.HUGGING_FACE, 0, id="Llama converted to GGUF"),
        pytest.param("gemma2", ModelFormat.GGUF, 0, id="two GGUF files of Gemma"),
    ],
)
def test_norms_of_gemma_in_gguf_have_1_added_to_those_of_hugging_face(
    architecture: str, kind: ModelFormat, added: int
) -> None:
    """B is a .gguf file; `kind` is the format of A. llama.cpp's converter adds 1 to the weights of
    Gemma's norms, and nothing to Llama's; between two .gguf files nothing is added. A conversion by
    this rule is no difference, and has no reason.
    """
    reason = reason_of_difference(
        NORM_WEIGHTS,
        NORM_WEIGHTS + added,
        name="attn_norm.weight",
        architecture=architecture,
        kind=kind,
    )
    assert reason is None


@pytest.mark.parametrize(
    ("architecture", "added", "expected"),
    [
        pytest.param("gemma2", 0, NormOffset(-1, is_one_added=True), id="Gemma without the 1"),
        pytest.param("gemma2", 2, NormOffset(1, is_one_added=True), id="Gemma with 2"),
        pytest.param("llama", 1, NormOffset(1, is_one_added=False), id="Llama with 1"),
    ],
)
def test_a_norm_that_is_off_by_1_is_named(architecture: str, added: int, expected: Finding) -> None:
    """GGUF should hold Gemma's weights + 1, and Llama's as they are; the reason states by how much
    the norms in B are too large.
    """
    reason = reason_of_difference(
        NORM_WEIGHTS, NORM_WEIGHTS + added, name="attn_norm.weight", architecture=architecture
    )
    assert reason == expected


@pytest.mark.parametrize(
    ("factor", "expected"),
    [
        pytest.param(1, None, id="equal"),
        pytest.param(0, ConverterMistake.ALL_ZEROS, id="zeros"),
        pytest.param(2, Multiplied(2.0), id="doubled"),
        pytest.param(0.125, Multiplied(0.125), id="an eighth"),
    ],
)
def test_a_tensor_that_is_multiplied_is_named_with_its_factor(
    factor: float, expected: Finding | None
) -> None:
    """B is A times 1 (no difference), 0, 2 or 1/8; the expected reason has this factor."""
    assert reason_of_difference(RANDOM_TABLES[0], RANDOM_TABLES[0] * factor) == expected


def test_a_tensor_of_zeros_is_not_multiplied_by_any_factor() -> None:
    """A holds zeros, of which no factor makes the values of B: their difference has no known reason."""
    reason = reason_of_difference(np.zeros_like(RANDOM_TABLES[0]), RANDOM_TABLES[0])
    assert reason == BeyondRounding("float64")


def test_exchanged_halves_are_named() -> None:
    """A has 12 rows; B has its rows 6 to 11 before rows 0 to 5."""
    table = RANDOM_TABLES[0]
    exchanged = np.concatenate([table[6:], table[:6]])

    assert reason_of_difference(table, exchanged) == ConverterMistake.HALVES_EXCHANGED


def test_a_difference_without_a_known_reason_is_beyond_rounding() -> None:
    """All elements of B are off by 0.1, which no mistake of converters explains; the error is
    larger than the rounding of float64, the tensors' dtype.
    """
    reason = reason_of_difference(RANDOM_TABLES[0], RANDOM_TABLES[0] + 0.1)
    assert reason == BeyondRounding("float64")


def test_a_transposed_square_matrix_is_named() -> None:
    """B is A transposed, a mistake of converters; as the matrix is square, its shape does not show
    it.
    """
    assert reason_of_difference(RANDOM_SQUARE, RANDOM_SQUARE.T) == ConverterMistake.TRANSPOSED


def test_a_tensor_in_the_place_of_that_of_another_layer_is_named() -> None:
    """In B, «up» of layer 0 holds the numbers that A has in layer 1."""
    tensors = {"blk.0.up.weight": RANDOM_TABLES[0], "blk.1.up.weight": RANDOM_TABLES[1]}
    checked = {**tensors, "blk.0.up.weight": RANDOM_TABLES[1]}

    assert reasons_of_differences(tensors, checked) == {"blk.0.up.weight": SwappedLayer("1")}


def test_a_tensor_in_the_place_of_another_one_of_its_layer_is_named() -> None:
    """In B, «up» of layer 0 holds the numbers that A has in «gate» of the same layer."""
    tensors = {"blk.0.up.weight": RANDOM_TABLES[0], "blk.0.gate.weight": RANDOM_TABLES[1]}
    checked = {**tensors, "blk.0.up.weight": RANDOM_TABLES[1]}

    assert reasons_of_differences(tensors, checked) == {"blk.0.up.weight": SwappedTensor("gate")}


@pytest.mark.parametrize(("name", "heads"), [("attn_q.weight", 2), ("attn_k.weight", 1)])
def test_queries_and_keys_are_permuted_by_their_own_heads(name: str, heads: int) -> None:
    """The model has 2 query heads and 1 key head. `order` is the order of rows in which GGUF should
    have the tensor; `permutation` is LlamaModel.permute of llama.cpp for so many heads.
    """
    tensors = {name: RANDOM_QUERIES}
    (pair,) = match_tensors_of(tensors, tensors, heads=TWO_HEADS).pairs

    assert pair.order is not None
    assert pair.order.tolist() == permutation(heads).tolist()


def test_values_are_not_permuted() -> None:
    """llama.cpp's converter reorders the rows of q and k, because only these are rotated.
    `match_tensors_of` expects attn_v in its own order (None).
    """
    tensors = {"attn_v.weight": RANDOM_QUERIES}
    (pair,) = match_tensors_of(tensors, tensors, heads=TWO_HEADS).pairs

    assert pair.order is None


@pytest.mark.parametrize(
    ("rows", "mistake"),
    [
        pytest.param(permutation(2), None, id="right"),
        pytest.param(np.arange(16), ConverterMistake.NOT_PERMUTED, id="the order of A"),
        pytest.param(
            permutation(2)[permutation(2)],
            ConverterMistake.PERMUTED_TWICE,
            id="permuted once more",
        ),
        pytest.param(
            np.roll(permutation(2), 8),
            ConverterMistake.HALVES_EXCHANGED,
            id="the last 8 rows before the first 8",
        ),
        pytest.param(
            permutation(1),
            PermutedInHeads(heads=1, expected=2, are_kv_heads=False),
            id="as one head",
        ),
        pytest.param(
            permutation(4),
            PermutedInHeads(heads=4, expected=2, are_kv_heads=False),
            id="as 4 heads",
        ),
    ],
)
def test_a_wrong_order_of_the_rows_of_queries_is_named(rows: Any, mistake: Finding | None) -> None:
    """The queries have 16 rows, 8 for each of 2 heads. The GGUF file has the rows of A in the order
    `rows`, which should be llama.cpp's `permutation` for 2 heads.
    """
    converted = RANDOM_QUERIES[rows]
    reason = reason_of_difference(RANDOM_QUERIES, converted, name="attn_q.weight", heads=TWO_HEADS)

    assert reason == mistake


def test_an_inverse_permutation_is_named() -> None:
    """One head of 16 channels: B has even channels first, 0, 2, …, 14, 1, 3, …, 15, instead of the
    halves interleaved, 0, 8, 1, 9, ….
    """
    even_first = [*range(0, 16, 2), *range(1, 16, 2)]
    converted = RANDOM_QUERIES[even_first]
    reason = reason_of_difference(
        RANDOM_QUERIES, converted, name="attn_q.weight", heads=HeadDivision(1)
    )

    assert reason == ConverterMistake.PERMUTED_BACKWARDS


def test_keys_that_are_permuted_by_the_query_heads_are_named() -> None:
    """The model has 2 query heads and 1 key head, but keys have llama.cpp's `permutation` of 2 heads.
    llama.cpp#3364: models with grouped queries were once converted so.
    """
    converted = RANDOM_QUERIES[permutation(2)]
    reason = reason_of_difference(RANDOM_QUERIES, converted, name="attn_k.weight", heads=TWO_HEADS)

    assert reason == PermutedInHeads(heads=2, expected=1, are_kv_heads=True)


@pytest.mark.parametrize(
    ("rows", "mistake"),
    [
        pytest.param(permutation(2), None, id="as 2 heads"),
        pytest.param(np.arange(16), ConverterMistake.NOT_PERMUTED, id="the order of A"),
        pytest.param(
            permutation(1),
            PermutedInHeads(heads=1, expected=2, are_kv_heads=True),
            id="as one head",
        ),
    ],
)
def test_keys_have_as_many_heads_as_queries_unless_stated(
    rows: Any, mistake: Finding | None
) -> None:
    """The model has 2 heads of 8 channels, and states no number of key heads. So the rows of keys
    should be in the order of llama.cpp's `permutation` for 2 heads.
    """
    heads = HeadDivision(heads=2, head_dim=8)
    converted = RANDOM_QUERIES[rows]
    reason = reason_of_difference(RANDOM_QUERIES, converted, name="attn_k.weight", heads=heads)

    assert reason == mistake


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param(np.arange(16), None, id="right"),
        pytest.param(permutation(2), ConverterMistake.PERMUTED, id="permuted"),
        pytest.param(
            permutation(1),
            PermutedInHeads(heads=1, expected=2, are_kv_heads=False),
            id="permuted as one head",
        ),
        pytest.param(
            np.array([5, *range(5), *range(6, 16)]),
            BeyondRounding("float64"),
            id="row 5 before row 0",
        ),
    ],
)
def test_rows_of_a_model_that_keeps_halves_are_not_to_be_permuted(
    rows: Any, expected: Finding | None
) -> None:
    """Qwen2 keeps the channels of a head as halves in GGUF, so that 16 rows of 2 heads should be in
    the order of A. If B has them in llama.cpp's order for the 2 heads of the model, they are
    PERMUTED, and for another number of heads it is stated. Row 5 before row 0 is the order of no
    number of heads, which is only a difference: beyond the rounding of the tensors' float64.
    """
    found = reason_of_difference(
        RANDOM_QUERIES,
        RANDOM_QUERIES[rows],
        "attn_q.weight",
        heads=TWO_HEADS,
        layouts=("halves", "halves"),
    )
    assert found == expected


def test_queries_of_one_of_two_gguf_files_may_lack_the_permutation() -> None:
    """A and B are .gguf files of a Llama with 2 heads, which should both have the rows of each head
    interleaved. A has, by llama.cpp's `permutation`; B has the rows in Hugging Face's order, as
    halves.
    """
    halves = RANDOM_QUERIES
    interleaved = RANDOM_QUERIES[permutation(2)]
    found = reason_of_difference(
        interleaved,
        halves,
        "attn_q.weight",
        heads=TWO_HEADS,
        kind=ModelFormat.GGUF,
        layouts=("interleaved", "interleaved"),
    )
    assert found == ConverterMistake.NOT_PERMUTED


# Rows of GPT-NeoX's fused projection: q, k, v of one head, 4 channels each, then of the next.
Q_ROWS = np.array([0, 1, 2, 3, 12, 13, 14, 15])
K_ROWS = np.array([4, 5, 6, 7, 16, 17, 18, 19])
V_ROWS = np.array([8, 9, 10, 11, 20, 21, 22, 23])
BY_PART = np.concatenate([Q_ROWS, K_ROWS, V_ROWS])
"""The order of rows that GGUF has: all of q, then all of k, then all of v."""
INTERLEAVED = permutation(heads=2, rows=8)
"""llama.cpp's order of 8 rows for 2 heads, 0 2 1 3, 4 6 5 7."""
FUSED_ROWS = RANDOM.normal(size=(24, 3))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param(BY_PART, None, id="right"),
        pytest.param(np.arange(24), ConverterMistake.FUSED_ORDER_KEPT, id="in the order of A"),
        pytest.param(
            np.concatenate([Q_ROWS, V_ROWS, K_ROWS]),
            ConverterMistake.KEYS_AND_VALUES_EXCHANGED,
            id="k and v exchanged",
        ),
        pytest.param(
            np.concatenate([BY_PART[12:], BY_PART[:12]]),
            ConverterMistake.HALVES_EXCHANGED,
            id="the last 12 rows before the first 12",
        ),
        pytest.param(
            np.concatenate([Q_ROWS[INTERLEAVED], K_ROWS[INTERLEAVED], V_ROWS]),
            ConverterMistake.QUERIES_AND_KEYS_PERMUTED,
            id="q and k permuted",
        ),
    ],
)
def test_a_wrong_order_of_a_fused_projection_is_named(rows: Any, expected: Finding | None) -> None:
    """GPT-NeoX has q, k and v of one head, then of the next (fused="groups"): 24 rows for 2 heads of
    4 channels. In GGUF all rows of q come first, then those of k and of v, the order BY_PART. Both
    keep the channels of a head as halves. B has the rows of A in the order `rows`.
    """
    found = reason_of_difference(
        FUSED_ROWS,
        FUSED_ROWS[rows],
        "attn_qkv.weight",
        heads=HeadDivision(2, head_dim=4, fused="groups"),
        layouts=("halves", "halves"),
    )
    assert found == expected


def order_of(name: str, array: np.ndarray[Any, Any], **about: Any) -> list[int] | None:
    """Return the rows of A that B should have; None for all in order."""
    (pair,) = match_tensors_of({name: array}, {name: array}, **about).pairs
    return None if pair.order is None else pair.order.tolist()


OF_GROUPS = HeadDivision(2, head_dim=4, fused="groups")
SAME_LAYOUT = ("halves", "halves")


def test_only_fused_projections_are_collected_and_only_for_gguf() -> None:
    """A fused projection of two groups has rows q k v, q k v, which a converter from Hugging Face to
    .gguf collects as q q, k k, v v (BY_PART). Between two .gguf files, and in a query projection,
    rows stay in order.
    """
    assert order_of("attn_qkv.weight", FUSED_ROWS, heads=OF_GROUPS, layouts=SAME_LAYOUT) == [
        *BY_PART
    ]
    between_gguf = order_of(
        "attn_qkv.weight", FUSED_ROWS, heads=OF_GROUPS, layouts=SAME_LAYOUT, kind=ModelFormat.GGUF
    )
    assert between_gguf is None
    assert order_of("attn_q.weight", RANDOM_QUERIES, heads=OF_GROUPS, layouts=SAME_LAYOUT) is None


@pytest.mark.parametrize(("rows", "is_reordered"), [(24, True), (25, False)])
def test_fused_rows_that_do_not_divide_into_heads_stay_in_order(
    rows: int, is_reordered: bool
) -> None:
    """q, k and v of 2 heads of 4 channels have 2 · 3 · 4 = 24 rows, which a converter to GGUF collects
    by part. It is unknown what 25 rows are, so they should stay as they are (None).
    """
    array = RANDOM.normal(size=(rows, 3))
    order = order_of("attn_qkv.weight", array, heads=OF_GROUPS, layouts=SAME_LAYOUT)

    assert (order is not None) == is_reordered


@pytest.mark.parametrize(
    ("name", "rows", "is_reordered"),
    [
        pytest.param("attn_q.weight", 16, True, id="16 rows of queries"),
        pytest.param("attn_q.weight", 15, False, id="15 rows of queries"),
        pytest.param("attn_kv_a_mqa.weight", 16, False, id="16 rows of DeepSeek's latent keys"),
    ],
)
def test_rows_that_are_of_no_heads_are_not_to_be_interleaved(
    name: str, rows: int, is_reordered: bool
) -> None:
    """Hugging Face has the channels of a head as halves, and GGUF interleaved, so that 16 rows of
    queries of 2 heads get another order. 15 rows are no multiple of 2 heads, and the rows of
    kv_a_mqa are a latent vector, which belongs to no head: they should stay as they are (None).
    """
    array = RANDOM.normal(size=(rows, 3))
    order = order_of(name, array, heads=HeadDivision(2), layouts=("halves", "interleaved"))

    assert (order is not None) == is_reordered
