"""Settings for a longer context: method, factor, and the keys and flags that each project needs.

Expected frequencies are those that transformers computed (data/extended.npz), llama.cpp's formulas
in NumPy, or the method's formula: a context of M positions is stretched to L by the factor L / M;
NTK multiplies the base by factor^(d / (d − 2)). Expected factors and original lengths are those of
the makers' model cards. LLAMA_OF_64_POSITIONS has 8 rotary pairs and base 10000.
"""

import json
from collections import defaultdict
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text

import pecli
from pecli.checks.extension import Extension
from pecli.errors import ParameterError
from pecli.models.encoding import Encoding
from pecli.models.presets import presets
from pecli.views.drift_pictures import extension_figure
from tests.checks.small_models import CONFIG
from tests.checks.waves import LLAMA3

MODELS = (
    "llama-2-7b",
    "mistral-7b-v0.3",
    "qwen2.5-7b",
    "qwen3-8b",
    "llama-3-8b",
    "gemma-2-9b",
    "olmo-2-7b",
    "tinyllama-1.1b",
    "smollm2-1.7b",
    "llama-3.1-8b",
    "gpt-neox-20b",
    "gpt-oss-20b",
    "deepseek-v3",
)
MODEL_WITHOUT_ROPE_KEYS = {
    "model_type": "llava",
    "text_config": {"model_type": "llama", "max_position_embeddings": 4096},
}
"""A configuration without any base."""
NESTED = (
    "bare",
    "qwen3-vl-2b",
    "devstral-small-2-24b",
    "qwen2.5-vl-7b",
    "gemma-3-4b",
    "ministral-3-3b",
    "voxtral-mini-3b",
)
"""Models whose settings are in a part of the configuration."""
LENGTH = 262144
EXTENDED_BY_TRANSFORMERS = np.load(Path(__file__).parent / "data" / "extended.npz")


@pytest.fixture
def without_runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out runtimes, whose tables take seconds."""
    nothing = SimpleNamespace(layers=defaultdict(tuple))
    monkeypatch.setattr("pecli.checks.extend.runtimes", lambda model, length: nothing)


def extension_to_262144(name: str, method: str) -> Extension:
    """Return an extension from the context of the model's config.json, as extended.npz has it."""
    # Qwen3's card has a shorter context, 32768, from which pecli would stretch by YaRN.
    original = 40960 if name == "qwen3-8b" and method == "yarn" else None
    return pecli.extend(name, 262144, method, original_len=original)


def assert_encodes_as_transformers(encoding: Encoding, name: str, method: str) -> None:
    """Assert that frequencies and attention factor are those of transformers 5.22.2.

    extended.npz holds inv_freq, in float32, and attention_scaling of its rotary modules. They were
    made from config.json with the settings of each method, and called with position 262143.
    """
    frequencies = EXTENDED_BY_TRANSFORMERS[f"{name} {method} inv_freq"]
    attention_factor = float(EXTENDED_BY_TRANSFORMERS[f"{name} {method} attention_factor"])

    # A float32 number is off by up to 6e-8 of itself, and a power in float32 by a few times that.
    np.testing.assert_allclose(encoding.inverse_frequencies(262144), frequencies, rtol=1e-6)
    assert encoding.attention_factor(262144) == pytest.approx(attention_factor, rel=1e-9)


EVERY_MODEL = pytest.mark.parametrize("name", MODELS)
EVERY_METHOD = pytest.mark.parametrize("method", ["yarn", "linear", "ntk", "dynamic"])


@EVERY_METHOD
@EVERY_MODEL
@pytest.mark.usefixtures("without_runtimes")
@pytest.mark.sample(8)
def test_an_extended_encoding_has_the_frequencies_of_transformers(name: str, method: str) -> None:
    """`extend` to 262144 positions has the encoding `after`: expected are numbers of transformers."""
    found = extension_to_262144(name, method)
    assert_encodes_as_transformers(found.after, name, method)


@EVERY_METHOD
@EVERY_MODEL
@pytest.mark.usefixtures("without_runtimes")
@pytest.mark.sample(8)
def test_the_printed_config_has_the_frequencies_of_transformers(name: str, method: str) -> None:
    """`config` has the keys of config.json that `extend` changes. Pasted into the model's own
    config.json, which is then read again, they must give the numbers of transformers.
    """
    found = extension_to_262144(name, method)
    config = {**presets()[name].config, **found.config}
    assert_encodes_as_transformers(pecli.load_config(config).one(), name, method)


@EVERY_METHOD
@EVERY_MODEL
@pytest.mark.usefixtures("without_runtimes")
@pytest.mark.sample(8)
def test_the_printed_config_for_transformers_5_has_its_frequencies(name: str, method: str) -> None:
    """`newer_config` has the key `rope_parameters` of transformers 5, which takes the place of
    `rope_scaling` of older versions. With it instead of that, config.json must give the numbers of
    transformers.
    """
    found = extension_to_262144(name, method)
    config = {**presets()[name].config, **found.newer_config}
    config.pop("rope_scaling", None)
    assert_encodes_as_transformers(pecli.load_config(config).one(), name, method)


@pytest.mark.usefixtures("without_runtimes")
def test_a_config_of_litgpt_gets_keys_of_hugging_face() -> None:
    """The model was trained on 4096 / 2 = 2048 positions, as rope_condense_ratio is 2, and 16384
    are 8 times as many. NTK's base is the base times 8^(d / (d − 2)), with d = 256 / 4 = 64.
    """
    litgpt = {
        "n_embd": 256,
        "n_head": 4,
        "rotary_percentage": 1.0,
        "rope_base": 500,
        "rope_condense_ratio": 2,
        "max_position_embeddings": 4096,
    }
    found = pecli.extend(litgpt, 16384, "ntk")
    base = pytest.approx(500 * 8 ** (64 / 62))

    assert found.config == {
        "rope_theta": base,
        "rope_scaling": {"rope_type": "default"},
        "max_position_embeddings": 16384,
    }
    assert found.gguf == {"rope.freq_base": base, "context_length": 16384}


@pytest.mark.usefixtures("without_runtimes")
def test_a_gguf_file_gets_keys_of_hugging_face() -> None:
    """The .gguf file of a model has no config.json. The settings are printed for one all the same:
    linear scaling is the key rope_scaling.
    """
    path = Path(__file__).parents[1] / "files" / "data" / "tiny.gguf"
    assert pecli.extend(str(path), LENGTH, "linear").config.keys() == {"rope_scaling"}


