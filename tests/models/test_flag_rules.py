"""Rules by which servers turn flags into frequencies, one command line each.

The model is Llama 2 7B: base 10000, heads of 128 channels, 4,096 positions, no scaling. Its slowest
pair turns by 10000^(−126/128) radians per position. The rules were read from the servers' source:
llama-server is llama.cpp's, server.py text-generation-webui's, /set parameter Ollama's. alpha is a
factor of the base, in exllama's way: base · alpha^(128/126).
"""

import json
import math
import re
from typing import NamedTuple

import pytest

import pecli
from pecli.models.encoding import Encoding
from pecli.models.flag_report import FlagProblem, ParameterChange

DIM = 128
YARN_ATTENTION = 1 + 0.1 * math.log(4)
"""YaRN multiplies cos and sin by this at factor 4."""
ALPHA_2 = 1e4 * 2 ** (DIM / (DIM - 2))
"""The base that exllama computes of alpha 2."""
AUTOMATIC_ALPHA = -0.13436 + 0.80541 * 2 + 0.28833 * 2**2
"""TabbyAPI's alpha for twice the context, from its common/utils.py."""


class Served(NamedTuple):
    """A command line, and what the server computes: its base, divisors and attention factor.

    Attributes:
        flags: The command line.
        base: The base of the frequencies.
        fastest: The number that the fastest frequency is divided by.
        slowest: The number that the slowest frequency is divided by.
        attention: The number that cos and sin are multiplied by.
    """

    flags: str
    base: float = 1e4
    fastest: float = 1.0
    slowest: float = 1.0
    attention: float = 1.0


SERVED = [
    Served("llama-server --rope-freq-base 0"),
    Served("llama-server --rope-freq-scale 0"),
    Served("llama-server --rope-scale 0"),
    Served("llama-server --rope-scale 2", fastest=2, slowest=2),
    Served("llama-server --rope-scaling none --rope-scale 4"),
    Served("llama-server --rope-scaling yarn"),
    Served("llama-server --rope-scaling yarn --rope-scale 4", slowest=4, attention=YARN_ATTENTION),
    Served(
        "llama-server --rope-scaling yarn --rope-scale 4 --yarn-ext-factor -1",
        slowest=4,
        attention=YARN_ATTENTION,
    ),
    Served(
        "llama-server --rope-scaling yarn --rope-scale 4 --yarn-ext-factor 0", fastest=4, slowest=4
    ),
    Served("llama-server --rope-scaling yarn --rope-scale 0.5", slowest=0.5),
    Served(
        "llama-server --rope-scaling yarn --rope-scale 4 --yarn-attn-factor 0.5",
        slowest=4,
        attention=YARN_ATTENTION,
    ),
    Served("llama-server --yarn-attn-factor 0.5", attention=0.5),
    Served("llama-server --yarn-attn-factor -1 --rope-scale 2", fastest=2, slowest=2),
    Served("llama-server --rope-scale 0.5", fastest=0.5, slowest=0.5),
    Served("koboldcpp --ropeconfig 0.5", fastest=2, slowest=2),
    Served("koboldcpp --contextsize 4096"),
    Served("koboldcpp --ropeconfig 0 20000"),
    Served("exllamav2 -rs 0"),
    Served("exllamav2 -rs 1"),
    Served("exllamav2 -rs 2", fastest=2, slowest=2),
    Served("exllamav2 -rs 0.5", fastest=0.5, slowest=0.5),
    Served("exllamav2 -ra 1"),
    Served("exllamav2 -ra 2 -rs 0.5", base=ALPHA_2, fastest=0.5, slowest=0.5),
    Served("exllamav2 -ry 4", slowest=4, attention=YARN_ATTENTION),
    Served("exllamav2 -ry 4 -rs 2", fastest=2, slowest=8, attention=YARN_ATTENTION),
    Served("tabbyAPI --rope-alpha 2", base=ALPHA_2),
    Served("tabbyAPI --rope-alpha auto"),
    Served(
        "tabbyAPI --rope-alpha auto --max-seq-len 8192",
        base=1e4 * AUTOMATIC_ALPHA ** (DIM / (DIM - 2)),
    ),
    Served("server.py --rope_freq_base 0"),
    Served("server.py --rope_freq_base 20000", base=2e4),
    Served("server.py --loader exllamav2 --alpha_value 2", base=ALPHA_2),
    Served("/set parameter num_ctx 4096"),
]


