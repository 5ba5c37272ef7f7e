"""Parameters of schemes: rules that check values, parse text and word errors.

A scheme annotates each of its fields with a parameter. The library checks values with it, the
command line parses text with it, and the error for a value that breaks the rule is worded in one
place.
"""

import math
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING
from itertools import islice
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    SupportsFloat,
    SupportsIndex,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
)

from pecli.engine.arguments import items_of
from pecli.errors import KindError, ParameterError, nearest, quoted, shown

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

MAX_NUMBER_LENGTH = 40
"""Digits of the longest whole number that is parsed, and of one that a message shows: int() is slow
on very long texts."""


class ParameterRule(ABC):
    """The rule and the help text of one parameter.

    Args:
        help: what the parameter means, for `--help`.
        default: the value if none is given and the scheme's field has no default.
        aliases: other names of the option, such as `--theta` for `--base`.
        panel: the heading under which `--help` lists the option.
        omitted_default: a spec leaves the parameter out if it has this value. Parameters that were
            added after the first release have one, so that older files, which lack them, still
            match.
    """

    metavar = ""
    """The placeholder of a value in `--help`."""
    requirement = ""
    """The rule without its subject: «must be a whole number from 1 to 2^40»."""
    rule = ""
    """The rule as a clause of an error: «it must be a whole number from 1 to 2^40»."""

    def __init__(
        self,
        help: str,
        *,
        default: object = None,
        aliases: tuple[str, ...] = (),
        panel: str = "",
        omitted_default: object = MISSING,
    ) -> None:
        """Describe a parameter of a scheme by its help text, its default and its names.

        The class documents the arguments; `omitted_default` is the value that specs leave out.
        """
        self.help = help
        self.default = default
        self.aliases = aliases
        self.panel = panel
        self.omitted_default = omitted_default

    def parse(self, name: str, text: str) -> Any:
        """Return the value that a text on the command line stands for."""
        return self.check(name, text)

    def is_value(self, text: str) -> bool:
        """Return True if a text is the value itself, False if it names a file with the value."""
        return True

    @abstractmethod
    def check(self, name: str, value: object) -> Any:
        """Return a value in its proper type; raise ParameterError if it breaks the rule."""


def _parse_number(kind: Callable[[str], object], name: str, text: str, rule: str) -> object:
    """Return a text of the command line as an int or a float, or raise ParameterError.

    For «8k» the error suggests 8192 and 8000.

    Args:
        kind: `int` or `float`.
        name: The name of the parameter, for the error.
        text: The text.
        rule: The rule of the parameter, for the error.
    """
    try:
        return kind(text)
    except ValueError:
        advice = ""
        thousands = re.fullmatch("([0-9]{1,9})[kK]", text)
        if thousands:
            count = int(thousands[1])
            advice = f"{count * 1024} or {count * 1000}?"
        shortened = repr(text[:MAX_NUMBER_LENGTH])
        raise ParameterError(name, shortened, rule, advice) from None


def whole_numbers_of(name: str, value: object, rule: str, most: int) -> list[int]:
    """Return the first whole numbers of a list, at most so many.

    An array may have 10^12 items, and a few are enough to see that it has too many.

    Raises:
        KindError: It is not a list, or not of whole numbers.
    """
    try:
        items = islice(cast(Iterable[SupportsIndex], value), most)
        return [operator.index(item) for item in items]
    except TypeError:
        raise KindError(name, quoted(value), rule) from None


class CommonFields(TypedDict, total=False):
    """The arguments that all parameters have beside their help."""

    default: object
    aliases: tuple[str, ...]
    panel: str
    omitted_default: object


_NumberT = TypeVar("_NumberT", int, float)


