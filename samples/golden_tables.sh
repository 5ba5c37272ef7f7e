#!/bin/sh
# Golden tables for a port: the file says how it was made, and can be checked with no other word.
set -e
pecli rope --seq-len 4096 --dim 128 --theta 500000 -o rope.safetensors
pecli verify rope.safetensors

# The same cosines for a C program, as exact hex floats.
pecli rope --seq-len 64 --dim 16 -o rope.h
grep -c 'static const' rope.h
