"""Tensors of live torch modules: parameters, buffers, and plain attributes.

Nothing of torch is imported: a module is an object with `named_modules`, and a tensor is an object
with `detach` and `shape`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeGuard

from pecli.errors import KindError
from pecli.files.tensor_roles import role_of


class TorchTensor(Protocol):
    """A tensor of torch, as far as it is read here."""

    @property
    def shape(self) -> Sequence[int]: ...

    @property
    def dtype(self) -> object: ...

    def detach(self) -> "TorchTensor": ...


class HookHandle(Protocol):
    """A hook of a module, which can be removed."""

    def remove(self) -> None: ...


class TorchModule(Protocol):
    """A module of torch, as far as it is read and watched here."""

    def forward(self, *args: object, **kwargs: object) -> object: ...

    def modules(self) -> Iterator["TorchModule"]: ...

    def named_modules(self) -> Iterator[tuple[str, "TorchModule"]]: ...

    def named_buffers(self, *, recurse: bool = True) -> Iterator[tuple[str, TorchTensor]]: ...

    def named_parameters(self, *, recurse: bool = True) -> Iterator[tuple[str, TorchTensor]]: ...

    def register_forward_pre_hook(
        self, hook: Callable[..., object], *, with_kwargs: bool
    ) -> HookHandle: ...

    def register_forward_hook(
        self, hook: Callable[..., object], *, with_kwargs: bool, always_call: bool
    ) -> HookHandle: ...


def is_tensor(value: object) -> TypeGuard[TorchTensor]:
    """Return True for a tensor of torch, also on a device or without values."""
    return hasattr(value, "detach") and hasattr(value, "shape")


def positional_tensors(module: TorchModule) -> dict[str, TorchTensor]:
    """Return a module's tensors with positional names; if there are none, all that it computed.

    Those are buffers and plain attributes; parameters are learned.

    Raises:
        KindError: one of the tensors is a meta tensor.
    """
    computed = {**dict(module.named_buffers()), **dict(tensor_attributes(module))}
    tensors = {**computed, **dict(module.named_parameters())}
    positional = {name: tensor for name, tensor in tensors.items() if role_of(name)}
    chosen = positional or computed
    for name, tensor in chosen.items():
        check_has_values(name, tensor)
    return chosen


def tensor_attributes(module: TorchModule) -> Iterator[tuple[str, TorchTensor]]:
    """Yield tensors that modules hold as plain attributes, with the names that buffers would have.

    Meta's Llama keeps `freqs_cis` so: it is neither moved with the module nor saved with it.
    """
    if not hasattr(module, "named_modules"):
        return
    for path, part in module.named_modules():
        prefix = f"{path}." if path else ""
        for name, value in vars(part).items():
            if is_tensor(value):
                yield f"{prefix}{name}", value


def check_has_values(name: str, tensor: object) -> None:
    """Raise KindError for a meta tensor, which has a shape and a dtype but no values."""
    if hasattr(tensor, "is_meta") and tensor.is_meta:
        rule = "it has no values, as in a model that was made with device='meta'"
        raise KindError(name, "a meta tensor", rule, "load or compute its values first")
