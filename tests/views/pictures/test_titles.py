"""Labels that distinguish the sources of a picture, and its title. Expected words are written by hand."""

import pytest

import pecli
from pecli.errors import ParameterError
from pecli.views.pictures.plot_sources import PlotSource, of_scheme
from pecli.views.pictures.titles import count_positions, labelled, names_of, title_of


@pytest.mark.parametrize(
    ("scheme", "title"),
    [
        (
            pecli.Rope(9, 8, scaling="linear", factor=2.0, dtype="float16"),
            "rope, dim 8, scaling linear, factor 2, dtype float16: similarity",
        ),
        (
            pecli.Rope(9, 16, scaling="linear", factor=2.0, dtype="float16"),
            "rope, dim 16, scaling linear, factor 2: similarity",
        ),
        (pecli.Rope(9, 8, base=1e7), "rope, dim 8, base 1e7: similarity"),
        (pecli.Alibi(1, slopes=True), "alibi, 1 head: similarity"),
        (pecli.Alibi(8, slopes=True), "alibi, 8 heads: similarity"),
    ],
    ids=["40 letters", "41 letters", "a float", "one head", "heads"],
)
def test_a_title_has_as_many_parameters_as_there_is_room_for(
    scheme: pecli.Scheme, title: str
) -> None:
    """At most 40 letters of parameters stand between the scheme and what is drawn.
    `dim 8, scaling linear, factor 2, dtype float16` has 40 without commas and spaces between them;
    with dim 16, the last parameter is left out.
    """
    assert title_of(labelled(of_scheme(scheme)), "similarity") == title


def test_the_title_of_a_file_is_its_label_and_what_is_drawn() -> None:
    """A file without a spec has no parameters to name."""
    source = PlotSource(label="mine.npy", tables=())
    assert title_of([source], "similarity") == "mine.npy: similarity"


def test_labels_state_what_differs_and_number_equal_schemes() -> None:
    """Of the bases 1, 2 and 2, the second and third are the same scheme."""
    subjects = [
        subject for base in (1.0, 2.0, 2.0) for subject in of_scheme(pecli.Rope(4, 8, base=base))
    ]
    labels = [subject.label for subject in labelled(subjects)]

    assert labels == ["rope, base 1", "rope, base 2 (1 of 2)", "rope, base 2 (2 of 2)"]


def test_a_scheme_beside_a_file_states_its_parameters_and_alone_only_its_name() -> None:
    """The file has no spec, so that it is not known in which parameters the scheme differs from it:
    the label has the main ones.
    """
    file = PlotSource("mine.npy", ())
    rope = of_scheme(pecli.Rope(4, 8))
    beside = [source.label for source in labelled([file, *rope])]

    assert beside == ["mine.npy", "rope, dim 8, base 10000"]
    assert [source.label for source in labelled(rope)] == ["rope"]


@pytest.mark.parametrize(
    ("counts", "words"), [([], "positions"), ([1, 1], "1 positions"), ([1, 2], "positions")]
)
def test_positions_are_counted_if_all_tables_have_as_many(counts: list[int], words: str) -> None:
    """`counts` are the numbers of rows of the tables: none known, one each, and one and two."""
    assert count_positions(counts) == words


def labels_of(*sources: PlotSource, names: tuple[str, ...] = ()) -> list[str]:
    return [source.label for source in labelled(sources, names)]


def test_labels_may_be_given_for_each_source() -> None:
    """Two sources need two names, in their order."""
    file = PlotSource("file", ())
    assert labels_of(file, file, names=("a", "b")) == ["a", "b"]
    with pytest.raises(ParameterError, match="label is 1 name; there are 2 sources; name each"):
        labelled([file, file], ("a",))


def test_a_source_is_named_by_a_parameter_that_it_lacks() -> None:
    """Only one of two sinusoidal tables has a row of padding. The label of the other states that it
    has none.
    """
    with_padding = of_scheme(pecli.Sinusoidal(4, 8, padding_idx=1))
    assert labels_of(*of_scheme(pecli.Sinusoidal(4, 8)), *with_padding) == [
        "sinusoidal, no padding_idx",
        "sinusoidal, padding_idx 1",
    ]


def test_a_scheme_without_a_scaling_is_called_unscaled_beside_a_scaled_one() -> None:
    """Labels have the parameters in which two ropes differ: the scaling and its factor."""
    scaled = of_scheme(pecli.Rope(4, 8, scaling="linear", factor=2.0))
    assert labels_of(*of_scheme(pecli.Rope(4, 8)), *scaled) == [
        "rope, unscaled",
        "rope, scaling linear, factor 2",
    ]


def test_labels_of_different_schemes_have_their_main_parameters() -> None:
    """Beside another scheme, a rope is named by its dim and base and ALiBi by its number of heads,
    also if these are defaults, as base 10000 is. Lengths are left out: they are seen on the axes.
    """
    rope = of_scheme(pecli.Rope(seq_len=4, dim=8, base=10000.0))
    alibi = of_scheme(pecli.Alibi(heads=2, seq_len=4))

    assert labels_of(*rope, *alibi) == ["rope, dim 8, base 10000", "alibi, 2 heads"]


def test_several_sources_are_named_where_they_are_drawn_and_one_in_the_title() -> None:
    """`names_of` are the names beside the curves or panels of each source, which are empty if there
    is one source, as the title has its name.
    """
    first, second = PlotSource("a", ()), PlotSource("b", ())
    assert title_of([first, second], "angles by pair") == "Angles by pair"
    assert names_of([first, second]) == ["a", "b"]
    assert names_of([first]) == [""]
