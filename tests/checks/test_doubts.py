"""Doubts about a pass: the sentence for each, which names what the data would not have shown."""

import pytest

from pecli.checks.doubts import (
    AnyInterpolation,
    AsManyHeads,
    AttentionFactorUnseen,
    Doubt,
    FactorsOfHeader,
    FewElements,
    ImagesAsRecorded,
    LayersNotNamed,
    LikelyPadding,
    MayLackRope,
    MissingRotation,
    MoreMistakes,
    OnlyPosition0,
    OnlyTables,
    SameFunctionTwice,
    SectionsUnseen,
    SinesFirst,
    StrangePadding,
    UndetectedMistake,
    UndetectedRotation,
    UnequalLengths,
    UnnamedTable,
)
from pecli.engine.edits import Layout, Parameter, Rotation

OTHER_BASE = Parameter("base", 10000.0, 500000.0)
NO_SCALING = Parameter("scaling", "llama3", "none")
LINEAR_SCALING = Parameter("scaling", "none", "linear")
FACTOR_OF_NO_SCALING = Parameter("factor", None, 8.0)
"""A number of a scaling that is not expected, so that it differs from no other number."""
NOTHING_ROTATED = Rotation("none")
SENTENCES: list[tuple[Doubt, str]] = [
    (SinesFirst("x"), "x: no name says that sines come before cosines"),
    (
        SameFunctionTwice("x", "cos"),
        "x: 2 × the same cosines; a stacked pair would have cosines and sines",
    ),
    (
        SameFunctionTwice("x", "sin"),
        "x: 2 × the same sines; a stacked pair would have cosines and sines",
    ),
    (
        LayersNotNamed("q", "sliding_attention"),
        "q: it fits sliding_attention layers, and no name states that it belongs to them",
    ),
    (MayLackRope("q"), "q: no name states its layer, and some layers have no rope"),
    (UnnamedTable("x"), "x looks like a table, and no name says of what"),
    (
        StrangePadding("q"),
        "q: padding holds infinities or NaN, before the rotation and after it",
    ),
    (
        LikelyPadding(rows=1200, sequence=None),
        "it begins with 1,200 equal rows, which look like padding; "
        "positions of padding were not checked: give --attention-mask",
    ),
    (
        LikelyPadding(rows=9, sequence=0),
        "sequence 0 begins with 9 equal rows, which look like padding; "
        "positions of padding were not checked: give --attention-mask",
    ),
    (
        FewElements("q", compared=2304, total=163840, advice="print more"),
        "q: only 2,304 of 163,840 elements could be compared; print more",
    ),
    (OnlyTables(), "queries and keys were not seen: only tables were checked"),
    (
        FactorsOfHeader(),
        "the header cannot tell these factors from others: compare with --config MODEL",
    ),
    (
        ImagesAsRecorded(),
        "position ids of images were taken as recorded; check them with pecli positions",
    ),
    (AsManyHeads(count=8), "8 tokens and as many heads: either may be rotated; use more tokens"),
    (MissingRotation("1 row"), "1 row cannot detect a missing rotation"),
    (OnlyPosition0(), "position 0 alone cannot detect a missing rotation: compare others"),
    (
        AttentionFactorUnseen(),
        "inv_freq cannot tell the attention factor from none: compare cos or sin, too",
    ),
    (
        SectionsUnseen(),
        "positions that are the same on all axes cannot tell M-RoPE sections: "
        "compare some of an image",
    ),
    (UnequalLengths(cos=4096, sin=2048), "cos has 4,096 rows, and sin has 2,048"),
    (
        AnyInterpolation(),
        "most interpolations make this table: it does not show which was used",
    ),
    (MoreMistakes("2 rows", count=1), "2 rows cannot tell 1 more known mistake from a right table"),
    (
        MoreMistakes("2 rows", count=3),
        "2 rows cannot tell 3 more known mistakes from a right table",
    ),
    (
        UndetectedMistake("2 rows", (OTHER_BASE,), length=4000),
        "2 rows cannot tell base 10000 from 500000: compare 4,000 or more",
    ),
    (
        UndetectedMistake("2 rows", (OTHER_BASE,), length=4000, is_at_given_positions=True),
        "2 rows cannot tell base 10000 from 500000: compare positions up to 4,000",
    ),
    (
        UndetectedMistake("2 rows", (OTHER_BASE, NO_SCALING), length=None),
        "2 rows cannot tell base 10000 from 500000 and llama3 scaling from none "
        "within this tolerance, and no number of rows would",
    ),
    (
        UndetectedMistake("1 row", (Layout("halves", "interleaved"),), length=2),
        "1 row cannot tell layout halves from interleaved: compare 2 or more",
    ),
    (
        UndetectedMistake("2 rows", (LINEAR_SCALING, FACTOR_OF_NO_SCALING), length=3),
        "2 rows cannot tell whether scaling is linear, and factor is 8: compare 3 or more",
    ),
]


@pytest.mark.parametrize(("doubt", "sentence"), SENTENCES, ids=lambda value: type(value).__name__)
def test_what_the_data_would_not_have_shown_is_told_in_a_sentence(
    doubt: Doubt, sentence: str
) -> None:
    """A doubt is something that a check which passes could not see in the data. Each row of
    SENTENCES has one and the sentence that `pecli verify` prints for it, written by hand.
    """
    assert str(doubt) == sentence


def test_a_mistake_that_has_no_right_value_to_contrast_is_stated_as_a_sentence() -> None:
    """Another base has two values: «cannot tell base 10000 from 500000». That nothing was rotated is
    no value of a parameter, so it is stated as a whole: «cannot tell whether nothing is rotated».
    """
    other_base = UndetectedMistake("2 rows", (OTHER_BASE,), length=3)
    nothing_rotated = UndetectedMistake("2 rows", (NOTHING_ROTATED,), length=3)

    assert str(other_base) == "2 rows cannot tell base 10000 from 500000: compare 3 or more"
    assert str(nothing_rotated) == (
        "2 rows cannot tell whether nothing is rotated: the values are those before: "
        "compare 3 or more"
    )


def test_two_mistakes_are_stated_as_sentences_if_one_of_them_has_no_right_value() -> None:
    """«Base 10000 from 500000» and «nothing is rotated» cannot follow the same verb, so that the base
    is stated as a sentence, too.
    """
    both = UndetectedMistake("2 rows", (OTHER_BASE, NOTHING_ROTATED), length=3)
    assert str(both) == (
        "2 rows cannot tell whether base is 500000, and nothing is rotated: the values are those "
        "before: compare 3 or more"
    )


def test_mistakes_that_rotated_queries_do_not_show_are_stated_as_sentences() -> None:
    """`UndetectedRotation` is about queries or keys. It has no number of rows that would be enough,
    and the advice is just to compare more.
    """
    rotation = UndetectedRotation("q: 2 rows", (OTHER_BASE, NOTHING_ROTATED))
    assert str(rotation) == (
        "q: 2 rows cannot tell whether base is 500000 (the spec says 10000) and nothing is rotated: "
        "the values are those before; compare more positions"
    )


def test_every_doubt_has_a_sentence_here() -> None:
    """SENTENCES, the table of an earlier test, must have each kind of doubt that the package
    defines (each subclass of Doubt), except UndetectedRotation, which has the test above.
    """
    shown = {type(doubt) for doubt, _ in SENTENCES} | {UndetectedRotation}
    assert shown == set(Doubt.__subclasses__())
