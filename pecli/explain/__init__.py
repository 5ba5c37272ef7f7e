"""One search for what a table is: its scheme, its parameters, and the mistakes between it and what it should be."""
