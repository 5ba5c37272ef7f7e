"""Wrong arguments of public functions: only errors of pecli, in one line of at most 1,100 letters.

Each row is a call and a part of its message. DEEP is a list nested thousands of levels deep, TABLE
an array of ones. Arrays from np.broadcast_to claim terabytes without taking memory; copying one
would end the process.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.errors import ResourceError
from tests.tools.campaigns.calls import CALLS, CONFIG, NOT_CALLED, Silent, nested

ROOT = Path(__file__).parents[1]
DEEP = nested(lambda value: [value], 1.0)
TABLE = np.ones((4, 8), np.float32)
ROPE = pecli.Rope(4, 8)
WRONG_CALLS = [
    (lambda: pecli.plot(ROPE, size=5), "size is 5; it must be two numbers of inches"),
    (lambda: pecli.plot(ROPE, size=(1, 2, 3)), "it must be two numbers of inches"),
    (lambda: pecli.plot(ROPE, size=(200, 5)), "size[0] is 200; it must be a finite number"),
    (lambda: pecli.plot(ROPE, size=(100, 100), dpi=2400), "would have more than 67,108,864 pixels"),
    (lambda: pecli.plot(ROPE, dpi="x"), "dpi is 'x'; it must be a finite number"),
    (lambda: pecli.plot(ROPE, dpi=float("nan")), "dpi is nan; it must be a finite number"),
    (lambda: pecli.plot(ROPE, channels=3), "channels is 3; each of them"),
    (lambda: pecli.plot(ROPE, channels=[]), "channels is empty"),
    (lambda: pecli.extend("llama-3.1-8b", 2**18, factor=1e308), "at least 1, up to 1e+30"),
    (lambda: pecli.Sinusoidal(TABLE, 8, positions=[0, 1]), "seq_len is array([[1., 1."),
    (lambda: pecli.verify({"q": 1}, spec="gpt-neox-20b", before=TABLE), "q is of shape ()"),
    (lambda: pecli.plot(ROPE, kind=TABLE), "kind is array([[1., 1."),
    (lambda: pecli.plot(ROPE, labels=5), "labels is 5; it must be a text, or several"),
    (lambda: pecli.plot(ROPE, title=1.5), "title is 1.5; it must be a text"),
    (lambda: pecli.plot(ROPE, dark="yes"), "dark is 'yes'; it must be true or false"),
    (lambda: pecli.plot({"a": {"b": []}}), "there is nothing to draw"),
    (lambda: pecli.audit(ROPE, recipes=TABLE), "recipes is array([1., 1."),
    (lambda: pecli.audit(ROPE, on_block=1), "on_block is 1; it must be a function"),
    (lambda: pecli.resize(TABLE, 6, name=5), "name is 5; it must be a text"),
    (lambda: pecli.runtimes("gpt-oss-20b", names=5), "names is 5; it must be a text, or several"),
    (lambda: pecli.convert(TABLE, 5, "halves"), "is 5; it must be one of"),
    (lambda: pecli.load_model("gpt2", flags=[1]), "flags is [1]; it must be a text"),
    (lambda: pecli.positions("gpt2", []), "segments is empty; "),
    (lambda: pecli.load("x.bin", shape=3), "shape is 3; it must be lengths from 1 on"),
    (lambda: pecli.load("x.bin", raw_dtype=5), "raw_dtype is 5; it must be a text"),
    (lambda: pecli.save("x.h", TABLE, prefix=5), "prefix is 5; it must be a text"),
    (lambda: pecli.verify(ROPE.tables(), ROPE, any_dtype=TABLE), "it must be true or false"),
    (lambda: pecli.convert({1: TABLE}), "name is 1; it must be a text"),
    (
        lambda: pecli.Sinusoidal(dim=8, grid=np.broadcast_to(1, (10**12,))),
        "it must be HxW or TxHxW, whole numbers",
    ),
    # Python 3.12 writes such a list as text, earlier ones refuse: only its rule is always the same.
    (lambda: pecli.Rope(DEEP, 8), "; it must be a whole number"),
    (lambda: pecli.Tolerance(atol=DEEP), "; it must be a finite number"),
    (lambda: pecli.Rope(4, 8, dtype=Silent()), "dtype is 'of type Silent'; it must be one of"),
    (lambda: pecli.Rope(TABLE, 8, positions=[0, 1]), "seq_len is array([[1., 1."),
    (lambda: pecli.verify(3.0, CONFIG, before=TABLE), "of shape (); before it is of shape (4, 8)"),
    (lambda: pecli.Scheme.from_spec("a" * 100_000), "…"),
    (lambda: pecli.load("a" * 100_000), "file name too long"),
]


@pytest.mark.parametrize(
    ("call", "message"), WRONG_CALLS, ids=[message for _, message in WRONG_CALLS]
)
def test_a_wrong_argument_is_an_error_of_one_line(call: Callable[[], Any], message: str) -> None:
    """`call` gives a public function a wrong argument, for example pecli.plot(ROPE, size=5), and
    `message` is a part of the error: what was given, and the rule. It is one line, and values in it
    are shortened, so that it has at most 1,100 letters.
    """
    with pytest.raises(pecli.PecliError) as caught:
        call()

    text = str(caught.value)
    assert message in text
    assert len(text) <= 1100
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize("function", [pecli.identify, pecli.plot, pecli.load_config])
def test_a_list_that_is_nested_deeply_is_an_error_of_pecli(function: Callable[[Any], Any]) -> None:
    """DEEP is a list that is nested thousands of levels deep; Python's own functions raise
    RecursionError for it.
    """
    with pytest.raises(pecli.PecliError):
        function(DEEP)


@pytest.mark.parametrize(
    "call",
    [
        lambda table: pecli.identify(table),
        lambda table: pecli.verify(table, pecli.Sinusoidal(4, 8)),
        lambda table: pecli.diff(table, TABLE),
        lambda table: pecli.apply(table, ROPE),
        lambda table: pecli.resize(table, 6),
        lambda table: pecli.save("x.npy", table),
        lambda table: pecli.Relative("t5", 4, weights=table),
    ],
)
def test_a_view_that_is_larger_than_memory_is_refused(call: Callable[[Any], Any]) -> None:
    """np.broadcast_to makes an array of 10^12 elements, 4 TB, without memory; a copy of it would not
    fit. Each `call` is a public function that would have to copy it.
    """
    table = np.broadcast_to(np.float32(1), (10**6, 10**6))
    with pytest.raises(ResourceError, match="repeats its elements to"):
        call(table)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (partial(pecli.Sinusoidal, grid="4x4", dim=8, style="mae"), "grid_scale"),
        (partial(pecli.Sinusoidal, grid="4x4", dim=8, style="mae"), "grid_base"),
        (partial(pecli.Rope, 4, 8), "axes"),
        (partial(pecli.Rope, 4, 8), "axis_factors"),
        (partial(pecli.Rope, 4, 8), "mrope_section"),
        (partial(pecli.Rope, 4, 8), "long_factor"),
        (partial(pecli.Rope, 4, 8), "short_factor"),
    ],
)
def test_a_list_of_numbers_that_is_larger_than_memory_is_refused(
    make: Callable[..., object], name: str
) -> None:
    """A parameter that is a list of numbers is given 10^12 of them; 2^20 = 1,048,576 are the limit.
    np.broadcast_to makes such an array without memory.
    """
    values = {name: np.broadcast_to(1.0, 10**12)}
    with pytest.raises(ResourceError, match=f"{name} has more than 1,048,576 items"):
        make(**values)


@pytest.mark.parametrize("count", [10**12, 10**30])
def test_a_range_of_positions_that_is_larger_than_memory_is_refused(count: int) -> None:
    """A range of Python takes no memory, but its positions would; 2^26 = 67,108,864 are the limit."""
    with pytest.raises(ResourceError, match="positions has more than 67,108,864 items"):
        pecli.Sinusoidal(positions=range(count), dim=8)


def test_the_campaign_of_wrong_calls_has_every_public_name() -> None:
    """The campaign in tests/tools makes random wrong calls. CALLS has a maker of calls for each public
    function, and NOT_CALLED the public names that are not functions: a new name must be in one.
    """
    assert {*CALLS} | NOT_CALLED == {*pecli.__all__}


@pytest.mark.parametrize("count", [5000])
@pytest.mark.thorough
def test_random_wrong_calls_raise_only_our_errors(count: int) -> None:
    """`count` random calls of public functions with wrong arguments, in a process of its own, whose
    memory is limited; any exception but PecliError is a problem.
    """
    campaign = [sys.executable, "-m", "tests.tools.campaign", "calls", "--json"]
    options = ["--cases", str(count), "--seed", "3", "--processes", "1"]
    done = subprocess.run([*campaign, *options], cwd=ROOT, capture_output=True, text=True)
    report = json.loads(done.stdout)

    assert report["problems"] == []
    assert report["cases"] == count
    assert done.stderr == ""
