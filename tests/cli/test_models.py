"""`pecli models`: the presets."""

from __future__ import annotations

import json


def test_a_line_a_preset_with_its_source(pecli_cli) -> None:
    outcome = pecli_cli("models", "--json")
    assert outcome.code == 0
    lines = [json.loads(line) for line in outcome.out.splitlines()]
    by_name = {line["name"]: line for line in lines}
    assert by_name["llama-3.1-8b"]["repository"] == "meta-llama/Llama-3.1-8B-Instruct"
    assert by_name["gpt2"]["encodings"][0]["parameters"]["max_len"] == 1024
    assert all(line["source"] for line in lines)


def test_a_person_sees_a_table(pecli_cli) -> None:
    outcome = pecli_cli("models")
    assert outcome.code == 0
    (line,) = (line.split() for line in outcome.out.splitlines() if line.split()[0] == "llama-3.1-8b")
    assert line[1:7] == ["rope", "128,", "base", "500000", "llama3", "meta-llama/Llama-3.1-8B-Instruct"]
    assert line[7:], "where it was read"
    assert "…" not in outcome.out
