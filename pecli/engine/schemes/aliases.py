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
    """Return a scheme class whose constructor accepts aliases: `Rope(theta=1e6)` for `base=1e6`.

    It is the same class, with another `__init__` than that of its dataclass decorator. Its
    signature, which `help` shows, lists the aliases and the true defaults. The decorator's lists
    UNSET for parameters whose default depends on others.
    """
    dataclass_init = kind.__init__

    @wraps(dataclass_init)
    def init_with_aliases(self: Any, *args: Any, **values: Any) -> None:
        dataclass_init(self, *args, **by_parameter_name(kind, values))

    signature_for_help = _documented_signature(kind)
    init_with_aliases.__signature__ = signature_for_help  # type: ignore[attr-defined]
    kind.__init__ = init_with_aliases  # type: ignore[method-assign]
    return kind


def _documented_signature(kind: type[Scheme]) -> Signature:
    """Return the signature that `help` shows: plain types, real defaults, aliases as keywords."""
    plain_types = get_type_hints(kind)
    signature_of_fields = signature(kind.__init__)
    parameters = []
    for name, parameter in signature_of_fields.parameters.items():
        plain_type = plain_types.get(name, parameter.annotation)
        parameters.append(_with_real_default(kind, parameter.replace(annotation=plain_type)))
    for alias in parameter_of_alias(kind):
        parameters.append(SignatureParameter(alias, SignatureParameter.KEYWORD_ONLY, default=None))
    return signature_of_fields.replace(parameters=parameters)


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
    """Return values by the names of their parameters, in place of the aliases that users may give.

    Rope's {"theta": 5e5} becomes {"base": 5e5}.

    Raises:
        ParameterError: a parameter is given by two names.
    """
    name_of_alias = parameter_of_alias(kind)
    values_by_name: MutableValues = {}
    for key, value in values.items():
        name = name_of_alias.get(key, key)
        is_alias = name != key
        is_given_twice = name in values_by_name or (is_alias and name in values)
        if is_given_twice:
            problem = f"given beside {name}"
            raise ParameterError(key, problem, "they are one parameter", "leave one out")
        values_by_name[name] = value
    return values_by_name
