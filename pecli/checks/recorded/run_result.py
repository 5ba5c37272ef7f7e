"""The answer for a recorded run, which views show without importing all that computes it."""

from dataclasses import dataclass

from pecli.checks.verification import Verification
from pecli.engine.named_values import JsonObject


@dataclass(frozen=True, repr=False)
class RunVerification(Verification):
    """The answer for a recorded run.

    Attributes:
        first_place: The first layer that is wrong, as the model names it, such as `model.layers.3`;
            empty if none is.
        wrong_layers: The numbers of all layers that are wrong.
    """

    first_place: str = ""
    wrong_layers: tuple[int, ...] = ()

    def as_json(self) -> JsonObject:
        fields = super().as_json()
        fields["first_place"] = self.first_place
        fields["wrong_layers"] = list(self.wrong_layers)
        return fields
