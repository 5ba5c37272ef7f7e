"""Names of the tensors of positional encodings in checkpoints and dumps, by scheme and role.

A longer name may end in one of these words: `rope_cos` is a `cos`.
"""

from collections.abc import Mapping

RoleNames = Mapping[str, tuple[str, ...]]

ADDED_ROWS = (
    "sin_cos",
    "sincos",
    "wpe",
    "pe",
    "embed_positions",
    "position_embeddings",
    "position_embedding",
    "positional_embeddings",
    "positional_embedding",
    "pos_embedding",
    "pos_embeddings",
    "pos_embed",
    "pos_emb",
    "position_emb",
    "positions_embed",
    "positional_encoding",
    "positional_encodings",
    "position_encoding",
    "pos_encoding",
    "pos_enc",
)
"""Names of tables whose rows are added to the input."""

_BY_SCHEME: Mapping[str, RoleNames] = {
    "rope": {
        "both": (
            "cos_sin",
            "cos_sin_cache",
            "cos_sin_cached",
            "cos_sin_table",
            "sin_cos_cache",
            "sin_cos_cached",
            "sin_cos_table",
            "freqs_cis",
            "freq_cis",
            "freqs_complex",
            "rope_cache",
            "rotary_cache",
            "rotary_table",
        ),
        "inv_freq": ("inv_freq", "inv_freqs", "inverse_frequencies"),
        "cos": (
            "cos",
            "cosine",
            "cosines",
            "cos_cached",
            "cos_cache",
            "cos_table",
            "cos_emb",
            "cos_freqs",
        ),
        "sin": (
            "sin",
            "sine",
            "sines",
            "sin_cached",
            "sin_cache",
            "sin_table",
            "sin_emb",
            "sin_freqs",
        ),
        "rows": ADDED_ROWS,  # Some projects keep rotary tables under such names.
    },
    "alibi": {
        "slopes": ("slopes", "alibi_slopes", "slope"),
        "bias": ("alibi", "alibi_bias", "attn_bias"),
    },
    "relative": {
        "index": (
            "relative_position_index",
            "relative_position_buckets",
            "relative_position_bucket",
            "rel_pos_index",
        ),
        "bias_rows": (
            "relative_attention_bias",
            "relative_position_bias_table",
            "relative_bias_table",
        ),
    },
}


def checkpoint_names(scheme: str) -> RoleNames:
    """Return the names of a scheme's tensors by role; by default it has rows that are added.

    >>> checkpoint_names("alibi")["slopes"]
    ('slopes', 'alibi_slopes', 'slope')
    """
    return _BY_SCHEME.get(scheme, {"rows": ADDED_ROWS})
