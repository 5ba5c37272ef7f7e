"""Servers, and the flags by which they change positional encodings: a table each.

A table of the folder `servers` names the flags (as `plain_flag` spells them) with their meanings,
those that newer versions have removed, and those that only look as if they were about positions.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import PurePosixPath
from typing import NamedTuple

from pecli.engine.named_values import NamedValues
from pecli.errors import ParameterError, nearest
from pecli.models.data import stored
from pecli.models.flags.command_line import CommandLine, ServerFlag
from pecli.models.unread import looks_like_positions

#: The order in which tables are tried for flags without the name of a program.
TABLES = (
    "llama_cpp",
    # Before vLLM, whose own `rope_scaling` is gone: without dashes, it is an argument of Python.
    "transformers",
    "vllm",
    "sglang",
    "koboldcpp",
    "ollama",
    "tabbyapi",
    "exllama",
    "text_generation_webui",
)
#: Whether the flags of a server have dashes, by its `spelling`.
DASHES = {"dashed": (True,), "bare": (False,), "both": (True, False)}
#: Names of lengths that no key of a configuration has.
LENGTHS = re.compile(r"ctx|context|(model|seq)_len|alpha|compress")


class Meaning(StrEnum):
    """The setting that a flag changes. In formulas, f is the factor by which a context is stretched."""

    BASE = "base"
    #: The scaling by its name: none, linear, yarn.
    SCALING = "scaling"
    FACTOR = "factor"
    #: 1 / f, which multiplies positions.
    SCALE = "scale"
    #: NTK: the base becomes base · alpha^(d / (d − 2)).
    ALPHA = "alpha"
    #: f of YaRN.
    YARN_FACTOR = "yarn_factor"
    #: The trained context, from which YaRN computes its limits.
    ORIGINAL = "original"
    #: llama.cpp's mix of YaRN and interpolation: 1 is YaRN, 0 is linear.
    EXT_FACTOR = "ext_factor"
    ATTN_FACTOR = "attn_factor"
    BETA_FAST = "beta_fast"
    BETA_SLOW = "beta_slow"
    #: The served context.
    CONTEXT = "context"
    #: JSON that replaces keys of config.json.
    CONFIG = "config"
    #: JSON that replaces one key of config.json.
    ROPE_SCALING = "rope_scaling"
    ROPE_PARAMETERS = "rope_parameters"
    #: KEY=TYPE:VALUE, which replaces metadata of a .gguf.
    METADATA = "metadata"
    #: Self-extend: positions are divided beyond a window, which no table describes.
    GROUP = "group"
    GROUP_WIDTH = "group_width"
    #: The engine that text-generation-webui loads a model with.
    LOADER = "loader"


class Removal(NamedTuple):
    """The version that removed a flag, and what replaces it."""

    version: str
    instead: str


class ReadFlag(NamedTuple):
    """A flag with its meanings: `--ropeconfig 0.5 10000` of koboldcpp has two, a scale and a base."""

    flag: ServerFlag
    meanings: tuple[Meaning, ...]


@dataclass(frozen=True)
class Server:
    """A server and its flags.

    Attributes:
        name: Its name.
        version: The version whose documentation and code were read.
        engine: The rules by which it applies them; see `pecli.models.flags.engines`.
        programs: Names of its programs and functions.
        spelling: `dashed` for flags of a shell, `bare` for settings without dashes, or `both`.
        effect_beyond_context: What it does with a context that is longer than the model's.
        note_on_stretched_context: What it does with such a context although flags stretch it; may be
            empty.
        flags: The meanings of each flag.
        removed: Flags that newer versions do not have.
        unrelated: Flags that look as if they were about positions.
        runtime: The runtime, as `pecli.runtimes` names it, that reads config.json with the flags; empty
            if it is not described, or if the rules of the engine are those of the runtime.
        default_base: The base if an override has none, by model type; empty is any other model.
    """

    name: str
    version: str
    engine: str
    programs: frozenset[str]
    spelling: str
    effect_beyond_context: str
    note_on_stretched_context: str
    flags: Mapping[str, tuple[Meaning, ...]]
    removed: Mapping[str, Removal]
    unrelated: frozenset[str]
    runtime: str = ""
    default_base: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, table: NamedValues) -> "Server":
        """Return the server of a JSON table, whose names are those of the fields.

        Its flags are `{"rope_freq_base": "base", "ropeconfig": "scale base"}`: a flag has one
        meaning or several, one per value. `removed` has the version and the flag to use instead.
        """
        flags = {name: _meanings(words) for name, words in table["flags"].items()}
        return cls(
            name=table["name"],
            version=table["version"],
            engine=table["engine"],
            programs=frozenset(table["programs"]),
            spelling=table["spelling"],
            effect_beyond_context=table["effect_beyond_context"],
            note_on_stretched_context=table.get("note_on_stretched_context", ""),
            flags=flags,
            removed={name: Removal(**row) for name, row in table["removed"].items()},
            unrelated=frozenset(table["unrelated"].split()),
            runtime=table.get("runtime", ""),
            default_base=table.get("default_base", {}),
        )

    def accepts(self, flag: ServerFlag) -> bool:
        """Return True if a flag of this name and spelling is one of the server's."""
        return flag.key in self.flags and flag.is_dashed in DASHES[self.spelling]

    def concerns_positions(self, flag: ServerFlag) -> bool:
        """Return True if a flag is, or seems to be, about positions."""
        if flag.key in self.unrelated:
            return False
        return flag.key in self.flags or _looks_like_positions(flag.key)

    def read(self, line: CommandLine) -> list[ReadFlag]:
        """Return the flags about positions; one that was removed has no meaning.

        Raises:
            ParameterError: A flag seems to be about positions, and the server does not have it.
        """
        read_flags = []
        for flag in line.flags:
            if self.accepts(flag):
                read_flags.append(ReadFlag(flag, meanings=self.flags[flag.key]))
            elif flag.key in self.removed:
                read_flags.append(ReadFlag(flag, meanings=()))
            elif self.concerns_positions(flag):
                raise self._unknown(flag)
            # All other flags, such as `--port`, do not concern positions.
        return read_flags

    def _unknown(self, flag: ServerFlag) -> ParameterError:
        """Return the error for a flag that the server does not have."""
        advice = nearest(flag.key, list(self.flags), _spelled)
        rule = f"{self.name} {self.version} has no such flag"
        return ParameterError("flags", flag.spelled, rule, advice or self._known_flags())

    def _known_flags(self) -> str:
        names = [_spelled(name) for name in self.flags if not name.isupper()]
        return f"it has {', '.join(names)}"


