"""`pecli.record`: a context in which a model's rotations and position ids are recorded."""

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from typing import cast

from pecli.checks.recorded.run_result import RunVerification
from pecli.checks.recorded.run_tensors import RecordedCall, RecordedRun
from pecli.checks.recorded.run_verification import verify_run
from pecli.compare.tolerance import Tolerance, tolerance_of
from pecli.display import Printed
from pecli.engine.arrays import Array
from pecli.errors import KindError, ParameterError, path_of
from pecli.files import save
from pecli.files.torch_module import TorchModule
from pecli.live.recorder import ModelRecorder
from pecli.models.find import Model


class Recording(Printed):
    """The tensors that a model computed while it was recorded.

    Attributes:
        model_name: The class of the model.
        config: The model's own configuration; None if it has none.
    """

    def __init__(self, model_name: str, config: Model | None, run: RecordedRun) -> None:
        self.model_name = model_name
        self.config = config
        self._run = run

    def __repr__(self) -> str:
        return f"<Recording of {self.model_name}: {len(self.calls)} calls>"

    @property
    def calls(self) -> list[RecordedCall]:
        """The calls of the model, in order."""
        return self._run.calls

    def tensors(self) -> dict[str, Array]:
        """Return all tensors by the names that they have in a saved file.

        `calls.0.model.layers.3.q_after`, for example, are the rotated queries of layer 3 in the
        first call.
        """
        return self._run.named()

    def verify(
        self,
        model: Model | None = None,
        tolerance: Tolerance | None = None,
        *,
        atol: float | None = None,
        rtol: float | None = None,
        reasons: bool = True,
    ) -> RunVerification:
        """Check everything that was recorded against the model's configuration.

        Args:
            model: A configuration, as `load_config` accepts it, instead of the model's own.
            tolerance: The errors that pass. By default those of the recorded dtypes and of float32
                angles.
            atol: Instead of `tolerance`, an absolute error.
            rtol: Instead of `tolerance`, a relative error.
            reasons: Whether reasons for failures are searched for.

        Returns:
            A result that is true if everything is right, and otherwise names the first layer that
            is wrong.

        Raises:
            ParameterError: Nothing was recorded, or no configuration is known.
        """
        config = self.config if model is None else model
        if config is None:
            rule = f"{self.model_name} has no configuration of its own"
            raise ParameterError("model", "missing", rule, "give a config or a preset's name")
        if not self.calls:
            rule = "no call of the model was recorded that rotates or adds rows"
            advice = "call the model inside the with block"
            raise ParameterError("run", "empty", rule, advice)
        allowed = tolerance_of(tolerance, None, atol, rtol)
        return verify_run(self._run, config, allowed, reasons, f"run of {self.model_name}")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file that `pecli verify FILE --model MODEL` checks.

        Args:
            path: A .safetensors or .npz file. It appears when it is complete.

        Raises:
            ParameterError: Nothing was recorded, or the suffix is another one.
            FileError: The file cannot be written.
        """
        if not self.calls:
            raise ParameterError("run", "empty", "nothing was recorded")
        save(path_of("path", path), self.tensors())


@contextmanager
def record(model: object, *, layers: Collection[int] | None = None) -> Iterator[Recording]:
    """Record what a torch model computes for positions, layer by layer.

    Recorded are cosines and sines, queries and keys before and after the rotation, position ids,
    inverse frequencies and learned rows, of every call inside the with block: also of those that
    `generate` makes. Functions such as `apply_rotary_pos_emb` in the modules that define the
    model's classes, and rotary modules, are watched; all of it is undone when the block ends.
    A model of `torch.compile` runs uncompiled in the block (torch 2.6 or later).

    Args:
        model: A torch module: a Hugging Face model, or one of your own.
        layers: Numbers of the layers to record; by default all.

    Returns:
        A context manager whose value is a `Recording`: `run.verify()`, `run.save(path)`,
        `print(run)`.

    Raises:
        KindError: The model is not a torch module.

    Example:
        with pecli.record(model) as run:
            model(**inputs)
        run.verify().raise_if_failed()
    """
    if not hasattr(model, "named_modules"):
        kind = f"a {type(model).__name__}"
        raise KindError("model", kind, "it must be a torch module", "such as a loaded model")
    if hasattr(model, "_orig_mod"):
        # `torch.compile` returns a wrapper, whose name would precede those of all modules.
        model = model._orig_mod
    module = cast(TorchModule, model)
    recorder = ModelRecorder(module, layers)
    with recorder.installed():
        yield Recording(type(module).__name__, _config_of(module), recorder.run)


def _config_of(model: TorchModule) -> Model | None:
    """Return the configuration of a model, or of the first module in it that has one.

    A wrapper of your own, such as DistributedDataParallel, holds the model that has it.
    """
    for module in model.modules():
        if hasattr(module, "config"):
            return _as_config(module.config)
    return None


def _as_config(config: object) -> Model | None:
    """Return the value of `model.config` as a configuration; None if it is of another kind."""
    # Configurations of transformers 5 are dataclasses as well, whose fields lack the model_type.
    if isinstance(config, Mapping) or hasattr(config, "to_dict"):
        return cast(Model, config)
    if is_dataclass(config) and not isinstance(config, type):
        return asdict(config)
    return None
