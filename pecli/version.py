"""The version, apart from the public names, so that what writes it into files need not import them."""

__version__ = "0.1.0"
