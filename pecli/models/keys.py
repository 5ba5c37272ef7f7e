"""Typed access to the keys of a configuration.

Every value is returned with its source. A KeyUsage records which keys were read and which were
looked for, so that `pecli.models.unread` can report keys about positions that nothing has read.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from pecli.engine.named_values import NamedValues
from pecli.errors import FileError, quoted
from pecli.models.data import nonempty

MAX_WHOLE = 2**40
#: 1e30 as a float32, by which Gemma 4's GGUF files divide the frequencies of pairs that do not
#: rotate. Products of a few such numbers are still finite in float64.
MAX_NUMBER = 1.0000000150474662e30

#: Names of the width of a model in any spelling, such as `hidden_size`, `d_model` or `n_embd`.
WIDTH = re.compile(
    r"([nd]_|num_)?(embedd?(ing)?s?|embd|emb|hidden|model|width|channels)(_(dim|size|width|channels))?"
)

T = TypeVar("T")
U = TypeVar("U")
T_co = TypeVar("T_co", covariant=True)


class Origin(NamedTuple):
    """The key or the rule that a value comes from.

    `Origin("rotary_base", ("rotary_base",))` is the origin of a value that a key states, and
    `Origin("default", ())` that of a value that nothing states.
    """

    #: The key or the rule in words, for tables, messages and JSON.
    source: str
    #: Full names of the keys, flags and tensors that the value was read or computed from; empty for
    #: a default.
    stated_by: tuple[str, ...] = ()


def origin_at(name: str) -> Origin:
    """Return the origin of a value that a key, a flag, a tensor or a line of a log states."""
    return Origin(name, (name,))


@dataclass(frozen=True)
class Setting(Generic[T_co]):
    """A value, and the key or the rule that it comes from.

    `Setting(128, "hidden_size // num_attention_heads")` is the width of a head that no key gives
    directly.
    """

    value: T_co
    source: str
    #: The names of `Origin.stated_by`.
    stated_by: tuple[str, ...] = ()

    @property
    def origin(self) -> Origin:
        return Origin(self.source, self.stated_by)

    def with_value(self, value: U) -> "Setting[U]":
        """Return another value with the same source."""
        return Setting(value, self.source, self.stated_by)

    def implying(self, value: U, source: str) -> "Setting[U]":
        """Return a value that follows from this one, with a source in words of its own.

        The keys that state this one also state the other.

        >>> setting_from_key(4, "interval").implying((3, 7), "one layer in 4 (interval)")
        Setting(value=(3, 7), source='one layer in 4 (interval)', stated_by=('interval',))
        """
        return Setting(value, source, self.stated_by)


Settings = Mapping[str, Setting[object] | None]
"""Settings by name; None for one that the configuration leaves out."""

NO_SETTINGS: Settings = MappingProxyType({})


def setting_from_key(value: T, name: str) -> Setting[T]:
    """Return a setting that the key, flag or tensor of a name states."""
    return Setting(value, name, (name,))


def computed(value: T, formula: str, *operands: Setting[object]) -> Setting[T]:
    """Return a setting that is computed from others, which are the operands of a formula.

    >>> heads = setting_from_key(32, "num_heads")
    >>> computed(128, "{} // {}", setting_from_key(4096, "hidden_size"), heads).source
    'hidden_size // num_heads'
    """
    sources = [operand.source for operand in operands]
    names: list[str] = []
    for operand in operands:
        names += operand.stated_by
    return Setting(value, source=formula.format(*sources), stated_by=tuple(names))


def derived(
    function: Callable[..., T], formula: str, *operands: Setting[Any] | None
) -> Setting[T] | None:
    """Return a setting that a function computes from others; None if one of them is left out.

    >>> derived(max, "max({}, {})", setting_from_key(16, "rows"), setting_from_key(9, "columns"))
    Setting(value=16, source='max(rows, columns)', stated_by=('rows', 'columns'))
    >>> derived(max, "max({}, {})", setting_from_key(16, "rows"), None)
    """
    present = [operand for operand in operands if operand is not None]
    if len(present) < len(operands):
        return None
    value = function(*[operand.value for operand in present])
    return computed(value, formula, *present)


def default(value: T | None, source: str) -> Setting[T] | None:
    """Return a setting of a default value; None if there is no default."""
    return None if value is None else Setting(value, source)


def first_stated(settings: Iterable[Setting[T] | None]) -> Setting[T] | None:
    """Return the first setting that is not left out; None if all are. Later ones are not read.

    >>> first_stated([None, setting_from_key(1e6, "rope_theta"), setting_from_key(1e4, "theta")])
    Setting(value=1000000.0, source='rope_theta', stated_by=('rope_theta',))
    """
    for setting in settings:
        if setting is not None:
            return setting
    return None


def value_of(setting: Setting[T] | None) -> T | None:
    """Return the value of a setting; None if it is left out."""
    return None if setting is None else setting.value


def only_if(setting: Setting[T] | None, counts: Callable[[T], object]) -> Setting[T] | None:
    """Return a setting if its value counts; None if it does not, or if it is left out.

    >>> only_if(setting_from_key(-1, "floor_scale"), lambda number: number > 0)
    """
    return setting if setting is not None and counts(setting.value) else None


def nonzero(setting: Setting[T] | None) -> Setting[T] | None:
    """Return a setting; None if its value is 0, false or empty, which stand for "none"."""
    return only_if(setting, bool)


def positive(setting: Setting[T] | None) -> Setting[T] | None:
    """Return a setting; None unless its value is above 0: 0 and −1 stand for "none"."""
    return only_if(setting, _is_positive)


def _is_positive(value: Any) -> bool:
    return bool(value > 0)


def other_than_one(setting: Setting[float] | None) -> Setting[float] | None:
    """Return a factor or a fraction; None if it is 1, which changes nothing."""
    return only_if(setting, _is_not_one)


def _is_not_one(number: float) -> bool:
    return number != 1


def values_of(settings: Settings) -> NamedValues:
    """Return the values of settings, without those that are left out."""
    return {name: setting.value for name, setting in settings.items() if setting is not None}


def origins_of(settings: Settings) -> dict[str, Origin]:
    """Return the origins of settings, without those that have none."""
    return {
        name: setting.origin for name, setting in settings.items() if setting and setting.source
    }


def contradictions(winner: Setting[T] | None, loser: Setting[T] | None) -> list[str]:
    """Return a warning if two settings of one meaning are both given and differ."""
    if winner is None or loser is None or winner.value == loser.value:
        return []
    values = [f"{setting.source} is {_shown(setting.value)}" for setting in (loser, winner)]
    return [f"{' and '.join(values)}; {winner.source} wins, as in transformers"]


def _shown(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)[:40]


@dataclass(frozen=True)
class ClassDefaults:
    """The defaults of a configuration class of transformers, or of a project's own code."""

    name: str = ""
    values: NamedValues = field(default_factory=dict)
    model_type: str = ""
    #: Keys that the code of the class does not read. `rope_parameters.partial_rotary_factor` is a
    #: key within the settings; `rope_theta alone` is a base that counts only beside settings.
    ignores: frozenset[str] = frozenset()

    @property
    def ignores_lone_base(self) -> bool:
        """True if the class reads a `rope_theta` only beside rotary settings such as `rope_scaling`."""
        return "rope_theta alone" in self.ignores


