"""The part of torch's interface that pecli reads, over NumPy: tensors, modules, hooks.

Tests that use it run where torch is not installed. Names and behaviour follow torch 2: hooks receive
`(module, args, kwargs)` before a call and `(module, args, kwargs, output)` after it, and
`always_call` hooks also run if the call raises.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


class Tensor(np.ndarray):
    """An array with the methods of a torch tensor that lives on the CPU."""

    is_meta = False

    def detach(self) -> "Tensor":
        return self

    def cpu(self) -> "Tensor":
        return self


def tensor(values: Any) -> Tensor:
    return np.asarray(values).view(Tensor)


class MetaTensor:
    """A tensor without values, as torch.device("meta") makes them."""

    is_meta = True
    shape = (4, 8)
    dtype = "torch.float32"

    def detach(self) -> "MetaTensor":
        return self

    def cpu(self) -> "MetaTensor":
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")


class Handle:
    """The handle of a hook, whose `remove` takes it away."""

    def __init__(self, hooks: list[Callable[..., Any]], hook: Callable[..., Any]) -> None:
        self.hooks = hooks
        self.hook = hook

    def remove(self) -> None:
        self.hooks.remove(self.hook)


class Module:
    """A module that finds its children among its attributes, as torch's does."""

    def __init__(self) -> None:
        self.pre_hooks: list[Callable[..., Any]] = []
        self.hooks: list[Callable[..., Any]] = []
        self.buffers: dict[str, Tensor] = {}
        self.parameters: dict[str, Tensor] = {}

    def __getattr__(self, name: str) -> Any:
        for held in ("buffers", "parameters"):
            tensors = self.__dict__.get(held, {})
            if name in tensors:
                return tensors[name]
        raise AttributeError(name)

    def register_buffer(self, name: str, values: Any) -> None:
        self.buffers[name] = tensor(values)

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, with_kwargs: bool) -> Handle:
        assert with_kwargs
        self.pre_hooks.append(hook)
        return Handle(self.pre_hooks, hook)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, with_kwargs: bool, always_call: bool
    ) -> Handle:
        assert with_kwargs
        assert always_call
        self.hooks.append(hook)
        return Handle(self.hooks, hook)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        output = None
        for hook in self.pre_hooks:
            hook(self, args, kwargs)
        try:
            output = self.forward(*args, **kwargs)
        finally:
            for hook in self.hooks:
                hook(self, args, kwargs, output)
        return output

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _children(self) -> Iterator[tuple[str, "Module"]]:
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield name, value
            elif isinstance(value, list):
                modules = [item for item in value if isinstance(item, Module)]
                yield from ((f"{name}.{number}", item) for number, item in enumerate(modules))

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, "Module"]]:
        yield prefix, self
        for name, child in self._children():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator["Module"]:
        for _, module in self.named_modules():
            yield module

    def named_buffers(self, *, recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        yield from self._named_tensors("buffers", recurse)

    def named_parameters(self, *, recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        yield from self._named_tensors("parameters", recurse)

    def _named_tensors(self, held: str, recurse: bool) -> Iterator[tuple[str, Tensor]]:
        for path, module in self.named_modules() if recurse else [("", self)]:
            for name, value in vars(module)[held].items():
                yield f"{path}.{name}" if path else name, value
