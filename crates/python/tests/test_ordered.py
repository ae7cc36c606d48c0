"""Ordered maps against dict and SortedDict."""

import datetime
import gc
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from sortedcontainers import SortedDict

import farwood


def test_it_is_a_mutable_mapping(pool):
    words = pool.ordered("words", key=str, value=int)
    assert not words
    words["bee"] = 2
    words.update({"ant": 1}, cat=3)
    assert words and words["ant"] == 1 and "dog" not in words
    assert words.get("dog") is None and words.get("dog", 7) == 7
    assert list(words) == ["ant", "bee", "cat"] == list(words.keys())
    assert list(reversed(words)) == ["cat", "bee", "ant"]
    assert list(words.items()) == [("ant", 1), ("bee", 2), ("cat", 3)]
    assert list(words.values(reverse=True)) == [3, 2, 1]
    assert ("ant", 1) in words.items() and "ant" in words.keys()
    assert words.pop("ant") == 1 and words.pop("ant", None) is None
    with pytest.raises(KeyError) as error:
        words["ant"]
    assert isinstance(error.value, farwood.NotFound) and error.value.args == ("ant",)
    with pytest.raises(KeyError):
        del words["ant"]
    with pytest.raises(TypeError, match="count"):
        len(words)
    assert words.count() == 2
    assert words.popitem() == ("cat", 3) and words.popitem(0) == ("bee", 2)
    with pytest.raises(KeyError):
        words.popitem()
    words["x"] = 1
    words.clear()
    assert not words


def test_ranges_have_bounds_prefixes_limits_and_pages(pool):
    numbers = pool.ordered("numbers", key=int, value=int)
    numbers.put_many(list(range(-50, 50)), list(range(100)))
    assert list(numbers.irange(-2, 2)) == [-2, -1, 0, 1, 2]
    assert list(numbers.irange(-2, 2, (False, False))) == [-1, 0, 1]
    assert list(numbers.irange(48, reverse=True)) == [49, 48]
    assert list(numbers.irange(limit=2)) == [-50, -49]
    page = list(numbers.items(limit=3))
    assert list(numbers.irange(after=page[-1][0], limit=2)) == [-47, -46]
    assert list(numbers.irange(after=-48, reverse=True)) == [-49, -50]
    assert numbers.peekitem(0) == (-50, 0) and numbers.peekitem() == (49, 99)
    with pytest.raises(IndexError):
        numbers.peekitem(3)
    words = pool.ordered("words", key=str, value=bytes)
    for word in ["left", "left-pad", "leftpad", "right"]:
        words[word] = word.encode()
    assert list(words.irange(prefix="left-")) == ["left-pad"]
    assert list(words.irange(prefix="left", after="left", limit=1)) == ["left-pad"]
    assert list(words.values(prefix="left", reverse=True)) == [b"leftpad", b"left-pad", b"left"]
    assert words.count(prefix="left") == 3
    with pytest.raises(ValueError):
        list(words.irange("a", prefix="b"))


@pytest.mark.parametrize(
    ("key", "value", "entries"),
    [
        (str, bytes, {"": b"", "ä": b"\0", "z" * 300: b"x" * 5000}),
        (bytes, str, {b"\0": "a", b"\xff\xff": "ü", b"": ""}),
        (int, float, {-(2**63): -0.5, 2**63 - 1: float("inf"), 0: 0.0}),
        ("uint", bool, {0: True, 2**64 - 1: False}),
        (float, int, {-1.5: 1, 0.0: 2, 1e300: 3}),
        (str, "json", {"a": {"b": [1, None, "x"]}, "n": None, "t": [True]}),
        (
            datetime.datetime,
            datetime.datetime,
            {
                datetime.datetime(1960, 1, 1, tzinfo=datetime.timezone.utc): datetime.datetime(
                    2024, 2, 29, 1, 2, 3, 4, tzinfo=datetime.timezone.utc
                ),
                datetime.datetime(2030, 1, 1, tzinfo=datetime.timezone.utc): datetime.datetime(
                    1970, 1, 1, tzinfo=datetime.timezone.utc
                ),
            },
        ),
    ],
)
def test_types_keep_values_and_order(pool, key, value, entries):
    index = pool.ordered("x", key, value)
    for one, other in entries.items():
        index[one] = other
    assert list(index.items()) == sorted(entries.items(), key=lambda entry: entry[0])
    for one, other in entries.items():
        assert index[one] == other and type(index[one]) is type(other)
        assert index.pop(one) == other
    assert not index


