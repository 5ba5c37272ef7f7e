"""Arguments of public functions: checks of their types, and of the limits of Python.

Options of a command line are texts and are parsed; arguments of a function may be anything.
"""

from collections.abc import Callable, Iterable
from functools import wraps
from itertools import islice
from operator import length_hint
from typing import ParamSpec, TypeVar

from pecli.errors import KindError, ParameterError, ResourceError, out_of_memory, quoted

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

MAX_ITEMS = 1 << 20
"""Items of an argument that is a list of channels, factors or names; a model has some hundred."""


def within_limits(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Let a public function raise ResourceError if memory or Python's recursion limit is exceeded.

    A view such as `np.broadcast_to(1.0, (10**6, 10**6))` takes 8 bytes until it is copied, and a
    list that is nested 5,000 levels deep cannot even be printed.

    NumPy does not warn of overflow in such a function: tables and files may hold infinities, and
    what is wrong with them is part of the result.
    """

    @wraps(function)
    def limited(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        from numpy import errstate

        try:
            with errstate(all="ignore"):
                return function(*arguments, **named)
        except MemoryError:
            raise out_of_memory() from None
        except RecursionError:
            raise ResourceError("an argument is nested too deeply for Python") from None

    return limited


def text_of(name: str, value: object) -> str:
    """Return an argument that must be a text."""
    if not isinstance(value, str):
        raise KindError(name, quoted(value), "it must be a text")
    return value


def items_of(name: str, value: object, rule: str, max_items: int = MAX_ITEMS) -> list[object]:
    """Return the items of an argument that must be a list of any kind.

    Args:
        name: The name of the argument.
        value: The argument. A text is not a list of letters.
        rule: The rule that other values break.
        max_items: The largest number of items.

    Raises:
        KindError: The argument is not a list.
        ResourceError: It has too many items, such as `np.broadcast_to(1.0, 10**12)`, which takes
            no memory until its items are listed.
    """
    is_text = isinstance(value, (str, bytes))
    if is_text or not isinstance(value, Iterable):
        raise KindError(name, quoted(value), rule)
    too_many = ResourceError(f"{name} has more than {max_items:,} items")
    if _is_known_to_be_longer(value, max_items):
        raise too_many
    try:
        items = list(islice(value, max_items + 1))
    except TypeError:  # An array without axes has a method to iterate, which raises it.
        raise KindError(name, quoted(value), rule) from None
    if len(items) > max_items:  # A generator has no length before it ends.
        raise too_many
    return items


def _is_known_to_be_longer(value: Iterable[object], length: int) -> bool:
    """Return True if a value states its length, and it is larger than this one."""
    try:
        return length_hint(value) > length
    except OverflowError:  # The length of range(10**30) has more than 63 bits.
        return True


def two_of(name: str, value: object, rule: str) -> tuple[object, object]:
    """Return the two items of an argument that must be a list of two, such as a width and a height."""
    match items_of(name, value, rule):
        case [first, second]:
            return first, second
    raise ParameterError(name, quoted(value), rule)


def texts_of(
    name: str, value: object, rule: str = "it must be a text, or several"
) -> tuple[str, ...]:
    """Return an argument that must be one text or several, as a tuple."""
    if isinstance(value, str):
        return (value,)
    items = items_of(name, value, rule)
    return tuple(text_of(name, item) for item in items)


def flag_of(name: str, value: object) -> bool:
    """Return an argument that must be true or false; NumPy has truth values of its own."""
    is_flag = type(value).__name__ == "bool"
    if not is_flag:
        raise KindError(name, quoted(value), "it must be true or false")
    return bool(value)


def function_of(name: str, value: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Return an argument that must be a function."""
    if not callable(value):
        raise KindError(name, quoted(value), "it must be a function")
    return value
