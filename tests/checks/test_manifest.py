"""Manifests: what they may say, and one line for everything that they may not."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.checks.manifest import read_manifest
from pecli.checks.run import Check, run_all
from pecli.checks.verification import Verification
from pecli.errors import DefectError, FileError, ParameterError, PecliError
from tests.checks.waves import powers, waves

CONFIG = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "rope_theta": 10000.0}
TABLES = waves(6, powers(10000.0, 16))
ROPE = {"scheme": "rope", "seq_len": 6, "dim": 16}


def check(file: str = "cos.npy", **keys: Any) -> str:
    lines = (f"{name} = {json.dumps(value)}" for name, value in {"file": file, **keys}.items())
    return "\n".join(["[[check]]", *lines, ""])


@pytest.fixture
def manifest(tmp_path):
    """Write a manifest into a folder with a config, a preset's kind of dump, and a file that carries its spec."""
    folder = tmp_path / "sub"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    np.save(folder / "cos.npy", TABLES["cos"])
    np.savez(folder / "both.npz", **TABLES)
    pecli.save(folder / "own.safetensors", pecli.Alibi(4, 5))

    def write(*texts: str):
        (folder / "pecli.toml").write_text("".join(texts), encoding="utf-8")
        return str(folder / "pecli.toml")

    return write


def verdicts(path: str, tolerances=None) -> list[bool]:
    return [outcome.status == "passed" for outcome in run_all(read_manifest(path, tolerances))]


def test_every_kind_of_check(manifest, tmp_path) -> None:
    config = {"config": "config.json"}
    path = manifest(
        "[defaults]\natol = 1e-6\n",
        check(name="cosines", **config),
        check("both.npz:sin", max_ulp=1, **config),
        check(base=10000, **ROPE),
        check("own.safetensors"),
        check(model="gemma-3-1b"),
        check(offset=1, **config),
        check(dtype="float16", **ROPE),
        check("not there.npy"),
        check(config="not there.json"),
    )
    checks = read_manifest(path)
    files = [
        "both.npz:sin",
        "cos.npy",
        "own.safetensors",
        *["cos.npy"] * 3,
        "not there.npy",
        "cos.npy",
    ]
    assert [check.label for check in checks] == ["cosines", *files]
    assert checks[0].file == str(tmp_path / "sub" / "cos.npy")
    assert {check.manifest for check in checks} == {path}
    assert verdicts(path) == [True] * 4 + [False] * 5
    last = list(run_all(checks))[-1]
    assert isinstance(last.result, FileError)
    assert "not there.json" in str(last.result)


@pytest.mark.parametrize(
    ("default", "own", "given", "passes"),
    [
        (1e-2, {}, {}, True), (1e-6, {}, {}, False), (1e-6, {}, {"atol": 1e-2}, True), (1e-6, {"atol": 1e-2}, {}, True),
        (1e-2, {"atol": 1e-6}, {"atol": 1e-2}, False),
    ],
)  # fmt: skip
def test_whose_tolerance_wins(manifest, default, own, given, passes) -> None:
    path = manifest(f"[defaults]\natol = {default}\n", check(base=9990, **ROPE, **own))
    assert verdicts(path, given) == [passes]


def test_parameters_of_schemes_are_keys(manifest, tmp_path) -> None:
    pecli.save(
        tmp_path / "sub" / "pe.npy", pecli.Sinusoidal(5, 6, style="whisper", dtype="float16")
    )
    styles = [
        check("pe.npy", scheme="sinusoidal", seq_len=5, dim=6, style=style)
        for style in ("whisper", "paper")
    ]
    factors = {
        "scaling": "longrope",
        "original_max_position_embeddings": 64,
        "factor": 1,
        "atol": 1e-6,
    }
    long = check(**ROPE, **factors, short_factor=[1.0] * 8, long_factor=[2] * 8)
    thetas = [check("both.npz", **ROPE, theta=theta, atol=1e-6) for theta in (10000, 10001)]
    assert verdicts(manifest(*styles, long, *thetas)) == [True, False, True, True, False]
    with pytest.raises(ParameterError, match="theta is given beside base; they are one parameter"):
        read_manifest(manifest(check(**ROPE, theta=1, base=1)))


