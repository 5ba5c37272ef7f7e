"""Makes `interpolate.json`: `python tests/tools/make_interpolate.py`, by a Python that has torch (tests need none).

Grids of one row are left out: torch 2.13 with antialias gives constant columns for them.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np

GRIDS = (((14, 14), (24, 24)), ((24, 24), (14, 14)), ((7, 5), (3, 11)), ((2, 3), (9, 2)), ((16, 16), (16, 16)))


def encoded(array: Any) -> str:
    return base64.b64encode(np.ascontiguousarray(array, "<f4").tobytes()).decode()


def main() -> None:
    import torch
    from torch.nn.functional import interpolate

    cases = []
    for number, (old, new) in enumerate(GRIDS):
        torch.manual_seed(number)
        grid = torch.randn(1, 2, *old) * 0.02
        for mode in ("bilinear", "bicubic"):
            for antialias in (False, True):
                made = interpolate(grid, size=new, mode=mode, align_corners=False, antialias=antialias)
                cases.append({"mode": mode, "antialias": antialias, "old": old, "new": new})
                cases[-1] |= {"given": encoded(grid[0].movedim(0, -1)), "made": encoded(made[0].movedim(0, -1))}
    for old_length, new_length in ((50, 128), (128, 50), (3, 4)):
        rows = torch.randn(1, 2, old_length) * 0.02
        made = interpolate(rows, size=new_length, mode="linear", align_corners=False)
        cases.append({"mode": "linear", "antialias": False, "old": (old_length, 1), "new": (new_length, 1)})
        cases[-1] |= {"given": encoded(rows[0].T), "made": encoded(made[0].T)}
    text = json.dumps({"torch": torch.__version__, "cases": cases}, indent=0)
    (Path(__file__).parents[1] / "tensors/interpolate.json").write_text(text + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
