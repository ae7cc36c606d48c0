"""Fixtures: each test has a pool in a directory of its own."""

import os
import uuid

import pytest

import farwood


@pytest.fixture(autouse=True, scope="session")
def segments(tmp_path_factory):
    """Segments are in a directory of the test run, which children inherit."""
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"
    path = os.path.join(folder, f"farwood-pytest-{os.getpid()}")
    os.mkdir(path, 0o700)
    os.environ["FARWOOD_SHM_DIR"] = path
    yield path
    for name in os.listdir(path):
        os.unlink(os.path.join(path, name))
    os.rmdir(path)


@pytest.fixture
def url():
    name = f"shm://t-{uuid.uuid4().hex[:12]}"
    farwood.create(name, "256 MiB").close()
    yield name
    farwood.remove(name, force=True)


@pytest.fixture
def pool(url):
    with farwood.open(url) as opened:
        yield opened
