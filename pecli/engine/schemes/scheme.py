"""What a scheme is: parameters, checked when it is made, from which its tables follow."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, MISSING, dataclass, fields, replace
from functools import cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    Self,
    get_args,
    get_type_hints,
)

import numpy as np

from pecli.display import Displayed
from pecli.engine.arrays import SIGNIFICAND_BITS, Array, ArrayLike
from pecli.engine.schemes import STORED, Choice, Dtype, Parameter, Whole, recipe_named, scheme_named
from pecli.engine.table import ByPosition, Table
from pecli.errors import ParameterError, bracketed, nearest, spelled

if TYPE_CHECKING:
    from pecli.engine.schemes.grid_styles import GridStyle


class Axes(NamedTuple):
    """What the axes of a tensor mean."""

    names: tuple[str, ...]  #: a word for each axis: position, channel, pair, head, query, key
    first: int = 0  #: the position of the first row
    value: str = "value"  #: what the elements are: value, cosine, sine, bias, slope, frequency
    step: int = 1  #: columns from one pair of channels to the next


UNSET: Any = None  #: the default of a field that something else may fill in: a style, or the parameter's own default


@dataclass(frozen=True, repr=False)
class Scheme(Displayed, ABC):
    """A positional encoding with all its parameters.

    A subclass is a frozen dataclass whose fields are annotated with a `Parameter` each; checks, the saved spec and
    command-line options derive from those. Besides, it answers what others ask of a scheme, so that nobody asks which
    one it is. Only `tensors` has to be written; the rest serves a scheme with one table (positions, channels).
    """

    name: ClassVar[str]
    applied_as: ClassVar[str] = "rows"
    """How it is applied: rows added to the input, a rotation of it, or a bias on attention scores."""
    former_parameters: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Parameters that specs of earlier versions name, with the value that is still what it does."""
    holds_several: ClassVar[bool] = (
        False  #: whether it holds schemes of which no single array can stand for all
    )

    _: KW_ONLY
    dtype: Annotated[str, Dtype("type of the numbers", options=tuple(SIGNIFICAND_BITS))] = "float32"

    def __post_init__(self) -> None:
        self._complete({})

    def _check_first(self, *names: str) -> None:
        for name in names:  # on which others depend
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, self.parameters()[name].check(name, value))

    def _complete(self, preset: Mapping[str, Any]) -> None:
        """Fill in what was not given, from the preset first, and check every value."""
        for name, parameter in self.parameters().items():
            value = getattr(self, name)
            if value is None:
                value = preset.get(
                    name, None if parameter.default is MISSING else parameter.default
                )
            if value is not None:
                value = parameter.check(name, value)
            elif name not in self._optional():
                raise ParameterError(name, "missing", parameter.rule)
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        """Rules that concern several parameters."""

    def wrong(self, name: str, rule: str, advice: str = "") -> ParameterError:
        value = getattr(self, name)
        given = (
            repr(value)
            if isinstance(value, str)
            else "missing"
            if value is None
            else spelled(value)
        )
        given = f"of shape {bracketed(value.shape)}" if hasattr(value, "shape") else given
        return ParameterError(name, given, rule, advice)

    def refuse_if(self, wrong: object, name: str, rule: str, advice: str = "") -> None:
        if wrong:
            raise self.wrong(name, rule, advice)

    @classmethod
    @cache
    def parameters(cls) -> dict[str, Parameter]:
        """The parameters by name, in order: those of keywords alone after the others, and `dtype` last."""
        hints = get_type_hints(cls, include_extras=True)
        parameters = {}
        for field in sorted(
            fields(cls), key=lambda f: (f.name == "dtype", f.kw_only, f.name == "recipe")
        ):
            (parameters[field.name],) = (
                extra for extra in get_args(hints[field.name]) if isinstance(extra, Parameter)
            )
        return parameters

    @classmethod
    @cache
    def parameter_of_alias(cls) -> dict[str, str]:
        """The other names of parameters in Python, and the parameters."""
        aliases = (
            (alias, name)
            for name, parameter in cls.parameters().items()
            for alias in parameter.aliases
        )
        return {alias.lstrip("-").replace("-", "_"): name for alias, name in aliases}

    @classmethod
    def by_own_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values by the names of the parameters, where some are given by an alias."""
        named, aliases = dict[str, Any](), cls.parameter_of_alias()
        for key, value in values.items():
            name = aliases.get(key, key)
            if name in named or (name != key and name in values):
                raise ParameterError(
                    key, f"given beside {name}", "they are one parameter", "leave one out"
                )
            named[name] = value
        return named

    def __repr__(self) -> str:
        values = {name: getattr(self, name) for name in self.parameters()}
        said = [
            f"{name}={value!r}" for name, value in values.items() if value != self.default_of(name)
        ]
        return f"{type(self).__name__}({', '.join(said)})"

    @classmethod
    def default_of(cls, name: str) -> Any:
        """What counts for a parameter that is not given; MISSING where it has to be."""
        own = {f.name: f.default for f in fields(cls)}.get(name)
        return cls.parameters()[name].default if own is None else own

    @classmethod
    @cache
    def _optional(cls) -> frozenset[str]:
        hints = get_type_hints(cls)
        return frozenset(f.name for f in fields(cls) if type(None) in get_args(hints[f.name]))

    def spec(self) -> dict[str, Any]:
        """The scheme as plain data; `from_spec` makes it again."""
        omitted = {name: each.omitted_default for name, each in self.parameters().items()}
        said = {
            name: getattr(self, name) for name in omitted if getattr(self, name) != omitted[name]
        }
        return {"scheme": self.name, "parameters": said}

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> Self:
        """The scheme of a spec. `Scheme.from_spec` finds the class by the spec's `scheme`."""
        if not isinstance(spec, Mapping):
            raise ParameterError(
                "spec", repr(spec), "it must be a mapping with scheme and parameters"
            )
        name, parameters = spec.get("scheme"), spec.get("parameters")
        kind: type[Scheme] = scheme_named(name)
        if not issubclass(kind, cls):
            raise ParameterError("scheme", repr(name), f"it must be {cls.name}")
        if not isinstance(parameters, Mapping):
            raise ParameterError(
                "parameters", repr(parameters), "they must be a mapping of names to values"
            )
        parameters = {
            key: value
            for key, value in parameters.items()
            if (key, value) not in kind.former_parameters
        }
        for key in parameters:
            if key not in kind.parameters():
                advice = nearest(key, kind.parameters())
                raise ParameterError(str(key), "unknown", f"{name} has no such parameter", advice)
        for key, parameter in kind.parameters().items():
            if key not in parameters and parameter.omitted_default is MISSING:
                raise ParameterError(key, "missing", f"a spec of {name} names every parameter")
        return kind(**parameters)

    @property
    def inert_parameters(self) -> frozenset[str]:
        """Parameters that change nothing beside the others: commands leave them out, a spec has them all the same."""
        return frozenset()

    @property
    def derived_tensors(self) -> frozenset[str]:
        """Tensors that follow from the others; a file from elsewhere may lack them."""
        return frozenset()

    @abstractmethod
    def tensors(self) -> tuple[Table, ...]:
        """The tensors of the scheme, made on demand."""

    def single_array(self) -> Table:
        """The one tensor that stands for the scheme in files that hold a single array."""
        return self.tensors()[0]

    def named_tensors(self) -> dict[str, Table]:
        """All tensors by name, those of the single array first."""
        return {table.name: table for table in (self.single_array(), *self.tensors())}

    def axes_of(self, tensor: str) -> Axes:
        """What the axes of the tensor of that name mean."""
        table = next(table for table in self.tensors() if table.name == tensor)
        names = ("head",) * (len(table.shape) - 2) + ("position", "channel")
        return Axes(names[-len(table.shape) :], self.first_position if len(table.shape) > 1 else 0)

    def value_of(self, name: str, default: Any = None) -> Any:
        """Return the value of a parameter, or the default if the scheme has no such parameter."""
        return getattr(self, name) if name in self.parameters() else default

    @property
    def first_position(self) -> int:
        """Return the position of the first row."""
        return int(self.value_of("offset", 0))

    @property
    def is_range(self) -> bool:
        """Return True if rows are consecutive positions, not a list of them or the points of a grid."""
        return True

    @property
    def grid_style(self) -> "GridStyle | None":
        """Return the conventions of a table on a grid, None if there are none."""
        return None

    def attention_factor_value(self) -> float:
        """Return the attention factor, by which cos and sin are multiplied."""
        return 1.0

    def in_dtype(self, dtype: str) -> Self:
        """The same scheme with tables of another dtype."""
        return self if self.dtype == dtype else replace(self, dtype=dtype)

    def named_parts(self) -> "tuple[tuple[str, Scheme], ...]":
        """The schemes that it holds, by name; itself, without one, where it is a single scheme."""
        return (("", self),)

    def inverse_frequencies(self) -> list[float] | None:
        """Radians per position of every pair of channels, as float64; None where it has no frequencies."""
        return None

    def angular_frequencies(self) -> list[float] | None:
        """The same without what a recipe rounds, and with what positions are multiplied by."""
        return self.inverse_frequencies()

    @classmethod
    def recipe_names(cls) -> tuple[str, ...]:
        """The recipes it can be computed by, but for the exact one; those of storage where it has no such parameter."""
        return cls._options("recipe", "exact") if "recipe" in cls.parameters() else STORED

    @classmethod
    def runtime_names(cls) -> tuple[str, ...]:
        """The runtimes that compute it in their own way."""
        return cls._options("runtime", "none")

    @classmethod
    def _options(cls, name: str, usual: str) -> tuple[str, ...]:
        parameter = cls.parameters().get(name)
        return (
            tuple(word for word in parameter.options if word != usual)
            if isinstance(parameter, Choice)
            else ()
        )

    def runtime_causes(self) -> tuple[str, ...]:
        """What its runtime, if it has one, reads otherwise than it is defined."""
        return ()

    def computed_as(self, way: str) -> Self:
        """The same as a recipe or a runtime computes it; without such a parameter, in the dtype of the recipe."""
        if "recipe" not in self.parameters():
            return self.in_dtype(recipe_named(way).table or self.dtype)
        changes: Any = {"recipe": way}
        return replace(self, **changes)

    def by_position(self) -> ByPosition:
        """Its numbers by position; ParameterError where they have none that could be computed otherwise."""
        table = self.single_array()
        if len(table.shape) != 2:
            raise ParameterError(
                "the scheme", repr(self.name), "it has no table with a row per position"
            )
        columns = np.arange(table.width)  # which stand for themselves
        values = columns.astype(np.float64).tolist()
        return ByPosition(self.first_position, table.rows, "columns", values, columns, table.read)

    def applied_to(self, x: ArrayLike) -> Array:
        """x (…, L, D) with the encoding applied, from its first position on: in float64, rounded once to x's dtype."""
        from pecli.engine.application import add_rows

        return add_rows(x, self.in_dtype("float64").single_array())

    def tables(self) -> dict[str, Array]:
        """All tensors in memory, by name."""
        return {table.name: table.array() for table in self.tensors()}

    def blocks(self, name: str | None = None, rows: int | None = None) -> Iterator[Array]:
        """A tensor some rows at a time; without a name, the first. Whatever the size of the blocks, the values are
        the same. Rows are the last axis: heads and queries are run through in order, and a vector comes in vectors."""
        by_name = {table.name: table for table in self.tensors()}
        if name is not None and name not in by_name:
            raise ParameterError("name", repr(name), f"it must be one of {', '.join(by_name)}")
        table = by_name[name] if name else self.tensors()[0]
        blocks = table.blocks(
            None if rows is None else Whole("rows of a block").check("rows", rows)
        )
        return blocks if len(table.shape) > 1 else (block.reshape(-1) for block in blocks)
