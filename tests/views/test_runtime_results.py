"""What runtimes compute for a model, as text. The results are made by the test."""

from dataclasses import replace

import pytest

from pecli.checks.runtimes import RuntimeComparison, RuntimeResult
from pecli.views.runtime_results import show_runtimes

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
