"""Hugging Face's config.json: a language model at the top or in `text_config`, towers for images
and sound beside it.
"""

from dataclasses import dataclass, replace

from pecli.errors import quoted
from pecli.models import non_rotary
from pecli.models.data import plain_name
from pecli.models.encoding import ParsedEncodings, joined
from pecli.models.families import ModelFamily, family_of, model_type_of
from pecli.models.key_names import EVIDENCE, HEADS, SETTINGS, SIZES, TEXTS, THETAS, WIDTHS
from pecli.models.keys import NO_CLASS, Keys, Setting, value_of
from pecli.models.model_parts import (
    ROTARY_WORDS,
    STATEMENTS,
    ModelPart,
    lacks_text_model,
    make_part,
    only_names_model,
    parts_of,
)
from pecli.models.rope import rope_encodings
from pecli.models.table_rules import ROWS, AlibiRule, ChoiceRule, EncodingRule, LearnedRule

#: Parts within parts, such as the language model of the thinker of Qwen2.5-Omni.
MAX_DEPTH = 4
#: Other words that the keys of STATEMENTS may have.
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


def read(keys: Keys) -> ParsedEncodings:
    """Return the positional encodings of a Hugging Face config.json, the language model's first.

    A file may only name the model: its encodings then follow from the class's defaults, and notes
    mention tables that such a file cannot describe, unless warnings name them already.
    """
    model_type = _model_type(keys)
    top = make_part(keys, "", model_type, is_text=True)
    encodings, warnings = _read_part(top, MAX_DEPTH)
    if not encodings:
        warnings += _warnings_of_no_encoding(top)
    has_defaults = lacks_text_model(top) or only_names_model(top)
    has_tables = any(not encoding.is_rotary for encoding in encodings)
    names_all = has_tables and bool(warnings)
    if encodings and has_defaults and not names_all:
        warnings += non_rotary.notes_on_absent_tables(model_type, encodings)
    return ParsedEncodings(encodings, warnings)


def _model_type(keys: Keys) -> str | None:
    """Return the model type; if it is missing, the one that `architectures` implies."""
    given = keys.word("model_type")
    if given is not None:
        return given.value
    known = map(model_type_of, keys.words("architectures"))
    return next(filter(None, known), None)


def _warnings_of_no_encoding(part: ModelPart) -> list[str]:
    """Return the warning «no positional encoding was found», with the reason.

    A rule is what is known of a model type without rope: ALiBi, a learned table, or nothing. A rule
    with a note states what the model has instead («relative positions within attention»), so that
    no warning is needed. The note of a family's rule has been reported already.
    """
    keys = part.keys
    rule = _rule_for_other_encoding(keys, part.model_type)
    notes: list[str] = []
    if rule is None:
        rule = non_rotary.tables_of(part.model_type)
        notes = [] if rule is None else rule.notes(keys)
    if rule is not None and rule.note:
        return notes
    return [*notes, f"no positional encoding was found: {_reason_for_no_encoding(part, rule)}"]


def _reason_for_no_encoding(part: ModelPart, rule: EncodingRule | None) -> str:
    """Return why no encoding was found: another file or code defines it, or the model has none.

    Args:
        part: The part of the configuration.
        rule: The rule of its family, which makes no encoding; None if there is none.
    """
    keys = part.keys
    # torchtune and Hydra name the code that makes the model.
    code = keys.inner_or_empty("model").word("_component_", "_target_")
    path = _path_of_text_model(keys)
    if path is not None:
        return f"{path.source} is {quoted(path.value)}, whose config.json says what it has"
    reason = "the model has none"
    if rule is None:
        reason = "no key that is read here names one"
    if code is not None:
        reason = f"{code.source} is {quoted(code.value)}, whose code says what it has"
    is_known = family_of(part.model_type, vision=part.vision) is not None
    if rule is None and part.model_type and not is_known:
        reason += f", and model_type {part.model_type[:60]!r} is unknown"
    return reason


def _path_of_text_model(keys: Keys) -> Setting[str] | None:
    """Return the name of another model instead of a `text_config`, as LLaVA's first files have it."""
    names = [name for name in TEXTS if isinstance(keys.data.get(name), str)]
    return keys.word(*names)


