"""Position ids, compared with those that a model's own code builds; mistakes are named."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pecli.checks import Answer
from pecli.compare.factors import without_ones
from pecli.engine.arrays import Indices
from pecli.engine.named_values import JsonObject
from pecli.errors import ParameterError
from pecli.models.find import Model
from pecli.models.position_ids import IdRules, built_ids, id_rules
from pecli.models.position_ids.mrope import AXIS_NAMES, Continues, MropeRules
from pecli.models.position_ids.segments import TEXT, Prompt, Prompts, Segment, parse_prompts

OTHER_CONVENTION = (
    "text after a video continues after its largest id, as in transformers 4 and vLLM; "
    "transformers 5 continues after its rows and columns"
)


@dataclass(frozen=True, repr=False)
class PositionCheck(Answer):
    """The comparison of position ids with those of a model.

    Attributes:
        subject: The file or array.
        shape: Its shape.
        expected_shape: The shape that the model's own code builds.
        mismatched: The number of ids that differ; None if the shapes do.
        first: The index of the first one.
        expected: The id that the model has there.
        found: The id that was given.
        reasons: The mistakes that explain all ids, or else where they begin.
        notes: How the ids were read.
    """

    subject: str
    shape: tuple[int, ...]
    expected_shape: tuple[int, ...]
    mismatched: int | None = 0
    first: tuple[int, ...] | None = None
    expected: int | None = None
    found: int | None = None
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return self.mismatched == 0

    def words(self) -> tuple[str, ...]:
        return self.subject, *self.reasons

    def as_json(self) -> JsonObject:
        """Return the object that `pecli positions --verify --json` prints."""
        return {
            "file": self.subject,
            "passed": self.passed,
            "shape": list(self.shape),
            "expected_shape": list(self.expected_shape),
            "mismatched": self.mismatched,
            "worst_index": None if self.first is None else list(self.first),
            "expected": self.expected,
            "found": self.found,
            "diagnosis": list(self.reasons),
            "notes": list(self.notes),
        }


def verify_positions(
    ids: npt.ArrayLike,
    model: Model,
    segments: Prompts,
    *,
    attention_mask: npt.ArrayLike | None = None,
    padding: str = "right",
    subject: str = "ids",
) -> PositionCheck:
    """Compare position ids with those that a model's own code builds, and name what is wrong.

    Args:
        ids: The ids.
        model: The model, the segments, the mask and the padding as in `pecli.positions`.
        segments: The prompt, or a batch of prompts.
        attention_mask: 1 for tokens and 0 for padding, (L,) or (batch, L).
        padding: The side of the padding of a batch without a mask.
        subject: The name of the ids in the answer.

    Raises:
        ParameterError: The ids are not whole numbers, or a parameter is wrong.

    >>> found = [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]]
    >>> verify_positions(found, "qwen2.5-vl-7b", "text:3,image:1x2x2").passed
    True
    """
    rules = id_rules(model)
    prompts = parse_prompts(segments)
    case = _Case(rules=rules, prompts=prompts, attention_mask=attention_mask, padding=padding)
    whole_ids = _require_whole(ids)
    expected = case.ids(rules)
    found, notes = _read_as(whole_ids, expected.shape)
    passed = PositionCheck(
        subject=subject, shape=found.shape, expected_shape=expected.shape, notes=notes
    )
    if np.array_equal(found, expected):
        return passed
    if _is_other_convention(case, found):
        return replace(passed, notes=(*notes, OTHER_CONVENTION))
    return _with_mistakes(passed, case, found, expected)


def _require_whole(ids: npt.ArrayLike) -> Indices:
    """Return ids as integers; floats that are whole numbers, as Flux has them, are accepted."""
    array = np.asarray(ids)
    if array.dtype.kind not in "iuf" or not array.size:
        raise ParameterError("ids", f"{array.dtype}, {array.shape}", "ids are whole numbers")
    with np.errstate(invalid="ignore"):
        whole = array.astype(np.int64)
    if not np.array_equal(whole, array):
        raise ParameterError("ids", "fractions", "ids are whole numbers")
    return whole


def _read_as(found: Indices, shape: tuple[int, ...]) -> tuple[Indices, tuple[str, ...]]:
    """Return ids in the model's shape if only axes of length 1 differ, and notes on that.

    (1, 3, 40) is read as (3, 40), with a note; any other shape is left as it is, without one.
    """
    if found.shape == shape:
        return found, ()
    if without_ones(found.shape) == without_ones(shape):
        return found.reshape(shape), (f"{found.shape} is read as {shape}",)
    return found, ()


class _Case(NamedTuple):
    """The prompts of a check, and how they are padded."""

    rules: IdRules
    prompts: Sequence[Prompt]
    attention_mask: npt.ArrayLike | None
    padding: str

    def ids(self, rules: IdRules) -> Indices:
        return built_ids(rules, self.prompts, self.attention_mask, self.padding)

    def ids_counting_padding(self, shape: tuple[int, ...]) -> Indices:
        """Return ids of this shape, (…, L), if padding is counted like text.

        Prompts are padded to the length L with text, so that positions do not start at the first
        token: two tokens after two of padding have the positions 2 and 3, not 0 and 1.
        """
        padded_length = shape[-1]
        ids_of_prompts = []
        for prompt in self.prompts:
            token_count = self.rules.row(prompt).shape[-1]
            padding = Segment(TEXT, padded_length - token_count)
            padded_prompt = (padding, *prompt) if self.is_padded_left else (*prompt, padding)
            ids_of_prompts.append(self.rules.row(padded_prompt))  # (L,), or (axes, L)
        return np.stack(ids_of_prompts, axis=-2).reshape(shape)

    @property
    def is_padded_left(self) -> bool:
        if self.attention_mask is None:
            return self.padding == "left"
        return bool((np.atleast_2d(self.attention_mask)[:, 0] == 0).any())


def _is_other_convention(case: _Case, found: Indices) -> bool:
    """Return True if text continues after the largest id, which is as good a convention."""
    mrope = case.rules.mrope
    if mrope is None or mrope.continues != Continues.GRID:
        return False
    other = replace(mrope, continues=Continues.LARGEST)
    return np.array_equal(found, case.ids(replace(case.rules, mrope=other)))


def _with_mistakes(
    check: PositionCheck, case: _Case, found: Indices, expected: Indices
) -> PositionCheck:
    """Return a check of wrong position ids with the first wrong one, and the reasons.

    The reasons are known mistakes that explain all ids. If there is none, the reason is the first
    part of the prompt that is wrong, or else the shape.

    Args:
        check: The check without mistakes.
        case: The prompts, and how they are padded.
        found: The ids that were given.
        expected: The ids of the model.
    """
    mistakes = _list_mistakes(case, expected)
    known_mistakes = tuple(mistake.sentence for mistake in mistakes if mistake.makes(found))
    if found.shape != expected.shape:
        shapes = f"they have the shape {found.shape}, and the model's {expected.shape}"
        return replace(check, mismatched=None, reasons=known_mistakes or (shapes,))
    wrong_indices = np.argwhere(found != expected)
    first = tuple(map(int, wrong_indices[0]))
    return replace(
        check,
        mismatched=len(wrong_indices),
        first=first,
        expected=int(expected[first]),
        found=int(found[first]),
        reasons=known_mistakes or tuple(_find_first_wrong_segment(case, found, expected)),
    )


class _WrongNumbering(NamedTuple):
    """A known mistake with position ids: the sentence that names it, and the ids that it leads to."""

    sentence: str
    make_ids: Callable[[], Indices]

    def makes(self, found: Indices) -> bool:
        """Return True if the mistake leads to exactly these ids."""
        with suppress(ParameterError):  # A mistake may not fit the sizes of an image.
            return np.array_equal(found, self.make_ids())
        return False


def _list_orders(rules: IdRules, expected: Indices) -> Iterator[_WrongNumbering]:
    """Yield the wrong orders of the axes of a position: rows, columns, time instead of time, rows, columns.

    M-RoPE's ids are (3, L), with an axis each for time, rows and columns; those of diffusion models
    such as Flux, which have a style, are (L, 3) or (L, 4). In other models a position is one number.
    """
    if _is_diffusion_model(rules):
        yield from _permute_numbers(expected, -1, ("time", "rows", "columns", "text"))
    elif rules.mrope is not None:
        yield from _permute_numbers(expected, 0, AXIS_NAMES)


def _permute_numbers(
    expected: Indices, axis: int, names: Sequence[str]
) -> Iterator[_WrongNumbering]:
    """Yield the wrong orders of the numbers of a position: of 3 numbers, 5 orders.

    Args:
        expected: The ids of the model.
        axis: The axis of the ids along which a position has its numbers, 0 for (3, L).
        names: The names of these numbers.
    """
    count = expected.shape[axis]
    _, *wrong_orders = permutations(range(count))  # The first one is the right order: 0, 1, 2.
    for order in wrong_orders:
        words = ", ".join(names[index] for index in order)
        sentence = f"the axes are in another order: {words}"
        yield _WrongNumbering(sentence, partial(np.take, expected, order, axis))


def _list_mistakes(case: _Case, expected: Indices) -> Iterator[_WrongNumbering]:
    """Yield the known mistakes with which a port may number the tokens of such prompts.

    Each comes with the ids that it leads to, so that ids of the user can be compared with them.
    """
    shape = expected.shape
    sentence = f"they are transposed: {shape[::-1]} instead of {shape}"
    yield _WrongNumbering(sentence, expected.transpose)
    yield from _list_orders(case.rules, expected)
    yield from _list_mistakes_of_mrope(case)
    if _is_diffusion_model(case.rules):
        yield from _list_ids_before_packing(case, expected)
    # Prompts of a batch are padded to one length. One prompt is padded only if a mask states it.
    may_be_padded = case.attention_mask is not None or len(case.prompts) > 1
    if may_be_padded:
        sentence = "padding is counted: the attention mask is ignored"
        yield _WrongNumbering(sentence, partial(case.ids_counting_padding, expected.shape))


def _is_diffusion_model(rules: IdRules) -> bool:
    """Return True for a model such as Flux, whose ids follow a style; language models have none."""
    return bool(rules.style)


def _list_mistakes_of_mrope(case: _Case) -> Iterator[_WrongNumbering]:
    """Yield the mistakes of models with M-RoPE, which have ids for the time, row and column of a token.

    The ids are built again by rules with one mistake each, such as numbering patches instead of
    tokens. Nothing is yielded for models without M-RoPE.
    """
    mrope = case.rules.mrope
    if mrope is None:
        return
    for sentence, wrong_mrope in _make_wrong_rules(mrope):
        wrong_rules = replace(case.rules, mrope=wrong_mrope)
        yield _WrongNumbering(sentence, partial(case.ids, wrong_rules))


def _make_wrong_rules(rules: MropeRules) -> Iterator[tuple[str, MropeRules]]:
    """Yield known mistakes of M-RoPE, each as a sentence and as the rules that make it.

    M-RoPE gives a token ids for time, row and column. After an image of 1 × 4 × 6 patches, merged
    2 × 2 into 6 tokens, text continues 3 after the image's first id: at the larger of 2 rows and
    3 columns.
    """
    merged = f"the merge size is ignored: patches are numbered, not tokens of {rules.merge} × {rules.merge}"
    yield merged, replace(rules, merge=1)
    yield (
        "text after an image continues after as many numbers as it has tokens",
        replace(rules, continues=Continues.TOKENS),
    )
    yield (
        "text after an image continues one after the image's first id",
        replace(rules, continues=Continues.FIRST),
    )
    yield (
        "images begin at 0, not where the text before them ends",
        replace(rules, begins_at_zero=True),
    )
    yield "tokens of images come column by column", replace(rules, columns_first=True)
    if rules.rate is not None:
        yield (
            f"videos ignore seconds: frames are numbered 0, 1, 2, …, not {rules.rate:g} per second",
            replace(rules, rate=None),
        )
    else:
        yield "videos are numbered by seconds", replace(rules, rate=2.0)
    yield "they start at 1", replace(rules, first=1)
    yield "all axes count tokens, as for text alone", replace(rules, is_flat=True)


def _list_ids_before_packing(case: _Case, expected: Indices) -> Iterator[_WrongNumbering]:
    """Yield mistakes of a diffusion model: ids that belong to latents, not to tokens of 2 × 2 latents.

    An image of 4 × 6 tokens has 8 × 12 latents. Its ids are wrong if there are as many of them as
    latents, or if they are those of every other latent, so that rows are numbered 0, 2, 4, 6.
    """
    sentence = "they are built before packing: 2 × 2 latents make one token"
    latents = tuple(map(_in_latents, case.prompts[0]))
    yield _WrongNumbering(sentence, partial(case.rules.row, latents))
    every_other = expected.copy()  # (tokens, axes): time, rows, columns, …
    every_other[:, 1:3] *= 2
    yield _WrongNumbering(sentence, every_other.copy)


def _in_latents(segment: Segment) -> Segment:
    """Return a segment whose grid counts latents, of which 2 × 2 make one token; texts as they are."""
    if not segment.is_vision:
        return segment
    frames, rows, columns = segment.grid
    return replace(segment, grid=(frames, 2 * rows, 2 * columns))


def _find_first_wrong_segment(case: _Case, found: Indices, expected: Indices) -> Iterator[str]:
    """Yield a sentence on the first segment of a prompt (a text or an image) that has wrong ids.

    If no known mistake explains all ids, this is where a user has to look: «segment 1
    (image:1x16x22) begins at 0, not at 12».

    Args:
        case: The prompts, and the rules of the model.
        found: The position ids that were given.
        expected: The ids of the model, in the same shape.
    """
    if not _has_tokens_in_order(case, expected):
        return
    segments = case.prompts[0]
    lengths = [case.rules.row((segment,)).shape[-1] for segment in segments]
    ends = np.cumsum(lengths)  # 3 tokens of text and 4 of an image end at 3 and 7.
    first_wrong_token = np.flatnonzero((found != expected).any(axis=0))[0]
    number = int(np.searchsorted(ends, first_wrong_token, side="right"))
    tokens = slice(ends[number] - lengths[number], ends[number])
    mistake = _describe_segment_mistake(found[:, tokens], expected[:, tokens])
    yield f"segment {number} ({segments[number]}) {mistake}"


def _has_tokens_in_order(case: _Case, expected: Indices) -> bool:
    """Return True if ids are (axes, L) for the L tokens of one prompt, one segment after the other.

    A batch has ids (axes, batch, L), and a model without M-RoPE (L,). Diffusion models, whose rules
    have a style, have ids (L, axes).
    """
    has_one_prompt = len(case.prompts) <= 1
    is_language_model = not _is_diffusion_model(case.rules)
    return has_one_prompt and is_language_model and expected.ndim == 2


def _describe_segment_mistake(found: Indices, expected: Indices) -> str:
    """Return what is wrong with the position ids of one text or image of a prompt.

    Args:
        found: The ids that were given, (axes, tokens).
        expected: The ids of the model, in the same shape.

    Returns:
        The second half of a sentence, «begins at 0, not at 12».
    """
    offsets = np.unique(found - expected)
    if len(offsets) == 1:
        return f"begins at {found[0, 0]}, not at {expected[0, 0]}"
    counted_like_text = found[0, 0] + np.arange(found.shape[1])
    if (found == counted_like_text).all():
        return f"counts its tokens like text, {found[0, 0]} … {found[0, -1]} on all axes"
    return "is the first with wrong ids"
