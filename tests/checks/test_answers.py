"""Results read as answers: their truth, what they print, and what they raise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.errors import CheckFailedError

ROPE, OTHER = pecli.Rope(seq_len=16, dim=16, base=10000), pecli.Rope(seq_len=16, dim=16, base=500000)


def test_a_failed_result_is_false() -> None:
    tables, others = ROPE.tables(), OTHER.tables()
    noise = np.random.default_rng(0).normal(size=(64, 32))
    for right in (pecli.verify(tables, ROPE), pecli.diff(tables, tables), pecli.identify(tables)):
        assert right
    for wrong in (pecli.verify(tables, OTHER), pecli.diff(tables, others), pecli.identify(noise)):
        assert not wrong
    for model in ("llama-2-7b", "qwen2.5-7b"):
        found = pecli.runtimes(model, 4096)
        assert bool(found) == found.agree
        assert repr(found).startswith(f"<RuntimeComparison {'passed' if found.agree else 'failed'}: ")


def test_raise_if_failed_says_what_the_command_prints() -> None:
    pecli.verify(ROPE.tables(), ROPE).raise_if_failed()
    with pytest.raises(CheckFailedError, match=r"FAILED(.|\n)*base is 10000 \(the spec says 500000\)"):
        pecli.verify(ROPE.tables(), OTHER).raise_if_failed()
    with pytest.raises(AssertionError, match="DIFFERENT"):
        pecli.diff(ROPE.tables(), OTHER.tables()).raise_if_failed()


def test_a_printed_result_is_what_the_command_prints(pecli_cli: Any, tmp_path: Path) -> None:
    ours, theirs = (str(tmp_path / name) for name in ("a.safetensors", "b.safetensors"))
    pecli.save(ours, ROPE)
    pecli.save(theirs, OTHER)
    assert str(pecli.verify(ours)) == pecli_cli("verify", ours).out.rstrip("\n")
    assert str(pecli.diff(ours, theirs)) == pecli_cli("diff", ours, theirs, "--no-plot").out.rstrip("\n")
    assert str(pecli.identify(ours)) == pecli_cli("identify", ours).out.rstrip("\n")
    assert str(pecli.runtimes("llama-2-7b", 4096)) == pecli_cli("runtimes", "llama-2-7b", "--length", 4096).out.rstrip()
    audit = pecli.audit(ROPE, recipes=("float32",))
    assert "float32" in str(audit)
    assert len(repr(audit)) < 200


def test_a_repr_is_short_and_says_why() -> None:
    failed = repr(pecli.verify(ROPE.tables(), OTHER))
    assert failed.startswith("<Verification failed: rope; ")
    assert "base is 10000" in failed
    assert "None" not in failed
    assert repr(pecli.diff(ROPE.tables(), ROPE.tables())) == "<Difference passed>"
