"""llama.cpp's load log: the metadata of a .gguf file as its server prints them.

Two kinds of lines hold them. `llama_model_loader: - kv` lines repeat the keys of the file;
`print_info:` lines (`llm_load_print_meta:` until 2025) show what llama.cpp made of them, and take
precedence. A log does not show tensors, so that factors in them are not known.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from pecli.engine.named_values import MutableValues
from pecli.models.dialects import gguf
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.families import HALVES, INTERLEAVED
from pecli.models.keys import Origin, as_number, origin_at

MARKS = (b"print_info:", b"llm_load_print_meta:", b"llama_model_loader: - kv")
#: Lines may begin with a time, a host and a level, as journald and Docker write them.
INFO = re.compile(r"(?:print_info|llm_load_print_meta): +([a-z][\w ]*?) *= *(\S.*)")
KEY_VALUE = re.compile(r"llama_model_loader: - kv +\d+: +([\w.-]+) +(\w+)(?:\[[^]\n]*\])? *= *(.*)")
#: `llama_context: freq_base = 40000.0`: a number that the server computes with.
SERVED_NUMBER = re.compile(
    r"llama_(?:context|new_context_with_model|init_from_model): +(\w+) *= *(\S+)"
)
SCALING_TYPE = "rope.scaling.type"
#: Names of `print_info` lines by the keys of a .gguf that they show, without the architecture.
KEYS = {
    "n_ctx_train": "context_length",
    "n_embd": "embedding_length",
    "n_layer": "block_count",
    "n_head": "attention.head_count",
    "n_rot": "rope.dimension_count",
    "n_rot_swa": "rope.dimension_count_swa",
    "n_embd_head_k": "attention.key_length",
    "n_embd_head_k_swa": "attention.key_length_swa",
    "n_swa": "attention.sliding_window",
    "f_max_alibi_bias": "attention.max_alibi_bias",
    "rope scaling": SCALING_TYPE,
    "freq_base_train": "rope.freq_base",
    "freq_base": "rope.freq_base",
    "freq_base_swa": "rope.freq_base_swa",
    # `freq_scale_train = 0.25` is a factor of 4.
    "freq_scale_train": "rope.scaling.factor",
    "freq_scale": "rope.scaling.factor",
    "n_ctx_orig_yarn": "rope.scaling.original_context_length",
    "n_yarn_orig_ctx": "rope.scaling.original_context_length",
    "rope_yarn_log_mul": "rope.scaling.yarn_log_multiplier",
    "mrope sections": "rope.dimension_sections",
}
#: Layouts by ggml's rope types: 0 is NORM, 2 is NEOX, 8 is MROPE, 40 is IMROPE.
LAYOUTS = {"0": INTERLEAVED, "2": HALVES, "8": HALVES, "40": HALVES}
#: Keys that every architecture has, and whose names begin with it: `gemma3.context_length`.
WITH_ARCHITECTURE = re.compile(
    r"^([\w-]+)\.(?:context_length|rope\.\w+|attention\.head_count)$", re.MULTILINE
)
UNKNOWN = "unknown"
#: Lines that begin a model: the loader's, or the first of `print_info` in a log without it.
BEGINNINGS = (re.compile("loaded meta data with"), re.compile(r"print_info: +arch +="))
#: Numbers for which 0 means that there is none.
ZERO_IS_NONE = frozenset(("attention.sliding_window", "attention.max_alibi_bias"))
LONGROPE_WARNING = (
    "rope scaling is longrope: a log does not show its factors, which the .gguf holds"
)
#: The base that llama.cpp has for a model whose file states none.
_BASE_WITHOUT_KEY = 10000.0
#: A log prints six digits of a number.
PRINTED_RTOL = 1e-5


@dataclass(frozen=True)
class LoadLog:
    """The metadata of a model that a log shows.

    Attributes:
        values: Metadata by the keys that a .gguf file has for them.
        origins: The lines that values come from, by keys without the architecture.
        layout: How pairs rotate, by the rope type; empty if the log does not show it.
        warnings: What the log leaves open, and flags of the server that it shows.
    """

    values: MutableValues
    origins: dict[str, Origin]
    layout: str
    warnings: tuple[str, ...]

    def numbers(self, name: str) -> list[float] | None:
        """Return the numbers of a tensor: None, since a log shows no tensors."""
        return None


def is_log(data: bytes) -> bool:
    """Return True if a file's bytes are llama.cpp's log of loading a model."""
    return any(mark in data for mark in MARKS)


def parse_log(data: bytes) -> LoadLog:
    """Return the metadata of the first model that llama.cpp's log of loading it shows.

    The log repeats the keys of the .gguf file in `- kv` lines. The numbers that llama.cpp computes
    with are in `print_info` lines, and replace them.
    """
    log = _part_of_first_model(data.decode("utf-8", "replace"))
    values_of_file = _values_of_kv_lines(log)
    print_info = _texts_of_print_info(log)
    architecture = print_info.get("arch") or _stored_architecture(values_of_file)
    prefix = f"{architecture}."  # GGUF's keys begin with it: `llama.rope.freq_base`.
    values: MutableValues = {**values_of_file, "general.architecture": architecture}
    # A LoadLog has values by whole keys, as a .gguf file has, but origins without the prefix.
    origins: dict[str, Origin] = {}
    for setting in _settings_of_print_info(print_info):
        values[prefix + setting.key] = setting.value
        origins[setting.key] = setting.origin
    warnings = _warnings_about_flags(log, values, prefix)
    if values.get(prefix + SCALING_TYPE) == "longrope":
        # Without the factors, which no log shows, the model can only be read as unscaled.
        del values[prefix + SCALING_TYPE]
        warnings.insert(0, LONGROPE_WARNING)
    layout = LAYOUTS.get(print_info.get("rope type", ""), "")
    return LoadLog(values=values, origins=origins, layout=layout, warnings=tuple(warnings))


def read(log: LoadLog, label: str) -> ModelEncodings:
    """Return the encodings of the model that a log shows."""
    model = gguf.read(log, label, log.origins)
    encodings = model.encodings
    if log.layout:
        encodings = tuple(_with_layout(encoding, log.layout) for encoding in encodings)
    return replace(model, encodings=encodings, warnings=(*model.warnings, *log.warnings))


def _with_layout(encoding: Encoding, layout: str) -> Encoding:
    if not encoding.is_rotary:
        return encoding
    origins = {**encoding.origins, "layout": origin_at("print_info: rope type")}
    return replace(encoding, layout=layout, origins=origins)


def _stored_architecture(stored: MutableValues) -> str:
    """Return the architecture that `- kv` lines name, or with which their keys begin.

    It is `llama` by the key `llama.block_count`.
    """
    named = stored.get("general.architecture")
    if isinstance(named, str):
        return named
    names_in_keys: list[str] = WITH_ARCHITECTURE.findall("\n".join(stored))
    return names_in_keys[0] if names_in_keys else UNKNOWN


def _part_of_first_model(log: str) -> str:
    """Return the log up to the second model, such as the draft model of a server."""
    for mark in BEGINNINGS:
        beginnings = [match.start() for match in mark.finditer(log)]
        if beginnings:
            ends = [*beginnings[1:], len(log)]  # A model ends where the next one begins.
            return log[: ends[0]]
    return log


def _values_of_kv_lines(log: str) -> MutableValues:
    """Return the values of `- kv` lines by key; lists that are cut with dots are left out."""
    values: MutableValues = {}
    for key, type_name, text in KEY_VALUE.findall(log):
        value = text.strip() if type_name == "str" else _number_or_list(text)
        if value is not None:
            values[key] = value
    return values


def _texts_of_print_info(log: str) -> dict[str, str]:
    """Return the texts of `print_info` lines by name; the first of a name counts."""
    shown: dict[str, str] = {}
    for name, text in INFO.findall(log):
        shown.setdefault(name, text.strip())
    return shown


class ShownSetting(NamedTuple):
    """A number or a word of a `print_info` line, by GGUF's key without the architecture."""

    key: str
    value: object
    origin: Origin


