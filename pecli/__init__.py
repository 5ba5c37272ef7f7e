"""Positional encodings: exact tables, and proof of them.

>>> import pecli
>>> pecli.Sinusoidal(seq_len=512, dim=64).tables()["pe"].shape
(512, 64)

The names below are imported when first used, so that `import pecli` costs next to nothing.
"""

from __future__ import annotations

from pecli.engine import __version__

TYPE_CHECKING = False  # importing it takes longer than all that is here; type checkers know the name

_HOMES = {
    "Alibi": "pecli.engine.schemes.alibi",
    "AlibiBias": "pecli.layers",
    "FileError": "pecli.errors",
    "KindError": "pecli.errors",
    "LearnedInit": "pecli.engine.schemes.learned",
    "LearnedPosEmbedding": "pecli.layers",
    "ParameterError": "pecli.errors",
    "PecliError": "pecli.errors",
    "Relative": "pecli.engine.schemes.relative",
    "Rope": "pecli.engine.schemes.rope",
    "RotaryPosEmbedding": "pecli.layers",
    "Scheme": "pecli.engine.schemes.scheme",
    "Sinusoidal": "pecli.engine.schemes.sinusoidal",
    "SinusoidalPosEmbedding": "pecli.layers",
    "Tolerance": "pecli.checks.tolerance",
    "apply": "pecli.tensors.apply",
    "audit": "pecli.checks.audit",
    "convert": "pecli.tensors.convert",
    "dask": "pecli.distributed",
    "diff": "pecli.checks.diff",
    "extend": "pecli.checks.extend",
    "identify": "pecli.checks.identify",
    "load": "pecli.files.load",
    "load_config": "pecli.models.find",
    "load_model": "pecli.models.find",
    "plot": "pecli.views.notebook",
    "report": "pecli.views.report",
    "runtimes": "pecli.checks.runtimes",
    "resize": "pecli.tensors.resize",
    "save": "pecli.files",
    "sinusoidal_pos_embedding": "pecli.layers",
    "verify": "pecli.checks.verify",
}

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
    "Alibi",
    "AlibiBias",
    "FileError",
    "KindError",
    "LearnedInit",
    "LearnedPosEmbedding",
    "ParameterError",
    "PecliError",
    "Relative",
    "Rope",
    "RotaryPosEmbedding",
    "Scheme",
    "Sinusoidal",
    "SinusoidalPosEmbedding",
    "Tolerance",
    "__version__",
    "apply",
    "audit",
    "convert",
    "dask",
    "diff",
    "extend",
    "identify",
    "load",
    "load_config",
    "load_model",
    "plot",
    "report",
    "resize",
    "runtimes",
    "save",
    "sinusoidal_pos_embedding",
    "verify",
]


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
    """Give the classes that are imported by now what notebooks and print look for; the layers below know nothing of
    views.
    """
    import sys

    for module, name in _DISPLAYED.items():
        if module in sys.modules and not hasattr(kind := getattr(sys.modules[module], name), "_repr_html_"):
            kind._repr_html_, kind._repr_png_ = _repr_html, _repr_png
            if module.startswith("pecli.checks."):
                kind.__str__ = _printed


def _printed(value: Any) -> str:
    from pecli.views.check_results import printed

    return printed(value)


def _repr_html(value: Any) -> str:
    from pecli.views.notebook import html

    return html(value)


def _repr_png(value: Any) -> bytes | None:
    from pecli.views.notebook import png

    return png(value)


def __dir__() -> list[str]:
    return __all__
