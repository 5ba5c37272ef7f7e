"""The hooks that record a model: installed, called while it runs, and removed."""

import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial, wraps
from itertools import islice
from traceback import walk_stack
from types import FrameType
from typing import NamedTuple

import numpy as np

from pecli.checks.recorded.run_tensors import (
    AFTER,
    BEFORE,
    ROWS,
    RecordedCall,
    RecordedRun,
    layer_name,
    layer_of,
)
from pecli.engine.arrays import Array, as_numpy
from pecli.files.torch_module import TorchModule, TorchTensor, check_has_values
from pecli.live.call_positions import token_positions
from pecli.live.rotations import (
    Arguments,
    PatchPoint,
    TableModule,
    frequencies_of,
    is_complex_tensor,
    is_pair_of_tables,
    is_position_table,
    is_rotary_module,
    rotated_vectors,
    rotating_functions,
)

_HEAD = re.compile(r"^_*(?:(?P<q>x?q(?:$|_)|quer)|(?P<k>x?k(?:$|_)|key))", re.I)
"""A name of queries or of keys: `q_rot`, `xk`, `query_states`."""
POSITION_AXES: Mapping[int | None, int] = {1: -2, 2: -3}
"""The axis of positions by the axis of heads: of (batch, heads, L, D), and of (batch, L, heads, D)."""
MAX_FRAMES = 16
"""Callers whose variables are searched for the name of a tensor: torch calls a module's forward
through four functions, and as many again if it has hooks."""

Function = Callable[..., object]
Positional = Iterable[object]
"""The arguments of a call without names."""
ByName = Mapping[str, object]
"""The arguments of a call with names."""


class RunningRotation(NamedTuple):
    """A rotation that has begun: the vectors before it are copied, as it may overwrite them.

    Attributes:
        arguments: All arguments of the call.
        vectors: Copies of the vectors among them, by the names of the arguments.
        heads: `q` or `k` for each of these vectors; empty if it is not known.
    """

    arguments: Arguments
    vectors: Mapping[str, Array]
    heads: Mapping[str, str]


class _EveryLayer(Container[object]):
    """The numbers of all layers."""

    def __contains__(self, number: object) -> bool:
        return True


EVERY_LAYER = _EveryLayer()


