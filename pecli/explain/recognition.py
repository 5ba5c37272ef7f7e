"""Identification of tables that nothing is known of: what made them, the best answer first."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from pecli.engine.arrays import Array, widest
from pecli.explain import alibi_slopes, frequency_fit, sinusoid_search
from pecli.explain import recipe_search as recipes
from pecli.explain.acceptance import Judge
from pecli.explain.edits import Explanation, best
from pecli.explain.position_recovery import (
    recognise_grid,
    recognise_positions,
)
from pecli.explain.sample import (
    samples_of,
)
from pecli.explain.time_limit import check_time, limited

MAX_VECTOR = 1 << 14  # elements of a vector that may be frequencies or slopes
NINE_DIGITS = (
    5e-9  # of a value: what is lost where float32 is written with as many digits as tell it
)


def recognise(arrays: Mapping[str, Array]) -> list[Explanation]:
    """Return what made arrays that belong together (cosines and sines, or one alone), the best first."""
    with limited():
        check_time()
        samples = samples_of(arrays)
        for (
            name,
            one,
        ) in (
            samples.items()
        ):  # float32 numbers in a float64 file, or with nine digits, are what they are
            single = (
                widest(one.values.astype(np.float32))
                if one.dtype == "float64"
                else np.full(1, math.inf)
            )
            if (np.abs(single - one.values) <= NINE_DIGITS * np.abs(one.values)).all():
                samples[name] = replace(one, dtype="float32", values=single)
        one = next(iter(samples.values()))
        if one.is_vector and one.values.size > MAX_VECTOR:
            return []
        judge = Judge(samples, 0.0, one.float_dtype, arrays)
        for search, alone in RECOGNISERS:
            found = best(search(judge)) if not alone or len(samples) == 1 else []
            if found:
                return found[:3]
    return []


RECOGNISERS: tuple[tuple[Callable[[Judge], Iterable[Explanation]], bool], ...] = (
    (alibi_slopes.recognise_bias, True),
    (frequency_fit.recognise_frequencies, True),
    (recipes.recognise_narrow, False),
    (sinusoid_search.recognise_waves, False),
    (recognise_grid, False),
    (recognise_positions, False),
)
"""Each with whether it looks at one tensor alone; the first that finds something counts."""
