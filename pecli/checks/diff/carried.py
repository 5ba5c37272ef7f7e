"""What the spec that one of two files carries says about the other: which mistake, and what may be absent."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pecli.checks.tolerance import Tolerance
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table
from pecli.errors import PecliError
from pecli.files import LoadedFile


def scheme_of(file: LoadedFile) -> Scheme | None:
    """The scheme that a file says it holds; None where it says nothing that makes a table."""
    from pecli.files.provenance import carried_spec

    try:
        spec = carried_spec(file.path, file.metadata)
        return None if spec is None else Scheme.from_spec(spec)
    except PecliError:
        return None


def mistakes(scheme: Scheme, found: Mapping[str, Table], here: str, there: str, tolerance: Tolerance) -> list[str]:
    """Sentences about tables of one file, by the spec of the other; `here` and `there` are what the files are called.

    «cos, sin: B is what A's spec makes if theta is 10000 (the spec says 500000); residual 3e-08»
    """
    from pecli.checks.verify.explain_failures import reasons

    known = {table.name for table in scheme.tensors()}
    suspects = ((scheme, name, table) for name, table in found.items() if name in known)
    return [_of_file(sentence, here, there) for sentence in reasons(suspects, (), tolerance)]


def _of_file(sentence: str, here: str, there: str) -> str:
    names, words = sentence.split(": ", 1)
    said = re.sub(r"^match(es)? if ", f"{here} is what {there}'s spec makes if ", words)
    said = re.sub(r"^it is another table", f"{here} is another table", said)
    for advice in (r", or verify with [^)]+", r" \(verify with [^)]+\)", r"; verify with .+$"):  # for another command
        said = re.sub(advice, "", said)
    return f"{names}: {said if said != words else f'in {here}, {words}'}"
