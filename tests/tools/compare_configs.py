"""Compare how two checkouts of pecli read configurations.

    python -m tests.tools.compare_configs OLD NEW [--count 5000] [--seed 0] [--more FOLDER]

Both checkouts read the same inputs: all presets, all configurations in tests/models/data (and in
`--more`), every known model_type and class name without further keys, GGUF headers, and random
mutations of all of them. For each input the whole answer is compared: encodings, sources, warnings
and errors, the order of keys included. The first differences are printed, and the exit code is 1 if
there are any.

Each checkout is run by its own `.venv/bin/python` if it has one.
"""

import argparse
import copy
import gzip
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "pecli" / "models"
DATA = ROOT / "tests" / "models" / "data"
MAX_SHOWN = 5
MAX_MUTATIONS = 4

#: Values of wrong kinds, of edge cases, and words that some key or other gives a meaning.
ODD_VALUES = [
    None, True, False, 0, 1, -1, 2, 3, 7, 8.0, 0.25, 0.5, 1.5, 1e-30, 1e31, 2**40, 2**41, float("inf"),
    "", "x", "rope", "rotary", "alibi", "nope", "none", "absolute", "learned", "relative", "relative_key", "sin",
    "yarn", "ntk", "su", "mrope", "default", "axial", "xdrope", "llama3", "longrope", "dynamic", "linear",
    [], {}, [1], [1, 0, 1], [16, 24, 24], ["a"], [224, 224], {"height": 3, "width": 4}, {"a": 1.5},
    ["full_attention", "sliding_attention"],
]  # fmt: skip
PARTS = ("text_config", "vision_config", "audio_config", "llm_config", "visual", "encoder", "model")
GGUF_KEYS = {
    "context_length": [2048, 16384, 131072],
    "embedding_length": [512, 4096],
    "block_count": [32, 40],
    "attention.head_count": [8, 32, [8, 8, 4]],
    "attention.key_length": [64, 128],
    "attention.key_length_swa": [64, 128],
    "attention.sliding_window": [0, 512, 4096],
    "attention.max_alibi_bias": [0.0, 8.0, 16.0],
    "rope.dimension_count": [32, 64, 128],
    "rope.dimension_count_swa": [32, 64],
    "rope.freq_base": [1e4, 5e5, 1e6],
    "rope.freq_base_swa": [1e4, 5e5],
    "rope.dimension_sections": [[16, 24, 24, 0], [8, 12, 12, 0], [0, 0, 0, 0], []],
    "rope.scaling.type": ["none", "linear", "yarn", "longrope", "wibble"],
    "rope.scaling.factor": [0.0, 1.0, 4.0, 40.0],
    "rope.scale_linear": [2.0],
    "rope.scaling.original_context_length": [4096, 32768],
    "rope.scaling.attn_factor": [1.0, 1.19],
    "rope.scaling.yarn_beta_fast": [32.0],
    "rope.scaling.yarn_beta_slow": [1.0],
    "rope.scaling.yarn_log_multiplier": [0.0, 0.1, 0.0707],
    "rope.wibble": [1],
}
GGUF_TENSORS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")


class Case(NamedTuple):
    """A configuration and the file name that it is read by; or the values and tensors of a GGUF
    header.
    """

    config: dict[str, Any]
    label: str = "config"
    tensors: dict[str, list[float]] | None = None


# ---------------------------------------------------------------- reading, in the process of one
# checkout


def answer(case: Case) -> Any:
    """Return everything that a checkout reads out of a case, as plain JSON."""
    from pecli.errors import PecliError

    try:
        model = read(case)
    except PecliError as problem:
        return str(problem)
    return {
        **attempt_json(model),
        "window": model.window,
        "layers": model.layers[:8],
        "details": [details(encoding) for encoding in model],
    }


def attempt_json(model: Any) -> dict[str, Any]:
    """Return the answer of `pecli config --json`; an encoding that the engine refuses may have
    none.
    """
    from pecli.errors import PecliError

    try:
        answers: dict[str, Any] = model.as_json()
    except PecliError as problem:
        return {"refused": str(problem), "warnings": model.warnings}
    return answers


def read(case: Case) -> Any:
    from pecli.models.dialects import gguf, read_object

    if case.tensors is None:
        return read_object(case.config, case.label)
    tensors = case.tensors
    header: Any = SimpleNamespace(values=case.config, numbers=lambda name: tensors.get(name))
    return gguf.read(header, case.label)


def details(encoding: Any) -> list[Any]:
    """Return the fields of an encoding that its JSON does not have, and some of the schemes that it
    makes.
    """
    return [
        encoding.part,
        encoding.family,
        encoding.prefix,
        encoding.alpha,
        encoding.use_fope,
        encoding.no_table,
        encoding.tables_in_halves,
        attempt(lambda: encoding.rope(8)),
        attempt(lambda: encoding.rope(8, length=70000)),
        attempt(lambda: encoding.rope(8, length=4096, runtime="vllm")),
        attempt(lambda: encoding.rope(8, runtime="exllamav3")),
        attempt(lambda: encoding.rope(grid=(2, 2))),
        attempt(lambda: encoding.as_json(5000)["inv_freq"]),
        attempt(lambda: encoding.axis_dim),
    ]


