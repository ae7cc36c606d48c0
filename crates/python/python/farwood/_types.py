"""The types of keys and values: how each is stored."""

import datetime as _datetime
import json as _json

import numpy as np

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
            self.stored, self.to_stored, self.from_stored = "str", _to_json, _json.loads
        else:
            self._set_structure(given)

    def _set_structure(self, given):
        try:
            self.dtype = np.dtype(given)
        except TypeError:
            raise TypeError(
                f"{given!r} is not a type of keys or values; give str, bytes, int, 'uint', float, bool, datetime, "
                "'json' or a NumPy dtype"
            ) from None
        if self.dtype.hasobject or self.dtype.itemsize == 0:
            raise TypeError(f"{self.dtype} has no fixed bytes; give a dtype without objects")
        dtype = self.dtype
        self.stored = "bytes"
        self.to_stored = lambda value: np.asarray(value, dtype).tobytes()
        self.from_stored = lambda stored: np.frombuffer(stored, dtype)[0]

    @property
    def spec(self):
        # Arrays of structures are converted as a whole; see `encode_array`.
        return self.stored, self.to_stored, self.from_stored

    @property
    def has_one_length(self):
        return self.dtype is not None or self.stored not in ("str", "bytes")
