"""Ways to resample rows: the old rows, and their weights, that every new row is a sum of."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Floats, Indices
from pecli.engine.schemes.parameters import Choice, Flag, Real
from pecli.errors import ParameterError

KERNELS = {"linear": 1, "cubic": 2}
"""The kernels, and how many rows they reach to each side."""
COPYING_METHODS = ("nearest", "slice", "crop")
"""Methods that copy rows instead of weighting them."""
METHODS = (*KERNELS, *COPYING_METHODS)
CUBIC = -0.75  # torch's coefficient of Keys's cubic kernel
ANTIALIASED_CUBIC = -0.5  # its coefficient with antialias
SCALE_OFFSET = 0.1
"""What DINO adds to the new size before it divides by the old one, against rounding in torch."""

_METHOD = Choice(help="the kernel", options=METHODS)
_FLAG = Flag(help="an option of torch's interpolate")
_OFFSET = Real(help="added to the new size", at_least=0)


class Taps(NamedTuple):
    """The old rows that every new row is a weighted sum of, and their weights: both (new, taps)."""

    rows: Indices
    weights: Floats

    @classmethod
    def copies(cls, rows: Indices) -> "Taps":
        """Return the taps that copy rows as they are."""
        return cls(rows[:, None], np.ones((len(rows), 1)))

    def apply(self, values: Floats) -> Floats:
        """Return the new rows: weighted sums of the old ones, along the first axis of `values`.

        With rows [[0, 1], [2, 3]] and weights of 1/2, 4 old rows become 2: the means of the first
        two and of the last two. The first taps of all new rows are added, then the second ones, …
        """
        new_count, tap_count = self.rows.shape
        sums = np.empty((new_count, *values.shape[1:]))
        self._fill_with_products(0, values, out=sums)
        products = np.empty_like(sums)
        for tap in range(1, tap_count):
            self._fill_with_products(tap, values, out=products)
            sums += products
        return sums

    def _fill_with_products(self, tap: int, values: Floats, out: Floats) -> None:
        """Fill `out` with the old row of one tap of every new row, times its weight."""
        # mode="clip" checks no indices, and so needs no buffer.
        np.take(values, self.rows[:, tap], axis=0, out=out, mode="clip")
        other_axes = [1] * (values.ndim - 1)
        out *= self.weights[:, tap].reshape(-1, *other_axes)


class KernelOption(NamedTuple):
    """An option of an interpolation that is not at its default.

    Attributes:
        name: Its name in Python.
        argument: The argument of the command line that chooses it.
        words: Words for it in sentences.
    """

    name: str
    argument: str
    words: str


@dataclass(frozen=True)
class Interpolation:
    """A way to resample rows, with the options of torch's `interpolate`.

    Attributes:
        method: linear or cubic (Keys's kernel); nearest, which copies the row at the lower edge of
            a cell; slice, which copies the first rows; crop, which copies those in the middle.
        antialias: Stretch the kernel by the ratio of the sizes when a table shrinks. A cubic kernel
            also gets another coefficient, which changes tables that grow.
        align_corners: The first and the last row stay where they are. Otherwise rows are samples at
            the middle of equal cells: 4 rows become 2 at 0.5 and 2.5, not at 0 and 3.
        scale_offset: The ratio of the sizes is old / (new + this), as DINO has it with 0.1.
        coefficient: Of the cubic kernel without antialias; torch has −0.75, and with antialias, as
            Pillow and JAX, −0.5.

    Raises:
        ParameterError: The method does not exist, or an option does not go with it.
    """

    method: str = "cubic"
    antialias: bool = False
    align_corners: bool = False
    scale_offset: float = 0.0
    coefficient: float = CUBIC

    def __post_init__(self) -> None:
        """Raise ParameterError if an option breaks its rule, or does not go with the method.

        Methods that copy rows, such as `nearest`, have none of the other options.
        """
        _METHOD.check("method", self.method)
        _FLAG.check("antialias", self.antialias)
        _FLAG.check("align_corners", self.align_corners)
        _OFFSET.check("scale_offset", self.scale_offset)
        if self.method in COPYING_METHODS:
            self._refuse_kernel_options()
        if self.align_corners and self.scale_offset:
            rule = "align_corners states the ratio of the sizes"
            raise ParameterError("scale_offset", self.scale_offset, rule, "leave out one of them")

    def _refuse_kernel_options(self) -> None:
        """Raise ParameterError for an option of kernels, which copied rows do not have."""
        for option in self._kernel_options():
            rule = f"{self.method} copies rows"
            raise ParameterError(option.name, "given", rule, "choose linear or cubic")

    @property
    def options(self) -> str:
        """The options of `pecli resize` that choose this way."""
        arguments = [option.argument for option in self._kernel_options()]
        return " ".join([f"--method {self.method}", *arguments])

    def __str__(self) -> str:
        words = [option.words for option in self._kernel_options()]
        return f"{self.method} with {' and '.join(words)}" if words else self.method

    def _kernel_options(self) -> Iterator[KernelOption]:
        """Yield the options that are not at their defaults."""
        offset = f"{self.scale_offset:g}"
        if self.antialias:
            yield KernelOption("antialias", "--antialias", "antialias")
        if self.align_corners:
            yield KernelOption("align_corners", "--align-corners", "align_corners")
        if self.scale_offset:
            words = f"scale factors of (size + {offset}) / old size"
            yield KernelOption("scale_offset", f"--scale-offset {offset}", words)

    def check_sizes(self, old: int, new: int) -> None:
        """Raise a ParameterError if this way cannot make so many rows."""
        if self.method in ("slice", "crop") and new > old:
            rule = f"{self.method} copies rows, and of {old} it cannot make {new}"
            raise ParameterError("method", self.method, rule, "choose linear or cubic")

    def taps(self, old: int, new: int, part: slice = slice(None)) -> Taps:
        """Return the taps of each new row: the old rows that it is a sum of, and their weights.

        If linear interpolation makes 2 rows of 4, each new row is the mean of two old rows:

        >>> Interpolation("linear").taps(4, 2).rows.tolist()
        [[0, 1], [2, 3]]
        >>> Interpolation("linear").taps(4, 2).weights.tolist()
        [[0.5, 0.5], [0.5, 0.5]]

        Args:
            old: The number of rows now.
            new: The number of rows after resampling.
            part: The new rows whose taps are returned.
        """
        new_rows = np.arange(*part.indices(new))
        if self.method in COPYING_METHODS:
            return Taps.copies(self._copied_rows(new_rows, old, new))
        # An offset shifts the rows even if their number stays.
        changes_nothing = old == new and not self.scale_offset
        if changes_nothing:
            return Taps.copies(new_rows)
        old_rows_per_new = self._distance_of_new_rows(old, new)
        centres = self._centres(new_rows, old_rows_per_new)
        if self.antialias:
            # If the table shrinks, the kernel is as much wider as new rows are apart.
            stretch = max(old_rows_per_new, 1.0)
            return self._antialiased_taps(centres, old, stretch)
        return self._plain_taps(centres, old)

    def _centres(self, new_rows: Indices, old_per_new: float) -> Floats:
        """Return where new rows are among the old ones, in units of old rows.

        If 4 rows become 2, each new row is in the middle of a cell of two old ones: at 0.5 and 2.5.
        With align_corners, the first and the last row stay: at 0 and 3. torch's antialias leaves
        rows in the middle of cells, and takes only the ratio (3 here) of align_corners.
        """
        row_numbers = new_rows.astype(np.float64)
        keeps_ends = self.align_corners and not self.antialias
        if keeps_ends:
            return row_numbers * old_per_new
        return (row_numbers + 0.5) * old_per_new - 0.5

    def _copied_rows(self, new_rows: Indices, old: int, new: int) -> Indices:
        """Return the old row that each new row is a copy of.

        If 8 rows become 4, `slice` copies the rows 0 1 2 3, `crop` 2 3 4 5 and `nearest` 0 2 4 6.
        """
        if self.method == "slice":
            return new_rows
        if self.method == "crop":
            cropped_at_start = (old - new) // 2
            return new_rows + cropped_at_start
        # torch rounds the ratio and the products to float32, which can move a row by one.
        old_per_new = np.float32(old) / np.float32(new)
        nearest = np.floor(new_rows.astype(np.float32) * old_per_new).astype(np.intp)
        last_row = old - 1
        return np.asarray(np.minimum(nearest, last_row))

    def _distance_of_new_rows(self, old: int, new: int) -> float:
        """Return the distance of two new rows, in units of old rows.

        4 rows that become 2 have the ratio 2; if the first and the last row stay where they are
        (`align_corners`), they have 3.
        """
        if not self.align_corners:
            return old / (new + self.scale_offset)
        # A single new row is the first one, as in torch.
        return (old - 1) / (new - 1) if new > 1 else 0.0

    def _plain_taps(self, centres: Floats, old: int) -> Taps:
        """Return the old rows and weights for new rows at these centres, without antialias.

        The new row at 2.5 is a sum of the rows 2 and 3 with a linear kernel, which reaches 1 row to
        each side, and of 1, 2, 3 and 4 with a cubic one, which reaches 2. Outside of the table, its
        first and its last row are repeated: row −1 is row 0. A linear kernel does not go there,
        because its centres are moved to the first or last row.

        Args:
            centres: Where the new rows are, in units of old rows, (new rows,).
            old: The number of old rows.
        """
        last_row = old - 1
        reach = KERNELS[self.method]
        if self.method == "linear":
            centres = np.clip(centres, 0, last_row)
        rows = _rows_within_reach(centres, reach, row_count=2 * reach)  # (new rows, taps)
        distances = rows - centres[:, None]
        weights = _kernel_weights(distances, self.method, self.coefficient)
        return Taps(np.clip(rows, 0, last_row), weights)

    def _antialiased_taps(self, centres: Floats, old: int, stretch: float) -> Taps:
        """Return the old rows that each new row is a weighted sum of, and their weights.

        A table that shrinks needs sums of more rows, so that its kernel is stretched. If 4 rows become
        2, a linear kernel reaches 2 rows instead of 1: the new row at 0.5 is a sum of rows 0, 1 and 2.

        Args:
            centres: Where the new rows are, in units of old rows, (new rows,).
            old: The number of old rows.
            stretch: Old rows per new row, at least 1.
        """
        reach = KERNELS[self.method] * stretch  # in old rows
        rows = _rows_within_reach(
            centres, reach, _most_rows_within_reach(reach)
        )  # (new rows, taps)
        distances = (rows - centres[:, None]) / stretch  # in units of the kernel
        weights = _kernel_weights(distances, self.method, ANTIALIASED_CUBIC)
        # Rows beyond the ends of the table have no part in the sum.
        is_beyond_end = (rows < 0) | (rows >= old)
        weights[is_beyond_end] = 0
        weights /= weights.sum(axis=1, keepdims=True)
        valid_rows = np.clip(
            rows, 0, old - 1
        )  # Those with the weight 0 need a valid index as well.
        return Taps(valid_rows, weights)


def _rows_within_reach(centres: Floats, reach: float, row_count: int) -> Indices:
    """Return consecutive rows around each centre, from the first that is nearer than `reach`.

    Around 2.5, the rows 1, 2, 3 and 4 are nearer than 2.

    >>> _rows_within_reach(np.array([2.5, 7.5]), reach=2, row_count=4).tolist()
    [[1, 2, 3, 4], [6, 7, 8, 9]]
    """
    first_rows = np.floor(centres - reach + 1).astype(np.intp)
    return first_rows[:, None] + np.arange(row_count)


def _most_rows_within_reach(reach: float) -> int:
    """Return how many rows can be nearer than `reach` to a centre, and one more.

    At most 3 rows are nearer than 1.25. A fourth one is taken in case that rounding errors make the
    first row one too low. Kernels give the weight 0 to rows out of reach.
    """
    return math.ceil(2 * reach) + 1


def _kernel_weights(distance: Floats, kernel: str, a: float) -> Floats:
    """Return the weights at distances from the centre, in rows.

    The linear kernel is a triangle: 1 at distance 0, and 0 from 1 on. The cubic one, by R. Keys
    (1981), has the coefficient `a`. It is 1 at distance 0, crosses 0 at 1, and is 0 from 2 on; one
    polynomial leads to distance 1, and another to 2.
    """
    x = np.abs(distance)
    if kernel == "linear":
        return np.asarray(np.maximum(0.0, 1 - x))
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    far_or_zero = np.where(x < 2, far, 0.0)
    return np.where(x <= 1, near, far_or_zero)


PROJECTS = {
    Interpolation("cubic"): "transformers' ViT, CLIP, SigLIP and DINOv2, MAE and InternVL",
    Interpolation("cubic", antialias=True): "timm, open_clip and DINOv2 with registers",
    Interpolation("cubic", scale_offset=SCALE_OFFSET): "DINO's and DINOv2's own code",
    Interpolation("linear"): "transformers' DPT",
    Interpolation("linear", antialias=True): "SigLIP 2",
    Interpolation("linear", align_corners=True): "Qwen3-VL, and the first ViT with SciPy's zoom",
    Interpolation("nearest"): "TimeSformer; it is also torch's default",
    Interpolation("slice"): "language models with a shorter context",
    Interpolation("crop"): "Stable Diffusion 3",
}
"""Projects that resize a table in this way."""


def known_interpolations() -> Iterator[Interpolation]:
    """Yield all ways that a table may have been resized in, those of known projects first.

    Others are linear and cubic with each combination of torch's options. Some make the same table:
    antialias does not matter for a linear one that grows.
    """
    ways = [*PROJECTS]
    for method, antialias in product(KERNELS, (False, True)):
        ways.append(Interpolation(method, antialias))
        ways.append(Interpolation(method, antialias, align_corners=True))
        ways.append(Interpolation(method, antialias, scale_offset=SCALE_OFFSET))
    yield from dict.fromkeys(ways)  # Each comes once.