def test_what_does_not_fit_is_refused(pool):
    numbers = pool.ordered("numbers", key=int, value=int)
    for wrong, kind in [("a", TypeError), (1.5, TypeError), (2**63, OverflowError), (None, TypeError)]:
        with pytest.raises(kind):
            numbers[wrong] = 1
        with pytest.raises(kind):
            numbers[1] = wrong
    with pytest.raises(TypeError, match="dtype"):
        pool.ordered("bad", value=object())
    with pytest.raises(farwood.TypeMismatch):
        pool.ordered("numbers", key=str, value=int)
    with pytest.raises(farwood.NoSuchIndex):
        pool.ordered("none", create=False)
    moments = pool.ordered("moments", key=datetime.datetime, value=int)
    with pytest.raises(ValueError, match="time zone"):
        moments[datetime.datetime(2020, 1, 1)] = 1


def test_counters_and_conditional_changes(pool):
    numbers = pool.ordered("numbers", key=str, value=int)
    assert [numbers.incr("a"), numbers.incr("a", 5), numbers.incr("a", -7)] == [1, 6, -1]
    numbers["big"] = 2**63 - 1
    with pytest.raises(OverflowError):
        numbers.incr("big")
    assert numbers["big"] == 2**63 - 1
    assert numbers.insert("b", 1) and not numbers.insert("b", 2) and numbers["b"] == 1
    assert numbers.replace("b", 3) and not numbers.replace("c", 3)
    assert numbers.swap("b", 4) == 3 and numbers.take("b") == 4 and numbers.take("b") is None
    assert numbers.setdefault("d", 9) == 9 and numbers.setdefault("d", 8) == 9
    assert numbers.compare_exchange("d", 9, 10) and not numbers.compare_exchange("d", 9, 11)
    assert numbers.compare_exchange("e", None, 1) and numbers.compare_exchange("e", 1, None) and "e" not in numbers
    floats = pool.ordered("floats", key=str, value=float)
    assert floats.incr("x", 0.5) == 0.5 and floats.incr("x") == 1.5
    with pytest.raises(TypeError):
        pool.ordered("texts", value=str).incr("x")


def test_batches_of_arrays(pool):
    numbers = pool.ordered("numbers", key="uint", value=int)
    keys = np.random.default_rng(1).permutation(100_000).astype(np.uint64)
    counted = []
    assert not numbers.put_many(keys, keys.astype(np.int64) * -3, progress=counted.append).any()
    assert sum(counted) == len(keys)
    values, present = numbers.get_many(keys[::3])
    assert present.all() and values.dtype == np.int64 and (values == keys[::3].astype(np.int64) * -3).all()
    values, present = numbers.get_many(np.array([5, 10**9], np.uint64))
    assert values.tolist() == [-15, 0] and present.tolist() == [True, False]
    assert numbers.delete_many([5, 10**9]).tolist() == [True, False]
    chunks = list(numbers.scan_arrays(chunk=30_000))
    assert [len(keys) for keys, _ in chunks] == [30_000, 30_000, 30_000, 9_999]
    assert (np.concatenate([keys for keys, _ in chunks]) == np.delete(np.arange(100_000), 5)).all()
    with pytest.raises(ValueError, match="as many"):
        numbers.put_many([1, 2], [1])
    loaded = pool.ordered("loaded", key=int, value=float)
    assert loaded.load_sorted(np.arange(-1000, 1000), np.linspace(0, 1, 2000)) == 2000
    assert loaded[-1000] == 0.0 and loaded[999] == 1.0
    with pytest.raises(farwood.Exists):
        loaded.load_sorted([1], [1.0])
    texts = pool.ordered("texts", key=str, value=str)
    texts.put_many(["a", "b"], ["x", "y"])
    assert texts.get_many(["b", "c"])[0] == ["y", None]


def test_a_batch_finds_text_values_in_order(pool):
    words = pool.ordered("words", key=str, value=str)
    words.update({f"k{number}": "v" * number for number in range(200)})
    asked = [f"k{number}" for number in (199, 3, 777, 0, 3)]
    values, present = words.get_many(asked)
    assert values == ["v" * 199, "vvv", None, "", "vvv"] and present.tolist() == [True, True, False, True, True]


