"""Options of `verify` that state where the rows of a model's table are, and how it was computed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pecli.compare.forms import DOUBLED_LAYOUTS
from pecli.engine.named_values import MutableValues, NamedValues
from pecli.engine.schemes import rope_parameters
from pecli.engine.schemes.given_positions import LAST_POSITION
from pecli.engine.schemes.parameters import Choice, ParameterRule, Whole
from pecli.engine.schemes.recipes import RECIPE
from pecli.engine.schemes.rope import Rope
from pecli.errors import KindError, ParameterError
from pecli.models.encoding import Encoding

ROW_OPTIONS = ("positions", "grid", "keep", "grid_base", "grid_scale")
"""Options that state the position of each row, if they are not offset, offset + 1, …"""
TABLE_PARAMETERS: Mapping[str, ParameterRule] = {
    "offset": Whole(help="position of the first row", low=0, high=LAST_POSITION),
    "length": Whole(help="the length that dynamic scalings are read at", high=LAST_POSITION),
    "recipe": RECIPE,
    "runtime": rope_parameters.RUNTIME,
    "layout": Choice(help="how columns are doubled", options=DOUBLED_LAYOUTS),
    **{name: Rope.parameters()[name] for name in ROW_OPTIONS},
}
"""Options that state where the rows of a model's tables are, and how they were computed."""
VECTOR_PARAMETERS: Mapping[str, ParameterRule] = {
    **TABLE_PARAMETERS,
    "seq_axis": Whole(help="the axis of positions of queries or keys", low=-64, high=64),
}
"""Options for queries and keys: the same, and their axis of positions."""


def refuse_options(names: Iterable[str], rule: str, advice: str) -> None:
    """Raise KindError for the first option that is given although it does not go with the others, if any.

    Args:
        names: The options that are given.
        rule: Why they are refused.
        advice: What to do instead.
    """
    for name in names:
        raise KindError(name, "given", rule, advice)


@dataclass(frozen=True)
class TableSettings:
    """The positions of a table's rows, and the way it was computed.

    Attributes:
        offset: The position of its first row.
        length: The length at which dynamic scalings are read.
        recipe: The precision recipe that computed it.
        runtime: The runtime that computed it.
        layout: How columns are meant to be doubled.
        table_lengths: The lengths of prompts that tables in the same file were made for; frequencies
            beside them may have been computed for one of these as well.
        stated_rows: `positions`, or `grid` and its options; empty if rows are consecutive.
    """

    offset: int | None = None
    length: int | None = None
    recipe: str = "exact"
    runtime: str = "none"
    layout: str = ""
    table_lengths: tuple[int, ...] = ()
    stated_rows: NamedValues = field(default_factory=dict)

    @classmethod
    def of(cls, options: NamedValues) -> "TableSettings":
        """Return the settings that options of `verify` state; those that are None state nothing.

        {"runtime": "vllm", "positions": [0, 5]} becomes `runtime="vllm"` and
        `stated_rows={"positions": …}`, each value checked by the rule of its option.

        Raises:
            KindError: If an option does not belong to tables of a model.
            ParameterError: If an option breaks its rule, or does not go with the others.
        """
        stated_rows: MutableValues = {}
        other_settings: MutableValues = {}
        unknown = sorted(options.keys() - TABLE_PARAMETERS.keys())
        refuse_options(unknown, "a model has no such option", "leave it out")
        for name, value in options.items():
            if value is not None:
                settings = stated_rows if name in ROW_OPTIONS else other_settings
                settings[name] = TABLE_PARAMETERS[name].check(name, value)
        if stated_rows and "offset" in other_settings:
            rule = "positions are given otherwise"
            raise ParameterError("offset", other_settings["offset"], rule, "leave it out")
        return cls(**other_settings, stated_rows=stated_rows)

    @property
    def first_position(self) -> int:
        """The position of the first row, 0 unless it is stated."""
        return self.offset or 0

    @property
    def position_axes(self) -> tuple[tuple[float, ...], ...]:
        """The given positions, axis by axis; empty if none are given."""
        if "positions" not in self.stated_rows:
            return ()
        axes: tuple[tuple[float, ...], ...] = self.stated_rows["positions"].axes
        return axes

    def rope(self, encoding: Encoding, count: int, **parameters: object) -> Rope:
        """Return the rotary scheme whose table an encoding has at these positions.

        Args:
            encoding: A rotary encoding of a model.
            count: The number of rows, if they are consecutive.
            parameters: Others of the scheme, such as `dtype` or `layout`.
        """
        options: MutableValues = {"recipe": self.recipe, "runtime": self.runtime, **parameters}
        if self.stated_rows:
            options |= self.stated_rows
        else:
            options["seq_len"] = count
            options["offset"] = self.first_position
        return encoding.rope(length=self.length, **options)
