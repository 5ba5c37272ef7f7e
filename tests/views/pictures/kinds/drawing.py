"""A picture of some schemes, as the tests of kinds want it."""

from __future__ import annotations

import pecli
from pecli.views.pictures import kinds
from pecli.views.pictures.panels import Picture, PlotRequest
from pecli.views.pictures.subjects import labelled, of_scheme


def made(kind: str, *schemes: pecli.Scheme, request: PlotRequest | None = None) -> Picture:
    subjects = labelled([subject for scheme in schemes for subject in of_scheme(scheme)])
    return kinds.picture(kind, subjects, request or PlotRequest())
