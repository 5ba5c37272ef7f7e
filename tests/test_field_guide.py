"""The field guide, a page that describes every mistake that pecli can name, agrees with the
catalogue of mistakes.

tests/field_guide.py writes the page from the classes of the catalogue.
"""

import pytest

from pecli.explain import catalogue
from pecli.golden.mistake_cases import slug
from tests.field_guide import GUIDE, guide

ADVICE = "run `python -m tests.field_guide`"


def test_the_field_guide_is_written_from_the_catalogue() -> None:
    """The field guide is a page of the documentation that describes every mistake. `guide` returns
    the page that follows from the catalogue's classes; whoever changes one must write it again.
    """
    assert GUIDE.read_text(encoding="utf-8") == guide(), ADVICE


@pytest.mark.parametrize("kind", catalogue.every_kind(), ids=slug)
def test_every_mistake_has_a_summary(kind: type[catalogue.Mistake]) -> None:
    """The field guide and reports describe a mistake by the summary of its class, which may not be
    empty.
    """
    assert kind.summary
