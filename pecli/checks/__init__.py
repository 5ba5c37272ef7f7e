"""Checks of tables and files: each gives a result that reads as an answer."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from pecli.engine import Printed
from pecli.errors import CheckFailedError

MAX_WORDS = 3  #: findings that a repr quotes


def plain(value: Any) -> Any:
    """A result, or a part of one, as JSON has it: numbers that are not finite are null, complex ones are pairs."""
    if hasattr(value, "as_json"):
        return value.as_json()
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plain_fields(result: Any, *names: str) -> dict[str, Any]:
    """Some fields of a result as JSON has them."""
    return {name: plain(getattr(result, name)) for name in names}


class Answer(Printed, ABC):
    """A result that is true where the answer is yes."""

    @property
    @abstractmethod
    def passed(self) -> bool: ...

    @abstractmethod
    def words(self) -> tuple[str, ...]:
        """What it is about, and what was found, the gravest first."""

    def __bool__(self) -> bool:
        return self.passed

    def raise_if_failed(self) -> None:
        """Raise `CheckFailedError`, an AssertionError that says what is wrong, where the answer is no."""
        if not self:
            raise CheckFailedError(str(self))

    def __repr__(self) -> str:
        words = [word for word in self.words() if word][:MAX_WORDS]
        about = f": {'; '.join(words)}" if words else ""
        return f"<{type(self).__name__} {'passed' if self else 'failed'}{about}>"
