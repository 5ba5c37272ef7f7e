"""Names of configuration keys, by meaning. Of several names, the first one that a configuration has
counts.
"""

from pecli.engine.scalings import PARAMETERS
from pecli.models.data import synonyms

#: Objects that hold a language model within a larger one.
TEXTS = synonyms("text_model")

THETAS = synonyms("theta")
LOCAL_THETAS = synonyms("local_theta")
PARTIALS = synonyms("partial")
PARTIAL = PARTIALS[0]
#: Objects that hold rotary settings; `rope_scaling` is the older name.
SETTINGS = ("rope_parameters", "rope_scaling")
#: Keys that only models with rotary encodings have.
ROTARY_KEYS = (
    *THETAS,
    *LOCAL_THETAS,
    *PARTIALS,
    *SETTINGS,
    "rope_ratio",
    "rotary_dim",
    "qk_rope_head_dim",
)

LENGTH = "max_position_embeddings"
ORIGINAL = "original_max_position_embeddings"
LENGTHS = synonyms("length")

MROPE = ("mrope_section", "xdrope_section")
SHORT_MSCALE = "short_mscale"
LONG_MSCALE = "long_mscale"
_ROTARY_SETTINGS = (
    "rope_type",
    "type",
    "rope_theta",
    "factor",
    "alpha",
    "mrope_interleaved",
    "llama_4_scaling_beta",
)
#: Keys that rotary settings may hold beside the objects of layer types; they then apply to all of
#: them.
SHARED = frozenset((*_ROTARY_SETTINGS, *PARTIALS, *MROPE, SHORT_MSCALE, LONG_MSCALE, *PARAMETERS))

SIZES = synonyms("head_size")
WIDTHS = synonyms("width")
HEAD_COUNT_KEYS = synonyms("heads")
FULL = "full_attention"
SLIDING = "sliding_attention"
#: Keys for the width of a head in layers of one type.
SIZES_OF_LAYERS = {FULL: "global_head_dim", SLIDING: "swa_head_dim"}
