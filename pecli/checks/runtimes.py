"""`pecli.runtimes`: what each runtime computes for a model, where it departs, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from pecli.checks import Answer, plain, plain_fields
from pecli.checks.position_errors import ErrorCurve
from pecli.checks.runtime_departures import measure_runtime
from pecli.compare.tolerance import DRIFT, ERROR
from pecli.engine.arguments import texts_of, within_limits
from pecli.engine.named_values import JsonObject
from pecli.engine.runtimes import EMULATED, RUNTIMES, runtime_named
from pecli.engine.runtimes.runtime import RuntimeProfile
from pecli.engine.schemes.given_positions import LAST_POSITION
from pecli.engine.schemes.parameters import Choice, Whole
from pecli.engine.schemes.rope import Rope
from pecli.errors import NoScalingError, ParameterError, UnsupportedError
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.find import Model, find_model
from pecli.models.runtime_rope import Served, rope_of_runtime

DEFAULT_LENGTH = 4096  #: context of a model that does not state one
LENGTH = Whole(help="a served context", high=LAST_POSITION)
NAME = Choice(help="a runtime", options=tuple(RUNTIMES))


@dataclass(frozen=True)
class RuntimeResult:
    """One encoding as one runtime computes it.

    Attributes:
        runtime: The name of the runtime.
        version: The version that was looked at.
        lacks: Why the runtime has no such table at all; empty if it has one.
        causes: What it reads differently than the model defines it.
        notes: What else a user should know.
        short_prompts: What prompts get that are much shorter than the context, if it is wrong.
        rows: The number of its positions, if they end before the context does.
        departure: The largest error that comes from the causes.
        first_beyond: The first position where that exceeds the tolerance.
        pairs: The first and the last rotary pair for which it does.
        max_abs_error: The largest error of what it computes, float32 arithmetic included.
        curve: The largest errors over positions.
        no_scaling: True if it lacks the table because it does not implement the scaling.
    """

    runtime: str
    version: str
    lacks: str = ""
    causes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    short_prompts: str = ""
    rows: int | None = None
    departure: float = 0.0
    first_beyond: int | None = None
    pairs: tuple[int, int] | None = None
    max_abs_error: float = 0.0
    curve: ErrorCurve | None = None
    no_scaling: bool = False

    @property
    def departs(self) -> bool:
        """True if it is off by more than the tolerance, or lacks something."""
        lacks_something = bool(self.lacks or self.short_prompts) or self.rows is not None
        return lacks_something or self.first_beyond is not None

    def as_json(self) -> JsonObject:
        names = ("runtime", "version", "departs", "causes", "notes", "departure", "pairs")
        return {
            **plain_fields(self, *names),
            "max_abs_error": None if self.lacks else plain(self.max_abs_error),
            "lacks": self.lacks or None,
            "positions": self.rows,
            "first_beyond_tolerance": self.first_beyond,
        }


@dataclass(frozen=True, repr=False)
class RuntimeComparison(Answer):
    """The runtimes for every layer type of a model.

    Attributes:
        model: The model.
        length: The context that it is served with.
        tolerance: The largest absolute error that a position may have.
        layers: The results of all runtimes by layer type.
    """

    model: str
    length: int
    tolerance: float
    layers: Mapping[str, tuple[RuntimeResult, ...]]

    @property
    def passed(self) -> bool:
        return not self._list_departing()

    @property
    def agree(self) -> bool:
        """True if no runtime departs by more than the tolerance."""
        return self.passed

    def _list_departing(self) -> list[str]:
        """Return the runtimes that depart in any layer type, each once."""
        results = chain.from_iterable(self.layers.values())
        return list(dict.fromkeys(result.runtime for result in results if result.departs))

    def words(self) -> tuple[str, ...]:
        return self.model, f"length {self.length:,}", ", ".join(self._list_departing())

    def as_json(self) -> JsonObject:
        layers = [
            {"layer_type": name, "runtimes": plain(results)}
            for name, results in self.layers.items()
        ]
        return {**plain_fields(self, "model", "length", "tolerance", "agree"), "layers": layers}


@within_limits
def runtimes(
    model: Model,
    length: int | None = None,
    *,
    layer_type: str | None = None,
    names: Sequence[str] = tuple(RUNTIMES),
    tolerance: float = DRIFT,
) -> RuntimeComparison:
    """Compare what runtimes compute for a model with what the model defines.

    Args:
        model: A path, a preset, a configuration, or a model that was loaded.
        length: The context that the model is served with; by default the longest that it has.
        layer_type: Only the layers of this type.
        names: The runtimes; by default all that are described.
        tolerance: The largest absolute error that a position may have.

    Returns:
        A `RuntimeComparison`, which is true if no runtime departs.

    Raises:
        ParameterError: The model has no rotary table, or a parameter is wrong.

    >>> import pecli
    >>> found = pecli.runtimes("gpt-oss-20b", 4096, names=["llama.cpp"]).layers[""][0]
    >>> found.causes
    ("rounds YaRN's limits to 8 and 18; the config has truncate: false",)
    """
    found = find_model(None, model)
    rule = "it has no rotary table, and runtimes are described for that alone"
    encodings = rotary_layers(found, layer_type, rule)
    if length is None:
        length = found.context or DEFAULT_LENGTH
    served = Served(found.context, LENGTH.check("length", length))
    limit = ERROR.check("tolerance", tolerance)
    chosen = [NAME.check("names", name) for name in texts_of("names", names)]
    layers = {}
    for encoding in encodings:
        results = [_measure_runtime(encoding, name, served, limit) for name in chosen]
        layers[encoding.layer_type] = tuple(results)
    return RuntimeComparison(model=found.file, length=served.length, tolerance=limit, layers=layers)


def rotary_layers(found: ModelEncodings, layer_type: str | None, rule: str) -> list[Encoding]:
    """Return the encodings of a model, or of one layer type, that have rotary tables.

    Raises:
        ParameterError: There are none; `rule` states why they are needed.
    """
    encodings = [
        encoding
        for encoding in found.ropes_of(layer_type)
        if encoding.is_rotary and not encoding.no_table
    ]
    if not encodings:
        raise ParameterError("model", found.file, rule)
    return encodings


def _measure_runtime(
    encoding: Encoding, name: str, served: Served, tolerance: float
) -> RuntimeResult:
    """Return what a runtime makes of an encoding.

    If the runtime reads the model differently (it has causes), the errors come from these. If not,
    only from its float32 arithmetic, which several runtimes share and which is measured once.
    """
    runtime = runtime_named(name)
    try:
        computed_by_runtime = rope_of_runtime(encoding, name, served)
    except UnsupportedError as lacking:
        no_scaling = isinstance(lacking, NoScalingError)
        return RuntimeResult(
            runtime=name, version=runtime.version, lacks=lacking.rule, no_scaling=no_scaling
        )
    rope, causes, rows, short_prompts = computed_by_runtime
    defined = encoding.rope(1, length=served.length)
    computed = rope if causes else _as_emulated(rope, name)
    position_count = served.length if rows is None else rows
    errors = measure_runtime(
        defined, computed, position_count, tolerance, misreads_parameters=bool(causes)
    )
    return RuntimeResult(
        runtime=name,
        version=runtime.version,
        causes=causes,
        notes=_collect_notes(encoding, runtime, rope, short_prompts),
        short_prompts=short_prompts,
        rows=rows,
        departure=errors.departure.max_abs_error,
        first_beyond=errors.departure.first_beyond,
        pairs=errors.departure.pairs,
        max_abs_error=errors.max_abs_error,
        curve=errors.curve,
    )


def _as_emulated(rope: Rope, name: str) -> Rope:
    """Return a runtime's scheme as transformers computes it, if both compute the same.

    They do unless the arithmetic of the runtime is emulated (EMULATED), or transformers lacks the
    scaling: only SGLang has ntk. Equal schemes share one measurement, which takes long.
    """
    if name in EMULATED:
        return rope
    try:
        return replace(rope, runtime="transformers")
    except UnsupportedError:
        return rope


def _collect_notes(
    encoding: Encoding, runtime: RuntimeProfile, rope: Rope, short_prompts: str
) -> tuple[str, ...]:
    """Return remarks about a runtime that are not errors of its tables.

    Args:
        encoding: The encoding that the model defines.
        runtime: The runtime.
        rope: The scheme as the runtime reads it, with notes on its reading.
        short_prompts: A sentence on what short prompts get; empty if that is right.
    """
    notes = list(rope.runtime_reading.notes)
    if runtime.text_only and encoding.sections.mrope_section is not None:
        notes.append("as defined for text; no M-RoPE for images")
    if short_prompts:
        notes.append(short_prompts)
    return tuple(notes)
