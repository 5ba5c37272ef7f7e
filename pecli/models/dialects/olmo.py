"""OLMo's own configurations (config.yaml or JSON); a training run's has the same in `model`."""

from pecli.models.dialects.translation import translated_ropes, with_defaults
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import ModelFamily
from pecli.models.keys import Keys
from pecli.models.table_rules import AlibiRule, LearnedRule

#: Keys that have the same name and meaning in Hugging Face's config.json.
UNRENAMED_KEYS = ("d_model", "n_heads", "rope_theta")


def read(keys: Keys) -> ParsedEncodings:
    """Return the encoding of a config of OLMo's own code, which has a switch for each kind.

    They are `rope: true` and `alibi: true`; with neither, the code adds a learned table.
    """
    if "d_model" not in keys:
        keys = keys.inner_or_self("model")
    if keys.is_true("rope"):
        return translated_ropes(keys, ModelFamily("OLMo's code"), unrenamed_keys=UNRENAMED_KEYS)
    if keys.is_true("alibi"):
        return ParsedEncodings(AlibiRule(rule="naive").encodings(keys), [])
    warning = "neither rope nor alibi is true: OLMo's code then adds a learned table"
    rule = LearnedRule(rows=("max_sequence_length",), dim=("d_model",))
    return ParsedEncodings(rule.encodings(with_defaults(keys, "OLMo's ModelConfig")), [warning])
