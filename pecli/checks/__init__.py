"""Checks of tables and files. The result of a check is an answer: true if it is yes."""

from abc import ABC, abstractmethod

from pecli.compare.json_values import plain as plain
from pecli.compare.json_values import plain_fields as plain_fields
from pecli.display import Printed
from pecli.errors import CheckFailedError

MAX_WORDS = 3  #: parts of an answer that its repr quotes


class Answer(Printed, ABC):
    """A result that is true if the answer is yes."""

    @property
    @abstractmethod
    def passed(self) -> bool: ...

    @abstractmethod
    def words(self) -> tuple[str, ...]:
        """Return the subject, then the findings, most severe first; empty ones are left out."""

    def __bool__(self) -> bool:
        return self.passed

    def raise_if_failed(self) -> None:
        """Raise `CheckFailedError`, an AssertionError that states what is wrong, if the answer is no."""
        if not self:
            raise CheckFailedError(str(self))

    def __repr__(self) -> str:
        verdict = "passed" if self else "failed"
        words = [*filter(None, self.words())]
        about = "; ".join(words[:MAX_WORDS])
        if about:
            return f"<{type(self).__name__} {verdict}: {about}>"
        return f"<{type(self).__name__} {verdict}>"
