"""Positional encodings: exact tables, and proof of them.

>>> import pecli
>>> pecli.Sinusoidal(seq_len=512, dim=64).tables()["pe"].shape
(512, 64)

The names below are imported when first used, so that `import pecli` costs next to nothing.
"""

from __future__ import annotations

from pecli.engine import __version__ as __version__

TYPE_CHECKING = False  # importing it takes longer than all that is here; type checkers know the name

_NAMES = {
    "engine.schemes.alibi": "Alibi",
    "layers": "AlibiBias LearnedPosEmbedding RotaryPosEmbedding SinusoidalPosEmbedding sinusoidal_pos_embedding",
    "errors": "CheckFailedError FileError KindError ParameterError PecliError",
    "engine.schemes.learned": "LearnedInit",
    "engine.schemes.relative": "Relative",
    "engine.schemes.rope": "Rope",
    "engine.schemes.scheme": "Scheme",
    "engine.schemes.sinusoidal": "Sinusoidal",
    "checks.tolerance": "Tolerance",
    "tensors.apply": "apply",
    "checks.audit": "audit",
    "tensors.convert": "convert",
    "distributed": "dask",
    "checks.diff": "diff",
    "checks.extend": "extend",
    "checks.identify": "identify",
    "files.load": "load",
    "models.find": "load_config load_model",
    "views.notebook": "plot",
    "views.report": "report",
    "checks.runtimes": "runtimes",
    "tensors.resize": "resize",
    "files": "save",
    "checks.verify": "verify",
}
"""What is offered, by the module that it is imported from."""
_HOMES = {name: f"pecli.{module}" for module, names in _NAMES.items() for name in names.split()}

if TYPE_CHECKING:
    from typing import Any

    from pecli.checks.audit import audit as audit
    from pecli.checks.diff import diff as diff
    from pecli.checks.extend import extend as extend
    from pecli.checks.identify import identify as identify
    from pecli.checks.runtimes import runtimes as runtimes
    from pecli.checks.tolerance import Tolerance as Tolerance
    from pecli.checks.verify import verify as verify
    from pecli.distributed import dask as dask
    from pecli.engine.schemes.alibi import Alibi as Alibi
    from pecli.engine.schemes.learned import LearnedInit as LearnedInit
    from pecli.engine.schemes.relative import Relative as Relative
    from pecli.engine.schemes.rope import Rope as Rope
    from pecli.engine.schemes.scheme import Scheme as Scheme
    from pecli.engine.schemes.sinusoidal import Sinusoidal as Sinusoidal
    from pecli.errors import CheckFailedError as CheckFailedError
    from pecli.errors import FileError as FileError
    from pecli.errors import KindError as KindError
    from pecli.errors import ParameterError as ParameterError
    from pecli.errors import PecliError as PecliError
    from pecli.files import save as save
    from pecli.files.load import load as load
    from pecli.layers import AlibiBias as AlibiBias
    from pecli.layers import LearnedPosEmbedding as LearnedPosEmbedding
    from pecli.layers import RotaryPosEmbedding as RotaryPosEmbedding
    from pecli.layers import SinusoidalPosEmbedding as SinusoidalPosEmbedding
    from pecli.layers import sinusoidal_pos_embedding as sinusoidal_pos_embedding
    from pecli.models.find import load_config as load_config
    from pecli.models.find import load_model as load_model
    from pecli.tensors.apply import apply as apply
    from pecli.tensors.convert import convert as convert
    from pecli.tensors.resize import resize as resize
    from pecli.views.notebook import plot as plot
    from pecli.views.report import report as report

__all__ = sorted(["__version__", *_HOMES])


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'pecli' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    _display_in_notebooks()
    return value


_DISPLAYED = {
    "pecli.engine.schemes.scheme": "Scheme",
    "pecli.models.encoding": "ModelEncodings",
    "pecli.checks.verification": "Verification",
    "pecli.checks.diff": "Difference",
    "pecli.checks.identify": "Identification",
    "pecli.checks.audit": "Audit",
    "pecli.checks.runtimes": "RuntimeComparison",
    "pecli.checks.extend": "Extension",
}
"""Classes that display themselves in a notebook, by module."""


def _display_in_notebooks() -> None:
    """Give the classes that are imported by now what notebooks and print look for: layers below know no views."""
    import sys

    for module, name in _DISPLAYED.items():
        if module in sys.modules and not hasattr(kind := getattr(sys.modules[module], name), "_repr_html_"):
            kind._repr_html_, kind._repr_png_ = _by_view("notebook", "html"), _by_view("notebook", "png")
            if module.startswith(("pecli.checks.", "pecli.models.")):
                kind.__str__ = _by_view("check_results", "printed")


def _by_view(module: str, function: str) -> Any:
    """A method that is a function of a view, which is imported when it is called."""

    def method(value: Any) -> Any:
        from importlib import import_module

        return getattr(import_module(f"pecli.views.{module}"), function)(value)

    return method


def __dir__() -> list[str]:
    return __all__
