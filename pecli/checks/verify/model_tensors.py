"""The tensors of a file that may be tables of a model, and the tables that each of them may be."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations

import numpy as np

from pecli.checks.verify.candidates import stated_name
from pecli.checks.verify.model_candidates import find_model_candidates
from pecli.checks.verify.table_settings import TableSettings
from pecli.checks.verify.tensor_with_role import TensorWithRole
from pecli.compare.best_reading import find_best_reading
from pecli.compare.candidate import CandidateTable
from pecli.compare.reading import Reading
from pecli.engine.arrays import Array
from pecli.engine.grouping import grouped
from pecli.errors import ParameterError
from pecli.files.contents import LoadedFile
from pecli.files.tensor_roles import module_of, role_of
from pecli.models.config_files import config_file
from pecli.models.encoding import Encoding, ModelEncodings

MAX_LENGTHS = 16  #: lengths of tables at which frequencies are tried
OTHER_PARTS = ("vision", "audio")  #: towers whose tensors are named after them
LONG_FACTORS = "rope_factors_long"  #: how the name of longrope's long factors begins in a .gguf
WAVE_ROLES = ("cos", "sin", "both")


@dataclass(frozen=True)
class ModelTensors:
    """The tensors of one file, and the encodings of a model that they may belong to.

    Attributes:
        file: The file.
        tensors: Its tensors; the factors in a .gguf file are the frequencies that they make.
        model: The model.
        layer_type: The layers that were asked for; None for all.
        encodings: The encodings of these layers.
        settings: The positions of tables, and the way they were computed.
        assigned: By tensor, the only encoding that it is tried with; others are tried with all.
    """

    file: LoadedFile
    tensors: Mapping[str, Array]
    model: ModelEncodings
    layer_type: str | None
    encodings: tuple[Encoding, ...]
    settings: TableSettings
    assigned: Mapping[str, Encoding] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        file: LoadedFile,
        model: ModelEncodings,
        layer_type: str | None,
        settings: TableSettings,
    ) -> "ModelTensors":
        """Return the tensors of a file with the encodings of a model that they are compared with.

        Args:
            file: The file.
            model: The model.
            layer_type: The layers that are asked for; None for all.
            settings: The positions of tables, as the user states them.

        Raises:
            ParameterError: If the model has no encoding, or none of the layer type.
        """
        encodings = _choose_encodings_to_compare(model, layer_type, settings)
        # A .gguf file may hold factors that divide frequencies; only frequencies can be compared.
        tensors = _with_frequencies_instead_of_factors(file.read_as("float32"))
        # Some scalings change frequencies with the length of the prompt. Which length the frequencies
        # of a file are for is not stated, but the tables beside them may have as many rows.
        table_lengths = _find_table_lengths(tensors, settings.first_position)
        return cls(
            file=file,
            tensors=tensors,
            model=model,
            layer_type=layer_type,
            encodings=encodings,
            settings=replace(settings, table_lengths=table_lengths),
        )

    @property
    def schemes(self) -> set[str]:
        return {encoding.scheme for encoding in self.encodings}

    @property
    def has_several_layer_types(self) -> bool:
        return len({encoding.layer_type for encoding in self.encodings}) > 1

    @property
    def rotary_encodings(self) -> list[Encoding]:
        """The rotary encodings of the language model, whose tables may have the same shape."""
        return [encoding for encoding in self.encodings if encoding.is_rotary and not encoding.part]

    def layer_named(self, name: str) -> str | None:
        """Return the layer type that the name of a tensor states; None if it states none.

        If a layer type was asked for, the number in `layers.5.cos` does not overrule it.
        """
        return self.model.layer_named(name, by_number=self.layer_type is None)

    def stated_name(self, name: str) -> str:
        """Return the name of a tensor, or that of its file if it has none, as in `cos.npy`."""
        return stated_name(self.file, name)

    def role(self, name: str) -> str | None:
        """Return the role of a tensor that its name, or else its file's name, states."""
        return role_of(self.stated_name(name))

    def find_likely_encodings(self, name: str) -> Sequence[Encoding]:
        """Return the encodings that a tensor may belong to: those of the layers in its name, or all."""
        if name in self.assigned:
            return [self.assigned[name]]
        by_number = self.layer_type is None
        return self.model.of_layers_named(name, self.encodings, by_number=by_number)

    def is_of_other_part(self, name: str) -> bool:
        """Return True if a tensor is of layers that were not asked for, or of a tower without an encoding.

        A checkpoint of a language model with a vision tower has `visual.rotary_emb.inv_freq`,
        although a configuration of the text alone does not describe it.
        """
        layer_type = self.layer_named(name)
        if layer_type is not None:
            return all(encoding.layer_type != layer_type for encoding in self.encodings)
        name = name.replace("visual", "vision")
        layer_types = " ".join(self.model.layer_types())
        return any(part in name and part not in layer_types for part in OTHER_PARTS)

    def choose_settings(self, name: str) -> TableSettings:
        """Return the settings for one tensor; those of longrope's long factors have a length.

        A .gguf file has two tensors of longrope's factors. Dividing by the long ones gives the
        frequencies of prompts that are longer than the original context, so that they are expected
        for a length of one token more.
        """
        if not name.startswith(LONG_FACTORS) or self.settings.length:
            return self.settings
        contexts = [
            encoding.parameters.get("original_max_position_embeddings") or 0
            for encoding in self.encodings
        ]
        return replace(self.settings, length=max(contexts) + 1)

    def find_reading(self, name: str, role: str | None, *, upright: bool = False) -> Reading | None:
        """Return the way to read a tensor (an order of axes and columns) that is nearest to a table.

        (2, 64, 10), for example, may be cosines and sines, transposed. The encodings whose tables
        are tried are those of the layers that the tensor's name states, or all.

        Args:
            name: The tensor.
            role: What its name states that it holds; None if it may be any table.
            upright: Rows must be positions, not frequencies.
        """
        array = np.atleast_1d(self.tensors[name])
        candidates = self._find_candidates(name, array, role, self.find_likely_encodings(name))
        return find_best_reading(
            array, candidates, is_text=self.file.has_rows_only, upright=upright
        )

    def find_reading_of_transpose(self, name: str, role: str | None) -> Reading | None:
        """Return the way to read a tensor whose axes were exchanged first: (heads, 64) as (64, heads).

        Args:
            name: The tensor.
            role: What its name states that it holds; None if it may be any table.
        """
        array = np.atleast_1d(self.tensors[name]).T
        candidates = self._find_candidates(name, array, role, self.find_likely_encodings(name))
        return find_best_reading(array, candidates, is_text=self.file.has_rows_only)

    def find_reading_as(self, name: str, role: str | None, encoding: Encoding) -> Reading | None:
        """Return the way to read a tensor that is nearest to a table of one encoding; None if none makes sense.

        Args:
            name: The tensor.
            role: What it is supposed to hold, such as «cos»; None if it may be any table.
            encoding: The encoding, such as that of Gemma 3's full layers.
        """
        array = np.atleast_1d(self.tensors[name])
        candidates = self._find_candidates(name, array, role, [encoding])
        return find_best_reading(array, candidates, is_text=self.file.has_rows_only)

    def _find_candidates(
        self, name: str, array: Array, role: str | None, encodings: Iterable[Encoding]
    ) -> list[CandidateTable]:
        """Return the tables of some encodings that an array may hold, judging by its name and dtype.

        Args:
            name: The tensor.
            array: Its values, which may be transposed.
            role: What its name states that it holds; None if it may be any table.
            encodings: The encodings.
        """
        tensor = TensorWithRole.of(array, role, self.stated_name(name))
        settings = self.choose_settings(name)
        candidates: list[CandidateTable] = []
        for encoding in encodings:
            candidates += find_model_candidates(tensor, encoding, settings)
        return candidates

    def guess_layers_of_tables(self) -> list["ModelTensors"]:
        """Return these tensors once for each way in which their tables may belong to layer types.

        Gemma 3 has one table for its sliding layers and another one for the rest. A dump may hold
        one of them as `cos` and `sin`, or both as `a.cos`, `a.sin`, `b.cos`, `b.sin`: then a is of
        the sliding layers and b of the others, or the reverse. The result is empty if the model has
        one rotary encoding only, if names state the layers, or if there are more modules than
        encodings.
        """
        rotary = self.rotary_encodings
        do_names_state_layers = any(self.layer_named(name) for name in self.tensors)
        if len(rotary) < 2 or do_names_state_layers:
            return []
        modules = group_by_module(self.tensors)
        encodings_by_module = permutations(rotary, len(modules))
        return [self._assign(modules, encodings) for encodings in encodings_by_module]

    def _assign(
        self, modules: Sequence[Sequence[str]], encodings: Sequence[Encoding]
    ) -> "ModelTensors":
        """Return these tensors with one rotary encoding for the tensors of each module.

        Args:
            modules: The names of the tensors of each module.
            encodings: A rotary encoding for each of them.
        """
        assigned: dict[str, Encoding] = {}
        for names, encoding in zip(modules, encodings, strict=True):
            assigned |= dict.fromkeys(names, encoding)
        return replace(self, assigned=assigned)


