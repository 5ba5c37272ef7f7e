"""The version, which files and commands tell."""

__version__ = "0.1.0"
