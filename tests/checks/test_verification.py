"""What is said of tables that fail without a known mistake, and of those that pass; results read as answers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import pecli
from pecli.engine.table import table_of
from pecli.files import save_tables
from tests.checks.waves import LLAMA3, cos_and_sin_tables, inverse_frequencies
from tests.exit_codes import CHECK_FAILED, SUCCESS
from tests.tools.sweeps.tables import Waves

LLAMA = Waves(128, 500000.0, {"type": "llama3", **LLAMA3})
DEEPSEEK = Waves(
    64, 10000.0, {"type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096}
)


def changed(given: Waves, **scaling: Any) -> dict[str, np.ndarray]:
    return cos_and_sin_tables(
        2048, Waves(given.dim, given.base, {**given.scaling, **scaling}).frequencies()[0]
    )


def test_the_extended_length_in_the_place_of_the_original() -> None:
    """Rounded limits leave the length open: 163,840 is what DeepSeek-V3 claims, 131,072 the plainest that fits."""
    yarn = {"scaling": "yarn", "original_max_position_embeddings": 4096, "factor": 40.0}
    spec = pecli.Rope(2048, 64, mscale=1.0, mscale_all_dim=1.0, **yarn)
    found = changed(DEEPSEEK, original_max_position_embeddings=163840)
    (edit,) = pecli.verify(found, spec).explanations[0].edits

    assert edit.name == "original_max_position_embeddings"
    assert edit.expected == 4096
    assert 131072 <= edit.found <= 163840


def test_what_follows_from_the_factor_is_no_second_cause() -> None:
    """YaRN's attention factor, 0.1 ln 16 + 1, changes with the factor and must not be named beside
    it.
    """
    height = np.float64(0.1 * np.log(16) + 1)
    found = {
        name: (table * height).astype(np.float32)
        for name, table in changed(DEEPSEEK, factor=16.0).items()
    }
    sentence, *_ = pecli.verify(found, DEEPSEEK.scheme(2048)).diagnosis

    assert sentence.startswith("cos, sin: factor is 16 (the spec says 40); explains every element ")


def test_the_same_table_is_not_another_one(tmp_path: Path) -> None:
    """Frequencies that are off in a last place, and tables with an axis too many."""
    rope = pecli.Rope(16, 8)
    off = rope.tables()["inv_freq"] * np.array([1, 1 + 8 * 2.0**-52, 1, 1])

    for changed in (
        {"inv_freq": off},
        {name: table[None] for name, table in rope.tables().items()},
    ):
        tables = [table_of(name, table) for name, table in {**rope.tables(), **changed}.items()]
        save_tables(str(tmp_path / "t.npz"), tables, rope.spec())
        result = pecli.verify(tmp_path / "t.npz")
        assert not result.passed
        assert not [sentence for sentence in result.diagnosis if "another table" in sentence]


def llama_dump(folder: Path, rows: int) -> tuple[str, ...]:
    """The words of a command that checks such a dump of Llama 3.1 8B."""
    (folder / "config.json").write_text(json.dumps(LLAMA.config))
    np.savez(folder / "dump.npz", **cos_and_sin_tables(rows, LLAMA.frequencies()[0]))
    return (
        "verify",
        str(folder / "dump.npz"),
        "--config",
        str(folder / "config.json"),
        "--atol",
        "1e-3",
    )


DOUBTFUL_PARAMETERS = [
    "llama3 scaling from none",
    "llama3 scaling from llama3, applied twice",
    "factor 8 from 4",
    "factor 8 from 16",
    "original_max_position_embeddings 8192 from 65536",
]


def test_two_rows_pass_and_prove_little(run_pecli, tmp_path: Path) -> None:
    """The slowest pair that llama3 scaling touches turns by less than 0.001 from one row to the next."""
    words = llama_dump(tmp_path, 2)
    outcome = run_pecli(*words)
    lines = [line.removeprefix("  weak: ") for line in outcome.out.splitlines() if "weak" in line]
    doubts = [line.partition(": compare ")[0].removeprefix("2 rows cannot tell ") for line in lines]

    assert doubts[:-1] == DOUBTFUL_PARAMETERS
    assert doubts[-1] == "2 more known mistakes from a right table"
    assert outcome.exit_code == SUCCESS
    assert outcome.out.splitlines()[0][:6] == "passed"
    assert run_pecli(*words, "--strict").exit_code == CHECK_FAILED
    assert run_pecli(*words, "--json", "--strict").json["weak"] == lines

    enough = max(int(line.split()[-3].replace(",", "")) for line in lines[:-1])
    strong = run_pecli(*llama_dump(tmp_path, enough), "--strict", "--json")
    assert strong.exit_code == SUCCESS
    assert strong.json["weak"] == []


@pytest.mark.thorough
def test_a_tolerance_that_nothing_fails_proves_nothing() -> None:
    """No two cosines are further apart than 2, however long the table."""
    rope = pecli.Rope(64, 8, 500000.0)
    lines = pecli.verify(rope.tables(), rope, atol=2.5, rtol=100).weak

    assert (
        "64 rows cannot tell base 500000 from 10000 within this tolerance, and no number of rows would"
        in lines
    )


def test_a_tolerance_of_frequencies_that_nothing_fails_proves_nothing() -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 32,
        "num_attention_heads": 4,
        "rope_theta": 500000.0,
    }
    frequencies = {"inv_freq": 500000.0 ** (-np.arange(4) / 4)}
    lines = pecli.verify(frequencies, config, rtol=100).weak

    assert lines[0].startswith("inv_freq cannot tell base 500000 from 10000")
    assert pecli.verify(frequencies, config, rtol=0.1).weak == ()


@pytest.mark.thorough
def test_a_runtime_is_checked_as_fast_as_the_exact_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are far apart are made together: a call for each took ten seconds."""
    from pecli.engine.schemes.recipe_tables import RecipeFiller

    calls, fill = [], RecipeFiller.fill
    monkeypatch.setattr(
        RecipeFiller, "fill", lambda self, *given: calls.append(1) or fill(self, *given)
    )
    rope = pecli.Rope(2048, 16, 500000.0, runtime="llama.cpp", length=2048)

    assert pecli.verify(dict(list(rope.tables().items())[:2]), rope, atol=2.5).weak
    assert len(calls) < 500