def _read_part(part: ModelPart, depth: int) -> ParsedEncodings:
    """Return the encodings of a part of a model, and of the parts within it.

    A multimodal file has a language model in `text_config` and a tower in `vision_config`. Its keys
    at the top are then not about layers, except in families that describe another part there
    (MusicFlamingo its audio tower). A file without parts describes its layers at the top.

    Args:
        part: The part, for example the whole file.
        depth: How many levels of parts within it are read.
    """
    inner_parts = parts_of(part) if depth else []
    has_text = any(inner.is_text for inner in inner_parts)
    family = family_of(part.model_type) or ModelFamily()
    if has_text and family.beside_text:
        results = [_beside_text(part, family.beside_text)]
        results += [_read_inner(inner, inner.label, depth - 1) for inner in inner_parts]
        return joined(results)
    results = []
    describes_layers = not inner_parts or _has_layers(part)
    if describes_layers and not has_text:
        results.append(_encodings_of_part(part))
    for inner in inner_parts:
        # The language model is what a file is about: its layer types need no name in front.
        label = "" if inner.is_text else inner.label
        results.append(_read_inner(inner, label, depth - 1))
    return joined(results)


def _beside_text(part: ModelPart, name: str) -> ParsedEncodings:
    """Return the encodings of the keys at the top, which are about another part than the language
    model.

    In MusicFlamingo they are about its audio tower.
    """
    encodings, warnings = _encodings_of_part(part)
    return ParsedEncodings([replace(encoding, part=name) for encoding in encodings], warnings)


def _has_layers(part: ModelPart) -> bool:
    """Return True unless a configuration only holds its parts, without a width and heads of its
    own.

    The class defaults count if they are those of the model itself, not of a text model within.
    """
    keys = part.keys
    if keys.defaults.model_type != plain_name(part.model_type):
        keys = replace(keys, defaults=NO_CLASS)
    return keys.resolves(*WIDTHS) and keys.resolves(*HEADS, *SIZES)


def _read_inner(part: ModelPart, label: str, depth: int) -> ParsedEncodings:
    """Return the encodings of a part within a model, and name their layer types after it.

    With the label `vision`, the tower's only encoding gets the layer type `vision`, and one that
    the tower calls `patches` becomes `vision.patches`. The language model's label may be empty, so
    that its layer types stay.
    """
    encodings, warnings = _read_part(part, depth)
    if not encodings and part.keys.any(*HEADS):
        warnings += _warnings_of_no_encoding(part)
    labelled = []
    for encoding in encodings:
        layer_type = _joined_by_dots(label, encoding.layer_type)
        part_name = encoding.part if part.is_text else _joined_by_dots(label, encoding.part)
        labelled.append(replace(encoding, layer_type=layer_type, part=part_name))
    return ParsedEncodings(labelled, [f"{part.label}: {warning}" for warning in warnings])


def _joined_by_dots(*words: str) -> str:
    return ".".join(word for word in words if word)


@dataclass(frozen=True)
class Evidence:
    """The statements of a part's keys, and of its family, about its encoding.

    Attributes:
        part: The part.
        family: Its family of rotary models, if it is known.
        rule: The rule for another encoding, if there is one.
        tables: The tables of its class in transformers.
        stated: The encoding that a key names in a word, as `position_embedding_type` does.
        is_rotary: The file has keys that only rotary models have.
    """

    part: ModelPart
    family: ModelFamily | None
    rule: EncodingRule | None
    tables: EncodingRule | None
    stated: Setting[str] | None
    is_rotary: bool

    @property
    def word(self) -> str:
        return "" if self.stated is None else self.stated.value.lower()


@dataclass(frozen=True)
class NoEncoding:
    """A part without an encoding; the warning says why, if there is a reason to report."""

    warning: str = ""


@dataclass(frozen=True)
class OtherEncoding:
    """A part whose encoding a rule makes, instead of rope."""

    rule: EncodingRule


@dataclass(frozen=True)
class RotaryEncoding:
    """A part that rotates, perhaps with tables beside it."""

    tables: EncodingRule


