"""`pecli verify`: files that carry their spec (the scheme and parameters that made them), and files
against a model.

A right file is written by `pecli.save`, or from formulas in the test. Then one thing is made wrong,
and the verdict must name it.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import pecli
from tests.exit_codes import CHECK_FAILED, FILE_ERROR, SUCCESS, USAGE_ERROR


def change_file(path, change) -> None:
    """Write a safetensors file again with the official library, after a change to tensors and
    metadata.
    """
    with safe_open(path, "np") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no dict
        metadata = dict(file.metadata())
    change(tensors, metadata)
    save_file(tensors, path, metadata)


@pytest.mark.parametrize(
    "file", ["x.safetensors", "x.safetensors:pe", "link.safetensors", "pecli.toml"]
)
def test_a_junit_report_never_replaces_a_file_that_is_verified(run_pecli, file) -> None:
    """The report would be written to the verified file itself, its target, or the manifest."""
    pecli.save("x.safetensors", pecli.Sinusoidal(4, 8))
    Path("link.safetensors").symlink_to("x.safetensors")
    Path("pecli.toml").write_text('[[check]]\nfile = "x.safetensors"\n')
    report = Path("pecli.toml" if file == "pecli.toml" else "x.safetensors")
    before = report.read_bytes()
    refused = run_pecli("verify", file, "--junit", report)

    assert refused.exit_code == USAGE_ERROR
    assert refused.out == ""
    assert "one of the files to verify" in refused.err
    assert report.read_bytes() == before


def change_cosine_3_1_by_2_to_the_minus_20(tensors, metadata) -> None:
    tensors["cos"][3, 1] += 2.0**-20


def flip_the_sign_of_a_zero(tensors, metadata) -> None:
    tensors["sin"][0, 0] = -0.0  # which breaks the hash, but no value


def rename_the_sines(tensors, metadata) -> None:
    tensors["tan"] = tensors.pop("sin")


def claim_a_huge_table(tensors, metadata) -> None:
    spec = json.loads(metadata["pecli"])
    spec["parameters"]["seq_len"] = 2**40
    metadata["pecli"] = json.dumps(spec)


def test_verify_reports_the_element_that_was_changed(run_pecli) -> None:
    """Element [3, 1] of the cosines in the file is changed by 2^-20, in float32 up to rounding;
    only this tensor may fail, with that element.
    """
    pecli.save("t.safetensors", pecli.Rope(9, 6))
    change_file("t.safetensors", change_cosine_3_1_by_2_to_the_minus_20)
    outcome = run_pecli("verify", "t.safetensors", "--json")
    tensors = {tensor["name"]: tensor for tensor in outcome.json["tensors"]}

    assert outcome.exit_code == CHECK_FAILED
    assert tensors["cos"]["mismatched"] == 1
    assert tensors["cos"]["worst_index"] == [3, 1]
    assert tensors["cos"]["max_abs_error"] == pytest.approx(2.0**-20, rel=0.1)
    assert tensors["sin"]["mismatched"] == 0


def test_verify_prints_the_index_of_the_element_that_was_changed(run_pecli) -> None:
    """Element [3, 1] of the cosines in the file is changed by 2^-20."""
    pecli.save("t.safetensors", pecli.Rope(9, 6))
    change_file("t.safetensors", change_cosine_3_1_by_2_to_the_minus_20)
    text = run_pecli("verify", "t.safetensors").out

    assert text.startswith("FAILED")
    assert "[3, 1]" in text


def test_a_tensor_of_a_file_is_checked_against_the_spec_of_the_file(run_pecli) -> None:
    """The file has cos, sin and inv_freq of a rotary table, and their spec; `pecli verify FILE:cos`
    compares only one of them.
    """
    pecli.save("t.safetensors", pecli.Rope(4, 4))
    outcome = run_pecli("verify", "t.safetensors:cos", "--json")

    assert outcome.exit_code == SUCCESS
    assert [tensor["name"] for tensor in outcome.json["tensors"]] == ["cos"]


@pytest.mark.parametrize(
    ("change", "reasons"),
    [
        pytest.param(flip_the_sign_of_a_zero, ["sha256"], id="sign of a zero"),
        pytest.param(
            rename_the_sines,
            ["tan: rope has no such tensor", "sin: the tensor is missing"],
            id="renamed tensor",
        ),
        pytest.param(claim_a_huge_table, ["1099511627776"], id="2^40 rows"),
    ],
)
def test_a_file_that_its_spec_does_not_describe_fails(
    run_pecli, change: Callable[..., None], reasons: list[str]
) -> None:
    """A right file of a rope is changed: −0 for 0 breaks the checksum only, the sines are renamed
    to tan, or the spec claims 2^40 = 1,099,511,627,776 rows.
    """
    pecli.save("t.safetensors", pecli.Rope(4, 4))
    change_file("t.safetensors", change)
    outcome = run_pecli("verify", "t.safetensors", "--json")

    assert outcome.exit_code == CHECK_FAILED
    diagnosis = " ".join(outcome.json["diagnosis"])
    for reason in reasons:
        assert reason in diagnosis


def test_minus_zero_instead_of_zero_is_no_mismatch_of_elements(run_pecli) -> None:
    """The sign bit of a zero in the file is flipped. −0 and 0 are equal, so no element of the three
    tensors (cos, sin, inv_freq) is mismatched; only the checksum is another.
    """
    pecli.save("t.safetensors", pecli.Rope(4, 4))
    change_file("t.safetensors", flip_the_sign_of_a_zero)
    tensors = run_pecli("verify", "t.safetensors", "--json").json["tensors"]
    assert [tensor["mismatched"] for tensor in tensors] == [0, 0, 0]


@pytest.mark.parametrize("command", ["verify", "plot"])
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param("", id="empty"),
        pytest.param("{", id="unfinished"),
        pytest.param("[]", id="a list"),
        pytest.param("null", id="null"),
        pytest.param('{"scheme": NaN}', id="NaN"),
        pytest.param("[" * 100_000, id="nested too deeply"),
        pytest.param('{"scheme": "rope"}', id="no parameters"),
        pytest.param('{"scheme": "rope", "parameters": 3}', id="parameters are a number"),
        pytest.param('{"scheme": "rope", "parameters": {"dim": 4}}', id="no seq_len"),
        pytest.param('{"scheme": "rope", "parameters": {"seq_len": -1}}', id="negative seq_len"),
        pytest.param('{"scheme": ["rope"], "parameters": {}}', id="scheme is a list"),
        pytest.param(
            '{"scheme": "sinusoidal", "parameters": {"style": "paper"}}', id="only a style"
        ),
    ],
)
def test_a_stored_spec_that_makes_no_table_is_a_file_error(
    run_pecli, spec: str, command: str
) -> None:
    """The text is in the metadata of a safetensors file, in the place of pecli's spec."""
    save_file({"pe": np.zeros((2, 2), np.float32)}, "t.safetensors", {"pecli": spec})
    outcome = run_pecli(command, "t.safetensors")

    assert outcome.exit_code == FILE_ERROR
    assert outcome.err.count("\n") == 1
    assert outcome.err.startswith("pecli: error: t.safetensors: ")


