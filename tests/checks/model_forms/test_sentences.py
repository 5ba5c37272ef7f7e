"""The sentences of a comparison of two forms of a model: tensors with the same problem share a
line.

A is a Hugging Face folder, B a .gguf file, whose names of tensors are used (blk.3.attn_q.weight is
q of layer 3). Expected sentences are written by hand.
"""

import pytest

from pecli.checks.model_forms.findings import (
    AttentionFactorChanged,
    BeyondRounding,
    ConverterMistake,
    DifferentShape,
    Finding,
    FrequenciesDiffer,
    MissingKey,
    Multiplied,
    NormOffset,
    NoRotaryEncoding,
    PermutedInHeads,
    ScalingLost,
    SectionsChanged,
    SettingsProblem,
    SwappedLayer,
    SwappedTensor,
    TensorDifference,
    UnmatchedTensor,
    ValueChanged,
)
from pecli.checks.model_forms.model_files import ModelFiles, ModelFormat
from pecli.checks.model_forms.sentences import (
    BothModels,
    describe_settings_problem,
    describe_tensors,
    number_ranges,
)
from pecli.checks.model_forms.tensor_names import TensorName
from pecli.models.encoding import ModelEncodings

ENCODINGS = ModelEncodings("", "", ())
HUGGING_FACE_AND_GGUF = BothModels(
    reference=ModelFiles("A", ModelFormat.HUGGING_FACE, "llama", ENCODINGS, "halves"),
    checked=ModelFiles("B", ModelFormat.GGUF, "llama", ENCODINGS, "interleaved"),
)


def sentences_about(*names: str, finding: Finding = ConverterMistake.ALL_ZEROS) -> list[str]:
    return describe_tensors(
        [TensorDifference(name, finding) for name in names], HUGGING_FACE_AND_GGUF
    )


@pytest.mark.parametrize(("numbers", "text"), [((3,), "3"), ((8, 0, 1, 2, 5, 7), "0–2, 5, 7–8")])
def test_numbers_of_layers_are_written_as_ranges(numbers: tuple[int, ...], text: str) -> None:
    """Numbers may come in any order; two in a row are a range."""
    assert number_ranges(numbers) == text


@pytest.mark.parametrize(
    ("name", "layer", "short"),
    [
        pytest.param("blk.3.attn_q.weight", "3", "q", id="a projection"),
        pytest.param("blk.0.attn_qkv.bias", "0", "qkv bias", id="a bias"),
        pytest.param("blk.12.attn_norm.weight", "12", "attn_norm", id="no projection"),
        pytest.param("output.weight", "", "output", id="no layer"),
    ],
)
def test_names_of_tensors_are_shortened_and_parted_from_their_layer(
    name: str, layer: str, short: str
) -> None:
    """In llama.cpp's names, layer k is blk.k. The short name lacks it, and «.weight», as most tensors
    are weights; a bias is stated. «attn_» is dropped before q, k and v only, which are clear
    without it.
    """
    parsed = TensorName.parse(name)
    assert parsed.layer == layer
    assert parsed.short == short


def test_tensors_with_one_problem_share_a_line() -> None:
    """Queries and keys of layers 0, 1 and 3, under llama.cpp's names, are all zeros, the finding that
    `sentences_about` assumes.
    """
    names = [
        "blk.0.attn_k.weight",
        "blk.0.attn_q.weight",
        "blk.1.attn_k.weight",
        "blk.1.attn_q.weight",
        "blk.3.attn_k.weight",
        "blk.3.attn_q.weight",
    ]
    assert sentences_about(*names) == ["B: q and k of layers 0–1, 3 are all zeros"]


def test_a_sentence_about_one_tensor_is_in_the_singular() -> None:
    """The finding is that halves are exchanged: one tensor «has its halves exchanged»."""
    lines = sentences_about("blk.2.attn_q.weight", finding=ConverterMistake.HALVES_EXCHANGED)
    assert lines == ["B: q of layer 2 has its halves exchanged"]


