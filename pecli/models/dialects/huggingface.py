"""Hugging Face's config.json: a language model at the top or in `text_config`, towers for images
and sound beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pecli.errors import quoted
from pecli.models import non_rotary
from pecli.models.data import nonempty, plain_name
from pecli.models.encoding import Encoding, ParsedEncodings, joined
from pecli.models.families import ModelFamily, family_of, model_type_of
from pecli.models.key_names import (
    HEAD_COUNT_KEYS,
    ROTARY_KEYS,
    SETTINGS,
    SIZES,
    TEXTS,
    THETAS,
    WIDTHS,
)
from pecli.models.keys import NO_CLASS, Keys, Setting, value_of
from pecli.models.model_parts import (
    KEYS_NAMING_ENCODING,
    ROTARY_WORDS,
    ModelPart,
    make_part,
    only_names_model,
    parts_of,
)
from pecli.models.rope import rope_encodings
from pecli.models.table_rules import ROWS, AlibiRule, ChoiceRule, EncodingRule, LearnedRule

#: Parts within parts, such as the language model of the thinker of Qwen2.5-Omni.
MAX_DEPTH = 4
#: Other words that the keys of KEYS_NAMING_ENCODING may have.
OTHER_WORDS = (
    "absolute",
    "learned",
    "learned_absolute",
    "alibi",
    "nope",
    "none",
    "relative",
    "relative_key",
    "relative_key_query",
    "sine",
    "rotary_2d",
)
LEARNED_WORDS = ("absolute", "learned", "learned_absolute")
#: Stands for the word of a file without any of the keys of KEYS_NAMING_ENCODING.
NO_WORD = "(no word)"
NO_NAMED_ENCODING = Setting(NO_WORD, "")


def read(keys: Keys) -> ParsedEncodings:
    """Return the positional encodings of a Hugging Face config.json, the language model's first."""
    model_type = _model_type(keys)
    top = make_part(keys, "", model_type, is_text=True)
    encodings, warnings = _read_part(top, MAX_DEPTH)
    if not encodings:
        return ParsedEncodings(encodings=[], warnings=[*warnings, *_warnings_of_no_encoding(top)])
    if _leaves_out_tables(top, encodings, warnings):
        warnings += non_rotary.notes_on_absent_tables(model_type, encodings)
    return ParsedEncodings(encodings, warnings)


def _leaves_out_tables(
    part: ModelPart, encodings: Sequence[Encoding], warnings: Sequence[str]
) -> bool:
    """Return True if a model may have tables that neither encodings nor warnings mention.

    `{"model_type": "grounding-dino"}` only names the model. All else follows from the defaults of
    its class, and so does a table of 900 queries that no key describes. If tables were read with a
    warning, the rule for them has named those that it does not describe.
    """
    has_tables = any(not encoding.is_rotary for encoding in encodings)
    mentions_all_tables = has_tables and bool(warnings)
    return only_names_model(part) and not mentions_all_tables


def _model_type(keys: Keys) -> str | None:
    """Return the model type; if it is missing, the one that `architectures` implies."""
    stated = keys.word("model_type")
    if stated is not None:
        return stated.value
    types_of_architectures = map(model_type_of, keys.words("architectures"))
    return next(filter(None, types_of_architectures), None)


def _warnings_of_no_encoding(part: ModelPart) -> list[str]:
    """Return the warning «no positional encoding was found», with the reason.

    A rule with a note needs no such warning: the note states what the model has instead, such as
    «relative positions within attention».
    """
    notes: list[str] = []  # The notes of a rule were reported when the part was read.
    rule = _non_rotary_rule(part.keys, part.model_type)
    if rule is None:
        rule = non_rotary.rule_of_class_tables(part.model_type)
        notes = [] if rule is None else rule.notes(part.keys)
    if rule is not None and rule.note:
        return notes
    return [*notes, _no_encoding_warning(part, rule)]


def _no_encoding_warning(part: ModelPart, rule: EncodingRule | None) -> str:
    return f"no positional encoding was found: {_reason_for_no_encoding(part, rule)}"


