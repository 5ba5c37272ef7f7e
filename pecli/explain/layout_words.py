"""What layouts of cosines and sines are called, wherever one is spoken of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """One arrangement of the two functions: in full, with both named, beside another arrangement, as a place to lie in.

    `parts` are the two that it has, where those have names.
    """

    full: str
    named: str
    short: str
    within: str
    parts: tuple[str, str] = ("first part", "second part")


ARRANGEMENTS: Mapping[str, Words] = {
    "alone": Words("one function of the angle", "{0}", "a column a channel", "one after the other"),
    "halves": Words(
        "all of one function, then all of the other",
        "all {0}, then all {1}",
        "in halves",
        "one half each",
        ("first half", "second half"),
    ),
    "interleaved": Words(
        "the two functions in turn",
        "{0} and {1} in turn",
        "interleaved",
        "in turn",
        ("even channels", "odd channels"),
    ),
    "stacked": Words(
        "one array after the other, (2, L, …)", "the {0}, then the {1}", "two arrays stacked", "one after the other"
    ),
    "pairs": Words(
        "the two functions of a pair side by side, (L, …, 2)",
        "pairs of {0} and {1}",
        "in pairs on the last axis",
        "in pairs",
    ),
    "complex": Words("complex numbers", "complex numbers", "complex numbers", "as complex numbers"),
}
"""How the two functions lie beside each other."""

DOUBLINGS: Mapping[str, str] = {"": "", "halves": "c0 c1 … c0 c1 …", "interleaved": "c0 c0 c1 c1 …"}
"""How often each column of a part is there: once, or twice, in that order."""


def columns(way: str) -> str:
    """The columns of a part, in words."""
    return f"doubled as {DOUBLINGS[way]}" if way else "a column a frequency"


def twice(way: str) -> str:
    """The same of columns that another table has once."""
    return f"each column twice ({DOUBLINGS[way]})"
