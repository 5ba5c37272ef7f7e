"""GPT-NeoX's own configurations (YAML), with hyphens or underscores in all names."""

from dataclasses import replace

from pecli.models.dialects.hyphens import plain_keys
from pecli.models.dialects.translation import ropes_by_hugging_face_rules
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import ModelFamily
from pecli.models.keys import Keys
from pecli.models.non_rotary import project_rules
from pecli.models.table_rules import EncodingRule, LearnedRule

#: Keys with the same name and meaning in Hugging Face's config.json.
NAMES_SHARED_WITH_HUGGING_FACE = (
    "hidden_size",
    "num_attention_heads",
    "rotary_emb_base",
    "rotary_pct",
)


def read(keys: Keys) -> ParsedEncodings:
    """Return the encodings of a GPT-NeoX training config, whose key `pos_emb` names the kind.

    The kind is rotary, none, or one that a rule reads, such as ALiBi. Without the key, GPT-NeoX adds
    a learned table.
    """
    keys = plain_keys(keys)
    warnings = []
    rules_by_kind = project_rules("gpt-neox")
    kind = keys.word_or("learned", "pos_emb")
    keys.require_one_of(kind, *rules_by_kind, "rotary", "none")
    if kind.value == "rotary":
        return ropes_by_hugging_face_rules(
            keys, ModelFamily("GPT-NeoX"), shared_names=NAMES_SHARED_WITH_HUGGING_FACE
        )
    if kind.value == "none":
        warning = f"{kind.source} is none: the model has no positional encoding"
        return ParsedEncodings(encodings=[], warnings=[warning])
    if "pos_emb" not in keys:
        warnings.append("pos_emb is not given: GPT-NeoX then adds a learned table")
    rule = _with_padding_rows_of_opt(rules_by_kind[kind.value], keys)
    return ParsedEncodings(rule.encodings(keys), warnings)


def _with_padding_rows_of_opt(rule: EncodingRule, keys: Keys) -> EncodingRule:
    """Return a rule whose learned table has more rows, if its weights come from OPT.

    OPT's table begins with 2 rows for padding, which `opt_pos_emb_offset` states.
    """
    offset = keys.whole_number("opt_pos_emb_offset", low=0)
    if offset is None or not isinstance(rule, LearnedRule):
        return rule
    return replace(rule, extra_rows=offset.value)
