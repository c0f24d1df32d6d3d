"""A stand-in for a GPU: tensors that say they are on another device, compute on the CPU, and refuse to mix with it.

Like CUDA's they meet tensors of the CPU only when those have no dimension, or in a copy from one to the other.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map

ELSEWHERE = torch.device("meta")
"""Its name. torch knows `meta` in every build, and networks move there as they move to a GPU."""
_aten = torch.ops.aten
_COPIES = (_aten.copy_.default, _aten._to_copy.default)


class Away(Tensor):
    """A tensor on the other device; `held` is what it computes with."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> Away:
        made: Away = torch.Tensor._make_wrapper_subclass(
            cls, held.shape, strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype,
            device=ELSEWHERE,
        )  # fmt: skip
        made.held = held
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:  # Any: what pickle asks for
        return self.held.__reduce_ex__(protocol)

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["held"], None

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, Tensor], *_: object) -> Away:
        return Away(parts["held"])

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch gives an operator
        cls, operator: Any, types: object, given: tuple[Any, ...] = (), named: dict[str, Any] | None = None
    ) -> Any:  # Any: operators take and give what they like
        return _computed(operator, given, named or {})


class _Watching(TorchDispatchMode):
    """Also sees operators that no tensor of the other device is given to: those that make one."""

    def __torch_dispatch__(  # type: ignore[override]  # torch gives an operator
        self, operator: Any, types: object, given: tuple[Any, ...] = (), named: dict[str, Any] | None = None
    ) -> Any:  # Any: as above
        return _computed(operator, given, named or {})


class _Writing(TorchFunctionMode):
    """Numbers that are written down as a tensor reach no operator."""

    def __torch_function__(  # type: ignore[override]  # torch gives a function
        self, function: Any, types: object, given: tuple[Any, ...] = (), named: dict[str, Any] | None = None
    ) -> Any:  # Any: functions take and give what they like
        asked = named or {}
        if function is torch.tensor and asked.get("device") is not None:
            written: Tensor = function(*given, **{**asked, "device": None})
            return written.to(asked["device"])
        return function(*given, **asked)


def _computed(operator: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Any:  # Any: as above
    tensors = [one for one in tree_flatten((given, named))[0] if isinstance(one, Tensor)]
    away = any(isinstance(one, Away) for one in tensors)
    if away and operator not in _COPIES:
        strangers = [one for one in tensors if not isinstance(one, Away) and one.dim()]
        if strangers:
            raise RuntimeError(f"{operator}: tensors on two devices, {tuple(strangers[0].shape)} is on the CPU")
    wanted = named.get("device")
    goes = (away and operator is not _aten.copy_.default) if wanted is None else torch.device(wanted) == ELSEWHERE
    if operator is _aten.copy_.default:
        goes = isinstance(given[0], Away)
    inner = {**named, "device": torch.device("cpu")} if wanted is not None else named
    held = tree_map(lambda one: one.held if isinstance(one, Away) else one, (given, inner))
    found = operator(*held[0], **held[1])
    if not goes:
        return found
    made = tree_map(lambda one: Away(one) if isinstance(one, Tensor) else one, found)
    return return_and_correct_aliasing(operator, given, named, made)


@contextmanager
def another_device() -> Iterator[torch.device]:
    """While this lasts what is moved to `ELSEWHERE` computes there."""
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)  # as on a GPU: a moved parameter is the same object
    try:
        with warnings.catch_warnings(), _Watching(), _Writing():
            warnings.filterwarnings("ignore", ".*copying from a non-meta parameter")  # this `meta` holds values
            yield ELSEWHERE
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)
