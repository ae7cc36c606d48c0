"""A shared spatial index of a GeoDataFrame, in one line.

``index = farwood.geopandas.sindex(roads, "shm://gis/roads")`` loads the bounds of the geometries once; every process
that calls it with the same data gets the same index, and no process has a copy of the tree.
"""

import time
import weakref

from ._pool import open as _open
from .errors import Busy, Exists, InvalidArgument

#: The longest time in seconds that a process waits for another one that loads the index.
_LOAD_MAX = 600
#: The indexes that this module has opened in this process; ``reload`` closes those of the URL.
_opened_here = weakref.WeakSet()


def sindex(frame, url, *, memory="1 GiB", reload=False):
    """Open the spatial index at ``shm://POOL/INDEX`` or ``tcp://…/INDEX``; load the geometries if it is empty.

    ``frame`` is a GeoDataFrame or GeoSeries. Ids are positions in it, as those of ``frame.sindex``. The pool is created
    in shared memory if it does not exist. An index of other geometries is refused; with ``reload=True`` it is dropped
    and loaded again, if no other process has it open; indexes that this process has opened with ``sindex`` are closed.
    The comparison reads the index once, which is much faster than loading. Closing the index closes its pool.
    """
    place, slash, name = url.rpartition("/")
    if not slash or place.endswith("/") or not name:
        raise ValueError(f"{url!r} does not name an index; give a URL such as 'shm://gis/roads'")
    pool = _open(place, create=place.startswith("shm://"), memory=memory)
    geometries = getattr(frame, "geometry", frame)
    try:
        index = _opened(pool, name, geometries, reload).with_geometries(geometries)
        index._owns_pool = True
        _opened_here.add(index)
        return index
    except BaseException:
        pool.close()
        raise


def _opened(pool, name, geometries, reload):
    index = pool.spatial(name)
    _load_once(index, geometries)
    if index.has_exactly(geometries):
        return index
    if not reload:
        raise InvalidArgument(f"{index.url} holds other geometries; give reload=True, or another name")
    for other in [index, *(other for other in list(_opened_here) if other.url == index.url)]:
        other.close()
    pool.drop(name)
    index = pool.spatial(name)
    _load_once(index, geometries)
    return index


def _load_once(index, geometries):
    """Load an empty index. If another process loads it, wait for that process."""
    begun = time.monotonic()
    while index.is_empty:
        try:
            index.load(geometries)
            return
        except Exists:
            return
        except Busy:
            if time.monotonic() - begun > _LOAD_MAX:
                raise
            time.sleep(0.05)
