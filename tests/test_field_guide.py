"""The field guide of mistakes agrees with the catalogue."""

import pytest

from pecli.explain import catalogue
from pecli.golden.mistake_cases import slug
from tests.field_guide import GUIDE, guide

ADVICE = "run `python -m tests.field_guide`"


def test_the_page_follows_from_the_catalogue() -> None:
    assert GUIDE.read_text(encoding="utf-8") == guide(), ADVICE


@pytest.mark.parametrize("kind", catalogue.every_kind(), ids=slug)
def test_every_mistake_has_a_summary(kind: type[catalogue.Mistake]) -> None:
    assert kind.summary
