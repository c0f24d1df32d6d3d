"""Empty modules in the place of packages that a peer imports and that its work here does not use."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import ClassVar


class _Nothing(type):
    """A class whose attributes are such classes again."""

    def __getattr__(cls, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing(name, (), {})


class _Absent(ModuleType):
    """Whatever is asked of it is a class without anything in it."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing(name, (), {})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, packages: Sequence[str]) -> None:
        self._packages = frozenset(packages)

    def find_spec(self, name: str, _path: object, _target: object = None) -> importlib.machinery.ModuleSpec | None:
        """A spec for what stands in, nothing for the rest."""
        if name.split(".", 1)[0] not in self._packages:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """The empty module."""
        return _Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


def stand_in(packages: Sequence[str]) -> None:
    """Put the finder behind all others: a package that is there is taken as it is."""
    sys.meta_path.append(_Finder(packages))
