"""Runs each kind of operation many times, and prints the resident memory of this process before, between and after.

The operations return the indexes to the state before, so flat memory of the process shows that nothing leaks; the used
memory of the pool is printed, too. Fails if the resident memory grows by more than 8 MiB after the first quarter.

    python bench/leaks.py --operations 10000000
"""

import argparse
import os
import sys

import numpy as np
from rates import Report

import farwood

KEYS = 10_000
BATCH = 10_000
GROWTH_MAX_MIB = 8


def resident_mib():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def single_calls(index, names):
    """Name, operations of one round, and the round."""
    numbers = range(len(names))

    def get():
        for name in names:
            index[name]

    def missing():
        for number in numbers:
            index.get(f"absent-{number}")

    def replace():
        for name in names:
            index[name] = 7

    def add_and_delete():
        for number in numbers:
            index[f"new-{number}"] = number
        for number in numbers:
            del index[f"new-{number}"]

    def error():
        for _ in numbers:
            try:
                index["absent"]
            except KeyError:
                pass

    count = len(names)
    yield "d[k]", count, get
    yield "d.get(absent)", count, missing
    yield "d[k] = v", count, replace
    yield "add and del d[k]", 2 * count, add_and_delete
    yield "KeyError", count, error
    yield "incr", count, lambda: [index.incr(name) for name in names]
    yield "scan, keys and values", count, lambda: sum(1 for _ in index.items())


def batches(numbers):
    keys = np.arange(BATCH, dtype=np.uint64)
    new = keys + 1_000_000

    def add_and_delete():
        numbers.put_many(new, keys)
        numbers.delete_many(new)

    yield "get_many", BATCH, lambda: numbers.get_many(keys)
    yield "put_many of present keys", BATCH, lambda: numbers.put_many(keys, keys)
    yield "put_many of new keys, delete_many", 2 * BATCH, add_and_delete
    yield "scan_arrays", BATCH, lambda: [len(keys) for keys, _ in numbers.scan_arrays()]


def spatial_calls(boxes):
    corner = np.random.default_rng(1).random((1000, 2))
    windows = np.hstack((corner, corner + 0.01))
    points = np.hstack((corner[:100], corner[:100]))
    ids = np.arange(1_000_000, 1_001_000)

    def add_and_remove():
        boxes.insert_many(ids, windows)
        boxes.remove_many(ids, windows)

    yield "query of many", 1000, lambda: boxes.query(windows)
    yield "query of one", 100, lambda: [boxes.query(window) for window in windows[:100]]
    yield "nearest", 100, lambda: boxes.query_nearest(points)
    yield "insert and delete", 2000, add_and_remove


def measure(report, pool, kind, operations):
    name, count, run = kind
    rounds = max(4, operations // count)
    run()
    samples = [resident_mib()]
    for number in range(rounds):
        run()
        if number in (rounds // 4, rounds // 2, rounds - 1):
            samples.append(resident_mib())
    after_quarter, end = samples[1], samples[-1]
    report.add(name, operations=rounds * count, resident_mib=[round(sample, 1) for sample in samples])
    return end - after_quarter <= GROWTH_MAX_MIB


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=10_000_000, help="of each kind (default: 10,000,000)")
    parser.add_argument("--out", metavar="FILE", help="write the lines of JSON to this file, too")
    options = parser.parse_args()
    report = Report(options.out)
    url = f"shm://leaks-{os.getpid()}"
    with farwood.create(url, "1 GiB") as pool:
        try:
            names = [f"name-{number}" for number in range(KEYS)]
            index = pool.ordered("names", key=str, value=int)
            index.put_many(names, [7] * KEYS)
            numbers = pool.ordered("numbers", key="uint", value="uint")
            numbers.put_many(np.arange(BATCH, dtype=np.uint64), np.arange(BATCH, dtype=np.uint64))
            corner = np.random.default_rng(2).random((10_000, 2))
            boxes = pool.spatial("boxes").load(np.hstack((corner, corner + 0.01)))
            kinds = [*single_calls(index, names), *batches(numbers), *spatial_calls(boxes)]
            flat = [measure(report, pool, kind, options.operations) for kind in kinds]
            del index, numbers, boxes
        finally:
            pool.close()
            farwood.remove(url, force=True)
    if not all(flat):
        sys.exit("the resident memory grows")


if __name__ == "__main__":
    main()
