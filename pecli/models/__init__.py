"""Models: config.json, params.json, GGUF headers and presets, read as positional encodings."""
