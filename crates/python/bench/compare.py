"""Compares Farwood for Python with its peers in one run, and prints each figure as a line of JSON.

Build the package and the Rust peer in the profile of wheels before:

    maturin develop --profile dist
    cargo build --profile dist --example get_many
    python bench/compare.py --rust ../../target/dist/examples/get_many

Peers that are not installed are left out: py-lmdb, redis-py with redis-server, Shapely. Rounds of a measurement and of
its peer alternate; a ratio is that of the medians.
"""

import argparse
import multiprocessing
import os
import platform
import statistics
import subprocess
import time

import numpy as np
from peers import lmdb_lookup, redis_lookup
from rates import Report, alternating, private_mib

import farwood

ROUNDS = 5
LOOKUPS = 1_000_000


def random_keys(seed, keys, count):
    return np.random.default_rng(seed).integers(0, keys, count, dtype=np.uint64)


def get_many(report, pool, keys, rust):
    """`get_many` of an array beside the same batch from Rust, on one index in one run."""
    index = pool.ordered("numbers", key="uint", value="uint")
    index.load_sorted(np.arange(keys, dtype=np.uint64), np.arange(keys, dtype=np.uint64))
    asked = random_keys(1, keys, LOOKUPS)
    values, present = index.get_many(asked)
    assert present.all() and (values == asked).all()
    rates = {"python": [], "rust": []}
    for _ in range(ROUNDS):
        rates["python"].append(LOOKUPS / alternating(1, own=lambda: index.get_many(asked))["own"])
        if rust:
            arguments = [rust, pool.url, "numbers", str(keys), str(LOOKUPS)]
            printed = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
            rates["rust"].append(float(printed))
    figures = {"keys": keys, "per_s": round(statistics.median(rates["python"]))}
    if rust:
        figures["rust_per_s"] = round(statistics.median(rates["rust"]))
        figures["ratio"] = figures["per_s"] / figures["rust_per_s"]
    report.add("get_many of an array beside Rust", **figures)


def single(report, pool, keys, kind):
    """`d[k]` beside py-lmdb and redis-py with the same conversions."""
    index = pool.ordered(f"single-{kind}", key={"int": int, "str": str}[kind], value=int)
    make = (lambda number: f"key-{number:08}") if kind == "str" else int
    names = [make(number) for number in range(keys)]
    index.put_many(names, list(range(keys)))
    asked = [make(number) for number in random_keys(2, keys, 100_000)]
    few = asked[:10_000]

    def own(asked):
        for key in asked:
            index[key]

    encode = str.encode if kind == "str" else (lambda key: key.to_bytes(8, "big"))
    entries = list(zip(names, range(keys)))
    with lmdb_lookup(entries, encode) as lmdb:
        if lmdb:
            seconds = alternating(2 * ROUNDS, own=lambda: own(asked), peer=lambda: lmdb(asked))
            compared(report, f"d[k] of {kind} keys beside py-lmdb", len(asked), seconds, keys=keys)
    with redis_lookup(entries) as redis:
        if redis:
            seconds = alternating(ROUNDS, own=lambda: own(few), peer=lambda: redis(few))
            compared(report, f"d[k] of {kind} keys beside redis-py", len(few), seconds, keys=keys)


def compared(report, name, count, seconds, **figures):
    own, peer = seconds["own"], seconds["peer"]
    report.add(name, per_s=round(count / own), peer_per_s=round(count / peer), ratio=peer / own, **figures)


def look_up_in_process(url, keys, seed, start, rates):
    """The lookups per second of a process that looks single keys and arrays up, and keys of a dict of its own."""
    with farwood.open(url) as pool:
        index = pool.ordered("numbers", key="uint", value="uint")
        array = random_keys(seed, keys, 100_000)
        asked = array[:20_000].tolist()
        own = dict.fromkeys(asked)
        works = [
            (lambda: [index[key] for key in asked], len(asked)),
            (lambda: index.get_many(array), len(array)),
            (lambda: [own[key] for key in asked], len(asked)),
        ]
        rates.put([rate_from(start, work, count) for work, count in works])


def rate_from(start, work, count, seconds=3):
    """The rate of `work` when all processes have come to the barrier."""
    work()
    start.wait()
    begun, done = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        work()
        done += count
    return done / (time.perf_counter() - begun)