def test_tokens_of_queries_and_tables_that_were_added(manifest, tmp_path) -> None:
    folder, x, wpe = (
        tmp_path / "sub",
        np.random.default_rng(0).normal(size=(2, 4, 6, 16)),
        np.eye(8, 16),
    )
    mask = [[1] * 6, [0, 0, 1, 1, 1, 1]]
    padded = pecli.apply(x, str(folder / "config.json"), attention_mask=mask)
    rows = x[:, 0] + wpe[[range(6), (0, 0, 0, 1, 2, 3)]] * np.array(mask)[..., None]
    for name, array in {
        "x": x,
        "padded": padded,
        "x0": x[:, 0],
        "rows": rows,
        "wpe": wpe,
        "mask": mask,
    }.items():
        np.save(folder / f"{name}.npy", array)
    np.save(folder / "moved.npy", pecli.apply(x, str(folder / "config.json"), shift=-3))
    model, table = (
        {"config": "config.json", "before": "x.npy"},
        {"table": "wpe.npy", "before": "x0.npy"},
    )
    keys = [
        ("padded", model),
        ("moved", model | {"shift": -3}),
        ("moved", model | {"shift": 3}),
        ("rows", table),
    ]
    for given in (mask, "mask.npy", "none.npy"):
        keys += [
            ("padded", model | {"attention_mask": given}),
            ("rows", table | {"attention_mask": given}),
        ]
    keys += [
        ("rows", table | {"positions": [[*range(6)], [0, 0, 0, 1, 2, 3]]})
    ]  # padding was not added to
    found = verdicts(manifest(*(check(f"{file}.npy", atol=1e-6, **each) for file, each in keys)))
    assert found == [False, True, False, False, *[True] * 4, *[False] * 3]


CHECK = '[[check]]\nfile = "cos.npy"\n'
MALFORMED = json.loads(
    Path(__file__).with_name("malformed_manifests.json").read_text(encoding="utf-8")
) | {
    f"[[check]]\nfile = 0x{'f' * 5000}": "check 1: file is a number of thousands of digits; it must be a text",
    CHECK
    + f"scheme = 'alibi'\nheads = 4\nrule = [0x{'f' * 5000}]": "rule is a number of thousands of digits",
    CHECK + f"scheme = '{'a' * 5000}'": "scheme is 'aaaaaaaa",
    ("a." * 20000) + "a = 1": "nested too deep in line 1",
    "[" + '"a" . ' * 40 + "a]": "nested too deep in line 1",
    CHECK + "x = {" + "a." * 40 + "a = 1}": "nested too deep in line 3",
    "#" * (3 << 20): "larger than 512 KB",
    "a = [" * 5000: "is not TOML: ",
    f"a = {'1' * 5000}": "is not TOML: ",
}


