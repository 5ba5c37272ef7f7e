"""`pecli audit` and `pecli runtimes`: JSON, text and pictures; and the option `--runtime` of other commands.

An audit measures how far tables drift from the exact one if they are computed in less precision (by
a recipe). Expected numbers are what bfloat16 can hold (257 rounds to 256), the frequencies
10000^(−2i/d), and tables that llama.cpp and mlx-lm themselves computed.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import pecli
from pecli.engine.schemes.recipes import RECIPES
from pecli.engine.schemes.rope import Rope
from tests.exit_codes import CHECK_FAILED, SUCCESS
from tests.explain.test_recipe_search import config_of_case, dump_of_runtime

AUDIT_OF_300_POSITIONS_AND_32_CHANNELS = ("audit", "rope", "--seq-len", 300, "--dim", 32)


def test_an_audit_as_json_states_what_was_audited(run_pecli) -> None:
    """`pecli audit rope --seq-len 300 --dim 32`: frequency i of 16 is 10000^(−2i/32), and 0.001 is
    the default tolerance.
    """
    audit = run_pecli(*AUDIT_OF_300_POSITIONS_AND_32_CHANNELS, "--json").json
    assert audit["scheme"] == "rope"
    assert audit["parameters"] == Rope(300, 32).spec()["parameters"]
    assert audit["tolerance"] == 0.001
    assert audit["first_position"] == 0
    assert audit["positions"] == 300
    assert audit["frequencies"] == pytest.approx([10000 ** (-2 * i / 32) for i in range(16)])
    assert audit["output"] is None


FIELDS_OF_RECIPE = {
    "recipe",
    "max_abs_error",
    "mean_abs_error",
    "kept_positions",
    "first_beyond_tolerance",
    "first_equal_neighbours",
    "by_decade",
    "by_frequency",
}


def test_an_audit_as_json_has_every_recipe_and_decade(run_pecli) -> None:
    """300 positions are the decades 0 to 9, 10 to 99 and 100 to 299. The largest error of a recipe
    is the largest of its decades, and of its frequencies.
    """
    recipes = run_pecli(*AUDIT_OF_300_POSITIONS_AND_32_CHANNELS, "--json").json["recipes"]
    assert [recipe["recipe"] for recipe in recipes] == list(RECIPES)
    for recipe in recipes:
        assert set(recipe) == FIELDS_OF_RECIPE
        decades = recipe["by_decade"]
        ends = [(decade["first"], decade["last"]) for decade in decades]
        assert ends == [(0, 9), (10, 99), (100, 299)]
        assert max(decade["max_abs_error"] for decade in decades) == recipe["max_abs_error"]
        assert max(recipe["by_frequency"]) == recipe["max_abs_error"]


def test_positions_in_bfloat16_are_wrong_from_257_on(run_pecli) -> None:
    """bfloat16 has 8 bits of precision: 256 is the last of 0, 1, 2, … that it holds, and 257 rounds
    to 256. So row 257 repeats row 256 and is the first wrong one: cos 257 differs from cos 256 by
    0.78, more than the default tolerance of 0.001. The rows 0 to 256, which are 257, are right.
    """
    recipes = run_pecli(*AUDIT_OF_300_POSITIONS_AND_32_CHANNELS, "--json").json["recipes"]
    (recipe,) = [recipe for recipe in recipes if recipe["recipe"] == "bfloat16-positions"]
    assert recipe["first_equal_neighbours"] == 257
    assert recipe["first_beyond_tolerance"] == 257
    assert recipe["kept_positions"] == 257


TWO_RECIPES = ("--recipes", "bfloat16-positions,float32", "--tolerance", "0.5")


def test_an_audit_in_a_pipe_is_plain_text(run_pecli) -> None:
    """257 is the first position that bfloat16 cannot hold; it rounds to 256."""
    outcome = run_pecli(*AUDIT_OF_300_POSITIONS_AND_32_CHANNELS, *TWO_RECIPES)
    assert outcome.exit_code == SUCCESS
    assert outcome.err == ""

    title, float32, bfloat16, _ = outcome.out.splitlines()
    assert title == "rope seq_len=300 dim=32 base=10000 dtype=float32"
    assert float32.startswith("  within 0.5 at all 300 positions: float32 (")
    assert bfloat16.startswith("  within 0.5 to position 256: bfloat16-positions (")


def test_the_details_of_an_audit_have_a_row_per_requested_recipe(run_pecli) -> None:
    """bfloat16 rounds position 257 to 256. Row 257 is therefore equal to row 256, and 257 rows (0
    to 256) are kept before the error exceeds 0.5: cos 257 and cos 256 differ by 0.78. float32 keeps
    all rows, and repeats none («–»).
    """
    text = run_pecli(*AUDIT_OF_300_POSITIONS_AND_32_CHANNELS, *TWO_RECIPES, "--details").out
    lines = text.splitlines()
    note = lines.index("kept: positions before the error exceeds 0.5; equal: first repeated row")
    heads, bfloat16, float32 = [line.split() for line in lines[note + 1 : note + 4]]

    assert heads == ["max", "mean", "kept", "equal"]
    assert bfloat16[0] == "bfloat16-positions"
    assert bfloat16[3:] == ["257", "257"]  # kept and equal, after the name, max and mean
    assert float32[0] == "float32"
    assert float32[3:] == ["all", "–"]


def test_the_details_of_an_audit_leave_out_other_recipes(run_pecli) -> None:
    """--recipes names bfloat16-positions and float32; without it, the audit has all recipes."""
    details_of_two = run_pecli(
        *AUDIT_OF_300_POSITIONS_AND_32_CHANNELS, *TWO_RECIPES, "--details"
    ).out
    details_of_all = run_pecli(*AUDIT_OF_300_POSITIONS_AND_32_CHANNELS, "--details").out

    assert "float32-recurrence" not in details_of_two
    assert "float32-recurrence" in details_of_all


AUDIT_OF_GEMMA = ("audit", "rope", "--model", "gemma-3-1b", "--seq-len", 40, "--recipes", "float32")
"""Gemma 3 has full and sliding layers, with bases 1e6 and 1e4."""


def test_an_audit_of_a_model_covers_each_layer_type(run_pecli) -> None:
    """By its configuration, Gemma 3's full attention has base 10^6, its sliding attention 10^4."""
    layers = run_pecli(*AUDIT_OF_GEMMA, "--json").json["layers"]
    assert list(layers) == ["full_attention", "sliding_attention"]
    assert layers["full_attention"]["parameters"]["base"] == 1e6
    assert layers["sliding_attention"]["parameters"]["base"] == 1e4


