"""Which tensor of a file is which: by its name, as checkpoints and dumps spell them."""

import re
from collections.abc import Iterable, Mapping
from functools import cache

from pecli.engine import schemes
from pecli.files.npy import ARRAY_NAME

LAYER = re.compile(r"(?:layers?|blocks?|blk|\bh|\bl)[._-]?(\d{1,6})", re.IGNORECASE)
ANYTHING = "anything"  #: the role of a tensor whose name says that it belongs to the encoding, and not what it is


@cache
def schemes_of(role: str) -> frozenset[str]:
    """The encodings of models that have a tensor of that role."""
    kinds = [
        kind for kind in map(schemes.scheme_named, schemes.SCHEMES) if role in kind.checkpoint_names
    ]
    return frozenset(
        {"rope"} if role == ANYTHING else {kind.name.removesuffix("-init") for kind in kinds}
    )


@cache
def roles() -> Mapping[str, str]:
    """What tensors hold, by what they are called; a longer name may end in one of these, as in `rope_cos`."""
    kinds = map(schemes.scheme_named, schemes.SCHEMES)
    return {
        word: role
        for kind in kinds
        for role, words in kind.checkpoint_names.items()
        for word in words
    }


_FULL_NAMES = {"bias": "bias", "weight": "rows", "weights": "rows"}
"""Words too common in checkpoints to mean anything, unless they are the full name."""
_LAYER_WORDS: Mapping[str, tuple[str, ...]] = {
    "sliding": ("local", "sliding", "swa"),
    "full": ("global", "full"),
}
"""Words for layers, by one that the names of their types have."""
_LAYERS = re.compile(
    rf"_({'|'.join(word for words in _LAYER_WORDS.values() for word in words)})(_attention|_attn)?$"
)
_HOLDERS = re.compile(r"(^|_)(rotary|rope)(_|$)")


def role_of(name: str) -> str | None:
    """What a tensor of that name holds; None where the name does not tell.

    >>> role_of("model.layers.7.self_attn.rotary_emb.cos_cached")
    'cos'
    >>> role_of("transformer.wpe.weight")
    'rows'
    """
    if name in _FULL_NAMES:
        return _FULL_NAMES[name]
    if name == ARRAY_NAME:
        return None
    parts = [part.strip("_").lower() for part in re.split(r"[./]", name)]
    while len(parts) > 1 and parts[-1] in ("weight", "weights"):
        parts.pop()
    words = _LAYERS.sub("", parts[-1]).split("_")
    for start in range(len(words)):  # the longest ending that is a word: cos_sin before sin
        if (role := roles().get("_".join(words[start:]))) is not None:
            return role
    return ANYTHING if any(_HOLDERS.search(part) for part in parts[:-1]) else None


def layer_named(name: str, layer_types: Iterable[str]) -> str | None:
    """The layer type in a tensor's name, the longest where one contains another.

    >>> layer_named("rotary_emb_local.inv_freq", ["full_attention", "sliding_attention"])
    'sliding_attention'
    """
    types = [each for each in layer_types if each]
    named = max((each for each in types if each in name), key=len, default=None)
    if named is not None:
        return named
    words = re.split(r"[./_]", name.lower())
    found = [
        each
        for each in types
        for part, known in _LAYER_WORDS.items()
        if part in each and {*known} & {*words}
    ]
    return found[0] if len(found) == 1 else None