NO_CLASS = ClassDefaults()


@dataclass(frozen=True)
class KeyUsage:
    """A record of the keys that were read and looked for; all sections of a file share one."""

    #: Full names of the keys whose values were read.
    read: set[str] = field(default_factory=set)
    #: Names that were looked for anywhere, present or not: they are known names.
    looked_for: set[str] = field(default_factory=set)
    #: Full names of keys that a class does not read, and the name of the class.
    ignored: dict[str, str] = field(default_factory=dict)
    #: Prefixes of sections whose width is a class default, so that an unread key may be meant as
    #: the width.
    lacks_width: set[str] = field(default_factory=set)
    #: Full names of absent keys whose values are defaults of a class or a rule.
    defaulted: set[str] = field(default_factory=set)


def as_whole(value: object, low: int = 1) -> int | None:
    """Return a whole number from `low` to 2^40, which may be written as 8.0; None for anything
    else.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and low <= value <= MAX_WHOLE:
        return value
    return None


def as_number(value: object) -> float | None:
    """Return a finite number of moderate size; None for anything else, NaN included."""
    number = _as_plain_number(value)
    return None if number is None else float(number)


def as_list(value: object, converted: Callable[[object], T | None]) -> list[T] | None:
    """Return a list with its items converted; None for anything else, or if one of them is None.

    >>> as_list(["full", "sliding"], as_text), as_list(["full", 1], as_text)
    (['full', 'sliding'], None)
    """
    if not isinstance(value, (list, tuple)):
        return None
    items: list[T] = []
    for item in map(converted, value):
        if item is None:
            return None
        items.append(item)
    return items


def as_numbers(value: object) -> list[float] | None:
    """Return a list of numbers, in which whole numbers stay whole; None for anything else."""
    return as_list(value, _as_plain_number)


def _as_plain_number(value: object) -> float | None:
    """Return a number as Python has it, an int or a float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if abs(value) <= MAX_NUMBER else None


