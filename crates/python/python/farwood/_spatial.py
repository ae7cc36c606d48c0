"""Spatial indexes: the interface of Shapely's ``STRtree`` and of GeoPandas' ``sindex``."""

import operator

import numpy as np

from . import _farwood

_PREDICATES = (
    "contains",
    "contains_properly",
    "covered_by",
    "covers",
    "crosses",
    "intersects",
    "overlaps",
    "touches",
    "within",
)


def _numbers(given):
    """The array of one or several rectangles or points that are given as numbers; ``None``: they are geometries."""
    if isinstance(given, (tuple, list)) and len(given) in (2, 4) and all(isinstance(one, (int, float)) for one in given):
        return np.asarray(given, np.float64)
    if isinstance(given, np.ndarray) and given.dtype != object:
        return np.asarray(given, np.float64)
    return None


def _boxes(given):
    """An array of rectangles with 4 columns, and whether one rectangle was given. A point is a rectangle of no size."""
    numbers = _numbers(given)
    if numbers is None:
        bounds = _bounds(given)
    elif numbers.ndim in (1, 2) and numbers.shape[-1] in (2, 4):
        bounds = np.tile(numbers, 2) if numbers.shape[-1] == 2 else numbers
    else:
        raise ValueError(
            f"an array of the shape {numbers.shape} has no rectangles; give (min x, min y, max x, max y) or points (x, "
            "y), or an array with 4 or 2 columns"
        )
    return np.atleast_2d(bounds), bounds.ndim == 1


def _bounds(given):
    """The bounds of one or several geometries."""
    shapely, geometries = _shapely(), _objects(given)
    if not (shapely.is_geometry(geometries) | shapely.is_missing(geometries)).all():
        raise TypeError(
            f"{given!r} is not a rectangle; give (min x, min y, max x, max y), a point (x, y), an array of them, or "
            "geometries"
        )
    return shapely.bounds(geometries)


def _objects(given):
    """The geometries of a GeoDataFrame, a GeoSeries, an array or a list."""
    given = getattr(given, "geometry", given) if hasattr(given, "columns") else given
    return np.asarray(getattr(given, "values", given), dtype=object)


def _as_geometries(given, boxes):
    """The geometries of a query: those that were given, or its rectangles and points as geometries."""
    if _numbers(given) is None:
        return _objects(given).reshape(-1)
    are_points = (boxes[:, :2] == boxes[:, 2:]).all(axis=1)
    return np.where(are_points, _shapely().points(boxes[:, :2]), _shapely().box(*boxes.T))


def _ids(given):
    """An array of ids. Numbers that are no integers are refused."""
    if isinstance(given, np.ndarray):
        if given.dtype.kind not in "iu" and given.size > 0:
            raise TypeError(f"ids are integers, not {given.dtype}")
        return given.astype(np.int64)
    return np.fromiter(map(operator.index, given), np.int64)


def _shapely():
    try:
        import shapely
    except ImportError:
        raise ImportError("geometries need Shapely: pip install shapely; or give rectangles") from None
    return shapely