@pytest.fixture(params=SERVED, ids=[served.flags.replace(" ", "_") for served in SERVED])
def served(request: pytest.FixtureRequest) -> Served:
    case: Served = request.param
    return case


def rope_of(flags: str) -> Encoding:
    """Return the rope of Llama 2 7B with these flags."""
    return pecli.load_model("llama-2-7b", flags).one()


def test_the_fastest_frequency_of_llama_2_is_divided_as_the_server_does(served: Served) -> None:
    """The fastest of Llama 2's pairs turns by one radian per position. `served` is a command line,
    such as «llama-server --rope-scale 2», and by its server's source the divisor (`fastest`, 2).
    """
    frequencies = rope_of(served.flags).inverse_frequencies()
    assert frequencies is not None
    assert frequencies[0] == pytest.approx(1 / served.fastest, rel=1e-6)


def test_the_slowest_frequency_of_llama_2_has_the_base_and_divisor_of_the_server(
    served: Served,
) -> None:
    """The slowest of Llama 2's 64 pairs turns by 10000^(−126/128) radians per position. `served` is
    a command line, such as «exllamav2 -ra 2», and by its server's source the base and the divisor
    (`slowest`).
    """
    frequencies = rope_of(served.flags).inverse_frequencies()
    assert frequencies is not None
    expected = served.base ** (-(DIM - 2) / DIM) / served.slowest
    assert frequencies[-1] == pytest.approx(expected, rel=1e-6)


def test_cos_and_sin_have_the_attention_factor_of_the_server(served: Served) -> None:
    """`served` is a command line and the number that its server multiplies cos and sin by. It is 1
    unless YaRN computes it, as 1 + 0.1 ln(factor), which is 1.1386 for 4, or --yarn-attn-factor
    states it.
    """
    attention = rope_of(served.flags).attention_factor()
    assert attention == pytest.approx(served.attention, rel=1e-6)


@pytest.mark.parametrize(
    ("flags", "warning"),
    [
        ("llama-server --grp-attn-n 4", "--grp-attn-n 4 divides positions beyond a window"),
        (
            "llama-server --rope-scaling none --rope-scale 4",
            "--rope-scale 4 has no effect: --rope-scaling is none",
        ),
        (
            "llama-server --rope-scaling yarn",
            "--rope-scaling has no effect without a factor; add --rope-scale",
        ),
        (
            "llama-server --yarn-ext-factor 1",
            "--yarn-ext-factor has no effect without a factor; add --rope-scale",
        ),
        (
            "llama-server --rope-scaling yarn --rope-scale 4 --yarn-attn-factor 0.5",
            "--yarn-attn-factor 0.5 has no effect with YaRN: llama.cpp computes it",
        ),
        ("llama-server --rope-scale 0.5", "--rope-scale 0.5 speeds positions up by 2; 2 is meant"),
        ("exllamav2 -rs 0.5", "-rs 0.5 speeds positions up by 2; 2 is meant"),
    ],
)
def test_a_flag_that_is_ignored_or_has_the_opposite_effect_is_warned_of(
    flags: str, warning: str
) -> None:
    """The servers accept these flags of a Llama 2 in silence. Each row has the beginning of the only
    warning; what happens instead was read from the servers' source.
    """
    (sentence,) = pecli.load_model("llama-2-7b", flags).warnings
    assert sentence.startswith(warning)


@pytest.mark.parametrize(
    "flags",
    [
        "llama-server --grp-attn-n 1",
        "llama-server --rope-scaling none --rope-scale 1",
        "llama-server --rope-scaling yarn --rope-scale 4 --yarn-attn-factor -1",
        "llama-server --rope-freq-scale 1",
        "exllamav2 -rs 1",
        "exllamav2 -rs 1.5",
    ],
)
def test_neutral_and_usual_values_of_flags_are_not_warned_of(flags: str) -> None:
    """A factor of 1 changes nothing, −1 means «unset» in llama.cpp, and exllamav2's -rs, whatever its
    number, is the usual way to stretch a context.
    """
    assert pecli.load_model("llama-2-7b", flags).warnings == ()


