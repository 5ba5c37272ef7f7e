"""Recorded runs and checked implementations as text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from pecli.checks.recorded.run_tensors import AFTER, BEFORE, RecordedCall, layer_of
from pecli.engine.arrays import AnyArray, Array
from pecli.errors import counted, listed, number
from pecli.live.implementation import ImplementationCheck
from pecli.live.recording import Recording
from pecli.views import screen
from pecli.views.check_results import VERDICTS, status_of
from pecli.views.text_table import print_table

TensorsByModule = dict[str, dict[str, Array]]

MAX_SHAPES = 3
"""Shapes of a tensor in several calls that a cell lists."""
HEADS = ("place", "calls", "recorded", "shapes")


def show_recording(recording: Recording) -> None:
    """Print what was recorded of a model's run: the first calls, then a row per layer or module."""
    calls = recording.calls
    screen.print_line(f"run of {recording.model_name}: {counted(len(calls), 'call')}")
    for index, call in enumerate(calls[:MAX_SHAPES]):
        screen.print_line(f"  call {index}: {_call_in_words(call)}")
    if len(calls) > MAX_SHAPES:
        screen.print_line(f"  … and {counted(len(calls) - MAX_SHAPES, 'more call')}")
    tensors_by_call = [call.places() for call in calls]
    rows = [_row(module, tensors_by_call) for module in _recorded_modules(tensors_by_call)]
    if rows:
        print_table(HEADS, rows, indent="  ")


def _call_in_words(call: RecordedCall) -> str:
    """Return the tokens of a call: «2 sequences of 12 tokens, positions 0 … 11»."""
    positions = call.positions
    if positions is None:
        return "positions unknown"
    sequence_count, length = positions.shape[-2:]
    first = int(positions.min())
    last = int(positions.max())
    span = f"position {first}" if first == last else f"positions {first} … {last}"
    words = f"{counted(sequence_count, 'sequence')} of {counted(length, 'token')}, {span}"
    if call.attention_mask is not None:
        padding = int((call.attention_mask == 0).sum())
        words += f", {padding} of padding"
    return words


def _recorded_modules(recorded: Sequence[TensorsByModule]) -> list[str]:
    """Return the layers and modules of which tensors were recorded, such as `layers.3`.

    Modules outside of layers come first, then layers by their numbers.
    """
    modules = dict.fromkeys(chain.from_iterable(recorded))

    def layer_number(module: str) -> int:
        number = layer_of(module)
        return -1 if number is None else number

    return sorted(modules, key=layer_number)


def _row(module: str, recorded: Sequence[TensorsByModule]) -> tuple[str, str, str, str]:
    """Return the cells of a layer or module: its name, its calls, its tensors and their shapes."""
    calls = [tensors[module] for tensors in recorded if module in tensors]
    names: dict[str, None] = {}
    shapes: dict[str, None] = {}
    for tensors in calls:
        names |= dict.fromkeys(map(_label, tensors))
        shapes |= dict.fromkeys(map(_shape, _shown(tensors)))
    return module, str(len(calls)), ", ".join(names), listed([*shapes], MAX_SHAPES)


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
