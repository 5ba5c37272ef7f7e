"""A recorded run of a model, and the names under which a file holds it.

A call of a model is one forward pass; `generate` makes many. The tensors of call 0 are, for
example:

    calls.0.positions                 (batch, L): where the tokens stand
    calls.0.attention_mask            (batch, L): 0 for padding, if there is any
    calls.0.position_ids              the ids that the model's own code used
    calls.0.model.rotary_emb.cos      a table that a module returned; also sin, inv_freq
    calls.0.model.layers.3.q_before   (batch, heads, L, D); also q_after, k_before, k_after
    calls.0.transformer.wpe.rows      rows of a learned table that were added
    transformer.wpe.weight            that table
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from pecli.engine.arrays import Array

POSITIONS = "positions"
MASK = "attention_mask"
USED_IDS = "position_ids"
UNROTATED = "unrotated_layers"
BEFORE = "_before"
AFTER = "_after"
ROWS = "rows"

_CALL = re.compile(r"calls\.(?P<number>\d{1,9})\.(?P<name>.+)")
_POSITIONS_OF_CALL = re.compile(rf"calls\.\d{{1,9}}\.{POSITIONS}")
_LAYERS = (
    re.compile(r"(?:layers?|blocks?|blk|(?<![a-z0-9])[hl])[._-]?(\d{1,6})", re.IGNORECASE),
    re.compile(r"(?:^|\.)(\d{1,6})(?=\.|$)"),
)
"""The number of a layer in the name of a module: after a word for layers, `model.layers.3`, or else
a number of its own, `stack.3`."""
_CALL_FIELDS = (POSITIONS, MASK, USED_IDS, UNROTATED)


@dataclass
class RecordedCall:
    """The tensors of one call of a model.

    Attributes:
        positions: The positions of the tokens, (batch, L) or (axes, batch, L); None if not known.
        attention_mask: 0 for padding, (batch, L), if positions count only tokens.
        position_ids: The ids that the model's own code used, if they were seen.
        unrotated_layers: Numbers of the layers whose attention ran without a rotation, though that
            of other layers rotates.
        tensors: The other tensors by module and role, such as `model.layers.3.q_after`.
    """

    positions: Array | None = None
    attention_mask: Array | None = None
    position_ids: Array | None = None
    unrotated_layers: tuple[int, ...] = ()
    tensors: dict[str, Array] = field(default_factory=dict)

    @property
    def length(self) -> int | None:
        """The number of tokens per sequence; None if it is not known."""
        return None if self.positions is None else int(self.positions.shape[-1])

    def places(self) -> dict[str, dict[str, Array]]:
        """Return the tensors of each module by role: `{"model.layers.3": {"q_after": …}, …}`."""
        by_module: dict[str, dict[str, Array]] = {}
        for name, array in self.tensors.items():
            module, _, role = name.rpartition(".")
            by_module.setdefault(module, {})[role] = array
        return by_module

    def named(self) -> Iterator[tuple[str, Array]]:
        """Yield all tensors with their names within the call: `positions`, `model.layers.3.q_after`."""
        for name, array in (
            (POSITIONS, self.positions),
            (MASK, self.attention_mask),
            (USED_IDS, self.position_ids),
        ):
            if array is not None:
                yield name, array
        if self.unrotated_layers:
            yield UNROTATED, np.array(self.unrotated_layers, np.int64)
        yield from self.tensors.items()


@dataclass
class RecordedRun:
    """The calls of a model, and the learned tables whose rows they added, by module."""

    calls: list[RecordedCall] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)

    def named(self) -> dict[str, Array]:
        """Return all tensors with the names that they have in a file."""
        tensors = {f"{module}.weight": weight for module, weight in self.weights.items()}
        for number, call in enumerate(self.calls):
            for name, array in call.named():
                tensors[f"calls.{number}.{name}"] = array
        return tensors

    @classmethod
    def of(cls, tensors: Mapping[str, Array]) -> "RecordedRun":
        """Return the run whose tensors have these names in a file, the calls in order of their numbers.

        `calls.0.positions` is the tensor `positions` of the first call, and `transformer.wpe.weight`
        the learned table of the module `transformer.wpe`. Other names are ignored.
        """
        tensors_by_call: dict[int, dict[str, Array]] = {}
        weights: dict[str, Array] = {}
        for name, array in tensors.items():
            in_call = _CALL.fullmatch(name)
            if in_call is not None:
                tensors_of_call = tensors_by_call.setdefault(int(in_call["number"]), {})
                tensors_of_call[in_call["name"]] = array
            elif name.endswith(".weight"):
                module = name.removesuffix(".weight")
                weights[module] = array
        calls = [_call_of(tensors_by_call[number]) for number in sorted(tensors_by_call)]
        return cls(calls, weights)


def _call_of(tensors: Mapping[str, Array]) -> RecordedCall:
    """Return the call whose tensors have these names within it: `positions`, `model.layers.3.q_after`."""
    unrotated = tensors.get(UNROTATED, np.empty(0, np.int64))
    return RecordedCall(
        positions=tensors.get(POSITIONS),
        attention_mask=tensors.get(MASK),
        position_ids=tensors.get(USED_IDS),
        unrotated_layers=tuple(map(int, unrotated.ravel())),
        tensors={name: array for name, array in tensors.items() if name not in _CALL_FIELDS},
    )


def is_recorded_run(names: Iterable[str]) -> bool:
    """Return True if tensors with these names are a recorded run."""
    return any(map(_POSITIONS_OF_CALL.fullmatch, names))


def layer_of(module: str) -> int | None:
    """Return the number of the layer that a module is in, or None.

    >>> layer_of("model.layers.3.self_attn"), layer_of("stack.5.rope"), layer_of("rotary_emb")
    (3, 5, None)
    """
    match = _layer_match(module)
    return None if match is None else int(match[1])


def layer_name(module: str) -> str:
    """Return the name of a layer up to its number; the whole path of a module that is in no layer.

    >>> layer_name("model.layers.3.self_attn")
    'model.layers.3'
    """
    match = _layer_match(module)
    return module if match is None else module[: match.end()]


def _layer_match(module: str) -> re.Match[str] | None:
    after_word, of_its_own = _LAYERS
    return after_word.search(module) or of_its_own.search(module)
