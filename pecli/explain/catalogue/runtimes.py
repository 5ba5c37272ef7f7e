"""Tables as a runtime computes them from the same parameters."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from pecli.engine.edits import Edit, Recipe, Runtime
from pecli.engine.runtimes import EMULATED
from pecli.engine.schemes.scheme import Scheme, runtime_names
from pecli.errors import ParameterError
from pecli.explain.catalogue.columns import columns_of
from pecli.explain.catalogue.kinds import waves_of
from pecli.explain.catalogue.needs import is_table
from pecli.explain.computation import Computation, SchemeComputation, WaveComputation
from pecli.explain.frequency_schedule import NO_SCALING
from pecli.explain.hypothesis import Case, Mistake, Stage

COMPARED_ROWS = 64
"""Rows by which the tables of two runtimes are the same, or not."""


def have_no_mistake(case: Case) -> bool:
    """Return True if no mistake but storage is supposed."""
    return not case.mistakes_beside_storage


@dataclass(frozen=True)
class ComputedByRuntime(Mistake):
    """The table that a runtime makes of the scheme's parameters: its own arithmetic, or its reading
    of the scaling.
    """

    names: tuple[str, ...]  # the runtimes that make the same numbers
    scheme: Scheme
    tensors: tuple[str, ...]
    summary = "a runtime reads the same parameters differently, or computes them in its own way"
    seen_in = ("see `pecli runtimes MODEL`",)
    stage = Stage.ARITHMETIC
    weight = 0.2  # less than «computed in float32»: the name of a runtime says more
    computation_type = WaveComputation
    computation_needs = (is_table,)
    data_needs = (have_no_mistake,)

    def plant(self, computation: Computation) -> Computation:
        return SchemeComputation(self.scheme, self.tensors, storage=computation.storage)

    @classmethod
    def proposals_for_case(cls, case: Case) -> Iterator[Self]:
        """Yield «computed by this runtime» for each runtime that may have made the table of a file.

        Runtimes that compute the same table, such as transformers and vLLM, cannot be distinguished in
        a file, so that they are yielded as one proposal that names both. It is only a proposal: a few
        rows are compared here, and all of them later.
        """
        names_by_table: dict[bytes, tuple[str, ...]] = {}
        runtimes: dict[bytes, Self] = {}  # the first one of each table
        for runtime, table in cls._agreeing_in_few_rows(case):
            names_by_table[table] = (*names_by_table.get(table, ()), *runtime.names)
            runtimes.setdefault(table, runtime)
        for table, names in names_by_table.items():
            yield replace(runtimes[table], names=names)

    @classmethod
    def _agreeing_in_few_rows(cls, case: Case) -> Iterator[tuple[Self, bytes]]:
        """Yield the runtimes whose tables agree with the data in a few rows, and the tables as bytes.

        vLLM's table, for example, is computed and compared in 8 rows; it is yielded if no element of
        these is wrong. Equal tables have equal bytes, which can be the key of a dict.
        """
        tensors = columns_of(waves_of(case)).tensors
        runtimes = case.once(("runtimes", case.scheme), lambda: list(runtimes_of(case.scheme)))
        for name, scheme in runtimes:
            if _may_have_frequencies(scheme, case):
                runtime = cls(names=(name,), scheme=scheme, tensors=tensors)
                supposed = case.supposing(runtime)
                if not supposed.wrong_in_few_rows.any():
                    yield runtime, _first_numbers(supposed)

    def scheme_after(self, scheme: Scheme) -> Scheme:
        return self.scheme

    def edits(self, case: Case) -> tuple[Edit, ...]:
        first, *others = self.names
        causes = self.scheme.runtime_reading.causes
        runtime = Runtime(first, tuple(others), causes)
        return (runtime,) if causes else (runtime, Recipe("float32"))


def _first_numbers(case: Case) -> bytes:
    """Return the first rows that the supposed mistakes make, as float32 bytes that can be compared."""
    rows = np.arange(min(COMPARED_ROWS, case.observations.rows))
    return case.computation.rendered(rows).astype(np.float32).tobytes()


def _may_have_frequencies(scheme: Scheme, case: Case) -> bool:
    """Return True unless other frequencies were measured than those of the scheme.

    A runtime that reads the scaling differently has other frequencies, which may be the measured ones.
    """
    reads_differently = bool(scheme.runtime_reading.causes)
    return reads_differently or not case.frequencies_are_refuted


def runtimes_of(scheme: Scheme) -> Iterator[tuple[str, Scheme]]:
    """Yield the runtimes whose tables of a scheme may differ from the exact ones, with the scheme in each.

    A runtime may round in steps of its own, as those in EMULATED do, or read the scaling of a
    configuration differently: another default of a parameter, for example.
    """
    for name in runtime_names(type(scheme)):
        with suppress(ParameterError):  # The runtime may not have such a scaling.
            computed = scheme.computed_as(name)
            reading = computed.runtime_reading
            reads_differently = reading.causes and reading.scaling != NO_SCALING
            if name in EMULATED or reads_differently:
                yield name, computed
