"""Files of tables: this module writes them, `pecli.files.load` reads them.

Each format is one module and one row of `pecli.files.formats`.
"""

import os
from collections.abc import Mapping, Sequence

from pecli.engine import __version__
from pecli.engine.arguments import flag_of, text_of, within_limits
from pecli.engine.arrays import ArrayLike, numbers
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table, table_of
from pecli.errors import KindError, ParameterError, nearest, path_of, quoted
from pecli.files.formats import Format, suffix_of, written_formats, written_suffixes
from pecli.files.output import is_stream, is_text
from pecli.files.writing import OnBlock, Spec, WriteRequest, no_progress


def format_of(path: str) -> Format:
    """Return the format that a path's suffix selects; a stream without a suffix takes .npy.

    >>> format_of("tables/PE.NPY").name
    'npy'
    """
    suffix = suffix_of(path)
    by_suffix = dict(zip(written_suffixes(), written_formats(), strict=True))
    if suffix in by_suffix:
        return by_suffix[suffix]
    if is_stream(path):
        return by_suffix[".npy"]
    rule = f"the suffix must be one of {', '.join(by_suffix)}"
    raise ParameterError("output", path or "''", rule, nearest(suffix, by_suffix, str))


def tables_written(path: str, scheme: Scheme) -> list[Table]:
    """Return the tensors of a scheme that a file of that name would hold."""
    if format_of(path).holds_one_array:
        return [scheme.single_array()]
    return list(scheme.tensors())


@within_limits
def save(
    path: str | os.PathLike[str],
    tables: Scheme | Mapping[str, ArrayLike] | ArrayLike,
    *,
    header: bool = True,
    prefix: str | None = None,
) -> None:
    """Write tables to a file in the format that its suffix selects.

    A file appears when it is complete; an old one of the same name stays until then.

    Args:
        path: the file: .npy, .npz, .safetensors, .csv, .json, .h or .zarr.
        tables: a scheme, arrays by name, or one array. The .safetensors or .npz file of a scheme
            carries its spec, so that `verify` needs nothing else.
        header: begin a .csv with the names of its columns.
        prefix: what the names in a .h begin with; by default the file's name, so that several
            headers can be included together.

    Raises:
        ParameterError: the suffix is unknown, or the format cannot hold the tables.
        FileError: the file cannot be written.

    >>> import pecli, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pecli.save(f"{folder}/rope.npz", pecli.Rope(seq_len=8, dim=4))
    ...     sorted(pecli.load(f"{folder}/rope.npz"))
    ['cos', 'inv_freq', 'sin']
    """
    path = path_of("path", path)
    header = flag_of("header", header)
    if prefix is not None:
        prefix = text_of("prefix", prefix)
    if isinstance(tables, Scheme):
        spec = {**tables.spec(), "version": __version__}
        save_tables(path, tables_written(path, tables), spec, header=header, prefix=prefix)
        return
    arrays = tables if isinstance(tables, Mapping) else {"table": tables}
    table_list = [table_of(name, numbers(name, array)) for name, array in arrays.items()]
    save_tables(path, table_list, None, header=header, prefix=prefix)


def save_tables(
    path: str,
    tables: Sequence[Table],
    spec: Spec | None,
    *,
    metadata: Mapping[str, str] | None = None,
    on_block: OnBlock = no_progress,
    header: bool = True,
    prefix: str | None = None,
) -> None:
    """Write tables, block by block, and the spec that made them.

    Nothing is written, and an old file is not touched, if a check fails. For the parameters, see
    `WriteRequest`.
    """
    selected = format_of(path)
    _check_names(path, selected, [table.name for table in tables])
    if prefix is not None and selected.name != "h":
        raise ParameterError("prefix", quoted(prefix), "only names in .h files have one")
    selected.write(
        WriteRequest(
            path=path,
            tables=tables,
            spec=spec,
            metadata=metadata,
            on_block=on_block,
            header=header,
            prefix=prefix,
        )
    )


def _check_names(path: str, selected: Format, names: list[str]) -> None:
    """Raise an error for tables that a file of a format cannot distinguish by their names."""
    if selected.holds_one_array and len(names) != 1:
        rule = f"a .{selected.name} file holds one array, not {', '.join(names)}"
        raise ParameterError("output", path, rule, "write .npz or .safetensors")
    for name in names:
        if not is_text(name):
            raise KindError("name", quoted(name), "a tensor's name must be a text")
    if len(set(names)) < len(names):
        raise ParameterError("tables", ", ".join(names), "every table needs a name of its own")