@pytest.mark.usefixtures("without_runtimes")
@pytest.mark.parametrize(
    ("name", "to", "expected"),
    [
        pytest.param(
            "qwen2.5-7b",
            131072,
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
            id="qwen2.5-7b",
        ),
        pytest.param(
            "gemma-3-12b", 262144, {"rope_type": "linear", "factor": 16.0}, id="gemma-3-12b"
        ),
        pytest.param(
            "llama-3.1-8b",
            262144,
            {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 8192},
            id="llama-3.1-8b",
        ),
    ],
)
def test_the_default_method_is_that_of_the_makers(
    name: str, to: int, expected: dict[str, Any]
) -> None:
    """Qwen's card has YaRN by 4 from 32768. Gemma 3's config has linear scaling by 8 for 131072,
    which is 16 for 262144. Llama 3.1 was trained on 8192 positions: 262144 / 8192 = 32.
    """
    assert pecli.extend(name, to).rope_scaling == expected


@pytest.mark.usefixtures("without_runtimes")
def test_yarn_stretches_wavelengths_that_turn_less_than_once_by_the_whole_factor() -> None:
    """Llama 3.1 was trained on 8192 positions, with base 500000 and 64 pairs of channels. YaRN
    stretches by the whole factor, 262144 / 8192 = 32, the pairs that turn less than once in 8192
    positions, those that turn more often by less. `stretched` is the number of wavelengths that are
    stretched by the whole factor, and `largest` the largest ratio of a new and an old one.
    """
    wavelengths = pecli.extend("llama-3.1-8b", 262144, "yarn").wavelengths()
    turns = 8192 / (2 * np.pi) * 500000.0 ** (-np.arange(64) / 64)

    assert wavelengths.stretched == (turns < 1).sum()
    assert wavelengths.largest == pytest.approx(32.0)


def rope_parameters_for_vllm(name: str, method: str) -> dict[str, Any]:
    """Return the rope_parameters of `vllm serve MODEL --hf-overrides '{…}'` for 262144 positions."""
    command = pecli.extend(name, 262144, method).commands["vllm"]
    overrides = json.loads(command.split("'")[1])
    assert overrides["max_position_embeddings"] == 262144
    parameters: dict[str, Any] = overrides["rope_parameters"]
    return parameters


@pytest.mark.usefixtures("without_runtimes")
@pytest.mark.parametrize(
    ("name", "method", "parameters"),
    [
        pytest.param(
            "phi-2",
            "yarn",
            {
                "rope_type": "yarn",
                "rope_theta": 10000.0,
                "factor": 128.0,  # 262144 / 2048
                "original_max_position_embeddings": 2048,
                "partial_rotary_factor": 0.4,
            },
            id="phi-2: 40 % of the channels rotate",
        ),
        pytest.param(
            "minimax-m2",
            "yarn",
            {
                "rope_type": "yarn",
                "rope_theta": 5000000.0,
                "factor": pytest.approx(4 / 3),  # 262144 / 196608
                "original_max_position_embeddings": 196608,
                "partial_rotary_factor": 0.5,
            },
            id="minimax-m2: 64 of 128 channels rotate",
        ),
        pytest.param(
            "phi-4-mini",
            "ntk",
            {
                "rope_type": "default",  # NTK is another base, and no scaling.
                "rope_theta": pytest.approx(10000.0 * 64 ** (96 / 94)),
                "partial_rotary_factor": 0.75,
            },
            id="phi-4-mini: 96 of 128 channels rotate, 262144 / 4096 = 64",
        ),
    ],
)
def test_overrides_for_vllm_repeat_the_base_and_the_share_of_channels_of_the_model(
    name: str, method: str, parameters: dict[str, Any]
) -> None:
    """vLLM replaces `rope_parameters` as a whole by those of --hf-overrides, so what the method does
    not change must be repeated from the model's config.json. NTK's base is base · factor^(d / (d −
    2)) for d rotating channels.
    """
    assert rope_parameters_for_vllm(name, method) == parameters


@pytest.mark.usefixtures("without_runtimes")
@pytest.mark.parametrize(
    ("name", "method", "full_attention", "sliding_attention"),
    [
        pytest.param(
            "gemma-3-12b",
            "linear",
            {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 16.0},
            {"rope_type": "default", "rope_theta": 10000.0},
            id="gemma-3-12b: 131072 positions by factor 8, so 262144 by 16",
        ),
        pytest.param(
            "olmo-3.1-32b",
            "yarn",
            {
                "rope_type": "yarn",
                "rope_theta": 500000.0,
                "factor": 32.0,
                "original_max_position_embeddings": 8192,
                "beta_fast": 32.0,  # as in the model's own YaRN
                "beta_slow": 1.0,
            },
            {"rope_type": "default", "rope_theta": 500000.0},
            id="olmo-3.1-32b: one base, 262144 / 8192 = 32",
        ),
        pytest.param(
            "modernbert-base",
            "yarn",
            {
                "rope_type": "yarn",
                "rope_theta": 160000.0,
                "factor": 32.0,
                "original_max_position_embeddings": 8192,
            },
            {"rope_type": "default", "rope_theta": 10000.0},
            id="modernbert-base: two bases, 262144 / 8192 = 32",
        ),
    ],
)
def test_overrides_for_vllm_repeat_the_layers_of_sliding_attention_unscaled(
    name: str, method: str, full_attention: dict[str, Any], sliding_attention: dict[str, Any]
) -> None:
    """vLLM replaces `rope_parameters` as a whole by those of --hf-overrides. Layers of full attention
    are stretched to 262144 positions; those of sliding attention see a window only, and their
    parameters are repeated from the model's config.json.
    """
    assert rope_parameters_for_vllm(name, method) == {
        "full_attention": full_attention,
        "sliding_attention": sliding_attention,
    }


@pytest.mark.usefixtures("without_runtimes")
@pytest.mark.parametrize(
    ("name", "method", "encodings"),
    [
        ("phi-2", "yarn", 1),
        ("minimax-m2", "yarn", 1),
        ("phi-4-mini", "ntk", 1),
        ("gemma-3-12b", "linear", 2),
        ("olmo-3.1-32b", "yarn", 2),
        ("modernbert-base", "yarn", 2),
    ],
)
def test_settings_for_transformers_5_keep_the_encodings_of_all_layer_types(
    name: str, method: str, encodings: int
) -> None:
    """Full and sliding attention of Gemma 3, OLMo 3.1 and ModernBERT have encodings of their own;
    the other models have one. The settings are pasted into the model's config.json, whose own
    scaling they replace.
    """
    settings = pecli.extend(name, LENGTH, method).newer_config
    config = pasted({**presets()[name].config, "rope_scaling": None}, settings)
    assert len(pecli.load_config(config)) == encodings