def test_an_audit_of_a_model_is_drawn_with_each_layer_type(run_pecli) -> None:
    """Gemma 3 has full and sliding attention; the last line names the file."""
    text = run_pecli(*AUDIT_OF_GEMMA, "-o", "two.svg").out
    assert "full_attention rope" in text
    assert "sliding_attention rope" in text
    assert text.splitlines()[-1].startswith("two.svg: ")
    assert Path("two.svg").read_text().startswith("<?xml")


def test_one_layer_type_of_a_model_is_audited(run_pecli) -> None:
    """With --layer-type, the audit of Gemma 3 has the numbers that the audit of all layer types has
    for this one.
    """
    layers = run_pecli(*AUDIT_OF_GEMMA, "--json").json["layers"]
    single = run_pecli(*AUDIT_OF_GEMMA, "--layer-type", "sliding_attention", "--json").json
    assert single["recipes"] == layers["sliding_attention"]["recipes"]


def test_a_quiet_audit_prints_nothing(run_pecli) -> None:
    """`pecli audit -q` of a model with two types of layers."""
    assert run_pecli(*AUDIT_OF_GEMMA, "-q").out == ""


@pytest.fixture
def table_of_llama_cpp(run_pecli) -> str:
    """Write config.json of gpt-oss-20b, and rope.safetensors as llama.cpp computes it."""
    words = ("--config", write_config_of("gpt-oss-20b"), "--seq-len", 32, "--runtime", "llama.cpp")
    assert run_pecli("rope", *words, "-o", "rope.safetensors").exit_code == SUCCESS
    return "rope.safetensors"


