"""Find the scheme of tables that carry no spec, so that their axes have names."""

import math
from collections.abc import Sequence
from dataclasses import replace

from pecli.engine.arrays import widened
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table
from pecli.explain.time_limit import time_limit
from pecli.views.pictures.plot_sources import PlotSource

MAX_TABLES = 4  #: Tables that are identified: cosines and sines, on a grid of two axes.
MAX_ELEMENTS = 1 << 19  #: Elements of all tables that are identified.
MAX_SECONDS = 1.0  #: Time for a search that only serves the names of axes.
MAX_SHORT = 1 << 12  #: Elements of a table that is searched whatever it looks like.
SAMPLED_ROWS = 64  #: Rows of a longer table in which waves are looked for.
OPTIONAL_TABLES = ("inv_freq", "slopes")  #: Tensors of a scheme that a file need not have.


def identified(source: PlotSource, kind: str | None) -> PlotSource:
    """Return the tables of a file without a spec with the scheme that made them, if it is found.

    A scheme gives names to rows and columns («position», «pair»). A heatmap can do without names, so
    that the search for them is short. Wavelengths can only be drawn of a scheme: the search takes as
    long as it needs, and the scheme's own tables are drawn.

    Args:
        source: The tables to draw.
        kind: The kind of picture; None for the default one, which fits any table.
    """
    if source.is_known or source.grid:
        return source
    fits_any_table = kind in (None, *source.picture_kinds)
    if not fits_any_table:
        return _tables_of_scheme(source)
    if is_worth_a_search(source):
        return _named_by_scheme(source)
    return source


def _named_by_scheme(source: PlotSource) -> PlotSource:
    """Return a file's tables with the scheme that made them, if a short search finds it."""
    scheme = _search(source, MAX_SECONDS)
    if scheme is None:
        return source
    return _renamed_as_in_scheme(source, scheme)


def _tables_of_scheme(source: PlotSource) -> PlotSource:
    """Return the tables of the scheme that made a file, however long the search for it takes."""
    scheme = _search(source, math.inf)
    if scheme is None:
        return source
    label = f"{source.label} (identified: {scheme.name})"
    return PlotSource(label, scheme.tensors(), scheme)


def _search(source: PlotSource, seconds: float) -> Scheme | None:
    """Return the scheme of the first match; None if there is none within this time."""
    from pecli.checks.identify import identify_tensors  # It imports all searches.

    arrays = {table.name: table.array() for table in source.tables}
    with time_limit(seconds):
        matches = identify_tensors(source.label, arrays).matches
    return matches[0].scheme if matches else None


def _renamed_as_in_scheme(source: PlotSource, scheme: Scheme) -> PlotSource:
    """Return a file's own tables under the names of the scheme that made them.

    `model.cos` and `model.sin` become `cos` and `sin` of a rope, and the rope's `inv_freq` is added.
    If the file has other tables than the scheme, such as those of several layers, it stays as it is.
    """
    scheme_tables = scheme.tensors()
    names = _names_in_scheme(source.tables, scheme_tables)
    renamed = []
    for table, name in zip(source.tables, names, strict=True):
        renamed.append(replace(table, name=name))
    if _main_shapes(renamed) != _main_shapes(scheme_tables):
        return source
    missing = [table for table in scheme_tables if table.name not in names]  # such as inv_freq
    return PlotSource(source.label, (*renamed, *missing), scheme)


def _names_in_scheme(tables: Sequence[Table], scheme_tables: Sequence[Table]) -> list[str]:
    """Return names of a file's tables without their prefix; a single table takes the scheme's."""
    main_tables = [table for table in scheme_tables if table.name not in OPTIONAL_TABLES]
    if not main_tables:
        main_tables = list(scheme_tables)
    if len(tables) == 1 and len(main_tables) == 1:
        return [main_tables[0].name]
    return [table.name.rpartition(".")[2] for table in tables]


def _main_shapes(tables: Sequence[Table]) -> list[tuple[str, tuple[int, ...]]]:
    """Return the names and shapes of tables, in order, except those that a file need not have."""
    return sorted(
        (table.name, table.shape) for table in tables if table.name not in OPTIONAL_TABLES
    )


def is_worth_a_search(source: PlotSource) -> bool:
    """Return True if tables are few, and each is short, or consists of waves or lines."""
    if len(source.tables) > MAX_TABLES:
        return False
    if sum(table.size for table in source.tables) > MAX_ELEMENTS:
        return False
    return all(table.size <= MAX_SHORT or _begins_with_waves(table) for table in source.tables)


def _begins_with_waves(table: Table) -> bool:
    """Return True if the columns of a table's first rows are waves or lines."""
    from pecli.checks.wave_columns import has_waves

    sample = table.read(0, min(SAMPLED_ROWS, table.rows))
    return has_waves(widened(sample))
