"""Ids of diffusion models, (L, axes): text and the tokens of images, after packing."""

import math
from collections.abc import Callable

import numpy as np

from pecli.engine.arrays import Indices
from pecli.engine.schemes.grid_styles import ROTARY
from pecli.errors import ParameterError
from pecli.models.position_ids.segments import TEXT, Prompt, Segment

#: Z-Image pads its text to a multiple of this number of tokens, and numbers the padding as well.
Z_IMAGE_TEXT_MULTIPLE = 32
#: Distance between the references of Flux 2 on its axis of time.
FLUX2_REFERENCE_STEP = 10


def _grid(segment: Segment) -> Indices:
    """Return frame, row and column of each token, (L, 3), row-major."""
    axes = [np.arange(size) for size in segment.grid]
    grids = np.meshgrid(*axes, indexing="ij")
    stacked: Indices = np.stack(grids, axis=-1).reshape(-1, 3)
    return stacked


def _joined_ids(
    prompt: Prompt,
    ids_of_text: Callable[[Segment, int], Indices],
    ids_of_image: Callable[[Segment, int], Indices],
) -> Indices:
    """Return the ids of a prompt (L, axes), segment by segment.

    Args:
        prompt: The prompt.
        ids_of_text: Returns the ids of a text, for the number of tokens of text before it.
        ids_of_image: Returns the ids of an image, for the number of images before it.
    """
    ids_by_segment = []
    tokens_before = 0
    images_before = 0
    for segment in prompt:
        if segment.is_vision:
            ids_by_segment.append(ids_of_image(segment, images_before))
            images_before += 1
        else:
            ids_by_segment.append(ids_of_text(segment, tokens_before))
            tokens_before += segment.count
    return np.concatenate(ids_by_segment)


def _on_first_axis(segment: Segment, numbers: Indices | int) -> Indices:
    """Return the ids (L, 3) of a text that has numbers on the first axis, and zeros on the others."""
    ids = np.zeros((segment.count, 3), np.int64)
    ids[:, 0] = numbers
    return ids


def _numbered_grid(image: Segment, number: int) -> Indices:
    """Return the ids (L, 3) of an image that has a number on the first axis, and rows and columns."""
    ids = _grid(image)
    ids[:, 0] = number
    return ids


def _flux_ids(prompt: Prompt) -> Indices:
    """Return the ids (L, 3) of Flux: a number, a row and a column per token.

    Tokens of text have zeros. The image has the number 0; reference images, which Flux Kontext
    edits, have the number 1.
    """
    return _joined_ids(
        prompt,
        ids_of_text=lambda text, _: _on_first_axis(text, 0),
        ids_of_image=lambda image, images_before: _numbered_grid(image, min(images_before, 1)),
    )


def _flux2_ids(prompt: Prompt) -> Indices:
    """Return the ids (L, 4) of Flux 2: a number, a row, a column, and a position in the text.

    The first image has the number 0, references have 10, 20, …; only text counts on the last axis,
    every text from 0 on. For 2 tokens of text and two images of one row and two columns, they are
    [0 0 0 0], [0 0 0 1], then [0 0 0 0], [0 0 1 0], then [10 0 0 0], [10 0 1 0].
    """

    def ids_of_text(text: Segment, _: int) -> Indices:
        ids = np.zeros((text.count, 4), np.int64)
        ids[:, 3] = np.arange(text.count)
        return ids

    def ids_of_image(image: Segment, images_before: int) -> Indices:
        ids = np.zeros((image.size, 4), np.int64)
        ids[:, :3] = _numbered_grid(image, FLUX2_REFERENCE_STEP * images_before)
        return ids

    return _joined_ids(prompt, ids_of_text, ids_of_image)


def _qwen_image(prompt: Prompt) -> Indices:
    """Return the ids (L, 3) of Qwen-Image: per patch, the number of its image, its row and column.

    Rows and columns are counted from the middle: 4 rows are −2, −1, 0, 1. A token of text has one
    number on all three axes. Beside an image of 4 × 4 patches, these numbers are 2, 3, 4, ….
    """
    first_of_text = _number_after_all_images(prompt)

    def ids_of_text(text: Segment, tokens_before: int) -> Indices:
        # A text after an image continues the numbers of the text before it.
        numbers = np.arange(text.count) + first_of_text + tokens_before
        return np.tile(numbers[:, None], (1, 3))

    return _joined_ids(prompt, ids_of_text, _ids_from_middle)


def _ids_from_middle(image: Segment, image_number: int) -> Indices:
    """Return the ids of an image's patches (L, 3), whose rows and columns count from the middle."""
    _, rows, columns = image.grid
    ids = _grid(image)
    ids[:, 0] += image_number
    ids[:, 1] -= _count_before_middle(rows)
    ids[:, 2] -= _count_before_middle(columns)
    return ids


