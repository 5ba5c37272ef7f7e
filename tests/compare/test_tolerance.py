"""Tolerances: frequencies and slopes are judged relatively, by every command alike; other tensors
as the tolerance states.

Frequencies are NumPy's 500000^(-2i/128), and those of Llama 3.1 with its scaling
(tests/tools/sweeps). A slow frequency that is wrong by little moves late positions by much, so that
no absolute tolerance may hide it.
"""

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import pecli
from pecli.compare.tolerance import is_relative
from tests.checks.waves import LLAMA3, inverse_frequencies
from tests.exit_codes import CHECK_FAILED, SUCCESS
from tests.tools.sweeps.tables import Waves

LLAMA_3_1 = Waves(128, 500000.0, {"type": "llama3", **LLAMA3})
UNSCALED_FREQUENCIES = inverse_frequencies(500000.0, 128)
SCALED_FREQUENCIES = LLAMA_3_1.frequencies()[0]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_3_1.config))
    return tmp_path / "config.json"


@pytest.mark.parametrize(
    ("values", "passes"),
    [
        (SCALED_FREQUENCIES, True),
        (SCALED_FREQUENCIES * (1 + 4e-6), True),
        (UNSCALED_FREQUENCIES, False),
        (SCALED_FREQUENCIES * 1.0001, False),
    ],
    ids=["right", "off by float32", "without scaling", "off by 1e-4"],
)
@pytest.mark.parametrize("tolerance", [{}, {"atol": 1e-3}, {"max_ulp": 2}, {"rtol": 1e-5}], ids=str)
@pytest.mark.sample(8)
def test_frequencies_pass_within_float32_and_never_without_their_scaling(
    values: Any, passes: bool, tolerance: dict[str, float]
) -> None:
    """inv_freq is checked against a config of Llama 3.1. 4e-6 is the error of float32 in the formula
    of its scaling, and passes with any tolerance; 1e-4 does not. Frequencies without the scaling are
    far off only in slow channels, where all are small: an absolute tolerance must not hide them.
    """
    found = {"rotary_emb.inv_freq": values.astype(np.float32)}
    result = pecli.verify(found, LLAMA_3_1.config, reasons=False, **tolerance)

    assert result.passed == passes


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("options", [["--atol", "1e-2"], ["--max-ulp", "4"]])
def test_frequencies_in_16_bits_fail_unless_the_recipe_states_them(
    run_pecli: Any, tmp_path, config, dtype, options
) -> None:
    """Llama 3.1's frequencies in float16 or bfloat16, where slow ones are moved by more than any
    tolerance should allow: verify, rope --verify and diff fail alike, whatever the options. The
    recipe bfloat16-inv-freq expects frequencies rounded so.
    """
    file = tmp_path / "f.safetensors"
    save_file({"inv_freq": SCALED_FREQUENCIES.astype(dtype)}, file)

    verify = ["verify", file, "--config", config, *options]
    assert run_pecli(*verify).exit_code == CHECK_FAILED
    if dtype is ml_dtypes.bfloat16:
        assert run_pecli(*verify, "--recipe", "bfloat16-inv-freq").exit_code == SUCCESS

    rope = ["rope", "--config", config, "--seq-len", 4]
    assert run_pecli(*rope, "--verify", f"{file}:inv_freq", *options).exit_code == CHECK_FAILED

    golden = tmp_path / "golden.safetensors"
    pecli.save(golden, LLAMA_3_1.scheme(4))
    assert run_pecli("diff", f"{golden}:inv_freq", file, *options).exit_code == CHECK_FAILED


@pytest.mark.parametrize(
    "values",
    [
        UNSCALED_FREQUENCIES[::-1],
        UNSCALED_FREQUENCIES * 1e-6,
        np.random.default_rng(3).permutation(UNSCALED_FREQUENCIES),
    ],
    ids=["reversed", "too small", "in random order"],
)
@pytest.mark.sample("reversed", "too small")
def test_frequencies_in_another_order_or_far_too_small_fail_everywhere(
    run_pecli: Any, tmp_path: Path, values
) -> None:
    """The frequencies are 500000^(-2i/128), in another order or times 1e-6. `rope --verify`, `diff`
    and a manifest with an atol of 1e-3 fail alike; in the manifest, the right ones beside them pass.
    """
    wrong = tmp_path / "wrong.npz"
    np.savez(wrong, inv_freq=values)

    rope = ["rope", "--seq-len", 4, "--dim", 128, "--theta", 500000]
    assert run_pecli(*rope, "--verify", f"{wrong}:inv_freq").exit_code == CHECK_FAILED

    golden = tmp_path / "golden.npz"
    pecli.save(golden, pecli.Rope(4, 128, theta=500000))
    assert run_pecli("diff", f"{golden}:inv_freq", wrong).exit_code == CHECK_FAILED

    np.savez(tmp_path / "right.npz", inv_freq=UNSCALED_FREQUENCIES)
    checks = (
        f'[[check]]\nfile = "{name}.npz"\nmodel = "llama-3-8b"\natol = 1e-3\n'
        for name in ("wrong", "right")
    )
    (tmp_path / "pecli.toml").write_text("".join(checks))
    outcome = run_pecli("verify", tmp_path / "pecli.toml", "--json")

    assert outcome.exit_code == CHECK_FAILED
    assert [json.loads(line)["passed"] for line in outcome.out.splitlines()] == [False, True]


