"""Which scheme, with which parameters, made an unknown table."""
