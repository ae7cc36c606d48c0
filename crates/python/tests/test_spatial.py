"""Spatial indexes against Shapely's STRtree and GeoPandas' sindex."""

import numpy as np
import pytest

import farwood

shapely = pytest.importorskip("shapely")
RNG = np.random.default_rng(7)


def boxes(count, size=0.02):
    corner = RNG.random((count, 2))
    return np.hstack((corner, corner + RNG.random((count, 2)) * size))


def test_live_changes(pool):
    places = pool.spatial("places")
    assert places.is_empty
    places.insert(3, (0, 0, 1, 1))
    places.insert(4, shapely.Point(5, 5))
    places.insert_many([5, 6], np.array([[0.5, 0.5, 2, 2], [9, 9, 9, 9]]))
    assert sorted(places.query((0, 0, 1, 1))) == [3, 5] and places.size == 4
    assert places.move(3, (0, 0, 1, 1), (7, 7, 8, 8)) and not places.move(3, (0, 0, 1, 1), (7, 7, 8, 8))
    assert places.query((0, 0, 0.1, 0.1)).tolist() == [] and places.query((7, 7, 7, 7)).tolist() == [3]
    assert places.remove(4, shapely.Point(5, 5)) and not places.remove(4, shapely.Point(5, 5))
    assert places.remove_many([5, 99], np.array([[0.5, 0.5, 2, 2], [0, 0, 1, 1]])).tolist() == [True, False]
    for wrong in [(1, 0, 0, 1), (float("nan"), 0, 1, 1)]:
        with pytest.raises(ValueError):
            places.insert(1, wrong)
    with pytest.raises(ValueError):
        places.insert(-1, (0, 0, 1, 1))
    for wrong in [1.5, "5"]:
        with pytest.raises(TypeError):
            places.insert(wrong, (0, 0, 1, 1))
    with pytest.raises(TypeError):
        places.insert_many(np.array([1.7]), np.array([[0, 0, 1, 1]]))


def test_queries_are_those_of_strtree(pool):
    geometries = shapely.points(RNG.random((5000, 2))).tolist()
    geometries[:3000] = shapely.buffer(np.array(geometries[:3000]), RNG.random(3000) * 0.02)
    geometries = np.array(geometries)
    tree = shapely.STRtree(geometries)
    places = pool.spatial("places").load(geometries).with_geometries(geometries)
    windows = shapely.box(*boxes(2000, 0.05).T)
    for predicate in [None, "intersects", "contains", "covers", "within", "touches", "overlaps", "crosses"]:
        found, expected = places.query(windows, predicate, sort=True), tree.query(windows, predicate)
        expected = expected[:, np.lexsort((expected[1], expected[0]))]
        assert (found == expected).all(), predicate
        assert sorted(places.query(windows[0], predicate)) == sorted(tree.query(windows[0], predicate))
    expected = tree.query(windows, "dwithin", 0.01)
    assert (places.query(windows, "dwithin", 0.01, sort=True) == expected[:, np.lexsort(expected[::-1])]).all()
    found, distances = places.query_nearest(windows[:300], return_distance=True)
    expected, expected_distances = tree.query_nearest(windows[:300], return_distance=True)
    assert set(map(tuple, found.T)) == set(map(tuple, expected.T))
    assert np.allclose(np.sort(distances), np.sort(expected_distances))
    assert places.query_nearest(windows[0], max_distance=1e-12).tolist() == sorted(
        tree.query_nearest(windows[0], max_distance=1e-12).tolist()
    )
    with pytest.raises(ValueError, match="predicate"):
        places.query(windows, "nonsense")
    with pytest.raises(ValueError, match="with_geometries"):
        pool.spatial("other").query(windows, "contains")


def test_many_queries_have_the_order_of_the_queries(pool):
    rectangles, windows = boxes(3000), boxes(150_000, 0.01)
    found = pool.spatial("places").load(rectangles).query(windows)
    expected = shapely.STRtree(shapely.box(*rectangles.T)).query(shapely.box(*windows.T))
    assert (np.diff(found[0]) >= 0).all()
    assert sorted(map(tuple, found.T.tolist())) == sorted(map(tuple, expected.T.tolist()))
    same = np.repeat(windows[:1], 1000, axis=0)
    assert pool.spatial("places").query(same).shape[1] % 1000 == 0


