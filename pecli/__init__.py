"""Positional encodings: exact tables, and proof of them.

>>> import pecli
>>> pecli.Sinusoidal(seq_len=512, dim=64).tables()["pe"].shape
(512, 64)

The names below are imported when first used, so that `import pecli` costs next to nothing.
"""

from __future__ import annotations

from pecli.version import __version__

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
    "Rope": "pecli.engine.schemes.rope",
    "RotaryPosEmbedding": "pecli.layers",
    "Scheme": "pecli.engine.schemes.scheme",
    "Sinusoidal": "pecli.engine.schemes.sinusoidal",
    "SinusoidalPosEmbedding": "pecli.layers",
    "Tolerance": "pecli.checks.tolerance",
    "dask": "pecli.distributed",
    "diff": "pecli.checks.diff",
    "identify": "pecli.checks.identify",
    "load": "pecli.files.load",
    "load_config": "pecli.models.reader",
    "load_model": "pecli.models.presets",
    "runtimes": "pecli.checks.runtimes",
    "save": "pecli.files.save",
    "sinusoidal_pos_embedding": "pecli.layers",
    "verify": "pecli.checks.verify",
}

if TYPE_CHECKING:
    from typing import Any

    from pecli.checks.diff import diff
    from pecli.checks.identify import identify
    from pecli.checks.runtimes import runtimes
    from pecli.checks.tolerance import Tolerance
    from pecli.checks.verify import verify
    from pecli.distributed import dask
    from pecli.engine.schemes.alibi import Alibi
    from pecli.engine.schemes.learned import LearnedInit
    from pecli.engine.schemes.rope import Rope
    from pecli.engine.schemes.scheme import Scheme
    from pecli.engine.schemes.sinusoidal import Sinusoidal
    from pecli.errors import FileError, KindError, ParameterError, PecliError
    from pecli.files.load import load
    from pecli.files.save import save
    from pecli.layers import (
        AlibiBias,
        LearnedPosEmbedding,
        RotaryPosEmbedding,
        SinusoidalPosEmbedding,
        sinusoidal_pos_embedding,
    )
    from pecli.models.presets import load_model
    from pecli.models.reader import load_config

__all__ = [
    "Alibi",
    "AlibiBias",
    "FileError",
    "KindError",
    "LearnedInit",
    "LearnedPosEmbedding",
    "ParameterError",
    "PecliError",
    "Rope",
    "RotaryPosEmbedding",
    "Scheme",
    "Sinusoidal",
    "SinusoidalPosEmbedding",
    "Tolerance",
    "__version__",
    "dask",
    "diff",
    "identify",
    "load",
    "load_config",
    "load_model",
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
    return value


def __dir__() -> list[str]:
    return __all__
