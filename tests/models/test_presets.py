"""Presets are found by many names; unknown names are answered with a hint.

A preset is a model that comes with pecli, such as llama-3.1-8b, with its repository of Hugging
Face. Hints name presets that are spelled alike, or several of the same beginning; the names were
chosen by hand among the presets.
"""

import pytest

from pecli.cli.options import preset_names
from pecli.models.find import load_model
from pecli.models.presets import advice, stands_for


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("lama-3.1-8b", "did you mean 'llama-3.1-8b'?"),
        (
            "Qwen/Qwen3-VL",
            "it could be: qwen3-vl-2b, qwen3-vl-4b, qwen3-vl-8b, qwen3-vl-30b-a3b, qwen3-vl-32b",
        ),
        ("tiiuae/Falcon-H1-7B-Instruct", "did you mean 'falcon-h1-0.5b'?"),
        (
            "minimax",
            "it could be: minimax-text-01, minimax-m1, minimax-m2, minimax-m2.5, minimax-m3",
        ),
        ("starcoder", "it could be: starcoder2-3b, starcoder2-7b, starcoder2-15b"),
        ("glm-4.8", "did you mean 'glm-4.6'?"),
        ("bert-large-uncased", "it could be: bert-base"),
        ("t5-large", "did you mean 't5-base'?"),
        ("xyzzy", ""),
    ],
)
def test_an_unknown_name_is_answered_with_similar_presets(name: str, hint: str) -> None:
    """A misspelled name gets one suggestion, the name of a series several; nonsense gets none."""
    assert advice(name) == hint


@pytest.mark.parametrize(
    ("start", "names"),
    [
        pytest.param(
            "llama-3.1", ["llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b"], id="a series"
        ),
        pytest.param(
            "StarCoder",
            ["starcoder2-3b", "starcoder2-7b", "starcoder2-15b"],
            id="capital letters",
        ),
        pytest.param("nothing-", [], id="no preset"),
    ],
)
def test_the_shell_completes_names_of_presets(start: str, names: list[str]) -> None:
    """`preset_names` returns all presets whose names begin with what was typed, in the order of
    pecli's list, whether letters are capital or not.
    """
    assert preset_names(start) == names


def test_the_shell_completes_names_of_repositories_after_a_slash() -> None:
    """A slash shows that a repository is meant, in either case."""
    assert "Qwen/Qwen3-8B" in preset_names("qwen/")


@pytest.mark.parametrize(
    ("name", "preset"),
    [
        pytest.param("mistral", "mistral-7b-v0.3", id="a short name"),
        pytest.param("mistralai/Mistral-7B-v0.3", "", id="a full name"),
        pytest.param("nothing", "", id="no preset"),
    ],
)
def test_a_short_name_stands_for_a_preset(name: str, preset: str) -> None:
    """`stands_for` returns the preset that a short name means; it is empty for a full name, and for
    one that means no preset.
    """
    assert stands_for(name) == preset


def test_the_preset_of_llama_3_1_has_no_warning_about_a_lost_scaling() -> None:
    """pecli warns about a config that looks like Llama 3.1's without its rope_scaling; the preset has
    the scaling.
    """
    assert load_model("llama-3.1-8b").warnings == ()
