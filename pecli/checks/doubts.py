"""Doubts about a pass: what the same data would not have shown. Codes with fields, and their sentences.

A check with doubts is *weak*: `--strict` counts it as failed.
"""

from dataclasses import dataclass

from pecli.checks.finding import Finding
from pecli.compare.candidate import PLURALS
from pecli.engine.edits import Edit, Layout, Parameter
from pecli.errors import counted


class Doubt(Finding):
    """Something that a pass does not prove."""


# Names that do not state what a tensor is


@dataclass(frozen=True)
class SinesFirst(Doubt):
    """Sines come before cosines in one array, which is as likely a mistake as a convention."""

    tensor: str

    sentence = "{tensor}: no name says that sines come before cosines"


@dataclass(frozen=True)
class SameFunctionTwice(Doubt):
    """An array (2, L, D) without a name holds the same table twice, and may be meant as cosines and sines.

    A batch of two tables looks like that, and so does `np.stack([cos, cos])` in place of
    `np.stack([cos, sin])`.
    """

    tensor: str
    function: str  #: cos or sin

    def __str__(self) -> str:
        twice = f"2 × the same {PLURALS[self.function]}"
        return f"{self.tensor}: {twice}; a stacked pair would have cosines and sines"


@dataclass(frozen=True)
class LayersNotNamed(Doubt):
    """A tensor fits one of several layer types by its values, and no name states which it should fit."""

    tensor: str
    layer_type: str

    def __str__(self) -> str:
        fits = f"it fits {self.layer_type} layers"
        return f"{self.tensor}: {fits}, and no name states that it belongs to them"


@dataclass(frozen=True)
class MayLackRope(Doubt):
    """A tensor may be of a layer without rope (NoPE), since no name states its layer."""

    tensor: str

    sentence = "{tensor}: no name states its layer, and some layers have no rope"


@dataclass(frozen=True)
class UnnamedTable(Doubt):
    """A tensor that was not compared holds waves."""

    tensor: str

    sentence = "{tensor} looks like a table, and no name says of what"


# Elements that were not compared


@dataclass(frozen=True)
class StrangePadding(Doubt):
    """Padding, which is not compared, holds infinities or NaN already before the rotation."""

    tensor: str

    sentence = "{tensor}: padding holds infinities or NaN, before the rotation and after it"


@dataclass(frozen=True)
class LikelyPadding(Doubt):
    """Equal rows at the beginning of a sequence, as padding has them, though no mask is given."""

    rows: int
    sequence: int | None  #: None if there is one sequence only

    def __str__(self) -> str:
        begins = "it begins" if self.sequence is None else f"sequence {self.sequence} begins"
        hint = "positions of padding were not checked: give --attention-mask"
        return f"{begins} with {self.rows:,} equal rows, which look like padding; {hint}"


@dataclass(frozen=True)
class FewElements(Doubt):
    """Of a tensor that was printed in part, only some elements could be compared."""

    tensor: str
    compared: int
    total: int
    advice: str  #: the way to print all of them

    def __str__(self) -> str:
        elements = f"{self.compared:,} of {self.total:,} elements"
        return f"{self.tensor}: only {elements} could be compared; {self.advice}"


@dataclass(frozen=True)
class OnlyTables(Doubt):
    """A recorded run has tables, but no queries and keys that they rotate."""

    sentence = "queries and keys were not seen: only tables were checked"


# Numbers that were taken for granted


@dataclass(frozen=True)
class FactorsOfHeader(Doubt):
    """The factors of a .gguf file are all that it states of a scaling: nothing else can confirm them."""

    sentence = "the header cannot tell these factors from others: compare with --config MODEL"


@dataclass(frozen=True)
class ImagesAsRecorded(Doubt):
    """Position ids of images were taken from the run itself, as nothing else states the images' sizes."""

    sentence = "position ids of images were taken as recorded; check them with pecli positions"


@dataclass(frozen=True)
class AsManyHeads(Doubt):
    """There are as many heads as tokens, so that either axis may be the one that is rotated."""

    count: int

    sentence = "{count} tokens and as many heads: either may be rotated; use more tokens"


