"""Maps for asyncio."""

import asyncio

import numpy as np

from farwood.aio import AsyncMap


def test_calls_are_coroutines_and_scans_asynchronous_iterators(pool):
    async def main():
        words = AsyncMap(pool.ordered("words", key=str, value=int))
        await words.update({"bee": 2, "ant": 1}, cat=3)
        assert await words.get("bee") == 2 and await words.get("dog", 7) == 7
        assert await words.contains("ant") and not await words.contains("dog")
        assert [key async for key in words] == ["ant", "bee", "cat"]
        assert [entry async for entry in words.items("b", limit=1)] == [("bee", 2)]
        assert [value async for value in words.values(reverse=True)] == [3, 2, 1]
        assert [key async for key in words.keys(prefix="c")] == ["cat"]
        assert sum(await asyncio.gather(*(words.incr("sum") for _ in range(50)))) == sum(range(1, 51))
        await words.clear()
        assert await words.count() == 0

    asyncio.run(main())


def test_arrays_are_read_in_chunks(pool):
    async def main():
        numbers = AsyncMap(pool.ordered("numbers", key="uint", value="uint"))
        keys = np.arange(1000, dtype=np.uint64)
        assert await numbers.load_sorted(keys, keys) == 1000
        chunks = [keys async for keys, _ in numbers.scan_arrays(chunk=300)]
        assert [len(chunk) for chunk in chunks] == [300, 300, 300, 100] and (np.concatenate(chunks) == keys).all()

    asyncio.run(main())


def test_methods_have_names_and_docstrings():
    assert AsyncMap.peekitem.__name__ == "peekitem" and "greatest key" in AsyncMap.peekitem.__doc__
    assert all(getattr(AsyncMap, name).__doc__ for name in dir(AsyncMap) if not name.startswith("_"))
