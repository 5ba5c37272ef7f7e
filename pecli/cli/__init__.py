"""The command line: one module per command, found by `pecli.cli.app`."""
