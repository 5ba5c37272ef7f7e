"""Data files beside the modules of this package: presets, golden cases, templates of pages."""

import pkgutil


def package_bytes(package: str, name: str) -> bytes:
    """Return the content of a file in the folder of a package, such as `pecli.golden`, `cases.json`.

    The loader of the package reads it, so that it is also found in a zip archive (a zipapp), in
    which it has no path that `open` accepts.
    """
    data = pkgutil.get_data(package, name)
    assert data is not None  # Loaders of modules on disk and in archives return data.
    return data


def package_text(package: str, name: str) -> str:
    """Return the text of a file in the folder of a package."""
    return package_bytes(package, name).decode("utf-8")
