"""Makes `torch_normal.json`, by a Python that has torch (tests need none).

    python tests/tools/make_torch_normal.py

torch has two ways on the CPU: its plain kernels (ATEN_CPU_CAPABILITY=default; also what other machines than x86 do),
which pecli calls rng "torch", and those for AVX2 or AVX-512, "torch-avx2". This script starts itself once for each.
"""

from __future__ import annotations

import base64
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SEEDS = (0, 42, 2**32 - 1, 2**32 + 7, 2**63 - 1, 2**64 - 1)
SHAPES = ((1, 3), (3, 5), (4, 4), (1, 17), (5, 7))


def cases(torch: Any) -> Iterator[dict[str, Any]]:
    def made(init: str, shape: tuple[int, int], seed: int, std: float) -> dict[str, Any]:
        torch.manual_seed(seed if seed < 2**63 else seed - 2**64)
        weight, bound = torch.empty(*shape), std * math.sqrt(3)
        if init == "normal":
            weight.normal_(0, std)
        elif init == "uniform":
            weight.uniform_(-bound, bound)
        else:
            torch.nn.init.xavier_uniform_(weight)
        data = base64.b64encode(weight.numpy().astype("<f4").tobytes()).decode()
        return {"init": init, "shape": shape, "seed": seed, "std": std, "data": data}

    for seed in SEEDS:
        for shape in SHAPES:
            yield made("normal", shape, seed, 0.02)
    for std in (1.0, 1e-3, 3.7):
        yield made("normal", (1, 15), 1, std)
        yield made("normal", (1, 16), 1, std)
    yield made("normal", (1000, 7), 5, 0.02)
    for init in ("uniform", "xavier-uniform"):
        for shape in ((1, 3), (5, 7), (40, 20)):
            yield made(init, shape, 2**40 + 3, 0.02)


def main() -> None:
    import torch

    if len(sys.argv) > 1:
        found = {"capability": torch.backends.cpu.get_cpu_capability(), "cases": list(cases(torch))}
        print(json.dumps(found))
        return
    ways = {}
    for rng, capability in (("torch", "default"), ("torch-avx2", "avx2")):
        environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability}
        output = subprocess.run(
            [sys.executable, __file__, rng], env=environment, capture_output=True, check=True
        ).stdout
        ways[rng] = json.loads(output)
    note = "float32 tables by torch on the CPU, as base64 of little-endian bytes; made by make_torch_normal.py"
    text = json.dumps({"note": note, "torch": torch.__version__, "ways": ways}, indent=1)
    (Path(__file__).parents[1] / "engine/schemes/torch_normal.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