def test_the_loader_transformers_is_refused() -> None:
    """text-generation-webui passes --alpha_value to transformers as the factor of a dynamic scaling,
    and to exllama as one of the base: its flags have another meaning beside this loader.
    """
    with pytest.raises(pecli.ParameterError, match="not described; write rope_scaling into"):
        pecli.load_model("llama-2-7b", "server.py --loader transformers --alpha_value 2")


WITHOUT_CONTEXT = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_attention_heads": 4,
    "rope_theta": 1e4,
}


def test_a_model_that_states_no_context_is_scaled_from_2048_positions() -> None:
    """2048 is the default of max_seq_len in exllamav2's config.py. The scaling is YaRN by 4."""
    encoding = pecli.load_model(WITHOUT_CONTEXT, "exllamav2 -ry 4").one()
    assert encoding.parameters["original_max_position_embeddings"] == 2048


@pytest.mark.parametrize(
    ("metadata", "name", "value"),
    [
        ("rope.freq_base=float:20000", "base", 2e4),
        ("rope.scaling.factor=float:2", "factor", 2.0),
        ("rope.scale_linear=float:2", "factor", 2.0),
    ],
)
def test_llama_cpps_override_kv_changes_a_parameter_and_is_named_as_its_source(
    metadata: str, name: str, value: float
) -> None:
    """--override-kv KEY=TYPE:VALUE replaces metadata of the .gguf file. The keys are those of
    llama.cpp's gguf-py, with the architecture («llama») before them.
    """
    encoding = rope_of(f"llama-server --override-kv llama.{metadata}")

    assert encoding.parameters[name] == value
    assert encoding.sources[name] == f"--override-kv llama.{metadata.partition('=')[0]}"


def test_llama_cpps_override_kv_may_make_the_scaling_yarn() -> None:
    """One flag replaces three metadata of Llama 2, which is unscaled: the type, the factor and the
    original context, separated by commas.
    """
    keys = "scaling.type=str:yarn scaling.factor=float:4 scaling.original_context_length=int:1024"
    metadata = ",".join(f"llama.rope.{key}" for key in keys.split())
    parameters = rope_of(f"llama-server --override-kv {metadata}").parameters

    assert parameters["scaling"] == "yarn"
    assert parameters["factor"] == 4
    assert parameters["original_max_position_embeddings"] == 1024


def test_a_flag_of_llama_cpp_takes_precedence_over_its_override_kv() -> None:
    """--override-kv states a base of 20000 as if the model had it, and --rope-freq-base 30000 replaces
    the model's, by llama.cpp's source.
    """
    flags = "llama-server --rope-freq-base 30000 --override-kv llama.rope.freq_base=float:20000"
    assert rope_of(flags).parameters["base"] == 3e4


@pytest.mark.parametrize(
    ("base", "notes"),
    [
        pytest.param(10000, (), id="the model's own base"),
        pytest.param(
            20000,
            ("base 20000 (--rope-freq-base) is alpha 1.978 for heads of 128 with base 10000",),
            id="another base",
        ),
    ],
)
def test_a_base_that_is_not_the_models_own_is_noted_with_its_alpha(
    base: int, notes: tuple[str, ...]
) -> None:
    """Other servers have a flag for alpha instead of the base: base = 10000 · alpha^(128/126). So
    alpha is (20000 / 10000)^(126/128) = 1.97846, which is written with four digits.
    """
    report = pecli.load_model("llama-2-7b", f"llama-server --rope-freq-base {base}").flags
    assert report is not None
    assert report.notes == notes


@pytest.mark.parametrize(
    ("flags", "source"),
    [
        pytest.param("llama-server --rope-freq-base 10000", "--rope-freq-base", id="llama.cpp"),
        pytest.param(
            "llama-server --override-kv llama.rope.freq_base=float:10000",
            "--override-kv llama.rope.freq_base",
            id="metadata",
        ),
        pytest.param("koboldcpp --ropeconfig 1", "koboldcpp's default base", id="koboldcpp"),
    ],
)
def test_a_base_below_the_models_is_warned_of(flags: str, source: str) -> None:
    """Llama 3.1 has the base 500000. With a base of 10000 its slowest pair turns 47 times as fast as
    in training: (500000 / 10000)^(126/128). koboldcpp takes 10000 if --ropeconfig has no base.
    """
    report = pecli.load_model("llama-3.1-8b", flags).flags
    assert report is not None
    sentences = [text for problem, text in report.warnings if problem is FlagProblem.BASE_LOST]
    (sentence,) = sentences

    assert sentence.startswith(f"{source} replaces the model's base 500000 by 10000")
    assert report.notes == ()


