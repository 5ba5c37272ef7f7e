"""A file, or arrays, compared with the tables of a scheme."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from pecli.checks.checked_tensor import CheckedTensor
from pecli.checks.conclusion import add_unchecked_and_doubts, make_answer
from pecli.checks.file_problems import FileProblem, MissingTable
from pecli.checks.verification import Verification
from pecli.checks.verify.alibi_parts import find_alibi_parts
from pecli.checks.verify.candidates import (
    COS_FIRST,
    find_scheme_candidates,
    has_order,
    real_dtype,
    role_of_table,
    stated_name,
    stated_order,
)
from pecli.checks.verify.reading_check import ReadingCheck
from pecli.compare.best_reading import find_best_reading
from pecli.compare.candidate import CandidateTable
from pecli.compare.comparison import Comparison
from pecli.compare.reading import Reading
from pecli.compare.tolerance import Tolerance, is_relative
from pecli.engine.arrays import SIGNIFICAND_BITS
from pecli.engine.schemes.scheme import Scheme, tensors_by_name
from pecli.errors import bracketed
from pecli.files.contents import LoadedFile
from pecli.files.tensor_roles import role_of

WIDE_DTYPES = ("float64", "float32")  #: dtypes that hold frequencies and slopes well


def verify_scheme(
    path: str,
    file: LoadedFile,
    scheme: Scheme,
    tolerance: Tolerance,
    *,
    is_one_tensor: bool,
    any_dtype: bool,
    reasons: bool,
) -> Verification:
    """Compare the tensors of a file with the tables of a scheme, such as `cos` and `sin` of a rope.

    Names state which table a tensor is: `rope_cos` is `cos`. Tensors without such a name are left out,
    except a single one, which is compared with the nearest table.

    Args:
        path: The file, as it was given.
        file: Its tensors.
        scheme: The expected scheme.
        tolerance: The errors that pass.
        is_one_tensor: True if one tensor of the file was asked for.
        any_dtype: True if tables are expected in the dtype that was found.
        reasons: True if reasons for failures are searched for.
    """
    check = _SchemeCheck(
        file=file,
        scheme=scheme,
        tolerance=tolerance,
        is_one_tensor=is_one_tensor,
        any_dtype=any_dtype,
    )
    tensors = file.tensors if check.is_saved_alone else check.named_tensors
    readings = check.read_all(tensors)
    checked = check.compare_all(readings)
    problems: list[FileProblem | str] = []
    if not check.is_saved_alone:
        problems += check.find_missing_tables(checked)
    problems += check.find_doubling_problems(readings)
    answer = make_answer(path, scheme.name, checked, tolerance, problems, search_reasons=reasons)
    return add_unchecked_and_doubts(answer, checked, file.tensors, tolerance)


@dataclass(eq=False)
class _SchemeCheck(ReadingCheck):
    """The tensors of a file compared with the tables of a scheme.

    Attributes:
        file: The tensors.
        scheme: The scheme.
        tolerance: The errors that pass.
        is_one_tensor: True if one tensor of the file was asked for.
        any_dtype: True if tables are made in the dtype that was found.
    """

    file: LoadedFile
    scheme: Scheme
    tolerance: Tolerance
    is_one_tensor: bool
    any_dtype: bool

    @cached_property
    def table_names(self) -> list[str]:
        """The names of the scheme's tables in its order, each once: cos, sin, cos_sin, inv_freq."""
        candidates = _make_candidates_in_dtype(self.scheme, self.scheme.dtype)
        return [*dict.fromkeys(candidate.name for candidate in candidates)]

    def order(self, tensor: str) -> int:
        """Return the place of a tensor: in the order of the scheme, others last."""
        if tensor in self.table_names:
            return self.table_names.index(tensor)
        return len(self.table_names)

    def find_tables_named(self, tensor: str) -> list[str]:
        """Return the tables of the scheme that a tensor may be, judging by its name.

        A tensor `rope_cos` may be the table `cos`, unless the file has a tensor `cos` as well. If the
        scheme has one table for sliding and one for full layers, `sliding.cos` and `full.cos`, then
        `model.sliding.rope_cos` may be the first of them. The name `rope_cos` states neither, so that
        it may be none.
        """
        if tensor in self.table_names:
            return [tensor]
        tensors = self.file.tensors
        return [
            table for table in self.table_names if table not in tensors and _may_mean(tensor, table)
        ]

    @cached_property
    def named_tensors(self) -> list[str]:
        """The tensors whose names state tables, in the order of the scheme: [`rope_cos`, `rope_sin`]."""
        return sorted(filter(self.find_tables_named, self.file.tensors), key=self.order)

    @cached_property
    def is_saved_alone(self) -> bool:
        """True if the file holds one tensor that may be alone, so that no other table is missing.

        Frequencies and slopes are often saved alone. A tensor without the name of a table may be any of
        them; `cos` by itself is a file that lacks `sin`, unless only that tensor was asked for.
        """
        if len(self.file.tensors) != 1:
            return False
        are_relative = all(map(is_relative, self.file.tensors))
        return self.is_one_tensor or are_relative or not self.named_tensors

    def find_tables(self, tensor: str) -> list[str]:
        """Return the tables of the scheme that a tensor may be: all, if its name states none."""
        return self.find_tables_named(tensor) or self.table_names

    def find_layers(self, reading: Reading) -> str:
        """Return `sliding` for `sliding.cos`; the name `cos` has no layers."""
        return reading.name.rpartition(".")[0]

    def find_reading(self, tensor: str, *, upright: bool = False) -> Reading | None:
        array = self.file.tensors[tensor]
        candidates = self._find_candidates_for(tensor)
        return find_best_reading(
            array, candidates, is_text=self.file.has_rows_only, upright=upright
        )

    def _find_candidates_for(self, name: str) -> list[CandidateTable]:
        """Return what a tensor may hold: a table, or cosines and sines together in either order.

        The name may state the order. Only that order is tried then: if a tensor `sin_cos` holds
        cosines first, its functions are exchanged by mistake, and it has to fail.
        """
        array = self.file.tensors[name]
        candidates = self._find_candidates_named(self.find_tables(name), real_dtype(array))
        is_alibi = bool({"bias", "slopes"}.intersection(self.table_names))
        if is_alibi:
            # A model on several GPUs has some of the heads on each: the file may hold only these.
            candidates += find_alibi_parts(self.scheme, array)
        order = self._find_order_of_functions(name)
        return [candidate for candidate in candidates if has_order(candidate, order)]

    def _find_order_of_functions(self, name: str) -> tuple[str, str] | None:
        """Return the order that cosines and sines must have in a tensor; None if either is right.

        Names such as `freqs_cis` state that a tensor holds both, but no order: then it is cosines
        first. A tensor whose name states nothing may have either.
        """
        order = stated_order(stated_name(self.file, name), self.file.tensors[name])
        if order is None and self.find_tables_named(name):
            return COS_FIRST
        return order

    def compare_with_table(self, tensor: str, reading: Reading) -> CheckedTensor:
        return CheckedTensor.from_reading(
            tensor,
            self._choose_label(tensor, reading.name),
            reading,
            self.tolerance,
            any_dtype=self.any_dtype,
            descriptive_name=stated_name(self.file, tensor),
        )

    def _choose_label(self, tensor: str, table: str) -> str:
        """Return the name of a result: that of the table if the file holds one tensor, whatever its name is."""
        return table if self.is_saved_alone else tensor

    def fail_for_shape(self, tensor: str) -> CheckedTensor:
        array = self.file.tensors[tensor]
        # The first table of a scheme is its main one: cosines come before frequencies.
        expected = self._find_candidates_named(self.find_tables(tensor), real_dtype(array))[0]
        label = self._choose_label(tensor, expected.name)
        return CheckedTensor(
            tensor=tensor,
            result=Comparison.of_shape(label, array.shape, bracketed(expected.shape)),
            # A search for the reason tries other parameters of the scheme, such as its width, that give
            # the table this shape.
            scheme=self.scheme,
            found_tables={expected.name: array},
        )

    def _find_candidates_named(self, tables: Collection[str], dtype: str) -> list[CandidateTable]:
        """Return the candidates that hold one of some tables.

        Args:
            tables: The names of tables, `cos_sin` for both functions.
            dtype: The dtype of the tensor. The candidates are in that dtype if it is a floating one
                and any dtype is allowed, and otherwise in the scheme's.
        """
        if not self.any_dtype or dtype not in SIGNIFICAND_BITS:
            dtype = self.scheme.dtype
        candidates = _make_candidates_in_dtype(self.scheme, dtype)
        return [candidate for candidate in candidates if candidate.name in tables]

    def find_missing_tables(self, checked: Sequence[CheckedTensor]) -> list[MissingTable]:
        """Return a problem for each table that the file lacks, and that does not follow from others.

        A rope file with `cos` alone lacks `sin`; `inv_freq` follows from cosines and sines, so that
        it is never missing.
        """
        present = set(self.scheme.derived_tensors)
        for tensor in checked:
            present.update(tensor.found_tables)
        held = [*self.file.tensors]
        return [
            MissingTable(name, held) for name in tensors_by_name(self.scheme) if name not in present
        ]


