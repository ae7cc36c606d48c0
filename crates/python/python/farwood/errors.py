"""The exceptions of the package.

Every exception is an :class:`Error`; some are exceptions of Python, too, so that usual handlers catch them. The text
has the operation, the index, the cause and the remedy.
"""


class Error(Exception):
    """An error of a pool or an index."""


class NotFound(Error, KeyError):
    """The key does not exist."""


class NoSuchIndex(Error, LookupError):
    """The pool or the index does not exist."""


class Exists(Error):
    """The pool or the index exists already, or the index of a bulk load has entries."""


class PoolFull(Error, MemoryError):
    """The pool, its directory, its client table, the machine's memory or a file system is full."""


class Busy(Error):
    """Another client holds a lock or the index: repeat the call."""


class Unreachable(Error, ConnectionError):
    """A memory node or the server of an index does not answer, or was lost."""


class Timeout(Error, TimeoutError):
    """The time limit of the call has passed. The effect of a change is unknown."""


class Revoked(Error):
    """Another client considered this process crashed: open the pool again."""


class ForkedError(Error):
    """An iterator of the parent process was used in a forked child: create another one."""


class PermissionDenied(Error, PermissionError):
    """The operating system, a memory node or a server denies access."""


class ReadOnly(Error, PermissionError):
    """The call changes something, and the pool was opened with ``read_only=True``, or its token permits only reads."""


class TypeMismatch(Error, TypeError):
    """The index stores keys or values of other types."""


class InvalidArgument(Error, ValueError):
    """A name, a size, a URL, a key or a value is invalid."""


class Unsupported(Error, NotImplementedError):
    """The pool or the index has another format, or the fabric lacks what the call needs."""


class Damaged(Error):
    """The pool or the index is damaged or lost."""


class SystemFailure(Error, OSError):
    """The operating system refuses a call or a resource."""


#: The calls of this package, or the commands, for those that remedies of the library name.
_REMEDIES = {
    "SavedPool::accept_unclean": "python -m farwood save URL --accept-unclean",
    "Pool::open": "farwood.open",
    "Pool::open_read_only": "farwood.open(url, read_only=True)",
    "Pool::create": "farwood.create",
    "Pool::remove": "farwood.remove",
    "Pool::remove_by_force": "farwood.remove(url, force=True)",
    "Pool::drop_index": "pool.drop",
    "Pool::indexes": "pool.indexes",
    "Pool::create_index": "pool.ordered",
    "Pool::create_spatial": "pool.spatial",
    "Pool::sweep_clients": "farwood doctor --sweep",
    "Pool::stats": "farwood stat",
    "PoolOptions::memory_bytes": "memory",
    "PoolOptions::group": "farwood create --group",
    "PoolOptions::mode": "farwood create --mode",
    "NodeSpec::host_bytes": "farwood serve --memory",
    "Pool::grow_memory": "pool.grow",
    "MemoryNode::start": "farwood serve",
    "MemoryNode::stop": "farwood serve",
    "NodeFile": "farwood serve --file",
    "Registrant": "farwood serve --etcd",
    "Index::check": "farwood check",
    "Spatial::check": "farwood check",
    "Spatial::serve": "farwood serve",
    "ServeOptions::connections": "farwood serve --connections",
    "SearchMode::Reads": "farwood search",
    "Index::with_timeout": "KeyboardInterrupt",
    "doctor::examine": "farwood doctor",
    "backup::Dump": "pool.dump",
    "Dump::consistent": "consistent=True",
    "Restore": "pool.restore",
}


def of_library(name, text):
    """The exception of an error of the library, whose remedy names its calls."""
    for call, own in _REMEDIES.items():
        text = text.replace(f"`{call}`", f"`{own}`")
    return globals()[name](text)