class SpatialIndex(_farwood.Spatial):
    """A spatial index of rectangles that processes share. :meth:`farwood.Pool.spatial` opens it.

    It has the methods of ``shapely.STRtree`` and of ``GeoDataFrame.sindex``, and rectangles can be added, moved and
    removed while other processes search. Every rectangle has an id, an integer from 0 on, which results contain instead
    of positions. The index stores rectangles only: for an exact predicate, give the geometries of the ids.

    >>> import farwood
    >>> pool = farwood.create("shm://docs-spatial", "64 MiB")
    >>> places = pool.spatial("places")
    >>> places.insert(7, (2.3, 48.8, 2.4, 48.9))
    >>> places.query((2, 48, 3, 49)).tolist()
    [7]
    >>> places.remove(7, (2.3, 48.8, 2.4, 48.9))
    True
    >>> pool.close(); farwood.remove("shm://docs-spatial")
    """

    @classmethod
    def _open(cls, pool, name, create):
        index = cls.__new__(cls, pool._pool.open_spatial(name, create))
        index._arguments, index._pool, index._geometries, index._owns_pool = (name,), pool, None, False
        return index

    def close(self):
        """Close the index in this process. May be called twice."""
        super().close()
        if self._owns_pool:
            # The pool closes its indexes.
            self._owns_pool = False
            self._pool.close()

    def with_geometries(self, geometries):
        """Set the geometries of the ids (a sequence by id), for exact predicates and distances; return the index."""
        self._geometries = _objects(geometries)
        return self

    def _geometries_of(self, ids):
        if self._geometries is None:
            raise ValueError("a predicate needs the geometries of the ids: call with_geometries first")
        if len(ids) and ids.max() >= len(self._geometries):
            raise ValueError(
                f"the id {ids.max()} has no geometry: with_geometries was called with {len(self._geometries)}, and the "
                "index has changed since; call it again"
            )
        return self._geometries[ids]

    @property
    def valid_query_predicates(self):
        """The predicates of :meth:`query`."""
        return {None, "dwithin", *_PREDICATES}

    # Changes

    def insert(self, id, box):
        """Add a rectangle ``(min x, min y, max x, max y)``, or the bounds of a geometry."""
        self._insert_boxes(_ids([id]), _boxes(box)[0])

    def insert_many(self, ids, boxes):
        """Add rectangles: an array of ids, and an array with 4 columns or geometries."""
        self._insert_boxes(_ids(ids), _boxes(boxes)[0])

    def remove(self, id, box):
        """Remove a rectangle; return whether it was present."""
        return bool(self._remove_boxes(_ids([id]), _boxes(box)[0])[0])

    def remove_many(self, ids, boxes):
        """Remove rectangles; return an array that is true where one was present."""
        return self._remove_boxes(_ids(ids), _boxes(boxes)[0])

    def move(self, id, old, new):
        """Move a rectangle from ``old`` to ``new`` in one step; return whether it was present."""
        return self._move_box(operator.index(id), _boxes(old)[0][0].tolist(), _boxes(new)[0][0].tolist())

    def load(self, boxes, ids=None, *, fill=0.9):
        """Load rectangles or geometries into the empty index; ids are their positions unless they are given.

        Geometries come from a GeoSeries, a GeoDataFrame's ``geometry`` or an array, so every file that GeoPandas reads
        can be loaded: ``index.load(geopandas.read_parquet("roads.parquet").geometry)``.
        """
        array, _ = _boxes(boxes)
        ids = np.arange(len(array), dtype=np.int64) if ids is None else _ids(ids)
        present = ~np.isnan(array).any(axis=1)
        if not present.all():
            # Missing and empty geometries have no bounds; no query finds them.
            array, ids = array[present], ids[present]
        self._load_boxes(ids, np.ascontiguousarray(array), fill)
        return self

    # Queries

    def query(self, geometry, predicate=None, distance=None, sort=False, output_format="indices"):
        """The ids whose rectangles intersect those of a geometry or rectangle; for an array, ``[positions, ids]``.

        With a predicate, the geometries that :meth:`with_geometries` has set are tested exactly by Shapely:
        ``query(polygon, "contains")`` has the geometries that the polygon contains.
        """
        if output_format != "indices":
            raise ValueError(f"output_format={output_format!r}: give 'indices'")
        boxes, is_one = _boxes(geometry)
        if predicate == "dwithin":
            if distance is None:
                raise ValueError("the predicate dwithin needs a distance")
            boxes = boxes + np.array([-1, -1, 1, 1]) * np.reshape(distance, (-1, 1))
        elif predicate is not None and predicate not in _PREDICATES:
            raise ValueError(f"predicate={predicate!r}: give one of {', '.join(_PREDICATES)}, dwithin or None")
        present = ~np.isnan(boxes).any(axis=1)
        if present.all():
            positions, ids = self._query_boxes(np.ascontiguousarray(boxes))
        else:
            positions, ids = self._query_boxes(np.ascontiguousarray(boxes[present]))
            positions = np.flatnonzero(present)[positions]
        if predicate is not None:
            keep = self._holds(_as_geometries(geometry, boxes), positions, ids, predicate, distance)
            positions, ids = positions[keep], ids[keep]
        if sort:
            order = np.lexsort((ids, positions))
            positions, ids = positions[order], ids[order]
        return ids if is_one else np.stack((positions, ids))

    def _holds(self, asked, positions, ids, predicate, distance):
        shapely = _shapely()
        right = self._geometries_of(ids)
        if predicate == "dwithin":
            distance = distance if np.ndim(distance) == 0 else np.asarray(distance)[positions]
            return shapely.dwithin(asked[positions], right, distance)
        shapely.prepare(asked)
        return getattr(shapely, predicate)(asked[positions], right)

    def has_exactly(self, boxes):
        """Whether the index has exactly these rectangles or bounds of geometries, with their positions as ids.

        Reads the whole index.
        """
        array, _ = _boxes(boxes)
        expected = np.flatnonzero(~np.isnan(array).any(axis=1))
        most = np.finfo(np.float64).max
        ids, bounds = self._items_in((-most, -most, most, most))
        order = np.argsort(ids, kind="stable")
        return np.array_equal(ids[order], expected) and np.array_equal(bounds.reshape(-1, 4)[order], array[expected])

    def intersection(self, coordinates):
        """The ids whose rectangles intersect ``(min x, min y, max x, max y)``."""
        return self.query(tuple(coordinates))

    def query_nearest(self, geometry, max_distance=None, return_distance=False, exclusive=False, all_matches=True):
        """The ids nearest to a geometry, with ties: ids for one geometry, ``[positions, ids]`` for an array.

        Distances are those of the geometries that :meth:`with_geometries` has set; otherwise those of the rectangles,
        for points only.
        """
        boxes, is_one = _boxes(geometry)
        asked = [None] * len(boxes) if self._geometries is None else _as_geometries(geometry, boxes)
        found = [
            self._nearest_of(box, one, max_distance, exclusive, all_matches) for box, one in zip(boxes, asked)
        ]
        positions = np.repeat(np.arange(len(found)), [len(ids) for ids, _ in found])
        ids = np.concatenate([ids for ids, _ in found]) if found else np.array([], np.int64)
        result = ids if is_one else np.stack((positions, ids))
        if return_distance:
            return result, np.concatenate([distances for _, distances in found])
        return result

    def _nearest_of(self, box, geometry, max_distance, exclusive, all_matches):
        """The nearest ids of one geometry, and their distances: candidates by rectangle until none can be nearer."""
        if np.isnan(box).any():
            return np.array([], np.int64), np.array([])
        centre = np.array([[(box[0] + box[2]) / 2, (box[1] + box[3]) / 2]])
        if geometry is None and (box[0] != box[2] or box[1] != box[3]):
            raise ValueError("the nearest of a geometry needs the geometries of the ids: call with_geometries first")
        # No point of the geometry is farther from the centre of its bounds.
        reach = np.hypot(box[2] - box[0], box[3] - box[1]) / 2
        count = 8
        while True:
            _, ids, bounds = self._nearest_to(centre, count)
            is_all = len(ids) < count
            distances = bounds if geometry is None else _shapely().distance(geometry, self._geometries_of(ids))
            keep = np.ones(len(ids), bool)
            if exclusive and geometry is not None:
                keep = ~_shapely().equals(geometry, self._geometries_of(ids))
            best = distances[keep].min() if keep.any() else np.inf
            # An id that was not returned is at least this far from the geometry.
            if is_all or bounds[-1] - reach > best:
                break
            count *= 4
        limit = best if max_distance is None else min(best, max_distance)
        keep &= (distances <= limit) & (distances == best)
        order = np.argsort(ids[keep])
        ids, distances = ids[keep][order], distances[keep][order]
        return (ids, distances) if all_matches else (ids[:1], distances[:1])

    def nearest(self, geometry, return_all=True, max_distance=None, return_distance=False, exclusive=False):
        """As ``GeoDataFrame.sindex.nearest``: ``[positions, ids]`` of the nearest geometries."""
        geometry = geometry if np.ndim(geometry) or hasattr(geometry, "values") else np.array([geometry], object)
        return self.query_nearest(geometry, max_distance, return_distance, exclusive, return_all)

    @property
    def size(self):
        """The number of rectangles. It is counted by reading all leaves."""
        return self._count_all()

    @property
    def is_empty(self):
        """Whether the index has no rectangle."""
        return self._is_empty_now()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __reduce__(self):
        return _open_again, (self._pool.__reduce__()[1], *self._arguments)

    def __repr__(self):
        return f"<farwood.SpatialIndex {self.url}{' closed' if self.closed else ''}>"


def _open_again(pool, name):
    from ._pool import _reopen

    return _reopen(*pool).spatial(name, create=False)