class ModelRecorder:
    """Records the calls of one model.

    Attributes:
        run: The calls that have ended.
    """

    def __init__(self, model: TorchModule, layers: Collection[int] | None) -> None:
        """Find the rotary modules and the learned tables of a model; nothing is changed yet.

        Args:
            model: The model.
            layers: The numbers of the layers to record; None for all.
        """
        self.model = model
        self.layers: Container[object] = EVERY_LAYER if layers is None else layers
        self.run = RecordedRun()
        self._modules = dict(model.named_modules())
        self._rotary = _rotary_modules(self._modules)
        self._tables = _position_tables(self._modules)
        self._running_modules: list[str] = []  # modules that are running, the innermost last
        self._running_rotations: dict[str, RunningRotation] = {}  # by rotary module
        self._rotation_depth = 0  # rotations that are running, one within the other
        self._call = _Call()

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Record all calls of the model until the context ends; then everything is as before.

        Modules get hooks, which torch calls before and after them. Functions such as
        `apply_rotary_pos_emb` are replaced where the model's code looks them up.
        """
        with ExitStack() as undo:
            for name, module in self._modules.items():
                self._add_hooks(undo, name, module)
            for point in rotating_functions(self.model):
                undo.callback(_replace, point, point.original)
                _replace(point, self._recording_wrapper(point.original))
            with suppress(KeyError, AttributeError):  # Without torch, or with one before 2.6.
                undo.enter_context(_without_compiler())
            yield

    def _add_hooks(self, undo: ExitStack, name: str, module: TorchModule) -> None:
        """Install the hooks of a module, which are removed when the context ends."""
        enter = partial(self._enter_module, name)
        undo.callback(module.register_forward_pre_hook(enter, with_kwargs=True).remove)
        leave = partial(self._leave_module, name)
        handle = module.register_forward_hook(leave, with_kwargs=True, always_call=True)
        undo.callback(handle.remove)

    def _recording_wrapper(self, function: Function) -> Function:
        """Return a function that does the same, and records the vectors before and after.

        It replaces `apply_rotary_pos_emb`, for example, while a model is recorded.
        """
        if isinstance(function, staticmethod):
            return staticmethod(self._recording_wrapper(function.__func__))

        @wraps(function)
        def recording(*args: object, **kwargs: object) -> object:
            """Call the function, and record its vectors."""
            if (
                not self._is_running_in_recorded_layer()
            ):  # `apply_rope` may call `apply_rope_to_one`, say.
                return function(*args, **kwargs)
            rotation = _begin_rotation(function, args, kwargs)
            with self._inside_rotation():
                output = function(*args, **kwargs)
            self._call.add_rotation(self._running_modules, rotation, output)
            return output

        return recording

    @contextmanager
    def _inside_rotation(self) -> Iterator[None]:
        """Record no rotation until the context ends, as they would be parts of the running one."""
        self._rotation_depth += 1
        try:
            yield
        finally:
            self._rotation_depth -= 1

    def _is_running_in_recorded_layer(self) -> bool:
        """Return True if the running module is in a layer to record, outside of all rotations."""
        if not self._running_modules or self._rotation_depth:
            return False
        return self._is_in_recorded_layer(_layer_path(self._running_modules))

    def _is_in_recorded_layer(self, path: str) -> bool:
        """Return True for a module of a layer that is to be recorded, and for one of no layer."""
        number = layer_of(path)
        return number is None or number in self.layers

    def _enter_module(
        self, name: str, module: TorchModule, args: Positional, kwargs: ByName
    ) -> None:
        """Note that a module begins to run: torch calls this hook before its `forward`.

        The outermost module begins a new call of the model. A rotary module begins a rotation,
        whose arguments are copied, as it may overwrite them.

        Args:
            name: The path of the module in the model.
            module: The module.
            args: Its arguments.
            kwargs: Its arguments by name.
        """
        is_outermost = not self._running_modules
        if is_outermost:
            self._call = _Call.begin(Arguments.of(module.forward, args, kwargs))
        self._running_modules.append(name)
        self._call.executed.add(name)
        if name in self._rotary:
            self._running_rotations[name] = _begin_rotation(module.forward, args, kwargs)
            self._rotation_depth += 1

    def _leave_module(
        self, name: str, module: TorchModule, args: Positional, kwargs: ByName, output: object
    ) -> None:
        """Record what a module returned: torch calls this hook after its `forward`.

        Args:
            name: The path of the module in the model.
            module: The module.
            args: Its arguments, which `_enter_module` has seen.
            kwargs: Its arguments by name.
            output: The result; None if the module raised an exception.
        """
        has_returned_rows = name in self._tables and output is not None
        if name in self._running_rotations:
            self._leave_rotary(name, module, output)  # even if it raised: it runs no longer
        elif has_returned_rows and self._is_running_in_recorded_layer():
            self._record_rows(name, output)
        self._running_modules.pop()
        is_outermost = not self._running_modules
        if is_outermost:
            self._end_call()

    def _record_rows(self, name: str, rows: object) -> None:
        """Record the rows that a learned table returned, and the table itself."""
        self._call.add(f"{name}.{ROWS}", rows)
        self.run.weights[name] = _copied(name, self._tables[name].weight)

    def _leave_rotary(self, name: str, module: TorchModule, output: object) -> None:
        """Record what a rotary module did, unless it failed or ran within another rotation."""
        self._rotation_depth -= 1
        rotation = self._running_rotations.pop(name)
        if output is not None and not self._rotation_depth:
            self._record_rotary(name, module, rotation, output)

    def _record_rotary(
        self, name: str, module: TorchModule, rotation: RunningRotation, output: object
    ) -> None:
        """Record the frequencies of a rotary module, and the tables or the vectors it returned.

        transformers' `rotary_emb` returns the tables (cos, sin). Modules of other libraries rotate
        the vectors that they are called with, and return as many vectors of the same shapes.

        Args:
            name: The path of the module in the model.
            module: The module.
            rotation: The arguments that it was called with.
            output: What it returned.
        """
        if self._is_in_recorded_layer(name):
            self._record_frequencies(name, module)
        has_rotated_vectors = bool(rotated_vectors(rotation.vectors, output))
        if not has_rotated_vectors:
            self._record_tables(name, rotation, output)
            return
        # The path of the module does not state the layer: one module may rotate the vectors of all
        # layers. The layer is that of the modules which are running, as they have called it.
        if self._is_running_in_recorded_layer():
            self._call.add_rotation(self._running_modules, rotation, output)

    def _record_frequencies(self, name: str, module: TorchModule) -> None:
        """Record the inverse frequencies of a rotary module, `rotary_emb.inv_freq` for example."""
        for role, tensor in frequencies_of(module).items():
            self._call.add(_joined(name, role), tensor)

    def _record_tables(self, name: str, rotation: RunningRotation, output: object) -> None:
        """Record the tables that a rotary module returned, and the ids that it was called with."""
        self._call.add_used_ids(rotation.arguments)
        path = _joined(name, rotation.arguments.layer_type())
        self._call.add_tables(path, _tables_in(output))

    def _end_call(self) -> None:
        """Add the call that has ended to the run, unless nothing of it was recorded.

        Only here it is known which layers ran without a rotation, and which ids followed on the call
        before.
        """
        recorded = self._call.recorded
        if not recorded.tensors:
            return
        unrotated = sorted(self._call.layers_without_rotation(self._modules))
        recorded.unrotated_layers = tuple(number for number in unrotated if number in self.layers)
        if self.run.calls:
            self._call.continue_from(self.run.calls[-1])
        self.run.calls.append(recorded)


class _Call:
    """A call of the model that is running.

    Attributes:
        recorded: Its tensors so far.
        executed: The names of the modules that ran.
    """

    def __init__(self) -> None:
        self.recorded = RecordedCall()
        self.executed: set[str] = set()
        self._rotating_modules: set[str] = set()  # modules in which a rotation ran
        self._shared_tables: list[TorchTensor] = []  # tables that are recorded already
        self._passes: Counter[tuple[str, str]] = Counter()  # vectors of each layer, `q` and `k`
        self._is_start_stated = True  # whether the caller states the position of the first token

    @classmethod
    def begin(cls, arguments: Arguments) -> "_Call":
        """Begin a call; the arguments of the model state the positions of its tokens."""
        call = cls()
        tokens = token_positions(arguments)
        call.recorded.positions = tokens.positions
        call.recorded.attention_mask = tokens.attention_mask
        call._is_start_stated = tokens.is_start_stated
        return call

    def add(self, name: str, tensor: object) -> None:
        if name not in self.recorded.tensors:
            self.recorded.tensors[name] = _copied(name, tensor)

    def add_tables(self, path: str, tables: Mapping[str, TorchTensor]) -> None:
        """Record tables, unless the same tensors are recorded already.

        A model computes cosines and sines once, and passes them to all layers: they are recorded
        only for the first. A complex table, cos + i·sin, is recorded as two.

        Args:
            path: The path of the layer or the rotary module, which their names begin with.
            tables: Tables by role: `cos` and `sin`, or a complex one.
        """
        recorded_ids = set(map(id, self._shared_tables))
        are_recorded = not recorded_ids.isdisjoint(map(id, tables.values()))
        if are_recorded:
            return
        self._shared_tables += tables.values()  # They stay alive, so that ids are not used again.
        for role, table in tables.items():
            if is_complex_tensor(table):
                self._add_complex(path, _copied(role, table))
            else:
                self.add(_joined(path, role), table)

    def _add_complex(self, path: str, table: Array) -> None:
        """Record the real and the imaginary part of a complex table as cosines and sines."""
        self.recorded.tensors[_joined(path, "cos")] = np.ascontiguousarray(table.real)
        self.recorded.tensors[_joined(path, "sin")] = np.ascontiguousarray(table.imag)

    def add_rotation(self, stack: list[str], rotation: RunningRotation, output: object) -> None:
        """Record vectors before and after a rotation, and the tables and ids that it was called with.

        The function was guessed to rotate by its name. If it returned no vectors of the shapes of
        its arguments, it was not a rotation, and nothing is recorded.

        Args:
            stack: The paths of the modules that are running, the innermost last.
            rotation: The arguments of the function, and copies of its vectors.
            output: What it returned.
        """
        rotated = rotated_vectors(
            rotation.vectors, output
        )  # by the names of arguments, such as `q`
        if not rotated:
            return
        self.add_used_ids(rotation.arguments)
        innermost_module = stack[-1]
        self._rotating_modules.add(innermost_module)
        layer = _layer_path(stack)  # such as `model.layers.3`
        for argument, tensor in rotated.items():
            self._add_vectors(layer, rotation, argument, _copied(argument, tensor))
        self.add_tables(layer, rotation.arguments.tables())

    def _add_vectors(
        self, layer: str, rotation: RunningRotation, argument: str, after: Array
    ) -> None:
        """Record the vectors of one argument of a rotation, before and after it.

        A model may hold them as (batch, L, heads, D), and files have (batch, heads, L, D).

        Args:
            layer: The path of the layer, such as `model.layers.3`.
            rotation: The rotation, with copies of the vectors before it.
            argument: The name of the argument, such as `q`.
            after: The rotated vectors.
        """
        self._set_default_positions(after.shape)
        axis = self._position_axis(after.shape, rotation.arguments.heads_axis())
        label = self._unused_label(layer, rotation.heads[argument])
        tensors = self.recorded.tensors
        tensors[label + BEFORE] = _with_rows_before_last(rotation.vectors[argument], axis)
        tensors[label + AFTER] = _with_rows_before_last(after, axis)

    def add_used_ids(self, arguments: Arguments) -> None:
        """Record the position ids that the model's own code passes to a rotation, the first time.

        They may be wrong although the caller of the model passed the right ones.
        """
        if self.recorded.position_ids is None:
            self.recorded.position_ids = self._ids_passed_to_rotation(arguments)

    def _ids_passed_to_rotation(self, arguments: Arguments) -> Array | None:
        """Return the position ids among the arguments of a rotation; None if there are none."""
        ids = arguments.position_ids()
        if ids is None:
            return self._ids_from(arguments.start())
        are_of_tokens = ids.shape[-1] == self.recorded.length
        if not are_of_tokens:
            return None  # They are those of image patches.
        return np.array(as_numpy("position_ids", ids), np.int64)

    def _ids_from(self, start: int | None) -> Array | None:
        """Return the ids from the position of the first token on, which is all that some code passes.

        From 12 on, three tokens have [[12, 13, 14]]. None if the start or their number is not known.
        """
        length = self.recorded.length
        if start is None or length is None:
            return None
        return np.arange(start, start + length)[None]

    def continue_from(self, previous: RecordedCall) -> None:
        """Correct the expected positions of tokens if this call continues the previous one.

        A model may keep its cache to itself, so that no argument states the first position, and 0
        was assumed. If the previous call ended at position 11 and the model rotates by ids from 12
        on, these ids are the right positions.
        """
        if self._is_start_stated:
            return
        used_ids = self.recorded.position_ids  # by which the model rotates
        # Ids of three axes are time, row and column of M-RoPE.
        if used_ids is None or used_ids.ndim > 2:
            return
        assumed_positions = self.recorded.positions  # from 0 on
        assert assumed_positions is not None, "they were assumed"
        assert previous.positions is not None, "a call with tensors has positions"
        next_position = int(previous.positions.max()) + 1
        continues = int(used_ids.min()) == next_position
        if continues:
            self.recorded.positions = np.array(np.broadcast_to(used_ids, assumed_positions.shape))

    def layers_without_rotation(self, modules: Mapping[str, TorchModule]) -> set[int]:
        """Return the layers whose attention ran without a rotation.

        Attention is recognised by its class: if a rotation ran in `layers.0.self_attn`, all modules
        of that class are attention, and 3 is returned if none ran in `layers.3.self_attn`.
        """
        attention_classes = {type(modules[name]) for name in self._rotating_modules}
        attention = [name for name in self.executed if type(modules[name]) in attention_classes]
        unrotated = set(map(layer_name, attention)) - set(map(layer_name, self._rotating_modules))
        return {number for number in map(layer_of, unrotated) if number is not None}

    def _set_default_positions(self, shape: tuple[int, ...]) -> None:
        """Count rows from 0 if no argument of the model had an axis of tokens."""
        if self.recorded.positions is None:
            self.recorded.positions = np.arange(shape[-2])[None]

    def _position_axis(self, shape: tuple[int, ...], heads_axis: int | None) -> int:
        """Return the axis of positions in vectors (batch, heads, L, D) or (batch, L, heads, D).

        If the rotation does not state which axis has the heads, the axis of positions is the one
        that is as long as there are tokens. If both are, the order is the usual one.

        Args:
            shape: The shape of the vectors: (2, 5, 4, 8) with 5 tokens has the axis −3.
            heads_axis: The axis of heads, counted from the first; None if it is not stated.
        """
        if len(shape) == 4 and heads_axis in POSITION_AXES:
            return POSITION_AXES[heads_axis]
        length = self.recorded.length
        is_before_heads = shape[-3:-2] == (length,) and shape[-2] != length
        return -3 if is_before_heads else -2

    def _unused_label(self, path: str, name: str) -> str:
        """Return a name that no vector has yet: `model.layers.3.q`, then `model.layers.3.pass2.q`.

        A model that loops over its layers runs each of them several times in one call.

        Args:
            path: The path of the layer.
            name: `q` or `k`; empty if it is not known: then the vector is a key if the layer has a
                query without one, and a query otherwise.
        """
        if not name:
            name = "k" if self._passes[path, "q"] > self._passes[path, "k"] else "q"
        self._passes[path, name] += 1
        pass_number = self._passes[path, name]
        pass_name = f"pass{pass_number}" if pass_number > 1 else ""
        return _joined(path, pass_name, name)


def _rotary_modules(modules: Mapping[str, TorchModule]) -> set[str]:
    """Return the names of the modules that make rotary tables or rotate."""
    return {name for name, module in modules.items() if is_rotary_module(module)}


def _position_tables(modules: Mapping[str, TorchModule]) -> dict[str, TableModule]:
    """Return the learned tables of positions by their names, such as GPT-2's `wpe`."""
    return {name: module for name, module in modules.items() if is_position_table(module, name)}


