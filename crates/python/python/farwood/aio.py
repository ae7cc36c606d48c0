"""Ordered maps for ``asyncio``: the same calls as coroutines.

Each call runs in a thread of an executor, so that the event loop continues while it waits.

>>> import asyncio, farwood, farwood.aio
>>> async def main():
...     pool = farwood.create("shm://docs-aio", "64 MiB")
...     words = farwood.aio.AsyncMap(pool.ordered("words", key=str, value=int))
...     await words.put("bee", 2)
...     print(await words.get("bee"), [key async for key in words.irange()])
...     pool.close()
...     farwood.remove("shm://docs-aio")
>>> asyncio.run(main())
2 ['bee']
"""

import asyncio
import functools
from itertools import islice

_CALLS = (
    "get put insert replace discard swap take pop popitem peekitem setdefault incr compare_exchange count get_many "
    "put_many delete_many load_sorted"
).split()
_PAGE = 512


class AsyncMap:
    """A map whose methods are coroutines, and whose scans are asynchronous iterators."""

    def __init__(self, map, executor=None):
        self.map = map
        self._executor = executor

    def __getattr__(self, name):
        if name not in _CALLS:
            raise AttributeError(name)
        call = getattr(self.map, name)

        @functools.wraps(call)
        async def run(*arguments, **options):
            return await self._run(functools.partial(call, *arguments, **options))

        return run

    async def _run(self, call):
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    async def _scan(self, scan):
        while page := await self._run(lambda: list(islice(scan, _PAGE))):
            for entry in page:
                yield entry

    def irange(self, *range, **options):
        """As :meth:`farwood.OrderedMap.irange`."""
        return self._scan(self.map.irange(*range, **options))

    def items(self, *range, **options):
        """As :meth:`farwood.OrderedMap.items` of a range."""
        return self._scan(iter(self.map.items(*range, **options)))

    def values(self, *range, **options):
        """As :meth:`farwood.OrderedMap.values` of a range."""
        return self._scan(iter(self.map.values(*range, **options)))