def test_scans_are_arrow_streams(pool):
    pyarrow = pytest.importorskip("pyarrow")
    numbers = pool.ordered("numbers", key="uint", value=float)
    numbers.load_sorted(np.arange(10_000, dtype=np.uint64), np.arange(10_000) * 0.5)
    table = pyarrow.table(numbers.to_arrow(10, 20))
    assert table.column_names == ["key", "value"] and table["key"].to_pylist() == list(range(10, 21))
    stream = numbers.to_arrow(chunk=4000)
    assert [len(batch) for batch in pyarrow.RecordBatchReader.from_stream(stream)] == [4000, 4000, 2000]
    with pytest.raises(ValueError, match="already"):
        pyarrow.table(stream)
    moments = pool.ordered("moments", key=datetime.datetime, value="json")
    moment = datetime.datetime(2026, 11, 28, tzinfo=datetime.timezone.utc)
    moments[moment] = [1]
    assert pyarrow.table(moments.to_arrow()).to_pylist() == [{"key": moment, "value": "[1]"}]
    assert pyarrow.table(pool.ordered("none", key=bytes, value=bytes).to_arrow()).num_rows == 0
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(numbers.to_arrow())["value"].sum() == 24997500.0


def test_vectors_are_values_of_any_structure(pool):
    vector = np.dtype(("f4", (128,)))
    for name, key, structure in [("b", int, None), ("r", str, None), ("n", int, "radix")]:
        vectors = pool.ordered(name, key=key, value=vector, structure=structure)
        keys = list(map(key, range(5)))
        given = np.arange(5 * 128, dtype="f4").reshape(5, 128)
        vectors.put_many(keys, given)
        assert (vectors[keys[3]] == given[3]).all()
        values, present = vectors.get_many([keys[4], key(77), keys[1]])
        assert values.dtype == np.float32 and values.shape == (3, 128) and present.tolist() == [True, False, True]
        assert (values == np.stack((given[4], 0 * given[0], given[1]))).all()
        assert (np.concatenate([values for _, values in vectors.scan_arrays()]) == given).all()
    numbers = pool.ordered("f", key=str, value=np.dtype("f4"))
    numbers["a"] = 1.5
    assert numbers.get_many(["a", "b"])[0].tolist() == [1.5, 0]


def test_a_page_stays_in_its_range(pool):
    names = pool.ordered("names", key=str, value=int)
    names.update({name: 1 for name in ["a", "b", "c", "user:0", "user:1", "y", "z"]})
    for reverse in (False, True):
        users = ["user:0", "user:1"][:: -1 if reverse else 1]
        beyond = "a" if not reverse else "z"
        assert list(names.keys(prefix="user:", after=beyond, reverse=reverse)) == users
        assert list(names.keys(prefix="user:", after=users[0], reverse=reverse)) == users[1:]
        assert list(names.keys(prefix="user:", after="z" if not reverse else "a", reverse=reverse)) == []
        assert list(names.keys("user:", "user:~", after=beyond, reverse=reverse)) == users
        assert list(names.keys("user:", "user:~", after=users[0], reverse=reverse)) == users[1:]


def test_both_zeros_are_one_key(pool):
    numbers = pool.ordered("numbers", key=float, value=int)
    numbers[0.0] = 1
    numbers[-0.0] = 2
    assert list(numbers.items()) == [(0.0, 2)]
    numbers.put_many(np.array([-0.0, 1.5]), np.array([3, 4]))
    assert list(numbers.items(-0.0)) == [(0.0, 3), (1.5, 4)]
    values = pool.ordered("values", key=int, value=float)
    values[1] = -0.0
    assert np.signbit(values[1])


def test_structures_are_values(pool):
    dtype = np.dtype([("x", "<f4"), ("n", "<u2")])
    points = pool.ordered("points", key=int, value=dtype)
    points[1] = (0.5, 7)
    assert points[1]["n"] == 7 and points[1]["x"] == 0.5
    rows = np.array([(1.0, 1), (2.0, 2)], dtype)
    points.put_many(np.array([2, 3]), rows)
    values, present = points.get_many(np.array([3, 4, 2]))
    assert values.dtype == dtype and values["n"].tolist() == [2, 0, 1] and present.tolist() == [True, False, True]
    (keys, values), = points.scan_arrays()
    assert keys.tolist() == [1, 2, 3] and values["n"].tolist() == [7, 1, 2]


def test_the_dtype_is_checked_when_an_index_is_opened(url, pool):
    pool.ordered("f4", key=int, value=np.float32)[1] = 1.5
    with farwood.open(url) as other:
        for wrong in [np.int32, np.float64, np.dtype(("f4", (1,)))]:
            with pytest.raises(farwood.TypeMismatch):
                other.ordered("f4", key=int, value=wrong)
        assert other.ordered("f4", key=int, value=np.dtype("f4"))[1] == 1.5
        pool.ordered("text", value=str)["a"] = "{"
        with pytest.raises(farwood.TypeMismatch, match="JSON"):
            other.ordered("text", value="json")["a"]


