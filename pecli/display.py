"""The one call upwards: schemes, models and results show themselves with `pecli.views`.

Views import the modules that they show, so these modules cannot import views. They inherit from the
classes below, which import a view when a notebook or `print` needs it.
"""


class Displayed:
    """A mixin for values that a notebook shows as the command does."""

    def _repr_html_(self) -> str:
        from pecli.views.notebook import html

        return html(self)

    def _repr_png_(self) -> bytes | None:
        from pecli.views.notebook import png

        return png(self)


class Printed(Displayed):
    """A mixin for results whose `str` is the output of the command."""

    def __str__(self) -> str:
        from pecli.views.show import printed

        return printed(self)
