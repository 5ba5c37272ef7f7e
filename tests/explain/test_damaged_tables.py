"""Tables that are right except for a part, or except for their positions: the reason names exactly
that part.

The tables are those of a scheme with some elements replaced, or NumPy's cosines and sines of
position · 10000^(-2i/d) at other positions. Expected words are written by hand; `first_reason` is
the first line of verify's diagnosis up to its first semicolon, behind which the size of the
remaining error stands.
"""

import numpy as np
import pytest

import pecli
from pecli.engine.edits import ElementsWrong, Parameter
from pecli.engine.schemes.scheme import Scheme
from tests.checks.waves import Array

LONG = pecli.Sinusoidal(1 << 16, 8)
SINUSOIDAL = pecli.Sinusoidal(512, 64)


def first_reason(table: Array | dict[str, Array], scheme: Scheme, atol: float = 1e-5) -> str:
    """The first reason, up to its residual."""
    answer = pecli.verify(table, scheme, atol=atol)
    return answer.diagnosis[0].partition(";")[0] if answer.diagnosis else ""


def with_wrong_rows(table: Array, rows: range | list[int]) -> Array:
    """A table whose rows hold 0.3 in some places."""
    is_spoilt = np.isin(np.arange(len(table)), rows)[:, None]
    return np.where(is_spoilt, np.float32(0.3), table)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        pytest.param(range(30000, 30100), "pe: only rows 30000–30099 differ", id="100 rows"),
        pytest.param(
            [50000], "pe: only row 50000 differs", id="one row", marks=pytest.mark.thorough
        ),
    ],
)
def test_the_wrong_rows_of_a_long_table_are_named(rows: range | list[int], words: str) -> None:
    """A sinusoidal table of 65,536 rows, in which `rows` hold 0.3. The search for reasons looks at a
    sample of the first rows only, and these lie far beyond it.
    """
    damaged = with_wrong_rows(LONG.tables()["pe"], rows)
    assert first_reason(damaged, LONG) == words


def cosines_and_sines_of(frequencies: Array) -> dict[str, Array]:
    """NumPy's exact cosines and sines of 512 positions, rounded to float32."""
    angles = np.outer(np.arange(512), frequencies)
    return {
        "cos": np.cos(angles).astype(np.float32),
        "sin": np.sin(angles).astype(np.float32),
    }


def test_columns_with_slightly_wrong_frequencies_are_named_in_an_exact_table() -> None:
    """Three frequencies of 64 are off by 1 to 4 units of 2^-24, as if only these had been computed
    in float32. Float32 arithmetic would change nearly all columns, which are exact.
    """
    frequencies = 10000.0 ** (-np.arange(0, 128, 2) / 128)
    frequencies[[3, 10, 11]] *= [1 + 2.0**-24, 1 - 2.0**-23, 1 + 2.0**-22]
    answer = pecli.verify(cosines_and_sines_of(frequencies), pecli.Rope(512, 128))

    assert answer.diagnosis == ("cos, sin: only columns 3, 10, 11 differ; all others are exact",)


@pytest.mark.parametrize(
    ("damaged_rows", "are_named"), [(40, True), (200, False)], ids=["a few", "most"]
)
def test_rows_of_random_angles_are_named_unless_they_are_most(
    damaged_rows: int, are_named: bool
) -> None:
    """Of 256 rows, some hold the cosines and sines of random angles, which belong to no position.
    40 of them are named as damaged; with 200, the table is another one, and no rows are named.
    """
    scheme = pecli.Rope(256, 64)
    random = np.random.default_rng(0)
    rows = random.permutation(256)[:damaged_rows]
    angles = random.uniform(0, 2 * np.pi, (damaged_rows, 32))
    tables = scheme.tables()
    tables["cos"][rows] = np.cos(angles)
    tables["sin"][rows] = np.sin(angles)
    dump = {name: tables[name] for name in ("cos", "sin")}

    assert first_reason(dump, scheme).startswith("cos, sin: only rows ") == are_named