def _with_rows_before_last(vectors: Array, position_axis: int) -> Array:
    """Return vectors as (…, L, D), in C order: (2, 5, 4, 8) with axis −3 becomes (2, 4, 5, 8)."""
    return np.ascontiguousarray(np.moveaxis(vectors, position_axis, -2))


def _tables_in(output: object) -> dict[str, TorchTensor]:
    """Return the tables that a rotary module returned, by role; empty if it returned others."""
    if is_pair_of_tables(output):
        cos, sin = output
        return {"cos": cos, "sin": sin}
    if is_complex_tensor(output):
        return {"freqs_cis": output}
    return {}


def _without_compiler() -> AbstractContextManager[object]:
    """Return a context in which code of `torch.compile` runs as it was written.

    A recording replaces functions of Python, which compiled code would not call. The functions of
    the model are the same, so that a wrong one shows; a mistake of the compiler itself does not.

    Raises:
        KeyError: torch was not imported.
        AttributeError: It is older than 2.6, and cannot be told to: nothing compiled is recorded.
    """
    context: AbstractContextManager[object] = sys.modules["torch"].compiler.set_stance(
        "force_eager"
    )
    return context


def _replace(point: PatchPoint, function: Function) -> None:
    """Set the function that a place holds."""
    if isinstance(point.holder, type):
        setattr(point.holder, point.name, function)
    else:
        # torch's modules would register what is set as an attribute.
        vars(point.holder)[point.name] = function


