"""Wrong calls of every public name: whatever the arguments are, only errors of pecli are raised.

Each call is a right one with one or two arguments replaced by something hostile: another type, a
number out of range, a list nested thousands of levels deep, an array that only pretends to fit into
memory. It may succeed. What must never happen is an exception that is not pecli's, a warning, a
message of several lines or thousands of letters, or many seconds of work.
"""

import inspect
import random
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import pecli
from pecli.errors import DefectError
from tests.tools.campaigns import Result

MAX_MESSAGE = 1200  # letters
MAX_CPU_SECONDS = 20
MAX_ADDRESS_SPACE = 4 << 30
DEEP = 5000
"""Levels of a nested list, more than Python's limit of recursion."""

CONFIG = {
    "model_type": "llama",
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "max_position_embeddings": 64,
    "rope_theta": 10000.0,
}
QUERIES = np.linspace(-1, 1, 4 * 8, dtype=np.float32).reshape(4, 8)
ROPE = pecli.Rope(4, 8)
SINUSOIDAL = pecli.Sinusoidal(4, 8)


class Call(NamedTuple):
    """A right call: a function and its arguments."""

    function: Callable[..., object]
    positional: tuple[Any, ...] = ()
    named: dict[str, Any] = {}  # noqa: RUF012 - a default of a tuple is never changed


def _tables(scheme: Callable[..., pecli.Scheme]) -> Callable[..., object]:
    """Return a function with the scheme's signature that makes the scheme and its tables."""

    def make(*arguments: Any, **named: Any) -> object:
        made = scheme(*arguments, **named)
        sizes = [table.nbytes for table in made.tensors()]
        if sum(sizes) > 1 << 24:
            return repr(made)  # A large table is a right answer that takes long.
        return made.tables(), made.spec(), repr(made)

    make.__signature__ = inspect.signature(scheme)  # type: ignore[attr-defined]
    return make


def _recorded(model: Any, layers: Any = None) -> object:
    with pecli.record(model, layers=layers) as run:
        return run


CALLS: dict[str, list[Call]] = {
    "Alibi": [Call(_tables(pecli.Alibi), (4, 6))],
    "AlibiBias": [
        Call(pecli.AlibiBias, (4,)),
        Call(pecli.AlibiBias(4).get_bias, (6,)),
    ],
    "LearnedInit": [Call(_tables(pecli.LearnedInit), (4, 8))],
    "LearnedPosEmbedding": [
        Call(pecli.LearnedPosEmbedding, (8, 8)),
        Call(pecli.LearnedPosEmbedding(8, 8), (QUERIES,), {"offset": 1}),
    ],
    "Relative": [
        Call(_tables(pecli.Relative), ("t5", 6)),
        Call(_tables(pecli.Relative), ("swin",), {"grid": (3, 3)}),
    ],
    "Rope": [
        Call(_tables(pecli.Rope), (4, 8)),
        Call(_tables(pecli.Rope), (4, 8), {"scaling": "yarn", "factor": 4.0}),
        Call(_tables(pecli.Rope), (None, 8), {"positions": [0, 1, 5]}),
        Call(_tables(pecli.Rope), (None, 8), {"grid": (2, 3)}),
    ],
    "RotaryPosEmbedding": [
        Call(pecli.RotaryPosEmbedding, (8, 16)),
        Call(pecli.RotaryPosEmbedding(8), (QUERIES,), {"position_ids": [0, 1, 2, 3]}),
        Call(pecli.RotaryPosEmbedding(8).apply, (QUERIES, QUERIES), {"offset": 1}),
    ],
    "Scheme": [Call(pecli.Scheme.from_spec, (ROPE.spec(),))],
    "Sinusoidal": [
        Call(_tables(pecli.Sinusoidal), (4, 8)),
        Call(_tables(pecli.Sinusoidal), (None, 8), {"grid": (2, 3), "style": "mae"}),
    ],
    "SinusoidalPosEmbedding": [
        Call(pecli.SinusoidalPosEmbedding, (4, 8)),
        Call(pecli.SinusoidalPosEmbedding(), (QUERIES,)),
        Call(pecli.SinusoidalPosEmbedding().get_encoding, (4,)),
    ],
    "Tolerance": [Call(pecli.Tolerance, (), {"atol": 1e-3})],
    "apply": [
        Call(pecli.apply, (QUERIES, ROPE)),
        Call(pecli.apply, (QUERIES, CONFIG), {"offset": 3}),
        Call(pecli.apply, (QUERIES, SINUSOIDAL)),
    ],
    "audit": [Call(pecli.audit, (ROPE,), {"recipes": ["float32"]})],
    "check": [Call(pecli.check, (lambda positions: None, CONFIG), {"reasons": False})],
    "convert": [
        Call(pecli.convert, (QUERIES, "halves", "interleaved")),
        Call(pecli.convert, ({"q_proj.weight": np.eye(32, dtype=np.float32)},), {"model": CONFIG}),
    ],
    "dask": [Call(pecli.dask, (ROPE,))],
    "diff": [Call(pecli.diff, (QUERIES, QUERIES + 1), {"atol": 1e-3})],
    "extend": [Call(pecli.extend, (CONFIG, 256)), Call(pecli.extend, ("llama-3.1-8b", "256k"))],
    "identify": [Call(pecli.identify, (SINUSOIDAL.tables(),))],
    "load": [Call(pecli.load, ("pe.npy",)), Call(pecli.load, ("raw.bin",), {"shape": (2, -1)})],
    "load_config": [Call(pecli.load_config, (CONFIG,)), Call(pecli.load_config, ("config.json",))],
    "load_model": [Call(pecli.load_model, ("gpt2",), {"flags": "--max-model-len 64"})],
    "plot": [
        Call(pecli.plot, (QUERIES,)),
        Call(pecli.plot, (ROPE,), {"kind": "heatmap"}),
        Call(pecli.plot, ("gpt2",)),
    ],
    "positions": [Call(pecli.positions, ("qwen2.5-vl-7b", "text:4,image:1x4x4"))],
    "record": [Call(_recorded, (QUERIES,))],
    "report": [Call(pecli.report, (CONFIG,), {"output": "report.html"})],
    "resize": [
        Call(pecli.resize, (QUERIES, 6)),
        Call(pecli.resize, (QUERIES, "3x3"), {"grid": "2x2"}),
    ],
    "runtimes": [Call(pecli.runtimes, (CONFIG,), {"names": ["vllm"]})],
    "save": [Call(pecli.save, ("out.npz", ROPE)), Call(pecli.save, ("out.h", {"a": QUERIES}))],
    "sinusoidal_pos_embedding": [Call(pecli.sinusoidal_pos_embedding, (4, 8))],
    "verify": [
        Call(pecli.verify, (ROPE.tables(), ROPE)),
        Call(pecli.verify, (ROPE.tables(), CONFIG), {"atol": 1e-3}),
        Call(pecli.verify, (QUERIES,), {"spec": CONFIG, "before": QUERIES}),
    ],
}
"""Right calls by public name. Classes of errors and the version take no arguments of users."""

