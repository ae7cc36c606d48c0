"""Compares Farwood for Python with its peers in one run: `python bench/compare.py [--keys N]`.

Prints each measurement as JSON, and the ratios. Run it on a release build.
"""

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time

import numpy as np

import farwood


def timed(name, count, work, repeats=3):
    best = float("inf")
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begun)
    print(json.dumps({"name": name, "per_s": round(count / best), "ns": round(best / count * 1e9)}), flush=True)
    return count / best


def get_many(pool, keys):
    index = pool.ordered("numbers", key="uint", value="uint")
    index.load_sorted(np.arange(keys, dtype=np.uint64), np.arange(keys, dtype=np.uint64))
    asked = np.random.default_rng(1).integers(0, keys, 1_000_000, dtype=np.uint64)
    index.get_many(asked)
    return timed("get_many, 1 M random keys", len(asked), lambda: index.get_many(asked))


def single(pool, keys):
    """`d[k]` with str keys and int values, beside py-lmdb and redis-py with the same conversions."""
    index = pool.ordered("words", key=str, value=int)
    names = [f"key-{number:08}" for number in range(keys)]
    index.put_many(names, list(range(keys)))
    asked = [names[at] for at in np.random.default_rng(2).integers(0, keys, 100_000)]

    def own():
        for name in asked:
            index[name]

    rates = {"farwood": timed("d[k], str to int", len(asked), own)}
    with tempfile.TemporaryDirectory() as folder:
        rates["lmdb"] = single_lmdb(folder, names, asked)
        rates["redis"] = single_redis(folder, names, asked)
    for peer in ("lmdb", "redis"):
        if rates[peer]:
            print(json.dumps({"name": f"d[k] over {peer}", "ratio": round(rates["farwood"] / rates[peer], 2)}))


def single_lmdb(folder, names, asked):
    try:
        import lmdb
    except ImportError:
        return None
    with lmdb.open(folder, map_size=1 << 30) as environment:
        with environment.begin(write=True) as change:
            for number, name in enumerate(names):
                change.put(name.encode(), number.to_bytes(8, "big"))

        def peer():
            for name in asked:
                # As a map that other processes change: each lookup sees the present state.
                with environment.begin() as transaction:
                    int.from_bytes(transaction.get(name.encode()), "big")

        return timed("py-lmdb, get in a transaction of its own", len(asked), peer)


def single_redis(folder, names, asked):
    server = shutil.which("redis-server")
    try:
        import redis
    except ImportError:
        return None
    if server is None:
        return None
    socket = os.path.join(folder, "redis.sock")
    process = subprocess.Popen(
        [server, "--port", "0", "--unixsocket", socket, "--save", ""], stdout=subprocess.DEVNULL
    )
    try:
        while not os.path.exists(socket):
            time.sleep(0.05)
        client = redis.Redis(unix_socket_path=socket)
        client.mset({name: number for number, name in enumerate(names)})

        def peer():
            for name in asked[:20_000]:
                int(client.get(name))

        return timed("redis-py over a Unix socket", 20_000, peer)
    finally:
        process.terminate()
        process.wait()


def spatial(pool, count):
    try:
        import shapely
    except ImportError:
        return
    random = np.random.default_rng(3)
    corner = random.random((count, 2))
    boxes = np.hstack((corner, corner + random.random((count, 2)) * 0.001))
    corner = random.random((100_000, 2))
    windows = np.hstack((corner, corner + 0.001))
    geometries, asked = shapely.box(*boxes.T), shapely.box(*windows.T)
    tree = shapely.STRtree(geometries)
    peer = timed("STRtree.query of 100,000 boxes", len(asked), lambda: tree.query(asked))
    index = pool.spatial("boxes").load(boxes)
    own = timed("SpatialIndex.query of 100,000 boxes", len(windows), lambda: index.query(windows))
    assert index.query(windows).shape == tree.query(asked).shape
    print(json.dumps({"name": "query over STRtree, one process", "ratio": round(own / peer, 2)}))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--boxes", type=int, default=2_000_000)
    options = parser.parse_args()
    url = f"shm://bench-{os.getpid()}"
    with farwood.create(url, "8 GiB") as pool:
        try:
            get_many(pool, options.keys)
            single(pool, min(options.keys, 200_000))
            spatial(pool, options.boxes)
        finally:
            pool.close()
            farwood.remove(url, force=True)


if __name__ == "__main__":
    main()
