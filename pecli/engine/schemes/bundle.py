"""Several schemes in one file: a model whose layers come in kinds, each with tables of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from pecli.engine.schemes.parameters import Parameter
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import KindError, ParameterError

if TYPE_CHECKING:
    from pecli.engine.table import Table


class Parts(Parameter):
    """Schemes by name."""

    rule = "it must be a mapping of names to schemes"

    def check(self, name: str, value: Any) -> tuple[tuple[str, Scheme], ...]:
        pairs = value.items() if isinstance(value, Mapping) else value
        if not isinstance(value, (Mapping, tuple)) or not value:
            raise KindError(name, repr(value)[:60], self.rule)
        return tuple((str(key), self._scheme(each)) for key, each in pairs)

    def _scheme(self, value: Any) -> Scheme:
        found: Scheme = value if isinstance(value, Scheme) else Scheme.from_spec(value)
        if isinstance(found, Bundle):
            raise ParameterError("parts", "nested", "a bundle holds plain schemes")
        return found


@dataclass(frozen=True)
class Bundle(Scheme):
    """Schemes by name; their tensors are called NAME.TENSOR."""

    name = "layers"
    summary = "The tables of all kinds of layers of a model."
    examples = ()

    parts: Annotated[tuple[tuple[str, Scheme], ...], Parts(help="schemes by name")]

    def spec(self) -> dict[str, Any]:
        specs = {name: scheme.spec() for name, scheme in self.parts}
        return {"scheme": self.name, "parameters": {"parts": specs, "dtype": self.dtype}}

    @property
    def derived_tensors(self) -> frozenset[str]:
        return frozenset(f"{name}.{each}" for name, scheme in self.parts for each in scheme.derived_tensors)

    def tensors(self) -> tuple[Table, ...]:
        return tuple(
            replace(table, name=f"{name}.{table.name}") for name, scheme in self.parts for table in scheme.tensors()
        )

    def single_array(self) -> Table:
        names = ", ".join(name for name, _ in self.parts)
        rule = f"one array holds the tables of one kind of layer, and the model has {names}"
        raise ParameterError("layer_type", "missing", rule, "name one, or write .npz or .safetensors")
