"""Checks of tables and files: each gives a result that reads as an answer."""

from abc import ABC, abstractmethod

from pecli.compare.json_values import plain as plain
from pecli.compare.json_values import plain_fields as plain_fields
from pecli.display import Printed
from pecli.errors import CheckFailedError

MAX_WORDS = 3  #: findings that a repr quotes


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