def test_positions_that_wrap_in_a_long_table_are_named() -> None:
    """Row r of 16,384 holds position r modulo 5000, as if a buffer of 5000 rows had been reused."""
    rows = 16_384
    scheme = pecli.Sinusoidal(seq_len=rows, dim=36)
    wrapped = scheme.tables()["pe"][np.arange(rows) % 5000]

    assert first_reason(wrapped, scheme) == "pe: positions wrap at row 5,000"


@pytest.mark.parametrize(
    ("places", "values", "words"),
    [
        ([(100, 3), (400, 3)], [1e6, 0.7], "pe: only elements [100, 3], [400, 3] differ"),
        ([7], [np.nan], "pe: only row 7 differs"),
    ],
    ids=["elements of 10^6 and 0.7", "a row of NaN"],
)
def test_wrong_values_are_named_although_one_is_a_million_or_nan(
    places: list[tuple[int, int]] | list[int], values: list[float], words: str
) -> None:
    """A sinusoidal table of 512 rows has `values` at `places`, each an element or a row. In a mean
    or a sum of errors, 10^6 would hide the wrong 0.7, and NaN everything.
    """
    table = SINUSOIDAL.tables()["pe"]
    for place, value in zip(places, values, strict=True):
        table[place] = value

    assert first_reason(table, SINUSOIDAL) == words


@pytest.mark.parametrize(
    ("place", "words"),
    [
        pytest.param((5, 20, 3), "bias: only element [5, 20, 3] differs", id="an element"),
        pytest.param(5, "bias: only head 5 differs", id="a head"),
    ],
)
def test_the_wrong_part_of_a_masked_bias_is_named(place: int | tuple[int, ...], words: str) -> None:
    """ALiBi's bias of 8 heads, in which one element [head, query, key], or all of head 5, is
    doubled. Keys after the query are hidden: −∞, also when doubled.
    """
    scheme = pecli.Alibi(8, 64, form="causal")
    bias = scheme.tables()["bias"]
    bias[place] *= 2

    assert first_reason(bias, scheme) == words


def test_two_mistakes_are_found_in_a_bias_with_two_keys_per_query() -> None:
    """The slopes of 8 heads should be 2^-1 … 2^-8. The first mistake is that they are in reverse
    order, the second that the mask hides (by −∞) all keys but the query's own and the one before
    it. So a head has only the values 0 and −slope, from which its slope is still known.
    """
    distance = np.subtract.outer(np.arange(16), np.arange(16))
    slopes_in_reverse_order = 2.0 ** np.array([-8, -7, -6, -5, -4, -3, -2, -1])
    bias = -slopes_in_reverse_order[:, None, None] * distance
    is_visible = (distance == 0) | (distance == 1)
    masked = np.where(is_visible, bias, -np.inf).astype(np.float32)
    reason = first_reason(masked, pecli.Alibi(8, 16, form="causal"))

    assert reason == "bias: mask differs: at other places, and heads are in reverse order"


@pytest.mark.parametrize(
    ("found", "expected"),
    [("compact", "halves"), ("compact", "interleaved"), ("halves", "compact")],
)
@pytest.mark.sample(2)
def test_another_layout_is_named_beside_another_length(found: str, expected: str) -> None:
    """40 rows instead of 32, in another layout of the columns: the reason has both, «… and layout
    is halves (the spec says compact)».
    """
    wrong = pecli.Rope(seq_len=40, dim=16, layout=found).tables()
    reason = first_reason(wrong, pecli.Rope(seq_len=32, dim=16, layout=expected))

    assert reason.endswith(f"and layout is {found} (the spec says {expected})")