class _Number(ParameterRule, Generic[_NumberT]):
    """A number of one type, within limits. Bools, which Python takes for numbers, are refused."""

    def check(self, name: str, value: object) -> _NumberT:
        """Return a number of Python, NumPy or another library as a plain one.

        Raises:
            KindError: It is not a number of this type.
            ParameterError: It is out of range.
        """
        if _is_bool(value):
            raise KindError(name, quoted(value), self.rule)
        try:
            number = self._converted(value)
        except (TypeError, ValueError):
            raise KindError(name, quoted(value), self.rule) from None
        if not self._is_allowed(number):
            raise ParameterError(name, self._shown(number), self.rule)
        return number

    @abstractmethod
    def _converted(self, value: object) -> _NumberT:
        """Return a value as a plain number; raise TypeError or ValueError if it is none."""

    @abstractmethod
    def _is_allowed(self, number: _NumberT) -> bool:
        """Return True for a number within the limits."""

    @abstractmethod
    def _shown(self, number: _NumberT) -> object:
        """Return a number that is out of range as the error shows it."""


class Whole(_Number[int]):
    """A whole number from low to high."""

    metavar = "INTEGER"

    def __init__(
        self,
        help: str,
        *,
        low: int = 1,
        high: int = 2**40,
        even: bool = False,
        **common: Unpack[CommonFields],
    ) -> None:
        """Describe a whole number, and word its limits for error messages.

        Args:
            help: What the parameter means.
            low: The least number that is allowed.
            high: The largest number that is allowed.
            even: True if it must be even, such as a number of channels that rotate in pairs.
            common: Arguments of every parameter.
        """
        super().__init__(help, **common)
        self.low = low
        self.high = high
        self.even = even
        noun = "an even whole number" if even else "a whole number"
        self.requirement = f"must be {noun} from {low} to {_as_power(high)}"
        self.rule = f"it {self.requirement}"

    def parse(self, name: str, text: str) -> int:
        if len(text) > MAX_NUMBER_LENGTH:
            raise ParameterError(name, f"{text[:37]}…", self.rule)
        return self.check(name, _parse_number(int, name, text, self.rule))

    def _converted(self, value: object) -> int:
        return operator.index(cast(SupportsIndex, value))  # a TypeError for 8.0

    def _shown(self, number: int) -> object:
        if abs(number) < 10**MAX_NUMBER_LENGTH:
            return number
        return f"a number of {number.bit_length():,} bits"

    def _is_allowed(self, number: int) -> bool:
        if self.even and number % 2 == 1:
            return False
        return self.low <= number <= self.high


def _is_bool(value: object) -> bool:
    """Return True for Python's and NumPy's booleans, which would pass for numbers."""
    return type(value).__name__ == "bool"


def _as_power(number: int) -> str:
    """Return a large number as a power of two, or one less: 2^40, 2^64 − 1."""
    if number > 10**6 and number.bit_count() == 1:
        return f"2^{number.bit_length() - 1}"
    if number >= 10**6 and (number + 1).bit_count() == 1:
        return f"2^{number.bit_length()} − 1"
    return f"{number:,}" if number >= 10**4 else str(number)


class Real(_Number[float]):
    """A finite number, within limits if there are any."""

    metavar = "NUMBER"

    def __init__(
        self,
        help: str,
        *,
        above: float = -math.inf,
        at_least: float = -math.inf,
        up_to: float = math.inf,
        **common: Unpack[CommonFields],
    ) -> None:
        """Describe a finite number, and word its limits for error messages.

        Args:
            help: What the parameter means.
            above: It must be larger than this.
            at_least: It must be this or more.
            up_to: It must be this or less.
            common: Arguments of every parameter.
        """
        super().__init__(help, **common)
        self.above = above
        self.at_least = at_least
        self.up_to = up_to
        self.requirement = f"must be a finite number {', '.join(self._limits())}".rstrip()
        self.rule = f"it {self.requirement}"

    def _limits(self) -> Iterator[str]:
        """Yield the limits in words, such as «above 0» and «up to 1»."""
        if self.above > -math.inf:
            yield f"above {self.above:g}"
        if self.at_least > -math.inf:
            yield f"of at least {self.at_least:g}"
        if self.up_to < math.inf:
            yield f"up to {self.up_to:g}"

    def parse(self, name: str, text: str) -> float:
        return self.check(name, _parse_number(float, name, text, self.rule))

    def _converted(self, value: object) -> float:
        if isinstance(value, (str, bytes)):
            raise TypeError("float() would parse it")
        try:
            return float(cast(SupportsFloat, value))
        except OverflowError:  # An integer of more than 308 digits; no limit allows it.
            return math.inf

    def _shown(self, number: float) -> str:
        return shown(number)

    def _is_allowed(self, number: float) -> bool:
        """Return True for a number within the limits; NaN and infinity never are."""
        if not math.isfinite(number):
            return False
        return self.above < number and self.at_least <= number <= self.up_to


