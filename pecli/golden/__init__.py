"""The golden suite: small exact vectors with which a port in any language tests itself.

A case is the tables of a scheme at some positions, a tensor before and after a rotation, or a known
mistake that a port's own tests have to catch.
"""

from pecli.golden.cases import DATA, FAR_AND_NEAR
from pecli.golden.suite_checks import answer_checks, suite_checks
from pecli.golden.suite_files import WRITERS, write
from pecli.golden.suite_index import INDEX

__all__ = [
    "DATA",
    "FAR_AND_NEAR",
    "INDEX",
    "WRITERS",
    "answer_checks",
    "suite_checks",
    "write",
]