def test_a_base_above_the_models_is_not_warned_of() -> None:
    """NTK scaling by hand: the larger base stretches the context of Llama 3.1, whose base is 500000."""
    report = pecli.load_model("llama-3.1-8b", "llama-server --rope-freq-base 1e6").flags
    assert report is not None
    assert report.warnings == ()


@pytest.mark.parametrize(
    "server", ["llama-server --rope-scale 2", "koboldcpp --ropeconfig 0.5 1e4"]
)
def test_notes_on_keys_of_config_json_are_not_about_servers_of_gguf_files(server: str) -> None:
    """The preset has its base only in `rope_theta`. A server of .gguf files reads no such key."""
    assert pecli.load_model("llama-3.1-8b").notes != ()
    assert pecli.load_model("llama-3.1-8b", server).notes == ()


def test_tabbyapis_automatic_alpha_is_1_for_a_model_that_states_no_context() -> None:
    """TabbyAPI computes alpha from --max-seq-len divided by the model's context. Without one alpha is
    1, and the base of WITHOUT_CONTEXT stays at 10000.
    """
    flags = "tabbyAPI --rope-alpha auto --max-seq-len 8192"
    assert pecli.load_model(WITHOUT_CONTEXT, flags).one().parameters["base"] == 1e4


OWN_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}


@pytest.mark.parametrize(
    ("flags", "is_replaced"),
    [
        pytest.param("--rope-scaling yarn --rope-scale 4", False, id="the model's own"),
        pytest.param("--rope-scaling yarn --rope-scale 8", True, id="another factor"),
        pytest.param("--rope-scaling linear --rope-scale 4", True, id="another scaling"),
        pytest.param("--rope-scale 8", True, id="another factor without a scaling"),
        pytest.param("--rope-freq-base 20000", False, id="no scaling and no factor"),
    ],
)
def test_a_flag_with_another_scaling_or_factor_than_the_models_own_is_warned_of(
    flags: str, is_replaced: bool
) -> None:
    """The model was trained with YaRN by 4, by its config. The warning states that the flag replaces
    this scaling.
    """
    config = {**WITHOUT_CONTEXT, "max_position_embeddings": 4096, "rope_scaling": OWN_YARN}
    report = pecli.load_model(config, f"llama-server {flags}").flags
    assert report is not None

    sentences = [warning.text for warning in report.warnings]
    replaced = [text for text in sentences if "the model's own scaling (yarn, factor 4)" in text]
    assert len(replaced) == is_replaced


def test_a_factor_for_a_model_with_yarn_keeps_the_original_context_of_the_model() -> None:
    """The config has YaRN by 4 from 1,024 positions, and 4,096 positions in all. With --rope-scale 8,
    llama.cpp still reads the original context of 1,024 from the .gguf file.
    """
    config = {**WITHOUT_CONTEXT, "max_position_embeddings": 4096, "rope_scaling": OWN_YARN}
    encoding = pecli.load_model(config, "llama-server --rope-scale 8").one()

    assert encoding.parameters["scaling"] == "yarn"
    assert encoding.parameters["original_max_position_embeddings"] == 1024


@pytest.mark.parametrize(
    ("flags", "source"),
    [
        pytest.param(
            "--rope-scaling linear --rope-scale 2", "--rope-scaling", id="a flag for the scaling"
        ),
        pytest.param("--rope-scale 2", "--rope-scale", id="a factor, which means linear"),
        pytest.param(
            "--yarn-ext-factor 1 --rope-scale 2", "--yarn-ext-factor", id="a mix, which means YaRN"
        ),
    ],
)
def test_the_source_of_a_scaling_is_the_flag_that_decides_it(flags: str, source: str) -> None:
    """By llama.cpp's source, positions are scaled linearly if only a factor is given, and by YaRN if
    a mix of both (--yarn-ext-factor) is given. `sources` names the flag for each parameter.
    """
    assert rope_of(f"llama-server {flags}").sources["scaling"] == source


