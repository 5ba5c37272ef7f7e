"""Write tests/golden_transformers.json: cos and sin of presets by transformers' own rotary modules.

    python tests/tools/make_golden_transformers.py        with torch and transformers installed

Made with transformers 5.22.2 and torch 2.13.0 on the CPU, in float32: one column per frequency, at the positions of the
golden suite's models. Of its presets, those are left out whose module takes other arguments or another configuration.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import torch
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from pecli.golden import DATA, FAR_AND_NEAR
from pecli.models.presets import presets

DIGITS = 9


def tables(config: dict) -> dict[str, list[float]]:
    given = {key: value for key, value in config.items() if key != "model_type"}
    made = CONFIG_MAPPING[config["model_type"]](**given).get_text_config()
    kind = made.model_type.removesuffix("_text")
    module = importlib.import_module(f"transformers.models.{kind}.modeling_{kind}")
    name = next(name for name in dir(module) if name.endswith("RotaryEmbedding") and "Vision" not in name)
    rotary = getattr(module, name)(made)
    pairs = len(rotary.inv_freq)
    found = {}
    for part, values in zip(("cos", "sin"), rotary(torch.zeros(1), torch.tensor([FAR_AND_NEAR])), strict=True):
        rows = values[0]
        halves = rows.shape[1] == pairs or torch.equal(rows[:, :pairs], rows[:, pairs:])
        rows = rows[:, :pairs] if halves else rows[:, ::2]
        found[part] = [float(f"{value:.{DIGITS}g}") for value in rows.flatten().tolist()]
    return found


if __name__ == "__main__":
    written = {}
    for preset in DATA["presets"]:
        try:
            written[preset] = tables(presets()[preset].config)
        except (AttributeError, KeyError, StopIteration) as problem:
            print(f"{preset}: left out, {problem}")
    lines = ",\n".join(f'"{name}": {json.dumps(values)}' for name, values in written.items())
    (Path(__file__).parents[1] / "golden_transformers.json").write_text(f"{{\n{lines}\n}}\n")