def _choose_encodings_to_compare(
    model: ModelEncodings, layer_type: str | None, settings: TableSettings
) -> tuple[Encoding, ...]:
    """Return the encodings of a model that its tensors are compared with.

    If the user named a layer type, it is the one of these layers. If the user stated a grid of image
    patches, they are those of image parts, which place patches on a grid. Else they are all.

    Raises:
        ParameterError: If the model has none.
    """
    if layer_type is not None:
        return (model.one(layer_type),)
    if not model.encodings:
        rule = "it has no positional encoding to check"
        raise ParameterError("model", repr(model.file), rule, "see pecli config")
    is_grid_stated = "grid" in settings.stated_rows
    if is_grid_stated:
        # A model of images and text also has encodings of text, which have no grid.
        encodings_on_grid = tuple(encoding for encoding in model.encodings if encoding.grid.style)
        return encodings_on_grid or model.encodings
    return model.encodings


def _find_table_lengths(tensors: Mapping[str, Array], offset: int) -> tuple[int, ...]:
    """Return the lengths of prompts that the cosines and sines of a file may have been made for.

    A table of 8,192 rows is that of a prompt of 8,192 tokens, if its first row is at position 0.
    Which axis is that of rows is not known yet: (2, 8192, 64) may have 2 or 8,192 rows.
    """
    lengths = set()
    for name, array in tensors.items():
        if role_of(name) in WAVE_ROLES:
            lengths |= {offset + rows for rows in array.shape[:-1]}
    return tuple(sorted(lengths)[:MAX_LENGTHS])


