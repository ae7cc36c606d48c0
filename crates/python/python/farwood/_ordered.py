"""Ordered maps: the interface of ``MutableMapping`` and ``SortedDict`` over the extension's class."""

from collections.abc import ItemsView as _ItemsView
from collections.abc import KeysView as _KeysView
from collections.abc import MutableMapping
from collections.abc import ValuesView as _ValuesView

from . import _farwood
from .errors import NotFound, TypeMismatch

_KEYS, _VALUES, _ITEMS = 0, 1, 2
_MISSING = object()


def _limit(limit):
    if limit is not None and limit < 0:
        raise ValueError(f"limit={limit}: give 0 or more, or None for no limit")
    return limit


class _View:
    """A lazy view: nothing is read before it is iterated over."""

    def __len__(self):
        raise TypeError("a shared map does not know its length; call map.count(), which reads all entries")

    def __repr__(self):
        return f"{type(self).__name__}({self._mapping!r})"


class KeysView(_View, _KeysView):
    """The keys of a map, in order."""

    def __iter__(self):
        return self._mapping._scan(_KEYS)

    def __reversed__(self):
        return self._mapping._scan(_KEYS, reverse=True)


class ValuesView(_View, _ValuesView):
    """The values of a map, in the order of their keys."""

    def __iter__(self):
        return self._mapping._scan(_VALUES)

    def __reversed__(self):
        return self._mapping._scan(_VALUES, reverse=True)


class ItemsView(_View, _ItemsView):
    """The entries of a map, in the order of their keys."""

    def __iter__(self):
        return self._mapping._scan(_ITEMS)

    def __reversed__(self):
        return self._mapping._scan(_ITEMS, reverse=True)


