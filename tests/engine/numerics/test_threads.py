"""How many threads there are to work with."""

import os

import pytest

from pecli.engine.numerics.threads import thread_count


@pytest.mark.parametrize(("wish", "threads"), [("1", 1), ("8", 8), ("1000", 64)])
def test_thread_count_is_what_was_wished_for(monkeypatch, wish, threads):
    monkeypatch.setenv("PECLI_THREADS", wish)
    assert thread_count() == threads


@pytest.mark.parametrize("wish", ["", "0", "-1", "many", "1.5", "²"])
def test_other_wishes_count_as_none(monkeypatch, wish):
    monkeypatch.delenv("PECLI_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 2, 5}, raising=False)
    assert thread_count() == 3
    monkeypatch.setenv("PECLI_THREADS", wish)
    assert thread_count() == 3