def test_verify_of_several_files_prints_json_lines_and_has_the_worst_exit_code(run_pecli) -> None:
    """`pecli verify` of two files: in the second one a cosine was changed, so the exit code is that
    of a failure.
    """
    pecli.save("good.npz", pecli.Rope(9, 6))
    pecli.save("bad.safetensors", pecli.Rope(9, 6))
    change_file("bad.safetensors", change_cosine_3_1_by_2_to_the_minus_20)
    outcome = run_pecli("verify", "good.npz", "bad.safetensors", "--json")

    assert outcome.exit_code == CHECK_FAILED
    assert [json.loads(line)["passed"] for line in outcome.out.splitlines()] == [True, False]


def test_the_exit_code_of_a_missing_file_is_worse_than_that_of_a_failed_check(run_pecli) -> None:
    """Exit code 3 is higher than 1; a quiet command prints only the error."""
    pecli.save("bad.safetensors", pecli.Rope(9, 6))
    change_file("bad.safetensors", change_cosine_3_1_by_2_to_the_minus_20)
    outcome = run_pecli("verify", "no.npz", "bad.safetensors", "-q")

    assert outcome.exit_code == FILE_ERROR
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1


CONFIG_OF_HEADS_OF_16 = '{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}'


def save_tables_of_nine_positions_and_their_config() -> None:
    """Save cos and sin of positions 0 to 8 times 10000^(-2i/16), with each frequency twice.

    Llama's base is 10000 if its configuration states none.
    """
    Path("config.json").write_text(CONFIG_OF_HEADS_OF_16)
    frequencies = 10000.0 ** (-np.arange(0, 16, 2) / 16)
    angles = np.tile(np.arange(9)[:, None] * frequencies, 2)
    cos = np.cos(angles).astype(np.float32)
    sin = np.sin(angles).astype(np.float32)
    np.savez("t.npz", cos_cached=cos, sin_cached=sin)


