"""The schemes by name."""

from __future__ import annotations

from pecli.engine.alibi import Alibi
from pecli.engine.learned import LearnedInit
from pecli.engine.rope import Rope
from pecli.engine.scheme import Scheme
from pecli.engine.sinusoidal import Sinusoidal

SCHEMES: dict[str, type[Scheme]] = {
    "sinusoidal": Sinusoidal,
    "rope": Rope,
    "alibi": Alibi,
    "learned-init": LearnedInit,
}
