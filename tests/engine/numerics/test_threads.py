"""How many threads there are to work with, and what they do."""

import os

import pytest

from pecli.engine.table import thread_count, work_through


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


@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("count", [0, 1, 2, 500])
def test_every_item_is_worked_on_once_and_taken_in_order(monkeypatch, threads, count):
    monkeypatch.setenv("PECLI_THREADS", threads)
    taken, done = [], []

    def items():
        for item in range(count):
            taken.append(item)
            yield item

    work_through(done.append, items())
    assert taken == list(range(count))
    assert sorted(done) == taken


@pytest.mark.parametrize("threads", ["1", "3"])
def test_an_error_ends_the_work_of_all_threads(monkeypatch, threads):
    monkeypatch.setenv("PECLI_THREADS", threads)
    done = []

    def work(item):
        if item == 5:
            raise ZeroDivisionError
        done.append(item)

    with pytest.raises(ZeroDivisionError):
        work_through(work, iter(range(10**9)))
    assert 5 not in done
