"""Schemes, models and results show themselves with `pecli.views`, which lies above them.

Views import the modules that they show, so these modules cannot import views. They inherit from the
classes below, which call `views`. The front of the package, which may import everything, replaces
it by an implementation that imports a view when a notebook or `print` needs it.
"""


class Views:
    """The functions that show a value; without `pecli.views`, they show its representation."""

    def html(self, value: object) -> str:
        """Return the command's output as HTML, with a picture if there is one."""
        from html import escape

        return f"<pre>{escape(repr(value))}</pre>"

    def png(self, value: object) -> bytes | None:
        """Return a picture; None if there is none."""
        return None

    def printed(self, value: object) -> str:
        """Return the command's output as text."""
        return repr(value)


views = Views()


def show_with(implementation: Views) -> None:
    """Set the functions that show values from now on."""
    global views
    views = implementation


class Displayed:
    """A mixin for values that a notebook shows as the command does."""

    def _repr_html_(self) -> str:
        return views.html(self)

    def _repr_png_(self) -> bytes | None:
        return views.png(self)


class Printed(Displayed):
    """A mixin for results whose `str` is the output of the command."""

    def __str__(self) -> str:
        return views.printed(self)
