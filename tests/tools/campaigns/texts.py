"""Damage text, JSON and raw files, whose readers accept the most forms: see `readers`."""

from collections.abc import Iterable, Iterator

from tests.tools.campaigns import Result
from tests.tools.campaigns.readers import attempt_files, text_files


def attempt(numbers: Iterable[int], seed: int) -> Iterator[Result]:
    """Damage a file per number, and yield the answers to it."""
    yield from attempt_files(text_files(), numbers, seed)