# Known mistakes that the data do not show


@dataclass(frozen=True)
class MissingRotation(Doubt):
    """Rows that look alike before and after a rotation, as those at position 0 do."""

    rows: str

    sentence = "{rows} cannot detect a missing rotation"


@dataclass(frozen=True)
class OnlyPosition0(Doubt):
    """A table with position 0 only: all its cosines are 1, and all its sines 0."""

    sentence = "position 0 alone cannot detect a missing rotation: compare others"


@dataclass(frozen=True)
class AttentionFactorUnseen(Doubt):
    """YaRN's attention factor multiplies cosines and sines, and frequencies do not show it."""

    sentence = "inv_freq cannot tell the attention factor from none: compare cos or sin, too"


@dataclass(frozen=True)
class SectionsUnseen(Doubt):
    """M-RoPE's sections make no difference for text, whose positions are the same on all axes."""

    def __str__(self) -> str:
        same = "positions that are the same on all axes"
        return f"{same} cannot tell M-RoPE sections: compare some of an image"


@dataclass(frozen=True)
class UnequalLengths(Doubt):
    """Cosines and sines of one table that have different numbers of rows."""

    cos: int
    sin: int

    sentence = "cos has {cos:,} rows, and sin has {sin:,}"


@dataclass(frozen=True)
class UndetectedRotation(Doubt):
    """A mistake in a rotation with which queries or keys would have passed as well."""

    rows: str
    edits: tuple[Edit, ...]

    def __str__(self) -> str:
        from pecli.explain.words import clause

        mistakes = " and ".join(map(clause, self.edits))
        return f"{self.rows} cannot tell whether {mistakes}; compare more positions"


@dataclass(frozen=True)
class UndetectedMistake(Doubt):
    """A mistake with which tables would have passed as well.

    Attributes:
        subject: What was compared: «2 rows».
        edits: The mistake.
        length: The number of rows that would show it; None if, within the tolerance, none would.
        is_at_given_positions: True if rows were compared at positions that the user gave.
    """

    subject: str
    edits: tuple[Edit, ...]
    length: int | None
    is_at_given_positions: bool = False

    def __str__(self) -> str:
        sentence = f"{self.subject} cannot tell {self._mistake()}"
        if self.length is None:
            return f"{sentence} within this tolerance, and no number of rows would"
        if self.is_at_given_positions:
            return f"{sentence}: compare positions up to {self.length:,}"
        return f"{sentence}: compare {self.length:,} or more"

    def _mistake(self) -> str:
        """Return the mistake as the object of «cannot tell».

        Other parameters are contrasted, «base 500000 from 10000»; of other mistakes it cannot tell
        whether they were made.
        """
        from pecli.explain.words import NOTHING, Context, clause

        if all(map(_has_contrast, self.edits)):
            return " and ".join(map(_contrast, self.edits))
        mistakes = ", and ".join(clause(edit, Context(NOTHING)) for edit in self.edits)
        return f"whether {mistakes}"


def _has_contrast(edit: Edit) -> bool:
    return isinstance(edit, (Parameter, Layout)) and edit.expected is not None


def _contrast(edit: Edit) -> str:
    """Return what is expected and what would have passed: «llama3 scaling from none»."""
    from pecli.explain.words import format_value

    assert isinstance(edit, (Parameter, Layout))
    expected = format_value(edit.expected)
    found = format_value(edit.found)
    if edit.subject == "scaling":
        return f"{expected} scaling from {found}"
    return f"{edit.subject} {expected} from {found}"


@dataclass(frozen=True)
class AnyInterpolation(Doubt):
    """A table that most interpolations make alike, as of an old one that is constant."""

    sentence = "most interpolations make this table: it does not show which was used"


@dataclass(frozen=True)
class MoreMistakes(Doubt):
    """Further mistakes that would have passed, of which only the number is reported."""

    subject: str
    count: int

    def __str__(self) -> str:
        more = counted(self.count, "more known mistake")
        return f"{self.subject} cannot tell {more} from a right table"
