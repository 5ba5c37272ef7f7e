"""Which scheme, with which parameters, made an unknown table."""

from __future__ import annotations

from pecli.checks.identify.identification import Identification, identify

__all__ = ["Identification", "identify"]
