"""Recognise rotations: functions and modules that rotate, and their arguments and results."""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, count
from types import FunctionType, ModuleType
from typing import NamedTuple, Protocol, TypeGuard, TypeVar

from pecli.engine.arrays import FLOATS, Array
from pecli.files.tensor_roles import role_of
from pecli.files.torch_module import TorchModule, TorchTensor, is_tensor

_ROTATING = re.compile(r"apply\w*(rotary|rope|rot_)|rotary_(pos_)?emb|(^|_)rope$|^_*rotate", re.I)
"""Names of functions that rotate queries and keys: apply_rotary_pos_emb, apply_rope, rotate_qk."""
_PART_OF_A_ROTATION = re.compile(
    r"rotate_(half|every|pair|2d)|(get|make|init|build|compute)_", re.I
)
"""Names of functions that only swap channels, as rotate_half does, or that make a table."""
_ROTARY_CLASS = re.compile(r"rotary|rope|rotate", re.I)
_POSITION_NAMES = re.compile(r"^(positions?|pos)(_ids)?$|^input_pos$", re.I)
START_NAMES = ("start_pos", "past_length", "past_key_values_length", "offset", "seqlen_offset")
"""Integer arguments that state the position of the first token."""
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_TABLES = ("cos", "sin", "both")
_FREQUENCIES = "inv_freq"

_Value = TypeVar("_Value")
Holder = ModuleType | type | TorchModule
"""A Python module, a class, or a module of torch: they hold functions by name."""
PairOfTables = tuple[TorchTensor, TorchTensor]
"""Cosines and sines, as a tuple or a list."""


def is_rotating_name(name: str) -> bool:
    """Return True if a function of that name rotates queries or keys.

    >>> is_rotating_name("apply_multimodal_rotary_pos_emb"), is_rotating_name("rotate_half")
    (True, False)
    """
    return bool(_ROTATING.search(name)) and not _PART_OF_A_ROTATION.search(name)


class PatchPoint(NamedTuple):
    """A place that holds a function, or a static method, by name."""

    holder: Holder
    name: str
    original: Callable[..., object]


def rotating_functions(model: TorchModule) -> list[PatchPoint]:
    """Return the functions that rotate, wherever the model's own code looks them up by name.

    To record a model, they are replaced there. These are functions of the Python modules that
    define the classes of its modules, methods of these classes, and functions that a module holds
    as an attribute.
    """
    points: list[PatchPoint] = []
    for holder in _holders_of_functions(model):
        points += _points_of(holder)
    return points


def _holders_of_functions(model: TorchModule) -> Iterable[Holder]:
    """Return all places that may hold functions of a model's own code, each once."""
    holders: dict[int, Holder] = {}  # by id, as a module of torch may not be hashable
    for module in model.modules():
        holders[id(module)] = module
        for holder in _holders_of_class(type(module)):
            holders[id(holder)] = holder
    return holders.values()


def _holders_of_class(kind: type) -> Iterator[Holder]:
    """Yield a class and its bases, torch's left out, each with the Python module that defines it.

    A module's code may look up `apply_rope` as a method of its class, or as a global of the file that
    defines the class.
    """
    for base in kind.__mro__:
        package, _, _ = base.__module__.partition(".")
        if package not in ("builtins", "torch"):
            yield base
            yield sys.modules.get(base.__module__, base)


def _points_of(holder: Holder) -> Iterator[PatchPoint]:
    """Yield the functions of a holder whose names state that they rotate."""
    for name, value in [*vars(holder).items()]:
        function = value.__func__ if isinstance(value, staticmethod) else value
        if isinstance(function, FunctionType) and is_rotating_name(name):
            yield PatchPoint(holder, name, value)


def is_rotary_module(module: TorchModule) -> bool:
    """Return True for a module that makes rotary tables or rotates, and does nothing else.

    Its class is named so, as `LlamaRotaryEmbedding`, or it holds frequencies or tables. A model or an
    attention module that holds them beside other modules and weights is not one: its output is not
    the rotated input.
    """
    if _has_weights(module):
        return False
    if _ROTARY_CLASS.search(type(module).__name__):
        return True
    has_inner_modules = len([*module.modules()]) > 1  # The module itself is the first.
    if has_inner_modules:
        return False
    rotary_roles = {*_TABLES, _FREQUENCIES}
    return any(role_of(name) in rotary_roles for name, _ in own_tensors(module))


def _has_weights(module: TorchModule) -> bool:
    """Return True if a module has matrices to multiply with."""
    return any(len(weight.shape) >= 2 for _, weight in module.named_parameters())


class TableModule(Protocol):
    """A module of torch with a table of positions, (rows, channels)."""

    weight: TorchTensor


def is_position_table(module: object, name: str) -> TypeGuard[TableModule]:
    """Return True for a learned table of positions by its name, such as GPT-2's `wpe`."""
    return role_of(name) == "rows" and hasattr(module, "weight") and len(module.weight.shape) == 2


def own_tensors(module: TorchModule) -> Iterator[tuple[str, TorchTensor]]:
    """Yield the tensors of a module itself, those of the modules in it left out."""
    yield from module.named_buffers(recurse=False)
    yield from module.named_parameters(recurse=False)
    for name, value in vars(module).items():
        if is_tensor(value):
            yield name, value


def frequencies_of(module: TorchModule) -> dict[str, TorchTensor]:
    """Return the inverse frequencies that a module uses; copies of unscaled ones are left out.

    With dynamic scaling, transformers keeps `original_inv_freq` to return to after a long text.
    """
    tensors = dict(own_tensors(module))
    return {name: tensor for name, tensor in tensors.items() if _is_frequencies(name)}


