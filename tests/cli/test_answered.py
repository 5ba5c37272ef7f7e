"""Command lines with a part of their output, in answered.txt."""

import pytest

from tests.cli.sample_files import write_sample_files
from tests.cli.tables import Row, rows


@pytest.mark.parametrize("row", rows("answered.txt", usual_code=0))
def test_the_command_line_has_this_output(pecli_cli, row: Row) -> None:
    write_sample_files()
    for words in row.preparation:
        assert pecli_cli(*words).code == 0
    outcome = pecli_cli(*row.words)
    assert row.output in outcome.out + outcome.err
    assert outcome.code == row.code
