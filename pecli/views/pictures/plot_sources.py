"""The sources of a picture: schemes, models' encodings and files, and how much of them is drawn."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pecli.engine.arrays import Array
from pecli.engine.named_values import JsonObject
from pecli.engine.schemes import SCHEMES
from pecli.engine.schemes.scheme import Axes, Scheme, tensors_by_name
from pecli.engine.table import Table, table_of
from pecli.errors import FileError, ParameterError
from pecli.files.contents import LoadedFile, carried_spec
from pecli.files.tensor_roles import role_of
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.views.model_tables import table_scheme
from pecli.views.pictures.downsample import evenly_spaced
from pecli.views.pictures.fitting import GRID_KINDS, picture_kinds

IMAGE_GRID = (16, 16)
"""Patches of an image for encodings whose table depends on the image, not on the model."""


@dataclass(frozen=True, repr=False)
class UnknownScheme(Scheme):
    """The scheme of tables without a spec: it has no parameters, and gives axes no meaning.

    The tables belong to a file, not to the scheme, which would have to know how to compute them.
    """

    name = "file"
    applied_as = ""

    def spec(self) -> JsonObject:
        return {"scheme": self.name, "parameters": {}}

    def tensors(self) -> tuple[Table, ...]:
        return ()


UNKNOWN = UnknownScheme()


class PlotSource(NamedTuple):
    """The tables of one scheme or file, with the name that they have in a picture."""

    label: str
    tables: tuple[Table, ...]
    scheme: Scheme = UNKNOWN  #: UNKNOWN for a file without a spec.
    context: int | None = None  #: The longest context that the scheme's model declares.
    window: int | None = None  #: The sliding window of the layers that use the scheme.
    grid: tuple[int, ...] | None = None  #: The grid on which the rows of a file lie.
    keep: int = 0  #: Rows of a file in front of those of the grid.

    @property
    def is_known(self) -> bool:
        """True if a scheme gives a meaning to rows and columns."""
        return self.scheme is not UNKNOWN

    @property
    def kind(self) -> str:
        """The scheme's name, or "file"."""
        return self.scheme.name

    @property
    def applied_as(self) -> str:
        return self.scheme.applied_as

    @property
    def picture_kinds(self) -> tuple[str, ...]:
        """The names of the kinds of pictures that show it."""
        if self.grid and not self.is_known:
            return GRID_KINDS
        return picture_kinds(self.scheme)

    @property
    def first(self) -> int:
        """The position of the first row."""
        return self.scheme.first_position

    @property
    def matrices(self) -> list[Table]:
        """The tables that have rows, columns and at least one element."""
        return [table for table in self.tables if len(table.shape) == 2 and table.size]

    def axes_of(self, table: Table) -> Axes:
        """Return the meaning of a table's axes: the scheme's, or positions and channels."""
        if table.name in tensors_by_name(self.scheme):
            return self.scheme.axes_of(table.name)
        unnamed = [""] * (len(table.shape) - 2)
        return Axes((*unnamed, "position", "channel"))

    @property
    def values(self) -> set[str]:
        """The names of the elements of all tables: cosine, sine, bias, slope, bucket, value."""
        return {self.axes_of(table).value for table in self.tables}


def values_of(sources: Sequence[PlotSource]) -> set[str]:
    """Return the names of the elements of all sources, such as cosine and sine."""
    values: set[str] = set()
    return values.union(*(source.values for source in sources))


def are_biases(sources: Sequence[PlotSource]) -> bool:
    """Return True if all sources are attention biases that fall with the distance (ALiBi)."""
    return all(source.applied_as == "bias" for source in sources)


class PlotRequest(NamedTuple):
    """The room that a picture has, by default in a terminal, and the channels to draw."""

    rows: int = 100
    columns: int = 200
    channels: tuple[int, ...] | None = None  #: Channels, pairs or heads; None: chosen for the user.

    def choose(self, count: int, max_count: int, name: str = "channels") -> list[int]:
        """Return the requested channels; by default at most `max_count` of `count`, evenly spaced.

        Raises:
            ParameterError: A requested channel does not exist; the message has the `name` of all.

        >>> PlotRequest().choose(12, 4), PlotRequest().choose(3, 8)
        ([0, 4, 7, 11], [0, 1, 2])
        >>> PlotRequest(channels=(1,)).choose(2, 8)
        [1]
        """
        if self.channels is None:
            return evenly_spaced(count, max_count)
        for channel in self.channels:
            if channel >= count:
                rule = f"there are {count} {name}, numbered from 0"
                raise ParameterError("channels", channel, rule)
        return list(self.channels)


