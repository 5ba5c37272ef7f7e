"""Schemes: positional encodings with parameters that are checked when a scheme is made."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import KW_ONLY, MISSING, Field, dataclass, fields, replace
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
from pecli.engine.named_values import JsonObject, NamedValues, without_none
from pecli.engine.schemes import scheme_named
from pecli.engine.schemes.parameters import Choice, DtypeChoice, ParameterRule, Whole
from pecli.engine.schemes.recipes import STORED, STORED_RECIPE, recipe_named
from pecli.engine.table import ByPosition, Table
from pecli.errors import ParameterError, Spellable, bracketed, nearest, quoted, spelled

if TYPE_CHECKING:
    from pecli.engine.runtimes.runtime import RuntimeReading
    from pecli.engine.scalings.scaling import Scaling
    from pecli.engine.schemes.grid_styles import GridStyle

UNSET: Any = None
"""The default of a field that a style or the parameter's own default fills in."""


class Axes(NamedTuple):
    """The meaning of a tensor's axes."""

    names: tuple[str, ...]  #: a word for each axis: position, channel, pair, head, query, key
    first: int = 0  #: the position of the first row
    value: str = "value"  #: the elements: value, cosine, sine, bias, slope, frequency
    step: int = 1  #: columns from one pair of channels to the next


