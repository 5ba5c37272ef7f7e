"""The commands: where each lives, in which part of the list it stands, and by which other words people look for it."""

from __future__ import annotations

from pecli.engine.schemes.registry import SCHEMES

_GENERATE = "pecli.cli.generate"
PANELS = {
    "Make tables": dict.fromkeys(SCHEMES, _GENERATE),
    "Read models": {"config": "pecli.cli.config", "models": "pecli.cli.models"},
    "Check files": {
        "verify": "pecli.cli.verify",
        "diff": "pecli.cli.diff",
        "identify": "pecli.cli.identify",
        "audit": "pecli.cli.audit",
    },
    "Look at them": {"inspect": "pecli.cli.inspect", "plot": "pecli.cli.plot"},
    "Change tensors": {"apply": "pecli.cli.apply", "convert": "pecli.cli.convert", "resize": "pecli.cli.resize"},
}
"""The list of commands in its parts; a module is imported when its command is called, or listed."""

COMMANDS = {name: module for panel in PANELS.values() for name, module in panel.items()}

_ALSO = {
    "verify": ("check", "validate", "test", "assert"),
    "diff": ("compare", "cmp", "difference"),
    "identify": ("detect", "guess", "what", "recognise", "recognize"),
    "plot": ("draw", "heatmap", "show", "view", "curves", "wavelengths"),
    "inspect": ("info", "ls", "list", "cat", "head", "stats"),
    "config": ("model", "read"),
    "models": ("presets",),
    "audit": ("drift", "precision", "error", "errors"),
    "convert": ("cast", "permute"),
    "resize": ("interpolate", "resample"),
    "learned-init": ("learned", "init", "embedding"),
    "rope": ("rotary", "yarn", "ntk", "llama"),
    "sinusoidal": ("sin", "sine", "generate", "make", "create"),
    "apply": ("rotate", "add"),
}
"""Words for which somebody may look who wants the command."""


def module_of(command: str) -> str:
    """Where a command lives; empty where there is none of that name."""
    return COMMANDS.get(command) or (_GENERATE if command in SCHEMES else "")


def panel_of(command: str) -> str:
    """The part of the list that a command stands in; schemes that were registered are at the end of the first."""
    return next((panel for panel, commands in PANELS.items() if command in commands), next(iter(PANELS)))


def meant(word: str) -> str:
    """The command that another word is likely to mean; empty where none is.

    >>> meant("compare")
    'diff'
    """
    return next((command for command, words in _ALSO.items() if word.lower() in words), "")