def _with_frequencies_instead_of_factors(file: LoadedFile) -> Mapping[str, Array]:
    """Return the tensors of a file, with frequencies in place of the factors that a .gguf holds.

    llama.cpp's `rope_freqs.weight` holds 1 … 1, 8 … 8 for llama3's scaling by 8. The frequencies of
    the model are those without scaling, divided by these factors.
    """
    # A model's folder may hold a .gguf file, and no config.json.
    path = config_file(file.path) if file.format == "folder" else file.path
    is_gguf = file.format == "gguf" or path.endswith(".gguf")
    if not is_gguf:
        return file.tensors
    from pecli.models.dialects.gguf import factor_frequencies

    tensors = dict(file.tensors)
    # Frequencies come after the other tensors, in the order of the header.
    for name_of_factors, frequencies in factor_frequencies(path).items():
        if name_of_factors in tensors:
            del tensors[name_of_factors]
            tensors[frequencies.name] = frequencies.array()
    return tensors


def group_by_module(names: Iterable[str]) -> list[list[str]]:
    """Return names of tensors that belong to one table: cosines, sines and frequencies of one module.

    They are alike without the word for what they hold: `a.cos` and `a.sin`, `cos_1` and `sin_1`.
    Tensors whose names have no such word are one group.

    >>> group_by_module(["a.cos", "a.sin", "b.cos", "b.sin"])
    [['a.cos', 'a.sin'], ['b.cos', 'b.sin']]
    """
    modules = grouped(names, module_of)
    unnamed = modules.pop(None, [])
    return [*modules.values()] or [unnamed]
