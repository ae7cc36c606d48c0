from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, overload

import numpy.typing as npt

from ._ordered import OrderedMap
from ._spatial import SpatialIndex

_KeyName = Literal["str", "bytes", "int", "uint", "float", "datetime"]
_ValueName = Literal["str", "bytes", "int", "uint", "float", "bool", "datetime", "json"]
_Structure = Literal["btree", "radix", "hashed"]
_K = TypeVar("_K", str, bytes, int, float, datetime)
_V = TypeVar("_V", str, bytes, int, float, bool, datetime)

def create(url: str, memory: int | str = ..., *, nodes: int = ..., reserve: bool = ...) -> Pool: ...
def open(
    url: str, *, create: bool = ..., memory: int | str = ..., read_only: bool = ...
) -> Pool: ...
def remove(url: str, *, force: bool = ...) -> None: ...

def save(url: str, path: str | PathLike[str], *, progress: Callable[[int], object] | None = ...) -> int: ...
def restore(path: str | PathLike[str], url: str, *, progress: Callable[[int], object] | None = ...) -> Pool: ...

class Pool:
    def __init__(self, url: str, *, read_only: bool = ...) -> None: ...
    @property
    def url(self) -> str: ...
    @property
    def read_only(self) -> bool: ...
    @property
    def closed(self) -> bool: ...
    @overload
    def ordered(
        self,
        name: str,
        key: type[_K],
        value: type[_V],
        *,
        create: bool = ...,
        structure: _Structure | None = ...,
        key_bytes: int | None = ...,
        value_bytes: int | None = ...,
        cache_bytes: int | None = ...,
    ) -> OrderedMap[_K, _V]: ...
    @overload
    def ordered(
        self,
        name: str,
        key: type[Any] | _KeyName = ...,
        value: type[Any] | _ValueName | npt.DTypeLike = ...,
        *,
        create: bool = ...,
        structure: _Structure | None = ...,
        key_bytes: int | None = ...,
        value_bytes: int | None = ...,
        cache_bytes: int | None = ...,
    ) -> OrderedMap[Any, Any]: ...
    def spatial(self, name: str, *, create: bool = ...) -> SpatialIndex: ...
    def indexes(self) -> list[str]: ...
    def grow(self, memory: int | str) -> None: ...
    def drop(self, name: str) -> None: ...
    def dump(
        self,
        path: str | PathLike[str],
        *,
        indexes: str | Iterable[str] | None = ...,
        consistent: bool = ...,
        progress: Callable[[int], object] | None = ...,
    ) -> dict[str, int]: ...
    def restore(
        self,
        path: str | PathLike[str],
        *,
        indexes: str | Iterable[str] | None = ...,
        rename: Mapping[str, str] | None = ...,
        structure: _Structure | None = ...,
        key_bytes: int | None = ...,
        value_bytes: int | None = ...,
        progress: Callable[[int], object] | None = ...,
    ) -> dict[str, int]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
