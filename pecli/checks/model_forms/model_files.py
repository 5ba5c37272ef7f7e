"""The files of a model, such as a Hugging Face folder or a .gguf file: its settings and tensors."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from pecli.checks.model_forms.stored import Q8_0, QUANTISED, StoredTensor
from pecli.engine import application
from pecli.engine.arrays import Array
from pecli.engine.named_values import NamedValues
from pecli.errors import FileError, PecliError
from pecli.files.contents import LoadedFile
from pecli.files.load import load_file
from pecli.models import config_files, find, key_names
from pecli.models.encoding import ModelEncodings
from pecli.models.gguf_names import as_in_gguf
from pecli.tensors.convert import heads_of
from pecli.tensors.head_layout import HeadDivision


class ModelFormat(StrEnum):
    """The project whose files hold a model."""

    HUGGING_FACE = "Hugging Face"
    META = "Meta"
    GGUF = "GGUF"


LAYER_COUNTS = ("block_count", "num_hidden_layers", "n_layers", "n_layer", "num_layers")
HEAD_COUNTS = ("attention.head_count", *key_names.HEAD_COUNT_KEYS)
Settings = NamedValues
"""A configuration, or a part of one."""
CONFIG_FILES = {"config.json": ModelFormat.HUGGING_FACE, "params.json": ModelFormat.META}
WEIGHT_FILES = (".safetensors", ".bin", ".pth", ".pt")
META_SHARDS = "consolidated.[0-9]*.pth"
NOT_WEIGHTS = re.compile(
    r".*(rope_(freqs|factors_\w+)\.weight|rope\.freqs|inv_freq|masked_bias|(attention|\.attn)\.bias)"
)
"""Tensors that hold settings or masks. Frequencies are compared as encodings, by what they mean."""
PACKED = re.compile(r"(?:_blocks|_scales|\.qweight|\.qzeros|\.scales|\.g_idx|_scale_inv|_scale)$")
"""Suffixes of tensors that hold weights in a packed form: gpt-oss (MXFP4), GPTQ, AWQ, float8."""


class Counts(NamedTuple):
    """Numbers that files state about the model, of whatever type it has; None if it does not."""

    context: object
    layers: object
    heads: object


NO_COUNTS = Counts(context=None, layers=None, heads=None)


class FormTensors(NamedTuple):
    """Tensors under GGUF's names, and those that are not compared, with a description of each."""

    read: dict[str, StoredTensor]
    unread: dict[str, str]


@dataclass(frozen=True)
class ModelFiles:
    """A model as the files of one project hold it.

    Attributes:
        label: A or B.
        format: The project whose files these are.
        architecture: The type of the model, such as llama.
        encodings: The positional encodings that its settings describe.
        layout: How rows of query and key weights make pairs: halves or interleaved.
        heads: Its query and key heads; None if they differ by layer, or nothing rotates.
        counts: The numbers of layers, heads and positions.
        tensors: Its weights under GGUF's names.
        unread: The weights that are not compared: types that are not read, and unknown names.
    """

    label: str
    format: ModelFormat
    architecture: str
    encodings: ModelEncodings
    layout: str
    heads: HeadDivision | None = None
    counts: Counts = NO_COUNTS
    tensors: Mapping[str, StoredTensor] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)

    @property
    def description(self) -> str:
        return f"{self.architecture} in {self.format} form"


class Source(NamedTuple):
    """The files of a model: those that hold its tensors, and the one that describes the model."""

    format: ModelFormat
    path: str
    config: str


def find_source(given: str | os.PathLike[str]) -> Source | None:
    """Return the files of the model that a path leads to; None if it is not a model.

    The path is a folder, a configuration file, a .gguf file, or a file of weights beside its
    configuration. `llama/config.json` stands for the tensors of the folder `llama`;
    `llama/model.safetensors` stands for its own, which `llama/config.json` describes.
    """
    path = os.fspath(given)
    if not os.path.exists(path):
        return None
    config = _find_config(path)
    model_format = _find_format(config)
    if model_format is None:
        return None
    return Source(format=model_format, path=_find_weights(path), config=config)


