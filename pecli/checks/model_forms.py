"""Two forms of one model, such as a Hugging Face folder and a .gguf file: names are mapped, encodings compared by what
they mean, queries and keys through the order of rows that the form asks for, all else by value.
"""

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from pecli.checks.stored_tensors import BITS, EXPERT, ROUNDING, Pair, Stored
from pecli.compare.tolerance import Tolerance
from pecli.engine import application, table
from pecli.engine.arrays import Indices
from pecli.errors import FileError, ParameterError, PecliError, bracketed, listed
from pecli.files.load import load_file
from pecli.models import families, find, layer_types
from pecli.models.dialects.gguf import as_in_gguf
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.tensors.convert import heads_of
from pecli.tensors.head_layout import ORDERS, Heads, projection, weight_of

HUGGING_FACE, META, GGUF = "Hugging Face", "Meta", "GGUF"
FORMS = {"config.json": HUGGING_FACE, "params.json": META}
NORMS_PLUS_ONE = frozenset(("gemma", "gemma2", "gemma3", "gemma-embedding", "nemotron"))  #: in GGUF
SETTINGS = re.compile(
    r".*(rope_(freqs|factors_\w+)\.weight|rope\.freqs|inv_freq|masked_bias|(attention|\.attn)\.bias)"
)
PACKED = re.compile(r"(?:_blocks|_scales|\.qweight|\.qzeros|\.scales|\.g_idx|_scale_inv|_scale)$")
"""How the names of tensors end that hold weights in a packed form of their own."""
MAX_LINES = 12
SOME_ROWS = 16  #: that are compared first
SAME_FREQUENCY = 1e-5  #: relative: GGUF keeps bases and factors in float32
KEYS = {
    GGUF: {
        "base": "rope.freq_base",
        "rotary dimension": "rope.dimension_count",
        "llama3": "rope_freqs.weight",
    },
    META: {"base": "rope_theta", "llama3": "use_scaled_rope", "kv heads": "n_kv_heads"},
    HUGGING_FACE: {"base": "rope_theta", "kv heads": "num_key_value_heads"},
}
KEYS[GGUF] |= {"longrope": "rope_factors_long.weight", "kv heads": "attention.head_count_kv"}
KEYS[GGUF] |= {
    "layers": "block_count",
    "context": "context_length",
    "heads": "attention.head_count",
}
"""What is missing where a form has the default instead."""
COUNTS = {
    "layers": ["block_count", "num_hidden_layers", "n_layers", "n_layer", "num_layers"],
    "heads": ["attention.head_count", *layer_types.HEADS],
}


class Form(NamedTuple):
    """A model in one form; tensors have GGUF's names."""

    label: str  #: A or B
    kind: str
    architecture: str
    encodings: ModelEncodings
    layout: str  #: how weights of queries and keys have their pairs
    heads: Heads | None
    counts: Mapping[str, Any]  #: of layers, heads and positions, as the form says them, if it does
    tensors: Mapping[str, Stored]
    unread: Mapping[str, str]  #: what is not compared: types that are not read, and unknown names


def diff_forms(a: Any, b: Any, allowed: Tolerance) -> dict[str, Any] | None:
    """How two forms of a model differ: the fields of a `Difference`; None where these are no two forms."""
    found = [_described(each) for each in (a, b)]
    if not all(kind for kind, *_ in found) or (found[0][0] == found[1][0] != GGUF):
        return None
    forms = [_form(label, *each) for label, each in zip("AB", found, strict=True)]
    one, other = sorted(
        forms, key=lambda form: form.kind != HUGGING_FACE
    )  # which defines the model
    pairs, problems = _pairs(one, other)
    results = [*table.results_in_order(lambda pair: pair.compared(allowed), pairs)]
    changed = [
        (pair, result) for pair, result in zip(pairs, results, strict=True) if result.mismatched
    ]
    with np.errstate(all="ignore"):
        problems += [(pair.name, _reason(pair, one, other, allowed)) for pair, _ in changed]
    worst = {result.name: result.max_abs_error or 0.0 for _, result in changed}
    equal = sum(not result.max_abs_error for result in results)
    unread = {form.label: dict.fromkeys(form.unread.values()) for form in forms}
    nothing = () if pairs or problems else ("no tensor of A can be compared with one of B",)
    rounded = f"{len(pairs) - equal - len(changed)} within the rounding"
    kinds = ", ".join(sorted({stored.kind for pair in pairs for stored in pair[1:3]}))
    return {
        "diagnosis": (*_encodings(one, other), *_joined(problems, worst, other.label), *nothing),
        "tensors": tuple(result for _, result in changed),
        "weak": tuple(
            f"not compared: {listed([*names], 6)} ({label})"
            for label, names in unread.items()
            if names
        ),
        "forms": f"{len(pairs)} tensors, {one.kind} and {other.kind}: {equal} equal, {rounded} of {kinds}",
    }