def scaling(report, pool, keys):
    """Processes that look keys of one index up at once. The dicts show how the machine scales."""
    context = multiprocessing.get_context("spawn")
    alone = None
    for processes in (1, 2, 4):
        start, rates = context.Barrier(processes), context.Queue()
        workers = [
            context.Process(target=look_up_in_process, args=(pool.url, keys, seed, start, rates))
            for seed in range(processes)
        ]
        total = np.sum(results_of(workers, rates), axis=0)
        alone = total if alone is None else alone
        single, batch, own = (total / alone).tolist()
        report.add(
            "processes that look up at once",
            processes=processes,
            cores=os.cpu_count(),
            single_per_s=round(total[0]),
            batch_per_s=round(total[1]),
            single_over_one=single,
            batch_over_one=batch,
            dicts_over_one=own,
        )


def results_of(workers, results):
    """Starts the workers, and returns the result of each."""
    for worker in workers:
        worker.start()
    found = [results.get(timeout=300) for _ in workers]
    for worker in workers:
        worker.join()
    return found


def boxes_of(count):
    corner = np.random.default_rng(3).random((count, 2))
    boxes = np.hstack((corner, corner + np.random.default_rng(4).random((count, 2)) * 0.001))
    corner = np.random.default_rng(5).random((100_000, 2))
    return boxes, np.hstack((corner, corner + 0.001))


def spatial(report, pool, count):
    try:
        import shapely
    except ImportError:
        return
    boxes, windows = boxes_of(count)
    index = pool.spatial("boxes").load(boxes)
    asked = shapely.box(*windows.T)
    tree = shapely.STRtree(shapely.box(*boxes.T))
    found = index.query(windows)
    assert set(zip(*found.tolist())) == set(zip(*tree.query(asked).tolist()))
    seconds = alternating(ROUNDS, own=lambda: index.query(windows), peer=lambda: tree.query(asked))
    compared(report, "query of 100,000 boxes beside STRtree, one process", len(windows), seconds, boxes=count)
    del tree, asked, index, found
    context = multiprocessing.get_context("spawn")
    peers = {"Farwood": query_shared, "STRtree": query_own_tree}
    for name, work in peers.items():
        start, results = context.Barrier(2), context.Queue()
        workers = [context.Process(target=work, args=(pool.url, count, start, results)) for _ in range(2)]
        rates, private = zip(*results_of(workers, results))
        report.add(
            f"query of 100,000 boxes by two processes at once, {name}",
            boxes=count,
            per_s=round(sum(rates)),
            private_mib_of_each=round(max(private)),
        )


def query_shared(url, _, start, results):
    windows = boxes_of(0)[1]
    before = private_mib()
    with farwood.open(url) as pool:
        index = pool.spatial("boxes")
        results.put(query_rate(lambda: index.query(windows), len(windows), start, before))


def query_own_tree(_, count, start, results):
    import shapely

    boxes, windows = boxes_of(count)
    asked = shapely.box(*windows.T)
    before = private_mib()
    tree = shapely.STRtree(shapely.box(*boxes.T))
    results.put(query_rate(lambda: tree.query(asked), len(windows), start, before))


def query_rate(query, count, start, before):
    query()
    private = private_mib() - before
    return rate_from(start, query, count), private


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=10_000_000, help="keys of the arrays (default: 10,000,000)")
    parser.add_argument("--boxes", type=int, default=2_000_000, help="rectangles (default: 2,000,000)")
    parser.add_argument("--rust", metavar="PROGRAM", help="the example get_many, as the peer of get_many")
    parser.add_argument("--out", metavar="FILE", help="write the lines of JSON to this file, too")
    options = parser.parse_args()
    report = Report(options.out)
    versions = {"python": platform.python_version(), "numpy": np.__version__, "farwood": farwood.__version__}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    report.add("set-up", commit=commit, machine=platform.machine(), cores=os.cpu_count(), linux=platform.release(), **versions)
    url = f"shm://bench-{os.getpid()}"
    with farwood.create(url, "8 GiB") as pool:
        try:
            get_many(report, pool, options.keys, options.rust)
            scaling(report, pool, options.keys)
            for kind in ("int", "str"):
                single(report, pool, min(options.keys, 200_000), kind)
            spatial(report, pool, options.boxes)
        finally:
            pool.close()
            farwood.remove(url, force=True)


if __name__ == "__main__":
    main()