@pytest.mark.parametrize(
    ("context", "is_beyond"),
    [pytest.param(32768, False, id="at the end"), pytest.param(32769, True, id="one more")],
)
def test_a_context_beyond_yarns_factor_times_the_original_context_is_warned_of(
    context: int, is_beyond: bool
) -> None:
    """YaRN by 4 from 8,192 positions reaches 4 · 8192 = 32,768. Flags state both numbers; Llama 2's own
    context of 4,096 does not count.
    """
    flags = "--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 8192"
    warnings = pecli.load_model("llama-2-7b", f"llama-server {flags} -c {context}").warnings

    assert any("is longer than the 32,768 positions" in line for line in warnings) == is_beyond


@pytest.mark.parametrize(
    ("context", "is_beyond"),
    [
        pytest.param(131072, False, id="4 · 32,768"),
        pytest.param(131073, True, id="one more"),
        pytest.param(163840, True, id="4 · 40,960"),
    ],
)
def test_yarn_reaches_no_further_if_the_model_states_more_than_the_original_context(
    context: int, is_beyond: bool
) -> None:
    """Qwen3 states 40,960 positions, and YaRN by 4 is made for 32,768 of them. vLLM derives
    4 · 32,768 = 131,072 as the longest context (`_get_and_verify_max_len`), not 163,840.
    """
    settings = {
        "rope_theta": 1000000,
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32768,
    }
    overrides = json.dumps({"rope_parameters": settings})
    flags = f"vllm serve m --max-model-len {context} --hf-overrides '{overrides}'"
    warnings = pecli.load_model("qwen3-8b", flags).warnings

    assert any("is longer than the 131,072 positions" in line for line in warnings) == is_beyond


@pytest.mark.parametrize(
    ("flags", "effect"),
    [
        pytest.param(
            "--rope-scaling linear",
            "--rope-scaling leaves the model's own llama3 frequencies as",
            id="a scaling without a factor",
        ),
        pytest.param(
            "--rope-scale 2",
            "--rope-scale scales the model's own llama3 frequencies once more",
            id="a factor",
        ),
    ],
)
def test_a_warning_states_that_flags_do_not_replace_llama_3_1s_scaling(
    flags: str, effect: str
) -> None:
    """A .gguf of Llama 3.1 has the divisors of its frequencies in a tensor, rope_freqs.weight, which
    llama.cpp applies whatever the flags are. `effect` is the beginning of the only warning.
    """
    (warning,) = pecli.load_model("llama-3.1-8b", f"llama-server {flags}").warnings
    assert warning.startswith(effect)


def test_the_report_lists_the_parameters_that_flags_change() -> None:
    """The flag changes Llama 2's base from 10000 to 20000, and no other parameter."""
    report = pecli.load_model("llama-2-7b", "llama-server --rope-freq-base 20000").flags
    change_of_base = ParameterChange(
        layer_type="", name="base", before=1e4, after=2e4, source="--rope-freq-base"
    )

    assert report is not None
    assert report.changes == (change_of_base,)


@pytest.mark.parametrize(
    ("flags", "advice"),
    [
        (
            "ollama --rope-wibble 3",
            "it has --num-ctx, --context-length, --rope-frequency-base, --rope-frequency-scale",
        ),
        ("llama-server --ctx-sice 8192", "did you mean --ctx-size?"),
    ],
)
def test_an_unknown_flag_is_refused_with_a_similar_one_or_all_of_the_server(
    flags: str, advice: str
) -> None:
    """«--rope-wibble» is like no flag of Ollama, so that its flags about positions are listed;
    «--ctx-sice» is nearly «--ctx-size».
    """
    with pytest.raises(pecli.ParameterError, match=re.escape(advice)):
        pecli.load_model("llama-2-7b", flags)


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param("PARAMETER num_ctx 8192", id="a line of a Modelfile"),
        pytest.param("num_ctx: 8192", id="YAML"),
        pytest.param("OLLAMA_CONTEXT_LENGTH=8192 ollama serve", id="a variable"),
    ],
)
def test_the_context_is_read_from_settings_of_ollama_without_dashes(flags: str) -> None:
    """Ollama takes its settings from files and the environment rather than from flags."""
    assert pecli.load_model("llama-2-7b", flags).context == 8192


