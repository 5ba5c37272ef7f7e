"""Arrays of the library that a function of the user works with: NumPy, torch, JAX or MLX.

None of them except NumPy is imported here: the function's own module has done it.
"""

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import cast

import numpy as np

from pecli.engine.arrays import Array, ForeignArray, like
from pecli.errors import ParameterError, nearest, quoted

NUMPY = "numpy"
MAX_SEARCHED = 200  #: functions and modules that are searched for a library


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
        if name in packages and library.is_imported:
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
        modules = [value.__name__]
    elif inspect.isroutine(value):
        modules = [str(value.__module__)]
    else:
        kind = value if isinstance(value, type) else type(value)
        modules = [base.__module__ for base in kind.__mro__]
    return {_package_of(module) for module in modules}


def _package_of(module: str) -> str:
    """Return the package of a module: torch for torch.nn.functional."""
    package, _, _ = module.partition(".")
    return package


def _values_named_by(value: object) -> list[object]:
    """Return the functions and modules that the code of a callable names, which are searched next.

    Of `def f(x): return helper(np.cos(x))` they are helper and np. A value that is not written in
    Python, such as np.cos itself, names none.
    """
    if isinstance(value, functools.partial):
        return [value.func]
    function = _function_of(value)
    if function is None:
        return []
    named = [*_globals_of(function), *_closure_of(function)]
    searchable = [item for item in named if isinstance(item, ModuleType) or callable(item)]
    return [*_libraries_imported_in(function), *searchable]


def _globals_of(function: FunctionType) -> list[object]:
    """Return the values of the global variables that a function's code names."""
    variables = function.__globals__
    return [variables[name] for name in function.__code__.co_names if name in variables]


def _closure_of(function: FunctionType) -> list[object]:
    """Return the values of the variables that a function keeps of the one that defined it."""
    return [cell.cell_contents for cell in function.__closure__ or ()]


def _libraries_imported_in(function: FunctionType) -> list[object]:
    """Return libraries that a function imports in its body: their names are not globals.

    `def f(x): import torch; return torch.cos(x)` has no global variable `torch`.
    """
    names = LIBRARIES.keys() & sys.modules.keys()
    return [sys.modules[name] for name in function.__code__.co_names if name in names]


def _function_of(value: object) -> FunctionType | None:
    """Return the function that runs if a value is called; None if it is not written in Python.

    It is `forward` of a torch module, `__call__` of another object, and what a decorator wraps.
    """
    undecorated = inspect.unwrap(cast(Callable[..., object], _method_behind(value)))
    function = undecorated.__func__ if inspect.ismethod(undecorated) else undecorated
    return function if inspect.isfunction(function) else None


def _method_behind(value: object) -> object:
    """Return the method that calling an object calls; a function is returned as it is."""
    if hasattr(value, "forward"):  # a module of torch
        return value.forward
    is_object_with_call = callable(value) and not inspect.isroutine(value)
    return type(value).__call__ if is_object_with_call else value
