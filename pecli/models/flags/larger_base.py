"""NTK scaling by a larger base, as exllama's alpha and koboldcpp's automatic scaling compute it."""

import math


def base_of_alpha(base: float, alpha: float, dim: int) -> float:
    """Return the base that an alpha stands for, which stretches the slowest pair by alpha.

    >>> round(base_of_alpha(10000, 2.5, 128))
    25366
    """
    exponent = dim / (dim - 2)
    return float(base * alpha**exponent)


def alpha_of_base(base: float, larger: float, dim: int) -> float:
    """Return the alpha that makes a larger base of a base.

    >>> round(alpha_of_base(10000, 25366, 128), 3)
    2.5
    """
    exponent = (dim - 2) / dim
    return float((larger / base) ** exponent)


def automatic_alpha(ratio: float) -> float:
    """Return the alpha that TabbyAPI takes for a context that is `ratio` times the trained one.

    The polynomial is fitted to measured perplexities: twice the context takes an alpha of 2.63.
    """
    if ratio <= 1:
        return 1.0
    return -0.13436 + 0.80541 * ratio + 0.28833 * ratio**2


def automatic_base(base: float, trained: int, context: int) -> float:
    """Return the base that koboldcpp takes for a longer context, by Gradient AI's formula.

    With χ = length / 2π, it is base^(log χ(context) / log χ(trained)): from 4,096 to 16,384
    positions, 10000 becomes 71,738.
    """
    exponent = math.log(context / (2 * math.pi)) / math.log(trained / (2 * math.pi))
    return float(base**exponent)
