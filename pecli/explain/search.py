"""The search itself: tensors and a prior in, explanations out, the best first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table
from pecli.explain import storage
from pecli.explain.biases import explain_bias
from pecli.explain.edits import Explanation, best
from pecli.explain.sample import Sample, sample
from pecli.explain.vectors import explain_frequencies
from pecli.explain.wave_schemes import wave_scheme
from pecli.explain.wave_search import explain_waves


def explain(prior: Scheme, found: Mapping[str, Table], tolerance: object = None) -> list[Explanation]:
    """Why tables of a scheme, by its names for them, are not what it makes."""
    samples = {name: sample(table) for name, table in found.items() if table.size}
    with np.errstate(all="ignore"):
        return best(_with_storage(each, samples, prior) for each in _explained(prior, samples))


def _explained(prior: Scheme, samples: Mapping[str, Sample]) -> list[Explanation]:
    waves = {name: samples[name] for name in ("cos", "sin", "cos_sin", "pe") if name in samples}
    out: list[Explanation] = []
    seen = wave_scheme(prior, tuple(waves) or ("cos",))
    if waves and seen is not None:
        out += explain_waves(waves, seen)
    if prior.name == "alibi":
        return [each for name, one in samples.items() for each in explain_bias(one, prior, name)[:1]]
    if "inv_freq" in samples and seen is not None and not out:
        out += explain_frequencies(samples["inv_freq"], seen)
    return out


def _with_storage(found: Explanation, samples: Mapping[str, Sample], prior: Scheme) -> Explanation:
    first = samples[found.tensors[0]]
    kept = storage.kept(first.values, first.dtype, found.noise, prior.dtype)
    return replace(found, edits=(*found.edits, *kept))
