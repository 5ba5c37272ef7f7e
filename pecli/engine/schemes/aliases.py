"""Other names of parameters in Python: `Rope(theta=500000)` is `Rope(base=500000)`."""

from collections.abc import Mapping
from dataclasses import MISSING
from functools import cache, wraps
from inspect import Parameter as SignatureParameter
from inspect import Signature, signature
from typing import Any, TypeVar, get_type_hints

from pecli.engine.named_values import MutableValues
from pecli.engine.schemes.scheme import Scheme, default_of
from pecli.errors import ParameterError

SchemeType = TypeVar("SchemeType", bound=type[Scheme])


def with_aliases(kind: SchemeType) -> SchemeType:
    """Let the constructor of a scheme accept aliases of its parameters.

    The dataclass decorator writes a constructor with the fields only, and with UNSET instead of the
    defaults of parameters. This one translates aliases, and its signature shows plain types and the
    defaults that count.
    """
    plain_init = kind.__init__

    @wraps(plain_init)
    def init(self: Any, *args: Any, **values: Any) -> None:
        plain_init(self, *args, **by_parameter_name(kind, values))

    init.__signature__ = _documented_signature(kind)  # type: ignore[attr-defined]
    kind.__init__ = init  # type: ignore[method-assign]
    return kind


def _documented_signature(kind: type[Scheme]) -> Signature:
    """Return the signature that `help` shows: real defaults, and the aliases as keywords."""
    types = get_type_hints(kind)
    plain = signature(kind.__init__)
    parameters = []
    for name, parameter in plain.parameters.items():
        annotated = parameter.replace(annotation=types.get(name, parameter.annotation))
        parameters.append(_with_real_default(kind, annotated))
    for alias in parameter_of_alias(kind):
        parameters.append(SignatureParameter(alias, SignatureParameter.KEYWORD_ONLY, default=None))
    return plain.replace(parameters=parameters)


def _with_real_default(kind: type[Scheme], parameter: SignatureParameter) -> SignatureParameter:
    """Return a parameter with the default that the scheme fills in, instead of UNSET."""
    if parameter.name not in kind.parameters():  # self
        return parameter
    default = default_of(kind, parameter.name)
    return parameter if default is MISSING else parameter.replace(default=default)


@cache
def parameter_of_alias(kind: type[Scheme]) -> dict[str, str]:
    """Return the aliases of parameters as Python names, with the parameters that they stand for.

    >>> from pecli.engine.schemes.rope import Rope
    >>> parameter_of_alias(Rope)["theta"]
    'base'
    """
    names = {}
    for name, parameter in kind.parameters().items():
        for alias in parameter.aliases:
            names[alias.lstrip("-").replace("-", "_")] = name
    return names


def by_parameter_name(kind: type[Scheme], values: Mapping[str, object]) -> MutableValues:
    """Return values by the names of the parameters, some of which are given by an alias.

    Raises:
        ParameterError: a parameter is given by two names.
    """
    aliases = parameter_of_alias(kind)
    named: MutableValues = {}
    for key, value in values.items():
        name = aliases.get(key, key)
        is_alias = name != key
        is_given_twice = name in named or (is_alias and name in values)
        if is_given_twice:
            given = f"given beside {name}"
            raise ParameterError(key, given, "they are one parameter", "leave one out")
        named[name] = value
    return named