def _joined(*parts: str) -> str:
    """Join the parts of a name that are not empty; the model itself has an empty name."""
    return ".".join(filter(None, parts))


def _begin_rotation(function: Function, args: Positional, kwargs: ByName) -> RunningRotation:
    """Return the state before a rotation: its arguments, and copies of its vectors, which it may overwrite.

    `apply_rotary_pos_emb(q, k, cos, sin)` has the vectors q and k, whose heads are `q` and `k`.
    """
    arguments = Arguments.of(function, args, kwargs)
    vectors: dict[str, Array] = {}
    heads: dict[str, str] = {}
    for name, tensor in arguments.vectors().items():
        vectors[name] = _copied(name, tensor)
        heads[name] = _head_name(name, tensor)
    return RunningRotation(arguments, vectors, heads)


def _head_name(argument: str, tensor: TorchTensor) -> str:
    """Return `q` or `k` by the name of an argument, or by a variable of a caller; else empty.

    GPT-J calls `apply_rotary_pos_emb(tensor, sin, cos)` with `k_rot`, then with `q_rot`.
    """
    for name in [argument, *_variables_with(tensor, sys._getframe(2))]:
        match = _HEAD.match(name)
        if match is not None:
            return str(match.lastgroup)
    return ""


def _variables_with(tensor: TorchTensor, innermost: FrameType) -> Iterator[str]:
    """Yield the names of the variables that hold a tensor, in a frame and then in its callers.

    Inside `rotate(x)`, called as `rotate(k_rot)`, they are x and then k_rot.
    """
    for frame, _ in islice(walk_stack(innermost), MAX_FRAMES):
        yield from (name for name, value in frame.f_locals.items() if value is tensor)


def _copied(name: str, tensor: object) -> Array:
    """Return a copy: the model may overwrite the tensor.

    Raises:
        KindError: It has no values, as those of a model on the meta device.
    """
    check_has_values(name, tensor)
    return np.array(as_numpy(name, tensor))


def _layer_path(stack: list[str]) -> str:
    """Return the layer that is running, or the innermost module if it is in none."""
    for name in reversed(stack):
        if layer_of(name) is not None:
            return layer_name(name)
    return stack[-1]
