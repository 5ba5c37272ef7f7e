"""Every layout is read back into the parts it was made of."""

import numpy as np
import pytest

from pecli.explain.forms import DOUBLINGS, SEARCHED, Form, forms

COS = np.cos(np.outer(np.arange(7), [1.0, 0.1, 0.01]))
SIN = np.sin(np.outer(np.arange(7), [1.0, 0.1, 0.01]))

ALL = [
    Form(arrangement, doubled, padded)
    for arrangement in SEARCHED
    for doubled in DOUBLINGS
    for padded in ((False, True) if arrangement == "halves" else (False,))
]


@pytest.mark.parametrize("form", ALL, ids=str)
def test_split_undoes_join(form: Form) -> None:
    parts = (COS,) if form.arrangement == "alone" else (COS, SIN)
    array = form.join(*parts)
    found = form.split(array)
    assert found is not None
    assert [part.tolist() for part in found] == [part.tolist() for part in parts]
    assert form.padded or form in list(forms(array))


def test_noise_is_allowed_for_where_it_is_said() -> None:
    noisy = np.concatenate([COS, COS + 1e-3], axis=1)
    assert Form("alone", "halves").split(noisy) is None
    assert Form("alone", "halves").split(noisy, 0.05) is not None
    nearly_empty = np.full((7, 1), 1e-4)
    assert Form("halves", padded=True).split(np.concatenate([COS, SIN, nearly_empty], axis=1), 0.05) is not None
    assert Form("alone", "halves").split(np.concatenate([COS, SIN], axis=1), 0.05) is None
    assert Form("alone", padded=True).split(np.ones((4, 3))) is None


def test_layouts_are_what_their_names_say() -> None:
    assert Form("interleaved").join(COS, SIN)[1, :2].tolist() == [COS[1, 0], SIN[1, 0]]
    assert Form("halves").join(COS, SIN)[1, 2:4].tolist() == [COS[1, 2], SIN[1, 0]]
    assert Form("alone", "halves").join(COS)[1].tolist() == [*COS[1], *COS[1]]
    assert Form("alone", "interleaved").join(COS)[1, :2].tolist() == [COS[1, 0], COS[1, 0]]
    assert Form("pairs").join(COS, SIN).shape == (7, 3, 2)
    assert Form("complex").join(COS, SIN)[3, 1] == COS[3, 1] + 1j * SIN[3, 1]
    assert Form("stacked").join(COS, SIN).shape == (2, 7, 3)