@pytest.fixture(scope="module")
def extended_llama3() -> Extension:
    """Return a stretched model whose .gguf file keeps the factors of llama3 in a tensor."""
    return pecli.extend("llama-3.1-8b", LENGTH)


def test_the_title_of_an_extension_names_the_original_context(extended_llama3: Extension) -> None:
    """Llama 3.1 was trained on 8,192 positions and serves 131,072 by its llama3 rule. YaRN starts
    from the 8,192 again: 262,144 / 8,192 = 32.
    """
    assert str(extended_llama3).startswith(
        "llama-3.1-8b: 131,072 → 262,144 positions by yarn, factor 32 of the original 8,192\n"
    )


def test_a_gguf_file_that_keeps_factors_is_converted_again(extended_llama3: Extension) -> None:
    """Llama 3.1 is stretched by YaRN instead of its llama3 rule. llama.cpp multiplies the tensor
    `rope_freqs.weight`, llama3's factors, into any scaling that its flags state, so flags cannot do
    it: the command converts the model again, and a note states why.
    """
    command = extended_llama3.commands["llama.cpp"]
    assert command.startswith("convert_hf_to_gguf.py ")
    assert "--rope" not in command
    assert "a .gguf keeps the llama3 factors in rope_freqs.weight" in extended_llama3.notes[-1]


def test_llama_cpp_is_compared_as_if_the_gguf_file_were_converted_again(
    extended_llama3: Extension,
) -> None:
    """`runtimes` states whether each program's tables depart from the extended ones. The .gguf file
    of Llama 3.1 as it is keeps the factors of its llama3 rule; llama.cpp is right with a new one.
    """
    (llama_cpp,) = (result for result in extended_llama3.runtimes if result.runtime == "llama.cpp")
    assert not llama_cpp.departs


def test_the_figure_of_an_extension_names_both_contexts(extended_llama3: Extension) -> None:
    """Levels mark Llama 3.1's context, 131,072, and the new one, 262,144, so that one sees which
    wavelengths they hold.
    """
    figure = extension_figure(extended_llama3)
    texts = [text.get_text() for text in figure.findobj(Text)]

    assert "llama-3.1-8b: wavelength of each rotary pair" in texts

    labels = [text.get_text().split()[-1] for axes in figure.axes for text in axes.texts]
    assert {"131,072", "262,144"} <= {*labels}
    assert "262,144" in extended_llama3._repr_html_()