def of_scheme(
    scheme: Scheme, label: str = "", context: int | None = None, window: int | None = None
) -> list[PlotSource]:
    """Return what a picture draws of a scheme: its tables with a label, or one such per layer type.

    Args:
        scheme: The scheme, or a bundle of one scheme per type of layer.
        label: The name of its model.
        context: The longest context of its model.
        window: The model's sliding window; only sliding layers have it, if a bundle names any.
    """
    by_layer_type = scheme.by_layer_type()
    names_sliding_layers = any(_is_sliding(layer_type) for layer_type, _ in by_layer_type)
    sources = []
    for layer_type, layer_scheme in by_layer_type:
        has_window = _is_sliding(layer_type) or not names_sliding_layers
        source = PlotSource(
            label=f"{label} {layer_type}".strip(),
            tables=layer_scheme.tensors(),
            scheme=layer_scheme,
            context=context,
            window=window if has_window else None,
        )
        sources.append(source)
    return sources


def _is_sliding(layer_type: str) -> bool:
    """Return True for layers with a sliding window: Gemma 3 calls them so, ModernBERT «local»."""
    return "sliding" in layer_type or "local" in layer_type


def of_model(
    model: ModelEncodings, label: str, kind: str | None = None, seq_len: int = 512
) -> list[PlotSource]:
    """Return what a picture draws of a model: one source (tables with a label) per encoding.

    They are the rotary ones, those of a vision tower included, or else those whose tables follow
    from the configuration. If `kind` fits some of them, only these are returned.
    """
    sources = _rotary_sources(model, label, kind, seq_len)
    if not sources:
        sources = _table_sources(model, label, seq_len)
    return fitting(sources, kind) or sources


def fitting(sources: Sequence[PlotSource], kind: str | None) -> list[PlotSource]:
    """Return the sources that a kind of picture shows."""
    return [source for source in sources if kind in source.picture_kinds]


def _rotary_sources(
    model: ModelEncodings, label: str, kind: str | None, seq_len: int
) -> list[PlotSource]:
    """Return the tables of a model's rotary encodings, each with the label that pictures show.

    Args:
        model: The model.
        label: Its name, to which the type of the layers is added if there are several encodings.
        kind: The kind of picture, if it was chosen.
        seq_len: Rows of the tables.
    """
    encodings = [encoding for encoding in model if _is_drawable_rope(encoding)]
    sources: list[PlotSource] = []
    for encoding in encodings:
        name = _encoding_label(label, encoding) if len(encodings) > 1 else label
        belongs_to_vision_tower = bool(encoding.part)
        if _is_drawn_on_grid(encoding, kind):  # The rows are the patches of an example image.
            sources += of_scheme(encoding.rope(grid=IMAGE_GRID), name)
        elif belongs_to_vision_tower:  # The context and the window of the text do not concern it.
            sources += _sources_of_tower(encoding, name, seq_len)
        else:  # The rows are the positions of a text.
            window = _window_of(encoding, model, encodings)
            sources += of_scheme(encoding.rope(seq_len), name, model.context, window)
    return sources


def _sources_of_tower(encoding: Encoding, name: str, seq_len: int) -> list[PlotSource]:
    """Return the table of a vision tower's rope, whose context is an image and not that of the text.

    A rope over the rows and columns of an image is drawn as the table of one of these axes.
    """
    note = ", one axis" if encoding.grid.axes else ""
    return of_scheme(encoding.rope(seq_len), name + note)


def _window_of(
    encoding: Encoding, model: ModelEncodings, encodings: Sequence[Encoding]
) -> int | None:
    """Return the window of an encoding's layers: full layers beside sliding ones have none."""
    of_text = [other for other in encodings if not other.part]
    if len(of_text) == 1 or _is_sliding(encoding.layer_type):
        return model.window
    return None


def _encoding_label(label: str, encoding: Encoding) -> str:
    return f"{label} {encoding.layer_type}".strip()


def _is_drawable_rope(encoding: Encoding) -> bool:
    """Return True for a rotary encoding with a table, or with one for every size of an image."""
    has_table = not encoding.no_table or bool(encoding.grid.style)
    return encoding.is_rotary and has_table


def _is_drawn_on_grid(encoding: Encoding, kind: str | None) -> bool:
    """Return True if rows are drawn as patches: nothing else fits, or patches are requested."""
    if not encoding.grid.style:
        return False
    return bool(encoding.no_table) or kind == "patch"


def _table_sources(model: ModelEncodings, label: str, seq_len: int) -> list[PlotSource]:
    """Return the encodings whose table follows from the configuration: sinusoidal, ALiBi, …"""
    sources: list[PlotSource] = []
    for encoding in model:
        if encoding.scheme not in SCHEMES or encoding.no_table:
            continue
        scheme = table_scheme(encoding, seq_len)
        sources += of_scheme(scheme, _encoding_label(label, encoding), model.context, model.window)
    return sources


