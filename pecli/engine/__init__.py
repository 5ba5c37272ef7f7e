"""The maths: NumPy in, NumPy out; no files, no printing."""

from importlib import import_module
from typing import Any

__version__ = "0.2.0"


class Displayed:
    """What a notebook shows as `pecli.views` has it, which is imported when it is asked."""

    def _repr_html_(self) -> Any:
        return import_module("pecli.views.notebook").html(self)

    def _repr_png_(self) -> Any:
        return import_module("pecli.views.notebook").png(self)


class Printed(Displayed):
    """The same, and printed, it is what the command prints."""

    def __str__(self) -> Any:
        return import_module("pecli.views.check_results").printed(self)
