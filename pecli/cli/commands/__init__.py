"""One file per command: parse, call, show."""
