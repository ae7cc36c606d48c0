"""The types of keys and values: how each is stored."""

import datetime as _datetime
import json as _json

import numpy as np

from .errors import TypeMismatch

_EPOCH = _datetime.datetime(1970, 1, 1, tzinfo=_datetime.timezone.utc)
_MICROSECOND = _datetime.timedelta(microseconds=1)

#: Types that are stored as they are, by Python's type or by name.
_STORED = {str: "str", bytes: "bytes", int: "int", float: "float", bool: "bool"}
_NAMES = {"str", "bytes", "int", "uint", "float", "bool"}


def _to_microseconds(moment):
    if not isinstance(moment, _datetime.datetime):
        raise TypeError(f"a key or value of this index is a datetime, not {type(moment).__name__}")
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone; give one, as datetime.timezone.utc")
    return (moment - _EPOCH) // _MICROSECOND


def _from_microseconds(number):
    return _EPOCH + number * _MICROSECOND


def _to_json(value):
    return _json.dumps(value, separators=(",", ":"), ensure_ascii=True)


def _from_json(text):
    try:
        return _json.loads(text)
    except _json.JSONDecodeError as error:
        raise TypeMismatch(f"a value of this index is not JSON ({error}); open the index with value=str") from None


def _check_fits(given, stored, dtype):
    """Refuse a conversion that has changed numbers, or has cut strings off."""
    if dtype.kind in "biufc" and given.dtype.kind in "biufc":
        same = np.can_cast(given.dtype, dtype, "same_kind") or (given == stored).all()
        if not same or (dtype.kind in "biu" and not (given == stored).all()):
            raise OverflowError(f"{given} does not fit into {dtype}")
    elif dtype.kind in "SUV" and given.dtype.itemsize > dtype.itemsize:
        raise ValueError(f"{given} has {given.dtype.itemsize} bytes, and {dtype} has {dtype.itemsize}")


def _to_structure(value, dtype):
    """The array of one value of a dtype. A value that does not fit is refused."""
    if dtype.names is not None and isinstance(value, tuple):
        if len(value) != len(dtype.names):
            raise ValueError(f"{value!r} has {len(value)} fields, and {dtype} has {len(dtype.names)}")
        stored = np.empty((), dtype)
        for name, field in zip(dtype.names, value):
            stored[name] = _to_structure(field, dtype[name])
        return stored
    base, shape = dtype.subdtype or (dtype, ())
    if base.names is not None and not shape:
        given = np.asarray(value)
        if given.dtype.names is None:
            raise TypeError(f"{value!r} is no value of {dtype}; give a tuple of its fields")
        return given.astype(dtype, casting="same_kind")
    given = np.asarray(value) if base.kind not in "mM" else np.asarray(value, base)
    if given.dtype == object:
        raise TypeError(f"{value!r} is no value of {dtype}")
    if given.shape != shape:
        raise ValueError(f"a value of this index has the shape {shape}, not {given.shape}")
    with np.errstate(all="ignore"):
        stored = given.astype(base)
    _check_fits(given, stored, base)
    return stored


def _are_exact(integers, floats):
    """Whether floats have exactly the values of integers."""
    limits = np.iinfo(integers.dtype)
    inside = (floats >= limits.min) & (floats < 2.0**limits.bits if limits.min == 0 else floats < -float(limits.min))
    return bool(inside.all() and (floats.astype(integers.dtype) == integers).all())


def _microseconds_of(moments):
    """The microseconds of an array of datetime64 with any unit. Lost digits and missing times are refused."""
    stored = moments.astype("M8[us]")
    if np.isnat(moments).any():
        raise ValueError("a map cannot store NaT")
    if not (stored.astype(moments.dtype) == moments).all():
        raise ValueError(f"an array of {moments.dtype} has times that are not whole microseconds; round them")
    least, greatest = np.datetime64("0001-01-01", "us"), np.datetime64("9999-12-31T23:59:59.999999", "us")
    if ((stored < least) | (stored > greatest)).any():
        raise OverflowError("a time is outside the years 1 to 9999, which datetime can have")
    return stored.astype(np.int64)