VERIFY_BY_CONFIG = ("--config", "config.json", "--atol", "1e-6")


def test_a_file_without_a_spec_is_checked_against_a_configuration(run_pecli) -> None:
    """t.npz has tables as a Llama caches them: 9 positions and 16 columns, because each of the 8
    frequencies of the configuration is in two of them.
    """
    save_tables_of_nine_positions_and_their_config()
    outcome = run_pecli("verify", "t.npz", *VERIFY_BY_CONFIG)

    assert outcome.exit_code == SUCCESS
    line = "  cos_cached, sin_cached  9 × 16, two columns per frequency"
    assert outcome.out.splitlines()[1].startswith(line)


def test_a_table_that_begins_one_position_too_early_fails(run_pecli) -> None:
    """The saved table begins with position 0; --offset 1 states that it should begin with 1."""
    save_tables_of_nine_positions_and_their_config()
    words = (*VERIFY_BY_CONFIG, "--offset", 1, "--json")
    outcome = run_pecli("verify", "t.npz:sin_cached", *words)

    assert outcome.exit_code == CHECK_FAILED
    assert [tensor["name"] for tensor in outcome.json["tensors"]] == ["sin_cached"]
    assert outcome.json["readings"] == {"sin_cached": "two columns per frequency (c0 c1 … c0 c1 …)"}