def _reason_for_no_encoding(part: ModelPart, rule: EncodingRule | None) -> str:
    """Return why no encoding was found: another file or code defines it, or the model has none.

    Args:
        part: The part of the configuration, such as its `text_config`.
        rule: What is known about models of this type: that they have no encoding. None if nothing
            is known about them.
    """
    path = _path_of_text_model(part.keys)
    if path is not None:
        return f"{path.source} is {quoted(path.value)}, whose config.json says what it has"
    # torchtune and Hydra name the class or the function that makes the model.
    code = part.keys.inner("model").word("_component_", "_target_")
    if code is not None:
        return f"{code.source} is {quoted(code.value)}, whose code says what it has"
    if rule is not None:
        return "the model has none"
    reason = "no key that is read here names one"
    if part.model_type and not family_of(part.model_type, vision=part.vision).is_known:
        reason += f", and model_type {part.model_type[:60]!r} is unknown"
    return reason


def _path_of_text_model(keys: Keys) -> Setting[str] | None:
    """Return the name of another model instead of a `text_config`, as LLaVA's first files have it."""
    names = [name for name in TEXTS if isinstance(keys.data.get(name), str)]
    return keys.word(*names)


def _read_part(part: ModelPart, max_depth: int) -> ParsedEncodings:
    """Return the encodings of a part of a model, and of the parts within it.

    A plain file describes its layers at the top. A multimodal one has a language model in
    `text_config` and a tower for images in `vision_config`. Such parts may have parts themselves,
    which are read by recursion.

    Args:
        part: The part, for example the whole file.
        max_depth: How many levels of parts within it are read.
    """
    inner_parts = parts_of(part) if max_depth else []
    tower = family_of(part.model_type).tower_at_top  # Empty in most families.
    if tower and _has_language_model(inner_parts):
        # The keys at the top of MusicFlamingo's file describe its tower for sound.
        return _read_with_tower_at_top(part, tower, inner_parts, max_depth)
    results = []
    if _describes_layers(part, inner_parts):
        results.append(_encodings_of_part(part))
    results += [_read_inner(inner, inner.layer_label, max_depth - 1) for inner in inner_parts]
    return joined(results)


def _has_language_model(inner_parts: Sequence[ModelPart]) -> bool:
    """Return True if one of the parts within a model is its language model (`text_config`)."""
    return any(inner.is_text for inner in inner_parts)


def _describes_layers(part: ModelPart, inner_parts: Sequence[ModelPart]) -> bool:
    """Return True if the keys of a part itself describe layers, not only the parts within it.

    They do so in a file without parts, and in one that has the language model at the top and only
    a `vision_config` within it.
    """
    if not inner_parts:
        return True
    return _has_layers(part) and not _has_language_model(inner_parts)


def _read_with_tower_at_top(
    part: ModelPart, tower: str, inner_parts: Sequence[ModelPart], max_depth: int
) -> ParsedEncodings:
    """Return the encodings of a model whose keys at the top describe a tower, and of its parts.

    The layer types of the language model usually have no label in front. Here they have one
    (`text.full_attention`), since the first encodings are those of the tower.

    Args:
        part: The whole model.
        tower: The name of the tower: `audio` for MusicFlamingo.
        inner_parts: The language model and other parts within it.
        max_depth: How many levels of parts are read, the inner parts included.
    """
    of_inner_parts = [_read_inner(inner, inner.label, max_depth - 1) for inner in inner_parts]
    encodings, warnings = _encodings_of_part(part)
    of_tower = [replace(encoding, part=tower) for encoding in encodings]
    return joined([ParsedEncodings(of_tower, warnings), *of_inner_parts])


def _has_layers(part: ModelPart) -> bool:
    """Return True if a part has a width and heads of its own, not only parts within it.

    Defaults of a class count only if it is that of the part itself: those of a `qwen2_vl` are those
    of the language model within it.
    """
    keys = part.keys
    if keys.defaults.model_type != plain_name(part.model_type):
        keys = replace(keys, defaults=NO_CLASS)
    return keys.has_value(*WIDTHS) and keys.has_value(*HEAD_COUNT_KEYS, *SIZES)