def test_a_sentence_about_two_tensors_is_in_the_plural() -> None:
    """A weight and a bias of one layer «have» what one tensor «has»."""
    names = ("blk.2.attn_q.weight", "blk.2.attn_q.bias")
    lines = sentences_about(*names, finding=ConverterMistake.HALVES_EXCHANGED)

    assert lines == ["B: q and q bias of layer 2 have their halves exchanged"]


def test_a_line_about_several_tensors_has_their_largest_error() -> None:
    """Errors of 0.25 and 0.5 in two layers of ffn_up share a line; the output has its own."""
    finding = BeyondRounding("float16")
    problems = [
        TensorDifference("blk.0.ffn_up.weight", finding, 0.25),
        TensorDifference("blk.1.ffn_up.weight", finding, 0.5),
        TensorDifference("output.weight", finding, 4.0),
    ]

    assert describe_tensors(problems, HUGGING_FACE_AND_GGUF) == [
        "B: ffn_up of layers 0–1 is off by up to 0.5, beyond the rounding of float16",
        "B: output is off by up to 4, beyond the rounding of float16",
    ]


@pytest.mark.parametrize(("experts", "text"), [((0, 1), "(experts 0–1)"), ((4,), "(expert 4)")])
def test_experts_of_a_stacked_tensor_are_listed_by_number(
    experts: tuple[int, ...], text: str
) -> None:
    """blk.0.ffn_up_exps.3.weight is expert 3 of a tensor that stacks all experts of layer 0. The
    sentence about several of them lists their numbers.
    """
    names = [f"blk.0.ffn_up_exps.{expert}.weight" for expert in experts]
    assert sentences_about(*names) == [f"B: ffn_up_exps {text} of layer 0 is all zeros"]


@pytest.mark.parametrize(("length", "where"), [(None, ""), (4096, " at 4,096 positions")])
def test_pairs_of_other_frequencies_are_listed_with_the_context(
    length: int | None, where: str
) -> None:
    """A length is stated if frequencies depend on it, as those of dynamic scaling do."""
    problem = FrequenciesDiffer(pairs=(8, 9, 10), length=length)
    sentence = describe_settings_problem(problem, "B")

    assert sentence == f"B: frequencies of pairs 8–10 differ{where}"


def test_three_tensors_with_one_problem_are_listed_with_commas() -> None:
    """The finding UnmatchedTensor("A") means that a tensor of B is missing in A: here a, b and c of
    layer 0, in one sentence.
    """
    names = [f"blk.0.{part}.weight" for part in "abc"]
    lines = sentences_about(*names, finding=UnmatchedTensor("A"))

    assert lines == ["B: a, b, c of layer 0 are missing in A"]


