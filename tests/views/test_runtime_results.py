"""What runtimes compute for a model, as text. The results are made by the test."""

from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import pytest

import pecli
from pecli.checks.runtimes import RuntimeComparison, RuntimeResult
from pecli.views.runtime_results import show_extension, show_runtimes

RESULT = RuntimeResult("vllm", "0.1", max_abs_error=1e-7)
DEPARTING = replace(RESULT, departure=0.5, causes=("ignores it",))


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        (RESULT, "as defined; float32 off by up to 1e-7"),
        (
            replace(RESULT, short_prompts="short prompts get other factors"),
            "as defined for long prompts; float32 off by up to 1e-7",
        ),
        (DEPARTING, "deviates by up to 0.5; float32 off by up to 1e-7"),
        (
            replace(DEPARTING, first_beyond=1000, pairs=(2, 2)),
            "deviates by up to 0.5, from position 1,000, pair 2",
        ),
        (
            replace(DEPARTING, first_beyond=1000, pairs=(1, 2)),
            "deviates by up to 0.5, from position 1,000, pairs 1–2",
        ),
        (replace(RESULT, lacks="it has no yarn scaling", no_scaling=True), "lacks it"),
        (replace(RESULT, lacks="its coefficients are learned"), "not computed"),
    ],
    ids=[
        "rounding only",
        "rounding, short prompts differ",
        "a departure",
        "a departure of one pair",
        "a departure of two pairs",
        "no such scaling",
        "cannot be computed",
    ],
)
def test_the_line_of_a_runtime_has_its_verdict(
    result: RuntimeResult, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """RESULT is vLLM 0.1, whose table is off by 1e-7, the rounding of float32, and nothing else.
    DEPARTING has a departure of 0.5 beside it. `replace` sets what else was found: the first
    position and the pairs of the departure, or why there is nothing to compare.
    """
    show_runtimes(RuntimeComparison("model", 4096, 1e-3, {"": (result,)}))
    assert capsys.readouterr().out.splitlines()[1] == f"vllm (0.1)  {verdict}"


def lines_about(*results: RuntimeResult, capsys: pytest.CaptureFixture[str]) -> list[str]:
    show_runtimes(RuntimeComparison("model", 4096, 1e-3, {"": results}))
    return capsys.readouterr().out.splitlines()


def test_reasons_are_below_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    """RESULT is vLLM 0.1, whose table is off by 1e-7, and DEPARTING the same with a departure of
    0.5, as it «ignores it». Here TGI lacks something, with a note, and the table of vLLM has 2048
    rows. Labels are filled up to the longest one.
    """
    lacking = replace(RESULT, runtime="tgi", lacks="it has none", notes=("only text",))
    ending = replace(DEPARTING, rows=2048)
    assert lines_about(lacking, ending, capsys=capsys) == [
        "model, served with a context of 4,096",
        "tgi (0.1)   not computed",
        "  it has none",
        "  only text",
        "vllm (0.1)  deviates by up to 0.5; float32 off by up to 1e-7",
        "  ignores it",
        "  its table ends at position 2,047",
        "",
        "Not as defined: tgi, vllm (tolerance 0.001).",
    ]


def test_runtimes_that_agree_have_one_conclusion(capsys: pytest.CaptureFixture[str]) -> None:
    """RESULT is off by the rounding of float32 only. DEPARTING has a cause for a departure, but no
    position at which the error is beyond the tolerance, and so agrees as well.
    """
    assert lines_about(RESULT, capsys=capsys)[-1] == "All agree up to float32 rounding."
    assert lines_about(DEPARTING, capsys=capsys)[-1] == "All agree up to float32 rounding."


def test_layer_types_have_headings_and_share_a_conclusion(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """vLLM deviates from position 3 on, in two types of layers; the last line names it once."""
    wrong = replace(DEPARTING, first_beyond=3, pairs=(0, 1))
    layers = {"sliding": (wrong,), "full": (wrong,)}
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


@pytest.mark.usefixtures("without_runtimes")
@pytest.mark.parametrize(
    ("scaling", "to", "title", "conclusion"),
    [
        (
            None,
            8192,
            "config: 4,096 → 8,192 positions by ntk, factor 2",
            "1 wavelength kept, 6 stretched by less than 2×, 1 by 2×",
        ),
        (
            LINEAR,
            8192,
            "config: 4,096 → 8,192 positions by ntk, factor 8 of the original 1,024",
            "1 wavelength kept, 6 stretched by less than 8×, 1 by 8×",
        ),
    ],
    ids=["unscaled", "linear"],
)
def test_an_extension_is_printed_with_its_title_and_its_effect(
    scaling: dict[str, object] | None,
    to: int,
    title: str,
    conclusion: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """CONFIG has 8 pairs and a context of 4,096. NTK keeps the fastest pair and stretches the
    slowest by the whole factor, 8,192 / 4,096 = 2; with LINEAR, the context is 4 times an original
    1,024, of which 8,192 are 8 times. What runtimes compute is left out: RESULT stands for it.
    """
    show_extension(pecli.extend({**CONFIG, "rope_scaling": scaling}, to, "ntk"))
    lines = capsys.readouterr().out.splitlines()

    assert lines[0] == title
    assert conclusion in lines
    assert "  vllm (0.1)  as defined; float32 off by up to 1e-7" in lines
    assert lines[-1] == "every prompt is encoded with the larger base, short ones too"


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
