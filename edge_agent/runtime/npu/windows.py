"""The sliding window of a convolution: kernel, stride, dilation, four independent pads, groups."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """Geometry of a convolution, without its sizes in channels."""

    kernel_height: int
    kernel_width: int
    stride_height: int = 1
    stride_width: int = 1
    dilation_height: int = 1
    dilation_width: int = 1
    pad_top: int = 0
    pad_bottom: int = 0
    pad_left: int = 0
    pad_right: int = 0
    groups: int = 1

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """Return (rows, columns) of the result for an image of `height` x `width`; not positive = does not
        fit.
        """
        reach_h = self.dilation_height * (self.kernel_height - 1) + 1
        reach_w = self.dilation_width * (self.kernel_width - 1) + 1
        rows = (height + self.pad_top + self.pad_bottom - reach_h) // self.stride_height + 1
        columns = (width + self.pad_left + self.pad_right - reach_w) // self.stride_width + 1
        return rows, columns
