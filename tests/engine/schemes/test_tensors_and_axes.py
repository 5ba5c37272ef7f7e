"""The tensors of a scheme: their names, shapes and axes, and which parameters affect them.

Axes name the dimensions of a tensor, its first position, the unit of its elements, and how many
columns share a frequency. Expected values are written by hand from the definitions of the schemes.
"""

from inspect import signature

import pytest

from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.relative import Relative
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Axes, Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal


@pytest.mark.parametrize(
    ("scheme", "tensor", "axes"),
    [
        (
            Sinusoidal(4, 8, offset=3),
            "pe",
            Axes(("position", "channel"), first=3, value="value", step=2),
        ),
        (Rope(4, 8, offset=7), "cos", Axes(("position", "pair"), first=7, value="cosine")),
        (Rope(4, 8, layout="halves"), "sin", Axes(("position", "channel"), value="sine")),
        (
            Rope(4, 8, layout="interleaved"),
            "cos_sin",
            Axes(("part", "position", "channel"), value="value", step=2),
        ),
        (Rope(4, 8), "inv_freq", Axes(("pair",), value="frequency")),
        (Rope(4, 8), "axis", Axes(("pair",), value="axis")),
        (Alibi(2, 4), "bias", Axes(("head", "query", "key"), value="bias")),
        (Alibi(2, 4), "slopes", Axes(("head",), value="slope")),
        (Relative("t5", 4), "index", Axes(("query", "key"), value="bucket")),
        (Relative("t5", 4), "bias", Axes(("head", "query", "key"), value="bias")),
    ],
    ids=str,
)
def test_the_axes_of_a_tensor_have_names_a_first_position_and_a_unit(
    scheme: Scheme, tensor: str, axes: Axes
) -> None:
    """Pictures and messages name a tensor's axes. `first` is the position of the first row (0 unless
    there is an offset), `value` a word for the elements, and `step` the columns from one frequency to
    the next: 2 if neighbouring columns share one, as sin 0, cos 0, sin 1, cos 1, … do, otherwise 1.
    """
    assert scheme.axes_of(tensor) == axes


def test_a_grid_has_a_tensor_of_the_axis_that_each_pair_follows() -> None:
    """EVA rotates the first half of the pairs by rows, and the second half by columns."""
    rope = Rope(grid=(2, 3), dim=8, style="eva")
    assert rope.tables()["axis"].tolist() == [0, 0, 1, 1]


def test_a_rope_over_a_text_has_no_tensor_of_axes() -> None:
    """Ropes on a grid have a tensor `axis` with the axis that each pair follows; the positions of a
    text are a single axis.
    """
    assert "axis" not in Rope(4, 8).tables()


@pytest.mark.parametrize("scheme", [Sinusoidal(4, 8), Alibi(2, 4), Relative("t5", 4)], ids=str)
def test_schemes_that_rotate_nothing_have_an_attention_factor_of_one(scheme: Scheme) -> None:
    """The attention factor multiplies cos and sin of a scaled rotation."""
    assert scheme.attention_factor_value() == 1.0


@pytest.mark.parametrize(
    ("scheme", "shapes"),
    [
        (Alibi(4), {"slopes": (4,)}),
        (Alibi(4, 6, slopes=True), {"slopes": (4,)}),
        (Alibi(4, 6), {"bias": (4, 6, 6), "slopes": (4,)}),
        (Alibi(4, 6, form="key"), {"bias": (4, 1, 6), "slopes": (4,)}),
    ],
    ids=str,
)
def test_alibi_has_slopes_and_a_bias_if_it_has_a_length(
    scheme: Alibi, shapes: dict[str, tuple[int, ...]]
) -> None:
    """`shapes` are the tensors of 4 heads: a slope per head, and with a length of 6 a bias (heads,
    queries, keys), which has one row for all queries in a form by key. slopes=True makes slopes
    only.
    """
    assert {table.name: table.shape for table in scheme.tensors()} == shapes


def test_the_bias_stands_for_alibi_in_files_of_a_single_array() -> None:
    """ALiBi has two tensors, slopes and bias; an .npy file holds one array."""
    assert Alibi(4, 6).single_array().name == "bias"