def _count_before_middle(count: int) -> int:
    """Return how many rows have negative numbers, counted from the middle: 2 of 4, and 2 of 3."""
    return count - count // 2


def _number_after_all_images(prompt: Prompt) -> int:
    """Return the first number beyond the rows and columns of all images; 0 without images.

    Half of the sides counts, as rows and columns are counted from the middle. A text has the grid
    (1, 1, 1), of which the half is 0.
    """
    halves = [0]
    for segment in prompt:
        _, rows, columns = segment.grid
        halves += [rows // 2, columns // 2]
    return max(halves)


def _z_image(prompt: Prompt) -> Indices:
    """Return ids in which text counts from 1 on the first axis; the image comes after its padding."""
    return _after_text(prompt, first=1, multiple=Z_IMAGE_TEXT_MULTIPLE)


def _lumina2(prompt: Prompt) -> Indices:
    """Return ids in which text counts from 0 on the first axis; the image has the next number."""
    return _after_text(prompt, first=0, multiple=1)


def _after_text(prompt: Prompt, first: int, multiple: int) -> Indices:
    """Return the ids (L, 3) of models in which the image follows the text on the first axis.

    The other axes are rows and columns. Z-Image (`first` 1, `multiple` 32) has these ids for 40
    tokens of text, which are padded to 64, and an image:

        text     (1, 0, 0), (2, 0, 0), …, (40, 0, 0)
        image    (65, 0, 0), (65, 0, 1), …, (65, 1, 0), …

    Args:
        prompt: One text and one image, in any order.
        first: The number of the first token of text.
        multiple: The text is padded to a multiple of this, behind which the image has its number.
    """
    text = _only_text_beside_an_image(prompt)
    padded_count = math.ceil(text.count / multiple) * multiple

    def ids_of_image(image: Segment, _: int) -> Indices:
        ids = _grid(image)
        ids[:, 0] += first + padded_count  # The frames of a video follow one another.
        return ids

    return _joined_ids(
        prompt,
        ids_of_text=lambda text, _: _on_first_axis(text, first + np.arange(text.count)),
        ids_of_image=ids_of_image,
    )


def _only_text_beside_an_image(prompt: Prompt) -> Segment:
    """Return the text of a prompt that has one text and one image or video, in any order.

    Raises:
        ParameterError: The prompt has other segments.
    """
    text_first = sorted(prompt, key=lambda segment: segment.is_vision)
    is_vision = [segment.is_vision for segment in text_first]
    if is_vision != [False, True] or text_first[0].kind != TEXT:
        given = ",".join(map(str, prompt))
        raise ParameterError("segments", given, "this model has one text and one image")
    return text_first[0]


def _hidream(prompt: Prompt) -> Indices:
    """Return zeros for text, and for every image on the first axis."""
    ids = _flux_ids(prompt)
    ids[:, 0] = 0
    return ids


BUILDERS: dict[str, Callable[[Prompt], Indices]] = {
    "flux": _flux_ids,
    "flux2": _flux2_ids,
    "qwen-image": _qwen_image,
    "z-image": _z_image,
    "lumina2": _lumina2,
    "hidream": _hidream,
}
"""Ids by style; other styles number the points of a grid, and their text has no positions."""


def _refuse_text(style: str, prompt: Prompt) -> None:
    """Raise a ParameterError for a text, if the style has only positions of images."""
    for segment in prompt:
        if not segment.is_vision:
            rule = f"text has no positions in the style {style}"
            raise ParameterError("segments", str(segment), rule, "give only images or videos")


def diffusion_ids(style: str, prompt: Prompt) -> Indices:
    """Return the ids of a prompt, (L, axes), by the style of a model such as `flux`.

    Models without a rule of their own number the rows and columns of an image, and frames if they
    have time.

    Raises:
        ParameterError: The style has no whole numbers as positions, or none for such a segment.
    """
    if style in BUILDERS:
        return BUILDERS[style](prompt)
    _refuse_fractions(style)
    _refuse_text(style, prompt)
    ids = np.concatenate([_grid(segment) for segment in prompt])
    has_time = "t" in ROTARY[style].axes
    return ids if has_time else ids[:, 1:]


def _refuse_fractions(style: str) -> None:
    """Raise a ParameterError for a style whose positions are no whole numbers."""
    row = ROTARY[style]
    is_resampled = row.grid_base is not None or row.grid_scale is not None
    if row.coordinate != "index" or is_resampled:
        rule = f"positions of the style {style} are not whole numbers, or are resampled"
        raise ParameterError("model", style, rule, "pecli rope --grid HxW makes its tables")
