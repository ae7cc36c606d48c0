"""Pools: creating, opening and removing them."""

import os
import re
import time
import warnings
import weakref

from . import _farwood
from ._ordered import OrderedMap
from ._spatial import SpatialIndex
from ._types import Column
from .errors import Busy, Exists, InvalidArgument

#: The longest time in seconds that a process waits for another one that creates the same pool.
_CREATION_MAX = 30

#: Values of longer dtypes are stored outside the nodes of a btree: a node of 1 KiB holds at least four entries.
_NODE_VALUE_MAX = 192

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def _size(given):
    """The bytes of a size such as ``"2 GiB"``.

    >>> _size("64 MiB"), _size(1000)
    (67108864, 1000)
    """
    if isinstance(given, int):
        return given
    if not isinstance(given, str):
        raise TypeError(f"{given!r} is not a size; give bytes, or a text such as '64 MiB' or '2 GiB'")
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", given)
    if match is None or match[2].upper() not in _UNITS:
        raise ValueError(f"{given!r} is not a size; give bytes, or a text such as '64 MiB' or '2 GiB'")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def _names(given):
    """The names of indexes: one, or several; ``None`` means all, which the extension writes as no names."""
    if given is None:
        return []
    names = [given] if isinstance(given, str) else list(given)
    if not names:
        raise InvalidArgument("indexes is empty; give names, or None for all indexes")
    return names


def create(url, memory="1 GiB", *, nodes=1, reserve=False):
    """Create a pool in shared memory, and open it.

    ``memory`` is the most that the pool uses until :meth:`Pool.grow`, in bytes or as ``"2 GiB"``; it is taken when it is
    used, or at once with ``reserve=True``. ``nodes`` divides it among several memory nodes. A pool over TCP is created
    by starting its memory nodes (``farwood serve``).
    """
    _farwood.create_pool(url, _size(memory), nodes, reserve)
    return Pool(url)


def open(url, *, create=False, memory="1 GiB", read_only=False):
    """Open a pool. With ``create=True``, create it in shared memory if it does not exist.

    With ``read_only=True``, the permission to read the files of the pool is enough, or the token for reading. Calls
    that change something then raise :class:`ReadOnly`, and other processes do not see this one.

    The URL is ``shm://NAME`` or ``tcp://HOST:PORT,HOST:PORT``; credentials are parameters, as in
    ``tcp://10.0.0.7:7470?token-file=/run/farwood/token``.
    """
    if create and read_only:
        raise InvalidArgument("create=True and read_only=True contradict each other; omit one of them")
    if create:
        _create_absent(url, _size(memory))
    return Pool(url, read_only=read_only)


def _create_absent(url, memory):
    """Create a pool unless it exists. If another process is creating it, wait for that process."""
    begun = time.monotonic()
    while True:
        try:
            return _farwood.create_pool(url, memory, 1, False)
        except Exists:
            return None
        except Busy:
            if time.monotonic() - begun > _CREATION_MAX:
                raise
            time.sleep(0.01)


def remove(url, *, force=False):
    """Remove a pool in shared memory. Raises :class:`Busy` if a process has it open, unless ``force`` is true."""
    _farwood.remove_pool(url, force)


def save(url, path, *, progress=None):
    """Write the memory of a pool in shared memory to a file, for a reboot. Returns the bytes of memory.

    No process may use the pool: close it first. :func:`restore` creates the pool again. The file has checksums, and
    replaces one of that name when it is complete and on the disk. ``progress`` is called with numbers of bytes.
    """
    return _farwood.save(url, os.fspath(path), progress)


def restore(path, url, *, progress=None):
    """Create a pool in shared memory from a file that :func:`save` or ``farwood save`` has written, and open it."""
    _farwood.restore_pool(os.fspath(path), url, progress)
    return Pool(url)


def _reopen(url, read_only):
    """A pickled pool."""
    return Pool(url, read_only=read_only)


