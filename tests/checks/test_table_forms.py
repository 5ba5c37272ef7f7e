"""One rotary table in the forms that programs give it: batches, doubled columns, complex numbers,
integers.

DUMPS (rope_dumps.py) are NumPy's tables of 12 positions, 16 channels and base 500000 in each form,
with whether they are right; CONFIG is a Llama that rotates halves. `readings` note how a tensor was
understood.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pecli
from tests.checks.rope_dumps import (
    ATOL,
    CONFIG,
    COS,
    DUMPS,
    OTHERS,
    ROPE,
    SIN,
    as_cos_sin_cache,
    cosines_and_sines,
    fixed_point,
    matrices,
    with_wrong_element,
)
from tests.checks.waves import (
    Array,
    cos_and_sin_tables,
    doubled_as_halves,
    doubled_as_neighbours,
    inverse_frequencies,
)

RIGHT_DUMPS = {name: dump for name, (dump, is_right) in DUMPS.items() if is_right}
"""The table by NumPy, cos and sin of position · 500000^(−2i/16), in 36 shapes of programs, by name.

Shapes for a rotation of halves are right: one column per frequency or c0 c1 … c0 c1 …, with axes for
batches and heads, flat, transposed, [cos | sin], complex numbers, rotation matrices, float16, int16.
"""
WRONG_DUMPS = {name: dump for name, (dump, is_right) in DUMPS.items() if not is_right}
"""Such shapes with a mistake in each, by its name: base 10000, cosines and sines exchanged, all rows
at position 0, columns c0 c0 c1 c1 … (for neighbours), an element that is 0.01 off, NaN, wrong
frequencies, int8 (which is coarser than the tolerance of 1e-3).
"""
SINGLE_RIGHT_DUMPS = {name: dump for name, dump in RIGHT_DUMPS.items() if len(dump) == 1}
"""Right dumps with cosines and sines in one tensor, such as complex numbers."""
TABLES_IN_HALVES = {
    "cos": doubled_as_halves(COS),
    "sin": doubled_as_halves(SIN),
    "inv_freq": (500000.0 ** (-np.arange(8) / 8)).astype(np.float32),
}
"""The table with columns c0 c1 … c0 c1 …, and its frequencies, by NumPy."""
PAIRS_OF_BASE_10000 = {
    "cos_sin_cache": np.stack(
        [*cos_and_sin_tables(12, inverse_frequencies(10000.0, 16)).values()], axis=-1
    )
}
"""Cosines and sines of 12 positions and base 10000 side by side: (positions, frequencies, 2)."""
SIZES_OF_HEADS = {**CONFIG, "head_dim": 16, "partial_rotary_factor": 1.0}
"""A configuration with heads of 16 channels, all of which are rotated. GLM's families rotate half of
them by default.
"""


@pytest.mark.parametrize("name", RIGHT_DUMPS)
@pytest.mark.sample(10)
def test_a_table_passes_against_its_scheme_in_every_shape_of_a_program(name: str) -> None:
    """The scheme has 12 positions, 16 channels and base 500000, and rotates halves; RIGHT_DUMPS are
    its cosines and sines by NumPy.
    """
    scheme = pecli.Rope(seq_len=12, dim=16, theta=500000.0, layout="halves")
    assert pecli.verify(RIGHT_DUMPS[name], scheme, atol=1e-3, reasons=False).passed


@pytest.mark.parametrize("name", WRONG_DUMPS)
@pytest.mark.sample(8)
def test_a_wrong_table_fails_against_a_scheme_in_every_shape_of_a_program(name: str) -> None:
    """The scheme has 12 positions, 16 channels and base 500000, and rotates halves; WRONG_DUMPS differ
    from its tables by more than 1e-3, each by the mistake in its name.
    """
    scheme = pecli.Rope(seq_len=12, dim=16, theta=500000.0, layout="halves")
    assert not pecli.verify(WRONG_DUMPS[name], scheme, atol=1e-3, reasons=False).passed


@pytest.mark.parametrize("name", RIGHT_DUMPS)
@pytest.mark.sample(10)
def test_files_of_one_table_are_equal_in_every_shape_of_a_program(name: str) -> None:
    """The other file has the same cosines and sines by NumPy, with columns c0 c1 … c0 c1 …"""
    assert pecli.diff(RIGHT_DUMPS[name], TABLES_IN_HALVES, atol=1e-3, reasons=False).passed


@pytest.mark.parametrize("name", WRONG_DUMPS)
@pytest.mark.sample(8)
def test_a_file_of_a_wrong_table_differs_in_every_shape_of_a_program(name: str) -> None:
    """The other file has the right cosines and sines by NumPy, with columns c0 c1 … c0 c1 …"""
    assert not pecli.diff(WRONG_DUMPS[name], TABLES_IN_HALVES, atol=1e-3, reasons=False).passed


LLAMA_OF_16_CHANNELS = {
    "model_type": "llama",  # Hugging Face's Llama rotates halves.
    "hidden_size": 64,
    "num_attention_heads": 4,
    "rope_theta": 500000.0,
}


@pytest.mark.parametrize("name", RIGHT_DUMPS)
@pytest.mark.sample(23)
def test_a_table_passes_against_its_model_in_every_shape_of_a_program(name: str) -> None:
    """The model is a Llama with heads of 64 / 4 = 16 channels and base 500000; RIGHT_DUMPS are its
    cosines and sines by NumPy.
    """
    dump = RIGHT_DUMPS[name]
    assert pecli.verify(dump, LLAMA_OF_16_CHANNELS, atol=1e-3, reasons=False).passed


@pytest.mark.parametrize("name", WRONG_DUMPS)
@pytest.mark.sample(17)
def test_a_wrong_table_fails_against_a_model_in_every_shape_of_a_program(name: str) -> None:
    """The model is a Llama with heads of 64 / 4 = 16 channels and base 500000; WRONG_DUMPS differ from
    its tables by more than 1e-3, each by the mistake in its name.
    """
    dump = WRONG_DUMPS[name]
    assert not pecli.verify(dump, LLAMA_OF_16_CHANNELS, atol=1e-3, reasons=False).passed


@pytest.mark.parametrize("second", ["vLLM, flat", "rotation matrices of a batch"])
@pytest.mark.parametrize("first", SINGLE_RIGHT_DUMPS)
def test_two_arrangements_of_one_table_are_equal_in_both_orders(first: str, second: str) -> None:
    """Every right dump that has cosines and sines in one tensor, such as complex numbers, against a
    flat table of vLLM and against rotation matrices: the numbers of all are the same.
    """
    a = SINGLE_RIGHT_DUMPS[first]
    b = SINGLE_RIGHT_DUMPS[second]

    assert pecli.diff(a, b, atol=1e-6, reasons=False).passed
    assert pecli.diff(b, a, atol=1e-6, reasons=False).passed


@pytest.mark.parametrize("name", SINGLE_RIGHT_DUMPS)
def test_tables_of_two_bases_differ_in_any_arrangement(name: str) -> None:
    """Each right dump has base 500000, in one tensor such as complex numbers, and the other file base
    10000, as pairs (cos, sin): the numbers differ, however they are arranged.
    """
    dump_of_base_500000 = SINGLE_RIGHT_DUMPS[name]
    assert not pecli.diff(dump_of_base_500000, PAIRS_OF_BASE_10000, reasons=False).passed


@pytest.mark.parametrize("row", [0, 1])
@pytest.mark.parametrize("column", [0, 1])
def test_a_wrong_element_of_a_rotation_matrix_is_found_in_any_place(row: int, column: int) -> None:
    """The first file has matrices ((cos, −sin), (sin, cos)), of which one element at position 3,
    pair 2 is 0.01 off; the second has cos + i·sin.
    """
    wrong = as_cos_sin_cache(with_wrong_element(matrices(COS, SIN), 3, 2, row, column))
    right = as_cos_sin_cache(COS + 1j * SIN)

    assert not pecli.diff(wrong, right, atol=1e-6, reasons=False).passed


def test_a_wrong_element_of_a_rotation_matrix_in_the_second_file_is_found() -> None:
    """The first file has cos + i·sin, the second matrices ((cos, −sin), (sin, cos)), of which the
    second cosine at position 3, pair 2 is 0.01 off.
    """
    wrong = as_cos_sin_cache(with_wrong_element(matrices(COS, SIN), 3, 2, 1, 1))
    right = as_cos_sin_cache(COS + 1j * SIN)

    assert not pecli.diff(right, wrong, atol=1e-6, reasons=False).passed


@pytest.mark.parametrize("spec", [CONFIG, ROPE], ids=["model", "scheme"])
@pytest.mark.parametrize(
    "swapped", [matrices(SIN, COS), SIN + 1j * COS], ids=["matrices", "complex"]
)
def test_sines_in_the_place_of_cosines_fail_in_matrices_and_complex_numbers(
    swapped: Array, spec: Any
) -> None:
    """The dumps hold ((sin, −cos), (cos, sin)) and sin + i·cos, where ((cos, −sin), (sin, cos)) and
    cos + i·sin would be right.
    """
    assert not pecli.verify({"freqs": swapped}, spec, atol=1e-4, reasons=False).passed


def test_copies_of_cosines_that_differ_are_a_problem() -> None:
    """The cosines are dumped twice, and the second copy has a wrong element at row 3, column 2."""
    dump = {"cos": np.stack([COS, with_wrong_element(COS, 3, 2)]), "sin": SIN}
    result = pecli.verify(dump, ROPE)

    assert result.problems == ("cos: its copies differ",)
    assert result.tensors[0].worst_index == (1, 3, 2)


def test_copies_of_a_large_table_that_differ_in_the_last_row_are_a_problem() -> None:
    """The cosines are dumped twice, and the second copy has a wrong element in its last row. Copies
    of a table of 20,000 rows are compared in several blocks, of which the last one counts too.
    """
    rope = pecli.Rope(seq_len=20_000, dim=128)
    cos = rope.tables()["cos"]
    wrong_copy = cos.copy()
    wrong_copy[-1, 5] += 0.5
    result = pecli.verify({"cos": np.stack([cos, wrong_copy])}, rope)

    assert "cos: its copies differ" in result.problems


def test_copies_of_cosines_and_sines_that_differ_are_a_problem() -> None:
    """A dump of two matrices could be two copies of [cos | sin], but the second is [sin | cos]."""
    dump = np.stack([np.hstack([COS, SIN]), np.hstack([SIN, COS])])
    assert pecli.verify(dump, ROPE).problems == ("cos_sin: its copies differ",)


def test_equal_copies_of_a_wrong_table_are_no_problem_of_their_own() -> None:
    """Tables of base 10000, where 500000 is expected, are dumped twice: they fail by their values,
    and not because they are copies.
    """
    dump = cosines_and_sines(lambda table: np.stack([table, table]), *OTHERS)
    assert pecli.verify(dump, ROPE, reasons=False).problems == ()


@pytest.mark.parametrize(
    ("a", "b", "passed"),
    [
        pytest.param((2, 32), (1, 32), False, id="a row less"),
        pytest.param((1, 32), (2, 32), False, id="a row more"),
        pytest.param((1, 32), (2, 1, 32), True, id="a batch of two"),
    ],
)
def test_a_missing_row_is_no_copy_but_a_batch_of_one_row_is(
    a: tuple[int, ...], b: tuple[int, ...], passed: bool
) -> None:
    """All arrays are zeros. (2, 32) has a row more than (1, 32) and differs, in either order; (2, 1,
    32) has two copies of it, as for a batch, and is equal.
    """
    assert pecli.diff(np.zeros(a), np.zeros(b), reasons=False).passed == passed


def test_a_second_row_is_no_copy_of_a_table_of_one_row() -> None:
    """A learned table of one row of zeros is expected, and the dump has two: the second could be
    taken for a copy of the first, but is a row too many.
    """
    scheme = pecli.LearnedInit(max_len=1, dim=32, init="zeros")
    assert not pecli.verify(np.zeros((2, 32)), scheme, reasons=False).passed


def test_columns_doubled_as_halves_and_as_neighbours_differ() -> None:
    """A has columns c0 c1 … c0 c1 …, B c0 c0 c1 c1 …: the same numbers, for different layouts of
    pairs.
    """
    assert not pecli.diff(
        cosines_and_sines(doubled_as_halves),
        cosines_and_sines(doubled_as_neighbours),
        reasons=False,
    ).passed


def test_columns_of_a_table_that_is_not_rotary_are_not_doubled() -> None:
    """Columns of rotary tables may be doubled, as each frequency belongs to a pair of channels. A
    table called «pe» is added to embeddings, which have no pairs: doubled, it differs.
    """
    assert not pecli.diff({"pe": COS}, {"pe": doubled_as_halves(COS)}, reasons=False).passed


def test_a_doubling_that_the_model_does_not_rotate_is_a_problem() -> None:
    """The Llama rotates halves, so its tables have columns c0 c1 … c0 c1 …; those of the dump are
    c0 c0 c1 c1 ….
    """
    problem = pecli.verify(cosines_and_sines(doubled_as_neighbours), CONFIG, atol=ATOL).problems[0]
    assert "doubled as c0 c0 c1 c1 …; the model rotates halves" in problem


@pytest.mark.parametrize(
    ("change", "passed"), [(doubled_as_neighbours, True), (doubled_as_halves, False)]
)
def test_the_option_layout_counts_more_than_the_layout_of_the_model(
    change: Callable[[Array], Array], passed: bool
) -> None:
    """The Llama rotates halves, and the option says interleaved: tables doubled as c0 c0 c1 c1 …
    pass, and those doubled as c0 c1 … c0 c1 … fail.
    """
    model = pecli.load_config(CONFIG)
    result = pecli.verify(cosines_and_sines(change), model, atol=ATOL, layout="interleaved")

    assert result.passed == passed


@pytest.mark.parametrize("family", ["glm", "glm4", "ernie4_5", "helium", "cohere"])
def test_models_that_rotate_neighbours_take_columns_doubled_as_neighbours(family: str) -> None:
    """transformers' classes of these families rotate the channels (0, 1), (2, 3), …, for which each
    column stands twice beside itself, c0 c0 c1 c1 …. The cosines and sines are those of NumPy, with
    the base of the configuration.
    """
    config = {**SIZES_OF_HEADS, "model_type": family}
    result = pecli.verify(cosines_and_sines(doubled_as_neighbours), config, atol=ATOL)

    assert result.passed


@pytest.mark.parametrize(
    ("family", "passed"),
    [
        ("glm", True),
        ("glm4", True),
        ("ernie4_5", True),
        ("helium", True),
        ("cohere", False),
    ],
)
def test_tables_doubled_as_halves_pass_for_neighbour_families_that_make_them_so(
    family: str, passed: bool
) -> None:
    """All of these families rotate neighbouring channels. transformers' GLM and its relatives make
    the tables by cat((freqs, freqs)), c0 c1 … c0 c1 …, and repeat each column while they rotate;
    Cohere makes them by repeat_interleave(freqs, 2).
    """
    config = {**SIZES_OF_HEADS, "model_type": family}
    tables = cosines_and_sines(doubled_as_halves)
    result = pecli.verify(tables, config, atol=ATOL, reasons=False)

    assert result.passed == passed


@pytest.mark.parametrize("spec", [ROPE, CONFIG], ids=["scheme", "model"])
def test_sines_before_cosines_without_a_name_are_a_weak_pass(spec: Any) -> None:
    """An array without a name holds [sin | cos], though most programs put cosines first: it passes,
    with a remark that no name states the order.
    """
    result = pecli.verify(np.hstack([SIN, COS]), spec, atol=ATOL)
    assert result.passed
    assert result.weak == ("cos_sin: no name says that sines come before cosines",)


@pytest.mark.parametrize(
    ("dtype", "one"),
    [
        ("int8", 127),
        ("int8", 64),
        ("int16", 32767),
        ("int16", 16384),
        ("int32", 2**31 - 1),
        ("int32", 2**30),
    ],
)
def test_cosines_in_integers_are_read_with_the_scale_that_programs_take(
    dtype: str, one: int
) -> None:
    """The dump holds cosines times `one`, rounded: the largest integer of the dtype, or the power
    of two below it. The reading states the scale, 1/one, without being told.
    """
    result = pecli.verify({"cos": fixed_point(COS, one, dtype)}, CONFIG)
    reading = f"one column per frequency, integers with a scale of 1/{one}"

    assert result.readings["cos"] == reading


def test_integers_of_a_sinusoidal_table_have_a_scale() -> None:
    """A dump of 127 · pe, rounded to int8, passes against its scheme within 0.01 (half a step is
    0.004); the reading states the scale.
    """
    scheme = pecli.Sinusoidal(12, 8)
    dump = fixed_point(scheme.tables()["pe"], 127, "int8")
    result = pecli.verify(dump, scheme, atol=0.01)

    assert result.readings == {"pe": "integers with a scale of 1/127"}


@pytest.mark.parametrize(
    ("scheme", "passed"),
    [(pecli.Sinusoidal(12, 8), True), (pecli.Alibi(2), False)],
    ids=["waves", "slopes"],
)
def test_tables_of_waves_in_int8_pass_and_slopes_in_int8_fail(scheme: Any, passed: bool) -> None:
    """Both are stored as 127 times their numbers, rounded to int8. Programs keep sinusoidal tables
    so, but never slopes of ALiBi.
    """
    dump = {name: fixed_point(table, 127, "int8") for name, table in scheme.tables().items()}
    assert pecli.verify(dump, scheme, atol=0.01, reasons=False).passed == passed


BIAS_OF_KERAS = np.outer(2.0 ** -np.arange(1, 9), np.arange(-15, 1)).astype(np.float32)[:, None]
"""The bias of Keras: (heads, 1, length), slope × distance from the last key."""


@pytest.mark.parametrize(
    "dump",
    [BIAS_OF_KERAS, BIAS_OF_KERAS[None], np.stack([BIAS_OF_KERAS] * 3)],
    ids=["no batch", "a batch of one", "a batch of three"],
)
@pytest.mark.sample("a batch of three")
class TestKerasBias:
    """ALiBi's bias as Keras writes it: (heads, 1, length), slope × distance from the last key, for
    8 heads and 16 keys.
    """

    def test_a_bias_as_keras_writes_it_passes_against_its_model(self, dump: Array) -> None:
        """Keras keeps (heads, 1, keys), slope × distance from the last key, here with the slopes
        1/2, 1/4, …, 1/256 of 8 heads. BLOOM with 8 heads has the same; twice the bias fails.
        """
        model = {"model_type": "bloom", "n_head": 8}
        assert pecli.verify(dump, model).passed
        assert not pecli.verify(2 * dump, model, reasons=False).passed

    def test_a_bias_as_keras_writes_it_passes_against_its_scheme(self, dump: Array) -> None:
        """Keras keeps (heads, 1, keys), slope × distance from the last key. ALiBi with 8 heads and
        16 keys in the form «key-last» has the same; twice the bias fails.
        """
        scheme = pecli.Alibi(8, 16, form="key-last")
        assert pecli.verify(dump, scheme).passed
        assert not pecli.verify(2 * dump, scheme, reasons=False).passed

    def test_a_bias_as_keras_writes_it_passes_against_another_file(self, dump: Array) -> None:
        """Keras keeps (heads, 1, keys), slope × distance from the last key, and so does the file of
        8 heads and 16 keys; twice the bias differs.
        """
        bias = pecli.Alibi(8, 16, form="key-last").tables()["bias"]
        assert pecli.diff(bias, dump).passed
        assert not pecli.diff(bias, 2 * dump, reasons=False).passed
