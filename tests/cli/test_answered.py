"""Command lines with a part of their output, as answered.txt lists them.

The expected parts were written by hand. A row of the table is a case whose name is its command line.
"""

import pytest

from tests.cli.sample_files import write_sample_files
from tests.cli.tables import Row, rows
from tests.exit_codes import SUCCESS


@pytest.mark.parametrize("row", rows("answered.txt", usual_code=0))
def test_a_command_line_of_answered_txt_prints_the_words_beside_it(run_pecli, row: Row) -> None:
    """Each line of answered.txt has commands that prepare files, a command line, a part of its
    output that was written by hand, and its exit code if it is not 0.
    """
    write_sample_files()
    for words in row.preparation:
        assert run_pecli(*words).exit_code == SUCCESS

    outcome = run_pecli(*row.words)
    assert row.output in outcome.out + outcome.err
    assert outcome.exit_code == row.code
