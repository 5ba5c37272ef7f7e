"""Wrong command lines, as refused.txt lists them: one line on standard error names the mistake.

The expected parts of the errors were written by hand. Nothing may be written to the folder.
"""

import os
import re
from pathlib import Path

import pytest

from tests.cli.sample_files import write_sample_files
from tests.cli.tables import Row, parameter, rows

USAGE = 2
LONG_NUMBER = parameter(f"sinusoidal --seq-len {'9' * 5000} --dim 4 | --seq-len is 999", USAGE)
NAMES_OF_PYTHON_PARAMETERS = re.compile(
    r"(?<!--)\b(kv_heads|head_dim|rotary_dim|seq_len|layer_type)\b"
)


@pytest.fixture(scope="module")
def sample_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one folder for all rows, which is as it was after each of them."""
    folder = tmp_path_factory.mktemp("samples")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_sample_files()
    return folder


@pytest.mark.parametrize("row", [*rows("refused.txt", USAGE), LONG_NUMBER])
def test_a_wrong_command_line_is_refused_in_one_line_and_writes_nothing(
    run_pecli, sample_folder: Path, monkeypatch: pytest.MonkeyPatch, row: Row
) -> None:
    """Each line of refused.txt has a command line, a part of the error that was written by hand,
    and its exit code if it is not 2 (usage). Errors have the names of options, such as --seq-len,
    and not of parameters of Python, such as seq_len.
    """
    monkeypatch.chdir(sample_folder)
    files = sorted(os.listdir())
    outcome = run_pecli(*row.words)

    assert row.output in outcome.err
    assert outcome.exit_code == row.code
    assert outcome.out == ""
    assert outcome.err.startswith("pecli: error: ")
    assert outcome.err.count("\n") == 1
    assert not NAMES_OF_PYTHON_PARAMETERS.search(outcome.err), (
        "options are called as they are typed"
    )
    assert sorted(os.listdir()) == files
