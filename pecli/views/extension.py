"""The settings of a longer context, for people."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pecli.checks.extend import Extension
from pecli.models.encoding import ModelEncodings
from pecli.views import drift, notebook, screen

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def show_extension(found: Extension) -> None:
    """What to write where, who honours it, and what it changes."""
    to = f"{found.original:,} → {found.to:,} positions by {found.method}, factor {found.factor:g}"
    screen.say_styled((f"{found.model}: {to}", "bold"))
    if found.reason:
        screen.say_wrapped(found.reason)
    spellings = {
        "config.json": json.dumps(found.config)[1:-1],
        "config.json, transformers 5": json.dumps({"rope_parameters": found.rope_parameters})[1:-1],
        **found.commands,
        "GGUF": ", ".join(f"ARCH.{key} = {value}" for key, value in (found.gguf or {}).items()),
    }
    for name, text in spellings.items():
        if text:
            screen.say()
            screen.say_styled((name, "bold cyan"))
            screen.say(f"  {text}")
    screen.say()
    screen.say_styled(("runtimes", "bold cyan"))
    drift.say_runtimes(found.runtimes, "  ")
    waves = found.wavelengths()
    screen.say()
    kept = screen.counted(waves["kept"], "wavelength")
    screen.say(f"{kept} kept, {waves['blended']} stretched by less, {waves['stretched']} by {found.factor:g}")
    for note in found.notes:
        screen.say_wrapped(note)


def extension_picture(found: Extension) -> Figure:
    """The wavelengths before and after."""
    models = [ModelEncodings(found.model, None, (encoding,)) for encoding in (found.before, found.after)]
    labels = ["as it is", f"{found.method}, factor {found.factor:g}"]
    return notebook.plot(*models, kind="wavelengths", labels=labels)
