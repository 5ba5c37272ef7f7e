"""`pecli positions`: position ids as a model builds them."""

from __future__ import annotations

from pecli.checks.verify_positions import verify_positions
from pecli.cli import options
from pecli.cli.answers import answer, print_answer
from pecli.cli.commands import command
from pecli.cli.messages import Exit
from pecli.engine.arrays import Indices
from pecli.errors import ParameterError
from pecli.files import save
from pecli.models.position_ids import PADDINGS
from pecli.models.position_ids import positions as position_ids
from pecli.tensors.inputs import read_numbers
from pecli.views import position_ids as view

_SEGMENTS = (
    "The prompt: text:12,image:1x16x22,video:4x16x22@0.5,audio:50. Repeat it for a batch. Images "
    "are frames, rows and columns of patches (tokens for diffusion models), @ seconds per frame."
)
_MASK = "1 for tokens, 0 for padding, (L,) or (batch, L)."
_PADDING = f"Side of the padding of a batch: {' or '.join(PADDINGS)}. (default: right)"


@command(
    *options.ONE_MODEL,
    options.text("--segments", "LIST", _SEGMENTS, several=True),
    options.text("--attention-mask", "FILE", _MASK),
    options.text("--padding", "SIDE", _PADDING, choices=PADDINGS, default="right"),
    options.text("--verify", "FILE", "Compare these ids with the model's.", options.CHECK),
    options.output(options.TABLES),
    *options.ANSWER,
)
def positions(
    named: str | None,
    model: str | None,
    config: str | None,
    segments: list[str],
    attention_mask: str | None,
    padding: str,
    verify: str | None,
    output: str | None,
    json: bool,
    quiet: bool,
) -> int:
    """Print or write the position ids of a prompt, as a model's own code builds them; or check yours.

    M-RoPE models (Qwen2-VL, GLM-4V, …) have (3, L): time, rows, columns; diffusion models (L, axes).
    Exit code 1: with --verify, if ids differ.

    Examples:
      pecli positions --model qwen2.5-vl-7b --segments text:12,image:1x16x22,text:5 -o ids.npy
      pecli positions qwen3-vl-4b --segments text:4,image:16x22 --segments text:9 --padding left
      pecli positions flux.1-dev --segments text:512,image:64x64 --verify ids.npy
    """
    name = options.one_model({"named": named, "config": config, "model": model})
    if not segments:
        rule = "name the prompt"
        raise ParameterError("segments", "missing", rule, "--segments text:12,image:1x16x22,text:5")
    mask = None if attention_mask is None else read_numbers("attention_mask", attention_mask)
    if verify is not None:
        if output is not None:
            raise ParameterError("output", output, "it is for ids that are made, not for --verify")
        ids = read_numbers("verify", verify)
        check = verify_positions(
            ids, name, segments, attention_mask=mask, padding=padding, subject=verify
        )
        return answer(check, view.show_check, json=json, quiet=quiet)
    ids_of_model = position_ids(name, segments, attention_mask=mask, padding=padding)
    _answer_with_ids(ids_of_model, output, json=json, quiet=quiet)
    return Exit.DONE


def _answer_with_ids(ids: Indices, output: str | None, *, json: bool, quiet: bool) -> None:
    """Write or print ids; JSON has them as lists."""
    if output is not None:
        options.check_output(output, json=json)
        save(output, {"position_ids": ids})
    print_answer(
        lambda: {"shape": list(ids.shape), "position_ids": ids.tolist(), "output": output},
        lambda: view.show_ids(ids, output),
        json=json,
        quiet=quiet,
    )