def _described(given: Any) -> tuple[str, str, str]:
    """Which form a path is, the path, and the file that describes it; empty where it is none."""
    if not isinstance(given, (str, os.PathLike)) or not os.path.exists(path := os.fspath(given)):
        return "", "", ""
    weights = os.path.isfile(path) and path.endswith((".safetensors", ".bin", ".pth", ".pt"))
    found = find.config_file(os.path.dirname(path) or os.curdir if weights else path)
    path = os.path.dirname(path) or os.curdir if os.path.basename(path) in FORMS else path
    return GGUF if found.endswith(".gguf") else FORMS.get(os.path.basename(found), ""), path, found


def _form(label: str, kind: str, path: str, described: str) -> Form:
    encodings = find.find_model(described)
    values = find.describe(described).values
    parts = [
        *(values[name] for name in families.TEXTS if isinstance(values.get(name), Mapping)),
        values,
    ]
    counts: dict[str, Any] = {"context": encodings.context}
    for name, keys in COUNTS.items():
        counts[name] = next(
            (part[key] for part in parts for key in keys if part.get(key) is not None), None
        )
    if kind == GGUF and isinstance(
        counts["layers"], int
    ):  # to which layers that predict further tokens are added
        counts["layers"] -= values.get("nextn_predict_layers") or 0
    heads: Heads | None = None
    with suppress(PecliError):  # heads differ by layer, or nothing rotates
        heads = heads_of(described, None, {})
    shards = sorted(os.listdir(path)) if kind == META and os.path.isdir(path) else []
    shards = [
        os.path.join(path, name) for name in shards if re.fullmatch(r"consolidated\.\d+\.pth", name)
    ]
    first, *rest = [load_file(file) for file in shards or [described if kind == GGUF else path]]
    found = [
        (each.name, each.name, Stored(each.dtype, each.shape, each.blocks)) for each in first.unread
    ]
    for name in (name for name in first.tensors if not SETTINGS.fullmatch(name)):
        array, others = first.tensors[name], [file.tensors[name] for file in rest]
        parts = (
            [(name, array)]
            if kind == GGUF
            else [*as_in_gguf(PACKED.sub("", name), array, encodings.model_type)]
        )
        found += [(name, known, Stored.of(part, others)) for known, part in parts or [("", array)]]
    tensors: dict[str, Stored] = {}
    unread: dict[str, str] = {}
    for name, known, stored in found:
        if known and stored.is_read and not PACKED.search(name):
            tensors.update(stored.by_expert(known))
        else:
            unread.setdefault(known or name, f"{name} ({stored.kind})" if known else name)
    if any(
        stored.kind in BITS and stored.kind != "Q8_0" for stored in tensors.values()
    ) and not find_spec("gguf"):
        raise FileError(
            path, "holds quantised tensors, which the gguf package reads", "pip install gguf"
        )
    layout = next(
        (application.LAYOUTS[each.layout][0] for each in encodings.ropes() if each.layout), "halves"
    )
    return Form(
        label, kind, encodings.model_type or kind, encodings, layout, heads, counts, tensors, unread
    )