Decision = NoEncoding | OtherEncoding | RotaryEncoding


def _encodings_of_part(part: ModelPart) -> ParsedEncodings:
    """Return the encodings that the keys of a part itself describe, without the parts within it.

    First the keys and the model type decide which kind of encoding the part has: none, rope, or
    another one, for which there is a rule (ALiBi, a learned or sinusoidal table). Then it is read,
    with warnings about words that are unknown or contradict it.
    """
    evidence = _gather_evidence(part)
    decision = _decide_on_encoding(evidence)
    warnings = _warnings_of_unknown_word(evidence)
    if isinstance(decision, NoEncoding):
        return ParsedEncodings([], [decision.warning] if decision.warning else warnings)
    if isinstance(decision, OtherEncoding):
        rule = decision.rule
        warnings += _warnings_of_unknown_family(evidence, rule)
        warnings += _warnings_of_overruled_word(evidence, decision)
        warnings += rule.notes(part.keys)
        return ParsedEncodings(rule.encodings(part.keys), warnings)
    tables = decision.tables
    warnings += _warnings_of_unknown_family(evidence, None)
    warnings += _warnings_of_overruled_word(evidence, decision)
    warnings += tables.notes(part.keys)
    parsed = rope_encodings(part.keys, evidence.family or ModelFamily(), vision=part.vision)
    encodings = [*parsed.encodings, *tables.encodings(part.keys)]
    return ParsedEncodings(encodings, [*warnings, *parsed.warnings])


def _gather_evidence(part: ModelPart) -> Evidence:
    """Collect what speaks for each kind of encoding: the family, the class's tables, and the keys.

    A `rope_theta` is evidence of rope, except beside `position_embedding_type: "relative_key"`,
    which states another encoding. A class of transformers that is known to have tables, and no
    rope, stands in for a family that is not known.
    """
    keys = part.keys
    family = family_of(part.model_type, vision=part.vision)
    tables_of_class = non_rotary.tables_of(part.model_type)
    rule = _rule_for_other_encoding(keys, part.model_type)
    if rule is None and family is None:
        rule = tables_of_class
    stated = keys.word(*STATEMENTS)
    states_relative = _stated_word(keys).startswith("relative")
    is_rotary = _has_rotary_keys(keys, stated) and not states_relative
    return Evidence(part, family, rule, tables_of_class, stated, is_rotary)


def _has_rotary_keys(keys: Keys, stated: Setting[str] | None) -> bool:
    """Return True if a file has a key of rope, states rope in a word, or has it in attention."""
    is_stated = stated is not None and stated.value.lower() in ROTARY_WORDS
    return keys.any(*EVIDENCE) or is_stated or _attends_with_rope(keys)


def _attends_with_rope(keys: Keys) -> bool:
    """Return True if MPT's or DBRX's settings of attention have rope."""
    attention = keys.inner_or_empty("attn_config")
    return attention.any("rope_theta") or attention.data.get("rope") is True


def _decide_on_encoding(evidence: Evidence) -> Decision:
    """Return the kind of encoding that a part of a model has: rope, another one, or none.

    A rule describes another encoding than rope. Rules for ALiBi and for no encoding override rope:
    they count even if the file has a `rope_theta`, which many such files have and their code
    ignores. Other rules count only without such keys.
    """
    part = evidence.part
    if _rotates_no_channel(part.keys):
        return NoEncoding(f"{part.keys.prefix}qk_rope_head_dim is 0: there is no rope")
    rule = evidence.rule
    if rule is not None and (rule.overrides_rope or not evidence.is_rotary):
        return OtherEncoding(rule)
    if not evidence.is_rotary and not _rotates_by_default(evidence):
        return NoEncoding()
    beside = non_rotary.beside(part.model_type, vision=part.vision)
    return RotaryEncoding(beside or evidence.tables or EncodingRule())


def _rotates_no_channel(keys: Keys) -> bool:
    """Return True for latent attention without a rotary part, and without settings of rope."""
    return keys.data.get("qk_rope_head_dim") == 0 and not keys.any(*SETTINGS, *THETAS)


