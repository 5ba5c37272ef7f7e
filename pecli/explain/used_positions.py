"""Which positions rotated queries and keys were rotated by, solved row by row, told in runs, and named.

The quotient of pairs after and before is a direction per row and frequency; at the position, all frequencies agree.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

import numpy as np

from pecli.engine.arrays import Array, Indices, widened
from pecli.engine.schemes.rope import Rope
from pecli.explain.edits import Edit, Explanation, Parameter, Positions
from pecli.explain.recipe_search import constructed
from pecli.explain.rotation import UNKNOWN, HeadRotation, Rotated, quotient, solve
from pecli.explain.sample import grain, rms
from pecli.explain.time_limit import limited

MIN_ERROR, MIN_COARSE_ERROR = (
    1e-3,
    0.02,
)  # of the values, by which a head is rotated wrongly; of 16 bits
SAMPLED_ROWS, MAX_HEADS = 128, 2  # that tell which heads are wrong, and by which positions
SHOWN_RUNS = 6
NARROW = ("int8", "uint8", "int16", "uint16")  # dtypes that positions overflow


def runs(places: Indices) -> str:
    """Positions as people write them: `0 × 9, then 0 … 14`."""
    parts: list[str] = []
    start = 0
    while start < len(places):
        stop, step = (
            start + 1,
            int(places[start + 1] - places[start]) if start + 1 < len(places) else 2,
        )
        while step in (0, 1) and stop < len(places) and places[stop] - places[stop - 1] == step:
            stop += 1
        if (
            step == 0
            and stop < len(places)
            and places[stop] == places[stop - 1] + 1
            and places[start] == 0
        ):
            stop -= 1  # the zero from which counting starts is not padding
        count, first = stop - start, int(places[start])
        if first == UNKNOWN:
            parts.append("unknown")
        elif step == 1:
            parts.append(f"{first:,} … {first + count - 1:,}")
        else:
            parts.append(f"{first:,} × {count:,}" if count > 1 else f"{first:,}")
        start = stop
    return ", then ".join([*parts[:SHOWN_RUNS], *["…"] * (len(parts) > SHOWN_RUNS)])


def situation(expected: Indices, used: Indices, padding: int = 0, *, rotated: bool = True) -> str:
    """What is wrong in one sequence, padding apart; empty where it is nothing that is known."""
    expected, used = expected[padding:], used[padding:]
    if not len(used) or (used == UNKNOWN).any():
        return ""
    if not np.ptp(expected) and not np.ptp(used) and len(used) > 1:  # a cache that is moved
        by, should = int(used[0]), int(expected[0])
        moved = {
            0: "it was not moved",
            2 * should: "it was moved twice",
            -should: "it was moved the other way",
        }
        other = (
            f"it was moved by {by:,}, not {should:,}"
            if should
            else f"B is A moved by {by:,} positions"
        )
        return (moved.get(by, other) if should else other) if by != should else ""
    by = int(used[-1] - expected[-1])
    steps, used_steps = np.diff(expected), np.diff(used)
    several, counts = len(used) > 1, (used_steps == 1).all()
    restarts = (used_steps < 0).any() and ((used_steps == 1) | (used[1:] == 0)).all()
    repeats = int((used == used[0]).sum())
    first = int((used != expected).argmax())
    since = f"from row {padding + first:,} on, " * (first > 0)
    differs = several and np.ptp(used) and (used != expected).any()
    reasons = {
        **{
            f"they overflow {dtype}": differs and (expected.astype(dtype) == used).all()
            for dtype in NARROW
        },
        f"they are clamped at {used.max():,}": differs
        and (np.minimum(expected, used.max()) == used).all(),
        "left padding is ignored": padding > 0 and counts and used[0] - expected[0] == padding,
        "nothing is rotated": rotated and not used.any(),
        "every row is at one position": several and not np.ptp(used) and np.ptp(expected),
        "the direction is reversed": (used == -expected).all(),
        "positions are not reset where a packed sequence begins": counts and (steps < 0).any(),
        "positions restart, as those of packed sequences": (steps == 1).all() and restarts,
        "each row has the position of the row before": several
        and np.array_equal(used, [expected[0], *expected[:-1]]),
        f"each position is given to {repeats:,} rows": repeats > 1
        and (used == expected // repeats).all(),
        f"{since}all {abs(by):,} too {'far' if by > 0 else 'low'}": by
        and (used - expected == by)[first:].all(),
    }
    return next((text for text, holds in reasons.items() if holds), "")


def explain_positions(
    before: Array,
    after: Array,
    plan: HeadRotation,
    places: Indices,
    seen: np.ndarray,
    atol: float,
    dtype: str,
) -> list[Explanation]:
    """Other positions that a sequence (heads, positions, channels) is rotated by; rows of padding are not `seen`."""
    with limited():
        shown = np.flatnonzero(seen)
        if not len(shown):
            return []
        some = shown[np.unique(np.linspace(0, len(shown) - 1, SAMPLED_ROWS).astype(np.intp))]
        x, y = widened(before[:, some]), widened(after[:, some])
        least = MIN_ERROR if grain(y) is None else MIN_COARSE_ERROR

        def wrong(plan: HeadRotation) -> Indices:
            off = y - plan.rotated(x, plan.waves(some))
            return np.flatnonzero(
                [rms(one) > least * rms(other) for one, other in zip(off, y, strict=True)]
            )

        heads = wrong(plan)
        if not len(heads):
            return []
        few = heads[:MAX_HEADS]
        both = Rotated(
            widened(before[few]),
            widened(after[few]),
            plan,
            atol,
            dtype,
            np.arange(before.shape[-2]),
        )
        for edit, other in _proposals(both, places, seen):
            made = other.rotated(both.before, other.waves(both.rows))
            left = both.errors(np.where(seen[:, None], made, both.after))
            found = [*both.judge.accepted([Explanation((edit,), None, ("after",), left)])]
            if not found or not {*heads}.isdisjoint(wrong(other)):
                continue
            if len(heads) < len(before):
                which = (
                    f"head {heads[0]}" if len(heads) == 1 else f"heads {', '.join(map(str, heads))}"
                )
                return [replace(found[0], tensors=(which,))]
            return found
    return []


def _proposals(
    both: Rotated, places: Indices, seen: np.ndarray
) -> Iterator[tuple[Edit, HeadRotation]]:
    """The positions that were used; for M-RoPE, sections that are interleaved or not."""
    plan = both.plan
    rope = plan.rope
    turned, _ = quotient(
        both.before, both.after, plan.channels(both.before.shape[-1]), plan.layouts
    )
    frequencies, owners = plan.frequencies(), np.array(rope.pair_axes)
    used, shift = np.array(places), np.zeros_like(places[0])
    for k in sorted(range(len(places)), key=lambda k: np.abs(frequencies[owners == k]).min()):
        used[k] = solve(turned[:, owners == k], frequencies[owners == k], places[k] + shift)
        shift = np.where(
            used[k] == UNKNOWN, 0, used[k] - places[k]
        )  # an axis of fast pairs alone is off as others are
    padding = int(seen.argmax())
    if (used == places)[:, seen].all():
        return
    others: list[tuple[str, Indices]] = []
    for dim in (
        {both.before.shape[-1] // by for by in (1, 2, 4)} - {rope.rotary_dim}
        if len(places) == 1
        else ()
    ):
        for other in (
            constructed(Rope, seq_len=1, dim=dim, base=rope.base) if rope.scaling == "none" else ()
        ):
            yield Parameter("dim", rope.rotary_dim, dim), replace(plan, rope=other)
    if len(places) > 1:
        switched = None if rope.mrope_interleaved else True
        other = replace(plan, rope=replace(rope, mrope_interleaved=switched))
        yield Parameter("mrope_interleaved", bool(rope.mrope_interleaved), bool(switched)), other
        orders = [*permutations(range(len(places)))][1:]
        others = [("1-D positions are given to M-RoPE", np.broadcast_to(used[:1], places.shape))]
        others += [(f"the axes are those of {order}", places[[*order]]) for order in orders]
    others.append((situation(places[0], used[0], padding), np.where(used == UNKNOWN, places, used)))
    for reason, rows in others:
        expected, found = ("; ".join(dict.fromkeys(map(runs, each))) for each in (places, rows))
        yield Positions(expected, found, reason), replace(plan, places=rows)
