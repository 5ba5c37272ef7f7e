"""The TOML of a manifest, read without letting a hostile file take much time or memory."""

import re
import tomllib

from pecli.errors import FileError, ParameterError
from pecli.files.contents import read_contents

MAX_BYTES = 512 << 10
"""Enough for thousands of checks. The standard library's parser takes up to 240 times as much."""
_KEY = r"""(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)"""
_NESTED = re.compile(rf"^[ \t]*+\[{{0,2}}+[ \t]*+{_KEY}{{2}}|(?<![\w-]){_KEY}{{32}}", re.M)
"""A key of three parts or more at the beginning of a line, or of 32 anywhere: the standard parser's
time and memory grow with the square of them."""


def read_toml(path: str) -> dict[str, object]:
    """Return the contents of a manifest, without trusting the file.

    The standard library's parser takes time and memory that grow with the square of the parts of a
    key, so that a small file of `a.a.a.a…` would stop the machine. Such keys, and large files, are
    refused before they are parsed.

    Raises:
        FileError: The file cannot be read, or is not TOML.
        ParameterError: It is larger, or nested deeper, than a manifest can be.
    """
    data = read_contents(path).data
    if len(data) > MAX_BYTES:
        size = f"larger than {MAX_BYTES >> 10} KB"
        rule = "a manifest has thousands of checks at most"
        raise ParameterError(path, size, rule, "split it: verify takes several")
    try:
        text = bytes(data).decode()
    except UnicodeDecodeError:
        raise FileError(path, "is not UTF-8", "a manifest is TOML, in UTF-8") from None
    _refuse_nested_keys(path, text)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        message = " ".join(str(problem).split())
        raise FileError(path, f"is not TOML: {message}") from None


def _refuse_nested_keys(path: str, text: str) -> None:
    """Raise ParameterError for a key of more parts than any key of a manifest has: `a.a.a = 1`."""
    nested = _NESTED.search(text)
    if nested is not None:
        line = text.count("\n", 0, nested.start()) + 1
        rule = "a manifest has [defaults] and [[check]]"
        raise ParameterError(path, f"nested too deep in line {line}", rule)
