"""How many threads there are to work with."""

import pytest

from pecli.engine.threads import thread_count


@pytest.mark.parametrize(("wish", "threads"), [("1", 1), ("8", 8), ("1000", 64)])
def test_thread_count_is_what_was_wished_for(monkeypatch, wish, threads):
    monkeypatch.setenv("PECLI_THREADS", wish)
    assert thread_count() == threads


@pytest.mark.parametrize("wish", ["", "0", "-1", "many", "1.5"])
def test_other_wishes_count_as_none(monkeypatch, wish):
    monkeypatch.setenv("PECLI_THREADS", wish)
    assert thread_count() >= 1


def test_a_digit_that_is_no_number(monkeypatch):
    monkeypatch.setenv("PECLI_THREADS", "²")
    assert thread_count() >= 1
