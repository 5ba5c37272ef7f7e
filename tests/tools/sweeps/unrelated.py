"""Arrays of nothing that pecli knows, and tables of one scheme given for another: nothing may be claimed of them."""

import time
import traceback

import numpy as np

import pecli
from pecli.engine.edits import Parameter
from pecli.explain.explanation import Explanation
from tests.explain.unrelated import KINDS, of_another
from tests.tools.sweeps import Attempt

ROWS = (32, 64, 100, 200, 512)
DIMS = (16, 32, 48, 64, 96, 128)
DTYPES = ("float32", "float16", "float64")
MAX_CPU_SECONDS = 2.5

ANOTHER = "another scheme"


def attempt_unrelated(seed: int) -> Attempt:
    """Look for reasons and for a scheme in an array that has none."""
    kinds = [*KINDS, ANOTHER]
    kind = kinds[seed % len(kinds)]
    try:
        problem = unrelated_problem(kind, seed)
    except Exception:
        problem = f"raised {traceback.format_exc(limit=-2)}"
    return Attempt(kind, problem)


def unrelated_problem(kind: str, seed: int) -> str:
    """Return the claim that was made; empty if none was."""
    rng = np.random.default_rng([seed, 3])
    rows = int(rng.choice(ROWS))
    dim = int(rng.choice(DIMS))
    if kind == ANOTHER:
        spec, tables = of_another(rng, rows, dim)
        return _claim_of_verify(tables, spec)
    array = np.ascontiguousarray(KINDS[kind](rng, rows, dim).astype(str(rng.choice(DTYPES))))
    found = pecli.identify({"x": array})
    if found.identified:
        return f"identified: {found.matches[0].scheme}"
    if array.ndim != 2 or not array.shape[1] > 1:
        return ""
    rows, columns = array.shape
    spec = pecli.Rope(rows, 2 * columns)
    return _claim_of_verify({"cos": array, "sin": array[::-1].copy()}, spec)


def _is_true(explanation: Explanation) -> bool:
    """Return True if the sinusoidal table in place of a drawn one was recognised."""
    return explanation.edits == (Parameter("init", "normal", "sinusoidal"),)


def _claim_of_verify(tables: dict[str, np.ndarray], spec: pecli.Scheme) -> str:
    start = time.process_time()
    result = pecli.verify(tables, spec, atol=1e-6)
    seconds = time.process_time() - start
    if result.passed:
        return f"passed: {spec}"
    if result.explanations and not _is_true(result.explanations[0]):
        return f"claimed: {result.diagnosis[0]}: {spec}"
    if seconds > MAX_CPU_SECONDS:
        return f"slow ({seconds:.1f} s): {spec}"
    return ""