def test_a_parameter_of_a_replaced_scaling_has_no_source_any_more() -> None:
    """`sources` names the key or flag of each parameter. The config's YaRN has a beta_fast, which the
    linear scaling of the flags lacks; the base still is that of the key rope_theta.
    """
    yarn = {"rope_type": "yarn", "factor": 4.0, "beta_fast": 16.0}
    config = {**WITHOUT_CONTEXT, "max_position_embeddings": 4096, "rope_scaling": yarn}
    flags = "llama-server --rope-scaling linear --rope-scale 2"
    encoding = pecli.load_model(config, flags).one()

    assert "beta_fast" not in encoding.sources
    assert encoding.sources["base"] == "rope_theta"


def test_koboldcpp_does_not_raise_the_base_of_a_model_with_yarn() -> None:
    """For --contextsize 65536 KoboldCpp raises the base of a model of 4,096 positions to more than
    500000. The config here has YaRN, by which the context is stretched already: its base of 10000
    stays.
    """
    yarn = {"rope_type": "yarn", "factor": 4.0}
    config = {**WITHOUT_CONTEXT, "max_position_embeddings": 4096, "rope_scaling": yarn}
    encoding = pecli.load_model(config, "koboldcpp --contextsize 65536").one()

    assert encoding.parameters["base"] == 1e4


def corrected_pair(rotations: float, original_length: float) -> float:
    """Return the pair of Llama 2 that turns so often in the original length, by YaRN's formula.

    It may lie beyond the last pair: `base` is 10000, and `DIM` channels are 128.
    """
    return DIM * math.log(original_length / (2 * math.pi * rotations)) / (2 * math.log(1e4))


def test_the_ramp_of_llama_cpps_yarn_ends_at_channel_127_at_most() -> None:
    """YaRN's ramp leads from pairs that keep their frequency to pairs that are divided by 4. It starts
    at the pair that turns beta_fast times in the original length, and ends at that of beta_slow, but
    at d − 1 = 127 at most (ggml_rope_yarn_corr_dims). An original length of 2^40 puts the end beyond
    127; a beta_fast of 1e9 leaves the start at 35, before the last pair, 63.
    """
    flags = "--rope-scaling yarn --rope-scale 4 --yarn-ext-factor 0.5 --yarn-beta-fast 1e9"
    frequencies = rope_of(f"llama-server {flags} --yarn-orig-ctx {2**40}").inverse_frequencies()
    assert frequencies is not None

    start = math.floor(corrected_pair(rotations=1e9, original_length=2**40))
    assert start == 35
    assert corrected_pair(rotations=1.0, original_length=2**40) > 127
    end = 127
    kept_share = 1 - (63 - start) / (end - start)
    # An ext factor of one half halves the share of a pair that keeps its frequency.
    kept_share *= 0.5
    expected = 1e4 ** (-126 / 128) * (kept_share + (1 - kept_share) / 4)
    assert frequencies[63] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("flags", ["llama-server --rope-scale 2", "exllamav2 -rs 2"])
def test_a_factor_on_top_of_longrope_keeps_its_attention_factor_and_is_warned_of(
    flags: str,
) -> None:
    """Phi-3.5 is scaled by longrope already. Both servers divide positions by 2 besides, which is
    seldom meant, and multiply cos and sin by longrope's attention factor as before.
    """
    unflagged = pecli.load_model("phi-3.5-mini").one()
    flagged = pecli.load_model("phi-3.5-mini", flags)

    assert flagged.one().attention_factor() == unflagged.attention_factor()
    assert any("the model's own longrope" in warning for warning in flagged.warnings)


@pytest.mark.parametrize("flags", ["llama-server --rope-scale 2", "exllamav2 -rs 2"])
def test_flags_scale_the_language_model_and_not_the_tower_for_images(flags: str) -> None:
    """Qwen2.5-VL has a rotary tower for images, which these servers do not scale."""
    text, vision = pecli.load_model("qwen2.5-vl-7b", flags)
    assert text.parameters["scaling"] == "linear"
    assert vision.parameters["scaling"] == "none"


@pytest.mark.parametrize("flags", ["exllamav2 -rs 2", "koboldcpp --contextsize 8192"])
def test_flags_of_servers_leave_a_learned_table_as_it_is(flags: str) -> None:
    """BERT has 512 learned rows and no frequencies that a flag could scale."""
    (encoding,) = pecli.load_model("bert-base-uncased", flags)
    assert encoding.scheme == "learned"
    assert encoding.parameters["max_len"] == 512


