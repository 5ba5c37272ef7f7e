"""Repositories in the local cache of Hugging Face, as its libraries lay them out; nothing is ever fetched.

A repository `org/name` is the folder `models--org--name`, in which `refs/main` holds the name of a commit and
`snapshots/<commit>` its files, as links.
"""

from __future__ import annotations

import os
import re

REPOSITORY = re.compile(r"[\w-][\w.-]{0,95}(?:/[\w-][\w.-]{0,95})?(?:@[\w-][\w./-]{0,95})?", re.ASCII)
"""`name` or `org/name`, and a branch, tag or commit after an @."""
MAX_REF = 256


def cache_folder() -> str:
    """Where the cache is: `HF_HUB_CACHE`, or `hub` in `HF_HOME`, or in ~/.cache/huggingface."""
    environ = os.environ
    cache = environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE")
    if cache:
        return os.path.expanduser(cache)
    home = environ.get("HF_HOME") or os.path.join(environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return os.path.join(os.path.expanduser(home), "hub")


def is_repository(name: str) -> bool:
    """Whether a word can name a repository.

    >>> is_repository("meta-llama/Llama-3.1-8B"), is_repository("../config.json")
    (True, False)
    """
    return REPOSITORY.fullmatch(name) is not None and ".." not in name


def snapshot(name: str) -> str | None:
    """The folder with the files of a repository; None where it is not in the cache."""
    if not is_repository(name):
        return None
    name, _, revision = name.partition("@")
    folder = os.path.join(cache_folder(), f"models--{name.replace('/', '--')}")
    snapshots = os.path.join(folder, "snapshots")
    commits = [_read(os.path.join(folder, "refs", revision or "main")), revision]
    if not revision:
        commits += _newest_first(snapshots)
    for commit in filter(None, commits):
        path = os.path.join(snapshots, commit)
        if "/" not in commit and os.path.isdir(path):
            return path
    return None


def _read(path: str) -> str:
    """The commit in a ref; empty where there is none."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read(MAX_REF).strip()
    except (OSError, ValueError):
        return ""


def _newest_first(folder: str) -> list[str]:
    """All snapshots, for a cache without a ref, as a download by commit leaves it."""
    try:
        with os.scandir(folder) as entries:
            found = [(entry.stat().st_mtime, entry.name) for entry in entries]
    except OSError:
        return []
    return [name for _, name in sorted(found, reverse=True)]
