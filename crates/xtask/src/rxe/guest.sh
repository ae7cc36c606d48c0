# The script of the guest. The names of the programs and the calls of these functions are appended.
set -u
export FARWOOD_STRICT=1 RUST_BACKTRACE=1 HOME=/tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin
failed=()
here=10.9.0.1
there=10.9.0.2

ip link set lo up
# Two connected interfaces, each with its own address and RDMA device. By default the kernel routes packets between two
# local addresses internally; a routing table with higher priority sends them through the interfaces.
ip link add left type veth peer name right
ip addr add $here/32 dev left
ip addr add $there/32 dev right
ip link set left up
ip link set right up
for interface in all left right; do
    echo 1 >/proc/sys/net/ipv4/conf/$interface/accept_local
    echo 0 >/proc/sys/net/ipv4/conf/$interface/rp_filter
done
ip rule del pref 0
ip rule add pref 100 lookup local
ip rule add pref 10 iif lo from $here to $there lookup 10
ip rule add pref 11 iif lo from $there to $here lookup 11
ip route add $there/32 dev left src $here table 10
ip route add $here/32 dev right src $there table 11
ip neigh replace $there lladdr "$(cat /sys/class/net/right/address)" dev left
ip neigh replace $here lladdr "$(cat /sys/class/net/left/address)" dev right
rdma link add rxe_lo type rxe netdev lo
rdma link add rxe_left type rxe netdev left
rdma link add rxe_right type rxe netdev right
echo "farwood-rxe: $(uname -r), up after $(cut -d' ' -f1 /proc/uptime) s"
rdma link

# A sign for the host that the kernel still runs processes.
while sleep 5; do echo 'farwood-rxe: alive'; done &

# Seconds after which a program is stuck. It is less than the limit of the guest. A program usually takes two minutes, and
# several times as long on a slow machine.
readonly stuck_after=900

# end_stuck NAME PROCESS: after that time, prints the stacks of the process and kills it.
end_stuck() {
    sleep "$stuck_after"
    echo "farwood-rxe: $1 is stuck"
    for task in /proc/"$2"/task/*; do
        echo "$(cat "$task/comm"): $(grep State "$task/status"), system call $(cat "$task/syscall"), in:"
        cat "$task/stack"
    done
    kill -KILL "$2"
}

# run_tests FILTER PROGRAM: tests of a program, one at a time, in processes that reach each other through lo.
run_tests() {
    local start=$SECONDS tests watch
    "$2" --list "$1" 2>/dev/null | grep -q ': test$' || failed+=("$1: the program has no such test")
    FARWOOD_RDMA_DEVICE=rxe_lo "$2" --test-threads=1 --nocapture "$1" 2>&1 &
    tests=$!
    end_stuck "$1" $tests &
    watch=$!
    if wait $tests; then
        echo "farwood-rxe: $1 passed, $((SECONDS - start)) s"
    else
        echo "farwood-rxe: $1 FAILED, $((SECONDS - start)) s"
        failed+=("$1")
    fi
    kill $watch
    wait $watch 2>/dev/null
}

# Seconds after which a step of the demo is stuck. A step usually takes a few seconds.
readonly step_stuck_after=120

# step WHAT COMMAND...: one step of the demo.
step() {
    local what=$1
    shift
    echo "\$ farwood $what"
    timeout --foreground --kill-after 5 $step_stuck_after "$FARWOOD" "$@" || failed+=("demo: $what, exit $?")
}

# start_node ARGUMENT...: starts a memory node, and waits until it serves a pool.
start_node() {
    echo 'a-token-of-the-demo' >/tmp/token
    export FARWOOD_TOKEN_FILE=/tmp/token FARWOOD_RDMA_DEVICE=rxe_right
    "$FARWOOD" serve --rdma rxe_left --listen tcp://$here:7470 --token-file /tmp/token --memory 64MiB "$@" &
    node=$!
    for _ in $(seq 50); do
        "$FARWOOD" stat "rdma://$here:7470" >/dev/null 2>&1 && break
        sleep 0.2
    done
}

stop_node() {
    kill -TERM $node
    wait $node || failed+=('demo: the memory node')
}

# A spatial index: its server stores what it receives over a socket, and the device executes the READs of searches.
demo_places() {
    local url="rdma://$here:7470/places" node found
    start_node --spatial places
    step "create $url" create "$url" --index catfish
    # The server opens the pool like any client, which takes seconds in a slow guest.
    for _ in $(seq 100); do
        "$FARWOOD" stat "$url" 2>/dev/null | grep -q '^  server ' && break
        sleep 0.2
    done
    printf '0,0,2,2,1\n1,1,3,3,77\n10,10,10,10,3\n' >/tmp/places.csv
    step 'load' load "$url" /tmp/places.csv
    step 'put' put "$url" 5 1,1,1,1
    step 'check' check "$url"
    for mode in reads message auto; do
        found=$("$FARWOOD" search "$url?search=$mode" --bbox 0,0,4,4 --count)
        [ "$found" = 3 ] || failed+=("demo: a search by $mode found '$found' of 3")
    done
    stop_node
}

# A memory node and its clients, with two addresses and two devices. One of the clients is killed.
demo() {
    local url="rdma://$here:7470/words" node writer
    start_node
    step "create $url" create "$url" --keys text --key-bytes 16 --values text --value-bytes 16
    step 'put' put "$url" far away
    step 'put' put "$url" near here
    step 'get far' get "$url" far
    # The loop and the command that it runs are one process group: a command that outlived the loop would overwrite
    # the put that follows.
    FARWOOD=$FARWOOD URL=$url setsid bash -c 'while :; do "$FARWOOD" put "$URL" worn out; done' >/dev/null 2>&1 &
    writer=$!
    for _ in $(seq 100); do
        [ "$("$FARWOOD" get "$url" worn 2>/dev/null)" = out ] && break
        sleep 0.2
    done
    step 'get worn' get "$url" worn
    kill -KILL -- -$writer
    wait $writer 2>/dev/null
    step 'put' put "$url" worn in
    step 'scan' scan "$url"
    step 'check' check "$url"
    step 'stat' stat "rdma://$here:7470"
    step 'doctor' doctor "rdma://$here:7470"
    for pairs in 1 2; do
        step "bench, $pairs queue pairs" bench --fabric rdma --pool "rdma://$here:7470?queue-pairs=$pairs" \
            --workload ycsb-a --keys 2k --clients 4 --threads 1 --operations 400 --warmup 0
    done
    FARWOOD_RDMA_DEVICE=rxe_right,masked-cas "$FARWOOD" get "$url" far 2>&1 | grep 'it is not an mlx5 device' ||
        failed+=('demo: masked compare-and-swap, which is not there')
    FARWOOD_RDMA_DEVICE=rxe_right,mtu=512 "$FARWOOD" get "$url" far 2>&1 |
        grep 'a WRITE of 1024 bytes is placed completely or not at all when its writer crashes' ||
        failed+=('demo: packets that are smaller than nodes')
    [ "$("$FARWOOD" get "$url" worn)" = in ] || failed+=('demo: what was put is not there')
    FARWOOD_RDMA_DEVICE=nothing "$FARWOOD" get "$url" far && failed+=('demo: a device that is not there')
    stop_node
}

finish() {
    if ((${#failed[@]})); then
        printf 'farwood-rxe: FAILED: %s\n' "${failed[@]}"
        exit 1
    fi
    echo 'farwood-rxe: all passed'
}
