"""The command-line options that stand for a scheme."""

from collections.abc import Collection, Iterator

from pecli.engine.schemes.parameters import Flag, ParameterRule
from pecli.engine.schemes.scheme import Scheme, default_of
from pecli.errors import spelled


def options(scheme: Scheme, without: Collection[str] = ()) -> Iterator[str]:
    """Yield the options of the command that makes a scheme; each value parses to the parameter.

    Rope(seq_len=8, dim=4) yields "--seq-len", "8", "--dim", "4". Parameters at their defaults, and
    those that have no effect, are left out.

    Args:
        scheme: The scheme.
        without: Further parameters that are left out.
    """
    left_out = {*scheme.inert_parameters, *without}
    for name, parameter in scheme.parameters().items():
        value = getattr(scheme, name)
        is_default = value is None or value == default_of(type(scheme), name)
        if not is_default and name not in left_out:
            yield from _option_with_value(name, parameter, value)


def _option_with_value(name: str, parameter: ParameterRule, value: object) -> Iterator[str]:
    """Yield an option and its value; a flag is a single word, such as --causal or --no-causal."""
    option = _option_name(name, parameter)
    if type(parameter) is not Flag:  # An OptionalFlag is a subclass, and takes a word.
        yield option
        yield spelled(value)
    elif value:
        yield option
    else:
        yield option.replace("--", "--no-", 1)


def _option_name(name: str, parameter: ParameterRule) -> str:
    """Return the option of a parameter; the usual name of the field, `--theta`, comes first."""
    if parameter.aliases:
        return parameter.aliases[0]
    return f"--{name.replace('_', '-')}"