def pasted(config: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration with these settings, each in the part that it belongs to."""
    merged = {**config, **settings}
    for key, value in settings.items():
        if key.endswith("_config"):
            merged[key] = pasted(config[key], value)
    return merged


@pytest.mark.parametrize("method", ["yarn", "linear", "ntk", "dynamic"])
@pytest.mark.parametrize("name", NESTED)
@pytest.mark.usefixtures("without_runtimes")
@pytest.mark.sample(8)
def test_settings_are_printed_in_the_part_of_the_config_that_has_its_own(
    name: str, method: str
) -> None:
    """Configurations of vision models have the rotary settings in a part such as `text_config`; the
    «bare» one has such a part without any. The settings that `extend` prints are pasted there, and
    config.json is read again: it must have the frequencies of the extension, and the sections of
    M-RoPE as before.
    """
    length = 2**23  # longer than the context of each of these models
    config = MODEL_WITHOUT_ROPE_KEYS if name == "bare" else presets()[name].config
    found = pecli.extend(config, length, method)
    extended_layers = found.before.layer_type  # Gemma 3's layers of full attention, for example
    original = pecli.load_config(config).one(extended_layers)
    reread = pecli.load_config(pasted(config, found.config)).one(extended_layers)

    assert reread.inverse_frequencies(length) == found.after.inverse_frequencies(length)
    assert reread.inverse_frequencies(length) != original.inverse_frequencies(length)
    assert reread.sections.mrope_section == original.sections.mrope_section


@pytest.mark.parametrize(
    ("name", "method", "rule_of_the_model"),
    [
        pytest.param("phi-4", "yarn", "longrope", id="YaRN for Phi-4"),
        pytest.param("gemma-4-e2b", None, "proportional", id="the default method for Gemma 4"),
    ],
)
def test_a_method_that_the_config_cannot_express_is_refused(
    name: str, method: str | None, rule_of_the_model: str
) -> None:
    """Phi-4 has longrope, with a divisor per frequency, and Gemma 4 proportional frequencies:
    neither YaRN nor the default method (None) can take their place. The error names the model's
    rule.
    """
    with pytest.raises(ParameterError, match=rule_of_the_model):
        pecli.extend(name, to=2**23, method=method)


Array = np.ndarray[Any, Any]


def cos_and_sin_by_flags(
    flags: dict[str, str], positions: Array, pairs: int
) -> tuple[Array, Array]:
    """Return the tables that llama.cpp computes from its flags, in float64.

    The names are those of ggml_rope_yarn, whose formulas they have. The ramp is 1 for pairs that
    turn more than beta_fast times in the original context, and 0 for those that turn less than
    beta_slow times.
    """
    freq_base = float(flags["--rope-freq-base"])
    freq_scale = float(flags.get("--rope-freq-scale", 1))
    theta_extrap = positions[:, None] * freq_base ** (-np.arange(pairs) / pairs)
    theta_interp = freq_scale * theta_extrap
    if flags["--rope-scaling"] != "yarn":
        return np.cos(theta_interp), np.sin(theta_interp)

    # ggml_rope_yarn_corr_dims, with the defaults beta_fast 32 and beta_slow 1.
    n_ctx_orig = float(flags["--yarn-orig-ctx"])
    fast_dim = pairs * np.log(n_ctx_orig / (32 * 2 * np.pi)) / np.log(freq_base)
    slow_dim = pairs * np.log(n_ctx_orig / (1 * 2 * np.pi)) / np.log(freq_base)
    low = max(0, np.floor(fast_dim))
    high = min(2 * pairs - 1, np.ceil(slow_dim))

    # rope_yarn_ramp
    ramp_mix = 1 - np.clip((np.arange(pairs) - low) / max(0.001, high - low), 0, 1)

    theta = theta_interp * (1 - ramp_mix) + theta_extrap * ramp_mix
    mscale = 1 + 0.1 * np.log(1 / freq_scale)
    return mscale * np.cos(theta), mscale * np.sin(theta)


@pytest.mark.usefixtures("without_runtimes")
@pytest.mark.parametrize(
    ("method", "scaling"),
    [
        pytest.param("yarn", "yarn", id="yarn"),
        pytest.param("linear", "linear", id="linear"),
        pytest.param("ntk", "none", id="ntk is another base and no scaling"),
    ],
)
@pytest.mark.parametrize("name", ["qwen2.5-7b", "llama-2-7b", "gemma-2-9b"])
def test_flags_of_llama_cpp_give_the_tables_of_the_printed_config(
    name: str, method: str, scaling: str
) -> None:
    """`extend` to 262144 positions prints flags for llama-server, and keys for config.json. ggml's
    formulas, applied to the flags in float64, must give the tables of a model that is converted
    with these keys, here the first 64 rows.
    """
    found = pecli.extend(name, 262144, method)
    flags = dict(pairwise(found.commands["llama.cpp"].split()))
    converted = pecli.load_config({**presets()[name].config, **found.config}).one()
    tables = converted.rope(64, length=262144, runtime="llama.cpp").tables()
    cos, sin = cos_and_sin_by_flags(flags, np.arange(64), pairs=converted.rotary_dim // 2)

    assert flags["-c"] == "262144"
    assert flags["--rope-scaling"] == scaling
    # llama.cpp multiplies angles up to 63 from pair to pair in float32: they are off by about 1e-5.
    np.testing.assert_allclose(tables["cos"], cos, atol=3e-5)
    np.testing.assert_allclose(tables["sin"], sin, atol=3e-5)


def test_runtimes_without_dynamic_scaling_depart_from_a_dynamic_extension() -> None:
    """By their sources, vLLM computes one base for all lengths, and llama.cpp has no dynamic scaling."""
    results = {
        result.runtime: result for result in pecli.extend("llama-2-7b", 16384, "dynamic").runtimes
    }
    assert results["vllm"].departs
    assert results["llama.cpp"].lacks
    assert not results["transformers"].departs


def test_the_command_extend_prints_json_and_draws_a_picture(run_pecli: Any, tmp_path: Path) -> None:
    """`pecli extend` of Llama 2, which has 4096 positions, to 8192: the factor of YaRN, its default
    method, is 2.
    """
    picture = tmp_path / "waves.png"
    outcome = run_pecli("extend", "llama-2-7b", "--to", 8192, "--json", "-o", picture)

    assert outcome.json["method"] == "yarn"
    assert outcome.json["rope_scaling"]["factor"] == 2.0

    names = {result["runtime"] for result in outcome.json["runtimes"]}
    assert {"transformers", "vllm", "llama.cpp", "mlx-lm"} <= names
    assert picture.read_bytes().startswith(b"\x89PNG")  # the signature of PNG files


@pytest.mark.usefixtures("without_runtimes")
def test_the_command_extend_prints_settings_to_paste(run_pecli: Any) -> None:
    """Qwen2.5 counts from 32768 positions: 131072 is a factor of 4."""
    text = run_pecli("extend", "qwen2.5-7b", "--to", 131072).out
    assert '"rope_scaling": {"rope_type": "yarn", "factor": 4.0' in text
    assert "--yarn-orig-ctx 32768" in text


@pytest.mark.usefixtures("without_runtimes")
def test_the_repr_of_an_extension_names_method_and_factor() -> None:
    """`extend` stretches Qwen2.5 from 32,768 positions to 131,072, a factor of 131,072 / 32,768 =
    4; YaRN is what its card recommends.
    """
    text = "<Extension of qwen2.5-7b to 131,072 positions by yarn, factor 4>"
    assert repr(pecli.extend("qwen2.5-7b", 131072)) == text


LLAMA_OF_64_POSITIONS = {**CONFIG, "rope_theta": 1e4, "max_position_embeddings": 64}
"""A llama of 64 positions, with 8 rotary pairs and base 10000."""
SMALL_LINEAR = {**LLAMA_OF_64_POSITIONS, "rope_scaling": {"type": "linear", "factor": 2.0}}
SMALL_YARN = {
    **LLAMA_OF_64_POSITIONS,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 16,
    },
}


@cache
def extended_to_256_by(method: str | None) -> Extension:
    return pecli.extend(LLAMA_OF_64_POSITIONS, 256, method)


@pytest.mark.parametrize(
    ("method", "config"),
    [
        pytest.param(
            "linear", {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}, id="linear"
        ),
        pytest.param(
            "ntk", {"rope_theta": 10000 * 4 ** (16 / 14), "max_position_embeddings": 256}, id="ntk"
        ),
        pytest.param(
            "yarn",
            {
                "rope_scaling": {
                    "rope_type": "yarn",
                    "factor": 4.0,
                    "original_max_position_embeddings": 64,
                },
                "max_position_embeddings": 256,
            },
            id="yarn",
        ),
        pytest.param(
            "dynamic", {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}, id="dynamic"
        ),
    ],
)
def test_each_method_changes_these_keys_of_config_json(method: str, config: dict[str, Any]) -> None:
    """A Llama of 64 positions, base 10000 and 16 channels per head is extended to 256, by a factor
    of 4; NTK's base is 10000 · 4^(16/14). `max_position_embeddings` becomes 256 except with linear
    and dynamic scaling, for which Hugging Face's LlamaConfig states: «don't update
    `max_position_embeddings` to the expected new maximum».
    """
    assert extended_to_256_by(method).config == config


def test_the_config_of_transformers_5_has_the_base_in_rope_parameters() -> None:
    """Transformers 5 moved `rope_theta` and `rope_scaling` into one key. A Llama of 64 positions and
    base 10000 goes to 256: a factor of 4.
    """
    assert extended_to_256_by("linear").newer_config == {
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "linear", "factor": 4.0}
    }


@pytest.mark.parametrize(
    ("method", "keys"),
    [
        pytest.param("dynamic", {}, id="dynamic"),
        pytest.param(
            "linear",
            {
                "context_length": 256,
                "rope.scaling.type": "linear",
                "rope.scaling.factor": 4.0,
            },
            id="linear",
        ),
        pytest.param(
            "yarn",
            {
                "context_length": 256,
                "rope.scaling.type": "yarn",
                "rope.scaling.factor": 4.0,
                "rope.scaling.original_context_length": 64,
            },
            id="yarn",
        ),
    ],
)
def test_each_method_changes_these_keys_of_gguf(method: str, keys: dict[str, Any]) -> None:
    """A Llama of 64 positions is extended to 256, by a factor of 4. The keys are those of a .gguf
    file; llama.cpp has no dynamic scaling.
    """
    assert extended_to_256_by(method).gguf == keys


@pytest.mark.parametrize(
    ("method", "flags"),
    [
        ("linear", "--rope-scaling linear --rope-freq-base 10000 --rope-freq-scale 0.25"),
        (
            "yarn",
            "--rope-scaling yarn --rope-freq-base 10000 --rope-freq-scale 0.25 --yarn-orig-ctx 64",
        ),
        ("ntk", "--rope-scaling none --rope-freq-base 48760.5461682"),
    ],
)
def test_each_method_has_these_flags_of_llama_cpp(method: str, flags: str) -> None:
    """A Llama of 64 positions, base 10000 and 16 channels per head is extended to 256: freq-scale
    is one over the factor 4, and NTK's base 10000 · 4^(16/14) = 48760.5461682.
    """
    command = extended_to_256_by(method).commands["llama.cpp"]
    assert command == f"llama-server -m MODEL.gguf -c 256 {flags}"


def test_dynamic_scaling_has_a_command_for_no_runtime() -> None:
    """The values of llama.cpp's flag `--rope-scaling` are «none», «linear» and «yarn», so none of its
    commands can state dynamic scaling. vLLM's source reads it as factor 1, and SGLang's has one base
    for prompts of all lengths. The Llama goes from 64 positions to 256, by a factor of 4.
    """
    assert extended_to_256_by("dynamic").commands == {}


def test_dynamic_scaling_leaves_short_prompts_alone() -> None:
    """The model has 64 positions, and is extended to 256. Dynamic NTK changes the base only beyond
    64, and the note states it.
    """
    note = "prompts up to 64 positions are encoded as before; longer ones as their length asks for"
    assert extended_to_256_by("dynamic").notes == (note,)


@pytest.mark.parametrize(
    ("method", "kept", "blended", "stretched"),
    [("linear", 0, 0, 8), ("ntk", 1, 6, 1), ("yarn", 1, 2, 5)],
)
def test_wavelengths_are_counted_as_kept_blended_and_stretched(
    method: str, kept: int, blended: int, stretched: int
) -> None:
    """Of 8 pairs, from 64 to 256 positions: linear scaling stretches all by 4; NTK keeps the first,
    stretches the last by 4, and blends those between; YaRN's ramp is from pair 0 to pair 3, so that
    the last 5 are stretched.
    """
    counts = extended_to_256_by(method).wavelengths()
    factor = 4.0
    assert counts[:3] == (kept, blended, stretched)
    assert counts.smallest == pytest.approx(factor, rel=1e-12)
    assert counts.largest == pytest.approx(factor, rel=1e-12)


def test_dynamic_scaling_stretches_the_last_wavelengths_by_more_than_its_factor() -> None:
    """At 256 positions of 64, the factor 4 gives the base 10000 · 13^(16/14), as 13 = 4 · 256/64 − 3.
    So pair i of 8 is stretched by 13^(i/7): pairs 4 to 7 by 4.33 to 13.
    """
    counts = extended_to_256_by("dynamic").wavelengths()
    assert counts[:3] == (1, 3, 4)
    assert counts.smallest == pytest.approx(13 ** (4 / 7), rel=1e-12)
    assert counts.largest == pytest.approx(13, rel=1e-12)


def test_the_factors_of_stretched_wavelengths_are_stated() -> None:
    """Dynamic scaling stretches pair i of 8 by 13^(i/7), of which the last four are 4.33 to 13."""
    text = str(extended_to_256_by("dynamic"))
    assert "1 wavelength kept, 3 stretched by less than 4×, 4 by 4.33× to 13×" in text


def test_the_json_of_an_extension_has_its_method_factor_and_lengths() -> None:
    """The small model of 64 positions, base 10000, goes to 256: a factor of 4."""
    fields = extended_to_256_by("yarn").as_json()
    assert fields["model"] == "config"
    assert fields["to"] == 256
    assert fields["method"] == "yarn"
    assert fields["factor"] == 4.0
    assert fields["original_max_position_embeddings"] == 64
    assert fields["rope_theta"] == 10000.0


@pytest.mark.usefixtures("without_runtimes")
def test_a_factor_need_not_be_whole() -> None:
    """A Llama of 64 positions is stretched to 65 by linear scaling."""
    assert pecli.extend(LLAMA_OF_64_POSITIONS, 65, "linear").factor == 65 / 64


@pytest.mark.usefixtures("without_runtimes")
@pytest.mark.parametrize(
    ("config", "reason"),
    [
        pytest.param(
            LLAMA_OF_64_POSITIONS,
            "it has 64 positions as it is: nothing needs to change",
            id="without a scaling",
        ),
        pytest.param(
            SMALL_LINEAR,
            "it has 64 positions as it is, with its own linear scaling: nothing needs to change",
            id="with its own scaling",
        ),
    ],
)
def test_a_model_that_is_long_enough_is_served_as_it_is(
    config: dict[str, Any], reason: str
) -> None:
    """Both models have 64 positions, one of them by its own linear scaling: no setting changes, and
    the commands state the length only.
    """
    found = pecli.extend(config, 64)
    assert found.reason == reason
    assert found.config == {}
    assert found.gguf == {}
    assert found.commands == {
        "vllm": "vllm serve MODEL --max-model-len 64",
        "sglang": "python -m sglang.launch_server --model-path MODEL --context-length 64",
        "llama.cpp": "llama-server -m MODEL.gguf -c 64",
    }


@pytest.mark.usefixtures("without_runtimes")
def test_a_method_that_is_given_stretches_a_model_that_is_long_enough() -> None:
    """Qwen3's config has 40,960 positions already; its card counts from 32,768, so that the factor
    is 40960 / 32768.
    """
    assert pecli.extend("qwen3-8b", 40960, "yarn").factor == 1.25


@pytest.mark.usefixtures("without_runtimes")
@pytest.mark.parametrize(
    ("name", "to", "factor"),
    [
        ("qwen3-8b", 131072, 4.0),
        ("qwen3-8b", 65536, 2.0),
        ("qwen3-30b-a3b", 131072, 4.0),
        ("qwen2.5-7b", 131072, 4.0),
        ("qwen2.5-vl-7b", 131072, 4.0),
        ("qwen2.5-vl-72b", 262144, 8.0),
    ],
)
def test_qwen_is_stretched_from_the_original_length_of_its_card_which_is_quoted(
    name: str, to: int, factor: float
) -> None:
    """The card, https://huggingface.co/Qwen/Qwen3-8B, has factor 4 of 32768 positions, for 131072;
    the factor for another length is the length / 32768. The reason quotes the card. That of
    Qwen2.5-VL-7B-Instruct has the same numbers, although its config.json states 128000 positions.
    """
    found = pecli.extend(name, to=to)
    assert found.factor == factor
    assert found.original == 32768
    assert "original 32768" in found.reason


@pytest.mark.usefixtures("without_runtimes")
@pytest.mark.parametrize(("name", "context"), [("qwen3-4b-2507", 262144), ("qwen2.5-14b", 131072)])
def test_a_qwen_with_a_longer_context_is_stretched_from_its_own_context(
    name: str, context: int
) -> None:
    """The card is about models of 32768 positions. These have more by their config.json
    (max_position_embeddings), so that the card does not apply, and is not quoted: twice the context
    is the factor 2.
    """
    found = pecli.extend(name, to=2 * context)
    assert found.factor == 2.0
    assert found.original == context
    assert "original 32768" not in found.reason


@pytest.mark.usefixtures("without_runtimes")
@pytest.mark.parametrize("name", ["qwen3-vl-4b", "qwen3-vl-30b-a3b"])
def test_the_reason_states_the_smaller_factor_of_qwen3_vl_for_prompts_with_images(
    name: str,
) -> None:
    """The card, https://huggingface.co/Qwen/Qwen3-VL-235B-A22B-Instruct, has a factor of 3 from 262144
    positions for 1,000,000 tokens, since images take fewer positions than tokens. A text of 1,000,000
    tokens takes as many positions, so that the factor stays 1000000 / 262144.
    """
    found = pecli.extend(name, 1000000)
    assert "--factor 3 " in found.reason
    assert found.factor == 1000000 / 262144


@pytest.mark.usefixtures("without_runtimes")
def test_a_factor_and_an_original_length_override_the_card() -> None:
    """Qwen3's card has a factor of 4 from 32768 positions; here the user states 3.2 and 40960."""
    found = pecli.extend("qwen3-8b", "128k", factor=3.2, original_len=40960)
    assert found.rope_scaling == {
        "rope_type": "yarn",
        "factor": 3.2,
        "original_max_position_embeddings": 40960,
    }


@pytest.mark.usefixtures("without_runtimes")
def test_a_length_that_is_left_out_follows_from_the_factor() -> None:
    """The card of Qwen3 states 32768 as the original length: a factor of 4 reaches 4 · 32768 =
    131072.
    """
    assert pecli.extend("qwen3-8b", factor=4).to == 131072


@pytest.mark.usefixtures("without_runtimes")
def test_a_factor_that_is_too_small_is_noted() -> None:
    """Qwen3's card counts from 32,768 positions: a factor of 2 reaches 2 · 32,768 = 65,536, fewer
    than the 131,072 that are requested.
    """
    notes = pecli.extend("qwen3-8b", 131072, factor=2).notes
    assert notes[-1] == "factor 2 of 32,768 positions reaches 65,536, fewer than 131,072"


def test_an_extension_needs_a_length_or_a_factor() -> None:
    """Each follows from the other, so that one of them must be given."""
    with pytest.raises(ParameterError, match="to is missing"):
        pecli.extend("qwen3-8b")


@pytest.mark.usefixtures("without_runtimes")
@pytest.mark.parametrize(("to", "length"), [("128k", 131072), ("1M", 1048576), ("99.5K", 101888)])
def test_lengths_are_given_in_units_of_1024(to: str, length: int) -> None:
    """`extend` takes texts such as «128k» and «1M»: 128 · 1024 = 131072, 1024² = 1048576, 99.5 ·
    1024 = 101888.
    """
    assert pecli.extend("llama-2-7b", to).to == length


@pytest.mark.usefixtures("without_runtimes")
@pytest.mark.parametrize("method", ["yarn", "linear", "ntk"])
def test_a_config_of_mlc_gets_its_settings_below_model_config(method: str) -> None:
    """mlc-chat-config.json has the model's settings below `model_config`. Pasted there and read
    again, the settings for 256 positions give the frequencies of the extension. Commands for other
    programs, such as vLLM, do not mention that part.
    """
    model_config = {
        "hidden_size": 128,
        "num_attention_heads": 8,
        "position_embedding_base": 10000,
        "context_window_size": 64,
    }
    mlc = {"model_type": "llama", "model_config": model_config, "context_window_size": 64}

    found = pecli.extend(mlc, 256, method)
    settings = found.config
    pasted_settings = {**model_config, **settings["model_config"]}
    read = pecli.load_config({**mlc, **settings, "model_config": pasted_settings})

    assert read.context == 256
    assert read.one().inverse_frequencies(256) == found.after.inverse_frequencies(256)
    assert "model_config" not in found.commands["vllm"]
    assert found.commands["mlc"].startswith("mlc_llm serve")


@pytest.mark.usefixtures("without_runtimes")
@pytest.mark.parametrize("runtime", ["vllm", "sglang", "llama.cpp"])
@pytest.mark.parametrize("method", ["yarn", "linear", "ntk"])
@pytest.mark.parametrize("name", ["qwen3-8b", "llama-2-7b", "gemma-3-4b", "phi-2"])
def test_commands_for_a_runtime_mean_the_settings_that_are_printed(
    name: str, method: str, runtime: str
) -> None:
    """`extend` prints a command for each runtime. pecli.load_model reads the model with its flags
    as the server would: the frequencies must be those of the printed settings.
    """
    found = pecli.extend(name, 2**20, method)
    model = pecli.load_model(name, found.commands[runtime])
    read = model.one(found.before.layer_type)

    assert read.inverse_frequencies() == pytest.approx(found.after.inverse_frequencies(), rel=1e-9)
    assert read.attention_factor() == pytest.approx(found.after.attention_factor())


@pytest.mark.parametrize("method", ["yarn", "linear", "ntk", "dynamic"])
def test_runtimes_are_judged_by_the_settings_that_are_printed(method: str) -> None:
    """A Llama of 64 positions goes to 256. `extend` lists which runtimes depart from its settings.
    The list must be what `pecli.runtimes` finds of a config into which these settings were pasted.
    """
    found = extended_to_256_by(method)
    printed = pecli.runtimes({**LLAMA_OF_64_POSITIONS, **found.config}, 256).layers[""]
    expected = [(result.runtime, result.departs) for result in found.runtimes]

    assert [(result.runtime, result.departs) for result in printed] == expected


RUNTIMES_THAT_DEPART = {
    "yarn": {
        "onnxruntime-genai": (
            "applies YaRN only if the config has beta_fast, which is missing: nothing is scaled"
        ),
        "litgpt": "exchanges beta_fast and beta_slow: YaRN's ramp is inverted",
    },
    "dynamic": {
        "vllm": "its dynamic NTK is not dynamic: the base stays, as with factor 1",
        "llama.cpp": "it has no dynamic scaling: GGUF files have none, and the converter drops it",
        "sglang": "shorter prompts get the same base; the model's base follows their length",
        "exllamav3": "it has no dynamic scaling: it raises an error",
    },
}
"""Programs that compute other tables than transformers by a method, with the reason."""


@pytest.mark.parametrize("method", RUNTIMES_THAT_DEPART)
def test_an_extension_names_the_runtimes_that_do_not_honour_its_method(method: str) -> None:
    """A Llama of 64 positions goes to 256 by a method. Which programs depart from it is known from
    their source code, as the reasons in RUNTIMES_THAT_DEPART state; all others honour it. A result
    has the reason as what the program lacks, as the first cause, or as the first note.
    """
    reasons = {}
    for result in extended_to_256_by(method).runtimes:
        if result.departs:
            remarks = (*filter(None, [result.lacks]), *result.causes, *result.notes)
            reasons[result.runtime] = remarks[0]

    assert reasons == RUNTIMES_THAT_DEPART[method]


def test_sglang_takes_one_base_for_prompts_of_all_lengths() -> None:
    """SGLang's dynamic NTK has one base, that of the longest prompt; the method's base follows each
    prompt. `short_prompts` states how a runtime departs for these.
    """
    runtimes = extended_to_256_by("dynamic").runtimes
    (sglang,) = (result for result in runtimes if result.runtime == "sglang")
    expected = "shorter prompts get the same base; the model's base follows their length"

    assert sglang.short_prompts == expected


def test_a_printed_original_length_keeps_tensorrt_llm_from_departing() -> None:
    """TensorRT-LLM departs from a YaRN without original_max_position_embeddings. This model has
    none, but `extend` prints it, so the runtime is judged with it.
    """
    model = {**LLAMA_OF_64_POSITIONS, "rope_scaling": {"rope_type": "yarn", "factor": 2.0}}
    results = {result.runtime: result for result in pecli.extend(model, 256).runtimes}

    assert results["tensorrt-llm"].causes == ()


@pytest.mark.usefixtures("without_runtimes")
@pytest.mark.parametrize(
    ("model_type", "method", "reason"),
    [
        pytest.param(
            "gemma3_text", "yarn", "", id="another method than the recommended one is asked for"
        ),
        pytest.param(
            "gemma3_text",
            None,
            "Gemma 3's own config: linear, factor 8, on its global layers",
            id="the recommended method is chosen",
        ),
        pytest.param("gemma3_text", "linear", "", id="the recommended method is asked for"),
        pytest.param(
            "qwen2",
            None,
            "yarn, which needs the least fine-tuning; the makers name none",
            id="the recommendation is for models of another context",
        ),
        pytest.param("llama", "linear", "", id="nothing is recommended, and a method asked for"),
        pytest.param(
            "llama",
            None,
            "yarn, which needs the least fine-tuning; the makers name none",
            id="nothing is recommended, and pecli chooses",
        ),
    ],
)
def test_the_reason_for_a_method_quotes_the_makers(
    model_type: str, method: str | None, reason: str
) -> None:
    """`method` is what the user asks for; None leaves the choice to pecli. Gemma 3's config has linear
    scaling. The card of Qwen2.5 is about models of 32,768 positions, and this one has 64; Llama's
    recommend nothing.
    """
    model = {**LLAMA_OF_64_POSITIONS, "model_type": model_type}
    assert pecli.extend(model, 256, method).reason == reason


@pytest.mark.usefixtures("without_runtimes")
def test_stated_parameters_of_a_models_own_yarn_are_kept() -> None:
    """The model was trained on 16 positions and stretched by 4; 256 positions are 16 times 16. It
    states beta_fast, 8 instead of 32, which the new settings repeat.
    """
    scaling = {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 16,
        "beta_fast": 8,
    }
    found = pecli.extend({**LLAMA_OF_64_POSITIONS, "rope_scaling": scaling}, 256)

    assert found.original == 16
    assert found.longest == 64
    assert found.rope_scaling == {
        "rope_type": "yarn",
        "factor": 16.0,
        "original_max_position_embeddings": 16,
        "beta_fast": 8.0,
    }


@pytest.mark.usefixtures("without_runtimes")
def test_a_models_own_scaling_is_replaced() -> None:
    """The configuration has YaRN already, by 4 from 16 to 64 positions. It is extended to 256 by new
    settings in its place, as scalings do not add up; the first note states it.
    """
    note = "this replaces the model's own yarn scaling, which starts at 16 positions"
    assert pecli.extend(SMALL_YARN, 256).notes[0] == note


@pytest.mark.usefixtures("without_runtimes")
def test_a_models_yarn_without_a_factor_is_taken_to_reach_its_context() -> None:
    """Transformers derives the factor from the two lengths: the model has 64 positions from 16, and
    256 are 16 times 16.
    """
    scaling = {"rope_type": "yarn", "original_max_position_embeddings": 16}
    found = pecli.extend({**LLAMA_OF_64_POSITIONS, "rope_scaling": scaling}, 256)

    assert found.original == 16
    assert found.longest == 64
    assert found.factor == 16.0


@pytest.mark.usefixtures("without_runtimes")
def test_the_original_context_of_llama3_is_stretched() -> None:
    """The model has Meta's llama3 rule with an original length of 32 and a factor of 8, which
    reaches 8 · 32 = 256 positions; max_position_embeddings, 128, does not count. To 512, the factor
    counts from the original: 512 / 32 = 16.
    """
    llama3 = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    }
    model = {**CONFIG, "max_position_embeddings": 128, "rope_scaling": llama3}
    found = pecli.extend(model, 512, "linear")

    assert found.original == 32
    assert found.longest == 256
    assert found.config == {"rope_scaling": {"rope_type": "linear", "factor": 16.0}}


