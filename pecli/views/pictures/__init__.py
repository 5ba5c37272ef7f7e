"""Pictures of tables: in the terminal, and as figures in files."""
