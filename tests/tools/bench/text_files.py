"""Two million numbers as text, read and written."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from timing import PECLI, Row, Work, against_first, best, run

import pecli

SHAPE = (2_000, 1_000)


def text_files(turns: int, folder: Path) -> list[Row]:
    """Each kind against what people would use instead; × is how many times longer than the first of its part."""
    table = pecli.Sinusoidal(*SHAPE).tables()["pe"]
    paths = {suffix: folder / f"t.{suffix}" for suffix in ("csv", "json", "h")}

    def write(suffix: str) -> Work:
        return lambda: pecli.save(paths[suffix], {"pe": table})

    def json_dump() -> None:
        with open(folder / "other.json", "w") as file:
            json.dump({"pe": table.tolist()}, file)

    writing: dict[str, Work] = {
        "np.savetxt, nine digits": lambda: np.savetxt(folder / "other.csv", table, "%.9g", ","),
        "pecli.save to .csv": write("csv"),
        "json.dump": json_dump,
        "pecli.save to .json": write("json"),
        "pecli.save to .h": write("h"),
    }
    reading: dict[str, Work] = {
        "np.loadtxt": lambda: np.loadtxt(paths["csv"], delimiter=","),
        "pecli.load of .csv": lambda: pecli.load(paths["csv"]),
        "pecli.load of .json": lambda: pecli.load(paths["json"]),
    }
    script = f"import numpy; numpy.loadtxt({str(paths['csv'])!r}, delimiter=',')"
    commands: dict[str, Work] = {
        "np.loadtxt, a process of its own": run(sys.executable, "-c", script),
        "pecli inspect of .csv": run(PECLI, "inspect", str(paths["csv"])),
        "pecli identify of .csv": run(PECLI, "identify", str(paths["csv"])),
    }
    return [row for works in (writing, reading, commands) for row in against_first(best(works, turns), of_first=True)]