NUMBERS_OF_NO_SCHEME = [
    1e-310 * inverse_frequencies(1e8, 8),
    [1e20, 0.1, 0.01, 0.001],
    [np.inf, 0.1, 0.01],
    [1.0, np.inf, 0.1, 0.0],
    [5e-324] * 5,
]


@pytest.mark.parametrize("values", NUMBERS_OF_NO_SCHEME, ids=str)
def test_numbers_that_no_scheme_can_have_are_not_identified(
    run_pecli: Any, tmp_path: Path, values
) -> None:
    """`values` are vectors as short as frequencies may be, of huge, tiny and infinite numbers. identify
    answers no, without an error.
    """
    np.save(tmp_path / "t.npy", values)
    outcome = run_pecli("identify", tmp_path / "t.npy")

    assert outcome.exit_code == CHECK_FAILED
    assert outcome.err == ""


@pytest.mark.parametrize("values", NUMBERS_OF_NO_SCHEME, ids=str)
def test_numbers_that_no_scheme_can_have_are_inspected(
    run_pecli: Any, tmp_path: Path, values
) -> None:
    """`values` are vectors as short as frequencies may be, of huge, tiny and infinite numbers. inspect
    prints their statistics, without an error or a warning.
    """
    np.save(tmp_path / "t.npy", values)
    outcome = run_pecli("inspect", "--stats", tmp_path / "t.npy")

    assert outcome.exit_code == SUCCESS
    assert outcome.err == ""


def test_no_error_is_allowed_unless_a_tolerance_states_one() -> None:
    """Without arguments, no ULP and no error is allowed, and no tolerance of frequencies is set."""
    assert pecli.Tolerance() == pecli.Tolerance(max_ulp=0, atol=0.0, rtol=0.0, freq_rtol=None)


def test_frequencies_are_judged_by_their_own_relative_tolerance_only() -> None:
    """The tolerance applies to cosines as it was stated. For inv_freq, its absolute part (atol) is 0,
    and its relative part (rtol) is freq_rtol. The four numbers are different so that none can be
    mistaken for another.
    """
    tolerance = pecli.Tolerance(max_ulp=1, atol=2, rtol=3, freq_rtol=4)

    assert tolerance.for_tensor("cos") == tolerance
    assert tolerance.for_tensor("inv_freq") == pecli.Tolerance(max_ulp=1, atol=0, rtol=4)


@pytest.mark.parametrize(
    ("tolerance", "rtol"),
    [
        pytest.param({}, 0, id="none"),
        pytest.param({"max_ulp": 1}, 1e-5, id="a smaller one"),
        pytest.param({"atol": 1}, 1e-5, id="an absolute one"),
        pytest.param({"rtol": 0.5}, 0.5, id="a relative one"),
    ],
)
def test_any_tolerance_allows_float32_slopes(tolerance: dict[str, Any], rtol: float) -> None:
    """ALiBi's slopes are judged relatively. If any tolerance is given, 1e-5 is allowed, the error of
    a float32 computation, also if the one that is given is smaller or absolute. A relative one that
    is given replaces it; without any, 0 is.
    """
    assert pecli.Tolerance(**tolerance).for_tensor("slopes").rtol == rtol


@pytest.mark.parametrize(
    ("tolerance", "freq_rtol"),
    [
        pytest.param({}, 1e-5, id="none"),
        pytest.param({"rtol": 0.5}, 0.5, id="rtol"),
        pytest.param({"freq_rtol": 0}, 0, id="freq_rtol"),
    ],
)
def test_a_model_allows_float32_frequencies(tolerance: dict[str, Any], freq_rtol: float) -> None:
    """Against a model, frequencies may be off by 1e-5 of their value, which covers a float32
    computation of theta^(-2i/d), also if no tolerance is given. rtol or freq_rtol replaces it.
    """
    assert pecli.Tolerance(**tolerance).against_model().freq_rtol == freq_rtol


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param((), False, id="no name"),
        pytest.param(("cos",), False, id="cosines"),
        pytest.param(("cos", "x.inv_freq"), True, id="frequencies under a second name"),
    ],
)
def test_a_tensor_is_judged_relatively_if_one_of_its_names_is_of_frequencies(
    names: tuple[str, ...], expected: bool
) -> None:
    """Frequencies (inv_freq, with any prefix) span many orders of magnitude, so their errors are
    judged relative to the value; cosines are not.
    """
    assert is_relative(*names) == expected
