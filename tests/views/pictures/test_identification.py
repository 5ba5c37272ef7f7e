"""Files without a spec: `pecli plot` looks for the scheme that made them, if that is worth the time.

Expected limits are the constants of pecli/views/pictures/identification.py: 4 tables, 4,096 elements
of any kind, 2^19 elements of waves.
"""

import numpy as np
import pytest

import pecli
from pecli.engine.table import table_of
from pecli.views.pictures.identification import is_worth_a_search
from pecli.views.pictures.plot_sources import PlotSource


@pytest.mark.parametrize(("count", "is_worth_it"), [(4, True), (5, False)])
def test_a_file_of_up_to_four_tables_is_worth_a_search(count: int, is_worth_it: bool) -> None:
    """`pecli plot` searches for the scheme that made a file's tables, to describe the picture. The
    search takes time for each table, so that there are four at most.
    """
    tables = tuple(table_of(str(k), np.zeros((2, 2))) for k in range(count))
    assert is_worth_a_search(PlotSource("x", tables)) is is_worth_it


@pytest.mark.parametrize(("rows", "is_worth_it"), [(64, True), (65, False)])
def test_noise_is_worth_a_search_up_to_4096_elements(rows: int, is_worth_it: bool) -> None:
    """64 rows of 64 columns are 4,096 elements, the most that are searched if they are not
    waves.
    """
    noise = table_of("a", np.random.default_rng(0).normal(size=(rows, 64)))
    assert is_worth_a_search(PlotSource("x", (noise,))) is is_worth_it


@pytest.mark.parametrize(("rows", "is_worth_it"), [(8192, True), (8193, False)])
def test_waves_are_searched_up_to_half_a_million_elements(rows: int, is_worth_it: bool) -> None:
    """8,192 rows of 64 channels are 2^19 elements, the most that are searched if columns
    are waves.
    """
    waves = pecli.Sinusoidal(seq_len=rows, dim=64).tensors()
    assert is_worth_a_search(PlotSource("x", waves)) is is_worth_it