def test_more_than_twelve_lines_are_counted_and_not_printed() -> None:
    """Each of 14 problems needs a line of its own, as another layer is named in it. Twelve lines
    are printed, and two counted.
    """
    problems = [TensorDifference("x", SwappedLayer(str(layer))) for layer in range(14)]
    assert describe_tensors(problems[:12], HUGGING_FACE_AND_GGUF)[-1] == "B: x is layer 11 of A"
    assert describe_tensors(problems, HUGGING_FACE_AND_GGUF)[-1] == "and 2 more such lines"


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        (NoRotaryEncoding("A"), "A: no rotary encoding"),
        (MissingKey("block_count"), "B: block_count is missing"),
        (
            ValueChanged(
                "base", expected=500000, value=10000, key="rope.freq_base", is_key_missing=False
            ),
            "B: base 500000 → 10000 (rope.freq_base)",
        ),
        (
            ValueChanged(
                "base",
                expected=500000,
                value=10000,
                key="rope.freq_base",
                is_key_missing=True,
                layer_type="full_attention",
            ),
            "B: base 500000 → 10000: rope.freq_base is missing (full_attention)",
        ),
        (SectionsChanged((2, 3, 3), (4, 2, 2)), "B: M-RoPE sections (2, 3, 3) → (4, 2, 2)"),
        (
            ScalingLost("llama3", "rope_freqs.weight"),
            "B: rope_freqs.weight is missing: the llama3 scaling is lost",
        ),
        (AttentionFactorChanged(1.190239, 1.0), "B: attention factor 1.19024 → 1"),
        (
            AttentionFactorChanged(1.0, 1.190239, 8192),
            "B: attention factor 1 → 1.19024 at 8,192 positions",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_setting_that_differs_is_a_sentence(problem: SettingsProblem, sentence: str) -> None:
    """A finding about the settings of B is printed as a sentence: the value of A, an arrow, and the
    value of B, or what is missing. ValueChanged has the setting, both values and the key of B.
    """
    assert describe_settings_problem(problem, "B") == sentence


@pytest.mark.parametrize(
    ("finding", "words"),
    [
        (UnmatchedTensor("B"), "is missing in B"),
        (
            DifferentShape(shape=(4, 3), expected=(3, 4)),
            "is transposed: (4, 3), not (3, 4)",
        ),
        (DifferentShape(shape=(4, 3), expected=(3, 5)), "is (4, 3), not (3, 5)"),
        (
            PermutedInHeads(heads=8, expected=2, are_kv_heads=True),
            "is permuted in 8 heads; the model has 2 kv heads (llama.cpp#3364)",
        ),
        (
            PermutedInHeads(heads=2, expected=8, are_kv_heads=False),
            "is permuted in 2 heads; the model has 8 heads (llama.cpp#3364)",
        ),
        (
            NormOffset(-1, is_one_added=True),
            "is 1 too small: GGUF keeps norms of llama with 1 added",
        ),
        (
            NormOffset(1, is_one_added=False),
            "is 1 too large: GGUF keeps norms of llama without 1 added",
        ),
        (Multiplied(0.5), "is multiplied by 0.5"),
        (SwappedLayer("3"), "is layer 3 of A"),
        (SwappedTensor("attn_v"), "is attn_v of A"),
        (BeyondRounding("Q8_0"), "is off by up to 0.25, beyond the rounding of Q8_0"),
        (ConverterMistake.PERMUTED, "is permuted; llama in GGUF form is not"),
        (ConverterMistake.NOT_PERMUTED, "is not permuted; llama in GGUF form is"),
        (ConverterMistake.PERMUTED_TWICE, "is permuted twice"),
        (
            ConverterMistake.PERMUTED_BACKWARDS,
            "is permuted the wrong way, from interleaved to halves",
        ),
        (ConverterMistake.TRANSPOSED, "is transposed"),
        (ConverterMistake.KEYS_AND_VALUES_EXCHANGED, "has its k and v exchanged"),
        (
            ConverterMistake.QUERIES_AND_KEYS_PERMUTED,
            "is permuted in q and k; llama in GGUF form is not",
        ),
    ],
    ids=str,
)
def test_a_tensor_that_differs_is_a_sentence(finding: Finding, words: str) -> None:
    """A finding about the tensor output.weight of a Llama in GGUF, with a largest error of 0.25, is
    printed as a sentence. Its words follow from the finding, whatever is true of Llama: no case
    depends on which tensors llama.cpp really permutes.
    """
    problem = TensorDifference("output.weight", finding, max_abs_error=0.25)
    assert describe_tensors([problem], HUGGING_FACE_AND_GGUF) == [f"B: output {words}"]


BIASES_AND_A_WEIGHT = [
    *(f"blk.0.{part}.bias" for part in ("g", "f", "e", "attn_v", "attn_k", "attn_q")),
    "blk.0.h.weight",
]
"""Seven tensors of layer 0: six biases, and the weight h."""


def test_a_line_names_six_tensors_and_counts_the_others() -> None:
    """All seven tensors have the same problem, so that they share a line; the last is counted."""
    (line,) = sentences_about(*BIASES_AND_A_WEIGHT)

    assert line.startswith("B: ")
    assert line.endswith(" of layer 0 are all zeros")
    assert "1 more" in line


def test_a_line_names_weights_before_biases_and_queries_before_keys_and_values() -> None:
    """Of seven tensors with the same problem, the weight comes first; then the biases, by name, and
    at last those of q, k and v. A line names six tensors, so that the bias of v is counted.
    """
    (line,) = sentences_about(*BIASES_AND_A_WEIGHT)
    names = "h, e bias, f bias, g bias, q bias, k bias and 1 more"

    assert line == f"B: {names} of layer 0 are all zeros"
