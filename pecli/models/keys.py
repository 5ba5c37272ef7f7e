"""Values of a configuration, each with the key it was read from and checked for its kind; and the account of keys: what
looks like positions and was read by nobody is named, with the nearest key that is known."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from pecli.errors import FileError, counted, nearest, quoted

MAX_WHOLE = 2**40
MAX_NUMBER = 1e30  #: products of a few such numbers are finite, too


@cache
def stored(name: str) -> Any:
    """What a file of data in this folder holds."""
    return json.loads((Path(__file__).parent / name).read_text(encoding="utf-8"))


def synonyms(meaning: str) -> tuple[str, ...]:
    """The keys that configurations have for one thing, of which the first that is there counts."""
    return tuple(stored("synonyms.json")[meaning].split())


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
    """Keys that its code takes no notice of; `rope_parameters.partial_rotary_factor` of one within the settings, and
    `rope_theta alone` of one without any."""


NO_CLASS = ClassDefaults()


@dataclass(frozen=True)
class Account:
    """Which keys of a file a reader took, and which it looked for."""

    used: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    ignored: dict[str, str] = field(
        default_factory=dict
    )  #: Keys that a class takes no notice of, with its name
    no_width: set[str] = field(
        default_factory=set
    )  #: Objects whose width is that of a class, for want of a key


def _whole(value: Any, low: int = 1) -> int | None:
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    return (
        value
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= MAX_WHOLE
        else None
    )


def _number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) <= MAX_NUMBER else None


def _numbers(value: Any) -> list[float] | None:
    if not isinstance(value, (list, tuple)) or any(_number(each) is None for each in value):
        return None
    return [float(each) if isinstance(each, float) else each for each in value]


def _texts(value: Any) -> list[str] | None:
    return (
        [*value]
        if isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)
        else None
    )


def _pair(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, Mapping):
        value = (value.get("height"), value.get("width"))
    sizes = tuple(
        _whole(each) or 0
        for each in (value if isinstance(value, (list, tuple)) else (value, value))
    )
    return sizes if len(sizes) == 2 and all(sizes) else None


@dataclass(frozen=True, eq=False)
class Keys:
    """The keys of a configuration, or of a part of it. A null counts as absent; a wrong kind is a FileError. Values
    that the file leaves out are looked up among the defaults of its configuration class; whether a key is there (`in`,
    `any`) is a question about the file alone. Of several keys, the first that is there is read, and accounted for."""

    data: Mapping[str, Any]
    path: str
    prefix: str = ""
    defaults: ClassDefaults = NO_CLASS
    account: Account = field(default_factory=Account)
    elsewhere: Mapping[str, str] = field(
        default_factory=dict
    )  #: Full names, with dots, of keys not under the prefix

    def full_name(self, name: str) -> str:
        return self.elsewhere.get(name, self.prefix + name)

    def mark(self, *names: str) -> None:
        """Account for keys that are used without a value of theirs being read here."""
        self.account.used.update(map(self.full_name, names))

    def __contains__(self, name: str) -> bool:
        return self.data.get(name) is not None and name not in self.defaults.ignores

    def any(self, *names: str) -> bool:
        return any(name in self for name in names)

    def resolves(self, *names: str) -> bool:
        """Whether one of the keys is there, or has a default in the configuration class."""
        return self._first(names) is not None

    def wrong(self, name: str, rule: str) -> FileError:
        return FileError(
            self.path, f"{self.full_name(name)} is {quoted(self.data.get(name))}", rule
        )

    def _first(self, names: tuple[str, ...]) -> tuple[str, Any, str] | None:
        """Name, value and source of the first key that is there, or else that has a default."""
        self.account.asked.update(names)
        ignored = [name for name in names if name in self.defaults.ignores]
        self.account.ignored.update({self.full_name(name): self.defaults.name for name in ignored})
        for name in names:
            if name in self:
                self.mark(name)
                return name, self.data[name], self.full_name(name)
        for name in names:
            if name in self.defaults.values:
                self.account.no_width.update([self.prefix] if WIDTH.fullmatch(name) else [])
                return (
                    name,
                    self.defaults.values[name],
                    f"class default of {self.defaults.name}.{name}",
                )
        return None

    def _read(
        self, names: tuple[str, ...], convert: Callable[[Any], Any], rule: str
    ) -> Value | None:
        """The value as `convert` has it, which makes None of what breaks the rule."""
        if (found := self._first(names)) is None:
            return None
        name, value, source = found
        if (value := convert(value)) is None:
            raise self.wrong(name, rule)
        return Value(value, source)

    def value(self, *names: str) -> Value | None:
        return self._read(names, lambda value: value, "")

    def whole(self, *names: str, low: int = 1) -> Value | None:
        return self._read(
            names, partial(_whole, low=low), f"it must be a whole number from {low} to 2^40"
        )

    def number(self, *names: str) -> Value | None:
        return self._read(names, _number, "it must be a finite number, up to 1e+30")

    def numbers(self, *names: str) -> Value | None:
        return self._read(names, _numbers, "it must be a list of finite numbers, up to 1e+30")

    def pair(self, name: str) -> Value:
        return self.needed(self._read((name,), _pair, "it must be a whole number, or two"), name)

    def flag(self, *names: str) -> Value | None:
        return self._read(
            names,
            lambda value: value if isinstance(value, bool) else None,
            "it must be true or false",
        )

    def is_true(self, *names: str) -> bool:
        given = self.flag(*names)
        return given is not None and bool(given.value)

    def word(self, *names: str) -> Value | None:
        return self._read(
            names, lambda value: value if isinstance(value, str) else None, "it must be a text"
        )

    def words(self, name: str) -> list[str]:
        found = self._read((name,), _texts, "it must be a list of texts")
        return found.value if found else []

    def needed(self, found: Value | None, what: str) -> Value:
        if found is None:
            raise FileError(
                self.path, f"{self.prefix.rstrip('.') or 'it'} has no {what}", "it is needed"
            )
        return found

    def known_kind(self, kind: Value, *kinds: str) -> str:
        """A word that must be one of those known."""
        if kind.value not in kinds:
            raise FileError(
                self.path, f"{kind.source} is {kind.value[:40]!r}", f"known are {', '.join(kinds)}"
            )
        return str(kind.value)

    def part(self, name: str) -> "Keys | None":
        """The same as `section`, of a key that may hold other things: they count as absent."""
        return self.section(name) if isinstance(self.data.get(name), Mapping) else None

    def section(self, name: str) -> "Keys | None":
        """An object within; an empty one counts as absent, and so does one that the class ignores, unless by layer."""
        value = self.data.get(name)
        nested = isinstance(value, Mapping) and any(
            isinstance(inner, Mapping) for inner in value.values()
        )
        self.account.asked.add(name)
        if value is None or value == {} or (name in self.defaults.ignores and not nested):
            return None
        if not isinstance(value, Mapping):
            raise self.wrong(name, "it must be an object")
        self.mark(name)
        start = f"{name}."
        moved = {
            key.removeprefix(start): full
            for key, full in self.elsewhere.items()
            if key.startswith(start)
        }
        return Keys(
            value, self.path, f"{self.full_name(name)}.", account=self.account, elsewhere=moved
        )

    def translated(
        self, settings: Mapping[str, Value | None], others: Mapping[str, Value | None]
    ) -> "Keys":
        """The same, with what a dialect spells otherwise under Hugging Face's names: settings of `rope_scaling`, and
        other keys; None where there is none."""
        inner = {name: value for name, value in settings.items() if value is not None}
        outer = {name: value for name, value in others.items() if value is not None}
        data = {**self.data, **{name: value.value for name, value in outer.items()}}
        if inner:
            data["rope_scaling"] = {name: value.value for name, value in inner.items()}
        moved = {**outer, **{f"rope_scaling.{name}": value for name, value in inner.items()}}
        places = {**self.elsewhere, **{name: value.source for name, value in moved.items()}}
        places |= {"rope_scaling": "settings"} if inner else {}  # which are none of the file's own
        return replace(self, data=data, elsewhere=places)


WIDTH = re.compile(
    r"([nd]_|num_)?(embedd?(ing)?s?|embd|emb|hidden|model|width|channels)(_(dim|size|width|channels))?"
)
POSITIONS = re.compile(
    r"(?<!p)rope|rotary|theta|position|pos_?emb|pos_embed|alibi|freq|yarn|mscale|scaling|(attn|attention)_factor"
    r"|max_period|ntk|sinusoid|rel_pos|relative|wavelen|timescale|(learned|conv|max|num)_pos|(^|_)nope|no_?pe_|fope"
    r"|xpos|(^|_)r?pe(_|$)|pos_enc|abs_pos|interpolation_factor|extrapolation|original_seq|(^|_)rot_"
)
OTHER_MATTERS = frozenset(" ".join(stored("other_matters.json")).split())
"""Names of keys that look like positions and are about something else, or about how a kernel computes."""
OPAQUE = frozenset(
    ("quantization_config", "compression_config", "generation_config", "auto_map", "optimizer")
)
"""Objects whose keys are about something else."""
SWITCH = re.compile(
    r"(use|apply|with|enable|has)?_?(rope|rotary|alibi)(_?(pos|position|positional))?(_?emb[a-z]*)?"
)
"""Keys that turn an encoding on or off: false is a statement of theirs."""
MAX_NAMED, MAX_DEPTH = 16, 8


def plain_name(name: str | None) -> str:
    """A name as the tables of families and of keys spell it; empty where there is none.

    >>> plain_name("XLM-RoBERTa")
    'xlm_roberta'
    """
    return (name or "").lower().lstrip("-").replace("-", "_")


def looks_like_positions(name: str) -> bool:
    """Whether a key seems to be about positions, by its name.

    >>> looks_like_positions("attn_factor"), looks_like_positions("moe_layer_freq"), looks_like_positions("use_fope")
    (True, False, True)
    """
    return plain_name(name) not in OTHER_MATTERS and POSITIONS.search(plain_name(name)) is not None


def unread_keys(keys: Keys, schemes: Collection[str]) -> list[str]:
    """Warnings about keys of a whole file that nobody read, although they look like positions."""
    known = sorted(name for name in keys.account.asked if looks_like_positions(name))
    plain: dict[str, list[str]] = {}
    warnings = []
    found = [*_unread(keys, schemes)]
    for section, name, value in found[:MAX_NAMED]:
        if reader := keys.account.ignored.get(section + name):
            warnings.append(
                f"{section}{name} is {quoted(value)}, which the code of {reader} ignores"
            )
        elif name not in keys.account.asked and (advice := nearest(name, known)):
            warnings.append(
                f"{section}{name[:60]} is {quoted(value)}, and nothing here reads it: {advice}"
            )
        else:
            plain.setdefault(section, []).append(f"{name[:60]} ({quoted(value)})")
    for section, names in plain.items():
        warnings.append(
            f"{section.rstrip('.') or 'it'} has {', '.join(names)}, which nothing here reads"
        )
    if len(found) > MAX_NAMED:
        warnings.append(
            f"nothing here reads {counted(len(found) - MAX_NAMED, 'more key')} named like positions"
        )
    return warnings


def _unread(
    keys: Keys, schemes: Collection[str], within: bool = False, depth: int = 0
) -> Iterator[tuple[str, str, Any]]:
    """Keys that nobody read; of settings for positions all keys count, whatever their names; where a class says how
    wide a model is, so does what may be its width."""
    section, account = keys.prefix, keys.account
    for name, value in keys.data.items():
        full, switch = section + name, SWITCH.fullmatch(plain_name(name))
        counts = (within and not name.startswith("_")) or looks_like_positions(name)
        if isinstance(value, Mapping) and value and (full in account.used or not counts):
            if depth < MAX_DEPTH and name not in OPAQUE:
                yield from _unread(
                    replace(keys, data=value, prefix=f"{full}."), schemes, counts, depth + 1
                )
        elif (
            section in account.no_width
            and name not in account.asked
            and _whole(value)
            and WIDTH.fullmatch(name)
        ):
            yield section, name, value
        elif switch and value is (("alibi" if switch[2] == "alibi" else "rope") in schemes):
            continue  # which is true
        elif counts and full not in account.used:
            is_switched_off = value is False and (switch or "truncate" in name)
            if is_switched_off or (value is not False and value not in (None, "", [], {}, ())):
                yield section, name, value