def test_the_option_runtime_makes_the_table_that_the_runtime_computes(
    table_of_llama_cpp: str,
) -> None:
    """The file was written by `pecli rope --runtime llama.cpp` for gpt-oss; the expected cosines
    were dumped from llama.cpp itself, in float32.
    """
    expected = dump_of_runtime("gpt-oss-20b", "llama.cpp")["cos"]
    cos = pecli.load(table_of_llama_cpp)["cos"]
    np.testing.assert_allclose(cos, expected, rtol=0, atol=1.3e-7)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("", SUCCESS),
        ("--config config.json --runtime llama.cpp", SUCCESS),
        ("--config config.json --runtime vllm --atol 1e-5", CHECK_FAILED),
    ],
    ids=["its own spec", "the same runtime", "another runtime"],
)
def test_a_table_of_a_runtime_is_verified(
    run_pecli, table_of_llama_cpp: str, words: str, code: int
) -> None:
    """The file has llama.cpp's table of gpt-oss, whose spec it carries. llama.cpp rounds YaRN's
    limits although the config has truncate: false, and vLLM does not: the table passes as
    llama.cpp's, and fails as vLLM's.
    """
    assert run_pecli("verify", table_of_llama_cpp, *words.split()).exit_code == code


def test_a_table_of_a_runtime_is_verified_by_its_options(
    run_pecli, table_of_llama_cpp: str
) -> None:
    """The file has llama.cpp's table of config.json, 32 rows; `pecli rope --runtime llama.cpp
    --verify` compares it with the same options.
    """
    words = ("--config", "config.json", "--seq-len", 32, "--runtime", "llama.cpp", "--verify")
    assert run_pecli("rope", *words, table_of_llama_cpp).exit_code == SUCCESS


def test_a_manifest_may_name_a_runtime(run_pecli, table_of_llama_cpp: str) -> None:
    """The file has llama.cpp's table of this config, which passes as that of llama.cpp."""
    lines = ["[[check]]", f'file = "{table_of_llama_cpp}"', 'config = "config.json"']
    Path("pecli.toml").write_text("\n".join([*lines, 'runtime = "llama.cpp"']))
    assert run_pecli("verify", "pecli.toml").exit_code == SUCCESS


def write_config_of(case: str) -> str:
    Path("config.json").write_text(json.dumps(config_of_case(case)))
    return "config.json"


def save_unit_vectors() -> np.ndarray:
    """Save x.npy with 32 positions of 32 pairs (1, 0), as halves, and return it."""
    x = np.zeros((32, 64), np.float32)
    x[:, :32] = 1
    np.save("x.npy", x)
    return x


def test_apply_rotates_by_the_table_of_a_runtime(run_pecli) -> None:
    """The pair (1, 0) is rotated to (cos, sin), here those of a dump of mlx-lm."""
    save_unit_vectors()
    words = ("--config", write_config_of("gpt-oss-20b"), "--runtime", "mlx-lm")
    applied = run_pecli("apply", "rope", "x.npy", *words, "-o", "y.npy")
    assert applied.exit_code == SUCCESS

    expected = dump_of_runtime("gpt-oss-20b", "mlx-lm")
    rotated = np.load("y.npy")
    np.testing.assert_allclose(rotated[:, :32], expected["cos"], rtol=0, atol=2e-7)
    np.testing.assert_allclose(rotated[:, 32:], expected["sin"], rtol=0, atol=2e-7)


def test_apply_undoes_the_rotation_by_the_table_of_a_runtime(run_pecli) -> None:
    """--inverse with the same runtime gives back the pairs (1, 0), up to rounding in float32."""
    x = save_unit_vectors()
    words = ("--config", write_config_of("gpt-oss-20b"), "--runtime", "mlx-lm")
    run_pecli("apply", "rope", "x.npy", *words, "-o", "y.npy")
    run_pecli("apply", "rope", "y.npy", *words, "--inverse", "-o", "z.npy")

    np.testing.assert_allclose(np.load("z.npy"), x, rtol=0, atol=3e-7)
