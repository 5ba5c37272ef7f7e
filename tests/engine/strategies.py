"""Schemes of all kinds, small enough to make many."""

from hypothesis import strategies as st

from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.recipes import BIAS_RECIPE, RECIPES
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import STYLES, Sinusoidal


def any_of(*values: object) -> st.SearchStrategy:
    return st.sampled_from(values)


dtypes = any_of("float64", "float32", "float16", "bfloat16")
bases = any_of(10000.0, 500000.0, 1e6, 100.0, 2.0, 1.0, 0.5, 1e20, 9999.9)
offsets = st.one_of(
    st.integers(0, 3000),
    st.integers(10**6 - 50, 10**6 + 50),
    st.integers(2**40 - 3000, 2**40 - 400),
)
recipes = st.one_of(st.just("exact"), any_of(*sorted(RECIPES)))
lengths = st.one_of(st.integers(1, 40), st.integers(41, 400))
even = st.integers(1, 20).map(lambda pairs: 2 * pairs)
common = {"base": bases, "offset": offsets, "recipe": recipes, "dtype": dtypes}


def schemes() -> st.SearchStrategy[Scheme]:
    order = {
        "layout": any_of("interleaved", "halves"),
        "cos_first": st.booleans(),
        "freq_shift": any_of(0.0, 0.5),
    }
    numbers = {"scale": any_of(1.0, 0.25, 1000.0, 0.1), "amplitude": any_of(1.0, 0.125, 0.3, 7.5)}
    padding = {"padding_idx": any_of(None, 0, 1, 10**6)}
    forms = {
        "rule": any_of("paper", "naive"),
        "form": any_of("symmetric", "causal", "key", "key-last"),
    }
    slopes = {
        "max_bias": any_of(8.0, 16.0, 0.3),
        "slopes": st.booleans(),
        "recipe": any_of(*BIAS_RECIPE.options),
    }
    inits = any_of("normal", "uniform", "xavier-uniform", "zeros", "sinusoidal", "trunc-normal")
    drawn = {"init": inits, "std": any_of(0.02, 1.0, 0.3), "seed": any_of(0, 1, 2**32, 2**64 - 1)}
    keys = st.one_of(st.none(), st.integers(1, 30))
    return st.one_of(
        st.builds(Sinusoidal, lengths, st.integers(2, 40), **order, **numbers, **padding, **common),
        st.builds(Sinusoidal, lengths, even, style=any_of(*sorted(STYLES))),
        st.builds(Rope, lengths, even, layout=any_of("compact", "halves", "interleaved"), **common),
        st.builds(Alibi, st.integers(1, 9), keys, **forms, **slopes, dtype=dtypes),
        st.builds(LearnedInit, st.integers(1, 60), st.integers(1, 12), **drawn, dtype=dtypes),
    )