def test_an_element_of_a_bias_with_two_heads_is_named_with_its_head() -> None:
    """The element of head 1, query 5 and key 3 is set to 7. An axis of length 2 could also hold cosines
    and sines, in whose index there would be no head.
    """
    scheme = pecli.Alibi(2, 16, form="causal")
    bias = scheme.tables()["bias"]
    bias[1, 5, 3] = 7

    assert first_reason(bias, scheme) == "bias: only element [1, 5, 3] differs"


ROPE = pecli.Rope(40, 16)


def rows_of_two_schemes(scheme: pecli.Rope, other: pecli.Rope, cut: int) -> dict[str, Array]:
    """Rows of one scheme before `cut`, and of another from there on."""
    first = scheme.tables()
    then = other.tables()
    return {name: np.concatenate([first[name][:cut], then[name][cut:]]) for name in ("cos", "sin")}


@pytest.mark.parametrize("cut", [16, 24])
def test_another_base_from_some_row_on_is_named(cut: int) -> None:
    """Of 40 rows, those from `cut` on have base 500000, and those before it the right one, 10000."""
    found = rows_of_two_schemes(ROPE, pecli.Rope(40, 16, 500000.0), cut)
    words = f"cos, sin: base is 500000 (the spec says 10000), and only in rows {cut} to 39"

    assert first_reason(found, ROPE) == words


def test_a_dynamic_table_whose_first_rows_are_unscaled_is_named() -> None:
    """Dynamic scaling begins when a prompt is longer than the trained 32 positions. A cache that grew
    with the prompt keeps the 32 rows that were computed before; the other 32 are scaled.
    """
    growing = pecli.Rope(64, 32, scaling="dynamic", factor=2.0, max_position_embeddings=32)
    found = rows_of_two_schemes(pecli.Rope(64, 32), growing, 32)
    words = "cos, sin: the dynamic scaling is missing, and only in rows 0 to 31"

    assert first_reason(found, growing) == words


def at_positions(positions: Array) -> dict[str, Array]:
    """Cosines and sines of 16 channels by NumPy."""
    angles = np.outer(positions, 10000.0 ** (-np.arange(8) / 8))
    return {"cos": np.cos(angles).astype("f4"), "sin": np.sin(angles).astype("f4")}


@pytest.mark.parametrize(
    ("positions", "words"),
    [
        (np.r_[:50, :56], "positions restart, as those of packed sequences"),
        (np.arange(300).astype(np.int8), "they overflow int8"),
        (np.minimum(np.arange(300), 149), "they are clamped at 149"),
        (np.arange(300) % 50, "positions wrap at row 50"),
        (np.arange(300) + 3, "positions start at 3 (the spec says 0)"),
    ],
    ids=["packed", "int8", "clamped", "wrapped", "offset"],
)
def test_the_pattern_of_wrong_positions_is_named(positions: Array, words: str) -> None:
    """Row r of NumPy's tables is at `positions[r]`, cos(position · 10000^(-i/8)), where 0, 1, 2, …
    are expected. int8 goes from 127 on to −128.
    """
    answer = pecli.verify(at_positions(positions), pecli.Rope(len(positions), 16), atol=1e-6)
    assert words in answer.diagnosis[0]


@pytest.mark.parametrize("name", ["cos", "sin"])
@pytest.mark.parametrize(
    ("first", "by", "words"),
    [
        (
            30,
            -1,
            "positions are 0 … 29, then 29 … 62; expected 0 … 63: from row 30 on, all 1 too low",
        ),
        (8, 2, "positions are 0 … 7, then 10 … 65; expected 0 … 63: from row 8 on, all 2 too far"),
    ],
)
def test_rows_of_one_function_that_are_shifted_are_named(
    name: str, first: int, by: int, words: str
) -> None:
    """Only the cosines, or only the sines, are at other positions from a row on; the other table is right."""
    rows = np.arange(64)
    found = at_positions(rows)
    found[name] = at_positions(rows + by * (rows >= first))[name]
    answer = pecli.verify(found, pecli.Rope(64, 16), atol=1e-6)

    assert answer.diagnosis[0] == f"{name}: {words}; exact"