class Pool:
    """An attachment of this process to a pool. Use it as a context manager, or call :meth:`close`.

    Any number of threads may use a pool and its indexes. A forked child may use what it inherited: the first call opens
    the pool again. A pickled pool is opened again by its URL.
    """

    def __init__(self, url, *, read_only=False):
        self._pool = _farwood.open_pool(url, read_only)
        self._handles = weakref.WeakSet()

    @property
    def url(self):
        """The URL of the pool."""
        return self._pool.url

    @property
    def read_only(self):
        """Whether the pool was opened with ``read_only=True``."""
        return self._pool.read_only

    @property
    def closed(self):
        """Whether :meth:`close` was called."""
        return self._pool.closed

    def ordered(
        self,
        name,
        key=str,
        value=bytes,
        *,
        create=True,
        structure=None,
        key_bytes=None,
        value_bytes=None,
        cache_bytes=None,
    ):
        """Open an ordered index, and create it if it does not exist (unless ``create`` is false).

        ``key`` is ``str``, ``bytes``, ``int``, ``"uint"``, ``float`` or ``datetime``; ``value`` is one of these,
        ``bool``, ``"json"`` or a NumPy dtype. ``structure`` is ``"btree"`` (keys of one length: the default for numbers
        and dates), ``"radix"`` (keys of any length: the default for ``str`` and ``bytes``) or ``"hashed"`` (as radix,
        with a small filter instead of a cache). ``key_bytes`` and ``value_bytes`` set lengths of a btree.
        ``cache_bytes`` is the cache of this process.
        """
        keys, values = Column(key), Column(value)
        if keys.dtype is not None or keys.stored == "bool" or keys.given in ("json", dict):
            raise TypeError(f"{key!r} is no type of keys; give str, bytes, int, 'uint', float or datetime")
        if structure is None:
            structure = "btree" if keys.has_one_length or key_bytes is not None else "radix"
        if structure == "btree":
            if value_bytes is None and values.dtype is not None and values.dtype.itemsize <= _NODE_VALUE_MAX:
                value_bytes = values.dtype.itemsize
        index = OrderedMap._open(
            self, name, keys, values, structure, key_bytes, value_bytes, cache_bytes, create
        )
        self._handles.add(index)
        return index

    def spatial(self, name, *, create=True):
        """Open a spatial index, and create it if it does not exist (unless ``create`` is false)."""
        index = SpatialIndex._open(self, name, create)
        self._handles.add(index)
        return index

    def indexes(self):
        """The names of the indexes of the pool."""
        return self._pool.indexes()

    def grow(self, memory):
        """Give each memory node ``memory``, in bytes or as ``"2 GiB"``: a multiple of 8 MiB, at most 16 times the size with
        which ``farwood.create`` made the pool. Processes that use the pool take the new memory when they need it."""
        self._pool.grow_memory(_size(memory))

    def drop(self, name):
        """Drop an index, and free its memory. Raises :class:`Busy` if a process has it open: close it before."""
        self._pool.drop_index(name)

    def dump(self, path, *, indexes=None, consistent=False, progress=None):
        """Write indexes with their options to a file: all, or those of the names ``indexes``.

        Other processes may change the indexes meanwhile. Each is then in the file as its scans promise, a spatial index
        as it was at one moment. With ``consistent=True``, all indexes of a pool over TCP are in the file as they were at
        one cut: if the file has a change, it has all that its writer had read or written in the pool before. The memory
        nodes copy the pages that change meanwhile. The file has checksums, and replaces one of that name when it is
        complete and on the disk. Returns the number of entries of each index. ``progress`` is called with numbers of
        entries, as ``tqdm.update``.
        """
        return dict(_farwood.dump(self._pool, os.fspath(path), _names(indexes), bool(consistent), progress))

    def restore(
        self,
        path,
        *,
        indexes=None,
        rename=None,
        structure=None,
        key_bytes=None,
        value_bytes=None,
        progress=None,
    ):
        """Create indexes from a file that :meth:`dump` or ``farwood dump`` has written: all, or those named.

        ``rename`` is a dict from names in the file to names in the pool. ``structure`` and the lengths are as in
        :meth:`ordered`, and apply to ordered indexes; without them, each index gets the options that it had. An index is
        never replaced, and after an error the pool has none of the indexes. Returns the number of entries of each.
        """
        renamed = list((rename or {}).items())
        return dict(
            _farwood.restore(
                self._pool,
                os.fspath(path),
                _names(indexes),
                renamed,
                structure,
                key_bytes,
                value_bytes,
                progress,
            )
        )

    def close(self):
        """Close the indexes that were opened through this object, and detach from the pool. May be called twice."""
        for handle in list(self._handles):
            handle.close()
        self._pool.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __del__(self):
        pool = getattr(self, "_pool", None)
        if pool is not None and not pool.closed and not self._handles:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self, stacklevel=2)

    def __reduce__(self):
        return _reopen, (self.url, self.read_only)

    def __repr__(self):
        return f"<farwood.Pool {self.url}{' closed' if self.closed else ''}>"
