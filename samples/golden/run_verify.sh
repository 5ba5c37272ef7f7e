#!/bin/sh
# No runner at all: a port writes its answers by the names of the cases, and pecli says what is wrong with them.
# sh run_verify.sh FOLDER ANSWERS.npz
exec pecli verify --golden "${1:-golden}" "${2:-answers.npz}" --atol 1e-3