@pytest.mark.usefixtures("without_runtimes")
def test_dynamic_scaling_starts_at_the_context_before_the_models_linear_scaling() -> None:
    """The model's max_position_embeddings, 64, includes its linear scaling by 2: the original length
    is 64 / 2 = 32. Dynamic scaling by 256 / 32 = 8 replaces the linear one, and starts at
    max_position_embeddings, which must then be 32.
    """
    linear_by_2 = {"type": "linear", "factor": 2.0}
    model = {**CONFIG, "max_position_embeddings": 64, "rope_scaling": linear_by_2}
    found = pecli.extend(model, to=256, method="dynamic")

    assert found.original == 32
    assert found.longest == 64
    assert found.config == {
        "rope_scaling": {"rope_type": "dynamic", "factor": 8.0},
        "max_position_embeddings": 32,
    }


@pytest.mark.usefixtures("without_runtimes")
def test_ntk_takes_back_a_models_own_linear_scaling() -> None:
    """The model's linear scaling by 2 makes 64 of 32 positions; NTK replaces it by a larger base.
    256 / 32 = 8, and a head has 16 channels: 10000 · 8^(16/14).
    """
    assert pecli.extend(SMALL_LINEAR, 256, "ntk").config == {
        "rope_theta": 1e4 * 8 ** (16 / 14),
        "rope_scaling": {"rope_type": "default"},
        "max_position_embeddings": 256,
    }