@pytest.mark.parametrize(
    ("model", "flags"),
    [
        pytest.param("qwen2.5-7b", "koboldcpp --contextsize 65536", id="Qwen in KoboldCpp"),
        pytest.param("bert-base-uncased", "koboldcpp --contextsize 8192", id="a learned table"),
        pytest.param("llama-2-7b", "vllm serve x --max-model-len 8192", id="vLLM"),
    ],
)
def test_a_context_that_nothing_stretches_is_warned_of(model: str, flags: str) -> None:
    """The context asked for is longer than the model's, and no flag scales: KoboldCpp stretches
    neither Qwen2.5 nor learned tables, and vLLM only allows the length.
    """
    (warning,) = pecli.load_model(model, flags).warnings
    assert "positions that the model has, and nothing stretches them" in warning


@pytest.mark.parametrize(
    ("flags", "rule"),
    [
        ("--rope-scale", "--rope-scale without a value; it needs one"),
        ("a long context", "is no flags; none of them is about positions"),
        ("text-generation-launcher --rope-factor 2", "its flags are not described; those of llama"),
        ("docker run x/text-generation-inference:3 --rope-factor 2", "its flags are not described"),
        ("trtllm-serve m --max_seq_len 8192", "is trtllm-serve; its flags are not described"),
        ("--temp 5", "is --temp; none of them is about positions in llama.cpp"),
        ("llama-server --rope-scaling ntk", "it must be one of none, linear, yarn, longrope"),
        (
            "vllm serve x --max-model-len 99999999999999",
            "it must be a number of positions, up to 1,099,511,627,776",
        ),
        (
            "vllm serve x --rope-wibble 3",
            "has no such flag; it has --hf-overrides, --max-model-len, --rope-scaling, --rope-theta",
        ),
    ],
)
def test_flags_that_no_server_understands_are_refused(flags: str, rule: str) -> None:
    """A flag without a value, text that is no command line, flags of other matters, unknown words,
    a length beyond 2^40, and a misspelled flag.
    """
    with pytest.raises(pecli.ParameterError, match=rule):
        pecli.load_model("llama-2-7b", flags)


@pytest.mark.parametrize(
    ("keys_of_the_base", "base"),
    [({"rope_parameters": {"rope_theta": 5e5}}, 5e5), ({"rope_theta": 2e5}, 2e5)],
    ids=["within rope_parameters", "beside rope_parameters"],
)
def test_sglang_keeps_the_base_when_a_flag_replaces_the_settings(
    keys_of_the_base: dict[str, object], base: float
) -> None:
    """SGLang's --json-model-override-args replaces all of rope_parameters by linear scaling without
    a base; the base must still be the one that the config had, in either place.
    """
    sizes = {"model_type": "llama", "hidden_size": 256, "num_attention_heads": 4}
    settings = '{"rope_parameters": {"rope_type": "linear", "factor": 2.0}}'
    flags = f"sglang.launch_server --json-model-override-args '{settings}'"
    encoding = pecli.load_model({**sizes, **keys_of_the_base}, flags).one()
    assert encoding.parameters["scaling"] == "linear"
    assert encoding.parameters["base"] == base


def test_a_flag_does_not_change_the_preset_for_later_calls() -> None:
    """Flags change a copy of the preset's config. The base of Qwen3-VL, 5e6, is in an object within
    an object, which a shallow copy would share.
    """
    pecli.load_model("qwen3-vl-2b", "vllm serve m --rope-theta 12345")
    assert pecli.load_model("qwen3-vl-2b").encodings[0].parameters["base"] == 5e6


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("Llama('x.gguf', rope_freq_scale=0.5)", id="a call"),
        pytest.param("llm = Llama('x.gguf', rope_freq_scale=0.5)", id="its result has a name"),
        pytest.param(
            "from llama_cpp import Llama\nllm = Llama('x.gguf', rope_freq_scale=0.5)",
            id="below an import",
        ),
    ],
)
def test_python_code_is_read_as_it_stands_in_a_notebook(code: str) -> None:
    """llama-cpp-python's rope_freq_scale of 0.5 is linear scaling by 1 / 0.5 = 2."""
    rope = pecli.load_model("llama-2-7b", flags=code).one().rope(seq_len=1)
    assert rope.scaling == "linear"
    assert rope.factor == 2