def of_file(text: str, file: LoadedFile, label: str = "") -> list[PlotSource]:
    """Return what a picture draws of a file, or of one tensor in it: tables with a label.

    A file that carries a spec is drawn with its scheme, which names rows and columns.

    Args:
        text: The file, or FILE:NAME, as the user named it.
        file: Its tensors and metadata.
        label: Its name in the picture; by default the name of the file without its folder.

    Raises:
        FileError: The file carries a spec that is not valid.
    """
    name = label or os.path.basename(text) or text
    is_whole_file = text in (file.path, "-")
    scheme = _carried_scheme(text, file) if is_whole_file else None
    if scheme is None:
        return [_without_spec(name, file.tensors)]
    tables = [table_of(tensor_name, array) for tensor_name, array in file.tensors.items()]
    sources = []
    for layer_type, layer_scheme in scheme.by_layer_type():
        sources.append(_layers_of_file(name, tables, layer_type, layer_scheme))
    return sources


def _carried_scheme(text: str, file: LoadedFile) -> Scheme | None:
    """Return the scheme that made a file, by the spec (parameters) that it carries; None without."""
    spec = carried_spec(file.path, file.metadata)
    if spec is None:
        return None
    try:
        scheme: Scheme = Scheme.from_spec(spec)
    except ParameterError as problem:
        raise FileError(text, f"carries a spec that makes no table ({problem})") from None
    return scheme


def _layers_of_file(
    label: str, tables: Sequence[Table], layer_type: str, scheme: Scheme
) -> PlotSource:
    """Return the tables of one type of layer in a file: `sliding.cos` is drawn as `cos`.

    Args:
        label: The name of the file in the picture.
        tables: All tables of the file.
        layer_type: The type, such as `sliding`; empty if all layers are alike.
        scheme: The scheme of these layers. If the file lacks a table of the scheme, or has it in
            another shape, its tables are drawn without a scheme.
    """
    prefix = f"{layer_type}.".removeprefix(".")
    layer_tables = []
    for table in tables:
        if table.name.startswith(prefix):
            layer_tables.append(replace(table, name=table.name.removeprefix(prefix)))
    shapes = {table.name: table.shape for table in layer_tables}
    has_all_of_scheme = all(shapes.get(table.name) == table.shape for table in scheme.tensors())
    return PlotSource(
        label=f"{label} {layer_type}".strip(),
        tables=tuple(layer_tables),
        scheme=scheme if has_all_of_scheme else UNKNOWN,
    )


def _without_spec(label: str, tensors: Mapping[str, Array]) -> PlotSource:
    """Return the tensors of a file that does not state its scheme, as tables to draw.

    The label states how arrays were divided: «pe.npy (all cosines, then all sines)».
    """
    tables_by_name: dict[str, Table] = {}  # Of two tables of one name, the last is drawn.
    notes = []
    for name, array in tensors.items():
        divided = _tables_in_array(name, array)
        tables_by_name |= {table.name: table for table in divided.tables}
        if divided.note and len(tensors) == 1:
            notes.append(divided.note)
        elif divided.note:
            notes.append(f"{name}: {divided.note}")
    if notes:
        label = f"{label} ({'; '.join(notes)})"
    return PlotSource(label, tuple(tables_by_name.values()))


class _DividedArray(NamedTuple):
    """The tables in an array."""

    tables: list[Table]
    note: str  #: The rule by which the array was divided; empty if it is one table.


def _tables_in_array(name: str, array: Array) -> _DividedArray:
    """Return the tables in an array of a file: one array [cos | sin] is two, as every check reads it.

    An array `rope` of cosines and sines is `rope.cos` and `rope.sin`. A complex array is its real
    and its imaginary part.
    """
    from pecli.compare.waves import separate_tables

    arrays, note = separate_tables(name, array)
    is_undivided = len(arrays) == 1
    if is_undivided and array.dtype.kind == "c":
        arrays = {"real": array.real, "imag": array.imag}
    tables = []
    for suffix, values in arrays.items():
        table_name = f"{name}.{suffix}" if suffix else name
        shape = _drawn_shape(name, values.shape)
        tables.append(table_of(table_name, values.reshape(shape)))
    return _DividedArray(tables, note)


def _drawn_shape(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a tensor's shape without the axes of length 1 that a picture can do without.

    Cosines and sines are a table of positions and pairs, however many axes a model broadcasts them
    over: (1, L, 1, D) is (L, D). Of other tensors, only leading axes are dropped, until two axes
    are left.
    """
    long_axes = tuple(length for length in shape if length != 1)
    if role_of(name) in ("cos", "sin") and len(long_axes) == 2:
        return long_axes
    while len(shape) > 2 and shape[0] == 1:
        shape = shape[1:]
    return shape