def _settings_of_print_info(shown: Mapping[str, str]) -> Iterator[ShownSetting]:
    """Yield the settings of `print_info` lines, whose names differ from those of GGUF's keys.

    `n_ctx_train = 4096` is the `context_length`.
    """
    for name, text in shown.items():
        if name in KEYS:
            key = KEYS[name]
            value = _value_of_text(key, text)
            if value is not None:
                yield ShownSetting(key, value, origin_at(f"print_info: {name}"))


def _value_of_text(key: str, text: str) -> object:
    """Return the value that a `print_info` line has for a key; None if it stands for no value.

    `n_swa = 0` states that there is no window, and `freq_scale_train = 0.25` is a factor of 4.
    """
    if key == SCALING_TYPE:
        return text
    value = _number_or_list(text)
    if key in ZERO_IS_NONE and not value:
        return None
    if key == "rope.scaling.factor":
        return _factor_of_scale(value)
    return value


def _factor_of_scale(scale: object) -> float | None:
    """Return the factor that a scale stands for, 4 for 0.25; None for 1, which is no scaling."""
    number = _positive(scale)
    if number is None or number == 1:
        return None
    return 1 / number


def _positive(value: object) -> float | None:
    """Return a number above 0 of moderate size; None for anything else."""
    number = as_number(value)
    return number if number is not None and number > 0 else None


def _number_or_list(text: str) -> object:
    """Return a number, a truth value or a list; None for anything else, lists that are cut included."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def _warnings_about_flags(log: str, values: MutableValues, prefix: str) -> list[str]:
    """Return warnings if the server's base or scale differs from the model's, since its flags set it.

    A line such as `llama_context: freq_base = 40000.0` shows a number that the server computes with.

    Args:
        log: The text of the log.
        values: The model's own numbers, by GGUF's keys.
        prefix: What these keys begin with: the architecture and a dot.
    """
    base = _positive(values.get(f"{prefix}rope.freq_base", _BASE_WITHOUT_KEY))
    factor = _positive(values.get(f"{prefix}rope.scaling.factor", 1.0))
    # llama.cpp prints what positions are multiplied by: 0.25 for a factor of 4.
    scale = None if factor is None else 1 / factor
    numbers_of_model = {"freq_base": base, "freq_scale": scale}
    warnings = []
    for name, text in SERVED_NUMBER.findall(log):
        number_of_model = numbers_of_model.get(name)
        served_number = _positive(_number_or_list(text))
        if number_of_model is not None and served_number is not None:
            warnings += _warnings_if_changed(name, served=served_number, trained=number_of_model)
    return warnings


def _warnings_if_changed(name: str, served: float, trained: float) -> list[str]:
    """Return a warning if a server uses another base or scale than the file has."""
    if abs(served - trained) <= PRINTED_RTOL * trained:
        return []
    flag = f"--rope-{name.replace('_', '-')} {served:g}"
    numbers = f"the server uses {name} {served:g}, the model has {trained:g}"
    return [f"{numbers}: apply its flags, such as --flags '{flag}'"]