@pytest.mark.usefixtures("without_runtimes")
def test_only_the_layers_that_see_the_whole_context_are_stretched() -> None:
    """A Gemma 3 with one layer of sliding and one of full attention goes from 64 positions to 256, a
    factor of 4, by linear scaling, as its makers stretch it. The sliding layer sees a window that
    stays as it is, and keeps its base of 100.

    `config` is for older transformers, whose `rope_scaling` holds for full attention only;
    `newer_config` is for transformers 5, which has `rope_parameters` for each layer type.
    """
    gemma3 = {
        "model_type": "gemma3_text",
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_theta": 500000.0,
        "rope_local_base_freq": 100.0,
        "max_position_embeddings": 64,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "head_dim": 16,
    }
    found = pecli.extend(gemma3, to=256)

    assert found.method == "linear"
    assert found.config == {
        "rope_scaling": {"rope_type": "linear", "factor": 4.0},
        "max_position_embeddings": 256,
    }
    assert found.newer_config["rope_parameters"] == {
        "full_attention": {"rope_theta": 500000.0, "rope_type": "linear", "factor": 4.0},
        "sliding_attention": {"rope_theta": 100.0, "rope_type": "default"},
    }


def extended_model_of_4096_positions(scaling: dict[str, Any] | None) -> Extension:
    """Return the extension to 16,384 of a model whose max_position_embeddings is 4096."""
    config = {**CONFIG, "max_position_embeddings": 4096, "rope_scaling": scaling}
    return pecli.extend(config, 16384)


