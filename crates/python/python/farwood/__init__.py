"""Farwood: sorted maps and spatial indexes that processes share.

The data is in shared memory (``shm://NAME``) or on memory nodes (``tcp://HOST:PORT``). Every process opens it by name
and reads and changes it directly: there is no server process for a map in shared memory.

>>> import farwood
>>> pool = farwood.create("shm://docs-quick-start", "64 MiB")
>>> words = pool.ordered("words", key=str, value=int)
>>> words["bee"] = 2
>>> words.update(ant=1, cat=3)
>>> words["bee"], "dog" in words, list(words.irange("b", "c"))
(2, False, ['bee'])
>>> words.incr("ant")
2
>>> pool.close()
>>> farwood.remove("shm://docs-quick-start")
"""

from ._farwood import __version__
from ._ordered import ItemsView, KeysView, OrderedMap, ValuesView
from ._pool import Pool, create, open, remove, restore, save
from ._spatial import SpatialIndex
from .errors import (
    Busy,
    Damaged,
    Error,
    Exists,
    ForkedError,
    InvalidArgument,
    NoSuchIndex,
    NotFound,
    PermissionDenied,
    PoolFull,
    ReadOnly,
    Revoked,
    SystemFailure,
    Timeout,
    TypeMismatch,
    Unreachable,
    Unsupported,
)

__all__ = [
    "Busy",
    "Damaged",
    "Error",
    "Exists",
    "ForkedError",
    "InvalidArgument",
    "ItemsView",
    "KeysView",
    "NoSuchIndex",
    "NotFound",
    "OrderedMap",
    "PermissionDenied",
    "Pool",
    "PoolFull",
    "ReadOnly",
    "Revoked",
    "SpatialIndex",
    "SystemFailure",
    "Timeout",
    "TypeMismatch",
    "Unreachable",
    "Unsupported",
    "ValuesView",
    "__version__",
    "create",
    "open",
    "remove",
    "restore",
    "save",
]
