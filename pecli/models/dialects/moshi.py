"""Kyutai's configurations of Moshi and its relatives, and of their depth transformers; and
audiocraft's, which has the same transformer in `transformer_lm`.
"""

from dataclasses import replace

from pecli.models.dialects.translation import ropes_by_hugging_face_rules, with_defaults
from pecli.models.encoding import Encoding, ParsedEncodings, joined
from pecli.models.families import ModelFamily
from pecli.models.keys import Keys, Setting, Settings, origin_at
from pecli.models.non_rotary import project_rules

#: What the keys of the depth transformer begin with.
DEPTH = "depformer_"
KINDS = ("rope", "sin_rope", "rope_concat", "sin", "none")
ROTARY_KINDS = ("rope", "sin_rope", "rope_concat")
#: The kinds with a table of sines and cosines, which is added to the input.
TABLE_KINDS = ("sin", "sin_rope")


def read(keys: Keys) -> ParsedEncodings:
    """Return the encodings of a Moshi configuration: of its transformer and its depth transformer.

    Moshi predicts a step in time with one transformer, and the audio codes within the step with a
    small second one, whose keys begin with `depformer_`. Each names its own kind of encoding.
    """
    keys = keys.inner_or_self("transformer_lm")
    warnings = []
    kind = keys.word("positional_embedding")
    if kind is None:
        kind = Setting("sin", "default of moshi's transformer")
        consequence = "moshi's transformer then adds sines and cosines"
        warnings.append(f"positional_embedding is not given: {consequence}")
    main = _encodings_of_transformer("", keys, kind)
    parsed = joined([main, _encodings_of_depth(keys)]).with_earlier_warnings(warnings)
    if parsed.encodings:
        return parsed
    no_encoding = f"{kind.source} is {kind.value}: the model has no positional encoding"
    return ParsedEncodings(encodings=[], warnings=[*parsed.warnings, no_encoding])


def _encodings_of_depth(keys: Keys) -> ParsedEncodings:
    """Return the encodings of the depth transformer; none if no key states their kind."""
    depth_keys = _depth_keys(keys)
    kind = depth_keys.word("pos_emb", "positional_embedding")
    if kind is None:
        return ParsedEncodings(encodings=[], warnings=[])
    return _encodings_of_transformer("depformer", depth_keys, kind)


def _depth_keys(keys: Keys) -> Keys:
    """Return the keys of the depth transformer without their prefix: `depformer_dim` is `dim`.

    Messages about them still have the full names.
    """
    data = {}
    origins = {}
    for full_name, value in keys.data.items():
        if full_name.startswith(DEPTH):
            name = full_name.removeprefix(DEPTH)
            data[name] = value
            origins[name] = origin_at(full_name)
    return replace(keys, data=data, origins=origins)


def _encodings_of_transformer(name: str, keys: Keys, kind: Setting[str]) -> ParsedEncodings:
    """Return the encodings of one of the transformers: rope, a table of sines, or both (`sin_rope`).

    Args:
        name: The layer type of its encodings; empty for the main transformer.
        keys: Its keys.
        kind: The word that names the kind of encoding, one of KINDS.
    """
    keys.require_one_of(kind, *KINDS)
    # The base is read even for the kind «none», so that it is not reported as an unread key.
    base = keys.number("max_period")
    encodings: list[Encoding] = []
    warnings: list[str] = []
    if kind.value in ROTARY_KINDS:
        ropes = _rotary_encodings(keys, kind, base)
        encodings += ropes.encodings
        warnings += ropes.warnings
    if kind.value in TABLE_KINDS:
        rule_for_table = project_rules("moshi")["sin"]
        encodings += rule_for_table.encodings(with_defaults(keys, "moshi's transformer"))
    labelled = [replace(encoding, layer_type=name, part=name) for encoding in encodings]
    return ParsedEncodings(labelled, warnings)


def _rotary_encodings(
    keys: Keys, kind: Setting[str], base: Setting[float] | None
) -> ParsedEncodings:
    """Return the rotary encoding of a transformer, by the rules for Hugging Face's config.json.

    Args:
        keys: The keys of the transformer, of which `dim` and `num_heads` are used.
        kind: The kind of rope. `rope_concat` pairs the halves of a head; `rope` and `sin_rope` pair
            neighbouring channels.
        base: The base of the frequencies; None for the default.
    """
    pairs_neighbours = kind.value != "rope_concat"
    settings: Settings = {
        "rope_theta": base,
        # Messages name the key of the kind as the source of this value.
        "rope_interleave": kind.with_value(pairs_neighbours),
    }
    no_special_rules = ModelFamily()
    return ropes_by_hugging_face_rules(
        keys, no_special_rules, shared_names=("dim", "num_heads"), settings=settings
    )