SYNONYMS: Mapping[str, tuple[str, ...]] = {
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
"""Names of other programs for the options of a choice."""


class Choice(ParameterRule):
    """One of a few words; the names of other programs for them are understood."""

    def __init__(
        self, help: str, *, options: tuple[str, ...], **common: Unpack[CommonFields]
    ) -> None:
        super().__init__(help, **common)
        self.options = options
        self.requirement = f"must be one of {', '.join(options)}"
        self.rule = f"it {self.requirement}"

    def check(self, name: str, value: object) -> str:
        """Return one of the options; synonyms of other projects count: `neox` is `halves`."""
        if not isinstance(value, str):
            raise ParameterError(name, quoted(value), self.rule)
        if value in self.options:
            return str(value)
        word = value.lower().replace("_", "-")
        for option in self.options:
            if word in SYNONYMS.get(option, ()):
                return option
        raise ParameterError(name, quoted(value), self.rule, nearest(value, self.options))


class DtypeChoice(Choice):
    """A dtype by name, or an object of NumPy, torch, JAX or MLX."""

    def check(self, name: str, value: object) -> str:
        with suppress(ParameterError):
            return super().check(name, value)
        return super().check(name, self._dtype_name(value))

    def _dtype_name(self, value: object) -> str | None:
        """Return the name of a dtype of NumPy or torch: np.float16 and torch.float16 are «float16»."""
        from numpy import dtype

        if value is None:
            return None  # NumPy would take it for float64.
        try:
            return dtype(cast("DTypeLike", value)).name
        except Exception:  # NumPy also raises what an object's own text or attributes raise.
            # It is a dtype of another library, such as torch.bfloat16, or a word that is no dtype.
            text = value if isinstance(value, str) else quoted(value)
            return text.rpartition(".")[2]


class Flag(ParameterRule):
    """True or False."""

    rule = "it must be true or false"

    def check(self, name: str, value: object) -> bool:
        if value is not True and value is not False:
            raise KindError(name, quoted(value), self.rule)
        return value


class OptionalFlag(Flag):
    """True, False, or None if the parameter is not given; the command line takes a word."""

    metavar = "[true|false]"

    def parse(self, name: str, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ParameterError(name, repr(text), self.rule)
        return text.lower() == "true"


class ListOf(ParameterRule):
    """Several values that follow one rule."""

    def __init__(self, help: str, *, each: ParameterRule, **common: Unpack[CommonFields]) -> None:
        super().__init__(help, **common)
        self.each = each
        self.metavar = f"{each.metavar},…"
        self.rule = f"each of them, separated by commas, {each.requirement}"

    def parse(self, name: str, text: str) -> tuple[Any, ...]:
        """Return the values of `1,2.5`; an error names the item, such as `axes[1]`."""
        items = enumerate(text.split(","))
        return tuple(self.each.parse(f"{name}[{index}]", item) for index, item in items)

    def check(self, name: str, value: object) -> tuple[Any, ...]:
        """Return the checked items of a list of any kind."""
        items = enumerate(items_of(name, value, self.rule))
        return tuple(self.each.check(f"{name}[{index}]", item) for index, item in items)
