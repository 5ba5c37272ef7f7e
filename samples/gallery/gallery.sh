#!/bin/sh
# The pictures of the README, drawn into the current folder.
set -e
pecli plot sinusoidal --seq-len 96 --dim 64 --size 5x3.5 -o sinusoidal.png
pecli plot rope --model llama-3.1-8b --kind wavelengths --size 5x4.5 -o llama.png
pecli plot rope --model gpt-oss-20b --against rope --model deepseek-v3 --kind wavelengths --size 5x4.5 -o models.png
pecli plot rope --seq-len 4096 --dim 128 --against rope --theta 500000 --kind decay --size 5x3.5 -o decay.png
pecli plot alibi --heads 4 --seq-len 32 --size 5x4.5 -o alibi.png
# A port that forgot the scaling of Llama 3.1: the check fails with exit status 1.
pecli rope --seq-len 8192 --dim 128 --theta 500000 --layout halves -q -o dump.npz
pecli verify dump.npz:cos --model llama-3.1-8b --atol 1e-3 -o failure.png || test $? = 1
rm dump.npz
