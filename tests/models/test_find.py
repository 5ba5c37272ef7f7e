"""How long a context a model says it takes."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from pecli.models.find import reach


@pytest.mark.parametrize(
    ("name", "expected"),
    [("llama-3.1-8b", 131072), ("deepseek-ai/DeepSeek-V3", 163840), ("qwen2.5-7b", 32768), ("gpt-oss-20b", 131072)],
)
def test_presets(name: str, expected: int) -> None:
    assert reach(None, name).context == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"n_positions": 1024}, 1024),
        ({"text_config": {"max_position_embeddings": 4096}}, 4096),
        ({"max_position_embeddings": "long"}, None),
        ({"dim": 4096, "n_layers": 32}, None),
    ],
)
def test_files_and_folders(tmp_path: Path, config: dict, expected: int | None) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert reach(str(tmp_path / "config.json"), None).context == expected
    assert reach(str(tmp_path), None).context == expected


def test_gguf(tmp_path: Path) -> None:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    values = text("general.architecture") + struct.pack("<I", 8) + text("llama")
    values += text("llama.context_length") + struct.pack("<II", 4, 8192)
    (tmp_path / "x.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + values)
    assert reach(str(tmp_path / "x.gguf"), None).context == 8192
