"""Dumps, restores, and pools that are saved."""

import signal
import threading
from datetime import datetime, timezone

import numpy as np
import pytest
import shapely

import farwood


def fill(pool):
    words = pool.ordered("words", key=str, value=int)
    words.update({f"word {number}": number for number in range(1000)})
    points = pool.ordered("points", key=int, value=np.dtype([("x", "f4"), ("y", "f4")]))
    points[-3] = (1.5, 2.5)
    settings = pool.ordered("settings", key=datetime, value="json")
    settings[datetime(2026, 11, 28, tzinfo=timezone.utc)] = {"a": [1, None]}
    places = pool.spatial("places")
    places.load(shapely.points([[1, 2], [3, 4], [5, 6]]))
    return words, points, settings, places


def test_a_dump_restores_every_type(pool, tmp_path):
    fill(pool)
    path = tmp_path / "backup"
    expected = {"places": 3, "points": 1, "settings": 1, "words": 1000}
    counts = []
    assert pool.dump(path, progress=counts.append) == expected
    assert sum(counts) == 1005
    with farwood.create(f"{pool.url}-other", "256 MiB") as other:
        counts.clear()
        assert other.restore(path, progress=counts.append) == expected
        assert sum(counts) == 1005
        words = other.ordered("words", key=str, value=int, create=False)
        assert dict(words) == {f"word {number}": number for number in range(1000)}
        points = other.ordered("points", key=int, value=np.dtype([("x", "f4"), ("y", "f4")]), create=False)
        assert points[-3].tolist() == (1.5, 2.5)
        settings = other.ordered("settings", key=datetime, value="json", create=False)
        assert settings[datetime(2026, 11, 28, tzinfo=timezone.utc)] == {"a": [1, None]}
        assert len(other.spatial("places", create=False).query(shapely.box(0, 0, 4, 5))) == 2
    farwood.remove(f"{pool.url}-other")


def test_names_and_structures(pool, tmp_path):
    words, *_ = fill(pool)
    path = tmp_path / "backup"
    assert pool.dump(str(path), indexes="words") == {"words": 1000}
    with pytest.raises(farwood.Exists, match="the pool has an index 'words' already"):
        pool.restore(path)
    restored = pool.restore(path, rename={"words": "again"}, structure="btree", key_bytes=16)
    assert restored == {"again": 1000}
    again = pool.ordered("again", key=str, value=int)
    assert list(again.items()) == list(words.items())
    with pytest.raises(farwood.NoSuchIndex, match="no index 'none'"):
        pool.restore(path, indexes=["none"])
    with pytest.raises(farwood.NoSuchIndex, match="none"):
        pool.dump(path, indexes=["none"])
    for call in (pool.dump, pool.restore):
        with pytest.raises(farwood.InvalidArgument, match="indexes is empty"):
            call(path, indexes=[])
    with pytest.raises(farwood.InvalidArgument, match="needs a length"):
        pool.restore(path, rename={"words": "third"}, structure="btree")
    with pytest.raises(farwood.InvalidArgument, match="add it, or omit them"):
        pool.restore(path, key_bytes=8)
    with pytest.raises(farwood.InvalidArgument, match="radix"):
        pool.restore(path, structure="tree")
    assert sorted(pool.indexes()) == ["again", "places", "points", "settings", "words"]


def test_damaged_files(pool, tmp_path):
    fill(pool)
    path = tmp_path / "backup"
    pool.dump(path)
    contents = path.read_bytes()
    path.write_bytes(contents[:-1])
    with pytest.raises(farwood.Damaged, match="before the end of the backup"):
        pool.restore(path, rename={name: f"{name}-2" for name in pool.indexes()})
    path.write_bytes(contents[:100] + b"?" + contents[101:])
    with pytest.raises(farwood.Damaged, match="checksum"):
        pool.restore(path, rename={name: f"{name}-2" for name in pool.indexes()})
    with pytest.raises(farwood.SystemFailure, match="No such file"):
        pool.restore(tmp_path / "none")
    assert len(pool.indexes()) == 4


def test_a_progress_function_that_fails_ends_the_call(pool, tmp_path):
    fill(pool)

    def fail(count):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        pool.dump(tmp_path / "backup", progress=fail)
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_a_dump(pool, tmp_path):
    numbers = pool.ordered("numbers", key="uint", value="uint")
    numbers.load_sorted(np.arange(1_000_000, dtype=np.uint64), np.arange(1_000_000, dtype=np.uint64))
    interrupted = []

    def interrupt(count):
        if not interrupted:
            interrupted.append(count)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        pool.dump(tmp_path / "backup", progress=interrupt)
    assert interrupted and list(tmp_path.iterdir()) == []


def test_a_saved_pool_is_restored(tmp_path):
    url = "shm://saved"
    with farwood.create(url, "64 MiB") as pool:
        pool.ordered("words", key=str, value=int)["bee"] = 2
        with pytest.raises(farwood.Busy, match="use the pool 'saved'"):
            farwood.save(url, tmp_path / "image")
    assert farwood.save(url, tmp_path / "image") > 0
    farwood.remove(url)
    with farwood.restore(tmp_path / "image", url) as pool:
        assert pool.ordered("words", key=str, value=int)["bee"] == 2
    with pytest.raises(farwood.Exists):
        farwood.restore(tmp_path / "image", url)
    farwood.remove(url)


def test_other_threads_run_during_a_dump(pool, tmp_path):
    words, *_ = fill(pool)
    stop = threading.Event()
    steps = []

    def change():
        while not stop.is_set():
            words["changing"] = len(steps)
            steps.append(1)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(20):
            assert pool.dump(tmp_path / "backup")["words"] in (1000, 1001)
    finally:
        stop.set()
        thread.join()
    assert steps


def test_a_pool_in_shared_memory_has_no_dump_at_one_cut(pool, tmp_path):
    fill(pool)
    with pytest.raises(farwood.Unsupported, match="only a pool over TCP can be dumped at one cut"):
        pool.dump(tmp_path / "backup", consistent=True)
    assert not (tmp_path / "backup").exists()


def test_a_full_pool_grows(pool):
    with farwood.create(f"{pool.url}-small", "16 MiB") as small:
        words = small.ordered("words", key=int, value=bytes)
        with pytest.raises(farwood.PoolFull) as full:
            words.update((key, bytes(8000)) for key in range(4000))
        assert "pool.grow" in str(full.value)
        small.grow("64 MiB")
        words.update((key, bytes(8000)) for key in range(4000))
        assert words.count() == 4000
        with pytest.raises(farwood.InvalidArgument):
            small.grow("1 TiB")
        del words
    farwood.remove(f"{pool.url}-small", force=True)
