"""Configurations in all dialects and of all families: what is read of each, from which key, and what is warned of."""

import pytest

from tests.models.facts import check, stored

ROWS = stored("configurations.jsonl")


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_what_a_configuration_means(row: list) -> None:
    check(*row[1:])
