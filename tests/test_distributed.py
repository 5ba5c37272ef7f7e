"""Tables that Dask spreads over workers are those of one process; a missing package is named in one
line.

`pecli.dask` returns arrays whose blocks are computed when they are needed; `distributed.save` lets
workers write one Zarr store. Expected bytes are those of `tables` and `save` in one process.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pecli
from pecli.engine import table as table_module
from tests.exit_codes import USAGE_ERROR

SCHEMES = [
    pecli.Sinusoidal(3000, 64),
    pecli.Rope(1000, 32, dtype="float64", layout="halves"),
    pecli.Alibi(6, 90),
    pecli.LearnedInit(500, 33, seed=4),
    pecli.Rope(700, 32, dtype="bfloat16"),
]


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
@pytest.mark.sample(3)
def test_lazy_arrays_of_dask_hold_the_tables(
    scheme: pecli.Scheme, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pecli.dask` returns arrays whose blocks are computed when they are needed; their bytes must be
    those of `scheme.tables()`, of the whole and of the last two rows, whichever scheduler computes
    them. Blocks are limited to 2^14 bytes, so that some array has more than one.
    """
    monkeypatch.setattr(table_module, "BLOCK_BYTES", 1 << 14)
    lazy = pecli.dask(scheme)

    for name, array in scheme.tables().items():
        assert lazy[name].shape == array.shape
        assert lazy[name].dtype == array.dtype
        assert lazy[name].compute(scheduler="threads").tobytes() == array.tobytes()
        assert lazy[name][-2:].compute(scheduler="synchronous").tobytes() == array[-2:].tobytes()
    assert max(array.npartitions for array in lazy.values()) > 1


def test_two_workers_write_the_same_store_as_one_process(tmp_path: Path) -> None:
    """A Zarr store that two processes of Dask write together passes, and has every file of the one
    that `pecli.save` writes, with the same bytes.
    """
    import dask

    from pecli import distributed

    scheme = pecli.Rope(20_000, 64, dtype="float64")
    by_workers = tmp_path / "workers.zarr"
    with dask.config.set(scheduler="processes", num_workers=2):
        distributed.save(str(by_workers), scheme)

    assert pecli.verify(by_workers).passed

    by_one_process = tmp_path / "one.zarr"
    pecli.save(by_one_process, scheme)
    files = [path for path in by_one_process.rglob("*") if path.is_file()]
    for path in files:
        same_file = by_workers / path.relative_to(by_one_process)
        assert same_file.read_bytes() == path.read_bytes()


MISSING = """
import sys
sys.modules["dask"] = sys.modules["dask.array"] = sys.modules["zarr"] = None
import pecli
from pecli.cli.app import run
try:
    pecli.dask(pecli.Sinusoidal(4, 4))
except pecli.ParameterError as problem:
    print(problem)
run(["inspect", "there.zarr"])
raise SystemExit(run(["sinusoidal", "--seq-len", "4", "--dim", "4", "-o", "pe.zarr"]))
"""


def test_an_error_names_the_command_that_installs_a_missing_package(tmp_path: Path) -> None:
    """The script MISSING puts None for dask and zarr into sys.modules, so that imports of them fail;
    then it calls pecli.dask, inspects a store, and writes one. Each is an error of one line, and
    nothing is written.
    """
    (tmp_path / "there.zarr").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", MISSING], cwd=tmp_path, capture_output=True, text=True
    )

    assert "pip install dask" in done.stdout
    assert done.returncode == USAGE_ERROR
    assert os.listdir(tmp_path) == ["there.zarr"]

    lines = [line for line in done.stderr.splitlines() if line.startswith("pecli: error: ")]
    assert [line.endswith("pip install zarr") for line in lines] == [True, True]


def test_packages_for_some_formats_are_no_dependencies() -> None:
    """pyproject.toml lists what is installed with pecli. Dask, zarr and onnx are not among it."""
    path = Path(__file__).parents[1] / "pyproject.toml"
    project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    optional = ("dask", "zarr", "onnx")

    assert not [line for line in project["dependencies"] if line.startswith(optional)]