def _read_inner(part: ModelPart, label: str, max_depth: int) -> ParsedEncodings:
    """Return the encodings of a part within a model, and name their layer types after it.

    Args:
        part: The part.
        label: The name to put before layer types. With `vision`, the tower's only encoding gets the
            layer type `vision`, and `patches` becomes `vision.patches`. Empty to keep them.
        max_depth: How many levels of parts within it are read.
    """
    encodings, warnings = _read_part(part, max_depth)
    if not encodings and part.keys.has_any(*HEAD_COUNT_KEYS):
        warnings += _warnings_of_no_encoding(part)
    labelled = [_with_label(encoding, part, label) for encoding in encodings]
    return ParsedEncodings(labelled, [f"{part.label}: {warning}" for warning in warnings])


def _with_label(encoding: Encoding, part: ModelPart, label: str) -> Encoding:
    """Return an encoding whose layer type begins with a label, and that belongs to the part."""
    layer_type = ".".join(nonempty(label, encoding.layer_type))
    if part.is_text:
        return replace(encoding, layer_type=layer_type)
    part_name = ".".join(nonempty(label, encoding.part))
    return replace(encoding, layer_type=layer_type, part=part_name)


@dataclass(frozen=True)
class Evidence:
    """The statements of a part's keys, and of its family, about its encoding.

    Attributes:
        part: The part.
        family: Its family of rotary models, or UNKNOWN_FAMILY.
        non_rotary_rule: The rule for an encoding other than rope (ALiBi, a table), if there is one.
        tables_of_class: The tables of its class in transformers, which may stand beside rope.
        named_encoding: The word by which a key such as `position_embedding_type` names the
            encoding; NO_NAMED_ENCODING if no key does.
        points_to_rope: The file has keys that only rotary models have.
    """

    part: ModelPart
    family: ModelFamily
    non_rotary_rule: EncodingRule | None
    tables_of_class: EncodingRule | None
    named_encoding: Setting[str]
    points_to_rope: bool

    @property
    def word(self) -> str:
        return self.named_encoding.value.lower()

    @property
    def statement(self) -> str:
        """The key and its word, for messages: «position_embedding_type is 'alibi'»."""
        return f"{self.named_encoding.source} is {quoted(self.named_encoding.value)}"


@dataclass(frozen=True)
class Decision:
    """The kind of encoding that a part has.

    Attributes:
        is_rotary: True if it has rope, perhaps beside a table.
        non_rotary_rule: Makes the encodings other than rope, such as ALiBi or a table; it makes none
            if there are none.
    """

    is_rotary: bool
    non_rotary_rule: EncodingRule


def _encodings_of_part(part: ModelPart) -> ParsedEncodings:
    """Return the encodings that the keys of a part itself describe, without the parts within it.

    First the keys and the model type decide whether it has rope, another encoding (ALiBi, a table of
    positions), both, or none. Then these encodings are read.
    """
    evidence = _gather_evidence(part)
    if _rotates_no_channel(part.keys):
        warning = f"{part.keys.prefix}qk_rope_head_dim is 0: there is no rope"
        return ParsedEncodings(encodings=[], warnings=[warning])
    warnings = _warnings_of_unknown_word(evidence)
    decision = _decide_on_encoding(evidence)
    if decision is None:  # Nothing points to an encoding.
        return ParsedEncodings(encodings=[], warnings=warnings)
    warnings += _warnings_about_decision(evidence, decision)
    ropes = ParsedEncodings(encodings=[], warnings=[])
    if decision.is_rotary:
        ropes = rope_encodings(part.keys, evidence.family, vision=part.vision)
    other_encodings = decision.non_rotary_rule.encodings(part.keys)
    return ParsedEncodings([*ropes.encodings, *other_encodings], [*warnings, *ropes.warnings])


