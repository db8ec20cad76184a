"""Objects that are arrays by their protocols alone, as other libraries have them."""

from __future__ import annotations

from typing import Any

import numpy as np


class ByArray:
    """An array by ``__array__``, whose memory is ``held``."""

    def __init__(self, held: np.ndarray) -> None:
        self.held = held

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.held if dtype is None else self.held.astype(dtype)


class ByDLPack:
    """An array by ``__dlpack__`` on a device of DLPack's, whose memory is ``held``."""

    def __init__(self, held: np.ndarray, device: tuple[int, int] = (1, 0)) -> None:
        self.held, self.device_of = held, device

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.held.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device_of


class Failing:
    """An array whose protocols fail, as those of a traced or deleted array do."""

    message = "the elements are gone " + "x" * 5000

    def __dlpack__(self, **keywords: Any) -> Any:
        raise BufferError(self.message)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise RuntimeError(self.message)


class OnOtherDevice(ByArray):
    """An array that copies itself from its device when NumPy asks."""

    device = "/job:localhost/replica:0/task:0/device:GPU:0"