def _is_frequencies(name: str) -> bool:
    return role_of(name) == _FREQUENCIES and "original" not in name


class Arguments(NamedTuple):
    """The arguments of a call, by the names that the function gives them."""

    by_name: Mapping[str, object]

    @classmethod
    def of(
        cls,
        function: Callable[..., object],
        args: Iterable[object],
        kwargs: Mapping[str, object],
    ) -> "Arguments":
        """Bind arguments to the names of parameters; those without a name are numbered: x0, x1, …

        `rope(q, k, **kwargs)` called with (a, b, offset=3) gives q, k and offset.
        """
        names: list[str] = []
        with suppress(TypeError, ValueError):  # no signature, or another one than it states
            bound = inspect.signature(function).bind(*args, **kwargs)
            bound.apply_defaults()
            names = [
                parameter.name
                for parameter in bound.signature.parameters.values()
                if parameter.kind in _POSITIONAL
            ]
            args = bound.args
            kwargs = bound.kwargs
        # Those of *args have no names, and numbers that no parameter before them has.
        numbered = (f"x{number}" for number in count() if f"x{number}" not in names)
        return cls({**dict(zip(chain(names, numbered), args, strict=False)), **kwargs})

    def vectors(self) -> dict[str, TorchTensor]:
        """Return the arguments that may be queries or keys: real tensors that are not tables."""
        return {
            name: value
            for name, value in self.by_name.items()
            if is_real_tensor(value) and not _is_table_name(name)
        }

    def tables(self) -> dict[str, TorchTensor]:
        """Return the cosines and sines among the arguments, or one complex table, by role.

        `rotate(q, cos=c, sin=s)` and `rotate(q, position_embeddings=(c, s))` both give {"cos": c,
        "sin": s}.
        """
        tables: dict[str, TorchTensor] = {}
        for name, value in self.by_name.items():
            if is_tensor(value) and role_of(name) in _TABLES:
                tables[name] = value
            elif is_pair_of_tables(value):
                tables["cos"], tables["sin"] = value
        return tables

    def position_ids(self) -> TorchTensor | None:
        """Return the tensor of position ids among the arguments, or None."""
        for name, value in self.by_name.items():
            if holds_integers(value) and _POSITION_NAMES.search(name):
                return value
        return None

    def _first_of(self, kind: type[_Value], names: Iterable[str]) -> _Value | None:
        """Return the first argument with one of these names that is of a kind, or None."""
        values = map(self.by_name.get, names)
        return next((value for value in values if isinstance(value, kind)), None)

    def start(self) -> int | None:
        """Return the position of the first token, if an argument states it."""
        return self._first_of(int, START_NAMES)

    def layer_type(self) -> str:
        """Return the layer type that is passed by name, as Gemma 3 passes it; empty if none is."""
        return self._first_of(str, ["layer_type"]) or ""

    def heads_axis(self) -> int | None:
        """Return the axis at which the function inserts heads into its tables, or None.

        In transformers, `unsqueeze_dim=1` means (batch, heads, L, D), and 2 (batch, L, heads, D).
        """
        return self._first_of(int, ["unsqueeze_dim"])


def _is_table_name(name: str) -> bool:
    return role_of(name) in _TABLES or "freq" in name


def _dtype_word(value: object) -> str:
    """Return the dtype of a tensor, without the «torch.» of torch.bfloat16; empty for other values."""
    return str(value.dtype).rpartition(".")[2] if is_tensor(value) else ""


def is_real_tensor(value: object) -> TypeGuard[TorchTensor]:
    """Return True for a tensor of real floating-point numbers with rows."""
    return is_tensor(value) and _dtype_word(value) in FLOATS and len(value.shape) >= 2


def holds_integers(value: object) -> TypeGuard[TorchTensor]:
    """Return True for a tensor of integers."""
    return _dtype_word(value).startswith(("int", "uint"))


def is_complex_tensor(value: object) -> TypeGuard[TorchTensor]:
    """Return True for a tensor of complex numbers."""
    return _dtype_word(value).startswith("complex")


def is_pair_of_tables(value: object) -> TypeGuard[PairOfTables]:
    """Return True for two real tensors of one shape, as rotary modules return (cos, sin)."""
    match value:
        case (tuple() | list()) as pair if len(pair) == 2:
            cos, sin = pair
            are_real = is_real_tensor(cos) and is_real_tensor(sin)
            return are_real and tuple(cos.shape) == tuple(sin.shape)
    return False


def results_in(output: object) -> Sequence[object]:
    """Return the results of a function: those in a tuple or a list, or the only one."""
    return output if isinstance(output, (tuple, list)) else [output]


def tensors_in(output: object) -> list[TorchTensor]:
    """Return the tensors of an output: itself, or those in a tuple."""
    return [value for value in results_in(output) if is_tensor(value)]


def rotated_vectors(vectors: Mapping[str, Array], output: object) -> dict[str, TorchTensor]:
    """Return the rotated tensors in an output by the names of the arguments that they belong to.

    `apply_rope(q, k, cos, sin)` returns two tensors, of the shapes of q and k. Each belongs to the
    first argument of its shape that no tensor before it belongs to. Nothing is returned if an output
    has no such argument: then the function did something else.
    """
    rotated: dict[str, TorchTensor] = {}
    unmatched = dict(vectors)
    for tensor in tensors_in(output):
        shape = tuple(tensor.shape)
        names = [name for name, vector in unmatched.items() if vector.shape == shape]
        if not names or not is_real_tensor(tensor):
            return {}
        rotated[names[0]] = tensor
        del unmatched[names[0]]
    return rotated