def test_values_of_a_dtype_are_not_bytes(pool):
    pool.ordered("i", key=str, value=np.dtype("f4"))["a"] = 1
    with pytest.raises(farwood.TypeMismatch, match="open it with that dtype"):
        pool.ordered("i", key=str)


def test_remedies_name_calls_of_this_package():
    """Every call that a remedy of the library names has a translation."""
    import pathlib
    import re

    from farwood.errors import _REMEDIES

    source = pathlib.Path(__file__).parents[2] / "farwood/src/error/help.rs"
    named = set(re.findall(r"`((?:\w+::\w+)|NodeFile|Registrant)`", source.read_text()))
    assert len(named) > 15 and named <= set(_REMEDIES), named - set(_REMEDIES)
    with pytest.raises(farwood.NoSuchIndex, match="farwood.create"):
        farwood.open("shm://there-is-none")


def test_an_exhausted_or_closed_scan_does_not_keep_the_pool_open(url):
    pool = farwood.open(url)
    index = pool.ordered("x", key=int, value=int)
    index.update({1: 1, 2: 2})
    exhausted, begun = iter(index), iter(index)
    assert list(exhausted) == [1, 2] and list(exhausted) == [] and next(begun) == 1
    pool.close()
    with pytest.raises(ValueError, match="closed"):
        next(begun)
    farwood.remove(url)
    farwood.create(url, "64 MiB").close()


def test_limits_are_checked(pool):
    index = pool.ordered("x", key=int, value=int)
    for call in [lambda: list(index.irange(limit=-1)), lambda: list(index.scan_arrays(chunk=0))]:
        with pytest.raises(ValueError):
            call()


def test_values_that_do_not_fit_a_dtype_are_refused(pool):
    numbers = pool.ordered("i4", key=int, value=np.int32)
    for wrong in [1.9, 2**40, "x"]:
        with pytest.raises((TypeError, ValueError, OverflowError)):
            numbers[1] = wrong
        with pytest.raises((TypeError, ValueError, OverflowError)):
            numbers.put_many([1], np.array([wrong]))
    assert not numbers
    numbers[1] = 7
    assert numbers[1] == 7
    with pytest.raises(ValueError):
        pool.ordered("s", key=int, value="S5")[1] = b"abcdefgh"
    rows = pool.ordered("rows", key=int, value=np.dtype([("a", "i2"), ("b", "f4")]))
    with pytest.raises(OverflowError):
        rows[1] = (70_000, 1.0)
    with pytest.raises(ValueError):
        rows[1] = (1,)


def test_floats_and_times_lose_nothing(pool):
    floats = pool.ordered("floats", key=str, value=float)
    floats["a"] = 2**60
    for put in [
        lambda: floats.put("b", 2**60 + 1),
        lambda: floats.put_many(["b"], [2**60 + 1]),
        lambda: floats.put_many(["b"], np.array([2**60 + 1])),
        lambda: floats.put_many(["b"], np.array([2**64 - 1], np.uint64)),
    ]:
        with pytest.raises(OverflowError):
            put()
    floats.put_many(["b", "c"], np.array([2**60, -(2**63)]))
    assert floats["b"] == 2.0**60 and floats["c"] == -(2.0**63) and floats.count() == 3
    times = pool.ordered("times", key=datetime.datetime, value=int)
    for wrong, error in [
        (np.array(["NaT"], "M8[ns]"), ValueError),
        (np.array(["2020-01-01T00:00:00.000000001"], "M8[ns]"), ValueError),
        (np.array(["12000-01-01"], "M8[s]"), OverflowError),
    ]:
        with pytest.raises(error):
            times.put_many(wrong, [1])
    times.put_many(np.array(["2020-01-01T00:00:00.000001"], "M8[ns]"), [1])
    assert list(times)[0].microsecond == 1 and times.count() == 1


def test_errors_name_what_does_not_fit(pool):
    unsigned = pool.ordered("unsigned", key="uint", value="uint")
    with pytest.raises(OverflowError, match="-1 does not fit: a key of this index is 0 to"):
        unsigned.get_many(np.array([-1]))
    with pytest.raises(TypeError, match="is one item"):
        pool.ordered("words", key=str).get_many("pq")
    with pytest.raises(ValueError, match="a key contains a NUL"):
        pool.ordered("words", key=str).get("a\0b")
    with pytest.raises(TypeError, match="no type of keys"):
        pool.ordered("flags", key=bool)
    with pytest.raises(TypeError, match="is not a size"):
        farwood.create("shm://never-created", 1.5)


