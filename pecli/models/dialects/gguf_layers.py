"""Layers that llama.cpp leaves unrotated: its code has them, and few keys of a file state them."""

from pecli.models.keys import Keys, Setting, Settings, as_whole, value_of

EVERY_FOURTH = frozenset({"afmoe", "llama4", "smollm3"})
"""Architectures whose layers 3, 7, 11, … are not rotated."""

FULL_LAYERS = frozenset(
    {"cohere2", "cohere2moe", "exaone-moe", "exaone4", "muse-glimmer", "smallthinker"}
)
"""Architectures whose layers with full attention are not rotated."""

FULL_FIRST = frozenset({"cohere2moe", "smallthinker"})
"""Of these, the ones whose first of every so many layers has full attention; in others it is the last."""

PATTERN = "attention.sliding_window_pattern"
"""The key of a period, or of a flag per layer that is true if its attention slides."""

USUAL_PERIOD = 4
"""Layers up to the next one with full attention, if the key is missing."""

LAYERS_OF_EXAONE_4_32B = 64
"""Layers of EXAONE 4.0 32B; the smaller model has no sliding window, and rotates all layers."""

MAX_LAYERS = 4096
"""Layers that are listed; no model has as many."""


def unrotated_layers(keys: Keys, architecture: str) -> Settings:
    """Return the layers that llama.cpp does not rotate, by Hugging Face's names; empty if it rotates all.

    Args:
        keys: The keys of a file, without the architecture's prefix.
        architecture: `general.architecture`.
    """
    if architecture not in EVERY_FOURTH | FULL_LAYERS:
        return {}
    rotates = _rotated_layers(keys, architecture)
    if all(rotates):
        return {}
    source = f"the pattern of llama.cpp's {architecture}"
    # In Hugging Face's configurations, a 0 in `no_rope_layers` stands for a layer without rope.
    numbers = [int(is_rotated) for is_rotated in rotates]
    settings: dict[str, Setting[object]] = {"no_rope_layers": Setting(numbers, source)}
    if architecture == "llama4":
        # llama.cpp has Llama 4's temperature of queries without rope as constants.
        settings["attn_temperature_tuning"] = Setting(True, source)
        settings["attn_scale"] = Setting(0.1, source)
        settings["floor_scale"] = Setting(8192, source)
    return settings


def _rotated_layers(keys: Keys, architecture: str) -> list[bool]:
    """Return for each layer whether llama.cpp rotates it, by the pattern of the architecture.

    Llama 4 and SmolLM3 leave every fourth layer unrotated. Others leave the layers with full
    attention unrotated, and rotate those with a sliding window: of Cohere 2's layers, three of
    four.
    """
    layer_count = _layer_count(keys)
    if _rotates_all_layers(keys, architecture, layer_count):
        return [True] * layer_count
    if architecture in EVERY_FOURTH:
        return [(layer + 1) % 4 != 0 for layer in range(layer_count)]
    rotates = _sliding_layers(keys, architecture, layer_count)
    if architecture == "cohere2moe":
        # Its first layers, which have no experts, rotate although their attention is full.
        dense_count = min(_count(keys, "leading_dense_block_count"), layer_count)
        return [True] * dense_count + rotates[dense_count:]
    return rotates


def _rotates_all_layers(keys: Keys, architecture: str, layer_count: int) -> bool:
    """Return True for models that rotate all layers although others of their architecture do not.

    They have no sliding window: then llama.cpp rotates layers with full attention as well.
    """
    window = keys.data.get("attention.sliding_window")
    match architecture:
        case "llama4":
            return window == 0  # If the key is missing, llama.cpp has a window of its own.
        case "exaone4":
            return layer_count != LAYERS_OF_EXAONE_4_32B  # Only this model has a window.
        case "smallthinker":
            return not window
    return False


def _layer_count(keys: Keys) -> int:
    """Return the number of layers without those that predict further tokens."""
    layers = _count(keys, "block_count") - _count(keys, "nextn_predict_layers")
    return min(max(0, layers), MAX_LAYERS)


def _count(keys: Keys, name: str) -> int:
    """Return a whole number of a file, 0 if it is absent."""
    return value_of(keys.whole_number(name, low=0)) or 0


def _sliding_layers(keys: Keys, architecture: str, count: int) -> list[bool]:
    """Return for each layer whether its attention slides: by a flag per layer, or by a period.

    A period of 4 means that three layers slide and the last of four does not; or the first, if the
    architecture begins with full attention.
    """
    keys.mark_as_read(PATTERN)
    pattern = keys.data.get(PATTERN)
    if isinstance(pattern, list) and len(pattern) >= count:
        return [bool(flag) for flag in pattern[:count]]
    period = as_whole(pattern) or USUAL_PERIOD
    place_of_full = 0 if architecture in FULL_FIRST else period - 1
    return [layer % period != place_of_full for layer in range(count)]
