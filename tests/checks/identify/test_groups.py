"""Which tensors of a file are looked at."""

from __future__ import annotations

import pytest

from pecli.checks.identify.groups import groups
from pecli.engine.table import Table


def table(name: str, *shape: int) -> Table:
    return Table(name, "float32", shape or (4, 4), lambda start, out: out.fill(0))


def names(*tables: Table) -> list[tuple[str, ...]]:
    return [tuple(each.name for each in group.tables) for group in groups(tables)]


@pytest.mark.parametrize(
    ("cosines", "sines"),
    [("cos", "sin"), ("rotary.cos_cached", "rotary.sin_cached"), ("freqs_cos", "freqs_sin"), ("COS", "SIN")],
)
def test_cosines_and_sines_go_together(cosines: str, sines: str) -> None:
    assert names(table(sines), table("w"), table(cosines)) == [(cosines, sines), ("w",)]
    assert names(table(sines, 4, 4), table(cosines, 4, 8)) == [(sines,), (cosines,)]


def test_frequencies_are_beside_them() -> None:
    pair = [table("a.cos"), table("a.sin")]
    (group,) = groups([*pair, table("a.inv_freq", 4)])
    assert group.inv_freq is not None
    first, *others = groups([*pair, table("b.inv_freq", 4), table("c.inv_freq", 4)])
    assert first.inv_freq is None
    assert len(others) == 2


def test_of_a_checkpoint_only_names_that_speak_of_positions() -> None:
    others = [table(f"h.{k}.attn.weight") for k in range(20)] + [table("wte.weight"), table("encoder.compose.bias")]
    assert not groups(others)
    for name in (
        "wpe.weight",
        "bert.embeddings.position_embeddings.weight",
        "model.layers.3.self_attn.rotary_emb.inv_freq",
        "model.decoder.embed_positions.weight",
        "pos_embed",
        "visual.positional_embedding",
        "alibi",
        "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        "pe",
        "transformer.freqs_cis",
    ):
        assert names(*others, table(name)) == [(name,)]


def test_names_that_only_contain_the_letters() -> None:
    many = [table(f"{word}.{k}.weight") for k in range(5) for word in ("composer", "typed", "cosine_head", "single")]
    assert not groups(many)


def test_few_tensors_are_all_looked_at() -> None:
    assert names(table("a"), table("b")) == [("a",), ("b",)]