@pytest.mark.parametrize("scaling", [None, {"rope_type": "dynamic", "factor": 4.0}])
@pytest.mark.usefixtures("without_runtimes")
def test_without_a_fixed_scaling_the_stated_length_is_original_and_longest(
    scaling: dict[str, Any] | None,
) -> None:
    """4096 is stated. Dynamic scaling depends on the length of the prompt, so that its factor, 4,
    does not count.
    """
    found = extended_model_of_4096_positions(scaling)
    assert found.original == 4096
    assert found.longest == 4096


@pytest.mark.usefixtures("without_runtimes")
def test_the_stated_length_of_linear_scaling_is_the_longest() -> None:
    """4096 is stated and includes the factor, 4, so that the original length is 4096 / 4."""
    found = extended_model_of_4096_positions({"rope_type": "linear", "factor": 4.0})
    assert found.original == 4096 / 4
    assert found.longest == 4096


@pytest.mark.parametrize(
    ("scaling", "factor", "original"),
    [
        ({"rope_type": "yarn"}, 4.0, 2048),
        ({"rope_type": "yarn"}, 1.0, 4096),
        ({**LLAMA3, "rope_type": "llama3"}, 8.0, 1024),
    ],
    ids=["yarn", "yarn by 1", "llama3"],
)
@pytest.mark.usefixtures("without_runtimes")
def test_the_longest_length_of_yarn_and_llama3_is_the_factor_times_their_original(
    scaling: dict[str, Any], factor: float, original: int
) -> None:
    """The scaling states its original length; the stated 4096 positions do not count."""
    found = extended_model_of_4096_positions(
        {**scaling, "factor": factor, "original_max_position_embeddings": original}
    )
    assert found.original == original
    assert found.longest == factor * original


