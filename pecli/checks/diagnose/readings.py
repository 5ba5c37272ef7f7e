"""How the numbers of a table may be read as cosines and sines, and what each reading says about its layout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pecli.checks.diagnose.causes import Cause, cost_of
from pecli.checks.diagnose.sample import SomeRows
from pecli.explain.forms import Form, forms
from pecli.explain.layout_words import ARRANGEMENTS, DOUBLINGS
from pecli.engine.arrays import Floats, Indices
from pecli.engine.numerics.rounding import widened
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal

if TYPE_CHECKING:
    from pecli.engine.schemes.scheme import Scheme


@dataclass(frozen=True)
class Wanted:
    """What a tensor should be: a form, and the function in each of its parts."""

    form: Form
    functions: tuple[str, ...]
    columns: int
    """Frequencies of a part."""


@dataclass(frozen=True)
class WaveReading:
    """One way to read a table: its parts (rows, frequencies), each a cosine or a sine."""

    causes: tuple[Cause, ...]
    form: Form
    functions: tuple[str, ...]
    parts: tuple[Floats, ...]
    rows: Indices
    dtype: str

    @property
    def columns(self) -> int:
        return int(self.parts[0].shape[1])

    @property
    def cost(self) -> float:
        return cost_of(self.causes)


def expected(scheme: Scheme, name: str) -> Wanted | None:
    """How the scheme lays out a tensor of waves; None for tensors of another kind."""
    if isinstance(scheme, Rope) and name in ("cos", "sin", "cos_sin"):
        doubled = "" if scheme.layout == "compact" else scheme.layout
        stacked = name == "cos_sin"
        functions = ("cos", "sin") if stacked else (name,)
        return Wanted(Form("stacked" if stacked else "alone", doubled), functions, scheme.rotary_dim // 2)
    if isinstance(scheme, Sinusoidal) and name == "pe":
        padded = scheme.layout == "halves" and scheme.dim % 2 == 1
        functions = ("cos", "sin") if scheme.cos_first else ("sin", "cos")
        return Wanted(Form(scheme.layout, padded=padded), functions, scheme.dim // 2)
    return None


def readings(sample: SomeRows, layout: Wanted, length: int) -> Iterator[WaveReading]:
    """Every way to read the sample, the one that the scheme asks for among them, if it is possible."""
    dtype = str(sample.array.dtype.name)
    for form in forms(sample.array):
        parts = None if form.transposed else form.split(sample.array)
        if parts is None or len(parts[0]) != len(sample.rows) or not _sensible(form, layout):
            continue
        wide = tuple(widened(part) for part in parts)
        for functions in _functions(len(parts)):
            causes = (*_laid_out(form, functions, layout), *_turned(sample, length))
            yield WaveReading(causes, form, functions, wide, sample.rows, dtype)


def _sensible(form: Form, layout: Wanted) -> bool:
    """A column of zeros belongs to sinusoidal tables; their doubled columns to nobody."""
    sinusoidal = layout.form.arrangement in ("halves", "interleaved")
    return not form.doubled and form.arrangement != "alone" if sinusoidal else not form.padded


def _functions(parts: int) -> tuple[tuple[str, ...], ...]:
    return (("cos",), ("sin",)) if parts == 1 else (("cos", "sin"), ("sin", "cos"))


def _turned(sample: SomeRows, length: int) -> Iterator[Cause]:
    if sample.transposed:
        yield Cause("the table is transposed")
    if sample.length != length:  # which the comparison of shapes says already
        yield Cause(f"seq_len is {sample.length} (the spec says {length})", 0.0)


def _laid_out(form: Form, functions: tuple[str, ...], layout: Wanted) -> Iterator[Cause]:
    """What is another layout than the scheme's."""
    wanted = layout.form
    if len(functions) == len(layout.functions) == 2 or form.arrangement == wanted.arrangement == "alone":
        if form.arrangement != wanted.arrangement:
            alike = form.doubled == wanted.doubled
            yield Cause(f"the layout is {_called(form, alike)} (the spec says {_called(wanted, alike)})")
        elif form.doubled != wanted.doubled and not form.doubled:
            yield Cause(f"the halves are not doubled (the layout is compact, the spec says {wanted.doubled})")
        elif form.doubled != wanted.doubled:
            yield Cause(f"the layout is {form.doubled} (the spec says {wanted.doubled or 'compact'})")
        if functions != layout.functions:
            yield Cause("sin and cos are swapped")
    elif len(functions) == 2:
        yield Cause(f"the table holds both {functions[0]} and {functions[1]}, {ARRANGEMENTS[form.arrangement].within}")
    else:
        yield Cause(f"the table holds the {functions[0]} alone")


def _called(form: Form, alike: bool) -> str:
    """A layout; also how columns are doubled, unless two are doubled alike."""
    return form.arrangement + (f", doubled as {DOUBLINGS[form.doubled]}" if form.doubled and not alike else "")
