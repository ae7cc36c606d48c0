"""Several processes: fork, spawn, forkserver, executors and kills."""

import concurrent.futures
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import farwood

METHODS = ["fork", "spawn", "forkserver"]


def count_up(index, times):
    for _ in range(times):
        index.incr("n")
    return os.getpid()


@pytest.mark.parametrize("method", METHODS)
def test_pools_of_processes_share_a_counter(pool, method):
    counters = pool.ordered("counters", key=str, value=int)
    counters["n"] = 0
    with multiprocessing.get_context(method).Pool(3) as processes:
        pids = processes.starmap(count_up, [(counters, 100)] * 9)
    assert counters["n"] == 900 and os.getpid() not in pids


@pytest.mark.parametrize("method", METHODS)
def test_executors_share_a_counter(pool, method):
    counters = pool.ordered("counters", key=str, value=int)
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
        list(executor.map(count_up, [counters] * 4, [50] * 4))
    assert counters["n"] == 200


def create_at_once(url, barrier, queue):
    barrier.wait()
    with farwood.open(url, create=True, memory="64 MiB") as opened:
        queue.put(opened.ordered("x", key=str, value=int).incr("n"))


@pytest.mark.parametrize("method", METHODS)
def test_several_processes_create_a_pool_at_once(method):
    context = multiprocessing.get_context(method)
    for number in range(8 if method == "fork" else 2):
        url = f"shm://at-once-{method}-{number}"
        barrier, queue = context.Barrier(4), context.Queue()
        workers = [context.Process(target=create_at_once, args=(url, barrier, queue)) for _ in range(4)]
        for worker in workers:
            worker.start()
        counts = sorted(queue.get(timeout=60) for _ in workers)
        for worker in workers:
            worker.join()
        assert counts == [1, 2, 3, 4]
        farwood.remove(url)


def in_child(work):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_forked_child_uses_what_it_inherited(pool):
    index, places = pool.ordered("x", key=int, value=int), pool.spatial("s")
    index.update({1: 1, 2: 2, 3: 3})
    places.insert(1, (0, 0, 1, 1))
    scan = iter(index)
    next(scan)

    def work():
        index[4] = index[1] + 3
        places.insert(2, (5, 5, 6, 6))
        assert places.query((0, 0, 9, 9)).tolist() in ([1, 2], [2, 1])
        assert list(index) == [1, 2, 3, 4] and sorted(pool.indexes()) == ["s", "x"]
        fresh = iter(index)
        assert next(fresh) == 1
        in_child(lambda: index.put(5, 5))
        with pytest.raises(farwood.ForkedError):
            # The parent has fetched the next entries already.
            next(scan)
        pool.close()

    in_child(work)
    assert index[4] == 4 and index[5] == 5 and list(scan) == [2, 3]


def test_threads_and_forks_at_once(pool):
    index = pool.ordered("x", key=int, value=int)
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            index[number % 50] = number
            number += 1

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(20):
            in_child(lambda: index.put(1000 + number, number))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert all(index[1000 + number] == number for number in range(20))


PARENT = """
import os, signal, sys, time
import farwood
index = farwood.open(sys.argv[1]).ordered("x", key=int, value=int)
index[1] = 1
if os.fork() == 0:
    time.sleep(2)
    index[2] = 2
    os._exit(0)
print(os.getpid(), flush=True)
while True:
    index.incr(1)
"""


def test_a_killed_parent_whose_child_lives_blocks_nobody(url, pool):
    index = pool.ordered("x", key=int, value=int)
    parent = subprocess.Popen([sys.executable, "-c", PARENT, url], stdout=subprocess.PIPE, text=True)
    parent.stdout.readline()
    time.sleep(0.2)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    begun = time.monotonic()
    for _ in range(1000):
        index.incr(1)
    assert time.monotonic() - begun < 1.5, "the locks of the killed parent were not released"
    while 2 not in index:
        assert time.monotonic() - begun < 60
        time.sleep(0.05)
    parent.stdout.close()


def test_threads_scale_the_calls_of_one_handle(pool):
    index = pool.ordered("x", key=int, value=int)
    with concurrent.futures.ThreadPoolExecutor(8) as executor:
        list(executor.map(lambda _: [index.incr(0) for _ in range(500)], range(8)))
    assert index[0] == 4000


HOLDER = """
import os, signal, sys, threading
import farwood
index = farwood.open(sys.argv[1]).ordered("x", key=int, value=int)
index[1] = 1
print("ready", flush=True)
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGSTOP)).start()
while True:
    index.incr(1)
"""


def test_ctrl_c_ends_a_waiting_call(url, pool):
    """The holder of a lock is stopped, so that a call waits for it."""
    index = pool.ordered("x", key=int, value=int)
    for _ in range(5):
        holder = subprocess.Popen([sys.executable, "-c", HOLDER, url], stdout=subprocess.PIPE, text=True)
        try:
            holder.stdout.readline()
            os.waitpid(holder.pid, os.WUNTRACED)
            timer = threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT))
            timer.start()
            begun = time.monotonic()
            try:
                # If the holder was stopped between two changes, the calls do not wait.
                while timer.is_alive():
                    index.incr(1)
                waited = 0
            except KeyboardInterrupt:
                waited = time.monotonic() - begun
            assert waited < 3
            timer.join()
        except KeyboardInterrupt:
            pass
        finally:
            holder.kill()
            holder.wait()
            holder.stdout.close()


APPLICATION = """
import os
import farwood
pool = farwood.open(os.environ["TEST_URL"])
visits = pool.ordered("visits", key=str, value=int)

def application(environ, start_response):
    count = visits.incr("home")
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{count} {os.getpid()}".encode()]
"""


def test_gunicorn_workers_use_the_map_of_their_preloaded_parent(url, pool, tmp_path):
    pytest.importorskip("gunicorn")
    import urllib.request

    (tmp_path / "app.py").write_text(APPLICATION)
    command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", "2", "--bind", "127.0.0.1:0"]
    server = subprocess.Popen(
        [*command, "app:application"],
        cwd=tmp_path,
        env={**os.environ, "TEST_URL": url},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        address = None
        for line in server.stderr:
            if "Listening at: " in line:
                address = line.split("Listening at: ")[1].split()[0]
                break
        answers = [urllib.request.urlopen(address).read().decode().split() for _ in range(40)]
    finally:
        server.terminate()
        server.communicate()
    assert [int(count) for count, _ in answers] == list(range(1, 41))
    assert str(server.pid) not in {process for _, process in answers}
    assert pool.ordered("visits", key=str, value=int)["home"] == 40


def load(index, numbers, queue):
    """A worker of a data loader: it reads its part of the samples in batches."""
    total = 0
    for start in range(0, len(numbers), 32):
        values, present = index.get_many(numbers[start : start + 32])
        assert present.all()
        total += int(values.sum())
    queue.put(total)


@pytest.mark.parametrize("method", METHODS)
def test_workers_of_a_data_loader(pool, method):
    import numpy as np

    samples = pool.ordered("samples", key=int, value=int)
    samples.load_sorted(np.arange(4000), np.arange(4000))
    context = multiprocessing.get_context(method)
    for _ in range(2):
        queue = context.Queue()
        workers = [context.Process(target=load, args=(samples, np.arange(at, 4000, 2), queue)) for at in range(2)]
        for worker in workers:
            worker.start()
        assert sum(queue.get(timeout=60) for _ in workers) == 4000 * 3999 // 2
        for worker in workers:
            worker.join()
            assert worker.exitcode == 0
