"""Keys about positions that nothing reads are reported; keys that are read, true or about other
things are not.

A key is about positions by its name (rope, rotary, pos, …). «wibble» is a word of no project. The
classes of transformers decide which keys are read; LLAMA_CONFIG is a Llama with 8,192 positions.
"""

import pytest

from pecli.models.find import load_config
from tests.models.configs import (
    LINEAR_SCALING,
    LLAMA_CONFIG,
    LONGROPE_SCALING,
    MAXTEXT_CONFIG,
    SMALL_CONFIG,
    Config,
)


@pytest.mark.parametrize(
    ("count", "warnings"),
    [
        pytest.param(16, [], id="16 keys"),
        pytest.param(17, ["nothing here reads 1 more key named like positions"], id="17 keys"),
        pytest.param(18, ["nothing here reads 2 more keys named like positions"], id="18 keys"),
    ],
)
def test_sixteen_unread_keys_are_named_and_the_rest_is_counted(
    count: int, warnings: list[str]
) -> None:
    """A limit keeps a config of thousands of unknown keys from filling the screen. `count` is the
    number of unknown keys.
    """
    unknown = {f"rope_wibble_{k}": 1 for k in range(count)}
    model = load_config({**LLAMA_CONFIG, **unknown})

    assert [warning for warning in model.warnings if "more key" in warning] == warnings


@pytest.mark.parametrize(
    ("keys", "warnings"),
    [
        pytest.param({"rope_scaling": {**LINEAR_SCALING, "_comment": "x"}}, (), id="a comment"),
        pytest.param(
            {"rope_scaling": {**LINEAR_SCALING, "comment": "x"}},
            ("rope_scaling has comment ('x'), which nothing here reads",),
            id="a comment without an underscore",
        ),
        pytest.param(
            {"rope_scaling": {**LINEAR_SCALING, "short_mscale": 1.25}},
            ("rope_scaling has short_mscale (1.25), which nothing here reads",),
            id="a key of longrope",
        ),
        pytest.param(
            {"rope_scaling": {**LINEAR_SCALING, "long_mscale": 1.25}},
            ("rope_scaling has long_mscale (1.25), which nothing here reads",),
            id="another key of longrope",
        ),
        pytest.param(
            {"original_seq_len": 4096},
            ("it has original_seq_len (4096), which nothing here reads",),
            id="a key of DeepSeek's own code",
        ),
        pytest.param(
            {"rot_dim": 64},
            ("rot_dim is 64, and nothing here reads it: did you mean 'rotary_dim'?",),
            id="a misspelled key",
        ),
        pytest.param(
            {"attention": {"rope_theta": 5e5}},
            ("attention has rope_theta (500000.0), which nothing here reads",),
            id="a key in another object",
        ),
        pytest.param(
            {"original_max_position_embeddings": 4096},
            ("it has original_max_position_embeddings (4096), which nothing here reads",),
            id="an original length without a scaling",
        ),
        pytest.param(
            {"n_positions": 64},
            ("it has n_positions (64), which nothing here reads",),
            id="another length",
        ),
        pytest.param({"n_positions": 8192}, (), id="the same length"),
        pytest.param(
            {"rotary_dim": 8},
            ("rotary_dim is 8, which the code of LlamaConfig ignores",),
            id="a key of other classes",
        ),
        pytest.param({"use_rotary_embeddings": True}, (), id="a switch"),
    ],
)
def test_an_unread_key_of_a_llama_is_reported_unless_it_changes_nothing(
    keys: Config, warnings: tuple[str, ...]
) -> None:
    """`keys` are added to a Llama with 8192 positions, and `warnings` are all warnings. What changes
    nothing has none: comments, a length of 8192, and a switch for what the class does anyway. Whether
    a class reads a key was read from transformers.
    """
    assert load_config({**LLAMA_CONFIG, **keys}).warnings == warnings


def test_an_unknown_key_about_rope_that_is_true_is_reported() -> None:
    """No class reads rope_embedding_theta. A key that is true may be a switch for what the class does
    anyway, but only known switches are passed over.
    """
    assert len(load_config({**LLAMA_CONFIG, "rope_embedding_theta": True}).warnings) == 1


def test_an_unknown_object_about_positions_is_reported_as_a_whole() -> None:
    """No project has rope_foo, and what its values mean is unknown, so all are shown. rope_pct is the
    known key that is spelled most alike. The first warning is about the missing model_type.
    """
    expected = "rope_foo is {'a': 1.5}, and nothing here reads it: did you mean 'rope_pct'?"
    assert load_config({**SMALL_CONFIG, "rope_foo": {"a": 1.5}}).warnings[1] == expected


def test_the_warning_about_a_nested_key_has_its_full_path_even_if_keys_contain_dots() -> None:
    """The path joins keys by dots, so that users find the key in the file. rope_thetta is a misspelled
    rope_theta, and the warning suggests that.
    """
    config = {**SMALL_CONFIG, "a.b.c.d.e.f.g.h": {"x": {"rope_thetta": 3}}}
    (warning,) = [text for text in load_config(config).warnings if "rope_thetta" in text]
    assert warning == (
        "a.b.c.d.e.f.g.h.x.rope_thetta is 3, and nothing here reads it: did you mean 'rope_theta'?"
    )


def test_a_known_key_that_has_no_effect_here_gets_no_hint_at_its_own_name() -> None:
    """Only Phi-3.5-MoE reads short_mscale, beside long_mscale. «did you mean short_mscale» would be of
    no use: the key is spelled rightly.
    """
    config = {**SMALL_CONFIG, "rope_scaling": {**LONGROPE_SCALING, "short_mscale": 1.25}}
    (warning,) = [text for text in load_config(config).warnings if "short_mscale" in text]
    assert warning == "rope_scaling has short_mscale (1.25), which nothing here reads"


def test_an_mscale_of_maxtext_is_not_read_without_latent_attention() -> None:
    """By its source, MaxText reads mscale only in its attention with latent keys."""
    config = {**MAXTEXT_CONFIG, "rope_type": "yarn", "rope_factor": 40, "mscale": 1.0}
    assert load_config(config).warnings == ("it has mscale (1.0), which nothing here reads",)


@pytest.mark.parametrize("key", ["position_embedding_type", "pos_emb_type"])
@pytest.mark.parametrize("word", ["absolute", "alibi"])
def test_a_type_of_positions_that_llama_ignores_is_reported(key: str, word: str) -> None:
    """Llama's class in transformers always rotates, and reads neither key."""
    expected = f"{key} is {word!r}, which the code of LlamaConfig ignores"
    assert load_config({**LLAMA_CONFIG, key: word}).warnings == (expected,)