def _pairs(one: Form, other: Form) -> tuple[list[Pair], list[tuple[str, str]]]:
    """The tensors of both, and those that are missing or of another shape."""
    sides = [dict(form.tensors) for form in (one, other)]
    for side in sides:  # tied weights are kept once
        if "token_embd.weight" in side:
            side.setdefault("output.weight", side["token_embd.weight"])
    plus = [form.kind == GGUF and form.architecture in NORMS_PLUS_ONE for form in (one, other)]
    for here, there in (sides, sides[::-1]):  # DeepSeek's latent projection, in one or in two
        for name in [name for name in there if name.endswith("attn_k_b.weight")]:
            whole, values, shape = (
                name.replace("k_b", "kv_b"),
                name.replace("k_b", "v_b"),
                there[name].shape,
            )
            rows = (
                shape[0] * (shape[2] + there[values].shape[1])
                if values in there and len(shape) == 3
                else 0
            )
            if (
                whole in here
                and here[whole].kind in ROUNDING
                and here[whole].shape == (rows, shape[1])
            ):
                both = here.pop(whole).array.reshape(shape[0], -1, shape[1])
                keys = both[:, : shape[2]].swapaxes(1, 2)
                here |= {name: Stored.of(keys), values: Stored.of(both[:, shape[2] :])}
    pairs, problems = [], []
    for name in dict.fromkeys([*one.tensors, *other.tensors]):
        lacking = [form for form, side in zip((one, other), sides, strict=True) if name not in side]
        if lacking:
            if len(lacking) == 1 and EXPERT.sub("", name) not in lacking[0].unread:
                problems.append((name, f"is missing in {lacking[0].label}"))
            continue
        theirs = sides[1][name].fitted(sides[0][name].shape)
        ours = sides[0][name].fitted(theirs.shape)
        added = plus[1] - plus[0] if name.endswith("norm.weight") else 0
        if ours.shape == theirs.shape and 0 not in ours.shape:
            pairs.append(Pair(name, ours, theirs, _order(name, ours, one, other), added))
        elif ours.shape != theirs.shape:
            turned = "transposed: " if theirs.shape == ours.shape[::-1] else ""
            problems.append(
                (name, f"is {turned}{bracketed(theirs.shape)}, not {bracketed(ours.shape)}")
            )
    return pairs, problems


def _order(name: str, ours: Stored, one: Form, other: Form) -> Indices | None:
    """The rows of the one that the other should have, one after the other; None for all as they are."""
    named = projection(name)
    if named is None or one.heads is None:
        return None
    rows = np.arange(len(ours.rows))
    heads, order = one.heads, rows
    if (
        named.kind == "qkv" and heads.fused and one.kind != GGUF == other.kind
    ):  # which has all queries first
        slots = heads.slots(weight_of("qkv", ours.rows))
        if len(rows) % len(slots) == 0:
            order = rows.reshape(len(slots), -1)[
                np.argsort([*map("qkv".index, slots)], kind="stable")
            ].reshape(-1)
    if one.layout != other.layout and named.kind != "latent":
        with suppress(
            ParameterError
        ):  # rows that are not those of so many heads are compared as they are
            order = order[
                heads.move(weight_of(name, ours.rows[:, 0]), one.layout, other.layout).order
            ]
    return order if (order != rows).any() else None


