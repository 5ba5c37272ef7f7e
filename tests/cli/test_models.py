"""`pecli models`: the presets."""

from __future__ import annotations


def test_one_object_names_all_presets_and_their_sources(pecli_cli) -> None:
    outcome = pecli_cli("models", "--json")
    assert outcome.code == 0
    models = outcome.json["models"]
    by_name = {model["name"]: model for model in models}
    assert by_name["llama-3.1-8b"]["repository"] == "meta-llama/Llama-3.1-8B-Instruct"
    assert by_name["llama-3.1-8b"]["context"] == 131072
    assert "meta-llama/Llama-3.1-8B" in by_name["llama-3.1-8b"]["aliases"]
    assert by_name["gpt2"]["encodings"][0]["parameters"]["max_len"] == 1024
    assert all(model["source"] for model in models)
    families = [model["family"] for model in models]
    assert families == [name for family in dict.fromkeys(families) for name in [family] * families.count(family)]


def test_a_person_sees_a_table_by_family(pecli_cli, monkeypatch) -> None:
    outcome = pecli_cli("models")
    assert (outcome.code, "…" in outcome.out) == (0, False)
    (line,) = (line.split() for line in outcome.out.splitlines() if line.split()[0] == "llama-3.1-8b")
    assert line[1:7] == ["131,072", "rope", "128,", "base", "500000", "llama3"]
    assert line[7:9] == ["Llama", "meta-llama/Llama-3.1-8B-Instruct"]
    assert line[9:], "where it was read"
    monkeypatch.setattr("pecli.views.screen.is_terminal", lambda: True)
    shown = pecli_cli("models").out
    assert shown.index("Llama ") < shown.index("llama-3.1-8b") < shown.index("Qwen ") < shown.index("qwen3-8b")


def test_words_choose_among_them(pecli_cli) -> None:
    found = pecli_cli("models", "Qwen", "mrope", "--json")
    assert found.code == 1
    names = [model["name"] for model in pecli_cli("models", "alibi", "--json").json["models"]]
    assert names == ["bloom", "bloom-560m", "mpt-7b"]
    assert [line.split()[0] for line in pecli_cli("models", "phi", "longrope").out.splitlines()[1:]] == [
        "phi-3-mini-128k-2024-04",
        "phi-4-mini",
        "phi-3.5-mini",
    ]


def test_other_schemes_take_their_part_of_a_model(pecli_cli, tmp_path) -> None:
    def made(*words: str) -> dict:
        return pecli_cli(*words, "--json").json["parameters"]

    assert made("alibi", "--model", "mpt-7b", "--seq-len", "8")["form"] == "key-last"
    assert made("sinusoidal", "--model", "whisper-large-v3")["dim"] == 1280
    assert made("learned-init", "--model", "gpt2", "--max-len", "16")["max_len"] == 16
    assert made("relative", "--model", "t5-small", "--layer-type", "decoder")["causal"] is True
