"""Repositories in the local cache of Hugging Face. Nothing is downloaded.

A repository `org/name` is the folder `models--org--name`: `refs/main` holds the name of a commit,
and `snapshots/<commit>` its files, as links.
"""

import os
import re
from contextlib import suppress

#: `name` or `org/name`, and a branch, tag or commit after an @.
REPOSITORY = re.compile(
    r"[\w-][\w.-]{0,95}(?:/[\w-][\w.-]{0,95})?(?:@[\w-][\w./-]{0,95})?", re.ASCII
)
#: Bytes of a ref that are read: the name of a commit, and nothing larger.
MAX_REF = 256


def cache_folder() -> str:
    """Return the folder of the cache: `HF_HUB_CACHE`, or `hub` in `HF_HOME`, or in
    ~/.cache/huggingface.
    """
    variables = os.environ
    caches = variables.get("XDG_CACHE_HOME", "~/.cache")
    home = variables.get("HF_HOME", os.path.join(caches, "huggingface"))
    hub = variables.get("HUGGINGFACE_HUB_CACHE", os.path.join(home, "hub"))
    return os.path.expanduser(variables.get("HF_HUB_CACHE", hub))


def is_repository(name: str) -> bool:
    """Return True if a word can name a repository.

    >>> is_repository("meta-llama/Llama-3.1-8B"), is_repository("../config.json")
    (True, False)
    """
    return REPOSITORY.fullmatch(name) is not None and ".." not in name


def cached_snapshot(name: str) -> str:
    """Return the folder with the files of a repository in the local Hugging Face cache.

    `org/model@revision` names a revision; without one it is that of `main`. Empty if the cache does
    not have it: nothing is downloaded.
    """
    if not is_repository(name):
        return ""
    repository, _, revision = name.partition("@")
    folder = os.path.join(cache_folder(), f"models--{repository.replace('/', '--')}")
    for commit in _commits(folder, revision):
        # The snapshot of a commit is a folder of its name; a branch such as `refs/pr/1` has none.
        snapshot = os.path.join(folder, "snapshots", commit)
        if "/" not in commit and os.path.isdir(snapshot):
            return snapshot
    return ""


def _commits(folder: str, revision: str) -> list[str]:
    """Return the commits that a branch, tag or commit may mean; without one, the main branch.

    A download by commit leaves no ref: the newest snapshot counts.
    """
    if revision:
        return [*_commits_of_ref(os.path.join(folder, "refs", revision)), revision]
    main = _commits_of_ref(os.path.join(folder, "refs", "main"))
    return [*main, *_newest_first(os.path.join(folder, "snapshots"))]


def _commits_of_ref(path: str) -> list[str]:
    """Return the commit that a ref names, such as `refs/main`; none if there is no such ref.

    Only regular files are opened: a pipe would wait for ever.
    """
    with suppress(OSError, ValueError):
        if os.path.isfile(path):
            with open(path, encoding="ascii") as file:
                return file.read(MAX_REF).split()
    return []


def _newest_first(folder: str) -> list[str]:
    """Return the names in a folder, the one that was changed last first."""
    with suppress(OSError):
        entries = sorted(os.scandir(folder), key=lambda entry: -entry.stat().st_mtime)
        return [entry.name for entry in entries]
    return []