def test_the_function_verify_takes_paths_and_refuses_numbers_as_tolerances(working_folder) -> None:
    """pecli.verify takes a pathlib.Path. A tolerance is a `Tolerance`, as a bare number does not
    state whether it is absolute or relative.
    """
    pecli.save("t.npz", pecli.Rope(4, 4))
    assert pecli.verify(working_folder / "t.npz").passed
    with pytest.raises(TypeError, match="Tolerance"):
        pecli.verify("t.npz", tolerance=1e-3)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        pytest.param([0.125], CHECK_FAILED, id="wrong"),
        pytest.param(0.125, CHECK_FAILED, id="wrong, without an axis", marks=pytest.mark.thorough),
        pytest.param(1.0, SUCCESS, id="right"),
    ],
)
def test_no_base_is_reported_for_a_single_frequency(
    run_pecli, value: float | list[float], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A head of 2 channels has one frequency, base^0 = 1, whatever the base is. The search for an
    explanation is ended after 0.2 seconds, because it finds none.
    """
    monkeypatch.setattr("pecli.explain.time_limit.SECONDS", 0.2)
    Path("config.json").write_text('{"model_type": "llama", "head_dim": 2, "hidden_size": 8}')
    np.save("inv_freq.npy", np.array(value))
    outcome = run_pecli("verify", "inv_freq.npy", "--config", "config.json")

    assert outcome.exit_code == code
    assert outcome.err == ""
    assert "base" not in outcome.out


def test_verify_does_not_advise_an_option_that_was_given(run_pecli) -> None:
    """The table is that of angles in float32, as transformers computes them, and each cosine is
    moved by one step (1 ULP) of float32. Without --recipe float32 that option is advised; with it,
    only the tolerance of 1 ULP is left to advise.
    """
    cos = pecli.Rope(64, 128, base=500_000.0, recipe="float32").tables()["cos"]
    np.save("cos.npy", np.nextafter(cos, np.float32(0)))
    without_recipe = run_pecli("verify", "cos.npy", "--model", "llama-3-8b")
    with_recipe = run_pecli("verify", "cos.npy", "--model", "llama-3-8b", "--recipe", "float32")

    assert "verify with --recipe float32" in without_recipe.out
    assert "allow --max-ulp 1\n" in with_recipe.out


def test_a_picture_of_failures_shows_expected_and_found_values(run_pecli) -> None:
    """`pecli verify -o fail.svg` of three files: wrong.npz has base 500 where the config means
    10000, right.npz passes, and text.npy holds no numbers, a file error that determines the exit
    code. The picture has the failed tables, the error, and the command.
    """
    config = '{"model_type": "llama", "hidden_size": 16, "num_attention_heads": 1}'
    Path("config.json").write_text(config)
    pecli.save("right.npz", pecli.Rope(64, 16))
    pecli.save("wrong.npz", {**pecli.Rope(64, 16, base=500.0).tables()})
    np.save("text.npy", np.array(["x"]))
    words = "verify wrong.npz right.npz text.npy --config config.json"
    outcome = run_pecli(*words.split(), "-o", "fail.svg")
    text = Path("fail.svg").read_text(encoding="utf-8")

    assert outcome.exit_code == FILE_ERROR
    assert "fail.svg:" in outcome.out
    assert "wrong.npz: FAILED. " in text
    for shown in ("wrong.npz cos, expected", "wrong.npz sin, found", "difference", "text.npy"):
        assert shown in text
    assert f'"command": "pecli {words}"' in text.replace("&quot;", '"')


def test_a_picture_never_replaces_a_file_that_is_verified(run_pecli) -> None:
    """-o is the file of the picture, here by mistake the verified file itself."""
    pecli.save("right.npz", pecli.Rope(64, 16))
    assert run_pecli("verify", "right.npz", "-o", "right.npz").exit_code == USAGE_ERROR


def test_a_quiet_verification_writes_its_picture_and_prints_nothing(run_pecli) -> None:
    """-q keeps standard output empty; the picture is written."""
    pecli.save("right.npz", pecli.Rope(64, 16))
    outcome = run_pecli("verify", "right.npz", "-o", "x.svg", "-q")

    assert outcome.exit_code == SUCCESS
    assert outcome.out == ""
    assert Path("x.svg").exists()


@pytest.mark.thorough
def test_verify_writes_a_picture_and_prints_only_json(run_pecli) -> None:
    """`pecli verify -o x.svg --json` writes the picture, and prints only JSON."""
    pecli.save("right.npz", pecli.Rope(64, 16))
    assert run_pecli("verify", "right.npz", "-o", "x.svg", "--json").json["passed"]


def test_a_damaged_member_is_an_error_even_if_nothing_is_compared_with_it(
    run_pecli, tmp_path: Path
) -> None:
    """A bit of the member b of damaged.npz was changed, which contradicts its checksum. Neither a
    nor b is a table that Llama 3.1 has; still the error is the damage, and not «the tensor is
    missing».
    """
    path = tmp_path / "damaged.npz"
    np.savez(path, a=np.zeros(4, np.float32), b=np.ones(64, np.float32))
    content = bytearray(path.read_bytes())
    last_value = content.rindex(np.float32(1).tobytes())
    content[last_value] ^= 1
    path.write_bytes(bytes(content))
    outcome = run_pecli("verify", path, "--model", "llama-3.1-8b", "--atol", "1e-3")

    assert outcome.exit_code == FILE_ERROR
    assert "member 'b.npy' is damaged" in outcome.err
