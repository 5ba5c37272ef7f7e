"""A file, or arrays, compared with the tables of a scheme."""

from collections.abc import Collection, Iterable, Mapping, Sequence
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
    stated_name,
    stated_order,
)
from pecli.compare.best_reading import find_best_reading
from pecli.compare.candidate import CandidateTable
from pecli.compare.comparison import Comparison
from pecli.compare.reading import Reading
from pecli.compare.reading_conflicts import Doubling, find_doubling_problems, find_lone_transposes
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
    check = _SchemeCheck(file=file, scheme=scheme, tolerance=tolerance, any_dtype=any_dtype)
    tables_by_tensor = check.find_named_tables()  # {"rope_cos": ["cos"]}
    is_named = bool(tables_by_tensor)
    is_alone = _is_saved_alone(file, is_named=is_named, is_one_tensor=is_one_tensor)
    if is_alone:
        # Without a name it may be any table, and the result has the name of the nearest.
        (name,) = file.tensors
        tables_by_tensor = tables_by_tensor or {name: check.table_names}
    readings = check.find_readings(tables_by_tensor)
    checked = check.compare(readings, tables_by_tensor, named_by_table=is_alone)
    problems: list[FileProblem | str] = []
    if not is_alone:
        problems += check.find_missing_tables(checked)
    # Cosines c0 c1 c0 c1 beside sines s0 s0 s1 s1: each is right, but no rotation can use both.
    problems += find_doubling_problems(_list_doublings(readings.values()))
    answer = make_answer(path, scheme.name, checked, tolerance, problems, search_reasons=reasons)
    return add_unchecked_and_doubts(answer, checked, file.tensors, tolerance)


def _is_saved_alone(file: LoadedFile, *, is_named: bool, is_one_tensor: bool) -> bool:
    """Return True if a file holds one tensor that may be alone, so that no other table is missing.

    Frequencies and slopes are often saved alone. A tensor without the name of a table may be any of
    them; `cos` by itself is a file that lacks `sin`, unless only that tensor was asked for.

    Args:
        file: The file.
        is_named: True if a name states the table that a tensor is.
        is_one_tensor: True if one tensor of the file was asked for.
    """
    if len(file.tensors) != 1:
        return False
    are_relative = all(map(is_relative, file.tensors))
    return is_one_tensor or are_relative or not is_named


@dataclass(eq=False)
class _SchemeCheck:
    """The tensors of a file compared with the tables of a scheme.

    Attributes:
        file: The tensors.
        scheme: The scheme.
        tolerance: The errors that pass.
        any_dtype: True if tables are made in the dtype that was found.
    """

    file: LoadedFile
    scheme: Scheme
    tolerance: Tolerance
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

    def find_named_tables(self) -> dict[str, list[str]]:
        """Return, by tensor in the order of the scheme, the tables that it may be by its name.

        Tensors whose names mean none are left out.
        """
        named = {}
        for name in sorted(self.file.tensors, key=self.order):
            tables = self.find_tables_named(name)
            if tables:
                named[name] = tables
        return named

    def compare(
        self,
        readings: Mapping[str, Reading | None],
        tables_by_tensor: Mapping[str, Collection[str]],
        *,
        named_by_table: bool,
    ) -> list[CheckedTensor]:
        """Compare tensors with the tables that they are read as; one that has the shape of none fails.

        Args:
            readings: By tensor, the best way to read it; None if its shape is that of no table.
            tables_by_tensor: By tensor, the names of the tables that it may be.
            named_by_table: True if results have the names of tables, and not those of tensors.
        """
        checked = []
        for name, reading in readings.items():
            label = "" if named_by_table else name
            if reading is None:
                checked.append(self._fail_for_shape(name, tables_by_tensor[name], label))
            else:
                checked.append(self._compare_with_table(name, reading, label))
        return checked

    def find_readings(
        self, tables_by_tensor: Mapping[str, Collection[str]]
    ) -> dict[str, Reading | None]:
        """Return the best way to read each tensor; None for one that has the shape of no table.

        Square tables may be read transposed. If one only fits so, and those beside it stand upright
        (a row per position), it is read upright, and fails.

        Args:
            tables_by_tensor: By tensor, the names of the tables that it may be.
        """
        readings = {
            name: self._find_reading(name, tables) for name, tables in tables_by_tensor.items()
        }
        for name in find_lone_transposes(readings):
            readings[name] = self._find_reading(name, tables_by_tensor[name], upright=True)
        return readings

    def _find_reading(
        self, name: str, tables: Collection[str], *, upright: bool = False
    ) -> Reading | None:
        """Return the way to read a tensor (an order of axes and columns) that is nearest to a table.

        Args:
            name: The tensor.
            tables: The names of the tables that it may be.
            upright: True if rows must be positions, so that it is not read transposed.
        """
        array = self.file.tensors[name]
        candidates = self._find_candidates_for(name, tables)
        return find_best_reading(
            array, candidates, is_text=self.file.has_rows_only, upright=upright
        )

    def _find_candidates_for(self, name: str, tables: Collection[str]) -> list[CandidateTable]:
        """Return what a tensor may hold: a table, or cosines and sines together in either order.

        The name may state the order. Only that order is tried then: if a tensor `sin_cos` holds
        cosines first, its functions are exchanged by mistake, and it has to fail.

        Args:
            name: The tensor.
            tables: The names of the tables that it may be.
        """
        array = self.file.tensors[name]
        candidates = [*self._find_candidates_named(tables, real_dtype(array))]
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

    def _compare_with_table(self, name: str, reading: Reading, label: str) -> CheckedTensor:
        """Compare a tensor with the table that it is read as.

        Args:
            name: The tensor.
            reading: The tensor beside the table.
            label: The name of the result; the table's if it is empty.
        """
        return CheckedTensor.from_reading(
            name,
            label or reading.name,
            reading,
            self.tolerance,
            any_dtype=self.any_dtype,
            descriptive_name=stated_name(self.file, name),
        )

    def _fail_for_shape(self, name: str, tables: Collection[str], label: str) -> CheckedTensor:
        """Return the failure of a tensor that has the shape of no table that it may be.

        Args:
            name: The tensor.
            tables: The names of the tables that it may be.
            label: The name of the result; that of the first table if it is empty.
        """
        array = self.file.tensors[name]
        # The first table of a scheme is its main one: cosines come before frequencies.
        expected = self._find_candidates_named(tables, real_dtype(array))[0]
        return CheckedTensor(
            tensor=name,
            result=Comparison.of_shape(
                label or expected.name, array.shape, bracketed(expected.shape)
            ),
            # A search for the reason tries other parameters of the scheme, such as its width, that give
            # the table this shape.
            scheme=self.scheme,
            found_tables={expected.name: array},
        )

    def _find_candidates_named(
        self, tables: Collection[str], dtype: str
    ) -> Sequence[CandidateTable]:
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
    table_role = role_of(table_in_layers) or table_in_layers
    return layers in tensor and role_of(tensor) == table_role


def _list_doublings(readings: Iterable[Reading | None]) -> list[Doubling]:
    """Return how each tensor that could be read has every column twice: in halves, interleaved, or not at all.

    They are compared among the tables of the same layers. `sliding.cos` is a table of the layers
    `sliding`; `cos` has no layers in its name.
    """
    doublings = []
    for reading in filter(None, readings):
        layers = reading.name.rpartition(".")[0]
        doublings.append(Doubling(layers, reading, doubled=reading.form.doubled))
    return doublings


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