class Column:
    """The stored type of keys or values, with functions from and to the objects of the program."""

    def __init__(self, given):
        self.given = given
        self.to_stored = self.from_stored = self.dtype = None
        if isinstance(given, str) and given in _NAMES:
            self.stored = given
        elif isinstance(given, type) and given in _STORED:
            self.stored = _STORED[given]
        elif given is _datetime.datetime or given == "datetime":
            self.stored, self.to_stored, self.from_stored = "int", _to_microseconds, _from_microseconds
        elif given == "json" or given is dict:
            self.stored, self.to_stored, self.from_stored = "str", _to_json, _from_json
        else:
            self._set_structure(given)

    def _set_structure(self, given):
        try:
            if isinstance(given, type) and not issubclass(given, np.generic):
                raise TypeError
            self.dtype = np.dtype(given)
            if self.dtype.hasobject or self.dtype.itemsize == 0:
                raise TypeError
        except TypeError:
            raise TypeError(
                f"{given!r} is not a type of keys or values; give str, bytes, int, 'uint', float, bool, datetime, "
                "'json' or a NumPy dtype without objects"
            ) from None
        dtype = self.dtype
        base, shape = dtype.subdtype or (dtype, ())
        self.stored = "bytes"
        self.to_stored = lambda value: _to_structure(value, dtype).tobytes()
        self.from_stored = lambda stored: np.frombuffer(stored, base).reshape(shape)[()]

    @property
    def spec(self):
        return self.stored, self.to_stored, self.from_stored

    @property
    def type_name(self):
        """The name that the index records; `None`: that of the stored type."""
        return None if self.dtype is None else f"numpy {np.lib.format.dtype_to_descr(self.dtype.base)} {self.dtype.shape}"

    @property
    def has_one_length(self):
        return self.dtype is not None or self.stored not in ("str", "bytes")

    def encode_array(self, items):
        """The items of a batch as the extension takes them: an array of numbers, rows of bytes, or a list."""
        if isinstance(items, (str, bytes)):
            raise TypeError(f"{items!r} is one item; give an array or a list")
        if not isinstance(items, np.ndarray):
            return items
        if self.dtype is not None:
            return self._rows(items)
        if items.ndim != 1:
            raise ValueError(f"give an array with one dimension, not {items.ndim}")
        if self.given is _datetime.datetime or self.given == "datetime":
            if items.dtype.kind != "M":
                return items.tolist()
            return _microseconds_of(items)
        target = {"int": np.int64, "uint": np.uint64, "float": np.float64}.get(self.stored)
        if target is None or self.to_stored is not None:
            return items.tolist()
        if items.size == 0 or items.dtype.kind in "iu" and target is not np.float64:
            # The extension refuses integers that do not fit.
            return items.astype(target if items.size == 0 else np.uint64 if items.dtype.kind == "u" else np.int64)
        if np.can_cast(items.dtype, target, "safe"):
            stored = items.astype(target)
            if items.dtype.kind in "iu" and not _are_exact(items, stored):
                raise OverflowError(f"an array of {items.dtype} has numbers that a float cannot hold exactly; convert it")
            return stored
        raise TypeError(f"an array of {items.dtype} does not fit into {np.dtype(target)} without loss; convert it")

    def _rows(self, items):
        base, shape = self.dtype.subdtype or (self.dtype, ())
        if items.shape[1:] != shape:
            raise ValueError(f"give an array of the shape (n, {', '.join(map(str, shape))}), not {items.shape}")
        if items.dtype != base:
            if base.names is not None:
                items = items.astype(base, casting="same_kind")
            else:
                with np.errstate(all="ignore"):
                    stored = items.astype(base)
                _check_fits(items, stored, base)
                items = stored
        return np.ascontiguousarray(items).view(np.uint8).reshape(len(items), self.dtype.itemsize)

    def array_of(self, values):
        """An array of a batch's values; zeros stand for ``None``."""
        base, shape = self.dtype.subdtype or (self.dtype, ())
        array = np.zeros((len(values), *shape), base)
        for position, value in enumerate(values):
            if value is not None:
                array[position] = value
        return array

    def decode_rows(self, rows):
        """The array of a batch's rows of bytes."""
        base, shape = self.dtype.subdtype or (self.dtype, ())
        return rows.reshape(-1).view(base).reshape(len(rows), *shape)
