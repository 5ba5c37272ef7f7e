"""The schemes by name, each in a file of its own; what a parameter of a scheme is; and the recipes by name.

A scheme annotates its fields with parameters: the library checks values with them, the command line parses text with
them, and the one wording of the error when a rule is broken is theirs.

A recipe is what a real pipeline computes: where it rounds. `exact` rounds once, at the end. The others work in float32
(exponents, powers, reciprocals, products with positions), except for the one thing that their name says. Every function
value is the correctly rounded one of its float32 argument, so that a recipe gives the same bytes on every machine.
Sinusoidal tables take the steps of rotary ones; projects that write exp(−i·ln b/…) differ in a last bit.
"""

import math
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import MISSING
from functools import partial, wraps
from importlib import import_module
from inspect import Parameter as SignatureParameter
from inspect import signature
from typing import Any, NamedTuple, TypeVar, get_type_hints

from pecli.errors import KindError, ParameterError, nearest, quoted, shown, spelled

SCHEMES: dict[str, tuple[str, str] | type[Any]] = {
    "sinusoidal": ("pecli.engine.schemes.sinusoidal", "Sinusoidal"),
    "rope": ("pecli.engine.schemes.rope", "Rope"),
    "alibi": ("pecli.engine.schemes.alibi", "Alibi"),
    "relative": ("pecli.engine.schemes.relative", "Relative"),
    "learned-init": ("pecli.engine.schemes.learned", "LearnedInit"),
}
"""Each scheme's class, or the module and name of it: a command imports only its own."""

_BUNDLE = {"layers": ("pecli.engine.schemes.bundle", "Bundle")}


def scheme_named(name: object) -> Any:
    """The class of that name, a subclass of `Scheme`."""
    known = {**SCHEMES, **_BUNDLE}
    if not isinstance(name, str) or name not in known:
        raise ParameterError("scheme", repr(name), f"it must be one of {', '.join(SCHEMES)}")
    found = known[name]
    return getattr(import_module(found[0]), found[1]) if isinstance(found, tuple) else found


_INF = math.inf


class Parameter(ABC):
    """The rule and help of one parameter.

    `default` stands for a value that was not given; where a scheme's own field has a default, that one counts.
    `panel` is the heading under which a command's help lists it. A spec leaves the parameter out where it has the
    value `omitted_default`: so it is with parameters that are younger than the files that lack them; others have none.
    """

    metavar = ""
    rule = ""

    def __init__(
        self, help: str, *, default: Any = None, aliases: tuple[str, ...] = (), panel: str = "",
        omitted_default: Any = MISSING,
    ) -> None:  # fmt: skip
        self.help, self.default, self.aliases = help, default, aliases
        self.panel, self.omitted_default = panel, omitted_default

    def parse(self, name: str, text: str) -> Any:
        """The value that a text stands for."""
        return self.check(name, text)

    def is_value(self, text: str) -> bool:
        """Whether a text is the value itself; else it names a file, whose one array is checked."""
        return True

    @abstractmethod
    def check(self, name: str, value: Any) -> Any:
        """The value itself, in its proper type; ParameterError where it breaks the rule."""


