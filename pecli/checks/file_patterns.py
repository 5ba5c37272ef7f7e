"""Patterns of files in a manifest, such as `dumps/**/*.npz` or `*.npz:cos`."""

import glob
import os

MAX_FOLDERS = 100
"""Folders in a pattern: beyond, Python's recursion ends, and so do the paths of file systems."""


def matching_files(folder: str, name: str) -> list[str]:
    """Return the files that a pattern matches, in order; anything else is the name of one file.

    A file of the very name comes first: `q[1].npy` is not a pattern if there is such a file. A
    pattern that matches nothing is returned as it is, so that the file is reported as missing.
    Folders match only a pattern that ends with a slash. `:cos` at the end names a tensor.
    """
    is_name = not glob.has_magic(name) or os.path.lexists(os.path.join(folder, name))
    if is_name:
        return [name]
    drive, rest = os.path.splitdrive(name)  # The colon of C:/ does not name a tensor.
    path, colon, tensor = rest.partition(":")
    pattern = drive + path
    if pattern.count("/") > MAX_FOLDERS:
        return [name]
    files = []
    for path in sorted(glob.glob(pattern, root_dir=folder or None, recursive=True)):
        if pattern.endswith("/") or not os.path.isdir(os.path.join(folder, path)):
            files.append(f"{path}{colon}{tensor}")
    return files or [name]
