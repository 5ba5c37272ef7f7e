"""Findings of checks as data: codes with fields, and their sentences."""

from typing import ClassVar


class Finding:
    """Something that a check has found, with the sentence for it."""

    sentence: ClassVar[str] = ""
    """The sentence, in which `{tensor}` stands for the field `tensor`."""

    def __str__(self) -> str:
        """Return the sentence; a class whose sentence has several forms makes it itself."""
        return self.sentence.format(**vars(self))
