"""Several schemes in one file: a model whose layers come in kinds, each with tables of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

from pecli.engine.schemes import Parameter
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table
from pecli.errors import KindError, ParameterError


class Parts(Parameter):
    """Schemes by name."""

    rule = "it must be a mapping of names to schemes"

    def check(self, name: str, value: Any) -> tuple[tuple[str, Scheme], ...]:
        if not isinstance(value, (Mapping, tuple)) or not value:
            raise KindError(name, repr(value)[:60], self.rule)
        pairs = value.items() if isinstance(value, Mapping) else value
        parts = [
            (str(key), each if isinstance(each, Scheme) else Scheme.from_spec(each))
            for key, each in pairs
        ]
        if any(part.holds_several for _, part in parts):
            raise ParameterError(name, "nested", "a bundle holds plain schemes")
        return tuple(parts)


@dataclass(frozen=True, repr=False)
class Bundle(Scheme):
    """Schemes by name; their tensors are called NAME.TENSOR."""

    name = "layers"
    holds_several = True

    parts: Annotated[tuple[tuple[str, Scheme], ...], Parts(help="schemes by name")]

    def spec(self) -> dict[str, Any]:
        specs = {name: scheme.spec() for name, scheme in self.parts}
        return {"scheme": self.name, "parameters": {"parts": specs, "dtype": self.dtype}}

    def in_dtype(self, dtype: str) -> Self:
        return replace(
            self,
            parts=tuple((name, part.in_dtype(dtype)) for name, part in self.parts),
            dtype=dtype,
        )

    def named_parts(self) -> tuple[tuple[str, Scheme], ...]:
        return self.parts

    @property
    def derived_tensors(self) -> frozenset[str]:
        return frozenset(
            f"{name}.{each}" for name, scheme in self.parts for each in scheme.derived_tensors
        )

    def tensors(self) -> tuple[Table, ...]:
        tables = ((name, table) for name, scheme in self.parts for table in scheme.tensors())
        return tuple(replace(table, name=f"{name}.{table.name}") for name, table in tables)

    def single_array(self) -> Table:
        names = ", ".join(name for name, _ in self.parts)
        rule = f"one array holds the tables of one kind of layer, and the model has {names}"
        raise ParameterError(
            "layer_type", "missing", rule, "name one, or write .npz or .safetensors"
        )
