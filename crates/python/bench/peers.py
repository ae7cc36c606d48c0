"""The peers: py-lmdb and redis-py."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time


@contextlib.contextmanager
def lmdb_lookup(entries, encode):
    """A function that looks keys up, each in a transaction of its own: as in a map that other processes change, a
    lookup sees the present state. `None` without py-lmdb."""
    try:
        import lmdb
    except ImportError:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder, lmdb.open(folder, map_size=1 << 32) as environment:
        with environment.begin(write=True) as change:
            for key, number in entries:
                change.put(encode(key), number.to_bytes(8, "big"))

        def look_up(keys):
            for key in keys:
                with environment.begin() as transaction:
                    int.from_bytes(transaction.get(encode(key)), "big")

        yield look_up


@contextlib.contextmanager
def redis_lookup(entries):
    """A function that looks keys up over a Unix socket. `None` without redis-py or redis-server."""
    server = shutil.which("redis-server")
    try:
        import redis
    except ImportError:
        server = None
    if server is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        socket = os.path.join(folder, "redis.sock")
        command = [server, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            while not os.path.exists(socket):
                time.sleep(0.05)
            client = redis.Redis(unix_socket_path=socket)
            client.mset(dict(entries))

            def look_up(keys):
                for key in keys:
                    int(client.get(key))

            yield look_up
        finally:
            process.terminate()
            process.wait()
