"""Values of flags, parsed by their meanings."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pecli.engine.named_values import MutableValues
from pecli.errors import ParameterError
from pecli.models.flags.command_line import ServerFlag, literal_or_none
from pecli.models.flags.servers import Meaning, ReadFlag
from pecli.models.keys import MAX_WHOLE, Setting, as_number, as_whole, setting_from_key

FlagSetting = Setting[Any]
"""The value of a flag: a number, a word or an object, as its meaning requires."""
FlagSettings = dict[Meaning, FlagSetting]
"""The values of flags by meaning; their sources are the flags as they were typed."""

#: Multiples of lengths as vLLM reads them: 1k is 1,000 and 1K is 1,024.
LENGTH = re.compile(r"(\d+(?:\.\d+)?)([kKmM]?)")
MULTIPLES = {"": 1, "k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2}
#: llama-cpp-python names scalings by the numbers of llama.cpp's enumeration.
NUMBERED_SCALINGS = {"-1": "", "0": "none", "1": "linear", "2": "yarn", "3": "longrope"}
#: Flags that may be repeated, each time for other keys.
MERGED = (Meaning.CONFIG, Meaning.METADATA)
METADATA = re.compile(r"([\w.-]+)=(?:int|float|bool|str):(.*)")
#: Words for a value that the server chooses itself.
AUTOMATIC = ("auto", "-1", "0")
NO_KEYS: FlagSetting = Setting({}, "")
"""Stands for a flag that replaces keys, if it is not given."""


def served_context(declared: int | None, settings: FlagSettings) -> int | None:
    """Return the context that a flag such as `-c 8192` states, else the one that a model declares."""
    served = settings.get(Meaning.CONTEXT)
    return declared if served is None else int(served.value)


def settings_of(flags: Iterable[ReadFlag]) -> FlagSettings:
    """Return the values of flags by meaning, which servers share although their flags differ.

    Of a repeated flag the last value counts, as in every server, unless the flag adds keys to an
    object.

    Raises:
        ParameterError: A value is missing or wrong.
    """
    settings: FlagSettings = {}
    for flag, meanings in flags:
        for meaning, setting in _settings_of_flag(flag, meanings):
            earlier = settings.get(meaning, setting)
            settings[meaning] = _repeated_setting(flag, meaning, earlier, setting)
    return settings


def _repeated_setting(
    flag: ServerFlag, meaning: Meaning, earlier: FlagSetting, setting: FlagSetting
) -> FlagSetting:
    """Return the value of a flag that may have been given before: the last one, or the keys of both.

    Args:
        flag: The flag, which may have a path into an object.
        meaning: The setting that it is for.
        earlier: The value so far; without one, that of this flag.
        setting: The value of this flag.
    """
    if flag.path:
        # `--hf-overrides.rope_parameters.rope_type yarn --hf-overrides.rope_parameters.factor 4`
        return setting.with_value(_merged_objects(earlier.value, setting.value))
    if meaning in MERGED:
        # `--override-kv llama.rope.freq_base=float:1e6 --override-kv llama.rope.scaling.factor=float:4`
        return setting.with_value({**earlier.value, **setting.value})
    return setting


def _merged_objects(first: object, second: object) -> object:
    """Return two objects as one that has the keys of both, and so have the objects within them.

    >>> _merged_objects({"rope": {"type": "yarn"}}, {"rope": {"factor": 4}})
    {'rope': {'type': 'yarn', 'factor': 4}}
    """
    if not isinstance(first, Mapping) or not isinstance(second, Mapping):
        return second
    merged = dict(first)
    for key, value in second.items():
        merged[key] = _merged_objects(merged[key], value) if key in merged else value
    return merged


def _settings_of_flag(
    flag: ServerFlag, meanings: Sequence[Meaning]
) -> Iterator[tuple[Meaning, FlagSetting]]:
    """Yield the values of one flag; `--ropeconfig 0.5 10000` has two, the second one optional."""
    if meanings and not flag.values:
        raise ParameterError("flags", f"{flag.spelled} without a value", "it needs one")
    for meaning, text in zip(meanings, flag.values, strict=False):
        value = _value(flag, meaning, text.strip().rstrip(","))
        if value is not None:
            yield meaning, setting_from_key(value, flag.spelled)


def _value(flag: ServerFlag, meaning: Meaning, text: str) -> object:
    """Return the value of a flag; None if it leaves the choice to the server.

    Args:
        flag: The flag.
        meaning: The setting that the value is for, which decides how it is parsed.
        text: The value as it was typed.

    Raises:
        ParameterError: It is no value of this flag, or the flag has a path and its value no keys.
    """
    parse = PARSERS.get(meaning, _number)
    if flag.path and parse is not _parsed_object:
        raise ParameterError("flags", ".".join([flag.spelled, *flag.path]), "its value has no keys")
    value = parse(text, flag)
    # `--hf-overrides.rope_parameters.factor 4` is `{"rope_parameters": {"factor": 4}}`.
    for key in reversed(flag.path):
        value = {key: value}
    return value


def _wrong(flag: ServerFlag, text: str, rule: str) -> ParameterError:
    return ParameterError("flags", f"{flag.spelled} {text[:60]}", rule)


def _number(text: str, flag: ServerFlag) -> float:
    """Return the number of `--rope-freq-base 1e6`; NaN and infinities are refused."""
    try:
        number = as_number(float(text))
    except ValueError:
        number = None
    if number is None:
        raise _wrong(flag, text, "it must be a number")
    return number


def _size(text: str, flag: ServerFlag) -> float:
    """Return a number that is not negative; 0 leaves the choice to the server."""
    number = _number(text, flag)
    if number < 0:
        raise _wrong(flag, text, "it must not be negative")
    return number


def _alpha(text: str, flag: ServerFlag) -> float | str:
    return "auto" if text == "auto" else _size(text, flag)


def _parsed_length(text: str, flag: ServerFlag) -> int | None:
    """Return a number of positions, such as 32768 or 32K; None if the server chooses it."""
    is_chosen_by_server = text in AUTOMATIC
    if is_chosen_by_server:
        return None
    length = _length_in_words(text)
    if length is None:
        raise _wrong(flag, text, f"it must be a number of positions, up to {MAX_WHOLE:,}")
    return length


def _length_in_words(text: str) -> int | None:
    """Return 32768 for 32K and for 32768; None if a text is not a whole number of positions."""
    match = LENGTH.fullmatch(text)
    if match is None:
        return None
    number, unit = match.groups()
    return as_whole(float(number) * MULTIPLES[unit])


def _loader(text: str, flag: ServerFlag) -> str:
    """Return the engine of text-generation-webui's `--loader`, whose flags have exllama's meanings.

    Raises:
        ParameterError: It is transformers, to which the same flags mean another scaling (dynamic).
    """
    if text == "transformers":
        raise _wrong(flag, text, "its flags are not described; write rope_scaling into config.json")
    return text


def _word(text: str, flag: ServerFlag) -> str | None:
    word = text.lower()
    return NUMBERED_SCALINGS.get(word, word) or None


def _parsed_object(text: str, flag: ServerFlag) -> object:
    """Return the object of a flag such as `--hf-overrides '{"rope_theta": 1e6}'`.

    A flag with a path, such as `--hf-overrides.rope_parameters.rope_type yarn`, replaces a single
    key, whose value may be anything.

    Raises:
        ParameterError: The text is no object, and the flag has no path.
    """
    value = _json_or_python(text)
    if isinstance(value, Mapping):
        return dict(value)
    if not flag.path:
        raise _wrong(flag, text, 'it must be a JSON object, such as \'{"rope_type": "yarn"}\'')
    is_plain_text = value is None
    return text if is_plain_text else value


def _json_or_python(text: str) -> object:
    """Return a value in JSON's or in Python's spelling; None for a text that is neither.

    >>> _json_or_python('{"factor": 4.0}'), _json_or_python("{'factor': 4.0}")
    ({'factor': 4.0}, {'factor': 4.0})
    >>> _json_or_python("4"), _json_or_python("yarn")
    (4, None)
    """
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return literal_or_none(text)
    return value


def _parsed_metadata(text: str, flag: ServerFlag) -> MutableValues:
    """Return the texts of `--override-kv llama.rope.freq_base=float:1000000`, by their keys."""
    values: MutableValues = {}
    for item in text.split(","):
        match = METADATA.fullmatch(item)
        if match is None:
            rule = "it must be KEY=TYPE:VALUE, TYPE being int, float, bool or str"
            raise _wrong(flag, item, rule)
        key, value = match.groups()
        values[key] = value
    return values


PARSERS: dict[Meaning, Callable[[str, ServerFlag], object]] = {
    Meaning.ALPHA: _alpha,
    Meaning.BASE: _size,
    Meaning.FACTOR: _size,
    Meaning.SCALE: _size,
    Meaning.YARN_FACTOR: _size,
    Meaning.SCALING: _word,
    Meaning.LOADER: _loader,
    Meaning.CONTEXT: _parsed_length,
    Meaning.ORIGINAL: _parsed_length,
    Meaning.CONFIG: _parsed_object,
    Meaning.ROPE_SCALING: _parsed_object,
    Meaning.ROPE_PARAMETERS: _parsed_object,
    Meaning.METADATA: _parsed_metadata,
}
"""How each meaning's value is parsed; all others are numbers."""