def test_identical_layers_are_one_line(run_pecli, tmp_path: Path) -> None:
    """Every layer of an old checkpoint has its own frequencies; they are computed in float32, as PyTorch would."""
    config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}
    (tmp_path / "config.json").write_text(json.dumps(config))
    exact = (1e4 ** (-np.arange(8) / 8)).astype(np.float32)
    name = "model.layers.{}.self_attn.rotary_emb.inv_freq"
    words = "verify", tmp_path / "model.safetensors", "--config", tmp_path / "config.json"
    wrong = {name.format(k): exact * np.float32(1 + 4e-6 * (k == 7)) for k in range(80)}
    save_file(wrong, tmp_path / "model.safetensors")
    lines = run_pecli(*words).out.splitlines()

    assert "  79 layers: inv_freq, exact" in lines

    (other,) = [line for line in lines if name.format(7) in line]
    assert "max error" in other

    save_file({**wrong, name.format(3): exact * 2}, tmp_path / "model.safetensors")
    failed = run_pecli(*words)
    assert failed.exit_code == CHECK_FAILED
    assert "  78 layers: inv_freq, exact" in failed.out.splitlines()


def test_what_no_number_of_rows_shows_is_weak(tmp_path) -> None:
    """Yarn's factor of 32 multiplies cos and sin by 0.1 ln 32 + 1, and frequencies by nothing."""
    rope = pecli.load_model("gpt-oss-20b").one().rope(64)
    tables = rope.tables()
    (line,) = pecli.verify({"inv_freq": tables["inv_freq"]}, "gpt-oss-20b").weak

    assert line == "inv_freq cannot tell the attention factor from none: compare cos or sin, too"
    assert pecli.verify(tables, "gpt-oss-20b", max_ulp=1).weak == ()

    found = pecli.verify(
        cos_and_sin_tables(300, inverse_frequencies(1e6, 128), np.float64),
        "qwen2.5-vl-7b",
        atol=1e-6,
    )
    assert found.passed
    assert any("cannot tell M-RoPE sections" in line for line in found.weak)

    places = np.array([np.arange(300), np.arange(300) // 16, np.arange(300) % 16])
    axis = np.repeat([0, 1, 2], [16, 24, 24])
    angles = places[axis].T * 1e6 ** (-np.arange(64) / 64)
    image = {"cos": np.cos(angles), "sin": np.sin(angles)}

    assert (
        pecli.verify(image, "qwen2.5-vl-7b", atol=1e-6, positions=places).weak == ()
    )  # its vision has two axes

    grid = np.array([np.arange(8) // 4, np.arange(8) % 4])
    angles = (
        (grid[:, :, None] * 1e4 ** (-np.arange(20) / 20)).transpose(1, 0, 2).reshape(8, 40)
    )  # 80 channels a head
    patches = {"cos": np.cos(angles), "sin": np.sin(angles)}

    assert pecli.verify(patches, "qwen2.5-vl-7b", atol=1e-6, positions=grid, layer_type="vision")


def test_tensors_that_belong_to_no_table_are_named(run_pecli, tmp_path) -> None:
    """Weights are no table; half a sine is one, so --strict refuses it under a name that says
    nothing.
    """
    np.savez(
        tmp_path / "t.npz",
        **cos_and_sin_tables(300, inverse_frequencies(10000.0, 16)),
        junk=np.zeros(3),
    )
    config = {"model_type": "llama", "hidden_size": 32, "num_attention_heads": 2}

    for spec in (config, pecli.Rope(seq_len=300, dim=16)):
        found = pecli.verify(tmp_path / "t.npz", spec, atol=1e-6)
        assert found.passed
        assert found.unchecked == ("junk",)

    words = "rope", "--seq-len", 300, "--dim", 16, "--verify", tmp_path / "t.npz", "--atol", 1e-6
    assert run_pecli(*words).out.splitlines()[-1] == "  not checked: junk"

    tables, weights = (
        cos_and_sin_tables(300, inverse_frequencies(10000.0, 16)),
        np.random.default_rng(0).normal(0, 0.02, (300, 16)),
    )
    weights[:, 3] = 0  # a channel that died
    (tmp_path / "c.json").write_text(json.dumps(config))
    strict = (
        "verify",
        tmp_path / "t.npz",
        "--config",
        tmp_path / "c.json",
        "--atol",
        1e-6,
        "--strict",
    )

    for name, junk, code in (
        ("w", weights, SUCCESS),
        ("foo", tables["sin"][None] / 2, CHECK_FAILED),
    ):  # a sine whose name says nothing
        np.savez(tmp_path / "t.npz", **tables, **{name: junk})
        assert run_pecli(*strict).exit_code == code, name
    assert run_pecli(*words, "--json").json["weak"] == [
        "foo looks like a table, and no name says of what"
    ]


def test_a_weak_check_of_many_layers_names_their_tensor_once() -> None:
    """llama3's factor of 8 is within a relative error of 10."""
    layers = {f"layers.{layer}.rotary_emb.inv_freq": LLAMA.frequencies()[0] for layer in range(3)}
    found = pecli.verify(layers, "llama-3.1-8b", rtol=10)

    assert pecli.verify(layers, "llama-3.1-8b").passed

    lines = [line.partition(" within ")[0] for line in found.weak]
    assert lines.count("inv_freq cannot tell llama3 scaling from none") == 1


ROPE_BASE_10000, ROPE_BASE_500000 = (
    pecli.Rope(seq_len=16, dim=16, base=10000),
    pecli.Rope(seq_len=16, dim=16, base=500000),
)


def test_a_failed_result_is_false() -> None:
    tables, others = ROPE_BASE_10000.tables(), ROPE_BASE_500000.tables()
    noise = np.random.default_rng(0).normal(size=(64, 32))

    for right in (
        pecli.verify(tables, ROPE_BASE_10000),
        pecli.diff(tables, tables),
        pecli.identify(tables),
    ):
        assert right
    for wrong in (
        pecli.verify(tables, ROPE_BASE_500000),
        pecli.diff(tables, others),
        pecli.identify(noise),
    ):
        assert not wrong

    found = pecli.runtimes("llama-2-7b", 64)
    assert bool(found) == found.agree
    assert repr(found)[:27] == "<RuntimeComparison passed: "


def test_raise_if_failed_and_repr_say_why() -> None:
    pecli.verify(ROPE_BASE_10000.tables(), ROPE_BASE_10000).raise_if_failed()
    with pytest.raises(
        pecli.CheckFailedError, match=r"FAILED(.|\n)*base is 10000 \(the spec says 500000\)"
    ):
        pecli.verify(ROPE_BASE_10000.tables(), ROPE_BASE_500000).raise_if_failed()
    with pytest.raises(AssertionError, match="DIFFERENT"):
        pecli.diff(ROPE_BASE_10000.tables(), ROPE_BASE_500000.tables()).raise_if_failed()

    failed = repr(pecli.verify(ROPE_BASE_10000.tables(), ROPE_BASE_500000))
    assert failed.startswith("<Verification failed: rope; ")
    assert "base is 10000" in failed
    assert "None" not in failed
    assert (
        repr(pecli.diff(ROPE_BASE_10000.tables(), ROPE_BASE_10000.tables()))
        == "<Difference passed>"
    )


def test_a_printed_result_is_what_the_command_prints(run_pecli: Any, tmp_path: Path) -> None:
    ours, theirs = (str(tmp_path / name) for name in ("a.safetensors", "b.safetensors"))
    pecli.save(ours, ROPE_BASE_10000)
    pecli.save(theirs, ROPE_BASE_500000)

    assert str(pecli.verify(ours)) == run_pecli("verify", ours).out.rstrip("\n")
    assert str(pecli.diff(ours, theirs)) == run_pecli("diff", ours, theirs, "--no-plot").out.rstrip(
        "\n"
    )
    assert str(pecli.identify(ours)) == run_pecli("identify", ours).out.rstrip("\n")
    assert (
        str(pecli.runtimes("llama-2-7b", 4096))
        == run_pecli("runtimes", "llama-2-7b", "--length", 4096).out.rstrip()
    )

    audit = pecli.audit(ROPE_BASE_10000, recipes=("float32",))
    assert "float32" in str(audit)
    assert len(repr(audit)) < 200


def test_positions_of_one_axis_do_not_show_sections() -> None:
    """Text has the same position on all three axes, so that it does not matter which one a pair takes."""
    rope = pecli.Rope(dim=16, positions=[0, 1, 2, 500], mrope_section=[2, 3, 3])
    lines = pecli.verify(rope.tables(), rope).weak

    assert any("cannot tell M-RoPE sections" in line for line in lines)


def test_a_layer_type_that_was_chosen_is_not_in_doubt() -> None:
    tables = pecli.load_model("gemma-3-4b").one("full_attention").rope(64).tables()
    waves_of_rope = {"cos": tables["cos"], "sin": tables["sin"]}
    chosen = pecli.verify(waves_of_rope, "gemma-3-4b", layer_type="full_attention", atol=1e-5)

    assert chosen.passed
    assert not any("full_attention" in line for line in chosen.weak)
    assert "which it fits best" not in str(chosen)

    guessed = pecli.verify(waves_of_rope, "gemma-3-4b", atol=1e-5)
    assert any("it fits full_attention layers" in line for line in guessed.weak)


def test_a_row_at_position_1_is_not_doubted_for_left_padding() -> None:
    """Five rows of padding leave nothing of a single row, and the padding itself is at position 1."""
    rope = pecli.Rope(1, 16, offset=1)
    assert pecli.verify(rope.tables(), rope, atol=1e-5).weak == (
        "1 row cannot tell whether rows are in reverse order: compare 2 or more",
    )


def test_rounding_is_not_the_advice_beside_a_tensor_of_another_shape() -> None:
    rope = pecli.Rope(8, 16)
    tables = rope.tables()
    near = {"cos": np.nextafter(tables["cos"], np.float32(2)), "sin": tables["sin"]}

    assert "allow --max-ulp 1" in str(pecli.verify(near, rope))

    short = {**near, "sin": tables["sin"][:4]}
    assert "--max-ulp" not in str(pecli.verify(short, rope, reasons=False))


def test_a_strict_check_fails_if_it_is_weak() -> None:
    """Row 0 of every base is the same, so that one row rules out no other base."""
    rope = pecli.Rope(seq_len=1, dim=8)
    result = pecli.verify(rope.tables(), rope, strict=True)

    assert not result.passed
    assert "1 row cannot tell base 10000 from 500000" in repr(result)


def test_a_strict_check_passes_if_it_rules_out_every_known_mistake() -> None:
    rope = pecli.Rope(seq_len=64, dim=8)
    assert pecli.verify(rope.tables(), rope, strict=True).passed
