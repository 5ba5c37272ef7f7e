"""Colours of numbers."""

from __future__ import annotations

import pytest

from pecli.views import preview


def luminance(colour: str) -> float:
    """By WCAG 2.1."""
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colour", [preview.POSITIVE, preview.NEGATIVE])
def test_numbers_are_legible_on_white_and_on_black(colour: str) -> None:
    assert 1.05 / (luminance(colour) + 0.05) > 4
    assert (luminance(colour) + 0.05) / 0.05 > 4
