"""The command-line options that stand for a scheme."""

from collections.abc import Collection, Iterator

from pecli.engine.schemes.parameters import Flag, ParameterRule
from pecli.engine.schemes.scheme import Scheme, default_of
from pecli.errors import spelled


def options(scheme: Scheme, without: Collection[str] = ()) -> Iterator[str]:
    """Yield the options of the command that makes a scheme; each value parses to the parameter.

    Parameters at their defaults, and those that have no effect, are left out.

    Args:
        scheme: The scheme.
        without: Further parameters that are left out.
    """
    left_out = {*scheme.inert_parameters, *without}
    for name, parameter in scheme.parameters().items():
        value = getattr(scheme, name)
        is_default = value is None or value == default_of(type(scheme), name)
        if is_default or name in left_out:
            continue
        option = _option_name(name, parameter)
        if type(parameter) is Flag:  # An OptionalFlag takes a word.
            yield option if value else option.replace("--", "--no-", 1)
        else:
            yield option
            yield spelled(value)


def _option_name(name: str, parameter: ParameterRule) -> str:
    """Return the option of a parameter; the usual name of the field, `--theta`, comes first."""
    if parameter.aliases:
        return parameter.aliases[0]
    return f"--{name.replace('_', '-')}"