def test_points_are_rectangles_of_no_size(pool):
    places = pool.spatial("places").load(np.array([[0.0, 0.0], [3.0, 4.0]]))
    assert places.query((3, 4)).tolist() == [1] and places.query((0, 0, 5, 5)).tolist() == [0, 1]
    assert places.query_nearest((0.1, 0.1)).tolist() == [0]
    found, distances = places.query_nearest(np.array([[3.0, 5.0], [0.0, 1.0]]), return_distance=True)
    assert found.tolist() == [[0, 1], [1, 0]] and distances.tolist() == [1, 1]
    with pytest.raises(ValueError, match="4 or 2 columns"):
        places.query(np.zeros((2, 3)))


def test_predicates_take_rectangles_and_points(pool):
    geometries = shapely.points(RNG.random((500, 2)))
    places = pool.spatial("places").load(geometries).with_geometries(geometries)
    window, windows = (0.2, 0.2, 0.5, 0.6), boxes(50, 0.2)
    expected = places.query(shapely.box(*window), "contains", sort=True)
    assert len(expected) and (places.query(window, "contains", sort=True) == expected).all()
    expected = places.query(shapely.box(*windows.T), "contains", sort=True)
    assert (places.query(windows, "contains", sort=True) == expected).all()
    assert (places.query_nearest((0.2, 0.8)) == places.query_nearest(shapely.Point(0.2, 0.8))).all()
    assert "dwithin" in places.valid_query_predicates
    places.insert(9999, (0.3, 0.3))
    with pytest.raises(ValueError, match="9999 has no geometry"):
        places.query(window, "contains")
    for wrong in ["x", (0, 0, 1), None, ["a"]]:
        with pytest.raises((TypeError, ValueError)):
            places.query(wrong, "contains") if wrong is not None else places.insert(1, "x")


def test_a_frame_is_its_geometries(pool):
    geopandas = pytest.importorskip("geopandas")
    frame = geopandas.GeoDataFrame({"name": ["a", "b"]}, geometry=[shapely.Point(0, 0), shapely.Point(1, 1)])
    assert pool.spatial("places").load(frame).query((1, 1)).tolist() == [1]


def test_reload_closes_the_indexes_of_this_process(url):
    geopandas = pytest.importorskip("geopandas")
    import farwood.geopandas

    old = geopandas.GeoSeries(shapely.points(RNG.random((50, 2))))
    new = geopandas.GeoSeries(shapely.points(RNG.random((60, 2))))
    index = farwood.geopandas.sindex(old, url + "/places")
    index = farwood.geopandas.sindex(new, url + "/places", reload=True)
    assert index.size == 60
    index.close()
    assert index._pool.closed


def test_missing_and_empty_geometries_are_not_found(pool):
    geometries = [shapely.Point(0, 0), None, shapely.Point(), shapely.Point(1, 1)]
    places = pool.spatial("places").load(np.array(geometries, object))
    assert places.size == 2
    assert places.query(np.array([shapely.box(-1, -1, 2, 2), None], object), sort=True).tolist() == [[0, 0], [0, 3]]


def test_geopandas_in_one_line(url):
    geopandas = pytest.importorskip("geopandas")
    import farwood.geopandas

    frame = geopandas.GeoDataFrame(geometry=geopandas.points_from_xy(*RNG.random((2, 500))))
    index = farwood.geopandas.sindex(frame, url + "/points")
    again = farwood.geopandas.sindex(frame, url + "/points")
    window = shapely.box(0.2, 0.2, 0.5, 0.5)
    expected = sorted(frame.sindex.query(window, "contains"))
    assert sorted(index.query(window, "contains")) == sorted(again.query(window, "contains")) == expected
    found = index.nearest(frame.geometry[:50])
    assert (found == frame.sindex.nearest(frame.geometry[:50])).all()
    with pytest.raises(farwood.InvalidArgument, match="reload"):
        farwood.geopandas.sindex(frame.iloc[::-1], url + "/points")
    index._pool.close()
    again._pool.close()
    fresh = farwood.geopandas.sindex(frame.iloc[:100], url + "/points", reload=True)
    assert fresh.size == 100
    fresh._pool.close()
