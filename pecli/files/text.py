"""Tables as text: .csv, .json (see JSON_FORM; infinities and NaN, which JSON lacks, are strings) and C headers, which
are not read. Every number is the shortest decimal that reads back as the same value. Text that is read is read whole,
so its size is limited; nothing in it is evaluated."""

import io
import json
import math
import re
from binascii import crc32
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pecli.engine.arrays import COMPLEX, FLOATS, SIGNIFICAND_BITS, Array, numpy_dtype, round_to
from pecli.engine.table import Table, results_in_order
from pecli.errors import ParameterError, quoted
from pecli.files.contents import JSON_FORM, Contents, LoadedFile, parsed_json
from pecli.files.npy import ARRAY_NAME, CODES, check_storable
from pecli.files.output import KEY, OnBlock, Output, Spec, Texts, compact, is_text, open_output

ELEMENTS = 1 << 16  # how many elements are turned into text at once
VECTOR_COLUMNS = 8  # elements of a vector on a line; a table has one row per line
JSON_WORDS = {b"nan": b'"NaN"', b"-inf": b'"-Infinity"', b"inf": b'"Infinity"'}
C_WORDS = {b"nan": b"NAN", b"-inf": b"-INFINITY", b"inf": b"INFINITY"}
NOT_FINITE = re.compile(rb"(-?inf|nan)f?")
C_TYPES = {
    **{"float64": "double", "float32": "float"},
    **dict.fromkeys(("float16", "bfloat16"), "uint16_t"),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "bool"), "uint8_t"),
}  #: What the elements are in C; small floats are bit patterns, integers are called as in NumPy, with `_t`

REAL = {*FLOATS, *CODES} - {*COMPLEX}  # what can be spelled in digits
MAX_BYTES = 256 << 20  # of a text file that is read
MAX_LISTS = (
    4 << 20
)  # brackets, braces and quotes in .json: what they enclose becomes objects of a hundred bytes
MAX_TENSORS = 10_000
INFINITIES = {"NaN": float("nan"), "-Infinity": -float("inf"), "Infinity": float("inf")}
_WORD = re.compile(
    rb'\s*(?:"[^"]*"|#.*|(?!(?:nan|inf|infinity)\s*$)[a-z_\x80-\xff].*)?', re.IGNORECASE | re.DOTALL
)

RowTexts = Callable[
    [Array], list[bytes]
]  #: Turns a block into text, row by row, with commas between the elements


def write_csv(
    path: str,
    tables: Sequence[Table],
    spec: Spec | None,
    texts: Texts,
    on_block: OnBlock,
    *,
    header: bool = True,
) -> None:
    """Write the one table there is, names of its columns and then one row per line; a spec has no place."""
    (table,) = tables
    check_storable(tables, ".csv", REAL, empty=False)
    with open_output(path, tables) as output:
        if header:  # without it, pandas would take the first row for one
            name = identifier(table.name)
            names = (
                [name]
                if len(table.shape) < 2
                else [f"{name}_{column}" for column in range(table.width)]
            )
            output.write(",".join(names).encode("ascii") + b"\n")
        for block, rows in _text_blocks(table, decimal_rows):
            output.write(b"\n".join([*rows, b""]))
            on_block(block.nbytes)


def write_json(
    path: str, tables: Sequence[Table], spec: Spec | None, texts: Texts, on_block: OnBlock
) -> None:
    """Write all the tables, one row per line, and the spec that made them."""
    ordered = sorted(tables, key=lambda table: table.name)
    check_storable(tables, ".json", REAL, empty=False)
    beginning = "{" if spec is None else f'{{"{KEY}":{compact(dict(spec))},\n'

    def literals(block: Array) -> list[bytes]:
        if block.dtype == np.bool_:
            return [compact(row).encode("ascii")[1:-1] for row in block.tolist()]
        return _spelled(decimal_rows(block), JSON_WORDS)

    with open_output(path, tables) as output:
        output.write((beginning + '"tensors":{').encode("ascii"))
        for place, table in enumerate(ordered):
            output.write(f'{"," if place else ""}\n{compact(table.name)}:{{"data":'.encode("ascii"))
            _write_nested(output, table, literals, b"[]", on_block)
            output.write(
                f',"dtype":"{table.dtype}","shape":{compact(table.shape)}}}'.encode("ascii")
            )
        output.write(b"}}\n")


