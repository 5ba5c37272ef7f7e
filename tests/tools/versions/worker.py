"""One version of pecli, which computes the outcome of cases: JSON lines in, JSON lines out.

A request is {"kind": …, "seed": …}; the answer is {"input": description, "outcome": …}.

    PYTHONPATH=CHECKOUT:tests/tools python -m versions.worker CONFIGS.json
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

from versions import dumps, forms, schemes, tensors
from versions.commands import CommandCases
from versions.configs import Configurations
from versions.draw import Draw
from versions.outcomes import Case

MAX_SECONDS = 60


def case_makers(configurations: Configurations) -> dict[str, Callable[[Draw], Case]]:
    """Return the function that makes a case of each kind from a seed."""
    models = tensors.ModelCases(configurations)
    commands = CommandCases(configurations)
    return {
        "scheme": schemes.scheme_case,
        "config": configurations.case,
        "verify": dumps.verify_case,
        "rotated": dumps.rotated_case,
        "diff": dumps.diff_case,
        "identify": dumps.identify_case,
        "tensors": tensors.tensor_case,
        "runtimes": models.runtimes_case,
        "extend": models.extend_case,
        "audit": models.audit_case,
        "forms": forms.forms_case,
        "manifest": commands.manifest_case,
        "command": commands.case,
    }


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # Whatever a case prints must not mix with the answers.
    signal.signal(signal.SIGALRM, _stop)
    makers = case_makers(Configurations(Path(sys.argv[1])))
    for line in sys.stdin:
        request = json.loads(line)
        case = makers[request["kind"]](Draw(request["seed"]))
        signal.alarm(MAX_SECONDS)
        outcome = case.outcome()
        signal.alarm(0)
        print(json.dumps({"input": case.description, "outcome": outcome}), file=answers, flush=True)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise TimeoutError(f"a case took more than {MAX_SECONDS} seconds")


if __name__ == "__main__":
    main()
