"""The tables of a rotary encoding that a tensor of a file may hold: frequencies, cosines and sines."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import chain

from pecli.checks.verify.candidates import (
    COS_AND_SIN,
    find_wave_candidates,
    make_cosines_and_sines,
)
from pecli.checks.verify.table_settings import TABLE_PARAMETERS, TableSettings
from pecli.checks.verify.tensor_with_role import TensorWithRole
from pecli.compare.candidate import CandidateTable, MadeTables, candidate_of
from pecli.engine.application import LAYOUTS
from pecli.engine.arrays import AnyArray, Array, as_dtype
from pecli.engine.schemes.given_positions import PositionList
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import tensors_by_name
from pecli.models.encoding import SMALL_GRID, Encoding


def find_rope_candidates(
    tensor: TensorWithRole, encoding: Encoding, settings: TableSettings
) -> Iterator[CandidateTable]:
    """Yield the tables of an encoding that a tensor may hold: frequencies, or cosines and sines.

    A tensor whose name states frequencies does not hold cosines, and the reverse; one whose name
    states nothing may hold either. Cosines and sines need known positions of their rows.

    Args:
        tensor: A tensor of a file, and what its name states about it.
        encoding: A rotary encoding of a model.
        settings: The positions of rows and the way of computation, as the user states them.
    """
    may_be_frequencies = tensor.role in ("inv_freq", None)
    if may_be_frequencies:
        yield from _find_frequencies(encoding, tensor.wide_dtype, settings)
    patch_axes = encoding.grid.axes or 0  # of the grid of an image, whose patches are rows
    settings_with_grid = _with_grid_of_array(encoding, patch_axes, tensor.array, settings)
    may_be_cosines = tensor.role != "inv_freq"
    if may_be_cosines and _has_known_positions(encoding, patch_axes, settings_with_grid):
        yield from _find_cosines_and_sines(encoding, tensor.table_dtype, settings_with_grid)


def _find_cosines_and_sines(
    encoding: Encoding, dtype: str, settings: TableSettings
) -> Iterator[CandidateTable]:
    """Yield the tables of cosines and sines that a tensor may hold, at the positions of its rows.

    If positions are consecutive, a table has as many rows as the tensor.

    Args:
        encoding: A rotary encoding of a model.
        dtype: The dtype of the tables.
        settings: The positions of rows: consecutive from an offset, stated one by one, or on a grid.
    """
    doubling = settings.layout or _read_doubling(encoding)
    yield from find_wave_candidates(_make_wave_candidate(encoding, dtype, settings, doubling))
    is_mrope_text = len(settings.position_axes) > 1 and not encoding.grid.axes
    if is_mrope_text:
        yield from _find_tables_per_axis(encoding, settings, dtype, doubling)


def _make_wave_candidate(
    encoding: Encoding, dtype: str, settings: TableSettings, doubling: str
) -> CandidateTable:
    """Return the cosines and sines that a tensor may hold: their shape, and a function that makes them.

    At 5 stated positions, or on a grid of 5 patches, the shape is (5, pairs). At consecutive positions,
    it is (None, pairs): there may be any number of rows.

    Args:
        encoding: A rotary encoding of a model.
        dtype: The dtype of the tables.
        settings: The positions of rows.
        doubling: The layout in which the model has each column twice, `halves` or `interleaved`; empty
            if either will do.
    """
    # A file is read in several ways, most of which need tables with the same number of rows again.
    make_tables = cache(partial(_make_cosines_and_sines, encoding, dtype, settings))
    # The number of rows that is passed here has no effect if positions are stated.
    row_count, pairs = make_tables(1).tables["cos"].shape
    are_positions_stated = bool(settings.stated_rows)
    expected_row_count = row_count if are_positions_stated else None
    return CandidateTable(
        names=COS_AND_SIN,
        shape=(expected_row_count, pairs),
        make=make_tables,
        layout=doubling,
        grid=tuple(settings.stated_rows.get("grid") or ()),
    )


def _make_cosines_and_sines(
    encoding: Encoding, dtype: str, settings: TableSettings, rows: int
) -> MadeTables:
    """Return cosines and sines of consecutive positions, with a number of rows.

    If positions are stated by the settings, there is a row for each of them, whatever `rows` is.
    """
    rope = settings.rope(encoding, rows, dtype=dtype)
    return MadeTables(rope, make_cosines_and_sines(rope))


def _with_grid_of_array(
    encoding: Encoding, patch_axes: int, array: AnyArray, settings: TableSettings
) -> TableSettings:
    """Return settings with the grid that an array has axes for, if the encoding needs one and none is given.

    A table of DINOv3 for an image of 6 × 8 patches is (48, D), or (6, 8, D), which states its grid.
    """
    if settings.stated_rows or not encoding.grid.style or array.ndim <= patch_axes:
        return settings
    grid = array.shape[-1 - patch_axes : -1]  # of (6, 8, D) with two axes, (6, 8)
    return replace(settings, stated_rows={"grid": TABLE_PARAMETERS["grid"].check("grid", grid)})


def _has_known_positions(encoding: Encoding, patch_axes: int, settings: TableSettings) -> bool:
    """Return True if the positions of the rows of an encoding's table are known.

    The rows of a vision tower are patches, so that the grid of patches must be stated. Positions that
    are stated may be those of the text beside the tower: (time, row, column) has three axes, and a
    patch only two.
    """
    is_on_grid = bool(patch_axes) or encoding.no_table
    if is_on_grid and not settings.stated_rows:
        return False
    is_tower_on_grid = bool(encoding.part) and bool(patch_axes)
    return not is_tower_on_grid or len(settings.position_axes) <= patch_axes


def _read_doubling(encoding: Encoding) -> str:
    """Return how a model's tables double columns; empty if either way will do."""
    if encoding.layout is None or encoding.tables_in_halves:
        return ""
    return LAYOUTS[encoding.layout].after