@pytest.mark.parametrize("text", MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_manifests(manifest, pecli_cli, text) -> None:
    path = manifest(text)
    outcome = pecli_cli("verify", path)
    assert outcome.code == (3 if "is not TOML" in outcome.err else 2)
    assert outcome.out == ""
    assert outcome.err.startswith(f"pecli: error: {path}")
    assert MALFORMED[text] in outcome.err
    assert outcome.err.count("\n") == 1


def test_not_text_and_not_there(tmp_path) -> None:
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(FileError, match="UTF-8"):
        read_manifest(str(tmp_path / "x.toml"))
    with pytest.raises(FileError, match="does not exist"):
        read_manifest(str(tmp_path / "y.toml"))
    with pytest.raises(FileError, match="folder"):
        read_manifest(str(tmp_path))


@pytest.mark.parametrize(
    "key", ["file = 'pipe'", "file = 'pipe:cos'", "file = 'x.npy'\nbefore = 'pipe'"]
)
def test_a_pipe_is_no_file_of_a_manifest(manifest, pecli_cli, tmp_path, key) -> None:
    path = manifest(f"[[check]]\n{key}\nscheme = 'rope'\nseq_len = 4\ndim = 4\n")
    os.mkfifo(os.path.join(os.path.dirname(path), "pipe"))
    outcome = pecli_cli("verify", path)
    assert outcome.code == 3
    assert "is a pipe or a device" in outcome.err


@pytest.mark.thorough
def test_a_manifest_takes_little_memory_whatever_it_holds(manifest, peak_memory) -> None:
    lines = (f"[{number:x}.a]\nb.c=1\n" for number in range(1 << 15))
    path = manifest("".join(lines)[: 512 << 10].rpartition("[")[0])
    script = "import sys; from pecli.checks.manifest import read_manifest; from pecli.errors import ParameterError\n"
    script += "try: read_manifest(sys.argv[1])\nexcept ParameterError as problem: assert 'unknown' in str(problem)"
    assert peak_memory("-c", script, path) < 220


def good(name: str) -> Verification:
    return Verification(name, "rope", ())


def test_outcomes_come_in_the_order_of_the_checks(monkeypatch) -> None:
    monkeypatch.setenv("PECLI_THREADS", "4")
    last_is_done = threading.Event()

    def first() -> Verification:
        assert last_is_done.wait(10)  # which needs the others to run meanwhile
        return good("first")

    def last() -> Verification:
        last_is_done.set()
        raise FileError("last", "does not exist")

    checks = [Check("first", first), Check("second", lambda: good("second")), Check("last", last)]
    outcomes = list(run_all(checks))
    assert [outcome.check.file for outcome in outcomes] == ["first", "second", "last"]
    assert [outcome.status == "passed" for outcome in outcomes] == [True, True, False]
    assert outcomes[2].as_json()["diagnosis"] == ["last: does not exist"]
    assert all(outcome.seconds >= 0 for outcome in outcomes)


DEFECT = "unexpected ZeroDivisionError; this is a defect of pecli"


@pytest.mark.parametrize(
    ("raised", "words"), [(MemoryError, "memory"), (ZeroDivisionError, DEFECT)]
)
def test_what_a_check_raises_is_its_own_problem(raised, words) -> None:
    def broken() -> Verification:
        raise raised

    outcomes = list(run_all([Check("a", broken), Check("b", lambda: good("b"))]))
    assert [outcome.status == "passed" for outcome in outcomes] == [False, True]
    assert words in str(outcomes[0].result)
    assert isinstance(outcomes[0].result, PecliError)
    if words == DEFECT:
        assert isinstance(outcomes[0].result, DefectError)
        assert isinstance(outcomes[0].result.__cause__, raised)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_ends_all_checks(stop: type[BaseException], monkeypatch) -> None:
    def wrapped() -> Verification:  # as Python before 3.12 does while a class is being made
        raise RuntimeError from stop()

    monkeypatch.setenv("PECLI_THREADS", "1")
    with pytest.raises(stop):
        list(run_all([Check("a", wrapped), Check("b", wrapped)]))


def test_nobody_waits_for_checks_after_an_interrupt(monkeypatch) -> None:
    monkeypatch.setenv("PECLI_THREADS", "2")
    begun, end, ended = threading.Event(), threading.Event(), threading.Event()

    def long() -> Verification:
        begun.set()
        end.wait(20)
        ended.set()
        return good("long")

    def quick() -> Verification:
        assert begun.wait(10)
        return good("quick")

    outcomes = run_all([Check("quick", quick), Check("long", long)])
    assert next(outcomes).status == "passed"
    outcomes.close()
    assert not ended.is_set()
    end.set()


def test_a_pattern_of_a_thousand_folders_matches_nothing(tmp_path) -> None:
    (tmp_path / "deep.toml").write_text(f"[[check]]\nfile = '{'*/' * 1000}*'\n")
    with pytest.raises(FileError, match="matches no file"):
        [check.run() for check in read_manifest(str(tmp_path / "deep.toml"))]
