#!/usr/bin/env bash
# Reads initialize and says nothing.
while read -r line; do :; done
