"""Show any scheme, model or result as its command does."""

from __future__ import annotations

from contextlib import redirect_stdout
from functools import singledispatch
from io import StringIO

from pecli.checks.audit import Audit
from pecli.checks.diff import Difference
from pecli.checks.extension import Extension
from pecli.checks.identify import Identification
from pecli.checks.runtimes import RuntimeComparison
from pecli.checks.verification import Verification
from pecli.checks.verify_positions import PositionCheck
from pecli.engine.schemes.scheme import Scheme
from pecli.live.implementation import ImplementationCheck
from pecli.live.recording import Recording
from pecli.models.encoding import ModelEncodings
from pecli.views import (
    check_results,
    drift,
    encodings,
    position_ids,
    preview,
    recordings,
    runtime_results,
)


@singledispatch
def show(value: object) -> None:
    """Print a scheme, a model or a result on standard output.

    Raises:
        TypeError: The value has no view.
    """
    raise TypeError(f"cannot show a {type(value).__name__}")


show.register(Scheme, preview.show)
show.register(ModelEncodings, encodings.show)
show.register(Verification, check_results.show_verification)
show.register(Recording, recordings.show_recording)
show.register(ImplementationCheck, recordings.show_implementation)
show.register(Difference, check_results.show_difference)
show.register(Identification, check_results.show_identification)
show.register(Audit, drift.show_audit)
show.register(RuntimeComparison, runtime_results.show_runtimes)
show.register(Extension, runtime_results.show_extension)
show.register(PositionCheck, position_ids.show_check)


def printed(value: object) -> str:
    """Return the text that the command prints for a scheme, a model or a result."""
    with redirect_stdout(StringIO()) as output:
        show(value)
    return output.getvalue().rstrip("\n")