def _find_tables_per_axis(
    encoding: Encoding, settings: TableSettings, dtype: str, doubling: str
) -> Iterator[CandidateTable]:
    """Yield cosines, then sines, with one table for each kind of position that a token has.

    A token of M-RoPE has three positions: its time, its row and its column. So L tokens of Qwen2-VL
    have three tables of cosines, (3, L, D/2).

    Args:
        encoding: A rotary encoding of a model.
        settings: The positions of rows, (axes, L).
        dtype: The dtype of the tables.
        doubling: The pair layout in which each column stands twice, `halves` or `interleaved`; empty
            if either will do.
    """
    axes = len(settings.position_axes)
    length = len(settings.position_axes[0])
    rope = _make_rope_of_all_axes(encoding, settings, dtype)
    # Attention later takes some columns (a section) from each table: nothing shows which ones.
    note = "one table per axis of positions: sections do not show"
    for name, table in make_cosines_and_sines(rope).items():
        # The L rows of all times come first, then those of rows and columns: (3·L, D/2) is (3, L, D/2).
        table_per_axis = replace(table, shape=(axes, length, table.width))
        yield candidate_of(
            {name: table_per_axis}, rope, has_frequencies=True, layout=doubling, words=note
        )


def _make_rope_of_all_axes(encoding: Encoding, settings: TableSettings, dtype: str) -> Rope:
    """Return a rope whose rows are at the positions of all axes, one axis after the other.

    The times 5 5, rows 0 0 and columns 0 1 of two tokens of M-RoPE make a table of 6 rows, at the
    positions 5 5 0 0 0 1. It has no sections, so that all its columns belong to the same position.
    """
    all_positions = PositionList(chain.from_iterable(settings.position_axes))
    at_all_positions = replace(settings, stated_rows={"positions": all_positions})
    rope = at_all_positions.rope(encoding, len(all_positions), dtype=dtype)
    return replace(rope, mrope_section=None, mrope_interleaved=None)


def _find_frequencies(
    encoding: Encoding, dtype: str, settings: TableSettings
) -> Iterator[CandidateTable]:
    """Yield frequencies as before any call, or at the length of tables in the same file.

    With a dynamic scaling, transformers computes `inv_freq` anew for every longer prompt, so that a
    dump after 8,192 tokens has the frequencies of that length.
    """
    yield from _find_frequencies_at(settings.length or 1, "", encoding, dtype, settings)
    if settings.length is None and encoding.follows_length:
        for length in settings.table_lengths:
            yield from _find_frequencies_at(
                length, f"at length {length}", encoding, dtype, settings
            )


def _find_frequencies_at(
    length: int, length_words: str, encoding: Encoding, dtype: str, settings: TableSettings
) -> Iterator[CandidateTable]:
    """Yield the frequencies that an encoding has for prompts of a length.

    Args:
        length: The length in tokens, on which dynamic scalings depend.
        length_words: A note on it, such as «at length 8192»; empty if it goes without saying.
        encoding: A rotary encoding of a model.
        dtype: The dtype of the frequencies.
        settings: The recipe and the runtime that compute them.
    """
    rope = _make_rope_of_frequencies(length, encoding, settings)
    frequencies = as_dtype(tensors_by_name(rope)["inv_freq"].array(), dtype)
    for order_words, expected in _order_frequencies(encoding, frequencies).items():
        words = ", ".join(filter(None, (order_words, length_words)))
        yield candidate_of({"inv_freq": expected}, rope, words=words)


def _make_rope_of_frequencies(length: int, encoding: Encoding, settings: TableSettings) -> Rope:
    """Return a scheme with the frequencies of an encoding; of all axes, if they have their own.

    Flux's axes of 16, 56 and 56 channels have 8, 28 and 28 frequencies, whatever the size of an
    image is.
    """
    if encoding.grid.style and encoding.grid.axis_channels:
        return encoding.rope(grid=SMALL_GRID, recipe=settings.recipe)
    return encoding.frequency_rope(length, recipe=settings.recipe, runtime=settings.runtime)


def _order_frequencies(encoding: Encoding, frequencies: Array) -> dict[str, Array]:
    """Return the frequencies of a model in each order in which it may hold them, by the words for it.

    A vision tower with the frequencies r0 r1 of rows and c0 c1 of columns rotates its channels by
    r0 c0 r1 c1; its module may hold them so, or axis by axis: r0 r1 c0 c1.
    """
    if encoding.order is None:
        return {"": frequencies}
    by_axis = frequencies[list(encoding.order)]
    return {"axis by axis": by_axis, "interleaved": frequencies}
