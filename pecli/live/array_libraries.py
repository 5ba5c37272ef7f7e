"""Arrays of the library that a function of the user works with: NumPy, torch, JAX or MLX.

None of them except NumPy is imported here: the function's own module has done it.
"""

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, ModuleType

import numpy as np

from pecli.engine.arrays import Array, ForeignArray, like
from pecli.errors import ParameterError, nearest, quoted

NUMPY = "numpy"
MAX_SEARCHED = 200  #: functions and modules that are searched for a library
CALLED_ATTRIBUTES = ("forward", "func", "__func__", "__wrapped__")
"""Attributes that hold the function which runs if a value is called: of a module of torch, a partial
function, a method of an object, and what a decorator returned."""


def _numpy_sample() -> ForeignArray:
    return np.zeros(0)


def _torch_sample() -> ForeignArray:
    return sys.modules["torch"].empty(0)


def _jax_sample() -> ForeignArray:
    return sys.modules["jax"].numpy.zeros(0)


def _mlx_sample() -> ForeignArray:
    return sys.modules["mlx.core"].array([0.0])


@dataclass(frozen=True)
class ArrayLibrary:
    """A library of arrays.

    Attributes:
        name: Its name.
        module: The module that must have been imported.
        half_precision: A dtype of two bytes that it has; NumPy itself has no bfloat16.
        sample: Makes an array of it.
    """

    name: str
    module: str
    half_precision: str
    sample: Callable[[], ForeignArray]

    @property
    def is_imported(self) -> bool:
        return self.module in sys.modules

    def array(self, values: Array) -> ForeignArray:
        """Return a copy of NumPy's array as one of this library."""
        return like(self.sample(), values.copy())


LIBRARIES = {
    "torch": ArrayLibrary("torch", "torch", "bfloat16", _torch_sample),
    "jax": ArrayLibrary("jax", "jax", "bfloat16", _jax_sample),
    "mlx": ArrayLibrary("mlx", "mlx.core", "bfloat16", _mlx_sample),
    NUMPY: ArrayLibrary(NUMPY, NUMPY, "float16", _numpy_sample),
}


def library_named(name: str) -> ArrayLibrary:
    """Return the library of a name.

    Raises:
        ParameterError: There is none, or nobody has imported it.
    """
    if name not in LIBRARIES:
        rule = f"it must be one of {', '.join(LIBRARIES)}"
        raise ParameterError("arrays", quoted(name), rule, nearest(name, [*LIBRARIES], str))
    library = LIBRARIES[name]
    if not library.is_imported:
        raise ParameterError("arrays", name, "it is not imported", f"import {library.module} first")
    return library


def library_of(function: Callable[..., object]) -> ArrayLibrary:
    """Return the library that the code of a function uses; NumPy if it uses none of the others."""
    packages = _packages_used_by(function)
    for name, library in LIBRARIES.items():
        if name in packages:
            return library
    return LIBRARIES[NUMPY]


def _packages_used_by(function: Callable[..., object]) -> set[str]:
    """Return the packages that the code of a function uses, also by way of other functions.

    They decide the arrays, of torch or JAX for example, with which a user's function is called.

    Of `def f(x): return helper(x)` with `def helper(x): return jnp.cos(x)` these are the package of
    both functions, and jax. At most MAX_SEARCHED functions are followed.
    """
    packages: set[str] = set()
    to_search: list[object] = [function]
    searched: dict[int, object] = {}  # by id; they stay alive, so that ids are not used again
    while to_search and len(searched) < MAX_SEARCHED:
        value = to_search.pop(0)
        is_new = id(value) not in searched
        if is_new:
            searched[id(value)] = value
            packages |= _packages_of(value)
            to_search += _values_named_by(value)
    return packages


def _packages_of(value: object) -> set[str]:
    """Return the packages that a value comes from: torch for `torch.cos`, and for the module `torch.nn`.

    An object comes from those of all its classes: a module of yours inherits from torch.nn.Module.
    """
    if isinstance(value, ModuleType):
        return {_package_of(value.__name__)}
    modules = {base.__module__ for base in type(value).__mro__}
    if hasattr(value, "__module__"):  # a function, or a class
        modules.add(str(value.__module__))
    return set(map(_package_of, modules))


def _package_of(module: str) -> str:
    """Return the package of a module: torch for torch.nn.functional."""
    package, _, _ = module.partition(".")
    return package


def _values_named_by(value: object) -> list[object]:
    """Return the functions and modules that run if a value is called, which are searched next.

    Of `def f(x): return helper(np.cos(x))` they are helper and np, and of a decorated function that
    which is wrapped. Calling an object calls the method of its class.
    """
    values: list[object] = [type(value).__call__]
    values += [getattr(value, name) for name in CALLED_ATTRIBUTES if hasattr(value, name)]
    if isinstance(value, FunctionType):
        variables = inspect.getclosurevars(value)
        # `def f(x): import torch; return torch.cos(x)` has no variable `torch` outside of its body.
        imported = variables.unbound & sys.modules.keys()
        values += [*variables.globals.values(), *variables.nonlocals.values()]
        values += map(sys.modules.get, imported)
    return [item for item in values if isinstance(item, ModuleType) or callable(item)]
