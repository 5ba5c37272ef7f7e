"""The schemes, one file each, with what they are declared by: parameters, positions, recipes, the registry."""
