"""How far a table may be off and still pass."""

from dataclasses import dataclass, replace

from pecli.engine.schemes.parameters import Real, Whole
from pecli.errors import KindError, ParameterError
from pecli.files.tensor_roles import role_of

MAX_ULP = Whole(help="units of the last place", low=0, high=2**63)
ERROR = Real(help="an error", at_least=0)
DRIFT = (
    1e-3  #: the absolute error that an audit lets a context have, unless it is asked for another
)
FREQ_RTOL = 1e-5  #: the relative error of a frequency that float32 arithmetic stays within; mistakes are larger by far
RELATIVE = (
    "inv_freq",
    "slopes",
)  #: tensors of such small values that an absolute error says nothing of them


@dataclass(frozen=True)
class Tolerance:
    """An element passes if it is within `max_ulp` units of the last place, or within atol + rtol·|expected|.

    Frequencies and slopes (`inv_freq`, `slopes`) are judged relatively: `atol` does not apply to them. Where any
    tolerance is given they pass within `freq_rtol`, which is `rtol` or else 1e-5.
    """

    max_ulp: int = 0
    atol: float = 0.0
    rtol: float = 0.0
    freq_rtol: float | None = None

    def __post_init__(self) -> None:
        rules = {"max_ulp": MAX_ULP, "atol": ERROR, "rtol": ERROR, "freq_rtol": ERROR}
        for name, rule in rules.items():
            if name != "freq_rtol" or self.freq_rtol is not None:
                object.__setattr__(self, name, rule.check(name, getattr(self, name)))

    def against_model(self) -> "Tolerance":
        """The same where a model is the spec: its runtime computes frequencies in float32."""
        return (
            self if self.freq_rtol is not None else replace(self, freq_rtol=self.rtol or FREQ_RTOL)
        )

    def for_tensor(self, *names: str) -> "Tolerance":
        """What applies to a tensor that goes by these names.

        >>> Tolerance(atol=1e-3).for_tensor("rotary_emb.inv_freq")
        Tolerance(max_ulp=0, atol=0.0, rtol=1e-05, freq_rtol=None)
        """
        if not is_relative(*names):
            return self
        rtol = self.freq_rtol
        if rtol is None:
            rtol = self.rtol or (FREQ_RTOL if self.max_ulp or self.atol else 0.0)
        return Tolerance(self.max_ulp, 0.0, rtol)


EXACT = Tolerance()  #: no error at all


def is_relative(*names: str) -> bool:
    """Whether a tensor that goes by these names is judged relatively."""
    return any(role_of(name) in RELATIVE for name in names)


def tolerance_of(
    tolerance: Tolerance | None, max_ulp: int | None, atol: float | None, rtol: float | None
) -> Tolerance:
    """The tolerance that a Python function was given: one object, or by keywords."""
    given = {"max_ulp": max_ulp, "atol": atol, "rtol": rtol}
    given = {name: value for name, value in given.items() if value is not None}
    if tolerance is None:
        return Tolerance(**given)  # type: ignore[arg-type]
    if not isinstance(tolerance, Tolerance):
        raise KindError(
            "tolerance", repr(tolerance), "it must be a Tolerance", "such as Tolerance(atol=1e-6)"
        )
    if given:
        raise ParameterError(
            next(iter(given)), "given beside tolerance", "they say the same", "leave one out"
        )
    return tolerance
