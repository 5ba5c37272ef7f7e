"""Warnings about keys of a configuration that look like positions and that nothing has read.

Nothing about positions may be ignored in silence: a key that is misspelled, misplaced or new is
reported, with the nearest known key as a hint.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from pecli.engine.grouping import grouped
from pecli.errors import counted, nearest, quoted
from pecli.models.data import MAX_NAMES, plain_name, stored
from pecli.models.keys import WIDTH, Keys, KeyUsage, as_whole

POSITIONS = re.compile(
    r"(?<![a-z])(use|apply|m|xd|[hix])?rope|rotary|theta|(?<![mso])position|pos_?emb|pos_embed|alibi|freq|yarn|mscale|scaling|(attn|attention)_factor"
    r"|max_period|ntk|sinusoid|rel_pos|relative|wavelen|timescale|(learned|conv|max|num)_pos|(^|_)nope|no_?pe_|fope"
    r"|xpos|(^|_)r?pe(_|$)|pos_enc|abs_pos|interpolation_factor|extrapolation|original_seq|(^|_)rot_"
)
#: Parts of names that are about training, whatever else the name has: `positional_dropout_rate`,
#: `eval_frequency`, `loss_scaling_factor`.
TRAINING = re.compile(r"drop(out|ped)|loss|(eval|log|logging|save|checkpoint|valid|print)_freq")
#: Keys that look like positions and are about something else, or about how a kernel computes.
OTHER_MATTERS = frozenset(" ".join(stored("other_matters.json")).split())
#: The names that transformers has for sizes, by names that other projects have for them. nanoGPT's
#: `block_size` in a file of model_type gpt2 is no `n_positions`, which is then the class's 1024.
SIZES_MEANT: dict[str, str] = stored("sizes_elsewhere.json")
#: Objects whose keys are about something else.
OPAQUE = frozenset(
    (
        "quantization_config",
        "compression_config",
        "generation_config",
        "auto_map",
        "optimizer",
        "label2id",
        "id2label",
    )
)
#: Keys that turn an encoding on or off, such as `use_rope`: their false is a statement, not an
#: absence.
SWITCH = re.compile(
    r"(use|apply|with|enable|has)?_?(?P<scheme>rope|rotary|alibi)(_?(pos|position|positional))?(_?emb[a-z]*)?"
)
EMPTY_VALUES: tuple[object, ...] = (None, "", [], {}, ())
MAX_NAMED = 16
MAX_DEPTH = 8
MAX_KEY_LETTERS = 60


class UnreadKey(NamedTuple):
    """A key that nothing has read; `section` is the prefix of its object, such as `text_config.`."""

    section: str
    name: str
    value: object

    @property
    def full_name(self) -> str:
        return self.section + self.name

    @property
    def short_name(self) -> str:
        return self.name[:MAX_KEY_LETTERS]


@lru_cache(maxsize=MAX_NAMES)
def looks_like_positions(name: str) -> bool:
    """Return True if a key seems to be about positions, by its name.

    >>> looks_like_positions("attn_factor"), looks_like_positions("moe_layer_freq")
    (True, False)
    """
    plain = plain_name(name)
    if plain in OTHER_MATTERS or TRAINING.search(plain):
        return False
    return POSITIONS.search(plain) is not None


def unread_keys(keys: Keys, schemes: Collection[str]) -> list[str]:
    """Return warnings about keys of a file that look like positions and that nothing has read.

    `rope_tetha: 1e6` is probably a misspelled `rope_theta`. The first 16 such keys are named, and
    further ones are counted.

    Args:
        keys: The keys of the whole file, after its encodings were read.
        schemes: The schemes of these encodings, such as rope. A key `use_alibi: false` agrees with
            them, and needs no warning.
    """
    search = _Search(keys.usage, schemes)
    unread = list(search.keys_in(keys, within_positions=False))
    warnings = _warnings_naming(unread[:MAX_NAMED], keys.usage)
    more = len(unread) - MAX_NAMED
    if more > 0:
        warnings.append(f"nothing here reads {counted(more, 'more key')} named like positions")
    return warnings


def _warnings_naming(unread: Iterable[UnreadKey], usage: KeyUsage) -> list[str]:
    """Return a warning per key with a known reason, then one per object about all its other keys."""
    known_names = sorted(filter(looks_like_positions, usage.looked_for))
    explanations: list[str] = []
    unexplained: list[UnreadKey] = []
    for key in unread:
        explanation = _explanation_of_key(key, usage, known_names)
        if explanation:
            explanations.append(explanation)
        else:
            unexplained.append(key)
    return [*explanations, *_listed_by_section(unexplained)]


def _listed_by_section(keys: Iterable[UnreadKey]) -> list[str]:
    """Return a warning per object of the file that names its unread keys."""
    warnings = []
    for section, members in grouped(keys, lambda key: key.section).items():
        names = ", ".join(f"{key.short_name} ({quoted(key.value)})" for key in members)
        place = section.rstrip(".") or "it"
        warnings.append(f"{place} has {names}, which nothing here reads")
    return warnings


def _explanation_of_key(key: UnreadKey, usage: KeyUsage, known_names: Sequence[str]) -> str:
    """Return a warning about an unread key that states a reason; empty if none is known.

    Reasons are: the key may be meant as a size that has its default; the code of the model's class
    ignores it; it is nearly spelled like a known key. A key that was looked for needs no such hint:
    it is spelled correctly, and stands in the wrong place.

    Args:
        key: The key.
        usage: The record of keys that were read, looked for, or ignored.
        known_names: The names of all keys about positions that were looked for.
    """
    value = quoted(key.value)
    size = _defaulted_size(key, usage)
    if size:
        return f"{key.full_name} is {value}, and nothing here reads it: {size} has its default"
    ignoring_class = usage.ignored.get(key.full_name)
    if ignoring_class:
        return f"{key.full_name} is {value}, which the code of {ignoring_class} ignores"
    is_spelled_correctly = key.name in usage.looked_for
    if is_spelled_correctly:
        return ""
    advice = _nearest_key(key.name, known_names)
    if not advice:
        return ""
    return f"{key.section}{key.short_name} is {value}, and nothing here reads it: {advice}"


def _nearest_key(name: str, known: Sequence[str]) -> str:
    """Return the known key that may be meant, as advice; an empty text if none is near.

    `use_rope` is one letter from `mla_use_nope`, which means the opposite: names with `nope` are
    only compared with one another.
    """
    is_about_nope = "nope" in name
    candidates = [key for key in known if ("nope" in key) == is_about_nope]
    return nearest(name, candidates)


def _defaulted_size(key: UnreadKey, usage: KeyUsage) -> str:
    """Return the name of a size that got its default, although an unread key seems to state it.

    In a file with `n_embd: 512`, that is `hidden_size` if the class's default was taken for it. The
    text is empty if there is no such size.
    """
    if key.full_name in usage.read or as_whole(key.value) is None:
        return ""
    for name in SIZES_MEANT.get(key.name, "").split():
        if key.section + name in usage.defaulted:
            return key.section + name
    return ""


@dataclass(frozen=True)
class _Search:
    """A walk over all objects of a file."""

    usage: KeyUsage
    schemes: Collection[str]

    def keys_in(self, keys: Keys, *, within_positions: bool, depth: int = 0) -> Iterator[UnreadKey]:
        """Yield the keys about positions that nothing has read, also of objects within.

        A misspelled `rope_tetha` is found by its name. Within an object about positions, such as
        `rope_scaling`, every key is about positions, whatever its name.

        Args:
            keys: The keys of the file, or of an object in it.
            within_positions: True if they are, or lie in, an object about positions.
            depth: The number of objects around them.
        """
        for name, value in keys.data.items():
            key = UnreadKey(section=keys.prefix, name=name, value=value)
            is_setting = within_positions and not name.startswith("_")
            is_about_positions = is_setting or looks_like_positions(name)
            if self._is_searched(key, is_about_positions):
                yield from self._keys_within(key, keys, is_about_positions, depth + 1)
            elif self._is_reported(key, is_about_positions):
                yield key

    def _is_searched(self, key: UnreadKey, is_about_positions: bool) -> bool:
        """Return True if a key holds an object whose keys are searched one by one.

        An object about positions that nothing has read is not searched, but reported as one key:
        one warning names a misspelled `rope_scalling`, instead of every key in it.
        """
        is_one_unread_key = is_about_positions and key.full_name not in self.usage.read
        return isinstance(key.value, Mapping) and not is_one_unread_key

    def _keys_within(
        self, key: UnreadKey, keys: Keys, is_about_positions: bool, depth: int
    ) -> Iterator[UnreadKey]:
        """Yield the unread keys about positions in the object that a key holds.

        Args:
            key: The key, such as `rope_scaling`.
            keys: The keys among which it is.
            is_about_positions: True if the object is about positions.
            depth: The number of objects around the keys of this object.
        """
        assert isinstance(key.value, Mapping)
        if key.name in OPAQUE or depth > MAX_DEPTH:
            return
        inner = replace(keys, data=key.value, prefix=f"{key.full_name}.")
        yield from self.keys_in(inner, within_positions=is_about_positions, depth=depth)

    def _is_reported(self, key: UnreadKey, is_about_positions: bool) -> bool:
        """Return True if a key may be meant as a size, or if it is about positions and unread."""
        return self._may_be_size(key) or (is_about_positions and self._is_unread(key))

    def _may_be_size(self, key: UnreadKey) -> bool:
        """Return True if a key may hold a size that was taken from the class or a rule.

        A `n_embd: 512` in a file whose `hidden_size` is the class's default is one.
        """
        if _defaulted_size(key, self.usage):
            return True
        lacks_width = key.section in self.usage.lacks_width
        if not lacks_width or key.name in self.usage.looked_for:
            return False
        return as_whole(key.value) is not None and WIDTH.fullmatch(key.name) is not None

    def _is_unread(self, key: UnreadKey) -> bool:
        """Return True if nothing has read a key, and its value could change the encoding."""
        return key.full_name not in self.usage.read and self._could_change_encoding(key)

    def _could_change_encoding(self, key: UnreadKey) -> bool:
        """Return True unless the value of a key is empty, false, or agrees with the encodings.

        In a file with rope, `use_rope: true` and `use_alibi: false` agree with the encodings that
        were read. `use_rope: false` contradicts them.
        """
        switch = SWITCH.fullmatch(plain_name(key.name))
        if switch is not None and isinstance(key.value, bool):
            return key.value != self._has_scheme(switch)
        if key.value is False:
            # False is the same as no key, except for `truncate`: YaRN rounds unless it is false.
            return "truncate" in key.name
        return key.value not in EMPTY_VALUES

    def _has_scheme(self, switch: re.Match[str]) -> bool:
        """Return True if the scheme that a switch is about was read."""
        scheme = {"alibi": "alibi", "rope": "rope", "rotary": "rope"}[switch["scheme"]]
        return scheme in self.schemes
