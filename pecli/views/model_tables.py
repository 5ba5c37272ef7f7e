"""The table of a model's encoding that is not rotary."""

from pecli.engine.schemes import scheme_named
from pecli.engine.schemes.scheme import Scheme
from pecli.models.encoding import Encoding


def table_scheme(encoding: Encoding, length: int) -> Scheme:
    """Return the scheme of a table that is not rotary, such as the bias of ALiBi.

    Args:
        encoding: The encoding, whose parameters may fix the rows of the table.
        length: The rows of a table, or the keys of a bias, for which the model defines none.

    Raises:
        ParameterError: The configuration lacks a parameter of the table.
    """
    name = "learned-init" if encoding.scheme == "learned" else encoding.scheme
    scheme_class: type[Scheme] = scheme_named(name)
    accepted = scheme_class.parameters()
    parameters = {name: value for name, value in encoding.parameters.items() if name in accepted}
    fixed_rows = parameters.get("seq_len", parameters.get("grid"))
    if "seq_len" in accepted and fixed_rows is None:
        parameters["seq_len"] = length
    return scheme_class(**parameters)
