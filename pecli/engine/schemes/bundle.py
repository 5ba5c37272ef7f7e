"""Several schemes in one file: a model with layers of several types, each with its own tables."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

from pecli.engine.named_values import JsonObject
from pecli.engine.schemes.parameters import ParameterRule
from pecli.engine.schemes.scheme import Scheme, holds_several
from pecli.engine.table import Table
from pecli.errors import KindError, ParameterError, quoted


class SchemesByName(ParameterRule):
    """Schemes, or their specs, by name."""

    rule = "it must be a mapping of names to schemes"

    def check(self, name: str, value: object) -> tuple[tuple[str, Scheme], ...]:
        """Return schemes with their names, such as the types of a model's layers, in order.

        A value may also be a spec, a scheme as a dict of its parameters, as files carry it.
        """
        if not isinstance(value, (Mapping, tuple)) or not value:
            raise KindError(name, quoted(value), self.rule)
        items = dict(value).items()  # A bundle itself has a tuple of pairs, as this returns it.
        parts = tuple((str(layer_type), _scheme_of(scheme)) for layer_type, scheme in items)
        if any(holds_several(scheme) for _, scheme in parts):
            raise ParameterError(name, "nested", "a bundle holds plain schemes")
        return parts


def _scheme_of(value: Any) -> Scheme:
    """Return a scheme as it is, or that of a spec."""
    return value if isinstance(value, Scheme) else Scheme.from_spec(value)


@dataclass(frozen=True, repr=False)
class Bundle(Scheme):
    """Schemes by name, such as the types of a model's layers; their tensors are called NAME.TENSOR.

    Args:
        parts: a mapping of names to schemes.
    """

    name = "layers"

    parts: Annotated[tuple[tuple[str, Scheme], ...], SchemesByName(help="schemes by name")]

    def spec(self) -> JsonObject:
        specs = {name: scheme.spec() for name, scheme in self.parts}
        return {"scheme": self.name, "parameters": {"parts": specs, "dtype": self.dtype}}

    def in_dtype(self, dtype: str) -> Self:
        parts = tuple((name, part.in_dtype(dtype)) for name, part in self.parts)
        return replace(self, parts=parts, dtype=dtype)

    def by_layer_type(self) -> tuple[tuple[str, Scheme], ...]:
        return self.parts

    @property
    def derived_tensors(self) -> frozenset[str]:
        """Return the derived tensors of all schemes, called NAME.TENSOR."""
        names: set[str] = set()
        for name, scheme in self.parts:
            names |= {f"{name}.{tensor}" for tensor in scheme.derived_tensors}
        return frozenset(names)

    def tensors(self) -> tuple[Table, ...]:
        """Return the tensors of all schemes, called NAME.TENSOR: sliding_attention.cos."""
        tables = []
        for name, scheme in self.parts:
            tables += [replace(table, name=f"{name}.{table.name}") for table in scheme.tensors()]
        return tuple(tables)

    def single_array(self) -> Table:
        """Raise ParameterError: no single array can stand for several schemes."""
        names = ", ".join(name for name, _ in self.parts)
        rule = f"one array holds the tables of one kind of layer, and the model has {names}"
        advice = "name one, or write .npz or .safetensors"
        raise ParameterError("layer_type", "missing", rule, advice)