def _number(kind: Callable[[str], Any], name: str, text: str, rule: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        thousands = re.fullmatch("([0-9]{1,9})[kK]", text)
        advice = f"{int(thousands[1]) * 1024} or {int(thousands[1]) * 1000}?" if thousands else ""
        raise ParameterError(name, repr(text[:40]), rule, advice) from None


class Whole(Parameter):
    """A whole number from low to high."""

    metavar = "INTEGER"

    def __init__(
        self, help: str, *, low: int = 1, high: int = 2**40, even: bool = False, **common: Any
    ) -> None:
        super().__init__(help, **common)
        self.low, self.high, self.even = low, high, even
        kind = "an even whole number" if even else "a whole number"
        self.rule = f"it must be {kind} from {low} to {_power(high)}"

    def parse(self, name: str, text: str) -> int:
        if (
            len(text) > 40
        ):  # longer than any number that could pass, and int() is slow on very long ones
            raise ParameterError(name, f"{text[:37]}…", self.rule)
        return self.check(name, _number(int, name, text, self.rule))

    def check(self, name: str, value: Any) -> int:
        if type(value).__name__ == "bool":  # Python's or NumPy's, which would pass for a number
            raise KindError(name, quoted(value), self.rule)
        try:
            number = operator.index(value)
        except TypeError:
            raise KindError(name, quoted(value), self.rule) from None
        if not self.low <= number <= self.high or (self.even and number % 2):
            given = number if abs(number) < 10**40 else f"a number of {number.bit_length():,} bits"
            raise ParameterError(name, given, self.rule)
        return number


def _power(number: int) -> str:
    for value, less in ((number, ""), (number + 1, " − 1")):
        if value > 10**6 and value & (value - 1) == 0:
            return f"2^{value.bit_length() - 1}{less}"
    return f"{number:,}" if number >= 10**4 else str(number)


class Real(Parameter):
    """A finite number, within limits if there are any."""

    metavar = "NUMBER"

    def __init__(
        self,
        help: str,
        *,
        above: float | None = None,
        at_least: float = -_INF,
        up_to: float = _INF,
        **more: Any,
    ) -> None:
        super().__init__(help, **more)
        self.above, self.at_least, self.up_to = above, at_least, up_to
        above_limit = "" if above is None else f"above {above:g}"
        least = f"of at least {at_least:g}" if at_least > -_INF else ""
        most = f"up to {up_to:g}" if up_to < _INF else ""
        self.rule = f"it must be a finite number {', '.join(filter(None, (above_limit, least, most)))}".rstrip()

    def parse(self, name: str, text: str) -> float:
        return self.check(name, _number(float, name, text, self.rule))

    def check(self, name: str, value: Any) -> float:
        if isinstance(value, (str, bytes)) or type(value).__name__ == "bool":
            raise KindError(name, quoted(value), self.rule)
        try:
            number = float(value)
        except OverflowError:
            number = _INF
        except (TypeError, ValueError):
            raise KindError(name, quoted(value), self.rule) from None
        above = self.above is None or number > self.above
        if not math.isfinite(number) or not above or not self.at_least <= number <= self.up_to:
            raise ParameterError(name, shown(number), self.rule)
        return number


SYNONYMS = {
    "halves": ("neox", "neox-style", "rotate-half", "split", "half"),
    "interleaved": (
        "gptj",
        "gpt-j",
        "traditional",
        "norm",
        "normal",
        "adjacent",
        "rotate-every-two",
    ),
    "longrope": ("su",),
    "ntk": ("ntk-aware",),
    "dynamic": ("dynamic-ntk",),
    "none": ("default",),
    "float64": ("fp64", "f64", "double"),
    "float32": ("fp32", "f32", "float", "single"),
    "float16": ("fp16", "f16", "half"),
    "bfloat16": ("bf16",),
}
"""What other programs call the options of a choice."""


class Choice(Parameter):
    """One of a few words."""

    def __init__(self, help: str, *, options: tuple[str, ...], **common: Any) -> None:
        super().__init__(help, **common)
        self.options = options
        self.rule = f"it must be one of {', '.join(options)}"

    def check(self, name: str, value: Any) -> str:
        if isinstance(value, str) and value not in self.options:
            word = value.lower().replace("_", "-")
            value = next(
                (meant for meant in self.options if word in SYNONYMS.get(meant, ())), value
            )
        if not isinstance(value, str) or value not in self.options:
            advice = nearest(value, self.options) if isinstance(value, str) else ""
            raise ParameterError(name, quoted(value), self.rule, advice)
        return str(value)


class Dtype(Choice):
    """A dtype by name, or as NumPy, torch, JAX or MLX have it."""

    def check(self, name: str, value: Any) -> str:
        with suppress(ParameterError):
            return super().check(name, value)
        from numpy import dtype

        try:
            word = value if value is None else dtype(value).name  # which None would be float64 for
        except (TypeError, ValueError, SyntaxError):  # not NumPy's
            word = str(value).rpartition(".")[2]
        return super().check(name, word)


class Flag(Parameter):
    """Yes or no."""

    rule = "it must be true or false"

    def check(self, name: str, value: Any) -> bool:
        if value is not True and value is not False:
            raise KindError(name, quoted(value), self.rule)
        return value


class OptionalFlag(Flag):
    """true or false, where saying neither is a third thing."""

    metavar = "[true|false]"

    def parse(self, name: str, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ParameterError(name, repr(text), self.rule)
        return text.lower() == "true"


class ListOf(Parameter):
    """Several values that follow one rule."""

    def __init__(self, help: str, *, each: Parameter, **common: Any) -> None:
        super().__init__(help, **common)
        self.each = each
        self.metavar = f"{each.metavar},…"
        self.rule = f"each of them, separated by commas, {each.rule.removeprefix('it ')}"

    def parse(self, name: str, text: str) -> tuple[Any, ...]:
        return tuple(
            self.each.parse(f"{name}[{k}]", part) for k, part in enumerate(text.split(","))
        )

    def check(self, name: str, value: Any) -> tuple[Any, ...]:
        if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
            raise KindError(name, quoted(value), self.rule)
        return tuple(self.each.check(f"{name}[{k}]", each) for k, each in enumerate(value))


_MIN_NORMAL, _MAX_FLOAT32 = 2.0**-126, (2 - 2.0**-23) * 2.0**127  #: the range of float32


def options(scheme: Any) -> Iterator[str]:
    """The options that ask for a scheme: those that count and differ from the defaults; each parses to its value."""
    for name, parameter in scheme.parameters().items():
        value, default = getattr(scheme, name), scheme.default_of(name)
        if (
            value is None
            or name in scheme.inert_parameters
            or (value == default and type(value) is type(default))
        ):
            continue
        long = parameter.aliases[0] if parameter.aliases else f"--{name.replace('_', '-')}"
        if type(parameter) is Flag:
            yield long if value else long.replace("--", "--no-", 1)
        else:
            yield from (long, spelled(value))


SchemeType = TypeVar("SchemeType", bound=type[Any])


def with_aliases(kind: SchemeType) -> SchemeType:
    """Let parameters be given by their aliases, too (`theta` for `base`); signatures have plain types and defaults."""
    plain = kind.__init__
    names = [*kind.parameter_of_alias()]

    @wraps(plain)
    def init(self: Any, *args: Any, **values: Any) -> None:
        plain(self, *args, **kind.by_own_names(values))

    own, types = signature(plain), get_type_hints(kind)
    defaults = {
        name: default
        for name in kind.parameters()
        if (default := kind.default_of(name)) is not MISSING
    }
    parameters = [
        each.replace(
            annotation=types.get(name, each.annotation), default=defaults.get(name, each.default)
        )
        for name, each in own.parameters.items()
    ]
    parameters += [
        SignatureParameter(name, SignatureParameter.KEYWORD_ONLY, default=None) for name in names
    ]
    init.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    kind.__init__ = init
    return kind


class Recipe(NamedTuple):
    """The dtypes of positions, frequencies, their product and the table: any combination of float32, bfloat16 and
    float16, or exact for the first three; the table in any dtype, or, if empty, in the one that is asked for."""

    positions: str = "float32"
    frequencies: str = "float32"
    product: str = "float32"
    table: str = ""
    recurrence: bool = False  #: each phase is the one before times a constant, in float32 (ggml)

    @property
    def is_exact(self) -> bool:
        """Whether nothing but the table is rounded."""
        return self.positions == self.frequencies == self.product == "exact"


EXACT = Recipe("exact", "exact", "exact")

RECIPES = {
    "float32": Recipe(),
    "float32-recurrence": Recipe(recurrence=True),
    "bfloat16-inv-freq": Recipe(frequencies="bfloat16"),
    "bfloat16-positions": Recipe(positions="bfloat16"),
    "bfloat16-phases": Recipe(product="bfloat16"),
    "float16-inv-freq": Recipe(frequencies="float16"),
    "float16-positions": Recipe(positions="float16"),
    "float16-phases": Recipe(product="float16"),
    "bfloat16-autocast": Recipe("bfloat16", "bfloat16", "bfloat16"),
    "bfloat16-module": Recipe(frequencies="bfloat16", table="bfloat16"),
    "float32-bfloat16-table": Recipe(table="bfloat16"),
    "float16-table": EXACT._replace(table="float16"),
    "bfloat16-table": EXACT._replace(table="bfloat16"),
}
"""Points of that space, but for exact. Autocast is PyTorch's, of an einsum of positions and frequencies; a module is
one that was cast with `.to(torch.bfloat16)`, its frequencies included."""

STORED = tuple(name for name, recipe in RECIPES.items() if recipe.is_exact)
"""The recipes that any computed table can follow."""

_by_recipe = partial(
    Choice, "emulate this precision recipe", default="exact", omitted_default="exact"
)
"""Files that were made before there were recipes do not name one: exact goes without saying."""
RECIPE = _by_recipe(options=("exact", *RECIPES))
BIAS_RECIPE = _by_recipe(options=("exact", "float32", *STORED))
"""For ALiBi, which has no frequencies: float32 rounds the slopes, and their products with the distances."""


def recipe_named(name: str) -> Recipe:
    """The recipe of that name, `exact` included."""
    return EXACT if name == "exact" else RECIPES[name]


def check_base(recipe: str, base: float) -> None:
    """Refuse a base that a recipe cannot hold."""
    if not recipe_named(recipe).is_exact and not _MIN_NORMAL <= base <= _MAX_FLOAT32:
        raise ParameterError(
            "base",
            f"{base:g}",
            f"the recipe {recipe} computes in float32, which cannot represent it",
        )
