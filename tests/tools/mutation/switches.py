"""A copy of the repository in which every mutant is behind a switch.

Mutant 7 changes `a < b` to `a <= b`: the code becomes `((a <= b) if M(7) else (a < b))`. An error
that is not raised becomes a loop that runs once: `while not M(7): raise …`.
"""

import ast
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tests.tools.mutation.mutants import Mutant

SWITCH = """
import atexit, os

passed = set()
chosen = int(os.environ.get("MUTANT", "-1"))


def M(number):
    passed.add(number)
    return number == chosen


def write_passed():
    with open(f"{folder}/{os.getpid()}", "w") as file:
        print(*passed, file=file)


folder = os.environ.get("MUTATE_PASSED")
if folder:
    atexit.register(write_passed)
"""
"""The module with the switch. It also records which switches were passed, for each process."""
IMPORT = b"from pecli.mutant_switch import M\n"


def put_switches(tree: Path, mutants: Sequence[Mutant]) -> list[Mutant]:
    """Write the changed files, and return the mutants in them: those not inside of another."""
    (tree / "pecli/mutant_switch.py").write_text(SWITCH, encoding="utf-8")
    by_file: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in sorted(mutants, key=lambda mutant: (mutant.file, mutant.start, -mutant.end)):
        before = by_file[mutant.file]
        if not before or mutant.start >= before[-1].end:
            before.append(mutant)
    numbers = {mutant: number for number, mutant in enumerate(mutants)}
    for name, inside in by_file.items():
        path = tree / name
        path.write_bytes(_with_switches(path.read_bytes(), inside, numbers))
    return [mutant for inside in by_file.values() for mutant in inside]


def _with_switches(source: bytes, mutants: Sequence[Mutant], numbers: dict[Mutant, int]) -> bytes:
    place = _place_of_import(source)
    for mutant in reversed(mutants):  # from the end, so that earlier places stay right
        switched = _switched(mutant, numbers[mutant])
        source = source[: mutant.start] + switched + source[mutant.end :]
    return source[:place] + IMPORT + source[place:]


def _switched(mutant: Mutant, number: int) -> bytes:
    if mutant.text == "pass":
        return f"while not M({number}): {mutant.was}".encode()
    return f"({mutant.text} if M({number}) else ({mutant.was}))".encode()


def _place_of_import(source: bytes) -> int:
    """Return the first byte after the docstring and imports from `__future__`."""
    lines = source.splitlines(keepends=True)
    for node in ast.parse(source).body[1:]:
        if not isinstance(node, ast.ImportFrom) or node.module != "__future__":
            return sum(len(line) for line in lines[: node.lineno - 1])
    return len(source)
