"""Where rows are when they do not follow each other: grids, given positions, relative ones, recognised."""
