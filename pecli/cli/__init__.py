"""The command line: what commands share here, one file per command in `commands`."""
