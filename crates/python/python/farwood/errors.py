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
