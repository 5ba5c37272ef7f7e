"""Segments of a prompt: text, images and videos, in the order of their tokens."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pecli.engine.arguments import texts_of
from pecli.errors import KindError, ParameterError, quoted

TEXT = "text"
IMAGE = "image"
VIDEO = "video"
SEGMENT = re.compile(
    r"(text|audio):(\d{1,9})|(image|video):((?:\d{1,6}x){1,2}\d{1,6})(?:@([\d.]{1,12}))?"
)
MAX_TOKENS = 1 << 24
RULE = "segments are such as text:12, image:16x22, image:1x16x22, video:4x16x22@0.5 or audio:50"


@dataclass(frozen=True)
class Segment:
    """A part of a prompt.

    Attributes:
        kind: `text`, `image`, `video` or `audio`.
        count: The number of tokens of text or audio.
        grid: Frames, rows and columns of an image or a video: of patches before any merging in a
            model with M-RoPE, of tokens in a diffusion model.
        seconds: Seconds between two frames of a video.
    """

    kind: str
    count: int = 0
    grid: tuple[int, int, int] = (1, 1, 1)
    seconds: float = 1.0

    @property
    def is_vision(self) -> bool:
        return self.kind in (IMAGE, VIDEO)

    @property
    def size(self) -> int:
        """The number of tokens, or of patches before merging."""
        return math.prod(self.grid) if self.is_vision else self.count

    def __str__(self) -> str:
        if not self.is_vision:
            return f"{self.kind}:{self.count}"
        sizes = "x".join(map(str, self.grid))
        seconds = f"@{self.seconds:g}" if self.kind == VIDEO and self.seconds != 1 else ""
        return f"{self.kind}:{sizes}{seconds}"


Prompt = tuple[Segment, ...]
"""The segments of one prompt."""
Prompts = str | Sequence[str]
"""A prompt as a text, «text:12,image:1x16x22», or a batch as a list of them."""


def parse_prompts(prompts: Prompts) -> list[Prompt]:
    """Return the prompts of a batch; a text is a batch of one."""
    texts = texts_of("segments", prompts)
    if not texts:
        raise ParameterError("segments", "empty", RULE)
    return [parse_prompt(text) for text in texts]


def parse_prompt(prompt: str) -> Prompt:
    """Return the segments of a prompt.

    Raises:
        ParameterError: A segment is wrong, or there are too many tokens.

    >>> [str(segment) for segment in parse_prompt("text:12,image:16x22")]
    ['text:12', 'image:1x16x22']
    """
    if not isinstance(prompt, str):
        raise KindError("segments", quoted(prompt), RULE)
    parsed = tuple(map(_parse_segment, prompt.split(",")))
    tokens = sum(segment.size for segment in parsed)
    if tokens > MAX_TOKENS:
        raise ParameterError("segments", f"{tokens:,} tokens", f"at most {MAX_TOKENS:,} are made")
    return parsed


def _parse_segment(text: str) -> Segment:
    """Return the segment of `text:12`, `image:16x22` or `video:8x16x22@1.5` (seconds per frame)."""
    match = SEGMENT.fullmatch(text.strip())
    if match is None:
        raise ParameterError("segments", quoted(text), RULE)
    text_kind, count, vision_kind, sizes, seconds = match.groups()
    if text_kind:
        return Segment(text_kind, count=int(count))
    grid = _parse_grid(text, sizes)
    frames, _, _ = grid
    is_single_image = frames == 1 and not seconds
    if vision_kind == IMAGE and not is_single_image:
        rule = "an image has a single frame, and no seconds"
        raise ParameterError("segments", quoted(text), rule, "use video:TxHxW@SECONDS")
    return Segment(vision_kind, grid=grid, seconds=_seconds(text, seconds))


def _parse_grid(text: str, sizes: str) -> tuple[int, int, int]:
    """Return frames, rows and columns of «4x16x22»; «16x22» is a single frame."""
    sides = [int(side) for side in sizes.split("x")]
    frames, rows, columns = [1, *sides][-3:]
    grid = (frames, rows, columns)
    if not all(grid):
        raise ParameterError("segments", quoted(text), "no size may be 0")
    return grid


def _seconds(text: str, seconds: str | None) -> float:
    """Return the seconds between two frames, 1 if they are not stated."""
    try:
        return float(seconds or 1)
    except ValueError:
        raise ParameterError("segments", quoted(text), "seconds must be a number") from None