def _rotates_by_default(evidence: Evidence) -> bool:
    """Return True if a family is known to rotate without any key about rope.

    A tower whose family has no axes has been found by the name of the language model beside it.
    """
    if evidence.family is None:
        return False
    return evidence.family.axes > 0 or not evidence.part.vision


def _warnings_of_unknown_word(evidence: Evidence) -> list[str]:
    """Return a warning about a stated type of encoding that is not known."""
    stated = evidence.stated
    known = (*ROTARY_WORDS, *OTHER_WORDS)
    if stated is None or evidence.word in known:
        return []
    return [f"{stated.source} is {quoted(stated.value)}, which is none of {', '.join(known)}"]


def _warnings_of_unknown_family(evidence: Evidence, rule: EncodingRule | None) -> list[str]:
    """Return a warning that general rules were applied, unless the family or the rule's own row is
    known.
    """
    if evidence.family is not None:
        return []
    model_type = evidence.part.model_type
    if rule is not None and plain_name(model_type) in non_rotary.FAMILIES:
        return []
    name = f"model_type {model_type[:60]!r} is unknown" if model_type else "there is no model_type"
    return [f"{name}: read by the general rules; check layout and defaults"]


def _warnings_of_overruled_word(evidence: Evidence, decision: Decision) -> list[str]:
    """Return a warning that a word names another encoding than the one that is read."""
    stated = evidence.stated
    if stated is None:
        return []
    statement = f"{stated.source} is {quoted(stated.value)}"
    is_rotary = isinstance(decision, RotaryEncoding)
    if is_rotary and evidence.word in OTHER_WORDS:
        return [f"{statement}, but other keys ask for rope, which is what is read"]
    has_alibi = isinstance(evidence.rule, AlibiRule) and not is_rotary
    if has_alibi and evidence.word != "alibi":
        return [f"{statement}, but the model has ALiBi, which is what is read"]
    return []


def _stated_word(keys: Keys) -> str:
    """Return the word of `position_embedding_type`; `pos_emb_type` does not choose among other
    encodings than rope.
    """
    return (value_of(keys.word(*STATEMENTS[:2])) or "").lower()


def _rule_for_other_encoding(keys: Keys, model_type: str | None) -> EncodingRule | None:
    """Return the rule for an encoding other than rope; None if nothing points to one.

    A rule makes encodings of keys: ALiBi, a learned table, or none at all. ALiBi and no encoding
    are stated by flags (`alibi`, `mla_use_nope`) or by a word (`position_embedding_type: "alibi"`),
    which override the rule of the model type. Other words only count if the model type has none.
    """
    rule = non_rotary.FAMILIES.get(plain_name(model_type))
    if isinstance(rule, ChoiceRule):
        rule = rule.chosen(keys)
    word = _stated_word(keys)
    # The flags are read in any case, so that they are not reported as keys that nothing reads.
    states_alibi = _asks_for_alibi(keys, word)
    if isinstance(rule, AlibiRule):
        return rule  # The family's slopes may differ from the usual ones.
    if states_alibi:
        return AlibiRule()
    if keys.is_true("mla_use_nope") or word in ("nope", "none"):
        return EncodingRule()
    if word == "relative":
        return EncodingRule(note=non_rotary.RELATIVE_NOTE)
    return rule or _stated_rule(keys, word)


def _stated_rule(keys: Keys, word: str) -> EncodingRule | None:
    """Return the rule of `position_embedding_type` for a family that has none."""
    if word in LEARNED_WORDS and keys.any(*ROWS):
        return LearnedRule()
    if word.startswith("relative"):
        return EncodingRule(note=non_rotary.RELATIVE_NOTE)
    return None


def _asks_for_alibi(keys: Keys, word: str) -> bool:
    """Return True if a word or a flag requests ALiBi, or MosaicBERT's length of the bias,
    `alibi_starting_size`.
    """
    attention = keys.inner_or_empty("attn_config")
    flag = keys.flag("alibi", "use_alibi") or attention.flag("alibi")
    if word == "alibi" or value_of(flag):
        return True
    return keys.number("alibi_starting_size") is not None