class OrderedMap(_farwood.Ordered, MutableMapping):
    """A sorted map that processes share. :meth:`farwood.Pool.ordered` opens it.

    It behaves as a ``dict`` and as a ``sortedcontainers.SortedDict``, with three differences. ``len()`` is refused,
    because the map would have to be read: call :meth:`count`. Other processes may change the map at any time; each
    operation on one key is atomic, and an iteration returns every key that exists from its beginning to its end.
    Positions (``peekitem(5)``, ``bisect``) are refused, except the first and the last.

    >>> import farwood
    >>> pool = farwood.create("shm://docs-ordered", "64 MiB")
    >>> ages = pool.ordered("ages", key=str, value=int)
    >>> ages["ann"] = 41
    >>> ages.setdefault("ann", 7), ages.setdefault("bob", 35)
    (41, 35)
    >>> ages.peekitem(), ages.peekitem(0)
    (('bob', 35), ('ann', 41))
    >>> list(ages.items(reverse=True, limit=1))
    [('bob', 35)]
    >>> ages.compare_exchange("ann", 41, 42)
    True
    >>> pool.close(); farwood.remove("shm://docs-ordered")
    """

    @classmethod
    def _open(cls, pool, name, keys, values, structure, key_bytes, value_bytes, cache_bytes, create):
        opened = pool._pool.open_ordered(
            name, keys.spec, values.spec, values.type_name, structure, key_bytes, value_bytes, cache_bytes, create
        )
        if values.dtype is not None and opened._value_bytes not in (None, values.dtype.itemsize):
            raise TypeMismatch(
                f"{opened.url}: its values have {opened._value_bytes} bytes, and {values.dtype} has "
                f"{values.dtype.itemsize}; open it with its dtype"
            )
        index = cls.__new__(cls, opened)
        index._keys_column, index._values_column = keys, values
        index._arguments = (name, keys.given, values.given)
        index._pool = pool
        return index

    # Reading

    def _scan(
        self,
        part,
        minimum=None,
        maximum=None,
        inclusive=(True, True),
        *,
        prefix=None,
        reverse=False,
        limit=None,
        after=None,
    ):
        if prefix is not None and (minimum is not None or maximum is not None):
            raise ValueError("give a prefix or a range, not both")
        if after is not None:
            if prefix is not None:
                return self._scan_prefix_after(part, prefix, reverse, limit, after)
            if reverse and (maximum is None or after <= maximum):
                maximum, inclusive = after, (inclusive[0], False)
            elif not reverse and (minimum is None or after >= minimum):
                minimum, inclusive = after, (False, inclusive[1])
        return self._entries((minimum, maximum, tuple(inclusive), prefix, reverse, _limit(limit)), part)

    def _scan_prefix_after(self, part, prefix, reverse, limit, after):
        is_before = after > prefix if reverse else after < prefix
        if is_before and not after.startswith(prefix):
            return (yield from self._scan(part, prefix=prefix, reverse=reverse, limit=limit))
        if reverse:
            scan = self._entries((None, after, (True, False), None, True, _limit(limit)), _ITEMS)
        else:
            scan = self._entries((after, None, (False, True), None, False, _limit(limit)), _ITEMS)
        for entry in scan:
            if not entry[0].startswith(prefix):
                return
            yield entry if part == _ITEMS else entry[part]

    def __iter__(self):
        return self._scan(_KEYS)

    def __reversed__(self):
        return self._scan(_KEYS, reverse=True)

    def __bool__(self):
        return next(self._scan(_KEYS, limit=1), _MISSING) is not _MISSING

    def __len__(self):
        raise TypeError("a shared map does not know its length; call count(), which reads all entries")

    def irange(
        self,
        minimum=None,
        maximum=None,
        inclusive=(True, True),
        reverse=False,
        *,
        prefix=None,
        limit=None,
        after=None,
    ):
        """Iterate over the keys from ``minimum`` to ``maximum``, or those with a prefix.

        For pages, give ``after``, the last key of the page before, and ``limit``.
        """
        return self._scan(
            _KEYS, minimum, maximum, inclusive, prefix=prefix, reverse=reverse, limit=limit, after=after
        )

    def keys(self, *range, **options):
        """The keys, as a view; or those of a range, as an iterator with the arguments of :meth:`irange`."""
        return self._scan(_KEYS, *range, **options) if range or options else KeysView(self)

    def values(self, *range, **options):
        """The values, as a view; or those of a range, as an iterator with the arguments of :meth:`irange`."""
        return self._scan(_VALUES, *range, **options) if range or options else ValuesView(self)

    def items(self, *range, **options):
        """The entries, as a view; or those of a range, as an iterator with the arguments of :meth:`irange`."""
        return self._scan(_ITEMS, *range, **options) if range or options else ItemsView(self)

    def count(self, minimum=None, maximum=None, inclusive=(True, True), *, prefix=None):
        """Count entries by reading them."""
        if minimum is None and maximum is None and prefix is None:
            return self._count_entries()
        return sum(1 for _ in self._scan(_KEYS, minimum, maximum, inclusive, prefix=prefix))

    def peekitem(self, index=-1):
        """The entry with the greatest key (-1) or the least key (0)."""
        if index not in (0, -1):
            raise IndexError("a shared map has no positions except the first (0) and the last (-1)")
        found = next(self._scan(_ITEMS, reverse=index == -1, limit=1), None)
        if found is None:
            raise NotFound("the map is empty")
        return found

    # Changes

    def setdefault(self, key, default=None):
        """Insert ``default`` if the key is absent; return the value. One of several processes inserts."""
        while True:
            found = self.get(key, _MISSING)
            if found is not _MISSING:
                return found
            if self.insert(key, default):
                return self[key] if self._values_column.to_stored else default

    def pop(self, key, default=_MISSING):
        """Remove a key and return its value."""
        found = self.take(key, _MISSING)
        if found is not _MISSING:
            return found
        if default is _MISSING:
            raise NotFound(key)
        return default

    def popitem(self, index=-1):
        """Remove and return the entry with the greatest key (-1) or the least key (0)."""
        while True:
            key, _ = self.peekitem(index)
            value = self.take(key, _MISSING)
            # Another process may have removed the key.
            if value is not _MISSING:
                return key, value

    def clear(self):
        """Remove all entries, one after the other."""
        for key in self:
            self.discard(key)

    def compare_exchange(self, key, expected, new):
        """Replace the value of a key if it is ``expected``; return whether it was.

        ``None`` stands for an absent key: ``compare_exchange(key, None, new)`` inserts, and ``compare_exchange(key,
        old, None)`` removes. Values are compared by their stored bytes.
        """
        return self._exchange(key, expected, new)[0]

    # Batches

    def get_many(self, keys, *, progress=None):
        """Look many keys up: ``(values, present)``.

        ``keys`` is a NumPy array or a list. Values of one length (numbers, dtypes) are an array, with zeros where a key
        is absent; others are a list with ``None``. ``progress`` is called with numbers of keys, as ``tqdm.update``.
        """
        values, present = super().get_many(self._keys_column.encode_array(keys), progress)
        return self._decoded(values), present

    def _decoded(self, values):
        if self._values_column.dtype is None:
            return values
        if isinstance(values, list):
            return self._values_column.array_of(values)
        return self._values_column.decode_rows(values)

    def put_many(self, keys, values, *, progress=None):
        """Store many entries; return an array that is true where the key existed. Each entry is atomic."""
        keys, values = self._keys_column.encode_array(keys), self._values_column.encode_array(values)
        return super().put_many(keys, values, progress)

    def delete_many(self, keys, *, progress=None):
        """Remove many keys; return an array that is true where the key was present."""
        return super().delete_many(self._keys_column.encode_array(keys), progress)

    def scan_arrays(
        self,
        minimum=None,
        maximum=None,
        inclusive=(True, True),
        *,
        prefix=None,
        reverse=False,
        limit=None,
        chunk=65536,
    ):
        """Iterate over a range in pairs ``(keys, values)`` of arrays with up to ``chunk`` entries."""
        span = minimum, maximum, tuple(inclusive), prefix, reverse, _limit(limit)
        for keys, values in self._arrays(span, chunk):
            yield keys, self._decoded(values)

    def to_arrow(
        self,
        minimum=None,
        maximum=None,
        inclusive=(True, True),
        *,
        prefix=None,
        reverse=False,
        limit=None,
        chunk=65536,
    ):
        """A range as an Arrow table with the columns ``key`` and ``value``, which is read when it is used.

        Every library with the Arrow PyCapsule interface takes it: ``pyarrow.table(m.to_arrow())``,
        ``polars.DataFrame(m.to_arrow())``.
        """
        return self._arrow((minimum, maximum, tuple(inclusive), prefix, reverse, _limit(limit)), chunk)

    def load_sorted(self, keys, values, *, fill=0.8):
        """Load entries with increasing keys into the empty map; return their number. Much faster than ``put_many``."""
        keys, values = self._keys_column.encode_array(keys), self._values_column.encode_array(values)
        return super().load_sorted(keys, values, fill)

    # The object

    def __eq__(self, other):
        return self is other

    def __hash__(self):
        return id(self)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __reduce__(self):
        name, key, value = self._arguments
        return _open_again, (self._pool.__reduce__()[1], name, key, value)

    def __repr__(self):
        return f"<farwood.OrderedMap {self.url}{' closed' if self.closed else ''}>"


def _open_again(pool, name, key, value):
    from ._pool import _reopen

    return _reopen(*pool).ordered(name, key, value, create=False)
