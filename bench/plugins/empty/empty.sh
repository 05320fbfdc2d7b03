#!/usr/bin/env bash
source "${BASH_SOURCE[0]%/*}/kaged.sh"

kaged_plugin empty-shell 1.0.0
kaged_method empty.call true
kaged_run
