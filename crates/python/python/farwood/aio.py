"""Ordered maps for ``asyncio``: the same calls as coroutines.

Each call runs in a thread of an executor, so that the event loop continues while it waits.

>>> import asyncio, farwood, farwood.aio
>>> async def main():
...     pool = farwood.create("shm://docs-aio", "64 MiB")
...     words = farwood.aio.AsyncMap(pool.ordered("words", key=str, value=int))
...     await words.update({"bee": 2, "ant": 1})
...     print(await words.get("bee"), [key async for key in words])
...     pool.close()
...     farwood.remove("shm://docs-aio")
>>> asyncio.run(main())
2 ['ant', 'bee']
"""

import asyncio
import functools
from itertools import islice

from ._ordered import OrderedMap

_PAGE = 512
_END = object()


def _coroutine(name):
    """The method ``name`` of a map, as a coroutine."""
    call = getattr(OrderedMap, name)

    async def run(self, *arguments, **options):
        return await self._run(functools.partial(getattr(self.map, name), *arguments, **options))

    run.__name__, run.__qualname__, run.__doc__ = name, f"AsyncMap.{name}", call.__doc__
    return run


def _scan_of(name):
    """The iterator ``name`` of a map, as an asynchronous iterator that reads a page of entries at a time."""

    def run(self, *range, **options):
        return self._pages(lambda: iter(getattr(self.map, name)(*range, **options)))

    run.__name__, run.__qualname__ = name, f"AsyncMap.{name}"
    run.__doc__ = f"As :meth:`farwood.OrderedMap.{name}`, as an asynchronous iterator."
    return run


class AsyncMap:
    """A map whose methods are coroutines, and whose scans are asynchronous iterators.

    ``executor`` runs the calls; ``None``: the default executor of the event loop. The methods have the names and the
    arguments of :class:`farwood.OrderedMap`; ``contains`` stands for ``in``.
    """

    def __init__(self, map, executor=None):
        self.map = map
        self._executor = executor

    for _name in (
        "get put insert replace discard swap take pop popitem peekitem setdefault incr compare_exchange count clear "
        "update get_many put_many delete_many load_sorted"
    ).split():
        locals()[_name] = _coroutine(_name)
    for _name in ("irange", "keys", "values", "items"):
        locals()[_name] = _scan_of(_name)
    del _name

    async def contains(self, key):
        """Whether the map has the key."""
        return await self._run(lambda: key in self.map)

    async def scan_arrays(self, *range, **options):
        """As :meth:`farwood.OrderedMap.scan_arrays`, as an asynchronous iterator."""
        scan = self.map.scan_arrays(*range, **options)
        while (arrays := await self._run(lambda: next(scan, _END))) is not _END:
            yield arrays

    def __aiter__(self):
        return self.irange()

    async def _run(self, call):
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    async def _pages(self, begin):
        scan = await self._run(begin)
        while page := await self._run(lambda: list(islice(scan, _PAGE))):
            for entry in page:
                yield entry

    def __repr__(self):
        return f"<farwood.aio.AsyncMap of {self.map!r}>"
