"""Headers of GGUF files, llama.cpp's format, are read as llama.cpp reads them, with the divisors of
frequencies in their tensors.

`write_gguf` writes a header from a mapping, whose keys are llama.cpp's without the name of the
architecture: rope.freq_base is the base, rope_freqs.weight divides the frequencies, attn_factor
multiplies cos and sin. Expected values are base^(−2i/d), divided or scaled by hand, and rules of
llama.cpp's source.
"""

import contextlib
import json
import math
import os
import struct
from pathlib import Path
from typing import Any

import pytest

import pecli
from pecli.models.find import load_model
from tests.exit_codes import CHECK_FAILED, FILE_ERROR, SUCCESS, USAGE_ERROR
from tests.models.facts import facts_by_layer_type, has_facts, only_encoding, stored, write_gguf

QWEN2_HEADER = {"context_length": 131072, "embedding_length": 3584, "attention.head_count": 28, "rope.freq_base": 1e6,
        "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 32768}  # fmt: skip
PHI3_HEADER = {"rope.dimension_count": 4, "rope.scaling.type": "longrope", "rope.scaling.original_context_length": 4096,
       "rope.scaling.attn_factor": 1.25}  # fmt: skip
LLAMA_3_1_HEADER = {"context_length": 131072, "embedding_length": 4096, "attention.head_count": 32,
             "rope.dimension_count": 128, "rope.freq_base": 500000.0}  # fmt: skip
SIZES = {"embedding_length": 512, "attention.head_count": 8, "context_length": 2048}
LONG_FACTORS = "rope_factors_long.weight"
SHORT_FACTORS = "rope_factors_short.weight"
ROPE_FREQS = "rope_freqs.weight"


@pytest.mark.parametrize("version", [2, 3])
def test_a_header_of_gguf_is_read_as_the_config_it_was_made_from(
    tmp_path: Path, version: int
) -> None:
    """The header is Qwen2.5's with YaRN by 4; the config beside it says the same in Hugging Face's
    keys.
    """
    model = load_model(write_gguf(tmp_path / "m.gguf", "qwen2", QWEN2_HEADER, version=version))
    scaling = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    sizes = {"hidden_size": 3584, "num_attention_heads": 28, "rope_theta": 1e6}
    found = model.one()
    same = only_encoding({"model_type": "qwen2", "rope_scaling": scaling, **sizes})

    assert model.model_type == "qwen2"
    assert model.context == 131072
    assert found.inverse_frequencies() == same.inverse_frequencies()
    assert found.attention_factor() == same.attention_factor()

    source = "qwen2.embedding_length // qwen2.attention.head_count"
    assert has_facts(
        found,
        {"layout": "halves", "source of base": "qwen2.rope.freq_base", "source of dim": source},
    )


def test_gemma_4_divides_by_1e30_where_nothing_rotates(tmp_path: Path) -> None:
    """Gemma 4 writes a divisor of 1e30 for pairs that it does not rotate."""
    values = {**LLAMA_3_1_HEADER, "rope.dimension_count": 8}
    path = write_gguf(tmp_path / "m.gguf", "gemma4", values, {ROPE_FREQS: [1.0, 1.0, 1e30, 1e30]})
    frequencies = load_model(path).encodings[0].inverse_frequencies() or []

    assert frequencies[0] == 1.0
    assert frequencies[-1] < 1e-29


@pytest.mark.parametrize(("code", "kind"), [("", 0), ("e", 1), ("d", 28)])
def test_frequencies_are_divided_by_the_tensor_whatever_its_float_type(
    tmp_path: Path, code: str, kind: int
) -> None:
    """GGML types 0, 1 and 28 are float32, float16 and float64; the expected frequencies are
    base^(-i/4) / factor.
    """
    factors = [1.0, 1.5, 4.0, 8.0]
    values = {**LLAMA_3_1_HEADER, "rope.dimension_count": 8}
    path = write_gguf(tmp_path / "m.gguf", "llama", values, {ROPE_FREQS: factors})

    if code:
        data = path.read_bytes()
        floats = struct.pack("<IQIQ", 1, 4, 0, 0)
        assert floats in data
        changed = data.replace(floats, struct.pack("<IQIQ", 1, 4, kind, 0))[:-32] + struct.pack(
            f"<4{code}", *factors
        )
        path.write_bytes(changed)

    found = only_encoding(path)
    expected = [500000.0 ** (-i / 4) / factor for i, factor in enumerate(factors)]
    assert found.inverse_frequencies() == pytest.approx(expected, rel=1e-14)
    assert found.attention_factor() == 1.0
    assert found.layout == "interleaved"
    assert pecli.verify(path, path).passed


def test_a_window_is_a_positive_whole_number(tmp_path: Path) -> None:
    """Anything else in attention.sliding_window, as in files of other writers, counts as no window."""
    for window, known in ((4096, 4096), (1, 1), (0, None), ("4096", None), ([4096, 0], None)):
        path = write_gguf(
            tmp_path / "m.gguf", "llama", {**SIZES, "attention.sliding_window": window}
        )
        assert load_model(path).window == known, window


def test_longrope_has_its_divisors_in_tensors(tmp_path: Path) -> None:
    """Up to the original 4096 positions the short ones divide the frequencies 1 and 0.01, beyond it
    the long ones.
    """
    found = only_encoding(
        write_gguf(
            tmp_path / "m.gguf",
            "phi3",
            PHI3_HEADER,
            {LONG_FACTORS: [2.0, 4.0], SHORT_FACTORS: [1.0, 1.5]},
        )
    )

    assert found.inverse_frequencies(4096) == pytest.approx([1.0, 0.01 / 1.5], rel=1e-15)
    assert found.inverse_frequencies(4097) == pytest.approx([0.5, 0.01 / 4], rel=1e-15)
    assert found.attention_factor() == 1.25
    assert has_facts(
        found, {"source of long_factor": LONG_FACTORS, "source of short_factor": SHORT_FACTORS}
    )


@pytest.mark.parametrize(
    ("kind", "rule"), [("longrope", "it needs the tensors rope_factors_"), ("su", "known are")]
)
def test_longrope_without_both_tensors_and_unknown_scalings_are_refused(
    tmp_path: Path, kind: str, rule: str
) -> None:
    """longrope needs the tensors of long and short factors; «su» is its name in older configs,
    which llama.cpp never writes.
    """
    for tensors in ({}, {SHORT_FACTORS: [1.0, 1.5]}, {LONG_FACTORS: [2.0, 4.0]}):
        path = write_gguf(
            tmp_path / "m.gguf", "phi3", {**PHI3_HEADER, "rope.scaling.type": kind}, tensors
        )
        with pytest.raises(pecli.FileError, match=f"phi3.rope.scaling.type is '{kind}'; {rule}"):
            load_model(path)


def test_yarn_linear_and_no_scaling_are_read_from_a_header(tmp_path: Path) -> None:
    """llama.cpp multiplies YaRN's 1 + 0.1 ln(factor) by attn_factor; yarn_log_multiplier is what
    Hugging Face calls mscale_all_dim.
    """
    given = {
        "yarn_beta_fast": 16.0,
        "yarn_beta_slow": 2.0,
        "yarn_log_multiplier": 0.5,
        "attn_factor": 0.5,
    }
    found = only_encoding(
        write_gguf(
            tmp_path / "y.gguf",
            "qwen2",
            QWEN2_HEADER | {f"rope.scaling.{key}": given[key] for key in given},
        )
    )

    assert has_facts(
        found, {"beta_fast": 16.0, "beta_slow": 2.0, "mscale_all_dim": 0.5, "mscale": 1.0}
    )
    assert found.attention_factor() == pytest.approx(0.5 * (1 + 0.1 * math.log(4)), rel=1e-15)
    with pytest.raises(pecli.ParameterError, match="factor is missing; yarn scaling needs it"):
        only_encoding(
            write_gguf(
                tmp_path / "n.gguf",
                "qwen2",
                {**QWEN2_HEADER, "rope.scaling.factor": 0.0, "rope.scaling.attn_factor": 0.5},
            )
        )

    plain = only_encoding(
        write_gguf(tmp_path / "p.gguf", "qwen2", {**QWEN2_HEADER, "rope.scaling.type": "none"})
    )
    assert has_facts(plain, {"scaling": "none", "source of scaling": "qwen2.rope.scaling.type"})

    found = only_encoding(
        write_gguf(tmp_path / "l.gguf", "qwen2", {**QWEN2_HEADER, "rope.scaling.type": "linear"})
    )
    assert found.inverse_frequencies() == pytest.approx(
        [1e6 ** (-i / 64) / 4 for i in range(64)], rel=1e-14
    )


LAYERS = stored("tables.json")["gguf"]
"""Of an architecture: what llama.cpp's source has for sliding layers, a base and scaling, where the file is silent."""


@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_an_architecture_are_those_of_llama_cpp(tmp_path: Path, name: str) -> None:
    """The expected layers of each architecture were read by hand from the source of llama.cpp; 8 is
    ALiBi's usual max_bias.
    """
    (values, expected), bias = LAYERS[name], LAYERS[name][0].get("attention.max_alibi_bias")
    path = write_gguf(tmp_path / "m.gguf", name.partition(" ")[0].rstrip(","), values)

    assert {layer: [*row] for layer, row in facts_by_layer_type(path).items()} == expected
    assert {each.parameters["max_bias"] for each in load_model(path) if each.scheme == "alibi"} <= {
        bias or 8.0
    }


SLIDING_PATTERN = "attention.sliding_window_pattern"


@pytest.mark.parametrize(
    ("architecture", "values", "unrotated"),
    [
        ("llama4", {}, [3, 7]),
        ("llama4", {"attention.sliding_window": 0}, []),
        ("smollm3", {}, [3, 7]),
        ("smollm3", {"nextn_predict_layers": 1}, [3]),
        ("cohere2", {}, [3, 7]),
        ("cohere2", {SLIDING_PATTERN: 2}, [1, 3, 5, 7]),
        ("cohere2", {SLIDING_PATTERN: 0}, [3, 7]),
        ("cohere2", {SLIDING_PATTERN: [True, False] * 4}, [1, 3, 5, 7]),
        ("cohere2", {SLIDING_PATTERN: [True, False]}, [3, 7]),
        ("cohere2moe", {}, [0, 4]),
        ("cohere2moe", {"leading_dense_block_count": 2}, [4]),
        ("smallthinker", {}, []),
        ("smallthinker", {"attention.sliding_window": 64}, [0, 4]),
        ("exaone-moe", {}, [3, 7]),
        ("exaone4", {}, []),
        ("exaone4", {"block_count": 64}, [3, 7]),
        ("llama", {}, []),
    ],
)
def test_layers_without_rotation_follow_from_the_architecture(
    tmp_path: Path, architecture: str, values: dict[str, Any], unrotated: list[int]
) -> None:
    """The patterns are `set_swa_pattern` and `n_no_rope_layer_step` in llama.cpp's source: every
    fourth layer, or those with full attention, of which a period or a flag per layer is stored.
    A pattern of 0, or shorter than the 8 layers, is none; the last layers may predict further
    tokens. Of EXAONE 4.0, only the model of 64 layers has a window.
    """
    header = {**SIZES, "block_count": 8, **values}
    model = load_model(write_gguf(tmp_path / "m.gguf", architecture, header))

    assert [k for k in range(8) if model.is_unrotated(f"layers.{k}.q")] == unrotated


@pytest.mark.parametrize(
    ("arch", "mixed"), [("qwen2vl", False), ("qwen3vl", True), ("glm4", False)]
)
def test_sections_of_mrope_are_read_and_zeros_are_none(
    tmp_path: Path, arch: str, mixed: bool
) -> None:
    """GGUF pads the three sections with a zero; four zeros stand for a model without sections."""
    values = {"rope.dimension_count": 128}
    found = only_encoding(
        write_gguf(
            tmp_path / "m.gguf", arch, {**values, "rope.dimension_sections": [16, 24, 24, 0]}
        )
    )

    assert has_facts(
        found, {"mrope_section": [16, 24, 24], "mrope_interleaved": mixed, "layout": "halves"}
    )
    assert found.rope(8).mrope_section == (16, 24, 24)

    layout = "interleaved" if arch == "glm4" else "halves"
    for none in ({}, {"rope.dimension_sections": [0, 0, 0, 0]}):
        found = only_encoding(write_gguf(tmp_path / "m.gguf", arch, {**values, **none}))
        assert has_facts(found, {"mrope_section": None, "layout": layout})


def test_keys_that_are_unread_or_contradict_each_other_are_warned_about(tmp_path: Path) -> None:
    """The doubts: an unread key, a base left out of a long context, a lost llama3 scaling, a factor
    that does not make the context.
    """
    values = {**SIZES, "context_length": 16384, "rope.wibble": 3, "rope.scaling.finetuned": 1}
    unread, base = load_model(write_gguf(tmp_path / "m.gguf", "llama", values)).warnings

    assert unread == "llama has rope.wibble (3), which nothing here reads"
    assert base.endswith("rope.freq_base is missing: llama.cpp then takes 10000")
    for silent in (
        {**SIZES, "context_length": 16383},
        {key: QWEN2_HEADER[key] for key in QWEN2_HEADER if key != "rope.freq_base"},
    ):
        assert not load_model(write_gguf(tmp_path / "m.gguf", "llama", silent)).warnings

    (lost,) = load_model(write_gguf(tmp_path / "m.gguf", "llama", LLAMA_3_1_HEADER)).warnings
    assert "are those of Llama 3.1, but its scaling (llama3, factor 8) is not given" in lost
    assert lost.endswith("rope_freqs.weight may have been lost")

    unscaled = {**QWEN2_HEADER, "context_length": 32768}
    (short,) = load_model(write_gguf(tmp_path / "m.gguf", "qwen2", unscaled)).warnings
    assert "32768 positions make 131072, but the model says 32768 (context_length)" in short


@pytest.mark.parametrize(
    "names", ["llama qwen2 phi3 gemma2 gemma3 gpt-oss falcon olmo2 glm4moe", "gptj foobar"]
)
def test_architectures_without_a_rope_type_of_ggml_are_warned_about(
    tmp_path: Path, names: str
) -> None:
    """The first row lists architectures that llama.cpp's llama_model_rope_type knows, the second
    ones that it does not.
    """
    for arch in names.split():
        model = load_model(write_gguf(tmp_path / "m.gguf", arch, SIZES))
        is_known = "llama" in names
        doubt = f"architecture '{arch}' is unknown: read by the general rules; check layout and defaults"
        source = f"ggml's rope type of {arch}" if is_known else "of no known architecture"
        assert model.warnings == (() if is_known else (doubt,))
        assert model.encodings[0].sources["layout"] == f"family default ({source})"


def llama3_factors(factor: float) -> list[float]:
    """What divides frequencies, by the rule of Meta's code: nothing for short waves, all for those
    beyond 8192.
    """
    waves = [2 * math.pi * 500000.0 ** (i / 64) for i in range(64)]
    smooth = [min(max((8192 / wave - 1) / 3, 0.0), 1.0) for wave in waves]
    return [1 / ((1 - share) / factor + share) for share in smooth]


def test_factors_are_verified_against_a_model_or_the_header(tmp_path: Path, run_pecli) -> None:
    """The factors of rope_freqs.weight are computed by Meta's llama3 rule: by 8 as published, or
    wrongly by 32.
    """
    (tmp_path / "right").mkdir()
    tensors = {ROPE_FREQS: llama3_factors(8.0), "token_embd.weight": [0.5]}
    right = write_gguf(tmp_path / "right/r.gguf", "llama", LLAMA_3_1_HEADER, tensors)
    wrong = write_gguf(
        tmp_path / "w.gguf", "llama", LLAMA_3_1_HEADER, {ROPE_FREQS: llama3_factors(32.0)}
    )

    for words in (
        (right, "--config", "llama-3.1-8b"),
        (f"{right}:{ROPE_FREQS}", "--model", "llama-3.1-8b"),
    ):
        assert run_pecli("verify", *words).exit_code == SUCCESS

    outcome = run_pecli("verify", wrong, "--config", "llama-3.1-8b")
    assert outcome.exit_code == CHECK_FAILED
    assert "factor is 32 (the spec says 8)" in outcome.out
    for given in (right, right.parent):
        found = run_pecli("verify", given, "--json").json
        assert found["passed"] is True
        assert found["tensors"][0]["name"] == f"{ROPE_FREQS}/inv_freq"
    assert "cannot tell these factors from others" in found["weak"][-1]


FACTORS = [
    (
        llama3_factors(8.0)[:32],
        USAGE_ERROR,
        f"{ROPE_FREQS} is 32 numbers; there must be one for each of 64 frequencies",
    ),
    ([math.nan] * 64, FILE_ERROR, f"{ROPE_FREQS} is [nan, "),
    ([0.0] * 64, USAGE_ERROR, f"{ROPE_FREQS}[0] is 0; it must be a finite number"),
]


@pytest.mark.parametrize(
    ("factors", "code", "problem"), FACTORS, ids=["32 of 64", "not a number", "zero"]
)
def test_divisors_of_a_wrong_count_or_that_are_nan_or_0_are_refused(
    tmp_path: Path, run_pecli, factors: list[float], code: int, problem: str
) -> None:
    """A Llama with heads of 128 channels has 64 frequencies. NaN is no content of a file, other
    numbers are wrong values; against a given config each file fails the check.
    """
    path = write_gguf(tmp_path / "x.gguf", "llama", LLAMA_3_1_HEADER, {ROPE_FREQS: factors})
    outcome = run_pecli("verify", path)

    assert outcome.exit_code == code
    assert problem in outcome.err
    assert run_pecli("verify", path, "--config", "llama-3.1-8b").exit_code == CHECK_FAILED


def test_exchanged_long_and_short_factors_are_named(tmp_path: Path, run_pecli) -> None:
    """phi3 has both lists; verified against a config with the same ones they pass, and exchanged
    they fail with that reason.
    """
    long, short = [1.0, 2.0, 8.0, 40.0], [1.0, 1.0, 1.5, 2.0]
    scaling = {"type": "longrope", "long_factor": long, "short_factor": short}
    lengths = {"max_position_embeddings": 131072, "original_max_position_embeddings": 4096}
    config = {
        "model_type": "phi3",
        "hidden_size": 64,
        "num_attention_heads": 8,
        "rope_scaling": scaling,
        **lengths,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    sizes = {"embedding_length": 64, "attention.head_count": 8, "rope.dimension_count": 8}

    for first, second, code in ((long, short, 0), (short, long, 1)):
        path = write_gguf(
            tmp_path / "m.gguf",
            "phi3",
            {**PHI3_HEADER, **sizes},
            {LONG_FACTORS: first, SHORT_FACTORS: second},
        )
        outcome = run_pecli("verify", path, "--config", tmp_path / "config.json")
        assert outcome.exit_code == code
        assert ("short_factor is used where long_factor belongs" in outcome.out) == bool(code)


START = b"GGUF" + struct.pack("<I", 3)
TEXTS = struct.pack("<QQQ", 0, 1, 1) + b"t" + struct.pack("<IIQ", 9, 8, 1 << 26)
KEY = struct.pack("<Q", 4) + b"%04d" + struct.pack("<I", 8) + struct.pack("<Q", 1 << 20)
LIST = struct.pack("<Q", 4) + b"%04d" + struct.pack("<IIQ", 9, 0, 4096)
SPARSE: list[tuple[list[bytes], int, str]] = [
    ([START + struct.pack("<QQ", 1 << 20, 0)], 1 << 26, "tensors"),
    ([START + TEXTS], 1 << 30, "more than 16 MB"),
    (
        [START + struct.pack("<QQQ", 0, 1, 17) + b"general.alignment" + struct.pack("<II", 4, 0)],
        0,
        "alignment 0",
    ),
    ([START + struct.pack("<QQ", 0, 1000), *[KEY] * 1000], 1 << 20, "more than 16 MB"),
    ([START + struct.pack("<QQ", 0, 1000), *[LIST] * 1000], 4096, "more than 16 MB"),
]


def test_a_header_that_claims_more_than_the_file_can_hold_is_refused(
    tmp_path: Path, run_pecli
) -> None:
    """Sparse files claim gigabytes of keys, lists or tensors; they must be refused before anything
    is allocated.
    """
    path = tmp_path / "m.gguf"
    for pieces, gap, problem in SPARSE:
        with path.open("wb") as file:
            file.write(pieces[0])
            for number, piece in enumerate(pieces[1:]):
                file.write(piece.replace(b"%04d", b"%04d" % number))
                file.seek(gap, os.SEEK_CUR)
            file.truncate(max(file.tell(), gap))
        outcome = run_pecli("config", path)
        assert outcome.exit_code == FILE_ERROR
        assert problem in outcome.err


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (struct.pack("<If", 6, 32.0), "has the alignment 32.0"),
        (struct.pack("<IQ", 8, 2) + b"32", "has the alignment '32'"),
        (struct.pack("<Ii", 5, -32), "has the alignment -32"),
    ],
    ids=["float", "text", "negative"],
)
def test_an_alignment_that_is_no_positive_integer_is_refused(
    tmp_path: Path, value: bytes, problem: str
) -> None:
    """Types 6, 8 and 5 of GGUF are float32, text and int32; general.alignment must be an unsigned
    number.
    """
    key = struct.pack("<QQQ", 0, 1, 17) + b"general.alignment"
    path = tmp_path / "m.gguf"
    path.write_bytes(START + key + value)

    with pytest.raises(pecli.FileError, match=problem):
        pecli.load(path)