def test_arrays_are_values(pool):
    vectors = pool.ordered("vectors", key="uint", value=np.dtype(("f4", (4,))))
    vectors[1] = np.arange(4, dtype="f4")
    assert vectors[1].tolist() == [0, 1, 2, 3]
    vectors.put_many([2, 3], np.ones((2, 4), "f4"))
    values, present = vectors.get_many(np.array([3, 9], np.int64))
    assert values.shape == (2, 4) and values[0].tolist() == [1] * 4 and present.tolist() == [True, False]
    for wrong in [np.ones(3, "f4"), 1.0]:
        with pytest.raises(ValueError, match="shape"):
            vectors[1] = wrong


def test_arrays_are_converted_without_loss(pool):
    floats = pool.ordered("floats", key=float, value=float)
    floats.put_many(np.arange(3, dtype="f4"), np.arange(3, dtype="i4"))
    assert floats[np.int64(2)] == 2.0 and floats[np.float32(1)] == 1.0
    numbers = pool.ordered("numbers", key=int, value=int)
    assert len(numbers.get_many(np.array([]))[0]) == 0
    numbers.put_many(np.arange(3, dtype="i4"), np.arange(3, dtype="u2"))
    assert list(numbers.items()) == [(0, 0), (1, 1), (2, 2)]
    with pytest.raises(TypeError, match="loss"):
        numbers.get_many(np.array([1.5]))
    with pytest.raises((OverflowError, ValueError)):
        numbers.get_many(np.array([2**63], np.uint64))
    words = pool.ordered("words", key=str, value=bool)
    words.put_many(np.array(["a", "b"]), np.array([True, False]))
    assert list(words.items()) == [("a", True), ("b", False)]
    moments = pool.ordered("moments", key=datetime.datetime, value=int)
    moments.put_many(np.array(["2026-11-28"], "M8[s]"), [1])
    assert list(moments) == [datetime.datetime(2026, 11, 28, tzinfo=datetime.timezone.utc)]


def test_closing_is_idempotent_and_later_calls_fail(url):
    pool = farwood.open(url)
    index = pool.ordered("x", key=int, value=int)
    index[1] = 1
    scan = iter(index)
    pool.close()
    pool.close()
    index.close()
    assert pool.closed and index.closed
    for call in [lambda: index[1], lambda: index.put(1, 1), lambda: pool.ordered("x"), lambda: next(iter(index))]:
        with pytest.raises(ValueError, match="closed"):
            call()
    del scan
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        farwood.open(url)
        gc.collect()
    assert [warning.category for warning in caught] == [ResourceWarning]


def test_handles_are_pickled_by_their_urls(pool):
    index = pool.ordered("x", key=int, value="json")
    index[1] = [1]
    copy = pickle.loads(pickle.dumps(index))
    assert copy[1] == [1] and copy is not index
    with pickle.loads(pickle.dumps(pool)) as other:
        assert other.indexes() == ["x"]
    copy._pool.close()


class Machine(RuleBasedStateMachine):
    """The same calls on a shared map and on a SortedDict."""

    keys = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
    values = st.binary(max_size=40)

    def __init__(self):
        super().__init__()
        self.url = f"shm://machine-{id(self)}"
        self.pool = farwood.create(self.url, "64 MiB")
        self.map, self.model = self.pool.ordered("x", key=str, value=bytes), SortedDict()

    def teardown(self):
        self.pool.close()
        farwood.remove(self.url, force=True)

    @rule(key=keys, value=values)
    def store(self, key, value):
        self.map[key] = self.model[key] = value

    @rule(key=keys, value=values)
    def setdefault(self, key, value):
        assert self.map.setdefault(key, value) == self.model.setdefault(key, value)

    @rule(key=keys)
    def pop(self, key):
        assert self.map.pop(key, None) == self.model.pop(key, None)

    @rule(key=keys)
    def look_up(self, key):
        assert self.map.get(key) == self.model.get(key) and (key in self.map) == (key in self.model)

    @rule(low=keys, high=keys, inclusive=st.tuples(st.booleans(), st.booleans()), reverse=st.booleans())
    def scan(self, low, high, inclusive, reverse):
        low, high = min(low, high), max(low, high)
        # The model has Python's order of characters, which is that of UTF-8.
        found = list(self.map.irange(low, high, inclusive, reverse))
        assert found == list(self.model.irange(low, high, inclusive, reverse))

    @rule(prefix=keys)
    def scan_prefix(self, prefix):
        expected = [key for key in self.model if key.startswith(prefix)]
        assert list(self.map.irange(prefix=prefix)) == expected

    @invariant()
    def equal(self):
        assert list(self.map.items()) == list(self.model.items())


Machine.TestCase.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
TestMachine = Machine.TestCase
