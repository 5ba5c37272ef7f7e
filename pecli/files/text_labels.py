"""Labels before numbers: `cos[3] = 0.5 0.25`, `static const float q[2][4] = {`, `layer 0 k:`.

A label ends with the last word of a line that is not a number, and the `=` or `:` after it.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from pecli.files.number_text import number_of

MAX_COUNT = 32  # bytes of a word that counts, and its number
MAX_WORDS = 4  # a longer title is a sentence, not a name

_WORD = re.compile(rb"(?<![\w.])[A-Za-z_\x80-\xff][\w.\-/\x80-\xff]*")
"""A word; the `e` of 1e5 and the `f` of 0.5f follow a digit, and are none."""
_INDEX = re.compile(rb"(?:\s*[\[(]\s*\d{1,9}\s*(?:,\s*\d{1,9}\s*)*[\])])+")
"""Indices right after a name: `[3]`, `[3][5]`, `(3, 5)`."""
_LEADING_INDEX = re.compile(rb"\s*[\[(]?\s*(\d{1,9})\s*[\])]?\s*[:=]\s")
"""A row number without a word before it: `3: 0.5 0.25`."""
_INDEXED_ROW = re.compile(
    rb"([A-Za-z_]\w*)((?:\[[0-9]{1,9}\])+) ?[=:]((?:[-+0-9.,; \t\r\n]|(?<=[0-9.])[eE])+)", re.ASCII
)
"""A name, indices in brackets, and numbers without a word or a bracket among them."""
_END = re.compile(rb".*(?:[=:]|->)", re.DOTALL)
_INTEGER = re.compile(r"\d{1,9}")
_LAST_NUMBERS = re.compile(
    r"(?:(?<=\w)\s*[\[(]\s*|(?<=[A-Za-z_])\s+|=)\d{1,9}(?:[\s\[\](),]+\d{1,9})*[\s\])]*[\s=:]*$"
)
_COUNTER_AND_NUMBER = re.compile(
    r"\b(?P<word>head|row|position|pos|token|tok|line|step|[hijt](?=\s*=))"
    r"\s*[=#:]?\s*(?P<number>\d{1,9})(?![\w.])",
    re.IGNORECASE,
)
"""A word that counts, and its number: `pos 3` and `head 0`, `token=5`. Single letters need the sign:
`t5` is also the name of a model."""
_DECLARATION = re.compile(r"\b(?:const|let|static|pub)\b")
_SHAPE = re.compile(r"\b(?:shape|size)\b", re.IGNORECASE)
_NAME_WORD = re.compile(r"[^\W\d][\w.\-/]*(?:\[\d+\]\.[\w.]*\w)?")
_KEYWORDS = {
    *("static", "const", "constexpr", "pub", "let", "var", "new", "auto", "unsigned"),
    *("export", "inline", "std"),
    *("float", "double", "half", "int", "long", "char", "void", "parameter", "containing"),
    *("info", "debug", "warn", "warning", "error", "trace", "shape"),
    *("row", "rows", "pos", "position", "token", "line", "step", "dim", "dim0", "dim1", "dim2"),
    *("i", "j", "t", "idx", "index"),
}
"""Words of languages, loggers and loops, which name no tensor."""
_LAYER_AND_NUMBER = re.compile(r"\b(?:layers?|blocks?|blk)\s+(\d{1,6})\b", re.IGNORECASE)
"""The number of a layer as a word of its own: `layer 3`. In `layers.3.q` it is part of the name."""
_TYPE = re.compile(r"b?f(?:loat)?\d{1,2}(?:_t)?|u?int\d{1,2}(?:_t)?|[iu]\d{1,2}")


class Index(NamedTuple):
    """An index in a label, and the word that states what it counts: head and 2 in `q head 2:`."""

    number: int
    word: str = ""


class Label(NamedTuple):
    """The words before the numbers of a line.

    Attributes:
        name: the tensor that they name; empty if none.
        indices: the indices of the row or the element; empty if there are none.
        end: how many bytes of the line belong to the label.
    """

    name: str
    indices: tuple[Index, ...]
    end: int

    @property
    def numbers(self) -> tuple[int, ...]:
        """The indices without the words that state what they count."""
        return tuple(index.number for index in self.indices)

    @property
    def has_counting_word(self) -> bool:
        """True if a word such as `head` or `token` states what an index counts."""
        return any(index.word for index in self.indices)


NO_LABEL = Label("", (), 0)


def split_label(line: bytes) -> Label:
    """Return the label of a line: the text before its numbers.

    The label ends after the last word, the index behind that word, and the sign = or : or ->. Words
    such as `head` and `row` state what an index counts. They are not part of the tensor's name.

    >>> split_label(b"cos[3] = 0.5 0.25")
    Label(name='cos', indices=(Index(number=3, word=''),), end=8)
    >>> split_label(b"q head 2: 0.5 0.25")
    Label(name='q', indices=(Index(number=2, word='head'),), end=9)
    """
    words = list(_words(line))  # without `nan`, which is a number
    if not words:
        return _label_of_number(line)
    *_, last_word = words
    end = _end_of_label(line, last_word)
    text = line[:end].decode("utf-8", "replace")  # `q head 2:`
    return Label(name=_tensor_name(text), indices=tuple(_indices(text)), end=end)


def _words(line: bytes) -> Iterator[re.Match[bytes]]:
    """Yield the words of a line that are not numbers; `nan` is a number, and `nanj` the part of one."""
    for word in _WORD.finditer(line):
        if number_of(word[0].removesuffix(b"j")) is None:
            yield word


def _end_of_label(line: bytes, last_word: re.Match[bytes]) -> int:
    """Return the offset after a label, at which the numbers of the line begin.

    After the last word may follow an index, as in `cos[3] 0.5`, or a count, as in `pos=3 0.5`. If
    there is a sign (= or : or ->) as well, the label ends after it: `cos[3] = 0.5`.
    """
    end = last_word.end()
    index = _INDEX.match(line, end)
    if index is not None:
        end = index.end()
    text_with_sign = _END.match(line, last_word.end())
    if text_with_sign is not None:
        end = text_with_sign.end()
    return max(end, _end_of_count(line, last_word.start()))


def _end_of_count(line: bytes, word_start: int) -> int:
    """Return the offset after the number of a word that counts, the 3 of `pos=3 0.5`.

    The bracket of `q[head=2, pos=3] 0.5` is closed after it. A word that does not count has no
    number, and its own offset is returned.
    """
    text = line[word_start : word_start + MAX_COUNT].decode("latin-1")  # one letter per byte
    count = _COUNTER_AND_NUMBER.match(text)
    if count is None:
        return word_start
    end = word_start + count.end()
    has_bracket = line[end : end + 1] in (b"]", b")")
    return end + 1 if has_bracket else end


def split_indexed_row(line: bytes) -> Label | None:
    """Return the label of a row such as `cos[3] = 0.5 0.25`; None for any other line.

    Loops of C and Rust print hundreds of thousands of these. The label is that of `split_label`,
    in a fifth of the time.
    """
    row = _INDEXED_ROW.fullmatch(line)
    if row is None or number_of(row[1]) is not None:
        return None
    indices = tuple(Index(int(number)) for number in row[2][1:-1].split(b"]["))
    return Label(_cached_name(row[1]), indices, row.start(3))


@lru_cache(maxsize=1024)
def _cached_name(word: bytes) -> str:
    return _tensor_name(word.decode("ascii"))


def _label_of_number(line: bytes) -> Label:
    """Return the label of a line such as `3: 0.5 0.25`, which has an index and no name."""
    match = _LEADING_INDEX.match(line)
    if match is None:
        return NO_LABEL
    return Label(name="", indices=(Index(int(match[1])),), end=match.end())


def first_word(line: bytes) -> int:
    """Return the offset of the first word of a line that is not a number; its end if there is none."""
    first = next(_words(line), None)
    return len(line) if first is None else first.start()


def _tensor_name(text: str) -> str:
    """Return the name of a tensor in a label; empty for a sentence, which has many words.

    The words that name the tensor are joined. The number of a layer is put before them, as tensors
    in checkpoints have it.

    >>> _tensor_name("static const float cos_table[2][3] ="), _tensor_name("[INFO] layer 3 q after rope:")
    ('cos_table', 'layers.3.q_after_rope')
    """
    text = _without_declared_type(text)
    naming_words = _naming_words(text)
    if len(naming_words) > MAX_WORDS:
        return ""
    name = "_".join(naming_words)
    layer = _LAYER_AND_NUMBER.search(text)
    if layer is None:
        return name
    return f"layers.{layer[1]}.{name}"


def _naming_words(text: str) -> list[str]:
    """Return the words of a label, except types, keywords, and all that counts, such as `pos 3`.

    >>> _naming_words("float layer 3 q pos 7 after rope")
    ['q', 'after', 'rope']
    """
    without_layer = _LAYER_AND_NUMBER.sub(" ", text)
    without_counts = _COUNTER_AND_NUMBER.sub(" ", without_layer)
    words = _NAME_WORD.findall(without_counts)
    return [word for word in words if not _is_keyword(word.lower())]


def _without_declared_type(text: str) -> str:
    """Return the left side of an assignment, without the type that follows the name.

    A type follows in Rust and Swift: `COS` is what is left of `const COS: [f32; 4] =`.
    """
    left = text.partition("=")[0] if text.endswith("=") else text
    if _DECLARATION.search(left):
        return left.partition(":")[0]
    return left


def _is_keyword(word: str) -> bool:
    return word in _KEYWORDS or _TYPE.fullmatch(word) is not None


def heads_first(indices: tuple[Index, ...]) -> tuple[int, ...]:
    """Return the indices of a row, that of its head before all others.

    Loops over tokens print all heads of a token, and then those of the next one. Tensors are (heads,
    positions, D), as most programs have them.

    Args:
        indices: The indices of a row, from one label or from those of a title and a line.

    >>> heads_first((Index(7, "pos"), Index(2, "head"))), heads_first((Index(7), Index(2)))
    ((2, 7), (7, 2))
    """
    ordered = sorted(indices, key=lambda index: index.word != "head")  # False comes first.
    return tuple(index.number for index in ordered)


def _indices(text: str) -> Iterator[Index]:
    """Yield the numbers after words that count, and those at the end of a label.

    They are indices of heads and rows, or of rows and columns. The number of a layer is part of the
    name, and the numbers of a shape are no indices.

    >>> [index.number for index in _indices("cos[3][5] =")], [*_indices("q shape (3, 5):")]
    ([3, 5], [])
    >>> [*_indices("q pos 7 head 2:")]
    [Index(number=7, word='pos'), Index(number=2, word='head')]
    """
    without_layer = _LAYER_AND_NUMBER.sub("", text)
    for count in _COUNTER_AND_NUMBER.finditer(without_layer):
        yield Index(int(count["number"]), count["word"].lower())
    numbers_at_end = _LAST_NUMBERS.search(_COUNTER_AND_NUMBER.sub("", without_layer))
    if numbers_at_end is not None and not _SHAPE.search(text):
        for number in _INTEGER.findall(numbers_at_end[0]):
            yield Index(int(number))
