"""Tables compared with tables, files and specs."""
