"""Logs as llama.cpp's `llama-eval-callback` writes them, by the loops and formats of its source."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Queries = NDArray[np.float32]  # (tokens, heads, D)

INDENT = " " * 37
"""The blanks before the elements of a tensor; lists within them have one or two more."""
BEGINNING_OF_TOKEN = f"{INDENT} ["
BEGINNING_OF_HEAD = f"{INDENT}  ["


def printed_indices(length: int, edge: int) -> Iterator[int | None]:
    """Yield the indices that are printed of an axis, and None for dots.

    In C: `if (i == n && ne > 2 * n) { print dots; i = ne - n; }`.
    """
    index = 0
    while index < length:
        if index == edge and length > 2 * edge:
            yield None
            index = length - edge
        yield index
        index += 1


def block(tensor: Queries, edge: int) -> str:
    """Return the elements of a tensor."""
    lines = [f"{INDENT}["]
    for token in printed_indices(tensor.shape[0], edge):
        if token is None:
            lines.append(f"{INDENT} ..., ")
            continue
        lines.append(BEGINNING_OF_TOKEN)
        for head in printed_indices(tensor.shape[1], edge):
            lines.append(f"{INDENT}  ..., " if head is None else row(tensor[token, head], edge))
        lines.append(f"{INDENT} ],")
    lines += [f"{INDENT}]", f"{INDENT}sum = {tensor.sum():.6f}"]
    return "\n".join(lines)


def row(channels: Queries, edge: int) -> str:
    cells = []
    for channel in printed_indices(len(channels), edge):
        if channel is None:
            cells.append("..., ")
        else:
            comma = ", " if channel < len(channels) - 1 else ""
            cells.append(f"{channels[channel]:12.4f}{comma}")
    return f"{BEGINNING_OF_HEAD}{''.join(cells)}],"


def operation(name: str, kind: str, source: str, tensor: Queries, edge: int) -> str:
    """Return an operation: its line, and the elements of its result."""
    sides = ", ".join(map(str, (*tensor.shape[::-1], 1)))
    head = f"ggml_debug: {name:>24} = (f32) {kind:>10}({source}{{{sides}}}, x{{1, 1, 1, 1}}}})"
    return f"{head} = {{{sides}}}\n{block(tensor, edge)}\n"


def eval_callback_log(
    before: dict[str, Queries], after: dict[str, Queries], *, edge: int = 3
) -> str:
    """Return the log of a run: for each name, such as `Qcur-0`, a product, its heads, and its ROPE."""
    lines = [
        "llama_model_loader: - kv  22:  gpt-oss.expert_feed_forward_length u32  = 2880",
        "system_info: n_threads = 8 | CPU : SSE3 = 1 | ... \n",
    ]
    text = "\n".join(lines)
    for name, heads in before.items():
        folded = heads.reshape(len(heads), 1, -1).swapaxes(0, 1)
        text += operation(name, "MUL_MAT", "blk.0.attn_q.weight", folded, edge)
        text += operation(f"{name} (reshaped)", "RESHAPE", name, heads, edge)
        text += operation(name, "ROPE", f"{name} (reshaped)", after[name], edge)
    return text