@dataclass(frozen=True, repr=False)
class Scheme(Displayed, ABC):
    """A positional encoding with all its parameters: the base class of all schemes.

    A subclass is a frozen dataclass whose fields are annotated with a `ParameterRule` each; checks, the
    saved spec and the command-line options derive from these. Callers use the methods below instead
    of `isinstance`. A subclass has to define only `tensors`; the defaults of the other methods
    serve a scheme with one table (positions, channels).

    Args:
        dtype: type of the numbers in the tables: float64, float32, float16 or bfloat16.

    Raises:
        ParameterError: a value breaks the rule of its parameter.

    >>> from pecli import Rope, Scheme
    >>> rope = Rope(seq_len=4, dim=8)
    >>> Scheme.from_spec(rope.spec()) == rope
    True
    """

    name: ClassVar[str]
    applied_as: ClassVar[str] = "rows"
    """The way it is applied: `rows` are added to the input, a `rotation` of it, a `bias` on
    attention scores.
    """
    _former_parameters: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Parameters in specs of earlier versions, with the value that describes what the scheme still
    does.
    """

    _: KW_ONLY
    dtype: Annotated[str, DtypeChoice("type of the numbers", options=tuple(SIGNIFICAND_BITS))] = (
        "float32"
    )

    def __post_init__(self) -> None:
        self._fill_in_and_check({})

    def _set(self, name: str, value: object) -> None:
        """Set a field of the frozen dataclass while it is being made."""
        object.__setattr__(self, name, value)

    def _check_and_convert(self, *names: str) -> None:
        """Check parameters on which the defaults of others depend, and convert their values.

        Those that the user left out stay None.
        """
        for name in names:
            value = getattr(self, name)
            if value is not None:
                self._set(name, self.parameters()[name].check(name, value))

    def _fill_in_and_check(self, preset: Mapping[str, object]) -> None:
        """Fill in the parameters that the user left out, and check every value.

        They come from the preset (a style such as "fairseq" stands for some), or are defaults.
        Parameters that are optional may stay None.

        Args:
            preset: Values by name that take precedence over the defaults.
        """
        for name, parameter in self.parameters().items():
            value = self._value_or_default(name, parameter, preset)
            self._set(name, self._checked_value(name, parameter, value))
        self._check()

    @classmethod
    def _checked_value(cls, name: str, parameter: ParameterRule, value: object) -> object:
        """Return a value as its parameter keeps it; None only if the parameter is optional."""
        is_missing = value is None or value is MISSING
        if not is_missing:
            return parameter.check(name, value)
        if name not in cls._optional():
            raise ParameterError(name, "missing", parameter.rule)
        return None

    def _value_or_default(
        self, name: str, parameter: ParameterRule, preset: Mapping[str, object]
    ) -> object:
        """Return the value that the user gave, else that of the preset, else the default.

        A parameter that has to be given has the default MISSING.
        """
        value: object = getattr(self, name)
        return preset.get(name, parameter.default) if value is None else value

    def _check(self) -> None:
        """Check rules that concern several parameters."""

    def _wrong(self, name: str, rule: str, advice: str = "") -> ParameterError:
        """Return the error for a parameter that breaks a rule."""
        return ParameterError(name, _in_words(getattr(self, name)), rule, advice)

    def _refuse_if(self, condition: object, name: str, rule: str, advice: str = "") -> None:
        """Raise ParameterError for the parameter `name` if a condition holds, which breaks a rule.

        Args:
            condition: A true value if the rule is broken.
            name: The name of the parameter.
            rule: The rule, for the message: «it belongs to a grid».
            advice: How to mend it, for the message: «add --grid».
        """
        if condition:
            raise self._wrong(name, rule, advice)

    def _refuse_set(self, names: Collection[str], rule: str, advice: str) -> None:
        """Raise ParameterError for the first of some parameters that is set, if any is.

        Args:
            names: The parameters, which are None or the choice "none" if they are not set.
            rule: The rule that excludes them.
            advice: How to mend it.
        """
        for name in names:
            value = getattr(self, name)
            # An array would be compared with the text element by element.
            is_left_out = value is None or (isinstance(value, str) and value == "none")
            self._refuse_if(not is_left_out, name, rule, advice)

    @classmethod
    @cache
    def parameters(cls) -> dict[str, ParameterRule]:
        """Return the parameters by name: positional ones, then keyword-only ones, `dtype` last."""
        annotations = get_type_hints(cls, include_extras=True)
        sorted_fields = sorted(fields(cls), key=_place_of_parameter)
        return {field.name: _parameter_in(annotations[field.name]) for field in sorted_fields}

    @classmethod
    @cache
    def _optional(cls) -> frozenset[str]:
        """Return the parameters that may be None."""
        hints = get_type_hints(cls)
        optional = [
            field.name for field in fields(cls) if type(None) in get_args(hints[field.name])
        ]
        return frozenset(optional)

    def value_of(self, name: str, default: object = None) -> Any:
        """Return the value of a parameter, or the default if the scheme has no such parameter."""
        return getattr(self, name) if name in self.parameters() else default

    @property
    def inert_parameters(self) -> frozenset[str]:
        """Return parameters that have no effect: commands leave them out, specs do not."""
        return frozenset()

    def __repr__(self) -> str:
        """Return the call that makes the scheme, without parameters at their defaults."""
        parts = []
        for name in self.parameters():
            value = getattr(self, name)
            if value != default_of(type(self), name):
                parts.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(parts)})"

    def spec(self) -> JsonObject:
        """Return the scheme as plain data, from which `from_spec` makes it again.

        >>> from pecli import LearnedInit
        >>> LearnedInit(max_len=2, dim=3).spec()["scheme"]
        'learned-init'
        """
        parameters = {}
        for name, parameter in self.parameters().items():
            value = getattr(self, name)
            if value != parameter.omitted_default:
                parameters[name] = value
        return {"scheme": self.name, "parameters": parameters}

    @classmethod
    def from_spec(cls, spec: NamedValues) -> Self:
        """Return the scheme of a spec; `Scheme.from_spec` finds the class by the spec's `scheme`.

        Args:
            spec: a mapping with `scheme` and `parameters`, as `spec()` returns it and files carry
                it.

        Raises:
            ParameterError: the spec names another scheme, or a parameter is unknown, missing or
            wrong.
        """
        if not isinstance(spec, Mapping):
            rule = "it must be a mapping with scheme and parameters"
            raise ParameterError("spec", quoted(spec), rule)
        name = spec.get("scheme")
        scheme_type: type[Scheme] = scheme_named(name)
        if not issubclass(scheme_type, cls):
            raise ParameterError("scheme", quoted(name), f"it must be {cls.name}")
        parameters = scheme_type._parameters_of_spec(spec.get("parameters"))
        scheme_type._check_names(parameters)
        return scheme_type(**parameters)

    @classmethod
    def _parameters_of_spec(cls, parameters: object) -> NamedValues:
        """Return the parameters of a spec, without those that only earlier versions had."""
        if not isinstance(parameters, Mapping):
            rule = "they must be a mapping of names to values"
            raise ParameterError("parameters", quoted(parameters), rule)
        items = parameters.items()
        return {name: value for name, value in items if (name, value) not in cls._former_parameters}

    @classmethod
    def _check_names(cls, names: Mapping[str, object]) -> None:
        """Raise ParameterError unless a spec names all parameters that it must, and no others."""
        for name in names:
            if name not in cls.parameters():
                rule = f"{cls.name} has no such parameter"
                raise ParameterError(str(name), "unknown", rule, nearest(name, cls.parameters()))
        for name, parameter in cls.parameters().items():
            if name not in names and parameter.omitted_default is MISSING:
                raise ParameterError(name, "missing", f"a spec of {cls.name} names every parameter")

    def in_dtype(self, dtype: str) -> Self:
        """Return the same scheme with tables of another dtype."""
        return self if self.dtype == dtype else replace(self, dtype=dtype)

    def by_layer_type(self) -> "tuple[tuple[str, Scheme], ...]":
        """Return the schemes that it holds by name; a single scheme holds itself, unnamed."""
        return (("", self),)

    @abstractmethod
    def tensors(self) -> tuple[Table, ...]:
        """Return the tensors of the scheme, whose numbers are made on demand."""

    def single_array(self) -> Table:
        """Return the tensor that stands for the scheme in files that hold a single array."""
        return self.tensors()[0]

    @property
    def derived_tensors(self) -> frozenset[str]:
        """Return the tensors that follow from the others; files of other programs may lack them."""
        return frozenset()

    def axes_of(self, tensor: str) -> Axes:
        """Return the meaning of the axes of the tensor of that name."""
        rank = len(tensors_by_name(self)[tensor].shape)
        if rank == 1:
            return Axes(("channel",))
        head_axes = ("head",) * (rank - 2)
        return Axes((*head_axes, "position", "channel"), self.first_position)

    def tables(self) -> dict[str, Array]:
        """Return all tensors in memory, by name.

        >>> from pecli import Sinusoidal
        >>> {name: table.shape for name, table in Sinusoidal(seq_len=4, dim=6).tables().items()}
        {'pe': (4, 6)}
        """
        return {table.name: table.array() for table in self.tensors()}

    def blocks(self, name: str | None = None, rows: int | None = None) -> Iterator[Array]:
        """Yield a tensor some rows at a time; the values do not depend on the size of blocks.

        Args:
            name: the tensor, by default the first one.
            rows: rows of a block. A row is the last axis. The rows of a bias (heads, queries, keys)
                are those of head 0, then those of head 1, …; blocks of a vector are vectors.

        Raises:
            ParameterError: there is no tensor of that name.
        """
        table = self._tensor_named(name) if name is not None else self.tensors()[0]
        if rows is not None:
            rows = Whole("rows of a block").check("rows", rows)
        blocks = table.blocks(rows)
        is_vector = len(table.shape) == 1
        if is_vector:
            return (block.reshape(-1) for block in blocks)
        return blocks

    def _tensor_named(self, name: str) -> Table:
        """Return a tensor of the scheme, or raise ParameterError if it has none of that name."""
        tables = tensors_by_name(self)
        if name not in tables:
            raise ParameterError("name", quoted(name), f"it must be one of {', '.join(tables)}")
        return tables[name]

    @property
    def first_position(self) -> int:
        """Return the position of the first row."""
        return int(self.value_of("offset", 0))

    @property
    def is_range(self) -> bool:
        """Return True if rows are consecutive positions, not a list or a grid."""
        return True

    @property
    def grid_style(self) -> "GridStyle | None":
        """Return the conventions of a table on a grid, None if there are none."""
        return None

    def inverse_frequencies(self) -> list[float] | None:
        """Return radians per position of every pair of channels, None without frequencies."""
        return None

    def angular_frequencies(self) -> list[float] | None:
        """Return the frequencies without the rounding of a recipe, times the scale of positions."""
        return self.inverse_frequencies()

    def attention_factor_value(self) -> float:
        """Return the attention factor, by which cos and sin are multiplied."""
        return 1.0

    @classmethod
    def recipe_names(cls) -> tuple[str, ...]:
        """Return the recipes by which it can be computed, except for the exact one."""
        if "recipe" not in cls.parameters():
            return STORED
        return _other_options(cls, "recipe", "exact")

    @property
    def runtime_reading(self) -> "RuntimeReading[Scaling]":
        """Return the scaling as the runtime reads it, or as it is defined without a runtime."""
        from pecli.engine.runtimes.runtime import RuntimeReading
        from pecli.engine.scalings.scaling import Scaling

        return RuntimeReading(Scaling())

    def computed_as(self, way: str) -> Self:
        """Return the scheme as a recipe, a precision to imitate, computes it.

        A scheme without recipes is given in the dtype in which the recipe stores a table.

        Args:
            way: The name of the recipe, such as `float32` or `exact`.
        """
        if "recipe" not in self.parameters():
            recipe = recipe_named(STORED_RECIPE.check("recipe", way))
            return self.in_dtype(recipe.table_dtype or self.dtype)
        changes: NamedValues = {"recipe": way}
        return replace(self, **changes)

    def audited_rows(self) -> ByPosition:
        """Return the rows that an audit of rounding errors compares, one per position.

        Raises:
            ParameterError: the scheme has no table with a row per position.
        """
        table = self.single_array()
        if len(table.shape) != 2:
            rule = "it has no table with a row per position"
            raise ParameterError("the scheme", repr(self.name), rule)
        columns = np.arange(table.width)
        return ByPosition(
            first=self.first_position,
            count=table.rows,
            kind="columns",
            values=columns.astype(np.float64).tolist(),
            groups=columns,  # Every column stands for itself.
            read=table.read,
        )

    def applied_to(self, x: ArrayLike) -> Array:
        """Return x (…, L, D) with the encoding applied, from the first position on.

        The result is computed in float64 and rounded once to x's dtype.
        """
        from pecli.engine.application import add_rows

        return add_rows(x, self.in_dtype("float64").single_array())


def _in_words(value: object) -> str:
    """Return a parameter's value as an error quotes it."""
    if hasattr(value, "shape"):
        return f"of shape {bracketed(value.shape)}"
    if value is None:
        return "missing"
    items = value if isinstance(value, (list, tuple)) else [value]
    # Rules of several parameters may come before those of each: the value can be anything.
    have_spelling = all(isinstance(item, (int, float, Spellable)) for item in items)
    return spelled(value) if have_spelling else quoted(value)


