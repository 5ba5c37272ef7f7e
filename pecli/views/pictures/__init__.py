"""Pictures of tables: in the terminal, and as figures in files.

A picture is made in three steps:

    plot_sources  →  kinds  →  terminal_render, figure
    what         data      text, matplotlib

`plot_sources` turns schemes, models and files into sources, `titles` names them, and `identification`
finds the scheme of a file without a spec. A kind of picture, a file of `kinds`, turns sources into
a `Picture` of `panels`: heatmaps and charts, with the words on their axes. `fitting` chooses the
kinds that fit a scheme. `terminal_render` and `figure` draw any picture; `figure_files` writes it.
`mistakes` makes the picture of a failed check from the maps of `error_map`.
"""