@pytest.mark.usefixtures("without_runtimes")
def test_a_model_that_is_served_as_it_is_changes_no_settings() -> None:
    """Its own YaRN reaches 8192 positions, and its reason states it."""
    yarn = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 4096}
    config = {**CONFIG, "max_position_embeddings": 8192, "rope_scaling": yarn}
    found = pecli.extend(config, 8192)

    assert found.config == {}
    assert found.newer_config == {}
    assert found.reason == (
        "it has 8,192 positions as it is, with its own yarn scaling: nothing needs to change"
    )
    assert pecli.extend(config, 8193).config != {}


@pytest.mark.usefixtures("without_runtimes")
def test_a_length_must_not_be_shorter_than_the_original_one() -> None:
    """A model of 4,096 positions may be extended to 4,096, by the factor 1; 4,095 are refused."""
    config = {**CONFIG, "max_position_embeddings": 4096}
    assert pecli.extend(config, 4096, "yarn").factor == 1
    with pytest.raises(ParameterError, match="nothing to stretch from 4,096 positions"):
        pecli.extend(config, 4095, "yarn")


@pytest.mark.usefixtures("without_runtimes")
def test_a_factor_that_reaches_the_length_is_not_noted() -> None:
    """A factor of 2 takes 4,096 positions to 8,192: enough for 8,192, and not for 8,193."""
    config = {**CONFIG, "max_position_embeddings": 4096}
    exact = pecli.extend(config, 8192, "linear", factor=2.0)
    short = pecli.extend(config, 8193, "linear", factor=2.0)
    note = "factor 2 of 4,096 positions reaches 8,192, fewer than 8,193"

    assert note not in exact.notes
    assert note in short.notes


@pytest.mark.usefixtures("without_runtimes")
def test_a_model_that_does_not_state_its_length_is_not_extended() -> None:
    """CONFIG has no max_position_embeddings, from which the factor would follow."""
    with pytest.raises(ParameterError, match="does not say for how many positions"):
        pecli.extend(CONFIG, 8192)


@pytest.mark.usefixtures("without_runtimes")
def test_a_model_with_proportional_frequencies_is_not_extended() -> None:
    """Proportional scaling rotates the first half of the frequencies, here, and leaves the others at
    0; no method for a longer context has such frequencies.
    """
    proportional = {**CONFIG, "max_position_embeddings": 4096, "head_dim": 16}
    proportional["rope_scaling"] = {"rope_type": "proportional", "partial_rotary_factor": 0.5}
    with pytest.raises(ParameterError, match="no other scaling has its proportional frequencies"):
        pecli.extend(proportional, 8192)