@pytest.mark.thorough
def test_rows_of_sines_that_are_shifted_beside_a_wrong_element_are_not_named_without_it() -> None:
    """Sines are one row too low from row 30 on, and one of their elements is overwritten."""
    rows = np.arange(64)
    found = at_positions(rows)
    found["sin"] = at_positions(rows - (rows >= 30))["sin"]
    found["sin"][50, 3] = 5
    for explanation in pecli.verify(found, pecli.Rope(64, 16), atol=1e-6).explanations:
        assert ElementsWrong(((50, 3),)) in explanation.edits


NUMBERS_OF_ROWS = [0, 1, 5, 9, 100, 1000, 4096]


@pytest.mark.parametrize("by", [1, -1])
def test_given_positions_that_are_all_off_by_one_are_named(by: int) -> None:
    """The spec lists positions 0, 1, 5, 9, 100, 1000 and 4096; NumPy's tables are at each of them
    plus or minus one.
    """
    scheme = pecli.Rope(dim=64, positions=NUMBERS_OF_ROWS)  # type: ignore[arg-type]
    assert first_reason(at_shifted(by), scheme) == f"cos, sin: all positions are off by {by}"


def at_shifted(by: int) -> dict[str, Array]:
    """Cosines and sines at given positions by NumPy; −1 is no position of a scheme."""
    angles = np.outer(np.array(NUMBERS_OF_ROWS) + by, 10000.0 ** (-np.arange(32) / 32))
    return {"cos": np.cos(angles), "sin": np.sin(angles)}


def test_swapped_functions_at_given_positions_are_named() -> None:
    """The scheme is at positions 0, 1, 5, 9, 100, 1000 and 4096. In the dump, the table called cos
    holds the sines, and the one called sin the cosines.
    """
    scheme = pecli.Rope(dim=64, positions=NUMBERS_OF_ROWS)  # type: ignore[arg-type]
    tables = at_shifted(0)
    found = {"cos": tables["sin"], "sin": tables["cos"]}

    assert first_reason(found, scheme) == "cos, sin: sin and cos are swapped"


def of_two_sequences(bases: tuple[float, float]) -> dict[str, Array]:
    """Doubled tables of 128 channels for two sequences, each with a base of its own."""
    tables = [pecli.Rope(64, 128, base).tables() for base in bases]
    return {name: np.stack([np.tile(each[name], 2) for each in tables]) for name in ("cos", "sin")}


def test_sequences_with_one_mistake_have_its_reason() -> None:
    """A batch of two sequences: both tables have base 500000 instead of Llama 2's 10000."""
    answer = pecli.verify(of_two_sequences((5e5, 5e5)), "llama-2-7b")
    assert answer.diagnosis[0].startswith("cos, sin: base is 500000 (the spec says 10000)")


def test_sequences_with_different_mistakes_have_no_reason_in_common() -> None:
    """A batch of two sequences has tables of base 500000 and 1000000 instead of Llama 2's 10000: no
    single reason explains both.
    """
    assert pecli.verify(of_two_sequences((5e5, 1e6)), "llama-2-7b").explanations == ()


@pytest.mark.thorough
def test_noise_is_not_explained_as_a_table_of_small_amplitude() -> None:
    """The array is normal noise of 1e-4, all below the tolerance of 1e-3: the right table times a
    factor near 0 would agree with it, but so would zeros, and any other table times 0.
    """
    noise = 1e-4 * np.random.default_rng(0).normal(size=(64, 8)).astype("f4")
    assert pecli.verify(noise, pecli.Sinusoidal(64, 8), atol=1e-3).explanations == ()


