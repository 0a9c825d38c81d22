#!/usr/bin/env bash
# Runs every test with the race detector and closes with the runner's own summary, which counts what was skipped.
set -euo pipefail

tags=$1 timeout=$2
shift 2

export PATH="$PWD/.cache/bin:$PATH:/usr/sbin:/sbin"
export GATEWAY_BINARY="$PWD/bin/gateway"

# One package at a time where real daemons are started: two cores do not carry two of them and the race detector.
exec go tool gotestsum --format "${GOTESTSUM_FORMAT:-pkgname}" --format-hide-empty-pkg \
  -- -tags "$tags" -race -timeout "$timeout" -p 2 "$@" ./...
