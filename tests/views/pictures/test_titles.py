"""Labels that distinguish the sources of a picture, and its title. Expected words are written by hand."""

import pytest

import pecli
from pecli.views.pictures.plot_sources import PlotSource, of_scheme
from pecli.views.pictures.titles import count_positions, labelled, title_of


@pytest.mark.parametrize(
    ("scheme", "title"),
    [
        (
            pecli.Rope(9, 8, scaling="linear", factor=2.0, dtype="float16"),
            "rope, dim 8, scaling linear, factor 2, dtype float16: it",
        ),
        (
            pecli.Rope(9, 16, scaling="linear", factor=2.0, dtype="float16"),
            "rope, dim 16, scaling linear, factor 2: it",
        ),
        (pecli.Rope(9, 8, base=1e7), "rope, dim 8, base 1e7: it"),
        (pecli.Alibi(1, slopes=True), "alibi, 1 head: it"),
        (pecli.Alibi(8, slopes=True), "alibi, 8 heads: it"),
    ],
    ids=["40 letters", "one letter too many", "a float", "one head", "heads"],
)
def test_a_title_has_as_many_parameters_as_there_is_room_for(
    scheme: pecli.Scheme, title: str
) -> None:
    """40 letters are the limit."""
    assert title_of(labelled(of_scheme(scheme)), "it") == title


def test_a_file_is_named_by_its_label() -> None:
    """`title_of` names what is drawn («it») after the label of its source («file»)."""
    assert title_of([PlotSource("file", ())], "it") == "file: it"


def test_labels_state_differences_and_equal_subjects_are_numbered() -> None:
    """Bases 1, 2 and 2: the second and third are the same scheme."""
    subjects = [
        subject for base in (1.0, 2.0, 2.0) for subject in of_scheme(pecli.Rope(4, 8, base=base))
    ]
    labels = [subject.label for subject in labelled(subjects)]

    assert labels == ["rope, base 1", "rope, base 2 (1 of 2)", "rope, base 2 (2 of 2)"]


def test_a_scheme_beside_a_file_states_its_base_and_alone_only_its_name() -> None:
    """The file has no spec that the scheme could be compared with."""
    file = PlotSource("mine.npy", ())
    rope = of_scheme(pecli.Rope(4, 8))
    beside = [source.label for source in labelled([file, *rope])]

    assert beside == ["mine.npy", "rope, dim 8, base 10000"]
    assert [source.label for source in labelled(rope)] == ["rope"]


@pytest.mark.parametrize(
    ("counts", "words"), [([], "positions"), ([1, 1], "1 positions"), ([1, 2], "positions")]
)
def test_positions_are_counted_if_all_tables_have_as_many(counts: list[int], words: str) -> None:
    """Two tables of one row each, and tables of one and two rows."""
    assert count_positions(counts) == words
