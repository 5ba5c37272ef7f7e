"""Compiled loops for large work, if numba is installed: `pip install 'pecli-posenc[fast]'`.

Importing numba and loading the machine code takes half a second, in which NumPy makes some 2**28
elements on two cores. So a process begins with NumPy, and turns to compiled loops when it has done
much work already: then more is likely to come, and small commands never wait for numba.
"""

import os
from collections.abc import Callable
from importlib import import_module
from threading import Lock
from types import ModuleType

from pecli.engine.arrays import AnyArray

RotationLoop = Callable[[AnyArray, AnyArray, AnyArray, int, int, int, int, int], None]
"""A loop of `compiled_loops` that rotates, such as `rotate_halves`."""

LOAD_AFTER = 1 << 27
"""Elements made with NumPy before the loops are loaded: work of about a quarter of a second."""

_LOCK = Lock()
_elements = 0
_loops: ModuleType | None = None
_is_missing = False


def compiled_loops(elements: int) -> ModuleType | None:
    """Return the module `compiled_loops` if it is worth its loading time, otherwise None.

    Loading takes half a second, which is worth it once this process has done much work. This
    function counts the work. The environment variable PECLI_KERNELS=0 keeps to NumPy, and
    PECLI_KERNELS=1 loads the loops for the first piece of work.

    Args:
        elements: The size of the work that is about to be done.
    """
    global _elements
    with _LOCK:
        _elements += elements
        setting = os.environ.get("PECLI_KERNELS", "")
        if setting == "0":
            return None
        has_much_work = _elements > LOAD_AFTER
        if has_much_work or setting == "1":
            return _loaded()
        return None


def announce_work(elements: int) -> None:
    """Load the compiled loops now if the work that is about to begin is worth it.

    Work that comes in many small pieces would begin with NumPy, and load them in its midst.

    Args:
        elements: The size of all pieces together. Each piece counts again when it is done, which
            matters only for work that is too small for the loops by itself.
    """
    if elements > LOAD_AFTER:
        compiled_loops(elements)


def _loaded() -> ModuleType | None:
    """Return the loops, imported once; None if that has failed."""
    global _loops, _is_missing
    if _loops is None and not _is_missing:
        try:
            _loops = import_module("pecli.engine.numerics.compiled_loops")
        except (ImportError, RuntimeError, OSError):
            # numba is not installed, is too old for this NumPy, or can keep its code nowhere on
            # disk, as in a package that is run from an archive.
            _is_missing = True
    return _loops
