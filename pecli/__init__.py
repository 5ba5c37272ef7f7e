"""Positional encodings: exact tables, and proof of them.

>>> import pecli
>>> pecli.Sinusoidal(seq_len=512, dim=64).tables()["pe"].shape
(512, 64)

The names below are imported when first used, so that `import pecli` costs next to nothing.
"""

from __future__ import annotations

from pecli.engine import __version__

TYPE_CHECKING = False  # importing it takes longer than all that is here; type checkers know the name

_NAMES = {
    "engine.schemes.alibi": "Alibi",
    "layers": "AlibiBias LearnedPosEmbedding RotaryPosEmbedding SinusoidalPosEmbedding sinusoidal_pos_embedding",
    "errors": "FileError KindError ParameterError PecliError",
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

    from pecli.checks.audit import audit
    from pecli.checks.diff import diff
    from pecli.checks.extend import extend
    from pecli.checks.identify import identify
    from pecli.checks.runtimes import runtimes
    from pecli.checks.tolerance import Tolerance
    from pecli.checks.verify import verify
    from pecli.distributed import dask
    from pecli.engine.schemes.alibi import Alibi
    from pecli.engine.schemes.learned import LearnedInit
    from pecli.engine.schemes.relative import Relative
    from pecli.engine.schemes.rope import Rope
    from pecli.engine.schemes.scheme import Scheme
    from pecli.engine.schemes.sinusoidal import Sinusoidal
    from pecli.errors import FileError, KindError, ParameterError, PecliError
    from pecli.files import save
    from pecli.files.load import load
    from pecli.layers import (
        AlibiBias,
        LearnedPosEmbedding,
        RotaryPosEmbedding,
        SinusoidalPosEmbedding,
        sinusoidal_pos_embedding,
    )
    from pecli.models.find import load_config, load_model
    from pecli.tensors.apply import apply
    from pecli.tensors.convert import convert
    from pecli.tensors.resize import resize
    from pecli.views.notebook import plot
    from pecli.views.report import report

__all__ = [
    "Alibi", "AlibiBias", "FileError", "KindError", "LearnedInit", "LearnedPosEmbedding", "ParameterError",
    "PecliError", "Relative", "Rope", "RotaryPosEmbedding", "Scheme", "Sinusoidal", "SinusoidalPosEmbedding",
    "Tolerance", "__version__", "apply", "audit", "convert", "dask", "diff", "extend", "identify", "load",
    "load_config", "load_model", "plot", "report", "resize", "runtimes", "save", "sinusoidal_pos_embedding",
    "verify"
]  # fmt: skip


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
    "pecli.checks.verify.verification": "Verification",
    "pecli.checks.diff": "Difference",
    "pecli.checks.identify": "Identification",
    "pecli.checks.audit": "Audit",
    "pecli.checks.runtimes": "RuntimeComparison",
}
"""Classes that display themselves in a notebook, by module."""


def _display_in_notebooks() -> None:
    """Give the classes that are imported by now what notebooks and print look for: layers below know no views."""
    import sys

    for module, name in _DISPLAYED.items():
        if module in sys.modules and not hasattr(kind := getattr(sys.modules[module], name), "_repr_html_"):
            kind._repr_html_, kind._repr_png_ = _by_view("notebook", "html"), _by_view("notebook", "png")
            if module.startswith("pecli.checks."):
                kind.__str__ = _by_view("check_results", "printed")


def _by_view(module: str, function: str) -> Any:
    """A method that is a function of a view, which is imported when it is called."""

    def method(value: Any) -> Any:
        from importlib import import_module

        return getattr(import_module(f"pecli.views.{module}"), function)(value)

    return method


def __dir__() -> list[str]:
    return __all__