def _row_orders(pair: Pair, one: Form, other: Form) -> Iterator[tuple[str, Indices]]:
    """Mistakes with rows: what to say of each, and the rows that the other form then has."""
    same = np.arange(len(pair.ours.rows))
    expected = same if pair.order is None else pair.order
    named = projection(pair.name)
    if len(same) % 2 == 0:
        yield "has its halves exchanged", np.roll(expected, len(same) // 2)
    if named is None or one.heads is None or named.norm:
        return

    def permuted(rows: Indices, heads: int) -> Indices:
        return rows.reshape(heads, -1)[
            :, application.reorder(len(rows) // heads, "halves", "interleaved")
        ].reshape(-1)

    heads, kv_heads = one.heads.heads, one.heads.kv_heads or one.heads.heads
    form = f"{other.architecture} in {other.kind} form"
    if named.kind == "qkv":
        if len(same) % (heads + 2 * kv_heads) == 0:
            size = len(same) // (heads + 2 * kv_heads)
            q, k, v = np.split(expected, [heads * size, (heads + kv_heads) * size])
            yield f"is in the order of {one.label}; {form} has {ORDERS['blocks'].words}", same
            turned = np.concatenate([permuted(q, heads), permuted(k, kv_heads), v])
            yield f"is permuted in q and k; {form} is not", turned
            yield "has its k and v exchanged", np.concatenate([q, v, k])
        return
    own, word = (heads, "heads") if named.kind == "q" else (kv_heads, "kv heads")
    if pair.order is not None:
        yield f"is not permuted; {form} is", same
        yield "is permuted twice", expected[expected]
        yield "is permuted the wrong way, from interleaved to halves", np.argsort(expected)
    elif len(same) % (2 * own) == 0 and other.layout == "interleaved":
        yield f"is not permuted; {form} is", np.argsort(permuted(same, own))
    for count in (own, heads, kv_heads, *(2**k for k in range(10))):
        if len(same) % (2 * count) == 0 and (count != own or pair.order is None):
            other_count = f" in {count} heads; the model has {own} {word} (llama.cpp#3364)"
            yield (
                f"is permuted{f'; {form} is not' if count == own else other_count}",
                permuted(same, count),
            )


def _reason(pair: Pair, one: Form, other: Form, allowed: Tolerance) -> str:
    """What happened to a tensor, or how far it is off, as a text in which the worst error has a place."""
    count = len(pair.theirs.rows)
    loose = replace(allowed, rtol=allowed.rtol + 1e-3)  # for numbers that are told in a few digits

    def explains(
        ours: Stored,
        order: Indices | None,
        times: float = 1,
        plus: float = pair.added,
        tolerance: Tolerance = allowed,
    ) -> bool:
        """Whether the tensor is that one, of a form that keeps it like ours: in a few rows, then in all."""
        for places in (np.arange(0, count, 1 + count // SOME_ROWS), np.arange(count)):
            expected = ours.sample(places if order is None else order[places]) * np.float32(
                times
            ) + np.float32(plus)
            if pair.bad_rows(expected, pair.theirs.sample(places), tolerance)[0].any():
                return False
        return True

    for words, order in _row_orders(pair, one, other):
        if explains(pair.ours, order):
            return words
    order = np.arange(count) if pair.order is None else pair.order
    ours, theirs = (
        pair.ours.sample(order) + np.float32(pair.added),
        pair.theirs.sample(np.arange(count)),
    )
    ratio = np.vdot(ours, theirs) / (np.vdot(ours, ours) or 1)
    factors = dict.fromkeys(float(f"{ratio:.{digits}g}") for digits in (1, 2, 4))
    norms = f"{other.kind} keeps norms of {other.architecture} {'with' if pair.added else 'without'} 1 added"
    for words, times, plus in (
        ("is all zeros", 0.0, 0.0),
        (f"is 1 too small: {norms}", 1.0, pair.added - 1.0),
        (f"is 1 too large: {norms}", 1.0, pair.added + 1.0),
        *((f"is multiplied by {factor:g}", factor, factor * pair.added) for factor in factors),
    ):
        if (times, plus) != (1, pair.added) and explains(pair.ours, order, times, plus, loose):
            return words
    square = (
        len(pair.ours.shape) == 2
        and pair.ours.shape[0] == pair.ours.shape[1]
        and not pair.ours.others
    )
    if square and pair.ours.kind not in BITS and explains(Stored.of(pair.ours.array.T), None):
        return "is transposed"
    layer, last = _parts(pair.name)
    for name, tensor in one.tensors.items():
        number, short = _parts(name)
        stored = tensor.fitted(pair.ours.shape)
        near = (number == layer) != (short == last) and stored.shape == pair.ours.shape
        if near and explains(stored, _order(name, stored, one, other)):
            return f"is {f'layer {number}' if short == last else short} of {one.label}"
    return f"is off by up to {{:.3g}}, beyond the rounding of {pair.theirs.kind}"


def _parts(name: str) -> tuple[str, str]:
    layer, rest = name[4:].split(".", 1) if name.startswith("blk.") else ("", name)
    return layer, re.sub(r"^attn_(?=[qkv]+[.])", "", rest).replace(".weight", "").replace(
        ".bias", " bias"
    )


def _joined(
    problems: Sequence[tuple[str, str]], worst: Mapping[str, float], label: str
) -> list[str]:
    """One line for all tensors with the same problem, with the layers and experts that have it."""
    places: dict[tuple[str, str], tuple[set[int], set[int]]] = {}
    largest: dict[str, float] = {}
    for name, words in problems:
        layer, short = _parts(EXPERT.sub("", name))
        layers, experts = places.setdefault((words, short), (set(), set()))
        largest[words] = max(largest.get(words, 0.0), worst.get(name, 0.0))
        layers |= {*map(int, filter(None, [layer]))}
        experts |= {*map(int, EXPERT.findall(name))}
    groups: dict[tuple[str, str], list[str]] = {}
    for (words, short), (layers, experts) in places.items():
        some = f" (expert{'s' * (len(experts) > 1)} {_ranges(experts)})" if experts else ""
        groups.setdefault((words, _ranges(layers)), []).append(short + some)
    lines = []
    for (words, ranges), group in groups.items():
        names = sorted(group, key=lambda name: (" bias" in name, "qkv".find(name[0]), name))
        where = f" of layer{'s' * (not ranges.isdigit())} {ranges}" if ranges else ""
        words = words.format(largest[words])
        if len(names) > 1:
            words = words.replace("is ", "are ", 1).replace("has its ", "have their ", 1)
        lines.append(
            f"{label}: {' and '.join(names) if len(names) == 2 else listed(names, 6)}{where} {words}"
        )
    return [
        *lines[:MAX_LINES],
        *[f"and {len(lines) - MAX_LINES} more such lines"] * (len(lines) > MAX_LINES),
    ]


def _ranges(numbers: Iterable[int]) -> str:
    runs = [
        [*run] for _, run in groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0])
    ]
    return ", ".join(
        f"{run[0][1]}–{run[-1][1]}" if len(run) > 1 else f"{run[0][1]}" for run in runs
    )


def _changed(name: str, ours: Any, theirs: Any, other: Form, *, missing: bool = False) -> str:
    key = KEYS[other.kind].get(name, "its key")
    why = f": {key} is missing" if missing else f" ({key})"
    return f"{other.label}: {name} {ours:g} → {theirs:g}{why}"


def _encodings(one: Form, other: Form) -> list[str]:
    ours, theirs = one.encodings.ropes(), other.encodings.ropes()
    if bool(ours) != bool(theirs):
        return [f"{(other if ours else one).label}: no rotary encoding"]
    length = max(form.encodings.context or 1 for form in (one, other))
    lines = []
    counts = [
        (form.heads.heads, form.heads.kv_heads or form.heads.heads)
        for form in (one, other)
        if form.heads
    ]
    latent = any(
        name.endswith("attn_k_b.weight") for form in (one, other) for name in form.tensors
    )  # as one kv head
    for name, before, after in (
        zip(("heads", "kv heads"), counts[0], counts[-1], strict=True) if counts else ()
    ):
        lines += [_changed(name, before, after, other)] if before != after and not latent else []
    for name, before in one.counts.items():
        after, key = other.counts[name], KEYS[other.kind].get(name)
        if key and before is not None and after is None:
            lines.append(f"{other.label}: {key} is missing")
        elif (
            key
            and name == "layers"
            and before != after
            and isinstance(before, int)
            and isinstance(after, int)
        ):
            lines.append(f"{other.label}: {name} {before:,} → {after:,} ({key})")
    for encoding in ours:
        twin = next((each for each in theirs if each.layer_type == encoding.layer_type), theirs[0])
        where = f" ({encoding.layer_type})" if encoding.layer_type else ""
        lines += [f"{line}{where}" for line in _encoding(encoding, twin, other, length)]
    return lines


def _encoding(one: Encoding, two: Encoding, other: Form, length: int) -> list[str]:
    if (
        other.kind == GGUF
        and one.parameters.get("truncate") is False
        and "truncate" in two.parameters
    ):
        two = replace(
            two, parameters={**two.parameters, "truncate": False}
        )  # for which GGUF has no key
    lines, given, found = [], one.parameters, two.parameters
    if one.rotary_dim != two.rotary_dim:
        missing = KEYS[other.kind].get("rotary dimension", "") not in " ".join(two.sources.values())
        return [
            _changed("rotary dimension", one.rotary_dim, two.rotary_dim, other, missing=missing)
        ]
    if not math.isclose(given["base"], found["base"], rel_tol=SAME_FREQUENCY):
        missing = "default" in two.sources.get("base", "default")
        lines.append(_changed("base", given["base"], found["base"], other, missing=missing))
    sections = [tuple(map(int, each.sections.mrope_section or ())) for each in (one, two)]
    if sections[0] != sections[1]:
        lines.append(
            f"{other.label}: M-RoPE sections {bracketed(sections[0])} → {bracketed(sections[1])}"
        )
    if given["scaling"] != "none" == found["scaling"]:
        return [*lines, f"{other.label}: {lost_scaling(one, other.kind)}"]
    for at in (None, length) if not lines else ():
        when = f" at {at:,} positions" if at else ""
        ours, theirs = (np.array(each.inverse_frequencies(at)) for each in (one, two))
        off = np.flatnonzero(~np.isclose(ours, theirs, rtol=SAME_FREQUENCY, atol=0)).tolist()
        factors = [each.attention_factor(at) or 1.0 for each in (one, two)]
        if off:
            return [f"{other.label}: frequencies of pairs {_ranges(off)} differ{when}"]
        if not math.isclose(*factors, rel_tol=SAME_FREQUENCY):
            return [f"{other.label}: attention factor {factors[0]:.6g} → {factors[1]:.6g}{when}"]
    return lines


def lost_scaling(encoding: Encoding, form: str) -> str:
    """What to say of a form of a model that has no scaling, where the model has."""
    in_freqs = "rope_freqs" in encoding.sources.get(
        "long_factor", ""
    )  # where a .gguf has the factors of llama3
    kind = "llama3" if in_freqs else encoding.parameters["scaling"]
    key = KEYS[form].get(kind, "rope.scaling.type" if form == GGUF else "rope_scaling")
    return f"{key} is missing: the {kind} scaling is lost"
