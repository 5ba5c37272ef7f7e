"""The tables that a tensor may hold."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pecli.compare.forms import DOUBLED_LAYOUTS, READABLE, SIGNED, Form
from pecli.engine.arrays import Array
from pecli.engine.grouping import grouped
from pecli.engine.table import Table
from pecli.files.tensor_roles import role_of

if TYPE_CHECKING:  # comparing two files needs no scheme
    from pecli.engine.schemes.scheme import Scheme

PLURALS = {"cos": "cosines", "sin": "sines"}

Expected = Table | Array
TableShape = tuple[int | None, ...]


class EncodingOrigin(NamedTuple):
    """The encoding of a model that a table belongs to."""

    scheme: str
    layer_type: str  #: empty if all layers have the same encoding


class MadeTables(NamedTuple):
    """Expected tables by name, and the scheme that makes them; None if no scheme does."""

    scheme: "Scheme | None"
    tables: Mapping[str, Expected]


@dataclass(frozen=True)
class CandidateTable:
    """One table, or cosines and sines, that a tensor may hold.

    Attributes:
        names: The name of the table, or of both functions in their order.
        shape: The shape of each table. None stands for as many rows as the tensor has.
        make: Makes the tables with so many rows.
        has_frequencies: True if columns belong to frequencies, so that they may be arranged in any form.
        transposable: True if rows may be frequencies. Matrices without a name are other things when transposed.
        layout: How columns are doubled for the rotation, halves or interleaved; empty if either will do.
        words: What else the note on a reading says.
        origin: The encoding of a model that it belongs to, if any.
        quantised: True if integers may stand for its values.
        masked: True if the most negative number of a dtype may stand for −∞.
        grid: The sides of the grid whose points are its rows; empty if they are a sequence.
    """

    names: tuple[str, ...]
    shape: TableShape
    make: Callable[[int], MadeTables]
    has_frequencies: bool = False
    transposable: bool = False
    layout: str = ""
    words: str = ""
    origin: EncodingOrigin | None = None
    quantised: bool = False
    masked: bool = False
    grid: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return self.names[0] if len(self.names) == 1 else "cos_sin"

    @property
    def row_lengths(self) -> TableShape:
        """The lengths of all axes of a table except the last."""
        return self.shape[:-1]

    @property
    def width(self) -> int:
        return self.shape[-1] or 1

    def forms(self, *, guesses: bool = False) -> list[Form]:
        """Return the ways in which cosines and sines may lie beside each other in a tensor: its forms.

        Those whose columns are in the order that the model rotates come first. With `guesses`, there
        are sines multiplied by the sign of the rotation among them, −s0 s0 −s1 s1.
        """
        if not self.has_frequencies:
            return [Form("alone")]
        forms = [form for form in READABLE if form.function_count == len(self.names)]
        if guesses and self.names == ("sin",):
            forms += SIGNED
        return sorted(forms, key=self.is_doubled_differently)

    def is_doubled_differently(self, form: Form) -> bool:
        """Return True if a form has columns in halves, and the model rotates interleaved ones, or the reverse."""
        return {self.layout, form.doubled} == {*DOUBLED_LAYOUTS}


class Waves(NamedTuple):
    """Cosines and sines of one table."""

    cos: Array
    sin: Array


def cos_and_sin(tensors: Mapping[str, Array]) -> Waves | None:
    """Return the cosines and sines of a file, which their names state.

    {"rope.cos": (64, 128), "rope.sin": (64, 128), "inv_freq": (64,)} has them. None is returned if
    there are several tables of one function, as of several layer types, if one function is missing,
    or if their shapes differ.
    """
    names_by_role = grouped(tensors, role_of)
    cos_names = names_by_role.get("cos", [])
    sin_names = names_by_role.get("sin", [])
    has_one_of_each = len(cos_names) == len(sin_names) == 1
    if not has_one_of_each:
        return None
    waves = Waves(cos=tensors[cos_names[0]], sin=tensors[sin_names[0]])
    is_table = waves.cos.ndim > 0 and waves.cos.shape == waves.sin.shape
    return waves if is_table else None


def candidate_of(
    expected: Mapping[str, Expected], scheme: "Scheme | None" = None, **options: Any
) -> CandidateTable:
    """Return an expected table, or cosines and sines, that a tensor of a file may hold.

    The tensor may hold it in any order of axes, with copies or doubled columns: that is found out by
    `find_best_reading`.

    Args:
        expected: The table by its name, or both functions.
        scheme: The scheme that makes them, if any.
        options: Other attributes of the candidate, such as `words` for notes.
    """
    first = next(iter(expected.values()))
    made = MadeTables(scheme, expected)
    return CandidateTable(names=(*expected,), shape=first.shape, make=lambda rows: made, **options)
