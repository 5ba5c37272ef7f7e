"""A .npz whose data is not what its checksum says: every command that uses the data refuses it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pecli
from pecli.errors import FileError

COMMANDS = {
    "identify damaged.npz": "a",
    "identify damaged.npz:a": "a",
    "plot damaged.npz": "a",
    "plot damaged.npz -o out.png": "a",
    "inspect damaged.npz --stats": "a",
    "diff damaged.npz damaged.npz": "a",
    "convert damaged.npz -o out.npy": "a",
    "resize damaged.npz:a --to 8 -o out.npy": "a",
    "apply rope damaged.npz:a -o out.npy": "a",
    "apply sinusoidal damaged.npz --tensor a -o out.npy": "a",
    "apply learned whole.npy --table damaged.npz:a -o out.npy": "a",
    "apply rope whole.npy --positions damaged.npz:ids -o out.npy": "ids",
}


@pytest.fixture(autouse=True)
def damaged(here: Path) -> None:
    """Of three members, one bit of `a` and one of `ids` are other than they were written."""
    whole, ids = np.arange(16, dtype=np.float32).reshape(4, 4), np.arange(4)
    np.save("whole.npy", whole)
    np.savez("damaged.npz", a=whole, ids=ids, b=whole[:3])
    data = bytearray(Path("damaged.npz").read_bytes())
    for array in (whole, ids):
        data[data.index(array.tobytes()) + array.itemsize] ^= 1
    Path("damaged.npz").write_bytes(data)


def test_data_that_is_not_what_was_written_is_never_used(pecli_cli) -> None:
    for command, member in COMMANDS.items():
        outcome = pecli_cli(*command.split())
        problem = f"pecli: error: damaged.npz: member '{member}.npy' is damaged: its checksum does not match\n"
        assert (outcome.code, outcome.out, outcome.err) == (3, "", problem), command
    assert not list(Path().glob("out.*"))
    with pytest.raises(FileError, match="its checksum does not match"):
        pecli.load("damaged.npz")
    with pytest.raises(FileError, match="its checksum does not match"):
        pecli.identify("damaged.npz:a")


def test_damage_elsewhere_in_the_file_does_not_matter(pecli_cli) -> None:
    for command in ("identify damaged.npz:b", "apply rope damaged.npz:b -o out.npy", "plot damaged.npz:b"):
        assert pecli_cli(*command.split()).code in (0, 1)
    assert pecli.load("damaged.npz:b")["b"].tolist() == np.arange(12).reshape(3, 4).tolist()
