"""Projects whose configurations differ from Hugging Face's only in the names of keys.

Each row of projects.json describes the transformers of a project's models: the object that holds
their keys, the names of the keys, and what the project's code implies. A row is used if the file has
the values in `when`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from pecli.engine.named_values import NamedValues, without_none
from pecli.models.data import nonempty, stored, value_at
from pecli.models.dialects import huggingface
from pecli.models.dialects.translation import (
    ropes_by_hugging_face_rules,
    values_by_hugging_face_name,
)
from pecli.models.encoding import Encoding, ParsedEncodings, joined
from pecli.models.families import ModelFamily
from pecli.models.key_names import LENGTH
from pecli.models.keys import ClassDefaults, Keys, Setting, Settings
from pecli.models.non_rotary import project_rules


@dataclass(frozen=True)
class ScalingNames:
    """The keys of a rotary scaling.

    Attributes:
        section: The object that holds them; empty if they stand beside the other keys.
        names: The project's names by those that the keys have in `rope_scaling`. A dot leads into
            an object: `pos_scaling_extra_args.low_freq_factor`.
        implied: Values that the project's code has, by names of `rope_scaling`.
    """

    names: Mapping[str, str]
    section: str = ""
    implied: NamedValues = field(default_factory=dict)

    def read(self, keys: Keys) -> Settings:
        """Return the settings of `rope_scaling`; none if the file has none of the keys.

        With the name `{"factor": "scaling_factor"}` and the implied `{"rope_type": "linear"}`, a
        file with `scaling_factor: 4` has linear scaling by 4. Without the key it has no scaling.
        """
        section = keys.at(self.section)
        from_file = without_none(
            {name: section.value_at(place) for name, place in self.names.items()}
        )
        if not from_file:
            return {}
        from_code = {
            name: Setting(value, "the project's code") for name, value in self.implied.items()
        }
        return {**from_code, **from_file}


NO_SCALING = ScalingNames(names={})


@dataclass(frozen=True)
class Transformer:
    """A transformer of a project's model; a row of projects.json.

    Attributes:
        place: The names of the objects that lead to its keys, such as `flow_lm.transformer`; empty
            if the keys stand at the top.
        when: Values that the file must have, by full names of keys: a value or a pattern, several
            of them, null for an absent key, or `*` for any value.
        name: The layer type of its encodings; empty for a language model.
        part: The part of the model, if it is not the language model.
        names: The project's names of rotary settings, by Hugging Face's names.
        family: What the code implies, by the names of `ModelFamily`.
        defaults: Values that the code has for absent keys, by the project's names.
        scaling: The keys of the scaling.
        table: The rule for another encoding than rope, by its name in non_rotary.json.
        note: A warning about what the encodings do not express.
    """

    place: str = ""
    when: NamedValues = field(default_factory=dict)
    name: str = ""
    part: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    family: NamedValues = field(default_factory=dict)
    defaults: NamedValues = field(default_factory=dict)
    scaling: ScalingNames = NO_SCALING
    table: str = ""
    note: str = ""

    @classmethod
    def of(cls, row: NamedValues) -> "Transformer":
        """Return the transformer of a row of projects.json, whose fields have the same names."""
        scaling = ScalingNames(**row.get("scaling", {"names": {}}))
        return cls(**{**row, "scaling": scaling})

    def applies_to(self, config: Mapping[str, object]) -> bool:
        """Return True if a configuration has this transformer."""
        if self.place and not isinstance(value_at(config, self.place), Mapping):
            return False
        return all(_fits(value_at(config, name), wanted) for name, wanted in self.when.items())

    def read(self, keys: Keys, project: str) -> ParsedEncodings:
        """Return the encodings of this transformer in a configuration, and its note as a warning.

        Args:
            keys: The keys of the whole file, to which this transformer applies.
            project: The name of the project, whose code is the source of what no key states.
        """
        code = f"{project}'s code"
        section = replace(keys.at(self.place), defaults=ClassDefaults(code, self.defaults))
        parsed = self._table_or_ropes(section, project, code)
        self._mark_as_read(keys, section)
        labelled = [self._labelled(encoding) for encoding in parsed.encodings]
        return ParsedEncodings(labelled, [*nonempty(self.note), *parsed.warnings])

    def _mark_as_read(self, keys: Keys, section: Keys) -> None:
        """Record keys as read that no encoding needs, so that no warning reports them as unread.

        They are the keys that chose this transformer, and the context length, which is right even
        if no table is as long: ALiBi has none.

        Args:
            keys: The keys of the whole file.
            section: Those of this transformer.
        """
        keys.usage.read.update(self.when)
        section.mark_as_read(LENGTH)

    def _table_or_ropes(self, keys: Keys, project: str, code: str) -> ParsedEncodings:
        """Return a table if the row names a rule for one, else rope; nothing if it has no names."""
        if self.table:
            rule = project_rules(project)[self.table]
            return ParsedEncodings(rule.encodings(keys), [])
        if self.names:
            return self._ropes(keys, code)
        return ParsedEncodings(encodings=[], warnings=[])

    def _ropes(self, keys: Keys, code: str) -> ParsedEncodings:
        """Return the rotary encodings, by Hugging Face's names for the project's keys."""
        scaling = self.scaling.read(keys)
        settings = values_by_hugging_face_name(keys, **self.names)
        family = ModelFamily(code, **self.family)
        return ropes_by_hugging_face_rules(keys, family, scaling=scaling, settings=settings)

    def _labelled(self, encoding: Encoding) -> Encoding:
        """Return an encoding with the layer type and the part of the row, if it has them."""
        return replace(
            encoding,
            layer_type=self.name or encoding.layer_type,
            part=self.part or encoding.part,
        )


def read(keys: Keys, project: str) -> ParsedEncodings:
    """Return the encodings of a project that only has other names for Hugging Face's keys.

    Such projects are rows of projects.json, with the names of their keys and the defaults of their
    code. A model that no row describes is read by Hugging Face's rules.

    Args:
        keys: The keys of the file.
        project: The project's name in projects.json.
    """
    transformers = _transformers(project, keys.data)
    if not transformers:
        return huggingface.read(keys)
    parsed = joined(transformer.read(keys, project) for transformer in transformers)
    if parsed.encodings:
        return parsed
    none = f"no positional encoding was found: {project}'s code decides which one it has"
    return ParsedEncodings(encodings=[], warnings=[*parsed.warnings, none])


def describes(project: str, config: Mapping[str, object]) -> bool:
    """Return True if a row of a project fits a configuration."""
    return bool(_transformers(project, config))


def _transformers(project: str, config: Mapping[str, object]) -> list[Transformer]:
    """Return the rows of a project that fit a configuration."""
    rows = [Transformer.of(row) for row in stored("dialects/projects.json")[project]]
    return [transformer for transformer in rows if transformer.applies_to(config)]


def _fits(value: object, wanted: object) -> bool:
    """Return True if a value of a file is what a row of projects.json wants.

    A row wants a value (`2`), one of a list of values (`["a", "b"]`), any value (`"*"`), or a text
    that a pattern matches (`"mamba*"`). True and 1 differ, although Python takes them as equal.
    """
    if isinstance(wanted, list):
        return any(_fits(value, choice) for choice in wanted)
    if wanted == "*":
        return value is not None
    if isinstance(wanted, str) and isinstance(value, str):
        return fnmatchcase(value, wanted)
    return value == wanted and type(value) is type(wanted)