def as_flag(value: object) -> bool | None:
    """Return true or false; None for anything else, 0 and 1 included."""
    return value if isinstance(value, bool) else None


def as_text(value: object) -> str | None:
    """Return a text; None for anything else."""
    return value if isinstance(value, str) else None


def as_texts(value: object) -> list[str] | None:
    """Return a list of texts; None for anything else."""
    return as_list(value, as_text)


def as_pair(value: object) -> tuple[int, int] | None:
    """Return height and width: of a list, of an object with these keys, or of one number for both."""
    match [as_whole(side) for side in _sides_of(value)]:
        case [int(height), int(width)]:
            return height, width
    return None


def _sides_of(value: object) -> Sequence[object]:
    """Return the sides of an image, which a number, a list or an object states."""
    if isinstance(value, Mapping):
        return (value.get("height"), value.get("width"))
    if isinstance(value, (list, tuple)):
        return value
    return (value, value)


class _Match(NamedTuple):
    """A key that is present, or that has a class default."""

    name: str
    value: object
    origin: Origin

    def setting(self, value: T) -> Setting[T]:
        return Setting(value, self.origin.source, self.origin.stated_by)


@dataclass(frozen=True, eq=False)
class Keys:
    """The keys of a configuration, or of an object within it.

    Methods that read take several names and return the first that is present, or else the first
    that has a default in the configuration class. A null counts as absent; a value of a wrong kind
    raises a FileError. `in` and `has_any` look only at the file, not at defaults, and leave no trace
    in the usage record.

    Attributes:
        data: The object itself.
        path: The file, for errors.
        prefix: The full name of the object with a dot, such as `text_config.`; empty at the top.
        defaults: The defaults of the configuration class.
        usage: The record of keys that were read, which is added to.
        origins: Places of keys that the file has elsewhere, or under another name: a dialect may
            present `rotary_base` as `rope_theta`.
        is_implied: The object is not in the file: it holds the defaults of a class.
    """

    data: NamedValues
    path: str
    prefix: str = ""
    defaults: ClassDefaults = NO_CLASS
    usage: KeyUsage = field(default_factory=KeyUsage)
    origins: Mapping[str, Origin] = field(default_factory=dict)
    is_implied: bool = False

    def origin(self, name: str) -> Origin:
        if name in self.origins:
            return self.origins[name]
        full_name = self.prefix + name
        return Origin(full_name) if self.is_implied else origin_at(full_name)

    def full_name(self, name: str) -> str:
        return self.origin(name).source

    def mark_as_read(self, *names: str) -> None:
        """Record keys as read."""
        self.usage.read.update(map(self.full_name, names))

    def mark_names_in_file(self) -> None:
        """Record keys that come from elsewhere as read under the names that they have in the file.

        A key that was read as `--hf-overrides.rope_parameters.factor` is `rope_parameters.factor`,
        and a line `print_info: freq_base` of a log is `llama.rope.freq_base`.
        """
        for name, origin in self.origins.items():
            for source in tuple(self.usage.read):
                if f"{source}.".startswith(f"{origin.source}."):
                    inner_names = source.removeprefix(origin.source)
                    self.usage.read.add(self.prefix + name + inner_names)

    def mark_as_known(self, *names: str) -> None:
        """Record names as those of keys that exist, which hints about misspelled keys may offer."""
        self.usage.looked_for.update(names)

    def __contains__(self, name: str) -> bool:
        return self.data.get(name) is not None and name not in self.defaults.ignores

    def spells(self, name: str) -> bool:
        """Return True if the file has a key of this very name, not one that a dialect presents
        under it.
        """
        return name in self and self.full_name(name).rpartition(".")[2] == name

    def has_any(self, *names: str) -> bool:
        """Return True if the file has one of the keys."""
        return any(name in self for name in names)

    def has_value(self, *names: str) -> bool:
        """Return True if one of the keys is present or has a class default; the key is recorded as
        read.
        """
        return self._first(names) is not None

    def wrong(self, name: str, rule: str) -> FileError:
        value = quoted(self.data.get(name))
        return FileError(self.path, f"{self.full_name(name)} is {value}", rule)

    def _first(self, names: tuple[str, ...]) -> _Match | None:
        """Return the first key that is present, or else the first with a class default.

        For warnings about keys that nothing reads, `usage` records which names were looked for,
        which key was read, and which ones the class of the model ignores.
        """
        self.usage.looked_for.update(names)
        for name in self.defaults.ignores.intersection(names):
            self.usage.ignored[self.full_name(name)] = self.defaults.name
        return self._present(names) or self._class_default(names)

    def _present(self, names: tuple[str, ...]) -> _Match | None:
        """Return the first key that the file has; `usage` records it as read."""
        for name in names:
            if name in self:
                self.mark_as_read(name)
                return _Match(name, self.data[name], self.origin(name))
        return None

    def _class_default(self, names: tuple[str, ...]) -> _Match | None:
        """Return the first key that has a default in the class; `usage` records the default.

        If it is the width, an unread key may be meant as it, which is reported later.
        """
        for name in names:
            if name in self.defaults.values:
                self.usage.defaulted.add(self.full_name(name))
                if WIDTH.fullmatch(name):
                    self.usage.lacks_width.add(self.prefix)
                source = f"class default of {self.defaults.name}.{name}"
                return _Match(name, self.defaults.values[name], Origin(source))
        return None

    def _read_setting(
        self, names: tuple[str, ...], convert: Callable[[object], T | None], rule: str
    ) -> Setting[T] | None:
        """Return the first of some keys that has a value; None if there is none.

        Args:
            names: The names of keys with one meaning.
            convert: Returns the value of a setting, or None for a value that breaks the rule.
            rule: The rule, for the error.
        """
        match = self._first(names)
        if match is None:
            return None
        value = convert(match.value)
        if value is None:
            raise self.wrong(match.name, rule)
        return match.setting(value)

    def value(self, *names: str) -> Setting[object] | None:
        """Return a value of any kind."""
        return self._read_setting(names, lambda value: value, "it must not be null")

    def whole_number(self, *names: str, low: int = 1) -> Setting[int] | None:
        rule = f"it must be a whole number from {low} to 2^40"
        return self._read_setting(names, lambda value: as_whole(value, low), rule)

    def number(self, *names: str) -> Setting[float] | None:
        return self._read_setting(names, as_number, "it must be a finite number, up to 1e+30")

    def numbers(self, *names: str) -> Setting[list[float]] | None:
        return self._read_setting(
            names, as_numbers, "it must be a list of finite numbers, up to 1e+30"
        )

    def pair(self, name: str) -> Setting[tuple[int, int]]:
        return self.required(
            self._read_setting((name,), as_pair, "it must be a whole number, or two"), name
        )

    def flag(self, *names: str) -> Setting[bool] | None:
        return self._read_setting(names, as_flag, "it must be true or false")

    def flag_or(self, default: bool, *names: str) -> Setting[bool]:
        """Return true or false, or a default if no key has it."""
        return _or_default(self.flag(*names), default)

    def number_or(self, default: float, *names: str) -> Setting[float]:
        """Return a number, or a default if no key has it."""
        return _or_default(self.number(*names), default)

    def word_or(self, default: str, *names: str) -> Setting[str]:
        """Return a text, or a default if no key has it."""
        return _or_default(self.word(*names), default)

    def whole_number_or(self, default: int, *names: str, low: int = 1) -> Setting[int]:
        """Return a whole number, or a default if no key has it."""
        number = self.whole_number(*names, low=low)
        if number is not None:
            return number
        self.usage.defaulted.update(map(self.full_name, names))
        return Setting(default, "default")

    def is_true(self, *names: str) -> bool:
        return value_of(self.flag(*names)) is True

    def is_false(self, *names: str) -> bool:
        """Return True if a flag is given as false; an absent one is not."""
        return value_of(self.flag(*names)) is False

    def word(self, *names: str) -> Setting[str] | None:
        return self._read_setting(names, as_text, "it must be a text")

    def words(self, name: str) -> list[str]:
        texts = self._read_setting((name,), as_texts, "it must be a list of texts")
        return texts.value if texts else []

    def required(self, setting: Setting[T] | None, description: str) -> Setting[T]:
        """Return a setting, or raise an error that nothing gives it."""
        if setting is None:
            section = self.prefix.rstrip(".") or "it"
            raise FileError(self.path, f"{section} has no {description}", "it is needed")
        return setting

    def require_one_of(self, word: Setting[str], *known_words: str) -> None:
        """Raise FileError unless the text of a setting is one of those that are known."""
        if word.value not in known_words:
            problem = f"{word.source} is {word.value[:40]!r}"
            raise FileError(self.path, problem, f"known are {', '.join(known_words)}")

    def __bool__(self) -> bool:
        """Return True if there are keys; an object that the file does not have has none."""
        return bool(self.data)

    def inner(self, name: str) -> "Keys":
        """Return an object within, like `section`, except that values of other kinds count as
        absent.
        """
        is_object = isinstance(self.data.get(name), Mapping)
        return self.section(name) if is_object else Keys({}, self.path)

    def at(self, path: str) -> "Keys":
        """Return the object that a path of names leads to, such as `flow_lm.transformer`.

        It has no keys if an object on the path is absent. An empty path leads to these keys.
        """
        keys = self
        for name in nonempty(*path.split(".")):
            keys = keys.inner(name)
        return keys

    def value_at(self, path: str) -> Setting[object] | None:
        """Return the value that a path leads to, such as `extra_args.low_freq_factor`."""
        section, _, name = path.rpartition(".")
        return self.at(section).value(name)

    def inner_or_self(self, *names: str) -> "Keys":
        """Return the first of these objects that the file has; these keys if it has none.

        NeMo's files have their keys in an object `model`, others have the same ones at the top.
        """
        for name in names:
            inner = self.inner(name)
            if inner:
                return inner
        return self

    def section(self, name: str) -> "Keys":
        """Return an object of the configuration, such as `rope_scaling`, as keys of its own.

        It has no keys, and records nothing, if it is absent, or if the code of the model's class
        ignores it.

        Raises:
            FileError: The value is not an object.
        """
        value = self.data.get(name)
        # A hint about a misspelled key, such as `rope_scalling`, may now offer this name.
        self.mark_as_known(name)
        is_empty = value is None or value == {}
        if is_empty or self._class_ignores_object(name, value):
            return Keys({}, self.path)
        if not isinstance(value, Mapping):
            raise self.wrong(name, "it must be an object")
        # Warnings about keys that nothing reads concern the keys within it from now on.
        self.mark_as_read(name)
        return replace(
            self,
            data=value,
            prefix=f"{self.full_name(name)}.",
            # The defaults of the class are values of keys at the top, not of keys in the object.
            defaults=NO_CLASS,
            origins=self._origins_in(name),
        )

    def _class_ignores_object(self, name: str, value: object) -> bool:
        """Return True if the code of the model's class does not read an object.

        A class may ignore `{"rope_theta": 1e6}` in `rope_parameters`, and still read settings by
        layer type there: `{"full_attention": {"rope_theta": 1e6}, …}`.
        """
        return name in self.defaults.ignores and not _holds_objects(value)

    def _origins_in(self, section: str) -> dict[str, Origin]:
        """Return the origins of keys within a section, by their names there."""
        prefix = f"{section}."
        origins = {}
        for name, origin in self.origins.items():
            if name.startswith(prefix):
                origins[name.removeprefix(prefix)] = origin
        return origins

    def with_separate_lookups(self) -> "Keys":
        """Return these keys with a separate record of the names that are looked for.

        A hint about an unread key offers a similar name that was looked for. A dialect lets Hugging
        Face's rules look for `rope_theta` in a file that calls it `rope.freq_base`: its hints must
        not offer `rope_theta`. Keys that are read still count as read in the file.
        """
        return replace(self, usage=KeyUsage(read=self.usage.read))

    def as_config_json(self, settings: Settings, scaling: Settings) -> "Keys":
        """Return these keys with those that a config.json would have, for the rules that read one.

        The settings and the scaling have Hugging Face's names, as for `with_settings`. The rules
        look for these names, which hints about misspelled keys of this file must not offer.
        """
        return self.with_separate_lookups().with_settings(settings, scaling=scaling)

    def empty(self) -> "Keys":
        """Return keys of the same place without any values."""
        return Keys({}, self.path, self.prefix, usage=self.usage)

    def with_settings(self, settings: Settings, *, scaling: Settings = NO_SETTINGS) -> "Keys":
        """Return these keys, and further ones that settings give values to.

        Megatron calls the base `rotary_base`. With the setting `{"rope_theta": setting_from_key(1e6,
        "rotary_base")}` the keys have a `rope_theta` of 1e6, as a config.json does. Messages about
        it still name `rotary_base`.

        Args:
            settings: Settings that become keys of the file, such as `rope_theta`.
            scaling: Settings that become keys of the object `rope_scaling`, such as `factor`. If
                none of them has a value, there is no such object.
        """
        data = {**self.data, **values_of(settings)}
        origins = {**self.origins, **origins_of(settings)}
        rope_scaling = values_of(scaling)
        if rope_scaling:
            data["rope_scaling"] = rope_scaling
            origins |= _origins_of_scaling(scaling)
        return replace(self, data=data, origins=origins)


def _or_default(setting: Setting[T] | None, default: T) -> Setting[T]:
    """Return a setting; one of a default value if it is left out."""
    return setting or Setting(default, "default")


def _origins_of_scaling(scaling: Settings) -> dict[str, Origin]:
    """Return the origins of an object `rope_scaling` and of its keys, such as `rope_scaling.factor`.

    Messages name these origins. The object itself is not in the file: they call it "settings".
    """
    origins = {"rope_scaling": origin_at("settings")}
    for name, origin in origins_of(scaling).items():
        origins[f"rope_scaling.{name}"] = origin
    return origins


def _holds_objects(value: object) -> bool:
    """Return True for an object with objects in it."""
    return isinstance(value, Mapping) and any(isinstance(item, Mapping) for item in value.values())