def _find_config(path: str) -> str:
    """Return the file that describes a model: `llama/config.json` for `llama/model.safetensors`.

    A .gguf file describes itself. The result is empty if there is none.
    """
    is_weight_file = os.path.isfile(path) and path.endswith(WEIGHT_FILES)
    if is_weight_file:
        return config_files.config_file(_find_folder(path))
    return config_files.config_file(path)


def _find_weights(path: str) -> str:
    """Return the file or folder that holds a model's tensors: `llama` for `llama/config.json`."""
    is_config_file = os.path.basename(path) in CONFIG_FILES
    return _find_folder(path) if is_config_file else path


def _find_folder(file: str) -> str:
    """Return the folder that holds a file."""
    return os.path.dirname(file) or os.curdir


def _find_format(config: str) -> ModelFormat | None:
    """Return the format of a model by its configuration; None if no format has such a file."""
    if config.endswith(".gguf"):
        return ModelFormat.GGUF
    return CONFIG_FILES.get(os.path.basename(config))


def read_model(label: str, source: Source) -> ModelFiles:
    """Read the settings of a model, and open its tensors.

    Raises:
        FileError: A file cannot be read, or requires the gguf package.
    """
    encodings = find.find_model(source.config)
    heads: HeadDivision | None = None
    with suppress(PecliError):  # Heads differ by layer, or nothing rotates.
        heads = heads_of(source.config, None, {})
    counts = _read_counts(source, encodings.context)
    tensors = _read_tensors(source, encodings.model_type)
    _require_gguf_package(source.path, tensors.read.values())
    return ModelFiles(
        label=label,
        format=source.format,
        architecture=encodings.model_type or source.format,
        encodings=encodings,
        layout=_read_weight_layout(encodings),
        heads=heads,
        counts=counts,
        tensors=tensors.read,
        unread=tensors.unread,
    )


def _read_weight_layout(encodings: ModelEncodings) -> str:
    """Return the layout of the first rotary encoding that states one, as the weights have it."""
    for encoding in encodings.ropes():
        if encoding.layout:
            return application.LAYOUTS[encoding.layout][0]
    return "halves"


def _read_counts(source: Source, context: int | None) -> Counts:
    """Return the numbers of layers and heads that a configuration states.

    A multimodal model has them in `text_config`, which has precedence.
    """
    config = find.describe(source.config).values
    by_precedence = [*_find_text_configs(config), config]
    layers = _find_first_value(by_precedence, LAYER_COUNTS)
    if source.format == ModelFormat.GGUF and isinstance(layers, int):
        # GGUF counts the layers that predict further tokens (DeepSeek's MTP) as blocks.
        layers -= config.get("nextn_predict_layers") or 0
    heads = _find_first_value(by_precedence, HEAD_COUNTS)
    return Counts(context=context, layers=layers, heads=heads)


def _find_text_configs(config: Settings) -> Iterator[Settings]:
    """Yield the parts of a multimodal configuration that describe its language model."""
    for name in key_names.TEXTS:
        text_config = config.get(name)
        if isinstance(text_config, Mapping):
            yield text_config


def _find_first_value(parts: Iterable[Settings], keys: Sequence[str]) -> object:
    """Return the value of the first key that a part of a configuration has; None if none has one."""
    for part in parts:
        for key in keys:
            if part.get(key) is not None:
                return part[key]
    return None


class NamedTensor(NamedTuple):
    """A tensor, its name in the file, and its name in GGUF, which is empty if it is unknown."""

    name: str
    gguf_name: str
    stored: StoredTensor

    @property
    def is_comparable(self) -> bool:
        """True if GGUF has a name for the tensor, and its values can be read: they are not packed."""
        is_packed = bool(PACKED.search(self.name))
        return bool(self.gguf_name) and self.stored.is_read and not is_packed

    @property
    def description(self) -> str:
        """The name, and the dtype unless it is the name that prevents a comparison: «q.qweight (int32)»."""
        return f"{self.name} ({self.stored.dtype})" if self.gguf_name else self.name


