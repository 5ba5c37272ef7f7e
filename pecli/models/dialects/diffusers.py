"""Transformers of diffusers, whose configuration names its class. diffusers.json beside this file has the defaults of
those that rotate by several axes, with the key of the channels of each axis, of those that add a table, and notes."""

from dataclasses import replace
from typing import Any

from pecli.engine.schemes.given_positions import GridSize
from pecli.engine.schemes.grid_styles import ROTARY
from pecli.errors import quoted
from pecli.models.data import stored
from pecli.models.encoding import Encoding
from pecli.models.families import INTERLEAVED
from pecli.models.heads import head_size
from pecli.models.keys import ClassDefaults, Keys, Setting


def read(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """The encoding of a class of diffusers."""
    name = keys.needed(keys.word("_class_name"), "_class_name").value
    data = stored("dialects/diffusers.json")
    if row := data["axial"].get(name):
        keys = replace(keys, defaults=ClassDefaults(name, row["values"]))
        warnings += [data["notes"][name]] if name in data["notes"] else []
        more = {
            option: keys.numbers(row[option])
            for option in ("grid_base", "axis_factors")
            if option in row
        }
        given = {
            option: Setting(tuple(values.value), values.source)
            for option, values in more.items()
            if values
        }
        return [
            _axial_rope(keys, row["style"], row["axes"], row.get("layout", INTERLEAVED), **given)
        ]
    if values := data["tables"].get(name):
        return [TABLES[name](replace(keys, defaults=ClassDefaults(name, values)))]
    note, known = data["notes"].get(name), ", ".join((*data["axial"], *data["tables"]))
    said = f"_class_name {quoted(name)}"
    warnings.append(f"{said}: {note}" if note else f"{said} is none of {known}")
    return []


def _size(keys: Keys, name: str) -> Setting[Any]:
    return keys.needed(keys.whole(name), name)


def _axial_rope(
    keys: Keys, style: str, axes: str = "", layout: str = INTERLEAVED, **more: Setting[Any]
) -> Encoding:
    """Axes of positions, each with the channels that a key gives it; or with a share of the head, as the style has."""
    split: Setting[Any] | None = keys.numbers(axes) if axes else None
    if split is None:
        head = head_size(keys)
        if ROTARY[style].mixed:  # all heads together
            heads = _size(keys, "num_attention_heads")
            head = Setting(heads.value * head.value, f"{heads.source} · {head.source}")
        split = Setting(
            ROTARY[style].split(head.value), f"{head.source}, shared out by the style {style}"
        )
    else:
        head = Setting(sum(map(int, split.value)), f"the sum of {split.source}")
    count = len(split.value)
    channels = Setting([int(channels) for channels in split.value], split.source)
    extra = {"axes": Setting(count, "family"), "axis_channels": channels}
    reason = (
        f"its positions have {count} axes, which --axes and --positions give channels and numbers"
    )
    if style == "hunyuan-image" and count == 3:
        style = "hunyuan-video"
    if style:
        extra |= {"style": Setting(style, "family"), **more}
        reason = f"its positions have {count} axes: {', '.join(ROTARY[style].axes)}; give a grid"
    base = keys.number("rope_theta", "theta") or Setting(10000.0, "default")
    found = {"dim": head, "base": base, "scaling": Setting("none", "default")}
    return Encoding.of(
        "rope", found, extra, head_dim=head, layout=Setting(layout, "family"), no_table=reason
    )


def _table(keys: Keys, style: str, **others: Setting[Any]) -> Encoding:
    count, head = _size(keys, "num_attention_heads"), _size(keys, "attention_head_dim")
    dim = Setting(count.value * head.value, f"{count.source} · {head.source}")
    said = {"dim": dim, "style": Setting(style, "family"), "base": Setting(10000.0, "default")}
    return Encoding.of("sinusoidal", {"grid": others.pop("grid"), **said, **others})


def _sd3(keys: Keys, **others: Setting[Any]) -> Encoding:
    """A table of the largest grid, from which the middle is cut."""
    size, patch = _size(keys, "sample_size"), _size(keys, "patch_size")
    side = Setting(size.value // patch.value, f"{size.source} // {patch.source}")
    most = keys.whole("pos_embed_max_size") or side
    grid = Setting(GridSize((most.value, most.value)), most.source)
    return _table(
        keys, "sd3", grid=grid, grid_base=Setting((float(side.value),), side.source), **others
    )


def _pixart(keys: Keys) -> Encoding:
    """A table of its own grid, which it stretches."""
    size, given = _size(keys, "sample_size"), keys.number("interpolation_scale")
    scale = given or Setting(float(max(size.value // 64, 1)), f"max({size.source} // 64, 1)")
    return _sd3(keys, grid_scale=Setting((scale.value,), scale.source))


def _cogvideox(keys: Keys) -> Encoding:
    """Rotary where it says so; else an added table of 3 axes."""
    if keys.is_true("use_rotary_positional_embeddings"):
        return _axial_rope(keys, "cogvideox")
    patch, height, width = (
        _size(keys, "patch_size"),
        _size(keys, "sample_height"),
        _size(keys, "sample_width"),
    )
    frames, ratio = _size(keys, "sample_frames"), _size(keys, "temporal_compression_ratio")
    time = (frames.value - 1) // ratio.value + 1
    space = keys.number("spatial_interpolation_scale") or Setting(1.0, "default")
    pace = keys.number("temporal_interpolation_scale") or Setting(1.0, "default")
    source = f"({frames.source} − 1) // {ratio.source} + 1, {height.source}, {width.source} // {patch.source}"
    grid = Setting(
        GridSize((time, height.value // patch.value, width.value // patch.value)), source
    )
    scale = Setting((pace.value, space.value, space.value), f"{pace.source}, {space.source}")
    return _table(keys, "cogvideox", grid=grid, grid_scale=scale)


TABLES = {
    "CogVideoXTransformer3DModel": _cogvideox,
    "SD3Transformer2DModel": _sd3,
    "PixArtTransformer2DModel": _pixart,
}
