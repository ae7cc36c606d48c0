"""A shared spatial index of a GeoDataFrame, in one line.

``index = farwood.geopandas.sindex(roads, "shm://gis/roads")`` loads the bounds of the geometries once; every process
that calls it with the same data gets the same index, and no process has a copy of the tree.
"""

from ._pool import open as _open


def sindex(frame, url, *, memory="1 GiB"):
    """Open the spatial index at ``shm://POOL/INDEX`` or ``tcp://…/INDEX``; load the geometries if it is empty.

    ``frame`` is a GeoDataFrame or GeoSeries. Ids are positions in it, as those of ``frame.sindex``. The pool is created
    in shared memory if it does not exist.
    """
    place, slash, name = url.rpartition("/")
    if not slash or place.endswith("/") or not name:
        raise ValueError(f"{url!r} does not name an index; give a URL such as 'shm://gis/roads'")
    pool = _open(place, create=place.startswith("shm://"), memory=memory)
    index = pool.spatial(name)
    geometries = getattr(frame, "geometry", frame)
    if index.is_empty:
        from .errors import Busy, Exists

        try:
            index.load(geometries)
        except (Busy, Exists):
            # Another process loads the same data: wait for it.
            import time

            while index.is_empty:
                time.sleep(0.05)
    return index.with_geometries(geometries)