def _warnings_about_decision(evidence: Evidence, decision: Decision) -> list[str]:
    """Return warnings if a part was read by general rules, or against its own words.

    Notes on tables that pecli cannot describe follow.
    """
    return [
        *_warnings_of_unknown_family(evidence, decision),
        *_warnings_of_overruled_word(evidence, decision),
        *decision.non_rotary_rule.notes(evidence.part.keys),
    ]


def _gather_evidence(part: ModelPart) -> Evidence:
    """Return all statements about the encoding of a part of a model, which may contradict each other.

    A config.json may have a `rope_theta`, which points to rope, beside the word «alibi». The caller
    decides which one counts.
    """
    keys = part.keys
    family = family_of(part.model_type, vision=part.vision)
    # Tables in the Python class of the model, which it may have instead of rope or beside it. The
    # caller may need them even if the keys lead to another rule.
    tables_of_class = non_rotary.rule_of_class_tables(part.model_type)
    non_rotary_rule = _non_rotary_rule(keys, part.model_type)
    if non_rotary_rule is None and not family.is_known:
        # Nothing else is known about the model.
        non_rotary_rule = tables_of_class
    named_encoding = keys.word(*KEYS_NAMING_ENCODING) or NO_NAMED_ENCODING
    return Evidence(
        part=part,
        family=family,
        non_rotary_rule=non_rotary_rule,
        tables_of_class=tables_of_class,
        named_encoding=named_encoding,
        points_to_rope=_points_to_rope(keys, named_encoding),
    )


def _points_to_rope(keys: Keys, named_encoding: Setting[str]) -> bool:
    """Return True if a file has a key such as `rope_theta`, which only rotary models have.

    It does not count beside `position_embedding_type: "relative_key"`, which names another encoding.
    """
    names_relative = _word_of_position_embedding_type(keys).startswith("relative")
    return _has_rotary_keys(keys, named_encoding) and not names_relative


def _has_rotary_keys(keys: Keys, named_encoding: Setting[str]) -> bool:
    """Return True if a file has a key of rope, names rope in a word, or has it in attention."""
    names_rope = named_encoding.value.lower() in ROTARY_WORDS
    return keys.has_any(*ROTARY_KEYS) or names_rope or _attends_with_rope(keys)


def _attends_with_rope(keys: Keys) -> bool:
    """Return True if MPT's or DBRX's settings of attention have rope."""
    attention = keys.inner("attn_config")
    return attention.has_any("rope_theta") or attention.data.get("rope") is True


def _decide_on_encoding(evidence: Evidence) -> Decision | None:
    """Return the kind of encoding that a part of a model has; None if nothing points to one.

    A rule describes another encoding than rope. Rules for ALiBi and for no encoding override rope:
    many such files have a `rope_theta`, which the model's code ignores. Other rules count only
    without a key of rope.
    """
    rule = evidence.non_rotary_rule
    if rule is not None and (rule.overrides_rope or not evidence.points_to_rope):
        return Decision(is_rotary=False, non_rotary_rule=rule)
    if not evidence.points_to_rope and not _rotates_by_default(evidence):
        return None
    table_beside_rope = non_rotary.beside(evidence.part.model_type, vision=evidence.part.vision)
    rule = table_beside_rope or evidence.tables_of_class or EncodingRule()
    return Decision(is_rotary=True, non_rotary_rule=rule)


def _rotates_no_channel(keys: Keys) -> bool:
    """Return True for latent attention without a rotary part, and without settings of rope."""
    return keys.data.get("qk_rope_head_dim") == 0 and not keys.has_any(*SETTINGS, *THETAS)


def _rotates_by_default(evidence: Evidence) -> bool:
    """Return True if a family is known to rotate without any key about rope.

    A tower whose family has no axes has been found by the name of the language model beside it.
    """
    family = evidence.family
    return family.axes > 0 or (family.is_known and not evidence.part.vision)


def _warnings_of_unknown_word(evidence: Evidence) -> list[str]:
    """Return a warning about a stated type of encoding that is not known."""
    known = (*ROTARY_WORDS, *OTHER_WORDS)
    if evidence.word in (NO_WORD, *known):
        return []
    return [f"{evidence.statement}, which is none of {', '.join(known)}"]


