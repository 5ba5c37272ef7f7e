"""Compare what pecli reads of every class default of transformers and diffusers with their tensors.

    python -m tests.tools.class_survey make FILE     with transformers and diffusers installed
    python -m tests.tools.class_survey check FILE    with pecli alone

`make` writes one line of JSON per class: its configuration as the class itself saves it, the
frequencies of its rotary modules, and the shapes of its tables of positions. `check` prints one line
per class whose encodings do not have these frequencies and shapes, and exits with 1 if one of them
has no warning.
"""

import argparse
import contextlib
import inspect
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Row = dict[str, Any]
#: Tensors that hold positions, by their names.
TABLE = re.compile(
    r"pos_?emb|position|rel_pos|relative|embed_positions|pos_enc|positional|temporal_emb|time_embed"
)
#: Tensors named like positions that are projections, norms, indices or caches.
NOT_TABLE = re.compile(
    r"position_ids|\.bias$|position_index|norm|pos_conv|relative_coords|token_type|rotary|rope|proj"
    r"|mlp|gate|conv|inv_freq|linear|embed_positions\._|_float_tensor|\.gn\.|layer_scale|dense"
    r"|attn\.embed_positions|time_embed(ding)?s?\."
)
#: Rows of zeros that a class stores for tokens of text, by the style of its table.
TEXT_ROWS = {"cogvideox": 226}
MAX_TABLES = 40
RELATIVE_TOLERANCE = 2e-5


# ---------------------------------------------------------------- making, with the libraries


@contextlib.contextmanager
def weights_without_memory() -> Iterator[None]:
    """Make modules whose parameters have shapes only, and whose buffers have their values."""
    import torch
    from torch import nn

    register = nn.Module.register_parameter
    initialisers = {
        name: function
        for name, function in vars(nn.init).items()
        if inspect.isfunction(function) and name.endswith("_")
    }

    def register_on_meta(module: Any, name: str, parameter: Any) -> None:
        register(module, name, parameter)
        if parameter is not None:
            kind = type(parameter)
            if kind is nn.Parameter:
                empty = nn.Parameter(parameter.to("meta"), requires_grad=parameter.requires_grad)
                module._parameters[name] = empty

    def keep(tensor: Any, *_: Any, **__: Any) -> Any:
        return tensor

    nn.Module.register_parameter = register_on_meta
    for name in initialisers:
        setattr(nn.init, name, keep)
    try:
        with torch.no_grad():
            yield
    finally:
        nn.Module.register_parameter = register
        for name, function in initialisers.items():
            setattr(nn.init, name, function)


def is_table(name: str) -> bool:
    plain = name.lower()
    return TABLE.search(plain) is not None and NOT_TABLE.search(plain) is None


def tensors_of(model: Any) -> Row:
    """Return the frequencies of a model's rotary modules, and the shapes of its tables."""
    frequencies: dict[str, list[float]] = {}
    tables: dict[str, list[int]] = {}
    for name, buffer in model.named_buffers():
        # The first layer stands for all.
        label = re.sub(r"\.\d+(?=\.)", ".N", name)
        if "inv_freq" in name and "original" not in name and buffer.device.type != "meta":
            frequencies.setdefault(label, buffer.double().flatten().tolist())
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        label = re.sub(r"\.\d+(?=\.)", ".N", name)
        shape = [size for size in tensor.shape if size != 1]
        if is_table(label) and len(shape) > 1 and len(tables) < MAX_TABLES:
            tables.setdefault(label, shape)
    return {"frequencies": frequencies, "tables": tables}


def made_by_transformers() -> Iterator[Row]:
    import transformers
    from transformers.models.auto import configuration_auto, modeling_auto

    mappings = [
        mapping
        for name, mapping in vars(modeling_auto).items()
        if re.fullmatch(r"MODEL_.*MAPPING_NAMES", name)
    ]
    for model_type in configuration_auto.CONFIG_MAPPING_NAMES:
        row: Row = {"library": "transformers", "name": model_type}
        try:
            config = configuration_auto.CONFIG_MAPPING[model_type]()
            row["config"] = json.loads(config.to_json_string(use_diff=False))
        except Exception as problem:  # whatever a class has against its own defaults
            yield {**row, "problem": f"{type(problem).__name__}: {problem}"[:200]}
            continue
        kinds = [modeling_auto.MODEL_MAPPING_NAMES.get(model_type)]
        kinds += [mapping.get(model_type) for mapping in mappings]
        yield {**row, **first_that_can_be_made(transformers, kinds, config)}


def first_that_can_be_made(library: Any, kinds: list[Any], config: Any) -> Row:
    """Return the tensors of the first class that takes its own defaults."""
    problem = "there is no model class"
    for kind in dict.fromkeys(kind if isinstance(kind, str) else kind[0] for kind in kinds if kind):
        try:
            with weights_without_memory():
                return {"class": kind, **tensors_of(getattr(library, kind)(config))}
        except Exception as error:  # whatever a class has against its own defaults
            problem = f"{type(error).__name__}: {error}"[:200]
    return {"problem": problem}


