"""Files that should hold positional tables of a model, and hold none."""

from pecli.checks.verify.model_tensors import ModelTensors
from pecli.engine.named_values import JsonObject
from pecli.errors import NoTablesError, counted, listed

ARRAY_DUMP = "to dump them: numpy.savez('dump.npz', q_before=…, q_after=…), see samples/dump"
GGUF_DUMP = "to dump them: llama-eval-callback -m FILE -p 'some words' > dump.log, see samples/dump"
"""Commands that make a file which can be checked, for one that has nothing to check."""
MAX_TENSORS_NAMED = 4  #: tensors that an error names
FACTOR_SCALINGS = ("llama3", "longrope")  #: scalings whose factors a .gguf file holds as tensors


def make_no_tables_error(file: str, tensors: ModelTensors) -> NoTablesError:
    """Return the error for a file without any table, with advice on how to dump one.

    Args:
        file: The file, as it was given; empty for arrays.
        tensors: Its tensors.
    """
    schemes = sorted(tensors.schemes)
    held = counted(len(tensors.tensors) + len(tensors.file.unread), "tensor")
    if tensors.tensors:
        held = f"{held}: {listed(list(tensors.tensors), MAX_TENSORS_NAMED)}"
    problem = f"has no positional tables of {' or '.join(schemes)} ({held})"
    advice = "modern checkpoints compute them: use a dump, or name a tensor, FILE:NAME"
    if "rope" in schemes:
        dump = GGUF_DUMP if tensors.file.format == "gguf" else ARRAY_DUMP
        advice += f"; queries or keys after the rotation go with --before FILE; {dump}"
    return NoTablesError(file or "arrays", problem, advice)


def _is_part_of_model(keys: JsonObject) -> bool:
    """Return True if the header of a .gguf file states that the model has several files.

    `llama-gguf-split` writes their number into each of them, and 0 into a file that it has merged.
    """
    count = keys.get("split.count")
    return isinstance(count, int) and count > 1


def find_lost_scalings(tensors: ModelTensors) -> list[str]:
    """Return a sentence for each scaling whose factors a .gguf file should hold, and does not.

    The header of a .gguf file has no key for llama3's or longrope's factors: without the
    tensor, llama.cpp rotates as if there were no scaling.
    """
    file = tensors.file
    if file.format != "gguf":
        return []
    from pecli.checks.model_forms import GGUF, lost_scaling
    from pecli.files.gguf_file import header_of

    if _is_part_of_model(header_of(file.path).values):
        return []  # The factors may be in another file of the same model.
    sentences = []
    for encoding in tensors.encodings:
        if encoding.parameters.get("scaling") in FACTOR_SCALINGS:
            sentences.append(lost_scaling(encoding, GGUF))
    return list(dict.fromkeys(sentences))
