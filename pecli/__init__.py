"""Positional encodings: exact tables, and proof of them.

>>> import pecli
>>> pecli.Sinusoidal(seq_len=512, dim=64).tables()["pe"].shape
(512, 64)

The names below are imported when first used, so that `import pecli` costs next to nothing.
"""

with open(f"{__path__[0]}/__init__.pyi", encoding="utf-8") as _stub:
    _HOMES = {words[-1]: words[1] for words in map(str.split, _stub) if words}
"""What is offered, by the module that it is imported from: one line each of the stub that type checkers read."""

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'pecli' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