def test_overwritten_values_of_gguf_raise_only_our_errors(tmp_path: Path) -> None:
    """Eight bytes of 0xff at every seventh place of a header are a fuzz test of lengths, types and
    counts.
    """
    whole = write_gguf(tmp_path / "m.gguf", "qwen2", QWEN2_HEADER).read_bytes()
    path = tmp_path / "h.gguf"
    for at in range(8, len(whole) - 40, 7):
        path.write_bytes(whole[:at] + b"\xff" * 8 + whole[at + 8 :])
        with contextlib.suppress(pecli.PecliError):
            pecli.load_config(path).as_json()
    path.write_bytes(b"{}")

    with pytest.raises(pecli.FileError, match="is not a GGUF file"):
        pecli.load_config(path)


MISSING = stored("tables.json")["gguf without"]


@pytest.mark.parametrize(
    ("arch", "values", "problem"), MISSING, ids=[problem for *_, problem in MISSING]
)
def test_a_header_without_a_needed_key_is_refused_by_its_name(
    tmp_path: Path, arch: str, values: dict[str, Any], problem: str
) -> None:
    """tables.json has architectures with one key too few, and the message that names it."""
    with pytest.raises(pecli.FileError, match=problem):
        load_model(write_gguf(tmp_path / "m.gguf", arch, values))
