"""Values of a configuration, each with the key it was read from, and checked for its kind."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pecli.errors import FileError, quoted

MAX_WHOLE = 2**40


@dataclass(frozen=True)
class Value:
    """A resolved value, and where it comes from in the user's words."""

    value: Any
    source: str


def default(value: Any, source: str) -> Value | None:
    """A value that the configuration leaves open; None stays None."""
    return None if value is None else Value(value, source)


@dataclass(frozen=True)
class ClassDefaults:
    """What a configuration class means by keys that a file leaves out."""

    name: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    model_type: str = ""
    ignores: frozenset[str] = frozenset()
    """Keys that its code takes no notice of; `rope_parameters.partial_rotary_factor` of one within the settings."""


NO_CLASS = ClassDefaults()


@dataclass(frozen=True)
class Account:
    """Which keys of a file a reader took, and which it looked for."""

    used: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    ignored: dict[str, str] = field(default_factory=dict)
    """Keys that a configuration class takes no notice of, with its name."""


class Keys:
    """The keys of a configuration, or of a part of it. A null counts as absent; a wrong kind is a FileError.

    Values that the file leaves out are looked up among the defaults of its configuration class; whether a key is
    there (`in`, `any`) is a question about the file alone. What is read is accounted for: `account.used` holds the
    full names of keys whose values were taken, `account.asked` every name that was looked for.
    """

    def __init__(
        self,
        data: Mapping[str, Any],
        path: str,
        prefix: str = "",
        defaults: ClassDefaults = NO_CLASS,
        account: Account | None = None,
        elsewhere: Mapping[str, str] | None = None,
    ) -> None:
        self.data, self.path, self.prefix, self.defaults = data, path, prefix, defaults
        self.account = account or Account()
        self.elsewhere = elsewhere or {}
        """Full names of keys that do not lie under the prefix."""

    def with_defaults(self, defaults: ClassDefaults) -> Keys:
        """The same keys, with a configuration class to look up what is left out."""
        return Keys(self.data, self.path, self.prefix, defaults, self.account, self.elsewhere)

    def replaced(self, data: Mapping[str, Any], elsewhere: Mapping[str, str] | None = None) -> Keys:
        """Other values in the place of these; `elsewhere` are the full names of those that lie elsewhere."""
        return Keys(data, self.path, self.prefix, self.defaults, self.account, elsewhere)

    def full_name(self, name: str) -> str:
        """The name of a key from the top of the file."""
        return self.elsewhere.get(name, self.prefix + name)

    def mark(self, *names: str) -> None:
        """Account for keys that are used without a value of theirs being read here."""
        self.account.used.update(map(self.full_name, names))

    def ignore(self, *names: str) -> None:
        """Account for keys that the configuration class takes no notice of."""
        self.account.ignored.update({self.full_name(name): self.defaults.name for name in names})

    def __contains__(self, name: str) -> bool:
        return self.data.get(name) is not None and name not in self.defaults.ignores

    def any(self, *names: str) -> bool:
        """Whether one of the keys is there."""
        return any(name in self for name in names)

    def resolves(self, *names: str) -> bool:
        """Whether one of the keys is there, or has a default in the configuration class."""
        return self._first(names) is not None

    def wrong(self, name: str, rule: str) -> FileError:
        """The error for a key whose value breaks its rule."""
        return FileError(self.path, f"{self.prefix}{name} is {quoted(self.data.get(name))}", rule)

    def _first(self, names: tuple[str, ...]) -> tuple[str, Any, str] | None:
        """Name, value and source of the first key that is there, or else that has a default."""
        self.account.asked.update(names)
        self.ignore(*(name for name in names if name in self.defaults.ignores))
        for name in names:
            if name in self:
                self.mark(name)
                return name, self.data[name], self.full_name(name)
        for name in names:
            if name in self.defaults.values:
                return name, self.defaults.values[name], f"class default of {self.defaults.name}.{name}"
        return None

    def value(self, *names: str) -> Value | None:
        """A value of whatever kind: that of the first of the keys that is there."""
        found = self._first(names)
        return None if found is None else Value(found[1], found[2])

    def whole(self, *names: str, low: int = 1) -> Value | None:
        """A whole number: that of the first of the keys that is there."""
        found = self._first(names)
        if found is None:
            return None
        name, value, source = found
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= MAX_WHOLE:
            raise self.wrong(name, f"it must be a whole number from {low} to 2^40")
        return Value(value, source)

    def number(self, *names: str) -> Value | None:
        """A finite number: that of the first of the keys that is there."""
        found = self._first(names)
        if found is None:
            return None
        name, value, source = found
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not _finite(value):
            raise self.wrong(name, "it must be a finite number")
        return Value(float(value), source)

    def numbers(self, name: str) -> Value | None:
        """A list of finite numbers."""
        found = self._first((name,))
        if found is None:
            return None
        _, value, source = found
        if not isinstance(value, (list, tuple)) or not all(
            isinstance(each, (int, float)) and not isinstance(each, bool) and _finite(each) for each in value
        ):
            raise self.wrong(name, "it must be a list of finite numbers")
        return Value([float(each) if isinstance(each, float) else each for each in value], source)

    def pair(self, name: str) -> tuple[tuple[int, int], str]:
        """Two whole numbers, or one that stands for both, such as a height and a width; and where they are from."""
        given = self.value(name)
        if given is not None and isinstance(given.value, (list, tuple)):
            sizes = self.numbers(name)
            if sizes and len(sizes.value) == 2 and all(isinstance(size, int) and size > 0 for size in sizes.value):
                return (sizes.value[0], sizes.value[1]), sizes.source
            raise self.wrong(name, "it must be a whole number, or two")
        size = self.needed(self.whole(name), name)
        return (size.value, size.value), size.source

    def needed(self, found: Value | None, what: str) -> Value:
        """A value that there is no going on without."""
        if found is None:
            raise FileError(self.path, f"{self.prefix.rstrip('.') or 'it'} has no {what}", "it is needed")
        return found

    def positive(self, found: Value) -> Value:
        """A number that must be above 0, such as a base."""
        if found.value <= 0:
            raise FileError(self.path, f"{found.source} is {found.value:g}", "it must be above 0")
        return found

    def flag(self, *names: str) -> Value | None:
        """Yes or no: that of the first of the keys that is there."""
        found = self._first(names)
        if found is None:
            return None
        if not isinstance(found[1], bool):
            raise self.wrong(found[0], "it must be true or false")
        return Value(found[1], found[2])

    def word(self, *names: str) -> Value | None:
        """A text: that of the first of the keys that is there."""
        found = self._first(names)
        if found is None:
            return None
        if not isinstance(found[1], str):
            raise self.wrong(found[0], "it must be a text")
        return Value(found[1], found[2])

    def words(self, name: str) -> list[str]:
        """A list of texts; empty where the key is absent."""
        value = self.data.get(name)
        self.mark(name)
        if value is None:
            return []
        if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
            raise self.wrong(name, "it must be a list of texts")
        return list(value)

    def part(self, name: str) -> Keys | None:
        """The same as `section`, of a key that may hold other things: they count as absent."""
        return self.section(name) if isinstance(self.data.get(name), Mapping) else None

    def section(self, name: str) -> Keys | None:
        """An object within; an empty one counts as absent."""
        value = self.data.get(name) if name not in self.defaults.ignores else None
        self.account.asked.add(name)
        if value is None or value == {}:
            return None
        if not isinstance(value, Mapping):
            raise self.wrong(name, "it must be an object")
        self.mark(name)
        return Keys(value, self.path, f"{self.prefix}{name}.", account=self.account)


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


