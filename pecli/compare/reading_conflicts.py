"""Conflicts between the readings of tensors that belong together, such as cosines and sines."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pecli.compare.candidate import PLURALS
from pecli.compare.reading import Reading
from pecli.files.tensor_roles import module_of, role_of


class Doubling(NamedTuple):
    """The way in which a tensor has two columns per frequency, and the layers that it belongs to.

    Attributes:
        layers: The layers in words, such as a layer type; empty if all have the same tables.
        reading: The tensor, read as a table.
        doubled: One of `forms.DOUBLINGS`; empty if each frequency has one column.
    """

    layers: str
    reading: Reading
    doubled: str

    @property
    def is_certain(self) -> bool:
        """True if these are cosines or sines whose two columns are indeed alike."""
        return _is_cos_or_sin(self.reading) and self.reading.is_plausible


def find_doubling_problems(doublings: Iterable[Doubling]) -> list[str]:
    """Return a sentence for all layers whose cosines are doubled in one way and whose sines in another.

    A rotation multiplies a channel by one column of each. With cosines c0 c1 c0 c1 and sines
    s0 s0 s1 s1, channel 1 would be multiplied by c1 and s0.
    """
    ways_by_layers: dict[str, set[str]] = {}
    for doubling in doublings:
        if doubling.doubled and doubling.is_certain:
            ways_by_layers.setdefault(doubling.layers, set()).add(doubling.doubled)
    problem = "cos and sin are doubled in two ways: no rotation takes both"
    return [
        f"{layers} {problem}".strip() for layers, ways in ways_by_layers.items() if len(ways) > 1
    ]


def find_lone_transposes(readings: Mapping[str, Reading | None]) -> set[str]:
    """Return the names of cosines or sines that fit only when transposed, unlike those beside them.

    A table of 64 positions × 64 columns has the same shape when it is transposed, so that only its
    values show it. If `cos` and `sin` of a module are both transposed, that is how the file stores
    tables. If one of them is, or there is no other to confirm it, a program exchanged its axes by
    mistake.

    Args:
        readings: By tensor, how its values fit the expected table; None if they do not.
    """
    lone: set[str] = set()
    for tables in _group_by_module(readings):
        transposed = [name for name, reading in tables.items() if reading.transposed]
        has_upright_table = len(transposed) < len(tables)
        is_single_square = len(tables) == 1 and all(map(_is_square, tables.values()))
        if has_upright_table or is_single_square:
            lone.update(transposed)
    return lone


def _group_by_module(
    readings: Mapping[str, Reading | None],
) -> Iterable[dict[str, Reading]]:
    """Return the tables of cosines or sines of each module, such as `layers.3.rotary_emb`."""
    modules: dict[str | None, dict[str, Reading]] = {}
    for tensor, reading in readings.items():
        if reading is not None and _is_cos_or_sin(reading):
            modules.setdefault(module_of(tensor), {})[tensor] = reading
    return modules.values()


def _is_cos_or_sin(reading: Reading) -> bool:
    """Return True for cosines or sines by themselves; both in one tensor have the role `both`."""
    return role_of(reading.name) in PLURALS


def _is_square(reading: Reading) -> bool:
    return len(set(reading.arrangement.folding.shape)) == 1
