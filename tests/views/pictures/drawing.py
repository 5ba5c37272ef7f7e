"""Helpers of the tests of pictures: one scheme of each class, the kinds of pictures that fit it, and
terminals.
"""

import re
from dataclasses import replace

import pecli
from pecli.views.pictures import kinds
from pecli.views.pictures.panels import Picture
from pecli.views.pictures.plot_sources import PlotRequest, of_scheme
from pecli.views.pictures.titles import labelled, title_of
from pecli.views.screen import Terminal

SCHEMES = {
    "sinusoidal": pecli.Sinusoidal(300, 64),
    "rope": pecli.Rope(300, 64),
    "alibi": pecli.Alibi(8, 64, form="causal"),
    "learned-init": pecli.LearnedInit(300, 64),
}
BESIDE = {
    "sinusoidal": pecli.Sinusoidal(300, 64, base=100.0),
    "rope": pecli.Rope(
        300, 64, base=5e5, scaling="yarn", factor=4.0, original_max_position_embeddings=4096
    ),
    "alibi": pecli.Alibi(8, 64, form="causal", max_bias=4.0),
    "learned-init": pecli.LearnedInit(300, 64, std=1.0),
}
TABLES = {"heatmap", "curves", "similarity"}
FITTING = {
    "sinusoidal": TABLES | {"wavelengths", "decay", "circle"},
    "rope": TABLES | {"wavelengths", "decay", "circle"},
    "alibi": {"heatmap", "curves", "decay", "slopes"},
    "learned-init": TABLES,
}
CASES = [(name, kind) for kind in kinds.KINDS for name in SCHEMES if kind in FITTING[name]]
TERMINALS = {
    "true": Terminal(colours=1 << 24),
    "256": Terminal(colours=256),
    "grey": Terminal(),
    "ascii": Terminal(unicode=False),
}


def drawn_picture(
    kind: str, *schemes: pecli.Scheme, request: PlotRequest | None = None, titled: bool = False
) -> Picture:
    subjects = labelled([subject for scheme in schemes for subject in of_scheme(scheme)])
    picture = kinds.picture(kind, subjects, request or PlotRequest(300, 300))
    if titled:
        return replace(picture, title=title_of(subjects, picture.title))
    return picture


def without_colours(lines: list[str]) -> list[str]:
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
