"""Ids of M-RoPE: three per token, for time, rows and columns.

Text has the same number on all three axes. An image or a video begins at the next number, and its
tokens add their frame, row and column to it. Text after it continues beyond the grid.

    text:2,image:1x4x6,text:2 with a merge size of 2 (2 × 3 tokens):

    time     0 1  2 2 2 2 2 2  5 6
    rows     0 1  2 2 2 3 3 3  5 6
    columns  0 1  2 3 4 2 3 4  5 6
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from pecli.engine.arrays import Indices
from pecli.errors import ParameterError
from pecli.models.position_ids.segments import VIDEO, Prompt, Segment

AXIS_NAMES = ("time", "rows", "columns")


class Continues(StrEnum):
    """The number at which text continues after an image or a video."""

    #: After as many numbers as the larger of rows and columns, as in transformers 5.
    GRID = "rows and columns"
    #: After the largest id of any axis, as in Qwen's paper, transformers 4 and vLLM.
    LARGEST = "largest id"
    #: After as many numbers as there are tokens, which is a mistake.
    TOKENS = "tokens"
    #: At the number after the first id of the image, which is a mistake.
    FIRST = "first id"


@dataclass(frozen=True)
class MropeRules:
    """The numbering of a family; mistakes are rules that no family has.

    Attributes:
        merge: Patches per token, along rows and along columns.
        temporal_merge: Frames of a video per token.
        rate: Ids per second of a video; None if frames are numbered 0, 1, 2, ….
        seconds_first: Seconds are multiplied before the rate; the order matters in float32.
        frames_apart: Every frame of a video is a segment of its own, after a text with its time.
        continues: Where text continues after an image.
        padding_id: The id of padding.
        first: The first id.
        begins_at_zero: Images begin at 0, which is a mistake.
        columns_first: Tokens of an image come column by column, which is a mistake.
        is_flat: All axes count tokens, which is a mistake.
    """

    merge: int = 2
    temporal_merge: int = 1
    rate: float | None = None
    seconds_first: bool = False
    frames_apart: bool = False
    continues: Continues = Continues.GRID
    padding_id: int = 0
    first: int = 0
    begins_at_zero: bool = False
    columns_first: bool = False
    is_flat: bool = False

    def ids(self, segments: Prompt) -> Indices:
        """Return the ids of a prompt (3, L): time, row and column of every token.

        A text of 4 tokens has the ids 0, 1, 2, 3 on all three axes. An image of 2 × 3 tokens after
        it has the rows 4 and 5 and the columns 4, 5 and 6. In Qwen2-VL, the next text begins at 7,
        after the largest of these ids; other models have other rules.
        """
        ids_by_segment = []  # Each is (3, tokens of the segment).
        next_id = self.first
        for segment in segments:
            if segment.is_vision:
                ids_from_zero = self._vision_ids(segment)
                first_id = 0 if self.begins_at_zero else next_id
                ids_by_segment.append(ids_from_zero + first_id)
                next_id += self._step_after_image(ids_from_zero)
            else:
                ids_by_segment.append(_text_ids(next_id, segment.count))
                next_id += segment.count
        ids_of_prompt: Indices = np.concatenate(ids_by_segment, axis=1)
        if self.is_flat:
            token_count = ids_of_prompt.shape[1]
            return _text_ids(0, token_count)
        return ids_of_prompt

    def _vision_ids(self, segment: Segment) -> Indices:
        """Return the ids (3, tokens) of an image or a video that begins at 0.

        An image of 2 × 2 tokens has the times 0 0 0 0, the rows 0 0 1 1 and the columns 0 1 0 1.
        """
        frames, rows, columns = self._tokens(segment)
        times = self._frame_ids(segment, frames)
        grids = np.meshgrid(times, np.arange(rows), np.arange(columns), indexing="ij")
        points = np.stack(grids)  # (axes, frames, rows, columns)
        if self.columns_first:
            points = points.swapaxes(2, 3)
        ids: Indices = points.reshape(3, -1)
        return ids

    def _tokens(self, segment: Segment) -> tuple[int, int, int]:
        """Return the frames, rows and columns of tokens.

        If 2 × 2 patches are merged into a token, an image of 16 × 22 patches has 8 × 11 tokens.

        Raises:
            ParameterError: The patches do not make whole tokens, or frames are not apart.
        """
        frames, rows, columns = segment.grid
        if rows % self.merge or columns % self.merge:
            rule = f"rows and columns must be multiples of {self.merge}, the model's merge size"
            raise ParameterError("segments", str(segment), rule, "they count patches, not tokens")
        if segment.kind == VIDEO:
            frames = self._token_frames(segment)
        return frames, rows // self.merge, columns // self.merge

    def _token_frames(self, segment: Segment) -> int:
        """Return the frames of a video's tokens: ERNIE 4.5 VL merges two frames of patches into one.

        Raises:
            ParameterError: The frames must be segments of their own, or do not make whole tokens.
        """
        frames, rows, columns = segment.grid
        if self.frames_apart and frames > 1:
            rule = "this model has a text with the time before each frame"
            advice = f"give each frame: video:1x{rows}x{columns},text:N,video:1x{rows}x{columns}"
            raise ParameterError("segments", str(segment), rule, advice)
        if frames % self.temporal_merge:
            rule = f"frames must be a multiple of {self.temporal_merge}"
            raise ParameterError("segments", str(segment), rule)
        return frames // self.temporal_merge

    def _frame_ids(self, segment: Segment, frames: int) -> Indices:
        """Return the ids of frames, which transformers computes in float32 and rounds down.

        At 2 ids per second, frames that are half a second apart have the ids 0, 1, 2, ….
        """
        frame_numbers = np.arange(frames)
        if self.rate is None or segment.kind != VIDEO:
            return frame_numbers
        ids_per_second = np.float32(self.rate)
        seconds_per_frame = np.float32(segment.seconds)
        numbers = frame_numbers.astype(np.float32)
        # The order of the products decides how float32 rounds.
        if self.seconds_first:
            ids = (numbers * seconds_per_frame) * ids_per_second
        else:
            ids = numbers * (ids_per_second * seconds_per_frame)
        return ids.astype(np.int64)

    def _step_after_image(self, ids: Indices) -> int:
        """Return by how much the next text starts after the first id of an image.

        Models differ: it is the larger side of the grid, the largest id and one, the number of
        tokens, or 1. The ids (3, L) of the image begin at 0.
        """
        _, rows, columns = ids
        match self.continues:
            case Continues.GRID:
                return int(max(rows.max(), columns.max())) + 1
            case Continues.LARGEST:
                return int(ids.max()) + 1
            case Continues.TOKENS:
                return len(rows)
            case Continues.FIRST:
                return 1


def _text_ids(start: int, count: int) -> Indices:
    """Return the ids of text (3, count), which counts on all axes alike."""
    return np.tile(np.arange(count) + start, (3, 1))
