"""What a scheme is: parameters, checked when it is made, from which its tables follow."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, get_args, get_type_hints

from pecli.engine.arrays import Array
from pecli.engine.numerics.dtypes import KINDS
from pecli.engine.schemes.parameters import Choice, Parameter, Whole
from pecli.engine.text import nearest
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.engine.table import Table


_ROWS = Whole(help="rows of a block")


def unset() -> Any:
    """The default of a field that something else may fill in: a style, or the parameter's own default."""
    return field(default=None)


class _ByAlias(ABCMeta):
    """Classes whose parameters may be given by their options' other names, such as `theta` for `base`."""

    def __call__(cls, *args: Any, **given: Any) -> Any:
        return super().__call__(*args, **cls.by_own_names(given) if given else given)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Scheme(metaclass=_ByAlias):
    """A positional encoding with all its parameters.

    A subclass is a frozen dataclass whose fields are annotated with a `Parameter` each; everything else (checks, the
    saved spec, command-line options) derives from those.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    examples: ClassVar[tuple[str, ...]]
    presets: ClassVar[Mapping[str, Parameter]] = {}
    """Words that stand for several parameters at once; they leave no trace in the spec."""

    dtype: Annotated[str, Choice(help="type of the numbers", options=tuple(KINDS))] = field(
        default="float32", kw_only=True
    )

    def __post_init__(self) -> None:
        self._settle({})

    def _settle(self, preset: Mapping[str, Any]) -> None:
        """Fill in what was not given, from the preset first, and check every value."""
        for name, parameter in self.parameters().items():
            value = getattr(self, name)
            if value is None:
                value = preset.get(name, parameter.default)
            if value is not None:
                value = parameter.check(name, value)
            elif name not in self._optional():
                raise ParameterError(name, "missing", parameter.rule)
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        """Rules that concern several parameters."""

    @classmethod
    @cache
    def parameters(cls) -> dict[str, Parameter]:
        """The parameters by name, in order; `dtype` comes last."""
        hints = get_type_hints(cls, include_extras=True)
        names = [f.name for f in fields(cls)]
        names.sort(key=lambda name: name == "dtype")
        found = {}
        for name in names:
            (found[name],) = (extra for extra in get_args(hints[name]) if isinstance(extra, Parameter))
        return found

    @classmethod
    def settings(cls) -> dict[str, Parameter]:
        """All that may be given: the parameters, and the words that stand for several of them."""
        return {**cls.parameters(), **cls.presets}

    @classmethod
    def by_own_names(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Values by the names of the parameters, where some are given by an alias."""
        if given.keys() <= cls.settings().keys():
            return dict(given)
        found: dict[str, Any] = {}
        known = {alias.lstrip("-").replace("-", "_"): name for name, p in cls.settings().items() for alias in p.aliases}
        for key, value in given.items():
            name = known.get(key, key)
            if name in found or (name != key and name in given):
                raise ParameterError(key, f"given beside {name}", "they are one parameter", "leave one out")
            found[name] = value
        return found

    @classmethod
    def default_of(cls, name: str) -> Any:
        """What counts for a setting that is not given; MISSING where it has to be."""
        own = {f.name: f.default for f in fields(cls)}.get(name)
        return cls.settings()[name].default if own is None else own

    @classmethod
    @cache
    def _optional(cls) -> frozenset[str]:
        """Parameters that may be absent altogether."""
        hints = get_type_hints(cls)
        return frozenset(f.name for f in fields(cls) if type(None) in get_args(hints[f.name]))

    def spec(self) -> dict[str, Any]:
        """The scheme as plain data; `from_spec` makes it again."""
        values = {name: getattr(self, name) for name in self.parameters()}
        said = {name: value for name, value in values.items() if value is None or value != self._unsaid(name)}
        return {"scheme": self.name, "parameters": said}

    @classmethod
    def _unsaid(cls, name: str) -> Any:
        """The value of a parameter that goes without saying; None where there is no such."""
        return cls.parameters()[name].unsaid

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> Self:
        """The scheme of a spec. `Scheme.from_spec` finds the class by the spec's `scheme`."""
        from pecli.engine.schemes.registry import scheme_named

        if not isinstance(spec, Mapping):
            raise ParameterError("spec", repr(spec), "it must be a mapping with scheme and parameters")
        name, parameters = spec.get("scheme"), spec.get("parameters")
        kind = scheme_named(name)
        if not issubclass(kind, cls):
            raise ParameterError("scheme", repr(name), f"it must be {cls.name}")
        if not isinstance(parameters, Mapping):
            raise ParameterError("parameters", repr(parameters), "they must be a mapping of names to values")
        for key in parameters:
            if key not in kind.parameters():
                raise ParameterError(
                    str(key), "unknown", f"{name} has no such parameter", nearest(key, kind.parameters())
                )
        for key in kind.parameters():
            if key not in parameters and kind._unsaid(key) is None:
                raise ParameterError(key, "missing", f"a spec of {name} names every parameter")
        return kind(**parameters)

    @property
    def idle(self) -> frozenset[str]:
        """Parameters that change nothing beside the others: commands leave them out, a spec has them all the same."""
        return frozenset()

    @property
    def byproducts(self) -> frozenset[str]:
        """Tensors that follow from the others; a file from elsewhere may lack them."""
        return frozenset()

    @abstractmethod
    def tensors(self) -> tuple[Table, ...]:
        """The tensors of the scheme, made on demand."""

    def plain(self) -> Table:
        """The one tensor that stands for the scheme in files that hold a single array."""
        return self.tensors()[0]

    def tables(self) -> dict[str, Array]:
        """All tensors in memory, by name."""
        return {table.name: table.array() for table in self.tensors()}

    def blocks(self, name: str | None = None, rows: int | None = None) -> Iterator[Array]:
        """A tensor some rows at a time; without a name, the first. Whatever the size of the blocks, the values are
        the same. Rows are the last axis: heads and queries are run through in order, and a vector comes in vectors.
        """
        by_name = {table.name: table for table in self.tensors()}
        if name is not None and name not in by_name:
            raise ParameterError("name", repr(name), f"it must be one of {', '.join(by_name)}")
        table = by_name[name] if name else self.tensors()[0]
        blocks = table.blocks(None if rows is None else _ROWS.check("rows", rows))
        return blocks if len(table.shape) > 1 else (block.reshape(-1) for block in blocks)
