"""What runtimes compute for a model, as text. The results are made by the test."""

from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import pytest

import pecli
from pecli.checks.runtimes import RuntimeComparison, RuntimeResult
from pecli.views.runtime_results import show_extension, show_runtimes

TOLERANCE = 1e-3

RESULT = RuntimeResult("vllm", "0.1", max_abs_error=1e-7)
"""vLLM 0.1 computes what the model defines; its table is off by 1e-7, the rounding of float32."""

HARMLESS = replace(RESULT, departure=5e-4, causes=("ignores it",))
"""vLLM reads a key of the config differently, but this changes the table by less than TOLERANCE."""

HARMFUL = replace(HARMLESS, departure=0.5, first_beyond=1000, pairs=(2, 2))
"""This changes the table by up to 0.5, which is more than TOLERANCE from position 1000 on, in pair 2."""


def lines_about(*results: RuntimeResult, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return what `pecli runtimes` prints about a model that is served with 4096 positions."""
    show_runtimes(RuntimeComparison("model", 4096, TOLERANCE, {"": results}))
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        pytest.param(RESULT, "as defined", id="rounding only"),
        pytest.param(
            replace(RESULT, short_prompts="short prompts get other factors"),
            "as defined for long prompts",
            id="short prompts get other factors",
        ),
        pytest.param(HARMLESS, "deviates by up to 5e-4", id="a deviation within the tolerance"),
    ],
)
def test_the_line_of_a_runtime_that_agrees_ends_with_the_error_of_float32(
    result: RuntimeResult, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second line has the runtime, the verdict, and by how much its float32 is off, 1e-7. A
    reason, such as «ignores it», is no part of the verdict; it has a line of its own.
    """
    _, line, *_ = lines_about(result, capsys=capsys)
    assert line == f"vllm (0.1)  {verdict}; float32 off by up to 1e-7"


@pytest.mark.parametrize(
    ("pairs", "words"),
    [((2, 2), "pair 2"), ((1, 2), "pairs 1–2")],
    ids=["one pair", "two pairs"],
)
def test_a_deviation_beyond_the_tolerance_is_stated_with_its_first_position_and_its_pairs(
    pairs: tuple[int, int], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside a deviation of 0.5, an error of 1e-7 by float32 is of no interest, and is left out."""
    _, line, *_ = lines_about(replace(HARMFUL, pairs=pairs), capsys=capsys)
    assert line == f"vllm (0.1)  deviates by up to 0.5, from position 1,000, {words}"


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        pytest.param(
            replace(RESULT, lacks="it has no yarn scaling", no_scaling=True),
            "lacks it",
            id="the runtime does not implement the scaling",
        ),
        pytest.param(
            replace(RESULT, lacks="its coefficients are learned", no_scaling=False),
            "not computed",
            id="the runtime has a table, but pecli cannot compute it",
        ),
    ],
)
def test_a_runtime_without_a_table_to_compare_lacks_it_or_is_not_computed(
    result: RuntimeResult, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`lacks` is why there is nothing to compare, and `no_scaling` states that it is the runtime
    that lacks the scaling of the model.
    """
    _, line, reason, *_ = lines_about(result, capsys=capsys)
    assert line == f"vllm (0.1)  {verdict}"
    assert reason == f"  {result.lacks}"


def test_reasons_are_below_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    """TGI lacks something, with a note. vLLM deviates within the tolerance, as it «ignores it», and
    its table has only 2048 rows for the context of 4096. Labels are filled up to the longest one.
    """
    lacking = replace(RESULT, runtime="tgi", lacks="it has none", notes=("only text",))
    ending = replace(HARMLESS, rows=2048)
    assert lines_about(lacking, ending, capsys=capsys) == [
        "model, served with a context of 4,096",
        "tgi (0.1)   not computed",
        "  it has none",
        "  only text",
        "vllm (0.1)  deviates by up to 5e-4; float32 off by up to 1e-7",
        "  ignores it",
        "  its table ends at position 2,047",
        "",
        "Not as defined: tgi, vllm (tolerance 0.001).",
    ]


@pytest.mark.parametrize(
    ("result", "conclusion"),
    [
        pytest.param(RESULT, "All agree up to float32 rounding.", id="rounding only"),
        pytest.param(HARMLESS, "All agree up to float32 rounding.", id="off by 5e-4"),
        pytest.param(HARMFUL, "Not as defined: vllm (tolerance 0.001).", id="off by 0.5"),
    ],
)
def test_the_last_line_names_the_runtimes_beyond_the_tolerance(
    result: RuntimeResult, conclusion: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A runtime agrees if no position is off by more than the tolerance, 0.001, because of what it
    reads differently (`departure`); `first_beyond`, the first such position, is not set then.
    """
    assert lines_about(result, capsys=capsys)[-1] == conclusion


def test_layer_types_have_headings_and_share_a_conclusion(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """vLLM deviates by 0.5 in two types of layers; the last line names it once."""
    layers = {"sliding": (HARMFUL,), "full": (HARMFUL,)}
    show_runtimes(RuntimeComparison("model", 4096, 0.25, layers))
    lines = capsys.readouterr().out.splitlines()

    assert lines[1:3] == ["", "sliding"]
    assert lines.count("full") == 1
    assert lines[-1] == "Not as defined: vllm (tolerance 0.25)."


CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "rope_theta": 10000.0,
    "max_position_embeddings": 4096,
}
LINEAR = {"rope_type": "linear", "factor": 4.0}


@pytest.fixture
def without_runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what runtimes compute, which takes seconds."""
    nothing = SimpleNamespace(layers=defaultdict(lambda: (RESULT,)))
    monkeypatch.setattr("pecli.checks.extend.runtimes", lambda model, length: nothing)


def lines_about_ntk(
    scaling: dict[str, object] | None, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    """Return what `pecli extend` prints about CONFIG with this scaling, extended to 8,192 by NTK."""
    show_extension(pecli.extend({**CONFIG, "rope_scaling": scaling}, 8192, "ntk"))
    return capsys.readouterr().out.splitlines()


@pytest.mark.usefixtures("without_runtimes")
@pytest.mark.parametrize(
    ("scaling", "title", "effect"),
    [
        pytest.param(
            None,
            "config: 4,096 → 8,192 positions by ntk, factor 2",
            "1 wavelength kept, 6 stretched by less than 2×, 1 by 2×",
            id="no scaling: factor 8,192 / 4,096 = 2",
        ),
        pytest.param(
            LINEAR,
            "config: 4,096 → 8,192 positions by ntk, factor 8 of the original 1,024",
            "1 wavelength kept, 6 stretched by less than 8×, 1 by 8×",
            id="linear by 4 from 1,024 to 4,096: factor 8,192 / 1,024 = 8",
        ),
    ],
)
def test_an_extension_is_printed_with_its_title_and_its_effect(
    scaling: dict[str, object] | None,
    title: str,
    effect: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """CONFIG has 8 pairs and a context of 4,096. NTK enlarges the base: it keeps the wavelength of
    the fastest pair and stretches that of the slowest by the whole factor, and of the six pairs
    between by less.
    """
    lines = lines_about_ntk(scaling, capsys)
    assert lines[0] == title
    assert effect in lines


@pytest.mark.usefixtures("without_runtimes")
def test_an_extension_lists_what_runtimes_make_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The fixture `without_runtimes` replaces what runtimes compute, which takes seconds, by RESULT:
    vLLM 0.1, which is off by 1e-7.
    """
    assert "  vllm (0.1)  as defined; float32 off by up to 1e-7" in lines_about_ntk(None, capsys)


@pytest.mark.usefixtures("without_runtimes")
def test_an_extension_by_ntk_ends_with_its_disadvantage(capsys: pytest.CaptureFixture[str]) -> None:
    """NTK replaces the base in the configuration, so that it is another one at every length."""
    last_line = lines_about_ntk(None, capsys)[-1]
    assert last_line == "every prompt is encoded with the larger base, short ones too"


@pytest.mark.usefixtures("without_runtimes")
def test_a_model_that_is_long_enough_has_commands_and_no_settings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """CONFIG has a context of 4,096, which is all that is wanted. What runtimes compute is
    left out.
    """
    show_extension(pecli.extend(CONFIG, 4096))
    text = capsys.readouterr().out

    assert text.startswith("config: 4,096 positions, as it is\nit has 4,096 positions as it is")
    assert "vllm serve MODEL --max-model-len 4096" in text
    assert "config.json" not in text
    assert "wavelength" not in text
