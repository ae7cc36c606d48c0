"""A shared spatial index of a GeoDataFrame, in one line.

``index = farwood.geopandas.sindex(roads, "shm://gis/roads")`` loads the bounds of the geometries once; every process
that calls it with the same data gets the same index, and no process has a copy of the tree.
"""

import time

from ._pool import open as _open
from .errors import Busy, Exists, InvalidArgument

#: The longest time in seconds that a process waits for another one that loads the index.
_LOAD_MAX = 600


def sindex(frame, url, *, memory="1 GiB", reload=False):
    """Open the spatial index at ``shm://POOL/INDEX`` or ``tcp://…/INDEX``; load the geometries if it is empty.

    ``frame`` is a GeoDataFrame or GeoSeries. Ids are positions in it, as those of ``frame.sindex``. The pool is created
    in shared memory if it does not exist. An index of other geometries is refused; with ``reload=True`` it is dropped
    and loaded again, if no process has it open. The comparison reads the index once, which is much faster than loading.
    """
    place, slash, name = url.rpartition("/")
    if not slash or place.endswith("/") or not name:
        raise ValueError(f"{url!r} does not name an index; give a URL such as 'shm://gis/roads'")
    pool = _open(place, create=place.startswith("shm://"), memory=memory)
    geometries = getattr(frame, "geometry", frame)
    try:
        return _opened(pool, name, geometries, reload).with_geometries(geometries)
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
    index.close()
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
