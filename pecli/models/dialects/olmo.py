"""OLMo's own configurations (config.yaml or JSON); a training run's has the same in `model`."""

from pecli.models.dialects.translation import ropes_by_hugging_face_rules, with_defaults
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import ModelFamily
from pecli.models.keys import Keys
from pecli.models.table_rules import AlibiRule, LearnedRule

#: Keys with the same name and meaning in Hugging Face's config.json.
NAMES_SHARED_WITH_HUGGING_FACE = ("d_model", "n_heads", "rope_theta")


def read(keys: Keys) -> ParsedEncodings:
    """Return the encoding of a config of OLMo's own code: rope, ALiBi or a learned table.

    The file states `rope: true` or `alibi: true`. With neither, the code adds a learned table.
    """
    if "d_model" not in keys:
        keys = keys.inner_or_self("model")  # A training run has the keys in an object `model`.
    if keys.is_true("rope"):
        return ropes_by_hugging_face_rules(
            keys, ModelFamily("OLMo's code"), shared_names=NAMES_SHARED_WITH_HUGGING_FACE
        )
    if keys.is_true("alibi"):
        alibi = AlibiRule(rule="naive").encodings(keys)
        return ParsedEncodings(encodings=alibi, warnings=[])
    keys_and_defaults = with_defaults(keys, "OLMo's ModelConfig")
    # The table has `max_sequence_length` rows of `d_model` numbers.
    rule = LearnedRule(rows=("max_sequence_length",), dim=("d_model",))
    table = rule.encodings(keys_and_defaults)
    warning = "neither rope nor alibi is true: OLMo's code then adds a learned table"
    return ParsedEncodings(encodings=table, warnings=[warning])