def _meanings(words: str) -> tuple[Meaning, ...]:
    """Return the meanings of a flag, such as `scale base`."""
    return tuple(Meaning(word) for word in words.split())


def _looks_like_positions(name: str) -> bool:
    return looks_like_positions(name) or LENGTHS.search(name) is not None


def _spelled(name: str) -> str:
    """Return a flag as a command line has it."""
    if name.startswith("-") or name.isupper():
        return name
    return f"--{name.replace('_', '-')}"


OTHER_PROGRAMS = frozenset(
    (
        *("text-generation-launcher", "text-generation-inference"),
        *("trtllm-serve", "trtllm-build", "lmdeploy", "mlx_lm.server", "mlx_lm.generate"),
        *("mistralrs-server", "mlc_llm", "lightllm", "aphrodite"),
    )
)
"""Programs that serve models, and whose flags are not described. Some have the names of others'
flags with another meaning: TensorRT-LLM's --max_seq_len is not TabbyAPI's."""


@cache
def servers() -> tuple[Server, ...]:
    """Return all servers, in the order in which they are tried."""
    return tuple(Server.of(stored(f"flags/servers/{name}.json")) for name in TABLES)


@cache
def bare_names() -> frozenset[str]:
    """Return the flags that need no dashes, of all servers."""
    names: set[str] = set()
    for server in servers():
        if False in DASHES[server.spelling]:
            names.update(server.flags)
    # «length» and «loader» are ordinary words in a path or a model's name.
    return frozenset(names - {"length", "loader"})


def server_of(line: CommandLine) -> Server:
    """Return the server that a command line belongs to.

    Its program decides. A part of a command line has none: then it is the first server that has
    all flags about positions. Of several programs the first counts: `server.py --loader exllama` is
    text-generation-webui.

    Raises:
        ParameterError: No server has all of them, or the program is one that is not described.
    """
    for word in line.words:
        name = PurePosixPath(word.replace("\\", "/")).name
        for server in servers():
            if not server.programs.isdisjoint((word, name)):
                return server
        if name.partition(":")[0] in OTHER_PROGRAMS:  # A container has a tag: `…-inference:3.0`.
            raise _not_described(name)
    return _server_by_flags(line.flags)


def _names_of_servers() -> str:
    return ", ".join(server.name for server in servers())


def _not_described(program: str) -> ParameterError:
    """Return the error for a program whose flags must not be read as those of another server."""
    rule = f"its flags are not described; those of {_names_of_servers()} are"
    advice = "write what it makes of them into a config.json"
    return ParameterError("flags", program, rule, advice)


def _server_by_flags(flags: Sequence[ServerFlag]) -> Server:
    """Return the server that has the most of these flags; the first of several.

    `--rope-scale 4 --yarn-orig-ctx 4096` are flags of llama.cpp.

    Raises:
        ParameterError: No server has any of them.
    """
    best = max(servers(), key=lambda server: _fitting_flags(server, flags))
    if _fitting_flags(best, flags):
        return best
    spelled = ", ".join(flag.spelled for flag in flags) or "no flags"
    rule = f"none of them is about positions in {_names_of_servers()}"
    raise ParameterError("flags", spelled, rule, "begin with the program: vllm serve …")


def _fitting_flags(server: Server, flags: Sequence[ServerFlag]) -> int:
    """Return how many flags a server accepts with these values.

    `--rope-scaling yarn` fits llama.cpp, `--rope-scaling '{"rope_type": "yarn"}'` older vLLM.
    """
    accepted = [flag for flag in flags if server.accepts(flag)]
    return sum(_value_fits(server, flag) for flag in accepted)


def _value_fits(server: Server, flag: ServerFlag) -> bool:
    """Return True if a flag has a JSON object as its value and the server takes one, or neither."""
    is_object = bool(flag.values) and flag.values[0].lstrip().startswith("{")
    takes_object = not OBJECTS.isdisjoint(server.flags[flag.key])
    return is_object == takes_object


OBJECTS = frozenset((Meaning.CONFIG, Meaning.ROPE_SCALING, Meaning.ROPE_PARAMETERS))
"""Meanings whose values are JSON objects."""