def _may_mean(tensor: str, table: str) -> bool:
    """Return True if the name of a tensor means a table: `model.sliding.rope_cos` for `sliding.cos`.

    Tables of a bundle have the name of their layers before a dot, which the tensor must have too.
    """
    layers, _, table_in_layers = table.rpartition(".")
    return layers in tensor and role_of(tensor) == role_of_table(table_in_layers)


def _make_candidates_in_dtype(scheme: Scheme, dtype: str) -> Sequence[CandidateTable]:
    """Return the tables of a scheme that a tensor of a dtype may be; frequencies and slopes in float32 at least.

    Half precision spoils frequencies and slopes, and programs keep them in float32 beside float16
    cosines. So of a rope scheme and a float16 file, cosines and sines are expected in float16, and
    `inv_freq` in float32, unless the scheme itself is in float16.
    """
    candidates = find_scheme_candidates(scheme.in_dtype(dtype))
    if dtype in (*WIDE_DTYPES, scheme.dtype):
        return candidates
    candidates_in_float32 = find_scheme_candidates(scheme.in_dtype("float32"))
    mixed = []
    for candidate, in_float32 in zip(candidates, candidates_in_float32, strict=True):
        mixed.append(in_float32 if is_relative(in_float32.name) else candidate)
    return mixed