MAX_CONFIG_BYTES = 4 << 20
"""Bytes; a hostile file becomes forty times as many in memory."""
MAX_JSON_DEPTH = 32
MAX_DIGITS = 400


class _RefusedError(ValueError):
    """What is wrong with the text; `parse_config` adds the file."""


def _whole(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise _RefusedError(f"holds a number of {len(text)} digits")
    return int(text)


def _real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _RefusedError(f"holds {text[:40]}, which is larger than any float64")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RefusedError(f"names {key[:60]!r} twice")
            seen.add(key)
    return found


def _depth(text: str) -> int:
    """How deeply brackets nest; those in strings count, too, which rejects nothing sensible."""
    depth = deepest = 0
    for character in text:
        if character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


def parse_config(path: str, data: bytes) -> dict[str, Any]:
    """The object in a file's bytes, which are not trusted: bounded, and no key twice.

    Python writes infinities and NaN as words that JSON does not know, and hybrid models have `"time_step_limit": [0.0,
    Infinity]`: such numbers are read, and rejected where they are the value of a key that matters here.
    """
    if len(data) > MAX_CONFIG_BYTES:
        raise FileError(path, f"is larger than {MAX_CONFIG_BYTES >> 20} MB, too large for a configuration")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileError(path, "is not UTF-8 text", "a config.json is wanted") from None
    if text.count("{") + text.count("[") > MAX_JSON_DEPTH and _depth(text) > MAX_JSON_DEPTH:
        raise FileError(path, f"nests more than {MAX_JSON_DEPTH} levels deep")
    try:
        found = json.loads(text, object_pairs_hook=_unique, parse_float=_real, parse_int=_whole)
    except _RefusedError as problem:
        raise FileError(path, str(problem)) from None
    except json.JSONDecodeError as problem:
        raise FileError(path, f"is not JSON: {problem.msg} in line {problem.lineno}") from None
    except (ValueError, RecursionError):
        raise FileError(path, "is not JSON that can be read") from None
    if not isinstance(found, dict):
        raise FileError(path, "is JSON, but not an object", "a config.json is wanted")
    return found


def parse_yaml(path: str, data: bytes) -> dict[str, Any]:
    """The object in a YAML file, as OLMo and GPT-NeoX write their configurations; no tag of its makes an object."""
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise FileError(path, "is YAML, and no reader of it is installed", "pip install pyyaml") from None
    if len(data) > MAX_CONFIG_BYTES:
        raise FileError(path, f"is larger than {MAX_CONFIG_BYTES >> 20} MB, too large for a configuration")
    try:
        found = yaml.safe_load(data)
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        first = str(problem).splitlines()[0] if str(problem) else "nested too deeply"
        raise FileError(path, f"is not YAML that can be read: {first[:80]}") from None
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise FileError(path, "is YAML, but not an object", "a configuration is wanted")
    return found
