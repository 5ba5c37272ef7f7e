"""Positional encodings: exact tables, and proof of them.

>>> import pecli
>>> pecli.Sinusoidal(seq_len=512, dim=64).tables()["pe"].shape
(512, 64)

A public name is imported when it is first used, so that `import pecli` costs next to nothing.
"""

from pecli.display import Views, show_with

# `__init__.pyi` has the same rows for type checkers, which cannot follow __getattr__.
_MODULE_OF = {
    "Alibi": "pecli.engine.schemes.alibi",
    "AlibiBias": "pecli.layers",
    "CheckFailedError": "pecli.errors",
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
    "Tolerance": "pecli.compare.tolerance",
    "__version__": "pecli.engine",
    "apply": "pecli.tensors.apply",
    "audit": "pecli.checks.audit",
    "check": "pecli.live.implementation",
    "convert": "pecli.tensors.convert",
    "dask": "pecli.distributed",
    "diff": "pecli.checks.diff",
    "extend": "pecli.checks.extend",
    "identify": "pecli.checks.identify",
    "load": "pecli.files.load",
    "load_config": "pecli.models.find",
    "load_model": "pecli.models.find",
    "plot": "pecli.views.notebook",
    "positions": "pecli.models.position_ids",
    "record": "pecli.live.recording",
    "report": "pecli.views.report",
    "resize": "pecli.tensors.resize",
    "runtimes": "pecli.checks.runtimes",
    "save": "pecli.files",
    "sinusoidal_pos_embedding": "pecli.layers",
    "verify": "pecli.checks.verify",
}
"""The module that defines each public name."""

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> object:
    """Import a public name, and keep it as an attribute of the package."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'pecli' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


class _LazyViews(Views):
    """Views that are imported when they are needed."""

    def html(self, value: object) -> str:
        from pecli.views.notebook import html

        return html(value)

    def png(self, value: object) -> bytes | None:
        from pecli.views.notebook import png

        return png(value)

    def printed(self, value: object) -> str:
        from pecli.views.show import printed

        return printed(value)


show_with(_LazyViews())
