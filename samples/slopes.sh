#!/bin/sh
# ALiBi's slopes, one a line, for a shell to read.
set -e
head=0
pecli alibi --heads 12 --slopes | while read -r slope; do
  echo "head $head: $slope"
  head=$((head + 1))
done