def test_the_form_of_alibi_is_inert_if_only_slopes_are_made() -> None:
    """An inert parameter has no effect on the tensors. The form determines the arrangement of the
    bias, and slopes=True makes none.
    """
    assert Alibi(4, 6, slopes=True).inert_parameters == {"form"}
    assert Alibi(4, 6).inert_parameters == frozenset()


def test_slopes_of_alibi_are_derived_if_there_is_a_bias() -> None:
    """A derived tensor adds no information to the others in a file: slopes can be read off the bias,
    but not if they are the only tensor.
    """
    assert Alibi(4, 6).derived_tensors == {"slopes"}
    assert Alibi(4, 6, slopes=True).derived_tensors == frozenset()


def test_a_scale_on_positions_multiplies_angular_frequencies() -> None:
    """4 channels have the frequencies 1 and 10000^(-1/2) = 0.01; scale multiplies each by 1000."""
    assert Sinusoidal(1, 4, scale=1000.0).angular_frequencies() == [1000.0, 10.0]


def test_angular_frequencies_of_an_added_scheme_are_its_inverse_frequencies() -> None:
    """A scheme that somebody adds need not define both: without a recipe and a scale, they are equal."""

    class Tides(LearnedInit):
        def inverse_frequencies(self) -> list[float]:
            return [0.5, 0.25]

    assert Tides(4, 4).angular_frequencies() == [0.5, 0.25]


@pytest.mark.parametrize("scheme", [Alibi(2, 4), LearnedInit(4, 8)], ids=str)
def test_alibi_and_learned_tables_have_no_frequencies(scheme: Scheme) -> None:
    """Frequencies belong to tables of waves: both properties are None for the slopes of ALiBi and
    for drawn weights.
    """
    assert scheme.inverse_frequencies() is None
    assert scheme.angular_frequencies() is None


@pytest.mark.parametrize("scheme", [LearnedInit(4, 8), Relative("t5", 4)], ids=str)
def test_learned_tables_and_relative_indices_have_no_recipes(scheme: Scheme) -> None:
    """A recipe computes a table in the dtypes of some project; drawn weights and integers have
    none.
    """
    assert scheme.recipe_names() == ()


@pytest.mark.parametrize("scheme", [LearnedInit(4, 8), Rope(4, 8)], ids=str)
def test_a_scheme_without_a_runtime_has_no_departures(scheme: Scheme) -> None:
    """`causes` are the sentences that report how a runtime departs from the model's own code."""
    assert scheme.runtime_reading.causes == ()


def test_a_repr_shows_the_defaults_of_a_style() -> None:
    """The scheme is made from the style t5 and a length; T5's 32 buckets and largest distance 128, as
    in its published config, are filled in.
    """
    expected = "Relative(style='t5', seq_len=4, buckets=32, max_distance=128)"
    assert repr(Relative("t5", 4)) == expected


def test_the_signature_of_a_scheme_has_plain_types_and_defaults() -> None:
    """`help(pecli.LearnedInit)` prints it: int and float instead of the classes of parameters."""
    expected = (
        "(max_len: int, dim: int, init: str = 'normal', std: float = 0.02, seed: int = 0, *, "
        "dtype: str = 'float32') -> None"
    )

    assert str(signature(LearnedInit)) == expected
    assert signature(Alibi.__init__).parameters["heads"].annotation is int


@pytest.mark.parametrize("kind", [Sinusoidal, Rope])
def test_a_signature_has_the_defaults_of_parameters(kind: type[Scheme]) -> None:
    """`help(pecli.Rope)` shows the signature; 10000 is the base of both papers (Transformer,
    RoFormer).
    """
    assert signature(kind).parameters["base"].default == 10000.0


def test_recipe_and_dtype_are_the_last_parameters() -> None:
    """In help and specs, the parameters of a single scheme come before."""
    assert [*Rope.parameters()][-2:] == ["recipe", "dtype"]


def test_learned_weights_default_to_a_deviation_of_0_02_and_seed_0() -> None:
    """A normal distribution of standard deviation 0.02, as in GPT-2, from seed 0."""
    scheme = LearnedInit(4, 8)
    assert scheme.std == 0.02
    assert scheme.seed == 0