def made_by_diffusers() -> Iterator[Row]:
    import diffusers
    from diffusers import ModelMixin

    for name in sorted(dir(diffusers)):
        kind = getattr(diffusers, name, None)
        if not inspect.isclass(kind) or not issubclass(kind, ModelMixin) or kind is ModelMixin:
            continue
        parameters = inspect.signature(kind.__init__).parameters.values()
        defaults = {
            parameter.name: parameter.default
            for parameter in parameters
            if parameter.default is not inspect.Parameter.empty
        }
        config = json.loads(json.dumps({"_class_name": name, **defaults}, default=str))
        row: Row = {"library": "diffusers", "name": name, "config": config}
        try:
            with weights_without_memory():
                yield {**row, **tensors_of(kind())}
        except Exception as problem:  # whatever a class has against its own defaults
            yield {**row, "problem": f"{type(problem).__name__}: {problem}"[:200]}


def make(file: Path) -> None:
    with file.open("w", encoding="utf-8") as lines:
        for row in chain(made_by_diffusers(), made_by_transformers()):
            lines.write(json.dumps(row) + "\n")
            lines.flush()


# ---------------------------------------------------------------- checking, with pecli


class Verdict(NamedTuple):
    """What pecli makes of a class: `missing` are tensors that none of its encodings has."""

    missing: list[str]
    warnings: tuple[str, ...]
    refused: str = ""

    @property
    def word(self) -> str:
        if self.refused:
            return "refused"
        if not self.missing:
            return "right"
        return "warned" if self.warnings else "silent"


def judge(row: Row, config: Row) -> Verdict:
    from pecli.errors import PecliError
    from pecli.models.dialects import read_object

    try:
        model = read_object(config, "config.json")
        missing = [
            f"{name} ({len(values)} frequencies)"
            for name, values in row["frequencies"].items()
            if "time_embed" not in name
            and not any(has_frequencies(encoding, values) for encoding in model)
        ]
        missing += [
            f"{name} {shape}"
            for name, shape in row["tables"].items()
            if is_table(name) and not any(has_shape(encoding, shape) for encoding in model)
        ]
    except PecliError as problem:
        return Verdict([], (), str(problem))
    return Verdict(missing, model.warnings)


def has_frequencies(encoding: Any, values: list[float]) -> bool:
    if encoding.scheme == "sinusoidal":
        return bool(encoding.parameters["dim"] == 2 * len(values))
    if not encoding.is_rotary:
        return False
    frequencies = encoding.inverse_frequencies() or []
    if len(frequencies) != len(values):
        return False
    return bool(np.allclose(frequencies, values, rtol=RELATIVE_TOLERANCE, atol=0))


def has_shape(encoding: Any, shape: list[int]) -> bool:
    """Return True if a learned, sinusoidal or relative table has this shape, apart from axes of 1.

    Rows and columns of patches may be axes of their own.
    """
    parameters = encoding.parameters
    flat = [int(np.prod(shape[:-1])), shape[-1]]
    if encoding.scheme == "learned":
        return flat == [parameters["max_len"], parameters["dim"]]
    if encoding.scheme == "sinusoidal":
        if "grid" in parameters:
            rows = int(np.prod(parameters["grid"])) + parameters.get("keep", 0)
            return flat == [rows + TEXT_ROWS.get(parameters["style"], 0), parameters["dim"]]
        rows = parameters["seq_len"]
        if parameters.get("relative"):
            rows = 2 * rows - 1
        # fairseq's tables have rows for the padding token and those before it.
        return flat == [rows + parameters.get("offset", 0), parameters["dim"]]
    if encoding.is_rotary:
        # RoFormer keeps the sines and cosines of its rotation as a table.
        return bool(shape[-1] == encoding.rotary_dim)
    if encoding.scheme != "relative":
        return False
    if parameters["style"] == "swin":
        return shape[0] == np.prod([2 * side - 1 for side in parameters["grid"]])
    # DeBERTa has embeddings of twice as many relative positions as buckets.
    return shape[0] in (parameters["buckets"], 2 * parameters["buckets"])


def bare(row: Row) -> Row:
    """Return the configuration that only names the class."""
    name = "_class_name" if row["library"] == "diffusers" else "model_type"
    return {name: row["name"]}


def check(file: Path, shows_warned: bool) -> int:
    """Print the classes that are not read right; return 1 if one of them has no warning."""
    shown = {"refused", "silent"} | ({"warned"} if shows_warned else set())
    counts: Counter[str] = Counter()
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "tables" not in row:
            counts["not made"] += 1
            continue
        for form, config in (("saved", row["config"]), ("bare", bare(row))):
            verdict = judge(row, config)
            counts[f"{form}: {verdict.word}"] += 1
            if verdict.word in shown:
                missing = ", ".join(verdict.missing)
                print(f"{row['name']} ({form}) {verdict.word}: {missing}{verdict.refused}")
                for warning in verdict.warnings:
                    print(f"    {warning}")
    print(json.dumps(dict(sorted(counts.items())), indent=4))
    return int(any(word.endswith(("silent", "refused")) for word in counts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("make", "check"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--warned", action="store_true", help="show classes with a warning as well")
    options = parser.parse_args()
    if options.action == "make":
        make(options.file)
    else:
        sys.exit(check(options.file, options.warned))


if __name__ == "__main__":
    main()