def _place_of_parameter(field: "Field[Any]") -> tuple[bool, bool]:
    """Return the key by which parameters are sorted: False comes before True."""
    is_last = field.name == "dtype"
    is_keyword_only = bool(field.kw_only)
    return is_last, is_keyword_only


def _parameter_in(annotation: object) -> ParameterRule:
    """Return the parameter in an annotation: of Annotated[int, Whole(…)] this is Whole(…)."""
    (parameter,) = [extra for extra in get_args(annotation) if isinstance(extra, ParameterRule)]
    return parameter


def default_of(kind: type[Scheme], name: str) -> object:
    """Return the value of a parameter that is not given; MISSING if it has to be given."""
    default_of_field: object = kind.__dataclass_fields__[name].default
    if default_of_field is not UNSET:
        return default_of_field
    return kind.parameters()[name].default


def require_parameters(kind: type[Scheme], stated: Collection[str]) -> None:
    """Raise ParameterError if a parameter without a default is not stated, such as ALiBi's `heads`."""
    for name, parameter in kind.parameters().items():
        is_required = default_of(kind, name) is MISSING
        if is_required and name not in stated:
            raise ParameterError(name, "missing", parameter.rule)


def _other_options(kind: type[Scheme], name: str, usual: str) -> tuple[str, ...]:
    """Return the options of a parameter except for the usual one; none without it."""
    parameter = kind.parameters().get(name)
    if not isinstance(parameter, Choice):
        return ()
    return tuple(option for option in parameter.options if option != usual)


def runtime_names(kind: type[Scheme]) -> tuple[str, ...]:
    """Return the runtimes that compute a scheme of that kind in their own way."""
    return _other_options(kind, "runtime", "none")


def stated_parameters(scheme: Scheme) -> JsonObject:
    """Return the parameters of a scheme's spec that are not None, for texts about the scheme.

    >>> from pecli import Alibi
    >>> "seq_len" in stated_parameters(Alibi(heads=8))
    False
    """
    return without_none(scheme.spec()["parameters"])


def tensors_by_name(scheme: Scheme) -> dict[str, Table]:
    """Return the tensors of a scheme by name, without the single array of a .npy file."""
    return {table.name: table for table in scheme.tensors()}


def named_tensors(scheme: Scheme) -> dict[str, Table]:
    """Return all tensors of a scheme by name, the single array first."""
    return {table.name: table for table in (scheme.single_array(), *scheme.tensors())}


def holds_several(scheme: Scheme) -> bool:
    """Return True if a scheme holds others, and no single array can stand for all of them."""
    return any(part is not scheme for _, part in scheme.by_layer_type())
