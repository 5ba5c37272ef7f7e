"""What is said of tables that fail without a known mistake, and of those that pass."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import pecli
from pecli.engine.table import table_of
from pecli.explain.edits import RowsWrong
from pecli.files import save_tables


def test_another_table_is_named(tmp_path: Path) -> None:
    scaling = {"scaling": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4}
    scaled = pecli.Rope(2048, 128, 500000.0, original_max_position_embeddings=8192, **scaling)
    pecli.save(tmp_path / "scaled.safetensors", dict(list(scaled.tables().items())[:2]))
    result = pecli.verify(tmp_path / "scaled.safetensors", pecli.Rope(2048, 128, 500000.0))
    found = {edit.name: (edit.expected, edit.found) for edit in result.explanations[0].edits}
    assert found["scaling"] == ("none", "llama3")
    assert (found["factor"], found["original_max_position_embeddings"]) == ((None, 8.0), (None, 8192.0))
    assert "--scaling llama3 --factor 8 --original-len 8192 " in result.diagnosis[1]


LLAMA = {"scaling": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


def _waves(length: int, frequencies: np.ndarray) -> dict[str, np.ndarray]:
    angles = np.outer(np.arange(length), frequencies)
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


def _llama3(plain: np.ndarray, factor: float, original: int) -> np.ndarray:
    """As Meta writes it, with low and high factors of 1 and 4."""
    smooth = np.clip((original * plain / (2 * np.pi) - 1) / 3, 0, 1)
    return (1 - smooth) * plain / factor + smooth * plain


@pytest.mark.parametrize(
    ("factor", "original", "words"),
    [
        (32, 8192, "factor is 32 (the spec says 8)"),
        (8, 131072, "original_max_position_embeddings is 131072 (the spec says 8192)"),
    ],
)
def test_a_parameter_that_differs_is_named(factor: int, original: int, words: str) -> None:
    spec = pecli.Rope(2048, 128, 500000.0, original_max_position_embeddings=8192, **LLAMA)
    found = _waves(2048, _llama3(500000.0 ** (-np.arange(64) / 64), factor, original))
    sentence, *_ = pecli.verify(found, spec).diagnosis
    assert sentence.startswith(f"cos, sin: {words}; max residual ")


def test_of_equal_settings_the_nearest_to_the_spec_is_named() -> None:
    """A low factor of 2 is also half the length with a high factor of 2."""
    spec = pecli.Rope(2048, 128, 500000.0, original_max_position_embeddings=8192, **LLAMA)
    plain = 500000.0 ** (-np.arange(64) / 64)
    keep = np.clip((8192 * plain / (2 * np.pi) - 2) / 2, 0, 1)
    sentence, *_ = pecli.verify(_waves(2048, plain * (keep + (1 - keep) / 8)), spec).diagnosis
    assert sentence.startswith("cos, sin: low_freq_factor is 2 (the spec says 1); max residual ")


YARN = {"scaling": "yarn", "original_max_position_embeddings": 4096}


def _yarn(factor: float, original: int) -> dict[str, np.ndarray]:
    """DeepSeek-V3's, by the paper's formulas."""
    low, high = (64 * np.log(original / (beta * 2 * np.pi)) / (2 * np.log(10000)) for beta in (32, 1))
    ramp = np.clip((np.arange(32) - np.floor(low)) / (np.ceil(high) - np.floor(low)), 0, 1)
    plain = 10000.0 ** (-np.arange(32) / 32)
    return _waves(2048, plain / factor * ramp + plain * (1 - ramp))


def test_the_extended_length_in_the_place_of_the_original() -> None:
    """Rounded limits leave the length open: 163,840 is what DeepSeek-V3 claims, 131,072 the plainest that fits."""
    spec = pecli.Rope(2048, 64, factor=40.0, mscale=1.0, mscale_all_dim=1.0, **YARN)
    (edit,) = pecli.verify(_yarn(40, 163840), spec).explanations[0].edits
    assert (edit.name, edit.expected) == ("original_max_position_embeddings", 4096)
    assert 131072 <= edit.found <= 163840


def test_what_follows_from_the_factor_is_no_second_cause() -> None:
    height = np.float64(0.1 * np.log(16) + 1)
    found = {name: (table * height).astype(np.float32) for name, table in _yarn(16, 4096).items()}
    sentence, *_ = pecli.verify(found, pecli.Rope(2048, 64, factor=40.0, **YARN)).diagnosis
    assert sentence.startswith("cos, sin: factor is 16 (the spec says 40); max residual ")


def test_a_table_that_is_right_in_most_rows_is_not_another_one() -> None:
    found = _waves(2048, 10000.0 ** (-np.arange(64) / 64))
    found["cos"][100:164] = found["cos"][36:100]
    (why,) = pecli.verify(found, pecli.Rope(2048, 128)).explanations
    assert why.mistakes == (RowsWrong(tuple(range(100, 164))),)


def test_noise_is_nothing(tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32))
    result = pecli.verify(tmp_path / "t.npy", pecli.Sinusoidal(64, 32))
    assert not result.passed
    assert result.diagnosis == ()


def test_the_same_table_is_not_another_one(tmp_path: Path) -> None:
    """Frequencies that are off in a last place, and tables with an axis too many."""
    rope = pecli.Rope(16, 8)
    off = rope.tables()["inv_freq"] * np.array([1, 1 + 8 * 2.0**-52, 1, 1])
    for changed in ({"inv_freq": off}, {name: table[None] for name, table in rope.tables().items()}):
        tables = [table_of(name, table) for name, table in {**rope.tables(), **changed}.items()]
        save_tables(str(tmp_path / "t.npz"), tables, rope.spec())
        result = pecli.verify(tmp_path / "t.npz")
        assert not result.passed
        assert not [sentence for sentence in result.diagnosis if "another table" in sentence]


LLAMA_3_1 = {
    **{"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 500000.0},
    "rope_scaling": {
        **{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
        "original_max_position_embeddings": 8192,
    },
}


def _llama_dump(folder: Path, rows: int) -> tuple[str, ...]:
    """The words of a command that checks such a dump of Llama 3.1 8B."""
    (folder / "config.json").write_text(json.dumps(LLAMA_3_1))
    np.savez(folder / "dump.npz", **_waves(rows, _llama3(500000.0 ** (-np.arange(64) / 64), 8, 8192)))
    return "verify", str(folder / "dump.npz"), "--config", str(folder / "config.json"), "--atol", "1e-3"


def test_two_rows_pass_and_prove_little(pecli_cli, tmp_path: Path) -> None:
    """The slowest pair that llama3 scaling touches turns by less than 0.001 from one row to the next."""
    words = _llama_dump(tmp_path, 2)
    outcome = pecli_cli(*words)
    lines = [line.removeprefix("  weak: ") for line in outcome.out.splitlines() if "weak" in line]
    doubts = [line.partition(": compare ")[0].removeprefix("2 rows cannot tell ") for line in lines]
    assert doubts == ["llama3 scaling from none", "factor 8 from 4", "factor 8 from 16"]
    assert (outcome.code, outcome.out.splitlines()[0][:6]) == (0, "passed")
    assert pecli_cli(*words, "--strict").code == 1
    assert pecli_cli(*words, "--json", "--strict").json["weak"] == lines
    enough = max(int(line.split()[-3].replace(",", "")) for line in lines)
    assert pecli_cli(*_llama_dump(tmp_path, enough), "--strict").code == 0


def test_many_rows_prove_it(pecli_cli, tmp_path: Path) -> None:
    words = _llama_dump(tmp_path, 8192)
    outcome = pecli_cli(*words, "--strict")
    assert (outcome.code, "weak" in outcome.out) == (0, False)
    assert pecli_cli(*words, "--json").json["weak"] == []


def test_a_tolerance_that_nothing_fails_proves_nothing() -> None:
    """No two cosines are further apart than 2; and however long the table, its frequencies stay what they are."""
    rope = pecli.Rope(64, 8, 500000.0)
    lines = pecli.verify(rope.tables(), rope, atol=2.5, rtol=100).weak
    assert "64 rows cannot tell base 500000 from 10000 within this tolerance, and no number of rows would" in lines
    config = {"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4, "rope_theta": 500000.0}
    frequencies = {"inv_freq": 500000.0 ** (-np.arange(4) / 4)}
    assert [line[:25] for line in pecli.verify(frequencies, config, rtol=100).weak] == ["inv_freq cannot tell base"]
    assert pecli.verify(frequencies, config, rtol=0.5).weak == ()


def test_a_runtime_is_checked_as_fast_as_the_exact_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are far apart are made together: a call for each took ten seconds."""
    from pecli.engine.schemes.recipe_tables import RecipeFiller

    calls, fill_at = [], RecipeFiller.fill_at
    monkeypatch.setattr(RecipeFiller, "fill_at", lambda self, *given: calls.append(1) or fill_at(self, *given))
    rope = pecli.Rope(4096, 64, 500000.0, runtime="llama.cpp", length=4096)
    assert pecli.verify(dict(list(rope.tables().items())[:2]), rope, atol=2.5).weak
    assert len(calls) < 500


