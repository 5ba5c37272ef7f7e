"""The sinusoidal tables of a model that a tensor of a file may hold."""

from collections.abc import Iterator
from functools import cache, partial

from pecli.checks.verify.candidates import grid_of
from pecli.checks.verify.table_settings import TableSettings
from pecli.checks.verify.tensor_with_role import TensorWithRole
from pecli.compare.candidate import CandidateTable, MadeTables, candidate_of
from pecli.engine.named_values import NamedValues
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.models.encoding import Encoding


def find_sinusoidal_candidates(
    tensor: TensorWithRole, encoding: Encoding, settings: TableSettings
) -> Iterator[CandidateTable]:
    """Yield the sinusoidal tables that a model may store: on a grid, or with as many rows as the array."""
    has_stated_positions = bool(settings.stated_rows)
    if has_stated_positions or "grid" in encoding.parameters:
        return _find_on_grid(tensor, encoding, settings)
    return _find_from_offsets(tensor, encoding, settings)


def _read_parameters(
    tensor: TensorWithRole, encoding: Encoding, settings: TableSettings
) -> NamedValues:
    """Return the parameters of a model's table in the dtype of a file, except the position of its first row."""
    parameters = dict(encoding.parameters)
    parameters.pop("offset", None)  # A dump may begin elsewhere: callers try several positions.
    parameters["recipe"] = settings.recipe
    parameters["dtype"] = tensor.table_dtype
    return parameters


def _find_on_grid(
    tensor: TensorWithRole, encoding: Encoding, settings: TableSettings
) -> Iterator[CandidateTable]:
    """Yield the table at the points of a grid, or at positions that the user gave.

    MAE's table has a row for each of 14 × 14 patches, and a row of zeros before them, for the class
    token: (197, D). A file may hold it without that row. Then it is (14, 14, D), and the table of the
    patches only, (196, D), is yielded as well.
    """
    parameters = _read_parameters(tensor, encoding, settings)
    note = f"as in {parameters['style']}"  # «as in mae»
    yield _make_candidate_on_grid(parameters, settings, note)
    if _may_hold_patches_only(tensor, parameters):
        of_patches_only = {**parameters, "keep": 0}
        note = f"{note}, without rows for other tokens"
        yield _make_candidate_on_grid(of_patches_only, settings, note)


def _may_hold_patches_only(tensor: TensorWithRole, parameters: NamedValues) -> bool:
    """Return True if a tensor may lack the rows for other tokens that a model's table has.

    The parameter `keep` counts these rows. There is no place for them in an array with an axis for
    each side of the grid, such as (14, 14, D) or (batch, 14, 14, D); there is in (197, D).
    """
    has_rows_for_other_tokens = bool(parameters.get("keep"))
    sides = parameters.get("grid", ())
    may_have_axis_per_side = tensor.array.ndim > len(sides)
    return has_rows_for_other_tokens and may_have_axis_per_side


def _find_from_offsets(
    tensor: TensorWithRole, encoding: Encoding, settings: TableSettings
) -> Iterator[CandidateTable]:
    """Yield tables whose rows are consecutive positions, for each position that the first row may have.

    If the user states the first position, it is the only one. Otherwise it may be the model's, or 0:
    fairseq's is 2, after two rows of padding, and dumps leave those rows out as often as not.
    """
    parameters = _read_parameters(tensor, encoding, settings)
    model_offset = encoding.parameters.get("offset", 0)
    if settings.offset is not None:
        possible_offsets = [settings.offset]
    else:
        possible_offsets = [model_offset, 0]  # Both are 0 in most models.
    for offset in dict.fromkeys(possible_offsets):
        words = f"as in {parameters['style']}"
        is_position_worth_a_note = bool(offset or model_offset)
        if is_position_worth_a_note:
            words = f"{words}, from position {offset}"
        yield _make_candidate_from(offset, parameters, words)


def _make_candidate_from(offset: int, parameters: NamedValues, words: str) -> CandidateTable:
    """Return the table of consecutive positions from an offset on, with as many rows as the tensor."""
    # Several readings of the same file need tables with the same number of rows.
    make_rows = cache(partial(_make_rows, parameters, offset))
    shape = (None, parameters["dim"])  # None: as many rows as the tensor has
    return CandidateTable(names=("pe",), shape=shape, make=make_rows, words=words, quantised=True)


def _make_candidate_on_grid(
    parameters: NamedValues, settings: TableSettings, words: str
) -> CandidateTable:
    """Return the table on a grid, whose size and style give its rows, layout and exponents.

    Args:
        parameters: The parameters of the model's table, with a grid unless the user states one.
        settings: The grid or the positions that the user states, which replace the model's.
        words: A note, such as «as in mae».
    """
    on_grid = {**parameters, **settings.stated_rows}
    for follows_from_grid in ("seq_len", "layout", "freq_shift"):
        on_grid.pop(follows_from_grid, None)
    scheme = Sinusoidal(**on_grid)
    table = scheme.single_array()
    return candidate_of({"pe": table}, scheme, words=words, quantised=True, grid=grid_of(scheme))


def _make_rows(parameters: NamedValues, offset: int, rows: int) -> MadeTables:
    """Return the table with so many rows from a position on."""
    scheme = Sinusoidal(**{**parameters, "seq_len": rows}, offset=offset)
    return MadeTables(scheme, {"pe": scheme.single_array()})
