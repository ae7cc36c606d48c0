"""Pools that are opened for reading only."""

import pickle

import pytest

import farwood


@pytest.fixture
def words(pool):
    """A map of a pool with a spatial index, as a writer has it open."""
    words = pool.ordered("words", key=str, value=int)
    words.update(ant=1, bee=2)
    pool.spatial("places").insert(7, (0, 0, 1, 1))
    return words


def test_a_reader_reads(url, words):
    with farwood.open(url, read_only=True) as pool:
        assert pool.read_only and sorted(pool.indexes()) == ["places", "words"]
        read = pool.ordered("words", key=str, value=int)
        assert (read["ant"], dict(read), "cat" in read) == (1, {"ant": 1, "bee": 2}, False)
        words["cat"] = 3
        assert list(read.irange("b")) == ["bee", "cat"]


def test_a_reader_changes_nothing(url, words):
    with farwood.open(url, read_only=True) as pool:
        read = pool.ordered("words", key=str, value=int)
        for change in (
            lambda: read.__setitem__("ant", 9),
            lambda: read.pop("ant"),
            lambda: read.incr("ant"),
            lambda: read.update(ant=9),
            lambda: pool.ordered("new", key=str, value=int),
            lambda: pool.drop("places"),
        ):
            with pytest.raises(farwood.ReadOnly) as raised:
                change()
            assert "may only read" in str(raised.value) and "farwood.open" in str(raised.value)
            assert isinstance(raised.value, PermissionError)
        assert dict(words) == {"ant": 1, "bee": 2}


def test_a_pickled_reader_is_a_reader(url, words):
    with farwood.open(url, read_only=True) as pool:
        again = pickle.loads(pickle.dumps(pool))
        assert again.read_only
        again.close()
        index = pickle.loads(pickle.dumps(pool.ordered("words", key=str, value=int)))
        with pytest.raises(farwood.ReadOnly):
            index["ant"] = 9
        index.close()


def test_creating_and_reading_only_contradict_each_other(url):
    with pytest.raises(farwood.InvalidArgument, match="omit one of them"):
        farwood.open(url, create=True, read_only=True)
