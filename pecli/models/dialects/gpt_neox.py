"""GPT-NeoX's own configurations (YAML), with hyphens or underscores in all names."""

from dataclasses import replace

from pecli.models.dialects.hyphens import plain_keys
from pecli.models.dialects.translation import translated_ropes
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import ModelFamily
from pecli.models.keys import Keys, Setting
from pecli.models.non_rotary import project_rules
from pecli.models.table_rules import LearnedRule

READS = ("hidden_size", "num_attention_heads", "rotary_emb_base", "rotary_pct")


def read(keys: Keys) -> ParsedEncodings:
    """Return the encodings of a GPT-NeoX training config, whose `pos_emb` names the kind.

    Without the key, GPT-NeoX adds a learned table.
    """
    keys, warnings = plain_keys(keys)
    rules = project_rules("gpt-neox")
    word = keys.word("pos_emb") or Setting("learned", "default of GPT-NeoX")
    kind = keys.known_kind(word, *rules, "rotary", "none")
    if kind == "rotary":
        parsed = translated_ropes(keys, ModelFamily("GPT-NeoX"), reads=READS)
        return parsed.after(warnings)
    if kind == "none":
        return ParsedEncodings(
            [], [*warnings, f"{word.source} is none: the model has no positional encoding"]
        )
    if "pos_emb" not in keys:
        warnings.append("pos_emb is not given: GPT-NeoX then adds a learned table")
    rule = rules[kind]
    offset = keys.whole("opt_pos_emb_offset", low=0)
    if offset is not None and isinstance(rule, LearnedRule):
        # Weights that come from OPT begin with rows for padding.
        rule = replace(rule, more=offset.value)
    return ParsedEncodings(rule.encodings(keys), warnings)
