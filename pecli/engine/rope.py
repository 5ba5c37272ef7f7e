"""Rotary tables: the cosines and sines by which pairs of channels turn, and the inverse frequencies behind them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

from pecli.engine import frequencies
from pecli.engine.parameters import Choice, Real, Whole
from pecli.engine.scheme import Scheme
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.engine.arrays import Array
    from pecli.engine.phases import Waves
    from pecli.engine.rotation import Rotation
    from pecli.engine.table import Table

LAST_POSITION = 2**40


@dataclass(frozen=True)
class Rope(Scheme):
    """Rotary position embedding (Su et al., 2021): angle = position · base^(−2i/dim).

    >>> sorted(Rope(seq_len=4, dim=8).tables())
    ['cos', 'inv_freq', 'sin']
    """

    name = "rope"
    summary = "Make, show or check rotary (RoPE) tables: cos, sin and inv_freq."
    examples = (
        "pecli rope --seq-len 4096 --dim 128 -o rope.safetensors",
        "pecli rope --seq-len 8192 --dim 128 --theta 500000 --layout halves -o llama.npz",
        "pecli rope --seq-len 4096 --dim 128 --verify dump.npy --atol 1e-6",
    )

    byproducts = frozenset({"inv_freq"})

    seq_len: Annotated[int, Whole(help="rows of the tables", high=LAST_POSITION)]
    dim: Annotated[int, Whole(help="channels that turn, in pairs", low=2, high=65536, even=True)]
    base: Annotated[float, Real(help="theta, the base of the frequencies", above=0, aliases=("--theta",))] = 10000.0
    offset: Annotated[int, Whole(help="position of the first row", low=0, high=LAST_POSITION)] = 0
    layout: Annotated[
        str,
        Choice(
            help="a column a pair; or doubled, as c0 c1 … c0 c1 … or c0 c0 c1 c1 …",
            options=("compact", "halves", "interleaved"),
        ),
    ] = "compact"

    def _check(self) -> None:
        if self.offset + self.seq_len > LAST_POSITION:
            raise ParameterError("offset", self.offset, "the last position must stay below 2^40")
        frequencies.check_base(self.base, 1.0)

    def frequencies(self) -> frequencies.Frequencies:
        """The inverse frequencies, exact: the one place for a scaling to act on them."""
        return frequencies.geometric(self.base, Fraction(self.dim, 2), self.dim // 2)

    def attention_factor(self) -> Fraction:
        """What cos and sin are multiplied by."""
        return Fraction(1)

    def _waves(self) -> Waves:
        return frequencies.waves(self.frequencies(), amplitude=self.attention_factor())

    def rotation(self) -> Rotation:
        from pecli.engine.rotation import Rotation

        return Rotation(self._waves, self.dim // 2, self.seq_len)

    def tensors(self) -> tuple[Table, ...]:
        from pecli.engine.table import Table

        rotation = self.rotation()
        shape = (self.seq_len, self._width)

        def inverse_frequencies(start: int, out: Array) -> None:
            out[:, 0] = self.frequencies().floats()[start : start + len(out)]

        def part(name: str) -> Table:
            return Table(name, self.dtype, shape, lambda start, out: self._fill(rotation, name, start, out))

        return (part("cos"), part("sin"), Table("inv_freq", "float64", (self.dim // 2,), inverse_frequencies))

    def plain(self) -> Table:
        """cos and sin, one after the other: (2, seq_len, width)."""
        from pecli.engine.table import Table

        rotation = self.rotation()

        def fill(start: int, out: Array) -> None:
            cosines = max(0, min(len(out), self.seq_len - start))
            if cosines:
                self._fill(rotation, "cos", start, out[:cosines])
            if cosines < len(out):
                self._fill(rotation, "sin", start + cosines - self.seq_len, out[cosines:])

        return Table("cos_sin", self.dtype, (2, self.seq_len, self._width), fill)

    @property
    def _width(self) -> int:
        return self.dim // 2 if self.layout == "compact" else self.dim

    def _fill(self, rotation: Rotation, part: str, start: int, out: Array) -> None:
        half = self.dim // 2
        if self.layout == "interleaved":
            single, double = out[:, 0::2], out[:, 1::2]
        else:
            single, double = out[:, :half], out[:, half:]
        rotation.fill(part, self.offset + start, single, self.dtype)
        if self.layout != "compact":
            double[...] = single
