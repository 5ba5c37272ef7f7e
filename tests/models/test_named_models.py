"""Names of models: their labels in reports, which words can name a repository, and names that
nothing has.

A name comes with the option that it was given by: --model for a preset or a repository, --config
for a file. Repositories have Hugging Face's form OWNER/NAME@REVISION.
"""

import pytest

from pecli.errors import FileError, ParameterError
from pecli.models.encoding import ModelEncodings
from pecli.models.find import NamedModel, load_model
from pecli.models.hub_cache import is_repository

NOTHING = ModelEncodings("nothing", None, ())


@pytest.mark.parametrize(
    ("name", "option", "label"),
    [
        pytest.param("mistral", "--model", "mistral-7b-v0.3", id="short for a preset"),
        pytest.param("mistral", "--config", "mistral", id="a file of that name"),
        pytest.param("llama-3.1-8b", "--model", "llama-3.1-8b", id="a preset"),
        pytest.param("models/tiny/config.json", "--config", "tiny", id="config.json in a folder"),
        pytest.param("models/tiny/", "--config", "tiny", id="a folder"),
        pytest.param("models/tiny/a.gguf", "--config", "a.gguf", id="another file in a folder"),
        pytest.param("config.json", "--config", "config.json", id="config.json alone"),
    ],
)
def test_a_report_calls_a_model_by_its_preset_its_folder_or_its_file(
    name: str, option: str, label: str
) -> None:
    """`option` is the one that `name` was the value of. config.json is called by its folder, if the
    path has one; «mistral» is short for a preset only after --model.
    """
    assert NamedModel(name, option, NOTHING).label == label


@pytest.mark.parametrize(
    ("name", "can_be_one"),
    [
        ("some-lab/Tiny-1B", True),
        ("some-lab/Tiny-1B@v1.0", True),
        ("some-lab/Tiny..1B", False),
        ("some lab", False),
    ],
    ids=["owner/name", "owner/name@revision", "two dots in a row", "a blank"],
)
def test_only_words_in_hugging_faces_form_can_name_a_repository(
    name: str, can_be_one: bool
) -> None:
    """The form is OWNER/NAME, and @REVISION may follow. Hugging Face allows letters, digits and the
    signs «-», «_» and «.» in each part, but neither «..» nor blanks.
    """
    assert is_repository(name) is can_be_one


@pytest.mark.parametrize("name", ["a/b/c", "wibble.json", "~wibble", ""])
def test_a_name_that_looks_like_a_path_is_a_missing_file(name: str) -> None:
    """More than one slash, a suffix, ~, or nothing at all: the error is about a file (exit code 3)."""
    with pytest.raises(FileError):
        load_model(name)


@pytest.mark.parametrize("name", ["wibble", "some/wibble"])
def test_an_unknown_name_in_the_form_of_a_preset_or_repository_is_a_missing_model(
    name: str,
) -> None:
    """The error is about the value of --model (ParameterError, exit code 2), not about a file."""
    with pytest.raises(ParameterError):
        load_model(name)
