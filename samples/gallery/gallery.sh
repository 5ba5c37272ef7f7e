#!/bin/sh
# The pictures of the README, drawn into the current folder.
set -e
pecli plot sinusoidal --seq-len 96 --dim 64 --dpi 200 -o sinusoidal.png
pecli plot rope --model llama-3.1-8b --kind wavelengths --dpi 200 -o llama.png
pecli plot rope --model gpt-oss-20b --against rope --model deepseek-v3 --against rope --model gemma-3-12b --kind wavelengths --dpi 200 -o models.png
pecli plot rope --seq-len 4096 --dim 128 --against rope --theta 500000 --kind decay --dpi 200 -o decay.png
pecli plot alibi --heads 8 --seq-len 32 --dpi 200 -o alibi.png
