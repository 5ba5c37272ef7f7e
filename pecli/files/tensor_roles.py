"""Roles of tensors by their names, as checkpoints and dumps spell them: cos, sin, inv_freq, …"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import chain

from pecli.engine.schemes import SCHEMES
from pecli.files.checkpoint_names import checkpoint_names
from pecli.files.npy import ARRAY_NAME

_LAYER_NUMBERS = (
    re.compile(r"(?:layers?|blocks?|blk|(?<![a-z0-9])[hl])[._\[-]?(\d{1,6})", re.IGNORECASE),
    re.compile(r"(?<![a-z0-9])[qk](?:cur|uery|ey)?[._\[-]?(\d{1,6})(?![a-z0-9])", re.IGNORECASE),
)
"""The place of a layer's number in a tensor's name: after a word for layers, as in
`model.layers.7.q`, `layers[7].q` and `q_L7`; or else after queries or keys, as in `q_7` and
llama.cpp's `Qcur-7`."""
ANYTHING = "anything"
"""The role of a tensor that belongs to the encoding by its name, which states no more:
`rope.buffer`."""


@cache
def schemes_of(role: str) -> frozenset[str]:
    """Return the encodings of models that have a tensor of that role."""
    if role == ANYTHING:
        return frozenset({"rope"})
    names = [name for name in SCHEMES if role in checkpoint_names(name)]
    # The scheme `learned-init` makes the tables of the encoding that models call learned.
    return frozenset(name.removesuffix("-init") for name in names)


@cache
def roles() -> Mapping[str, str]:
    """Return the roles by tensor names; a longer name may end in one of these: `rope_cos`."""
    by_word: dict[str, str] = {}
    for scheme in SCHEMES:
        for role, words in checkpoint_names(scheme).items():
            by_word.update(dict.fromkeys(words, role))
    return by_word


_ROLES_OF_FULL_NAMES = {"bias": "bias", "weight": "rows", "weights": "rows", ARRAY_NAME: None}
"""Words that are too common in checkpoints to have a meaning, unless they are the full name. The only
array of a file has the last one, whatever it is."""
_LAYER_WORDS = {
    "sliding": ("local", "sliding", "swa"),
    "full": ("global", "full"),
}
"""Words for layers in tensor names, by a word that their layer types contain: Gemma 3 calls the
table of its `sliding_attention` layers `rotary_emb_local`."""
_ALL_LAYER_WORDS = [word for words in _LAYER_WORDS.values() for word in words]
_LAYER_SUFFIX = re.compile(rf"_({'|'.join(_ALL_LAYER_WORDS)})(_attention|_attn)?$")
_NUMBER_SUFFIX = re.compile(r"(?<=cos|sin)_\d{1,6}$")
"""The number of one of several tables: `cos_1`, `sin_1`, `cos_2`, `sin_2`."""
_TABLE_WORD = re.compile(r"(?<![a-z])(?:cos(?:ines?)?|sin(?:es?)?|inv_freqs?)(?![a-z])")
"""The word by which tables of one module differ."""
_ROTARY_MODULE = re.compile(r"(^|_)(rotary|rope)(_|$)")


def role_of(name: str) -> str | None:
    """Return what a tensor is, by its name; None if the name does not state it.

    Roles are cos, sin, inv_freq, rows of a learned table, bias, …; `both` is a tensor of cosines and
    sines, and `anything` some other tensor of a module such as `rope`.

    >>> role_of("model.layers.7.self_attn.rotary_emb.cos_cached"), role_of("rope.buffer")
    ('cos', 'anything')
    >>> role_of("transformer.wpe.weight"), role_of("rope.sin_cos")
    ('rows', 'both')
    """
    if name in _ROLES_OF_FULL_NAMES:
        return _ROLES_OF_FULL_NAMES[name]
    if function_order(name) is not None:
        return "both"  # This comes first: the ending of `sin_cos` alone would mean cosines.
    *modules, last = _words_between_dots(name)
    role = _role_of_ending(last)
    if role is not None:
        return role
    is_in_rotary_module = any(map(_ROTARY_MODULE.search, modules))
    return ANYTHING if is_in_rotary_module else None


def _words_between_dots(name: str) -> list[str]:
    """Return the modules of a tensor, then its own name, which is not `weight` if it has another."""
    words = [word.strip("_").lower() for word in re.split(r"[./]", name)]
    while len(words) > 1 and words[-1] in ("weight", "weights"):
        words.pop()
    return words


def _role_of_ending(name: str) -> str | None:
    """Return the role of the longest ending of a name: `cos_sin` counts before `sin`."""
    without_number = _NUMBER_SUFFIX.sub("", name)
    words = _LAYER_SUFFIX.sub("", without_number).split("_")
    endings = ["_".join(words[start:]) for start in range(len(words))]
    return next(filter(None, map(roles().get, endings)), None)


def module_of(name: str) -> str | None:
    """Return what tables of one module have in common in their names; None for other tensors.

    >>> module_of("rotary_emb.cos_cached") == module_of("rotary_emb.sin_cached")
    True
    """
    word = _TABLE_WORD.search(name.lower())
    if word is None:
        return None
    return name[: word.start()] + name[word.end() :]


def function_order(name: str) -> tuple[str, str] | None:
    """Return the order in which a name has cosines and sines; None if it does not have both.

    >>> function_order("rope.sin_cos"), function_order("cos_sin_cache"), function_order("freqs")
    (('sin', 'cos'), ('cos', 'sin'), None)
    """
    last = re.split(r"[./]", name.lower())[-1]
    if re.search(r"(?<![a-z])sin(es?)?[_-]?(and_)?cos", last):
        return ("sin", "cos")
    if re.search(r"(?<![a-z])cos(ines?)?[_-]?(and_)?sin", last):
        return ("cos", "sin")
    return None


def layer_number(name: str) -> int | None:
    """Return the number of the layer in a tensor's name; None if it has none.

    >>> layer_number("model.layers.7.self_attn.q"), layer_number("Qcur-7"), layer_number("q")
    (7, 7, None)
    """
    for pattern in _LAYER_NUMBERS:
        match = pattern.search(name)
        if match is not None:
            return int(match[1])
    return None


def layer_in_stem(stem: str) -> str:
    """Return the name of a file if it states a layer in a word; empty if not.

    Numbers after queries or keys do not count here: `q_64.npy` may hold 64 positions.

    >>> layer_in_stem("layer3_q"), layer_in_stem("q_64")
    ('layer3_q', '')
    """
    return stem if _LAYER_NUMBERS[0].search(stem) else ""


def layer_named(name: str, layer_types: Iterable[str]) -> str | None:
    """Return the layer type in a tensor's name; of several that match, the longest.

    >>> layer_named("rotary_emb_local.inv_freq", ["full_attention", "sliding_attention"])
    'sliding_attention'
    """
    types = list(layer_types)
    contained = [layer_type for layer_type in types if layer_type in name]
    longest = max(contained, key=len, default="")
    if longest:  # A layer type without a name is contained in every name.
        return longest
    words = set(re.split(r"[./_]", name.lower()))
    matches = [layer_type for layer_type in types if _is_meant(layer_type, words)]
    return matches[0] if len(matches) == 1 else None


def _is_meant(layer_type: str, words: set[str]) -> bool:
    """Return True if words mean a layer type: `local` means `sliding_attention`."""
    synonyms = [_LAYER_WORDS[part] for part in _LAYER_WORDS if part in layer_type]
    return not words.isdisjoint(chain(*synonyms))
