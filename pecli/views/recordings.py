"""Recorded runs and checked implementations as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pecli.checks.recorded.run_tensors import AFTER, BEFORE, layer_of
from pecli.errors import counted, listed, number
from pecli.views import screen
from pecli.views.check_results import VERDICTS, status_of
from pecli.views.text_table import print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pecli.checks.recorded.run_tensors import RecordedCall
    from pecli.engine.arrays import AnyArray, Array
    from pecli.live.implementation import ImplementationCheck
    from pecli.live.recording import Recording

MAX_SHAPES = 3
"""Shapes of a tensor in several calls that a cell lists."""
HEADS = ("place", "calls", "recorded", "shapes")


def show_recording(recording: Recording) -> None:
    """Print what was recorded: a line on the calls, then a row per layer or module."""
    calls = recording.calls
    screen.print_line(f"run of {recording.model_name}: {counted(len(calls), 'call')}")
    for index, call in enumerate(calls[:MAX_SHAPES]):
        screen.print_line(f"  call {index}: {_positions(call)}")
    if len(calls) > MAX_SHAPES:
        screen.print_line(f"  … and {counted(len(calls) - MAX_SHAPES, 'more call')}")
    rows = [_row(place, calls) for place in _places(calls)]
    if rows:
        print_table(HEADS, rows, indent="  ")


def _positions(call: RecordedCall) -> str:
    """Return the tokens of a call: «2 sequences of 12 tokens, positions 0 … 11»."""
    positions = call.positions
    if positions is None:
        return "positions unknown"
    batch, length = positions.shape[-2:]
    first = int(positions.min())
    last = int(positions.max())
    span = f"position {first}" if first == last else f"positions {first} … {last}"
    words = f"{counted(batch, 'sequence')} of {counted(length, 'token')}, {span}"
    if call.attention_mask is not None:
        padded = int((call.attention_mask == 0).sum())
        words += f", {padded} of padding"
    return words


def _places(calls: Sequence[RecordedCall]) -> list[str]:
    """Return where tensors were recorded, such as `layers.3`: modules first, then layers by number."""
    places: dict[str, None] = {}
    for call in calls:
        places |= dict.fromkeys(call.places())

    def layer_number(place: str) -> int:
        number = layer_of(place)
        return -1 if number is None else number

    return sorted(places, key=layer_number)


def _row(place: str, calls: Sequence[RecordedCall]) -> tuple[str, str, str, str]:
    """Return the cells of a layer or module: its name, its calls, its tensors and their shapes."""
    call_count = 0
    names: dict[str, None] = {}
    shapes: dict[str, None] = {}
    for call in calls:
        tensors = call.places().get(place)
        if tensors is not None:
            call_count += 1
            names |= dict.fromkeys(map(_label, tensors))
            shapes |= dict.fromkeys(map(_shape, _shown(tensors)))
    return place, str(call_count), ", ".join(names), listed([*shapes], MAX_SHAPES)


def _label(name: str) -> str:
    """Return how a row calls a tensor: `q_before` and `q_after` are both `q`."""
    return name.removesuffix(BEFORE).removesuffix(AFTER)


def _shown(tensors: dict[str, Array]) -> list[Array]:
    """Return the tensors whose shapes tell most: rotated vectors, or else all."""
    rotated = [array for name, array in tensors.items() if name.endswith(AFTER)]
    return rotated or [*tensors.values()]


def _shape(array: AnyArray) -> str:
    return f"{' × '.join(map(str, array.shape))} {array.dtype}"


def show_implementation(result: ImplementationCheck) -> None:
    """Print the verdict, a row per case, and the reasons for the first failure."""
    verdict = VERDICTS[status_of(result)]
    screen.print_labelled(*verdict, f"  {result.function}  against {result.model}")
    for reason in result.diagnosis:
        screen.print_wrapped(f"  {reason}")
    rows = []
    for case in result.cases:
        error = "not comparable"
        if case.max_abs_error is not None:
            error = f"max error {number(case.max_abs_error, 3)}"
        rows.append((case.name, VERDICTS[status_of(case)].text, error))
    print_table(("", "", ""), rows, indent="  ")
