"""In plain English: explanations, the command that makes a table again, and tables that nothing explains."""

import math
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pecli.engine.schemes.command_options import options
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import number
from pecli.explain.edits import (
    NAMES,
    Edit,
    Explanation,
    Layout,
    Parameter,
    Recipe,
    Rotation,
    Runtime,
    Scaled,
    Swapped,
    clause,
)
from pecli.explain.sample import Sample

MAX_COMMAND = (
    2000  # letters of a command that somebody may want to copy; a list of all positions is longer
)
MAX_SIDE = 256  # rows and columns whose rank is counted


def sentence(explanation: Explanation) -> str:
    """An explanation in one line: the tensors, the mistakes, how values were stored, and the residual.

    >>> sentence(Explanation((Parameter("base", 500000.0, 10000.0),), None, ("cos", "sin"), residual=3e-8))
    'cos, sin: base is 10000 (the spec says 500000); explains every element (to 3e-8)'
    """
    parts = ", and ".join(clause(edit) for edit in explanation.mistakes)
    if explanation.scheme is not None and explanation.scheme.applied_as != "rotation":
        parts = parts.replace(NAMES["dim"], "dim")
    if explanation.tensors == ("sin",):  # the cosines may be elsewhere
        parts = parts.replace("all rows are at position 0", "all values are 0")
    named = any(
        isinstance(edit, Runtime) for edit in explanation.edits
    )  # whose recipe goes without saying
    stored = [
        edit
        for edit in explanation.edits
        if edit.storage and not (named and isinstance(edit, Recipe))
    ]
    storage = ", ".join(clause(edit) for edit in stored)
    partly = [words for words in explanation.open if words.endswith("rows were compared")]
    explains = (
        f"explains what was compared, {partly[0].partition(' were')[0]}"
        if partly
        else "explains every element"
    )
    is_part = any(edit.kind.endswith("_wrong") for edit in explanation.mistakes[-1:])
    exact = "all others are exact" if is_part else "exact"
    residual = (
        f"{explains} (to {number(explanation.residual, 2)})"
        if explanation.residual or partly
        else exact
    )
    if beyond := explanation.beyond:
        explains = (
            explains.replace("every element", "all")
            + f" but {beyond:,} element{'s' * (beyond > 1)}"
        )
        residual = f"{explains}, off by up to {number(explanation.residual, 2)}"
    residual = residual if math.isfinite(explanation.residual) else ""
    return (
        f"{', '.join(explanation.tensors)}: {'; '.join(filter(None, (parts, storage, residual)))}"
    )


def comparison(explanation: Explanation) -> str:
    """The same of two tables, neither of which is a spec.

    >>> comparison(Explanation((Swapped(),), None, ("pe",)))
    'pe: in B, sin and cos are swapped; exact'
    """
    names, _, words = sentence(explanation).partition(": ")
    return f"{names}: in B, {words.replace('(the spec says', '(in A')}"


def lacking(edits: Sequence[Edit], scheme: Any) -> tuple[Edit, ...]:
    """Which of the edits the command that makes a scheme does not make: all but those that an option is for."""

    def lacks(edit: Edit) -> bool:
        if isinstance(edit, Layout):
            return edit.found not in (
                scheme.value_of("layout", ""),
                "stacked",
                "cos alone",
                "sin alone",
            )
        if isinstance(edit, Swapped):
            return not hasattr(scheme, "cos_first")
        if isinstance(edit, Scaled):  # a rotary command scales by its attention factor
            return bool(scheme.attention_factor_value() != edit.by)
        if isinstance(edit, Parameter):
            factor = (
                edit.name == "attention_factor" and scheme.attention_factor_value() != edit.found
            )
            before = (
                edit.name == "offset" and scheme.first_position != edit.found
            )  # positions below 0
            padding = edit.name == "padding_idx" and scheme.padding_idx != edit.found
            return bool(
                factor
                or before
                or padding
                or (edit.name == "positions" and scheme.value_of("positions", None) is None)
                or edit.name in ("position_axis", "inv_freq", "distance", "slopes")
            )
        if isinstance(edit, Recipe) and not any(
            isinstance(other, Runtime) for other in edits
        ):  # which has its own
            return bool(scheme.value_of("recipe", "exact") != edit.found)
        return not (edit.storage or isinstance(edit, (Rotation, Runtime)))

    return tuple(edit for edit in edits if lacks(edit))


def reproduction(explanation: Explanation) -> Iterator[str]:
    """The command that makes the table, as a sentence; what it does not make is said; nothing where that is all."""
    scheme, mistakes = explanation.scheme, explanation.mistakes
    without = lacking(explanation.edits, scheme) if scheme is not None else ()
    if (
        scheme is None
        or not {*mistakes} - {*without}
        or len(command := command_of(scheme, output=False)) > MAX_COMMAND
    ):
        return
    apart = (
        f"apart from that ({', '.join(clause(edit).partition(' (')[0] for edit in without)}), "
        if without
        else ""
    )
    apart = apart or "apart from those elements, " * bool(explanation.beyond)
    yield f"{apart}reproduce with {command}"


def command_of(scheme: Scheme, tensors: int = 1, output: bool = True) -> str:
    """What to type to make the table again: a plain array in .npy, bfloat16 and several tensors in .safetensors."""
    single = scheme.dtype != "bfloat16" and scheme.single_array().name in [
        each.name for each in scheme.tensors()
    ]
    file = ["-o", "again.npy" if single and tensors == 1 else "again.safetensors"] if output else []
    return shlex.join(["pecli", scheme.name, *options(scheme), *file])


@np.errstate(all="ignore")
def describe(sample: Sample) -> list[str]:
    """What can be said of a table that no scheme explains, in short sentences, what is most telling first."""
    head = (
        f"{sample.name}: {' × '.join(map(str, sample.shape)) or 'a single number'}, {sample.dtype}"
    )
    values = sample.values
    if not values.size:
        return [f"{head}, empty"]
    head += f", of which {len(sample.rows):,} rows were looked at" * (not sample.whole)
    finite = values[np.isfinite(values)]
    strange = values.size - finite.size
    if strange:
        head += f", {strange:,} of {values.size:,} elements are infinite or not numbers"
    finite = np.abs(finite) if np.iscomplexobj(values) else finite
    if finite.size:
        low, high = float(finite.min()), float(finite.max())
        head += (
            f", all {low:g}"
            if low == high
            else f", from {low:.6g} to {high:.6g}, std {float(finite.std()):.4g}"
        )
    is_matrix = values.ndim > 1 and min(values.shape[-2:]) > 1 and not np.iscomplexobj(values)
    if strange or not is_matrix or not np.isfinite(values.std()) or not np.ptp(values):
        return [head]
    corner = values.reshape(-1, values.shape[-1])[:MAX_SIDE, :MAX_SIDE]
    singular = np.linalg.svd(corner, compute_uv=False)
    rank = np.count_nonzero(singular > 1e-5 * singular[0])  # the rounding of the coarsest dtypes
    part = f"{len(corner)} × {corner.shape[1]} of its elements are " * (
        corner.size < math.prod(sample.shape)
    )
    return (
        [head, f"{part}of rank {rank}, not {len(singular)}"] if 0 < rank < len(singular) else [head]
    )