NOT_CALLED = {"CheckFailedError", "FileError", "KindError", "ParameterError", "PecliError"}
NOT_CALLED |= {"__version__"}


def nested(kind: Callable[[Any], Any], innermost: object) -> Any:
    """Return a container in a container, DEEP levels deep."""
    value = innermost
    for _ in range(DEEP):
        value = kind(value)
    return value


class Silent:
    """An object that has no text and no truth value."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")

    def __bool__(self) -> bool:
        raise RuntimeError("no truth value")


class Talkative:
    """An object whose text has many lines."""

    def __repr__(self) -> str:
        return "line\n" * 1000


class WrongArray:
    """An object that claims to be an array, and is not."""

    shape = (4, 8)

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        raise RuntimeError("no array")


def hostile_values() -> list[Callable[[], object]]:
    """Return functions that make a hostile value each."""
    plain: list[object] = [
        *(None, True, False, -1, 0, 1, 3, 5, 2**31, 2**63, 2**70, 10**400, 10**5000),
        *(1.5, -0.0, 1e30, 1e308, 5e-324, float("nan"), float("inf"), float("-inf"), 1j),
        *("", "x", "nan", "-", "3", "1e400", "a" * 100_000, "a\nb", "\0", "\udc80", "rope", "4x4"),
        *(b"bytes", bytearray(4), (), [], {}, set(), frozenset({1}), [[]], [None], ["x"], [1, "x"]),
        *([[1, 2], [3]], {"a": 1}, {1: 2}, {"a": {"b": []}}, {"cos": [1.0], "sin": "x"}, (1, 2, 3)),
        *(
            range(3),
            Path("missing"),
            Path("pe.npy"),
            Path("."),
            object(),
            np,
            Ellipsis,
        ),
        *(NotImplemented, ValueError("x"), Silent(), Talkative(), WrongArray(), slice(3)),
        *(ROPE, SINUSOIDAL, pecli.Tolerance(atol=1e-3), "gpt2", "llama-3.1-8b", CONFIG),
        *({**CONFIG, "rope_theta": "x"}, {**CONFIG, "head_dim": 7}, {**CONFIG, "rope_scaling": 5}),
        *("config.json", "pe.npy", "raw.bin", ".", "missing.npy", "/dev/null"),
    ]
    arrays: list[object] = [
        *(
            np.zeros(0),
            np.zeros((0, 8)),
            np.zeros((4, 0)),
            np.zeros(()),
            np.float32(3),
            np.int64(3),
        ),
        *(np.arange(4), np.arange(32).reshape(4, 8), np.ones((2, 3, 4, 8), np.float16)),
        *(np.full((4, 8), np.nan), np.full((4, 8), np.inf, np.float32), QUERIES.astype(">f4")),
        *(QUERIES.astype(complex), QUERIES > 0, QUERIES.astype(object), QUERIES.astype(str)),
        *(QUERIES.astype(np.longdouble), QUERIES.T, QUERIES[::-1], QUERIES * 1e30),
        *(
            np.array(None),
            np.array(["2020-01-01"], "M8[D]"),
            np.ma.masked_array(QUERIES, QUERIES > 0),
        ),
        *(np.zeros(3, [("a", "f4")]), np.zeros((1,) * 33), np.full((4, 8), 2**62)),
        np.broadcast_to(np.float32(1), (10**6, 10**6)),
        np.broadcast_to(np.float64(1), (2**31, 8)),
        np.broadcast_to(np.int64(1), (2**40,)),
    ]
    made: list[Callable[[], object]] = [
        lambda: nested(lambda value: [value], 1.0),
        lambda: nested(lambda value: (value,), "x"),
        lambda: nested(lambda value: {"a": value}, None),
        lambda: {**CONFIG, "rope_scaling": nested(lambda value: {"a": value}, 1)},
        lambda: (number for number in range(3)),
        lambda: iter([]),
    ]
    constants = [lambda value=value: value for value in (*plain, *arrays)]
    return [*constants, *made]


def parameters_of(call: Call) -> list[str]:
    """Return the names of all parameters that can be passed by name."""
    try:
        signature = inspect.signature(call.function)
    except ValueError:  # Some builtin types have none.
        return []
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [name for name, parameter in signature.parameters.items() if parameter.kind in kinds]


class WrongCall(NamedTuple):
    """A call with hostile arguments, and how a report names it."""

    call: Call
    label: str


def draw_call(name: str, chance: random.Random) -> WrongCall:
    """Return a random right call of a public name with one or two arguments replaced."""
    call = chance.choice(CALLS[name])
    positional = list(call.positional)
    named = dict(call.named)
    parameters = parameters_of(call)
    values = hostile_values()
    changes = []
    for _ in range(chance.choice((1, 1, 2))):
        number = chance.randrange(len(values))
        value = values[number]()
        places: list[int | str] = [*range(len(positional)), *parameters[len(positional) :]]
        place = chance.choice(places)
        if isinstance(place, int):
            positional[place] = value
        else:
            named[place] = value
        changes.append(f"{place}={described(value)}")
    return WrongCall(Call(call.function, tuple(positional), named), f"{name}({', '.join(changes)})")


def described(value: object) -> str:
    """Return a short text for a value, of which some have none."""
    try:
        text = " ".join(repr(value).split())
    except (ValueError, RecursionError, RuntimeError):
        return f"a {type(value).__name__} without a text"
    return text if len(text) <= 80 else f"{text[:80]}…"


class TooSlowError(BaseException):
    """A call has used too much CPU time."""


@contextmanager
def limited_time() -> Iterator[None]:
    """Raise TooSlowError in a block that takes more than MAX_CPU_SECONDS of CPU time."""

    def stop(*_: object) -> None:
        raise TooSlowError

    old = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, MAX_CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)


def outcome_of(call: Call) -> BaseException | None:
    """Return what a call raises; None if it succeeds."""
    try:
        with warnings.catch_warnings(), limited_time():
            warnings.simplefilter("error")
            call.function(*call.positional, **call.named)
    except (Exception, TooSlowError) as error:
        return error
    return None


def problem_of(error: BaseException | None) -> str:
    """Return what is wrong with the outcome of a call; empty if nothing is."""
    if error is None:
        return ""
    if isinstance(error, TooSlowError):
        return f"takes more than {MAX_CPU_SECONDS} s"
    if isinstance(error, DefectError) or not isinstance(error, pecli.PecliError):
        return f"raises {type(error).__name__}: {str(error)[:300]}"
    message = str(error)
    if len(message.splitlines()) > 1:
        return f"has a message of several lines: {message[:300]!r}"
    if len(message) > MAX_MESSAGE:
        return f"has a message of {len(message)} letters: {message[:100]}"
    return ""


def prepare_files() -> None:
    """Write the files that calls read into the current folder."""
    pecli.save("pe.npy", SINUSOIDAL)
    Path("raw.bin").write_bytes(QUERIES.tobytes())
    Path("config.json").write_text(str(CONFIG).replace("'", '"'))


def attempt(numbers: Iterable[int], seed: int) -> Iterator[Result]:
    """Make a wrong call per number, of every public name in turn, and yield what came of it."""
    limit_memory()
    names = sorted(CALLS)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for number in numbers:
            prepare_files()
            wrong = draw_call(names[number % len(names)], random.Random(f"{seed}/{number}"))
            error = outcome_of(wrong.call)
            outcome = "success" if error is None else type(error).__name__
            problem = problem_of(error)
            result = Result()
            result.add(f"call {seed}/{number} {wrong.label}", [outcome], filter(None, [problem]))
            yield result


def limit_memory() -> None:
    """Limit the address space: an array that pretends to be small must not fill the machine."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESS_SPACE, MAX_ADDRESS_SPACE))