def _warnings_of_unknown_family(evidence: Evidence, decision: Decision) -> list[str]:
    """Return a warning that general rules were applied to a model of an unknown family.

    A family is known if there are rules for its rotary encoding, or for its tables if these are what
    is read.
    """
    model_type = evidence.part.model_type
    has_rule_of_family = plain_name(model_type) in non_rotary.FAMILIES
    if evidence.family.is_known or (has_rule_of_family and not decision.is_rotary):
        return []
    name = f"model_type {model_type[:60]!r} is unknown" if model_type else "there is no model_type"
    return [f"{name}: read by the general rules; check layout and defaults"]


def _warnings_of_overruled_word(evidence: Evidence, decision: Decision) -> list[str]:
    """Return a warning that a word names another encoding than the one that is read."""
    if decision.is_rotary and evidence.word in OTHER_WORDS:
        return [f"{evidence.statement}, but other keys ask for rope, which is what is read"]
    has_alibi = isinstance(decision.non_rotary_rule, AlibiRule) and not decision.is_rotary
    if has_alibi and evidence.word not in (NO_WORD, "alibi"):
        return [f"{evidence.statement}, but the model has ALiBi, which is what is read"]
    return []


def _word_of_position_embedding_type(keys: Keys) -> str:
    """Return the word of `position_embedding_type`; `pos_emb_type` does not choose among other
    encodings than rope.
    """
    return keys.word_or("", *KEYS_NAMING_ENCODING[:2]).value.lower()


def _non_rotary_rule(keys: Keys, model_type: str | None) -> EncodingRule | None:
    """Return the rule that reads ALiBi or a table of positions; None if nothing points to one.

    ALiBi, «none» and «relative» count more than the rule of the model type, if the file states them.
    The other words of `position_embedding_type` count only for model types without a rule.
    """
    rule_of_type = _rule_of_model_type(keys, model_type)
    word = _word_of_position_embedding_type(keys)
    # Flags such as `use_alibi` are read before the first return. Keys that nothing reads would be
    # reported to the user.
    states_alibi = _states_alibi(keys, word)
    if isinstance(rule_of_type, AlibiRule):
        return rule_of_type  # The slopes of this model type may differ from the usual ones.
    if states_alibi:
        return AlibiRule()
    stated_rule = _rule_if_none_or_relative(keys, word)
    if stated_rule is not None:
        return stated_rule
    if rule_of_type is not None:
        return rule_of_type
    return _rule_of_word(keys, word)


def _rule_if_none_or_relative(keys: Keys, word: str) -> EncodingRule | None:
    """Return a rule without tables if a file states «none» or «relative»; else None.

    pecli has no scheme for «relative», so that its rule has only a note.
    """
    states_no_encoding = keys.is_true("mla_use_nope") or word in ("nope", "none")
    if states_no_encoding:
        return EncodingRule()
    if word == "relative":
        return EncodingRule(note=non_rotary.RELATIVE_NOTE)
    return None


def _rule_of_model_type(keys: Keys, model_type: str | None) -> EncodingRule | None:
    """Return the rule of a model type; for some types, keys choose among several rules."""
    rule = non_rotary.FAMILIES.get(plain_name(model_type))
    if isinstance(rule, ChoiceRule):
        return rule.chosen(keys)
    return rule


def _rule_of_word(keys: Keys, word: str) -> EncodingRule | None:
    """Return the rule of `position_embedding_type` for a family that has none."""
    if word in LEARNED_WORDS and keys.has_any(*ROWS):
        return LearnedRule()
    if word.startswith("relative"):
        return EncodingRule(note=non_rotary.RELATIVE_NOTE)
    return None


def _states_alibi(keys: Keys, word: str) -> bool:
    """Return True if a word, a flag or a key for the length of the bias states ALiBi.

    MosaicBERT's file has only that length, `alibi_starting_size`.
    """
    attention = keys.inner("attn_config")
    flag = keys.flag("alibi", "use_alibi") or attention.flag("alibi")
    if word == "alibi" or value_of(flag):
        return True
    return keys.number("alibi_starting_size") is not None
