"""Interactive pages: one offline .html file with the panels of a picture, and sliders for RoPE.

plotly draws the panels in the browser; its script is part of the page. Hovering over a panel shows
position, channel and value, dragging zooms, and a click on a name in the legend hides its curve.
"""

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import NamedTuple

import orjson

from pecli.engine.named_values import JsonObject
from pecli.errors import ParameterError
from pecli.files.output import open_output
from pecli.package_data import package_text
from pecli.views.html import text
from pecli.views.interactive.panel_data import plotly_panel
from pecli.views.interactive.rope_sliders import RopeSettings
from pecli.views.pictures import palettes
from pecli.views.pictures.panels import Picture
from pecli.views.pictures.theme import Theme, theme


def save(
    picture: Picture,
    sliders: Sequence[RopeSettings],
    path: str,
    about: Mapping[str, object],
    *,
    dark: bool = False,
) -> None:
    """Write a page; the file appears when it is complete.

    Args:
        picture: What the page shows.
        sliders: The rotary encodings whose settings can be changed in the page.
        path: Where to write it.
        about: The command and the specs that it was drawn from.
        dark: Draw on dark paper.
    """
    content = page(picture, sliders, about, dark=dark)
    with open_output(path) as output:
        output.write(content.encode())


def page(
    picture: Picture,
    sliders: Sequence[RopeSettings],
    about: Mapping[str, object],
    *,
    dark: bool = False,
) -> str:
    """Return the HTML of a page: the panels' data as JSON, and the scripts that draw them.

    Args:
        picture: What the page shows.
        sliders: The rotary encodings whose settings can be changed in the page.
        about: The command and the specs that it was drawn from.
        dark: Draw on dark paper.
    """
    colours = theme(dark=dark)
    data: JsonObject = {
        "across": picture.across,
        "panels": [plotly_panel(panel, dark=dark) for panel in picture.panels],
        "sliders": [settings.as_json() for settings in sliders],
        "colours": _colours(colours),
    }
    template = Template(_text_of("page.html"))
    return template.substitute(
        title=text(picture.title),
        subtitle=text(picture.subtitle),
        ink=colours.ink,
        paper=colours.paper,
        faint=colours.faint,
        style=_text_of("page.css"),
        about=text(json.dumps(about, ensure_ascii=False, sort_keys=True)),
        scripts=_scripts(data),
    )


class SliderParts(NamedTuple):
    """The parts of another page that let its reader change settings; empty without any."""

    policy: str = ""  #: The content security policy that they need.
    style: str = ""
    body: str = ""  #: The place of the sliders, and the scripts that fill it.


def slider_parts(sliders: Sequence[RopeSettings]) -> SliderParts:
    """Return the parts of a report's page that show sliders of rotary encodings.

    Such a page follows the reader's light or dark theme, so that its data have both sets of colours.
    """
    if not sliders:
        return SliderParts()
    data: JsonObject = {
        "panels": [],
        "sliders": [settings.as_json() for settings in sliders],
        "colours": _colours(theme(dark=False)),
        "dark_colours": _colours(theme(dark=True)),
    }
    return SliderParts(
        policy="; script-src 'unsafe-inline'",
        style=_text_of("page.css"),
        body=f'<div id="sliders"></div>\n{_scripts(data)}',
    )


def _colours(colours: Theme) -> JsonObject:
    """Return the colours of a theme by the names that the page's script has for them."""
    return {
        "ink": colours.ink,
        "paper": colours.paper,
        "faint": colours.faint,
        "grey": colours.grey,
        "curve": palettes.as_hex(colours.curves[0]),
    }


def _scripts(data: JsonObject) -> str:
    """Return plotly, the data, and the script that draws it."""
    return f"""<script>{_plotly_script()}</script>
<script type="application/json" id="data">{_script_data(data)}</script>
<script>
{_text_of("page.js")}
</script>"""


def _text_of(name: str) -> str:
    return package_text("pecli.views.interactive", name)


def _script_data(data: JsonObject) -> str:
    """Return data as JSON that can stand in a script element: a label may contain «</script>»."""
    encoded = orjson.dumps(data, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    return encoded.replace("<", "\\u003c")


def _plotly_script() -> str:
    """Return plotly's script, which is a file of the installed package.

    Raises:
        ParameterError: plotly is not installed.
    """
    package = find_spec("plotly")
    if package is None or package.origin is None:
        rule = "plotly draws interactive pages, and is not installed"
        raise ParameterError("output", ".html", rule, "pip install plotly")
    script = Path(package.origin).parent / "package_data" / "plotly.min.js"
    return script.read_text(encoding="utf-8")