def test_equal_slopes_have_no_reason() -> None:
    """Both heads have the slope 0.5. ALiBi's slopes of two heads are different by any rule, so that no
    known mistake makes these.
    """
    slopes = {"slopes": np.full(2, 0.5, np.float32)}
    assert pecli.verify(slopes, pecli.Alibi(2, slopes=True)).explanations == ()


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        pytest.param(np.finfo("f4").min, "bias: values are scaled by 2", id="the lowest float32"),
        pytest.param(-1e9, "bias: values are scaled by 2, and mask differs: -1e+09", id="-1e9"),
        pytest.param(-1e4, "bias: values are scaled by 2, and mask differs: -1e+04", id="-1e4"),
    ],
)
def test_the_lowest_float32_is_a_mask_and_other_large_numbers_differ_from_it(
    mask: float, words: str
) -> None:
    """Hidden elements of a causal bias are −∞ in the spec, and `mask` in the table. Many projects
    write the lowest float32 for −∞, which is not reported; −1e9 is, and BERT's −1e4. The visible
    bias is doubled, so that the check fails, and has a reason, with either.
    """
    scheme = pecli.Alibi(heads=12, seq_len=64, form="causal")
    bias = scheme.tables()["bias"]
    found = np.where(np.isinf(bias), mask, 2 * bias).astype("f4")

    assert first_reason(found, scheme, atol=1e-4) == words


def test_a_sinusoidal_table_given_as_rotary_is_named() -> None:
    """The sinusoidal table of the first transformer is checked against Llama 3, a rotary model."""
    answer = pecli.verify(pecli.Sinusoidal(64, 32).tables(), "llama-3-8b", atol=1e-3)
    words = "this is a sinusoidal table, not the cosines and sines of a rotary one"

    assert words in answer.reasons[0]


def test_a_scaling_that_is_applied_twice_is_named() -> None:
    """Llama 3.1's scaling, in NumPy: by 8 for frequencies that turn less than once in 8192 rows, not
    at all from 4 turns on, and blended between. The table has it applied to its own result.
    """

    def scaled(frequencies: Array) -> Array:
        turns = 8192 * frequencies / (2 * np.pi)
        kept = np.clip((turns - 1) / (4 - 1), 0, 1)
        return frequencies / 8 * (1 - kept) + frequencies * kept

    angles = np.outer(np.arange(512), scaled(scaled(5e5 ** (-np.arange(64) / 64))))
    found = {"cos": np.cos(angles), "sin": np.sin(angles)}
    answer = pecli.verify(found, "llama-3.1-8b", atol=1e-4)

    assert "the llama3 scaling is applied twice" in answer.diagnosis[0]


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        pytest.param(None, 3, id="one where none is expected"),
        pytest.param(1, 3, id="another row"),
        pytest.param(1, None, id="none where one is expected"),
    ],
)
def test_another_row_of_padding_is_named(expected: int | None, found: int | None) -> None:
    """fairseq keeps the row of `padding_idx` zero. In the table, that row is there though none is
    expected (None, 3), is elsewhere (1, 3), or is missing (1, None).
    """
    table = pecli.Sinusoidal(64, 32, padding_idx=found).tables()
    result = pecli.verify(table, pecli.Sinusoidal(64, 32, padding_idx=expected), atol=1e-5)
    (reason,) = result.explanations

    assert reason.edits == (Parameter("padding_idx", expected, found),)


@pytest.mark.parametrize(
    ("first", "are_angles"),
    [
        pytest.param(10**8, True, id="a far position"),
        pytest.param(2 * 10**9, False, id="beyond every position"),
    ],
)
def test_numbers_beyond_every_position_are_not_called_angles(first: int, are_angles: bool) -> None:
    """Values are position · 10000^(-i/8) instead of their cosines. The frequency of the first pair
    is 1, so that its angles are the positions: those of 10^8 are named, but 2·10^9 is more than any
    position that verify considers.
    """
    angles = np.arange(first, first + 8)[:, None] * 10000.0 ** (-np.arange(8) / 8)
    reason = first_reason({"cos": angles, "sin": angles}, pecli.Rope(8, 16, offset=first))

    assert ("values are the angles" in reason) == are_angles
