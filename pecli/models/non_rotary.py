"""Encodings other than rotary ones, by family.

Each row of non_rotary.json has the name of a rule, its fields, and the model types that it holds
for: in `families` a model's only encoding, in `beside` a table beside a rotary encoding, in
`projects` what a word means in a project's own configurations. Other classes of transformers have
the tables of class_tables.json.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from pecli.engine.named_values import JsonObject, MutableValues
from pecli.models.data import first_known, nonempty, plain_name, stored
from pecli.models.encoding import Encoding
from pecli.models.table_rules import (
    AlibiRule,
    ChoiceRule,
    DebertaRule,
    EncodingRule,
    GridRule,
    LearnedRule,
    PatchNoteRule,
    SeveralRules,
    SinusoidalRule,
    SwinRule,
    T5Rule,
)

RELATIVE_NOTE = "it has relative positions of its own kind, which are none of rope, alibi, learned or sinusoidal"
#: Rules by their names in non_rotary.json.
RULES: dict[str, type[EncodingRule]] = {
    "None": EncodingRule,
    "PatchNote": PatchNoteRule,
    "LearnedTable": LearnedRule,
    "SinusoidalTable": SinusoidalRule,
    "OnGrid": GridRule,
    "RelativeBuckets": T5Rule,
    "DebertaBuckets": DebertaRule,
    "RelativeWindow": SwinRule,
    "Biased": AlibiRule,
    "Several": SeveralRules,
    "Choice": ChoiceRule,
}


def _rule(row: JsonObject) -> EncodingRule:
    """Return the rule that a row of the data file describes: which table a family adds, and its keys.

    `{"names": "gpt2", "kind": "LearnedTable"}` is a LearnedRule. Further items of a row are fields of
    its rule, and may hold rules themselves.
    """
    fields: MutableValues = {"kind": "None", **row}
    fields.pop("names", None)
    rule = RULES[fields.pop("kind")]
    arguments: MutableValues = {name: _field(value) for name, value in fields.items()}
    return rule(**arguments)


def _field(value: object) -> object:
    """Return the value of a rule's field: objects become rules, and lists tuples."""
    match value:
        case dict():
            return _rule(value)
        case list():
            return tuple(_field(item) for item in value)
    return value


def _by_name(rows: list[JsonObject]) -> dict[str, EncodingRule]:
    """Return the rule of each model type; a row has the names of several, separated by spaces."""
    rules = {}
    for row in rows:
        rule = _rule(row)
        for name in row["names"].split():
            rules[name] = rule
    return rules


FAMILIES = _by_name(stored("non_rotary.json")["families"])
BESIDE = _by_name(stored("non_rotary.json")["beside"])


def project_rules(project: str) -> dict[str, EncodingRule]:
    """Return the rules of a project's own configurations, by the words that these have for
    encodings.
    """
    rows = stored("non_rotary.json")["projects"][project]
    return {word: _rule(row) for word, row in rows.items()}


def beside(model_type: str | None, *, vision: bool) -> EncodingRule | None:
    """Return what a family has beside its rotary encoding; None if nothing is known."""
    name = plain_name(model_type)
    names = [name]
    if vision:
        names += [f"{name}_vision", f"{name}_vision_model"]
    return first_known(BESIDE, names, None)


class UndescribedTable(NamedTuple):
    """A table of positions that no scheme describes, with its shape at class defaults: `900 × 256`."""

    tensor: str
    shape: str


class ClassTables(NamedTuple):
    """The tables of positions of a class of transformers."""

    learned: list[LearnedRule]
    undescribed: list[UndescribedTable]


def _tables_of_class(model_type: str | None) -> ClassTables:
    """Return the tables of a class of transformers: its rows in class_tables.json, which may be none.

    A row of four items is a learned table, [tensor, key of the rows, extra rows, key of the width]. A
    row of two items is a table that no scheme describes, [tensor, shape].
    """
    tables = ClassTables(learned=[], undescribed=[])
    for row in stored("class_tables.json").get(plain_name(model_type), []):
        if len(row) == 4:
            tables.learned.append(_learned_rule(*row))
        else:
            tables.undescribed.append(UndescribedTable(*row))
    return tables


def rule_of_class_tables(model_type: str | None) -> EncodingRule | None:
    """Return the rule for the tables of positions of a class of transformers; None if it has none.

    A rule reads encodings from a config.json, here learned tables. Tables that pecli has no
    scheme for, such as one over two axes, are only named in the note of the rule.
    """
    tables = _tables_of_class(model_type)
    rules_of_learned_tables = tables.learned
    note = _note_on_undescribed(tables.undescribed)
    if len(rules_of_learned_tables) == 1:
        (single_rule,) = rules_of_learned_tables
        rules_of_learned_tables = [replace(single_rule, name="")]  # A single table needs no name.
    if rules_of_learned_tables:
        return SeveralRules(tuple(rules_of_learned_tables), note=note)
    if note:
        return EncodingRule(note=note)  # This rule makes no encoding.
    return None


def _learned_rule(tensor: str, key: str, extra_rows: int, dim: str) -> LearnedRule:
    """Return the rule of a table; without a key for its rows, they are the patches of an image."""
    rows = (key,) if key else ()
    return LearnedRule(rows=rows, extra_rows=extra_rows, dim=(dim,), name=tensor, offset=0)


def notes_on_absent_tables(model_type: str | None, encodings: Sequence[Encoding]) -> list[str]:
    """Return a note on the tables of a class, at its defaults, that no encoding describes.

    Grounding DINO has a table of 900 queries beside the positions of its text.
    """
    absent = []
    for table in _tables_of_class(model_type).undescribed:
        if not _is_described(encodings, table.shape):
            absent.append(table)
    return nonempty(_note_on_undescribed(absent))


def _is_described(encodings: Sequence[Encoding], shape: str) -> bool:
    return any(_has_shape(encoding, shape) for encoding in encodings)


def _has_shape(encoding: Encoding, shape: str) -> bool:
    """Return True if an encoding has a table of a shape such as `900 × 256` or `64 × 64 × 768`.

    The last number is the width of the table, the others multiply to its rows.
    """
    *sides, dim = map(int, shape.split(" × "))
    rows = math.prod(sides)
    parameters = encoding.parameters
    if "grid" in parameters:
        return rows in _rows_of_grid(parameters["grid"])
    lengths = [parameters.get(name) for name in ("max_len", "seq_len", "buckets")]
    has_dim = bool(parameters.get("dim", dim) == dim)
    return rows in lengths and has_dim


def _rows_of_grid(grid: Sequence[int]) -> tuple[int, int]:
    """Return the rows that a table over a grid may have: one per offset, or one per patch.

    Swin's windows of 7 x 7 patches have 13 x 13 relative positions.
    """
    offsets = [2 * side - 1 for side in grid]
    return math.prod(offsets), math.prod(grid)


def _note_on_undescribed(tables: Sequence[UndescribedTable]) -> str:
    """Return a note that names tables; empty if there are none."""
    if not tables:
        return ""
    named = ", ".join(f"{table.tensor} ({table.shape})" for table in tables)
    return (
        f"it has tables of positions that are none of pecli's schemes, at class defaults: {named}"
    )