def test_identical_layers_are_one_line(pecli_cli, tmp_path: Path) -> None:
    """Every layer of an old checkpoint has its own frequencies; they are computed in float32, as PyTorch would."""
    config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}
    (tmp_path / "config.json").write_text(json.dumps(config))
    exact = (1e4 ** (-np.arange(8) / 8)).astype(np.float32)
    name = "model.layers.{}.self_attn.rotary_emb.inv_freq"
    save_file({name.format(k): exact for k in range(80)}, tmp_path / "model.safetensors")
    words = "verify", tmp_path / "model.safetensors", "--config", tmp_path / "config.json"
    assert "  80 layers: inv_freq, exact" in pecli_cli(*words).out.splitlines()
    wrong = {name.format(k): exact * np.float32(1 + 4e-6 * (k == 7)) for k in range(80)}
    save_file(wrong, tmp_path / "model.safetensors")
    lines = pecli_cli(*words).out.splitlines()
    assert "  79 layers: inv_freq, exact" in lines
    (other,) = [line for line in lines if name.format(7) in line]
    assert "max error" in other
    assert "ulp" not in other
    save_file({**wrong, name.format(3): exact * 2}, tmp_path / "model.safetensors")
    failed = pecli_cli(*words)
    assert (failed.code, "  78 layers: inv_freq, exact" in failed.out.splitlines()) == (1, True)
    assert f"{name.format(3)}  8" in failed.out


