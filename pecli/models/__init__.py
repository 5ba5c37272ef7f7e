"""What models ship: config.json, params.json, GGUF headers and presets, read as positional encodings."""
