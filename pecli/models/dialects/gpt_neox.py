"""GPT-NeoX's own configurations (YAML), with hyphens or underscores in all names."""

from dataclasses import replace

from pecli.models.dialects.hyphens import plain_keys
from pecli.models.dialects.translation import translated_ropes
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import ModelFamily
from pecli.models.keys import Keys
from pecli.models.non_rotary import project_rules
from pecli.models.table_rules import EncodingRule, LearnedRule

#: Keys that have the same name and meaning in Hugging Face's config.json.
UNRENAMED_KEYS = ("hidden_size", "num_attention_heads", "rotary_emb_base", "rotary_pct")


def read(keys: Keys) -> ParsedEncodings:
    """Return the encodings of a GPT-NeoX training config, whose key `pos_emb` names the kind.

    The kind is rotary, none, or one that a rule reads, such as ALiBi. Without the key, GPT-NeoX adds
    a learned table.
    """
    keys, warnings = plain_keys(keys)
    rules_by_kind = project_rules("gpt-neox")
    stated_kind = keys.word_or("learned", "pos_emb")
    kind = keys.checked_word(stated_kind, *rules_by_kind, "rotary", "none")
    if kind == "rotary":
        rope = translated_ropes(keys, ModelFamily("GPT-NeoX"), unrenamed_keys=UNRENAMED_KEYS)
        return rope.with_earlier_warnings(warnings)
    if kind == "none":
        warnings.append(f"{stated_kind.source} is none: the model has no positional encoding")
        return ParsedEncodings(encodings=[], warnings=warnings)
    if "pos_emb" not in keys:
        warnings.append("pos_emb is not given: GPT-NeoX then adds a learned table")
    rule = _with_padding_rows_of_opt(rules_by_kind[kind], keys)
    return ParsedEncodings(rule.encodings(keys), warnings)


def _with_padding_rows_of_opt(rule: EncodingRule, keys: Keys) -> EncodingRule:
    """Return a rule whose learned table has more rows, if its weights come from OPT.

    OPT's table begins with 2 rows for padding, which `opt_pos_emb_offset` states.
    """
    offset = keys.whole_number("opt_pos_emb_offset", low=0)
    if offset is None or not isinstance(rule, LearnedRule):
        return rule
    return replace(rule, extra_rows=offset.value)
