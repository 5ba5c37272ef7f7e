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
    ("part", "presets_with_it"),
    [
        pytest.param(
            "Qwen/Qwen3-VL",
            "qwen3-vl-2b, qwen3-vl-4b, qwen3-vl-8b, qwen3-vl-30b-a3b, qwen3-vl-32b",
            id="a series, with the owner of its repositories",
        ),
        pytest.param(
            "minimax",
            "minimax-text-01, minimax-m1, minimax-m2, minimax-m2.5, minimax-m3",
            id="a family",
        ),
        pytest.param(
            "starcoder", "starcoder2-3b, starcoder2-7b, starcoder2-15b", id="a name without its 2"
        ),
    ],
)
def test_a_part_of_several_names_is_answered_with_all_presets_that_contain_it(
    part: str, presets_with_it: str
) -> None:
    """The names are those of pecli's presets, in the order of its list."""
    assert advice(part) == f"it could be: {presets_with_it}"


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        pytest.param("lama-3.1-8b", "llama-3.1-8b", id="a letter is missing"),
        pytest.param(
            "tiiuae/Falcon-H1-7B-Instruct", "falcon-h1-0.5b", id="the only Falcon-H1 of the presets"
        ),
        pytest.param("t5-large", "t5-base", id="another size than T5's small and base"),
        pytest.param(
            "glm-4.8", "glm-4.6", id="the later of GLM 4.5 and 4.6, which are equally near"
        ),
    ],
)
def test_an_unknown_name_is_answered_with_the_preset_of_its_family_that_is_spelled_most_alike(
    name: str, nearest: str
) -> None:
    """A family is the letters that a name begins with, such as glm. Its presets are nearer than those of
    other families, such as phi-4; difflib of Python finds the one that is spelled most alike.
    """
    assert advice(name) == f"did you mean '{nearest}'?"


def test_a_name_that_is_spelled_like_none_of_its_family_is_answered_with_the_family() -> None:
    """bert-large-uncased has three times as many letters after «bert» as bert-base, the only preset of
    the family, so that it is no misspelling of it.
    """
    assert advice("bert-large-uncased") == "it could be: bert-base"


def test_a_name_that_is_like_no_preset_gets_no_hint() -> None:
    """No preset begins with «xyzzy» or is spelled like it."""
    assert advice("xyzzy") == ""


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
