#!/usr/bin/env bash
# Measures an RDMA card with perftest, and prints the values as CSV for `farwood nic --compare FILE`.
#
#   machine A:  docs/validation/measure.sh server [DEVICE]
#   machine B:  docs/validation/measure.sh client HOST-A [DEVICE] > card.csv
#
# Both machines run the same list of measurements in the same order; DEVICE is a name of `ibv_devices`, for example
# mlx5_0. Only fetch-and-adds are measured of the atomics, because perftest does not say whether its CASes succeed. Each
# queue pair has a perftest process of its own, as each queue pair of the model has a thread of its own.
# Variables: QUEUE_PAIRS="1 4 16", SIZES="8 64 256 1024 4096 65536", SECONDS_EACH=5, PORT=18515, and FLAGS with further
# options of perftest on both sides (for RoCE, for example FLAGS="-x 3"). docs/validation.md describes the columns.
set -euo pipefail

usage() {
    echo "usage: $0 server [DEVICE] | client HOST [DEVICE]" >&2
    exit 2
}

role=${1:-}
case $role in
    server) host=() device=${2:-mlx5_0} ;;
    client)
        [ $# -ge 2 ] || usage
        host=("$2") device=${3:-mlx5_0}
        ;;
    *) usage ;;
esac
read -ra queue_pairs <<< "${QUEUE_PAIRS:-1 4 16}"
read -ra sizes <<< "${SIZES:-8 64 256 1024 4096 65536}"
read -ra flags <<< "${FLAGS:-}"
seconds=${SECONDS_EACH:-5}
port=${PORT:-18515}
outstanding=16
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Runs one perftest process. The client repeats it until the server listens.
perftest() {
    local program=$1 at=$2 attempt
    shift 2
    for attempt in $(seq 60); do
        if "$program" -d "$device" -p "$at" -F "${flags[@]}" "$@" "${host[@]}" 2> "$scratch/error"; then
            return 0
        fi
        [ "$role" = client ] || break
        sleep 0.5
    done
    echo "$0: $program failed in attempt $attempt:" >&2
    cat "$scratch/error" >&2
    return 1
}

# Prints one value: verb, bytes, requests in flight, queue pairs, metric, value.
value() {
    [ "$role" = server ] || echo "$1,$2,$3,1,$4,1,host,spread,$5,$6"
}

# The latency of single requests: verb, bytes, program and its options.
latency() {
    local verb=$1 bytes=$2 program=$3 typical mean p99
    shift 3
    perftest "$program" "$port" -n 10000 "$@" > "$scratch/out"
    [ "$role" = client ] || return 0
    read -r typical mean p99 <<< "$(awk -v size="$bytes" '$1 == size && NF >= 8 { print $5, $6, $8 }' "$scratch/out")"
    value "$verb" "$bytes" 1 1 latency_us_p50 "$typical"
    value "$verb" "$bytes" 1 1 latency_us_mean "$mean"
    value "$verb" "$bytes" 1 1 latency_us_p99 "$p99"
}

# Rate and bandwidth of several queue pairs: verb, bytes, queue pairs, program and its options.
rate() {
    local verb=$1 bytes=$2 count=$3 program=$4 number processes=()
    shift 4
    for number in $(seq "$count"); do
        perftest "$program" $((port + number)) -D "$seconds" -t "$outstanding" -Q 1 --report_gbits "$@" \
            > "$scratch/out.$number" &
        processes+=($!)
    done
    for number in "${processes[@]}"; do
        wait "$number"
    done
    [ "$role" = client ] || return 0
    read -r gbits mpps <<< "$(for number in $(seq "$count"); do cat "$scratch/out.$number"; done \
        | awk -v size="$bytes" '$1 == size && NF >= 5 { gbits += $4; mpps += $5 }
                                END { printf "%.3f %.3f\n", gbits, mpps }')"
    value "$verb" "$bytes" "$outstanding" "$count" million_per_second "$mpps"
    value "$verb" "$bytes" "$outstanding" "$count" gbit_per_second "$gbits"
}

if [ "$role" = client ]; then
    echo "# $device to ${host[0]}, $(date -u +%Y-%m-%d)"
    echo "verb,bytes,outstanding,batch,queue_pairs,compute_nodes,memory,target,metric,value"
fi
for bytes in "${sizes[@]}"; do
    latency read "$bytes" ib_read_lat -s "$bytes"
done
latency faa 8 ib_atomic_lat -A FETCH_AND_ADD
for count in "${queue_pairs[@]}"; do
    for bytes in "${sizes[@]}"; do
        rate read "$bytes" "$count" ib_read_bw -s "$bytes" -o "$outstanding"
        rate write "$bytes" "$count" ib_write_bw -s "$bytes"
    done
    rate faa 8 "$count" ib_atomic_bw -A FETCH_AND_ADD -o "$outstanding"
done
