"""Comparing arrays: how a table lies in an array, and how far the array is from what it should be.

The words of this folder, for an array (2, 64, 128) that should hold the cosines of 64 frequencies:

candidate: a table that the array may hold, such as cosines (rows, 64); its rows are made when their number is known
form: how functions and columns lie beside each other, such as each frequency twice, in halves
folding: the axes that the array had before a program folded, dropped or exchanged some
arrangement: what the axes and columns count, such as «copy 2, row 64, double 2, frequency 64»
part: a view of the elements that have to equal one table
reading: the array in one arrangement, with its parts; several are tried, and one is chosen
comparison: the errors of the chosen reading, and where they are
"""
