"""Patterns of files in a manifest, such as `dumps/**/*.npz` or `*.npz:cos`."""

import glob
import os

MAX_FOLDERS = 100
"""Folders in a pattern: beyond, Python's recursion ends, and so do the paths of file systems."""


def find_files(folder: str, name: str) -> list[str]:
    """Return the files that a pattern such as `dumps/*.npz` matches, in alphabetical order.

    A name that is not a pattern is returned by itself, and so is a pattern that matches nothing: the
    file is then reported as missing. `q[1].npy` is not a pattern if there is a file of that name.
    Folders match only a pattern that ends with a slash. `*.npz:cos` takes the tensor `cos` of each
    file: [`a.npz:cos`, `b.npz:cos`].

    Args:
        folder: The folder that the pattern starts from.
        name: The pattern, or the name of one file.
    """
    is_existing_file = os.path.lexists(os.path.join(folder, name))
    if is_existing_file or not glob.has_magic(name):
        return [name]
    # The colon of the drive C: does not name a tensor.
    drive, name_without_drive = os.path.splitdrive(name)
    path_pattern, colon, tensor = name_without_drive.partition(":")
    pattern = drive + path_pattern
    if pattern.count("/") > MAX_FOLDERS:
        return [name]
    files = [f"{path}{colon}{tensor}" for path in _match_paths(folder, pattern)]
    return files or [name]


def _match_paths(folder: str, pattern: str) -> list[str]:
    """Return the paths that a pattern matches, sorted; folders only if it ends with a slash."""
    paths = sorted(glob.glob(pattern, root_dir=folder, recursive=True))
    if pattern.endswith("/"):
        return paths
    return [path for path in paths if not os.path.isdir(os.path.join(folder, path))]