def write_header(
    path: str, tables: Sequence[Table], spec: Spec | None, texts: Texts, on_block: OnBlock
) -> None:
    """Write all the tables as constant arrays of C99, named after scheme and tensor, and the spec in a comment."""
    scheme = str((spec or {}).get("scheme", "table"))
    names = {table.name: identifier(f"{scheme}_{table.name}") for table in tables}
    if len({name.upper() for name in names.values()}) < len(names):
        raise ParameterError(
            "name", ", ".join(names), "two of them are the same name in C", "write .safetensors"
        )
    check_storable(tables, ".h", REAL, empty=False)
    text = compact(dict(spec or {}))
    guard = f"PECLI_{identifier(scheme).upper()}_{crc32(text.encode()):08X}_H"  # one for each table
    escaped = text.replace(
        "*", "\\u002a"
    )  # as JSON allows, so that no star ends or nests the comment
    comment = "" if spec is None else f"/* pecli: {escaped} */\n"
    with open_output(path, tables) as output:
        beginning = (
            f"{comment}#ifndef {guard}\n#define {guard}\n\n#include <math.h>\n#include <stdint.h>\n"
        )
        output.write(beginning.encode("ascii"))
        for table in sorted(tables, key=lambda table: table.name):
            name, element = names[table.name], C_TYPES.get(table.dtype, table.dtype + "_t")
            lengths = [
                f"#define {name.upper()}_DIM{axis} {length}\n"
                for axis, length in enumerate(table.shape)
            ]
            extent = "".join(f"[{length}]" for length in table.shape)
            output.write(
                f"\n{''.join(lengths)}static const {element} {name}{extent} =\n".encode("ascii")
            )
            _write_nested(output, table, _c_literals, b"{}", on_block)
            output.write(b";\n")
        output.write(f"\n#endif /* {guard} */\n".encode("ascii"))


def identifier(text: str) -> str:
    """A text as a name in C, or of a column.

    >>> identifier("learned-init_weight"), identifier("3d"), identifier("nan")
    ('learned_init_weight', 'table_3d', 'table_nan')
    """
    name = re.sub(r"[^A-Za-z0-9_]", "_", text)
    return (
        name
        if name[:1].isalpha() and name.lower() not in ("nan", "inf", "infinity")
        else "table_" + name
    )


def _spelled(rows: list[bytes], words: Mapping[bytes, bytes]) -> list[bytes]:
    """Rows of numbers with other words for those that are not finite, which have no `f` in C."""
    return [
        NOT_FINITE.sub(lambda found: words[found[1]], row) if b"n" in row else row for row in rows
    ]


def _c_literals(block: Array) -> list[bytes]:
    if block.dtype.kind in "iu" or block.dtype in (np.float32, np.float64):
        end = b"f" if block.dtype == np.float32 else b""  # so that C rounds them once
        return _spelled(
            [row.replace(b",", end + b",") + end for row in decimal_rows(block)], C_WORDS
        )
    literal = f"0x{{:0{2 * block.itemsize}x}}".format
    return [
        ",".join(map(literal, row)).encode("ascii")
        for row in block.view(f"u{block.itemsize}").tolist()
    ]