def attempt(make: Callable[[], Any]) -> str:
    """Return what the engine makes of an encoding; the words of its errors are not compared here."""
    from pecli.errors import PecliError

    try:
        return repr(make())
    except PecliError:
        return "refused"


def answer_all(file: str) -> None:
    """Print one line of JSON per case of a file."""
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            case = Case(*json.loads(line))
            try:
                result = answer(case)
            except Exception as problem:  # a defect must be the same one on both sides
                result = f"DEFECT {type(problem).__name__}: {problem}"
            print(json.dumps(result, ensure_ascii=False))


# ---------------------------------------------------------------- cases


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def text_of(path: Path) -> str:
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    return data.decode("utf-8")


def configs_within(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects in a file of test data that are configurations, whatever its rows look
    like.
    """
    if isinstance(value, list):
        for item in value:
            yield from configs_within(item)
    if not isinstance(value, dict):
        return
    if "config" in value and isinstance(value["config"], dict):
        yield value["config"]
    elif value.keys() & {"model_type", "_class_name", "hidden_size", "dim", "n_heads", "d_model"}:
        yield value
    else:
        for item in value.values():
            yield from configs_within(item)


def stored_cases(folder: Path) -> Iterator[Case]:
    for path in sorted(folder.glob("*.json*")):
        lines = text_of(path).splitlines()
        rows = [load(path)] if path.suffix == ".json" else [json.loads(line) for line in lines]
        for row in rows:
            if isinstance(row, dict) and "text" in row:
                yield from text_case(row)
            elif isinstance(row, list) and len(row) == 3 and "class_settings" in path.name:
                yield Case({"model_type": row[0], **row[1]})
            else:
                yield from (Case(config) for config in configs_within(row))


def text_case(row: dict[str, Any]) -> Iterator[Case]:
    """Yield the configuration of a row that holds a YAML file as text."""
    import yaml

    config = yaml.safe_load(row["text"])
    if isinstance(config, dict) and all(isinstance(key, str) for key in config):
        yield Case(json.loads(json.dumps(config, default=str)), row["file"])


def known_names() -> list[str]:
    """Return all model types that pecli has a row for."""
    names = {*load(MODELS / "class_defaults.json"), *load(MODELS / "class_tables.json")}
    names |= {*load(MODELS / "class_parts.json")}
    families = load(MODELS / "families.json")
    names |= {name for row in families["families"] for name in row["names"].split()}
    names |= set(" ".join(families["ordinary"]).split())
    for rows in ("families", "beside"):
        for row in load(MODELS / "non_rotary.json")[rows]:
            names |= set(row["names"].split())
    return sorted(names)


def bare_cases() -> Iterator[Case]:
    """Yield a configuration of every known name and nothing else."""
    for name in known_names():
        yield Case({"model_type": name})
        yield Case({"model_type": name, "text_config": {}, "vision_config": {"hidden_size": 64}})
    diffusers = load(MODELS / "dialects" / "diffusers.json")
    for group in ("axial", "tables", "notes"):
        for name in diffusers[group]:
            yield Case({"_class_name": name})
    for names in load(MODELS / "dialects" / "gguf.json").values():
        for name in names.split():
            yield gguf_case(random.Random(name), name)


def gguf_case(rng: random.Random, arch: str) -> Case:
    values: dict[str, Any] = {"general.architecture": arch, "general.name": "x"}
    share = rng.choice((0.3, 0.6, 0.9))
    for key, choices in GGUF_KEYS.items():
        if rng.random() < share:
            values[f"{arch}.{key}"] = rng.choice(choices)
    tensors = {}
    for name in GGUF_TENSORS:
        if rng.random() < 0.2:
            count = rng.choice((16, 32, 64))
            tensors[name] = [round(rng.uniform(1, 8), 2) for _ in range(count)]
    return Case(values, "model.gguf", tensors)


class Mutator:
    """Random changes of configurations, with keys and values that occur in some other one."""

    def __init__(self, cases: list[Case], rng: random.Random) -> None:
        self.rng = rng
        self.cases = [case for case in cases if case.config and case.tensors is None]
        self.names = known_names()
        self.values: dict[str, list[Any]] = {}
        self.objects: list[dict[str, Any]] = []
        for case in self.cases:
            self._collect(case.config)
        for row in load(MODELS / "dialects" / "defaults.json").values():
            self._collect(row)
        for words in load(MODELS / "synonyms.json").values():
            for name in words.split():
                self.values.setdefault(name, [64, 2.0])
        self.keys = sorted(self.values)

    def _collect(self, config: dict[str, Any]) -> None:
        self.objects.append(config)
        for key, value in config.items():
            values = self.values.setdefault(key, [])
            if len(values) < 200:
                values.append(value)
            if isinstance(value, dict):
                self._collect(value)

    def case(self) -> Case:
        if self.rng.random() < 0.08:
            groups = load(MODELS / "dialects" / "gguf.json")
            names = " ".join(groups.values()).split()
            return gguf_case(self.rng, self.rng.choice([*names, "wibble"]))
        case = self.rng.choice(self.cases)
        config = copy.deepcopy(case.config)
        for _ in range(self.rng.randint(1, MAX_MUTATIONS)):
            self._mutate(config)
        return Case(config, case.label)

    def _mutate(self, config: dict[str, Any]) -> None:
        target = self.rng.choice([*self._objects_of(config)])
        change = self.rng.choice(
            (self._remove, self._alter, self._alter, self._add, self._add, self._exchange,
             self._rename, self._nest, self._misspell)
        )  # fmt: skip
        change(target)

    def _objects_of(self, config: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield config
        for value in config.values():
            if isinstance(value, dict):
                yield from self._objects_of(value)

    def _any_value(self, key: str) -> Any:
        usual = self.values.get(key)
        if usual and self.rng.random() < 0.7:
            return copy.deepcopy(self.rng.choice(usual))
        return copy.deepcopy(self.rng.choice(ODD_VALUES))

    def _remove(self, target: dict[str, Any]) -> None:
        if target:
            del target[self.rng.choice([*target])]

    def _alter(self, target: dict[str, Any]) -> None:
        if target:
            key = self.rng.choice([*target])
            target[key] = self._any_value(key)

    def _add(self, target: dict[str, Any]) -> None:
        key = self.rng.choice(self.keys)
        target[key] = self._any_value(key)

    def _exchange(self, target: dict[str, Any]) -> None:
        sections = [key for key, value in target.items() if isinstance(value, dict)]
        key = self.rng.choice([*sections, "rope_scaling", "rope_parameters"])
        target[key] = self._any_value(key)

    def _rename(self, target: dict[str, Any]) -> None:
        target["model_type"] = self.rng.choice([*self.names, "wibble", "wibble_vision", ""])

    def _nest(self, target: dict[str, Any]) -> None:
        target[self.rng.choice(PARTS)] = copy.deepcopy(self.rng.choice(self.objects))

    def _misspell(self, target: dict[str, Any]) -> None:
        if target:
            key = self.rng.choice([*target])
            target[self.rng.choice((key + "s", "my_" + key, key.replace("_", "-")))] = target[key]


def make_cases(count: int, seed: int, more: list[str]) -> list[Case]:
    presets = load(MODELS / "presets.json")
    cases = [Case(row["config"], name) for name, row in presets.items()]
    for folder in (DATA, *map(Path, more)):
        cases += stored_cases(folder)
    cases += bare_cases()
    mutator = Mutator(cases, random.Random(seed))
    return [*cases, *(mutator.case() for _ in range(count))]


# ---------------------------------------------------------------- comparing


def answers_of(checkout: Path, cases: str) -> list[str]:
    own_python = checkout / ".venv" / "bin" / "python"
    python = str(own_python) if own_python.exists() else sys.executable
    command = [python, str(Path(__file__).resolve()), "--answer", cases]
    environment = {"PYTHONPATH": str(checkout), "PATH": "/usr/bin:/bin"}
    process = subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    if process.returncode:
        raise SystemExit(f"{checkout}: {process.stderr[-2000:]}")
    return process.stdout.splitlines()


def reworded(line: str, words: list[str]) -> str:
    for pair in words:
        before, _, after = pair.partition("=>")
        line = line.replace(before, after)
    return line


def show(case: Case, old: str, new: str) -> None:
    print(f"\n{case.label} {json.dumps(case.config)[:500]}")
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    start = max(0, start - 100)
    print(f"  old: …{old[start : start + 400]}")
    print(f"  new: …{new[start : start + 400]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", nargs="?", type=Path)
    parser.add_argument("new", nargs="?", type=Path)
    parser.add_argument("--count", type=int, default=5000, help="random configurations")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--more", action="append", default=[], help="a folder of configurations")
    parser.add_argument("--reworded", action="append", default=[], help="OLD WORDS=>NEW WORDS")
    parser.add_argument("--answer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.answer:
        answer_all(options.answer)
        return
    cases = make_cases(options.count, options.seed, options.more)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.write("".join(json.dumps(case) + "\n" for case in cases))
        file.flush()
        old, new = (answers_of(path.resolve(), file.name) for path in (options.old, options.new))
    old = [reworded(line, options.reworded) for line in old]
    differing = [k for k in range(len(cases)) if old[k] != new[k]]
    for k in differing[:MAX_SHOWN]:
        show(cases[k], old[k], new[k])
    errors = sum(not line.startswith("{") for line in new)
    defects = sum(line.startswith('"DEFECT') for line in new)
    print(
        f"{len(cases)} configurations, {errors} refused, {defects} defects: {len(differing)} differ"
    )
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
