"""Learned tables before learning: the initial values that frameworks give them, reproducible everywhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from pecli.engine.schemes import Choice, Real, Whole
from pecli.engine.schemes.positions import LAST_POSITION
from pecli.engine.schemes.scheme import Neighbour, Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.engine.table import ByPosition, Table

_DRAWN = frozenset({"std", "seed", "rng"})
_INERT = {"xavier-uniform": frozenset({"std"}), "zeros": _DRAWN, "sinusoidal": _DRAWN}
"""What makes no difference to some ways to begin."""


@dataclass(frozen=True)
class LearnedInit(Scheme):
    """The initial weights of a learned positional embedding.

    >>> LearnedInit(max_len=2, dim=2, init="zeros").tables()["weight"].tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """

    name = "learned-init"
    summary = "Make, show or check the initial weights of a learned table."
    examples = (
        "pecli learned-init --max-len 1024 --dim 768 -o wpe.safetensors",
        "pecli learned-init --max-len 512 --dim 768 --init trunc-normal -o pos.npy",
        "pecli learned-init --max-len 64 --dim 8 --rng torch --verify w.npy --max-ulp 4",
    )

    max_len: Annotated[int, Whole(help="rows of the table", high=LAST_POSITION)]
    dim: Annotated[int, Whole(help="channels of a row", high=65536)]
    init: Annotated[
        str,
        Choice(
            help="trunc-normal is cut at ±2 std; uniform has that std; the last three have none",
            options=("normal", "trunc-normal", "uniform", "xavier-uniform", "zeros", "sinusoidal"),
        ),
    ] = "normal"
    std: Annotated[float, Real(help="standard deviation", above=0, up_to=1e30)] = 0.02
    seed: Annotated[int, Whole(help="seed of the random numbers", low=0, high=2**64 - 1)] = 0
    rng: Annotated[
        str,
        Choice(
            help="pecli's own generator, torch's on the CPU, or torch's on x86 with AVX2",
            options=("pecli", "torch", "torch-avx2"),
        ),
    ] = "pecli"

    def _check(self) -> None:
        if self.init == "trunc-normal" and self.rng != "pecli":
            raise ParameterError("init", repr(self.init), f"`rng` {self.rng} does not offer it", "take `rng` pecli")

    @property
    def inert_parameters(self) -> frozenset[str]:
        return _INERT.get(self.init, frozenset())

    def tensors(self) -> tuple[Table, ...]:
        if self.init == "sinusoidal":
            (table,) = Sinusoidal(self.max_len, self.dim, dtype=self.dtype).tensors()
            return (replace(table, name="weight"),)
        from pecli.engine.schemes.learned_tables import InitialWeights

        drawn = InitialWeights(self.max_len, self.dim, self.init, self.std, self.seed, self.rng, self.dtype)
        return (drawn.table(),)

    @classmethod
    def recipe_names(cls) -> tuple[str, ...]:
        return ()

    def by_position(self) -> ByPosition:
        raise ParameterError("the scheme", repr(self.name), "it has no recipes: its numbers are random, not computed")

    def neighbours(self) -> tuple[Neighbour, ...]:
        """The other generator, the first seed, another std."""
        changes = ({"seed": 0}, {"std": 0.02}, {"rng": "torch" if self.rng == "pecli" else "pecli"})
        drawn = (self.neighbour(**each) for each in changes if not self.inert_parameters & {*each})
        return tuple(filter(None, drawn))