def _read_tensors(source: Source, model_type: str | None) -> FormTensors:
    """Open all tensors, and divide them into those that can be compared and those that cannot.

    The latter are those that GGUF has no name for, and those of a packed or unknown type.
    """
    comparable: dict[str, StoredTensor] = {}
    unread: dict[str, str] = {}
    for tensor in _open_named_tensors(source, model_type):
        if tensor.is_comparable:
            comparable.update(tensor.stored.by_expert(tensor.gguf_name))
        else:
            # Several packed parts of a weight have one name in GGUF: the first describes them.
            unread.setdefault(tensor.gguf_name or tensor.name, tensor.description)
    return FormTensors(comparable, unread)


def _open_named_tensors(source: Source, model_type: str | None) -> Iterator[NamedTensor]:
    """Yield the weights of a model with their names in GGUF.

    Usually they are in one file, or in a folder that is loaded as one. Meta's are in several files
    with the same names, each of which holds a slice of every tensor, called a shard.
    """
    files = [load_file(file) for file in _find_tensor_files(source)]
    yield from _open_quantised_tensors(files[0])  # `tensors` lacks them. Meta has none.
    for name in files[0].tensors:
        if not NOT_WEIGHTS.fullmatch(name):
            yield from _open_weight(name, files, source.format, model_type)


def _open_weight(
    name: str, files: Sequence[LoadedFile], model_format: ModelFormat, model_type: str | None
) -> Iterator[NamedTensor]:
    """Yield the tensors that GGUF makes of one weight: mostly one, but two of `gate_up_proj`.

    Args:
        name: The weight.
        files: The file that holds it, or several that hold a shard of it each.
        model_format: The project whose files these are.
        model_type: The type of the model, on which the names in GGUF depend.
    """
    array, *further_shards = [file.tensors[name] for file in files]
    for gguf_name, part in _split_as_gguf(name, array, model_format, model_type):
        # Only Hugging Face's weights are split, and only Meta's have further shards: never both.
        stored = StoredTensor.of(part, further_shards)
        yield NamedTensor(name=name, gguf_name=gguf_name, stored=stored)


def _open_quantised_tensors(file: LoadedFile) -> Iterator[NamedTensor]:
    """Yield the tensors whose elements NumPy has no dtype for, such as Q4_0 in a .gguf file.

    They keep the bytes of their blocks, or nothing if their type is not known.
    """
    for tensor in file.unread:
        stored = StoredTensor(tensor.dtype, tensor.shape, tensor.blocks)
        yield NamedTensor(name=tensor.name, gguf_name=tensor.name, stored=stored)


def _find_tensor_files(source: Source) -> list[str]:
    """Return the file or folder to load.

    Meta's folders hold several files, consolidated.00.pth, consolidated.01.pth, …, each with a shard
    of every tensor. A folder of Hugging Face is loaded as one.
    """
    if source.format == ModelFormat.GGUF:
        return [source.config]
    # A converted model may be in the same folder as Meta's files, with a config.json of its own.
    if source.format == ModelFormat.HUGGING_FACE:
        return [source.path]
    shards = sorted(map(str, Path(source.path).glob(META_SHARDS)))  # none if the path is a file
    return shards or [source.path]


def _split_as_gguf(
    name: str, array: Array, model_format: ModelFormat, model_type: str | None
) -> list[tuple[str, Array]]:
    """Return the tensors that GGUF makes of one, with their names; an empty name if unknown."""
    if model_format == ModelFormat.GGUF:
        return [(name, array)]
    parts = [*as_in_gguf(PACKED.sub("", name), array, model_type)]
    return parts or [("", array)]


def _require_gguf_package(path: str, tensors: Iterable[StoredTensor]) -> None:
    """Raise FileError if tensors have to be dequantised by the gguf package, which is missing."""
    dtypes = {stored.dtype for stored in tensors}
    is_needed = bool(dtypes & QUANTISED.keys() - {Q8_0})
    if is_needed and not find_spec("gguf"):
        raise FileError(
            path, "holds quantised tensors, which the gguf package reads", "pip install gguf"
        )