def _text_blocks(table: Table, rows: RowTexts) -> Iterator[tuple[Array, list[bytes]]]:
    """The table in small blocks, with their rows as text, which threads make."""
    return results_in_order(
        lambda block: (block, rows(block)), table.blocks(max(1, ELEMENTS // max(1, table.width)))
    )


def _write_nested(
    output: Output, table: Table, texts: RowTexts, brackets: bytes, on_block: OnBlock
) -> None:
    """Write a table with a pair of brackets around every axis, one row per line."""
    is_vector = len(table.shape) < 2
    opening, closing = brackets[:1], brackets[1:]
    leading = table.shape if is_vector else table.shape[:-1]
    spans = [
        math.prod(leading[axis:]) for axis in range(len(leading))
    ]  # rows between the brackets of each axis
    row = 0
    for block, rows in _text_blocks(table, texts):
        pieces = []
        for text in rows:
            if row:
                pieces.append(b"," if is_vector and row % VECTOR_COLUMNS else b",\n")
            pieces.append(opening * sum(row % span == 0 for span in spans))
            pieces.append(text if is_vector else opening + text + closing)
            row += 1
            pieces.append(closing * sum(row % span == 0 for span in spans))
        output.write(b"".join(pieces))
        on_block(block.nbytes)


def numerals(block: Array) -> list[str]:
    """Every element of a block as text, in C order.

    >>> numerals(np.float32([[0.1, -np.inf], [1e-7, 3]]))
    ['0.1', '-inf', '1e-7', '3.0']
    """
    return decimal_rows(block.reshape(1, -1))[0].decode("ascii").split(",") if block.size else []


def decimal_rows(block: Array) -> list[bytes]:
    """The rows of a two-dimensional block, commas between the numbers.

    >>> decimal_rows(np.float32([[0.1, -1 / 3], [2.0**-24, 1e30]]))
    [b'0.1,-0.33333334', b'5.9604645e-8,1e30']
    """
    import orjson

    if block.dtype == np.bool_:
        block = block.view(np.uint8)
    if block.dtype.kind in "iu" or block.dtype in (np.float32, np.float64):
        text = orjson.dumps(np.ascontiguousarray(block), option=orjson.OPT_SERIALIZE_NUMPY)
        text = text.replace(
            b"e+", b"e"
        )  # some versions write 1e30, others 1e+30, and files are the same everywhere
        if b"null" in text:
            words = iter(block[~np.isfinite(block)].tolist())
            text = re.sub(b"null", lambda _: str(next(words)).encode(), text)
        return text[2:-2].split(b"],[")
    values, places = np.unique(block.reshape(-1).view(f"u{block.itemsize}"), return_inverse=True)
    texts = np.array([_shortest(value) for value in values.view(block.dtype)], object)
    return [b",".join(row) for row in texts[places].reshape(block.shape)]


def _shortest(value: np.generic) -> bytes:
    """The text of a value of few bits, whose dtype orjson does not know."""
    number = float(value)
    texts = (f"{number:.{digits}e}" for digits in range(17))
    with np.errstate(over="ignore"):  # too few digits may round up beyond the largest number
        same = (text for text in texts if value.dtype.type(float(text)) == value)
        return repr(float(next(same)) if np.isfinite(number) else number).encode()


def _whole_text(contents: Contents) -> bytes:
    problem = f"has more than {MAX_BYTES >> 20} MiB of text"
    contents.refuse_if(
        len(contents.data) > MAX_BYTES, problem, "convert it to .npy with another tool"
    )
    return bytes(contents.data)


def read_csv(contents: Contents) -> LoadedFile:
    """A table of float64, one row per line; without fractions and exponents it holds integers. The first line may be a
    header; where its first cell is empty, the first column numbers the rows, as pandas writes it. A .txt or .tsv file
    may have spaces or tabs between its numbers, as np.savetxt writes it."""
    text = _whole_text(contents).removeprefix(b"\xef\xbb\xbf").strip()
    text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    first, _, rest = text.partition(b"\n")
    text = rest if _is_header(first) else text
    contents.refuse_if(not text, "is blank")
    if not contents.path.lower().endswith(".csv") and b"," not in text:
        text = b"\n".join(b",".join(line.split()) for line in text.split(b"\n"))
    lines = [line.rstrip() for line in text.split(b"\n")]
    if all(line.endswith(b",") for line in lines):  # as a loop over printf("%g,", x) leaves them
        text = b"\n".join(line[:-1] for line in lines)
    counts = [line.count(b",") + bool(line) for line in text.split(b"\n")]
    if uneven := next((number for number, count in enumerate(counts) if count != counts[0]), 0):
        count = f"{counts[uneven]} number{'s' * (counts[uneven] != 1)}"
        raise contents.error(f"line {uneven + 1} has {count}, and the first has {counts[0]}")
    dtype = np.float64 if re.search(rb"[.eEnN]", text) else np.int64
    try:
        values = np.loadtxt(
            io.BytesIO(text), dtype, comments=None, delimiter=",", ndmin=2, encoding="ascii"
        )
    except ValueError:
        raise contents.error("is not a table of numbers with commas between them") from None
    return LoadedFile(contents.path, "csv", {ARRAY_NAME: values[:, first.startswith(b",") :]})


def _is_header(line: bytes) -> bool:
    """Whether a line names columns: its first cell is a word or empty, the others are words or whole numbers. Anything
    else is a row, and an error where it holds a word."""
    first, *others = line.split(b",")
    is_word = _WORD.fullmatch
    return bool(is_word(first)) and all(cell.strip().isdigit() or is_word(cell) for cell in others)


def read_json(contents: Contents) -> LoadedFile:
    """What pecli's own .json files hold: every tensor with its dtype and shape, and the spec."""
    text = _whole_text(contents)
    count = sum(text.count(mark) for mark in (b"[", b"{", b'"'))
    contents.refuse_if(
        count > MAX_LISTS,
        f"has more than {MAX_LISTS:,} lists and texts",
        "write .npz or .safetensors",
    )
    value = parsed_json(text, lambda said: contents.error(said, JSON_FORM), finite=False)
    tensors: Any = value.get("tensors") if isinstance(value, dict) else None
    contents.refuse_if(not isinstance(tensors, dict), "is not a .json file of tables", JSON_FORM)
    contents.refuse_if(len(tensors) > MAX_TENSORS, f"has more than {MAX_TENSORS} tensors")
    arrays = {name: _array(contents, name, tensor) for name, tensor in tensors.items()}
    return LoadedFile(
        contents.path, "json", arrays, {KEY: json.dumps(value[KEY])} if KEY in value else {}
    )


def _array(contents: Contents, name: str, tensor: Any) -> Array:
    about = contents.tensor(name)
    match tensor:
        case {"data": data, "dtype": str(dtype), "shape": [*sides]} if len(tensor) == 3 and is_text(
            name
        ):
            shape = tuple(sides)
        case _:
            raise contents.error("has a tensor that is not one", JSON_FORM)
    is_known = dtype in (*SIGNIFICAND_BITS, "bool") or re.fullmatch(r"u?int(8|16|32|64)", dtype)
    about.refuse_if(not is_known, f"has dtype {quoted(dtype)}, which is not known")
    are_lengths = all(type(side) is int and 0 <= side < 1 << 63 for side in shape)
    about.refuse_if(not are_lengths, "has a shape that is not a list of lengths")
    about.data_bytes(shape, numpy_dtype(dtype).itemsize)
    nested = np.array(data, object)  # lists of unlike lengths are left as they are
    about.refuse_if(nested.shape != shape, f"is not nested as its shape, {shape}, asks for")
    flat = nested.reshape(-1)
    is_float = dtype in SIGNIFICAND_BITS
    kinds = set(map(type, flat))
    if is_float and str in kinds:
        flat = np.array(
            [INFINITIES.get(value, value) if type(value) is str else value for value in flat],
            object,
        )
        kinds = set(map(type, flat))
    allowed = {float, int} if is_float else {bool} if dtype == "bool" else {int}
    about.refuse_if(not kinds <= allowed, f"holds something that is not a number of {dtype}")
    try:
        return (
            round_to(flat.astype(np.float64), dtype) if is_float else flat.astype(dtype)
        ).reshape(shape)
    except OverflowError:
        raise about.error(f"holds a number that {dtype} does not hold") from None