def test_what_no_number_of_rows_shows_is_weak(tmp_path) -> None:
    """Yarn's factor of 32 multiplies cos and sin by 0.1 ln 32 + 1, and frequencies by nothing."""
    rope = pecli.load_model("gpt-oss-20b").one().rope(64)
    tables = rope.tables()
    (line,) = pecli.verify({"inv_freq": tables["inv_freq"]}, "gpt-oss-20b").weak
    assert line == "inv_freq cannot tell the attention factor from none: compare cos or sin, too"
    assert pecli.verify(tables, "gpt-oss-20b", max_ulp=1).weak == ()
    angles = np.arange(300)[:, None] * 1e6 ** (-np.arange(64) / 64)
    found = pecli.verify({"cos": np.cos(angles), "sin": np.sin(angles)}, "qwen2.5-vl-7b", atol=1e-6)
    assert (found.passed, any("cannot tell M-RoPE sections" in line for line in found.weak)) == (True, True)
    places = np.array([np.arange(300), np.arange(300) // 16, np.arange(300) % 16])
    axis = np.repeat([0, 1, 2], [16, 24, 24])
    angles = places[axis].T * 1e6 ** (-np.arange(64) / 64)
    image = {"cos": np.cos(angles), "sin": np.sin(angles)}
    assert pecli.verify(image, "qwen2.5-vl-7b", atol=1e-6, positions=places).weak == ()


def test_tensors_that_belong_to_no_table_are_named(pecli_cli, tmp_path) -> None:
    angles = np.arange(300)[:, None] * 10000.0 ** (-np.arange(8) / 8)
    tables = {"cos": np.cos(angles), "sin": np.sin(angles), "junk": np.zeros(3)}
    np.savez(tmp_path / "t.npz", **tables)
    config = {"model_type": "llama", "hidden_size": 32, "num_attention_heads": 2}
    for spec in (config, pecli.Rope(seq_len=300, dim=16)):
        found = pecli.verify(tmp_path / "t.npz", spec, atol=1e-6)
        assert (found.passed, found.unchecked) == (True, ("junk",))
    words = "rope", "--seq-len", 300, "--dim", 16, "--verify", tmp_path / "t.npz", "--atol", 1e-6
    assert pecli_cli(*words).out.splitlines()[-1] == "  not checked: junk"


def test_a_weak_check_of_many_layers_names_their_tensor_once() -> None:
    """llama3's factor of 8 is within a relative error of 10."""
    low, high, scale = 8192 / 4, 8192 / 1, 8.0
    plain = 500000.0 ** (-np.arange(64) / 64)
    wavelength = 2 * np.pi / plain
    smooth = np.clip((8192 / wavelength - 1) / (4 - 1), 0, 1)
    scaled = np.where(wavelength < low, plain, np.where(wavelength > high, plain / scale, plain))
    between = (wavelength >= low) & (wavelength <= high)
    scaled[between] = ((1 - smooth) * plain / scale + smooth * plain)[between]
    layers = {f"layers.{layer}.rotary_emb.inv_freq": scaled for layer in range(3)}
    found = pecli.verify(layers, "llama-3.1-8b", rtol=10)
    assert pecli.verify(layers, "llama-3.1-8b").passed
    doubts = ["llama3 scaling from none", "factor 8 from 4", "factor 8 from 16"]
    assert [line.partition(" within ")[0] for line in found.weak] == [
        f"inv_freq cannot tell {doubt}" for doubt in doubts
    ]
