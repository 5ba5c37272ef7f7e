"""`pecli models`: the presets."""

from __future__ import annotations


def test_one_object_names_all_presets_and_their_sources(pecli_cli) -> None:
    outcome = pecli_cli("models", "--json")
    assert outcome.code == 0
    models = outcome.json["models"]
    by_name = {model["name"]: model for model in models}
    assert by_name["llama-3.1-8b"]["repository"] == "meta-llama/Llama-3.1-8B-Instruct"
    assert by_name["gpt2"]["encodings"][0]["parameters"]["max_len"] == 1024
    assert all(model["source"] for model in models)


def test_a_person_sees_a_table(pecli_cli) -> None:
    outcome = pecli_cli("models")
    assert outcome.code == 0
    (line,) = (line.split() for line in outcome.out.splitlines() if line.split()[0] == "llama-3.1-8b")
    assert line[1:7] == ["rope", "128,", "base", "500000", "llama3", "meta-llama/Llama-3.1-8B-Instruct"]
    assert line[7:], "where it was read"
    assert "…" not in outcome.out
