"""Test a port in torch against the golden suite: python runner_torch.py FOLDER [--mistake]

The port here is the naive one, with angles in float32: it passes near 0 and fails where float32 does.
"""

import json
import sys
from pathlib import Path

import torch

MISTAKE = "--mistake" in sys.argv  # the rotation of halves where pairs are interleaved
FOLDER = Path(next((word for word in sys.argv[1:] if not word.startswith("-")), "golden"))


# ---- the port under test: replace these functions by your own ----
def frequencies(given: dict) -> torch.Tensor:
    return 1.0 / given["base"] ** (
        torch.arange(0, given["dim"], 2, dtype=torch.float32) / given["dim"]
    )


def table(given: dict) -> dict[str, torch.Tensor]:
    angles = torch.tensor(given["positions"], dtype=torch.float32)[:, None] * frequencies(given)
    return {"cos": angles.cos(), "sin": angles.sin()}


def rotate(x: torch.Tensor, given: dict, settings: dict) -> torch.Tensor:
    places = torch.arange(x.shape[-2]) + settings.get("offset", 0)
    angles = places[:, None].float() * frequencies(given)
    cos, sin = angles.cos(), angles.sin()
    if settings["layout"] == "interleaved" and not MISTAKE:
        first, second = x[..., 0::2], x[..., 1::2]
        return torch.stack([first * cos - second * sin, second * cos + first * sin], -1).flatten(-2)
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


# -------------------------------------------------------------------


def golden(entry: dict, name: str) -> torch.Tensor:
    file = next(file for file in entry["files"] if file.endswith(".json"))
    spelled = json.loads((FOLDER / file).read_text())["tensors"][name]
    values = spelled.get("decimal", spelled.get("float32"))
    return torch.tensor([float(value) for value in values]).reshape(spelled["shape"])


counts = {"passed": 0, "FAILED": 0}
for entry in json.loads((FOLDER / "index.json").read_text())["cases"]:
    given, settings = entry.get("parameters", {}), entry.get("settings")
    if (
        entry.get("scheme") != "rope"
        or given["scaling"] != "none"
        or "edits" in entry
        or "mrope_section" in given
    ):
        continue
    if settings is not None:
        if (
            not {*settings} <= {"layout", "offset"}
            or settings["layout"] == "deepseek"
            or "partial" in entry["name"]
        ):
            continue
        found = {"after": rotate(golden(entry, "before"), given, settings)}
    elif (
        given["layout"] != "compact" or "positions" not in given or "partial_rotary_factor" in given
    ):
        continue
    else:
        found = table(given) if "cos" in entry["tensors"] else {"inv_freq": frequencies(given)}
    worst = max(float((value - golden(entry, name)).abs().max()) for name, value in found.items())
    verdict = "passed" if worst <= entry["tolerances"]["float32"] else "FAILED"
    counts[verdict] += 1
    excused = verdict == "FAILED" and worst <= entry["tolerances"]["float32_arithmetic"]
    print(
        f"{verdict}  {entry['name']}  off by {worst:.1e}{' (float32 arithmetic explains it)' if excused else ''}"
    )
print(f"{counts['passed']} passed, {counts['FAILED']} failed")
sys.exit(1 if counts["FAILED"] else 0)
