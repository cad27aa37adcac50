"""What float32 means on a GPU: all 24 bits, or TensorFloat-32's 11 in matrix products and convolutions.

Torch allows TF32 in convolutions unless it is told otherwise. A reference, a limit or a ratio that depends on which
algorithm cuDNN happened to choose is no measure, so that everything named fp32 here runs without; `*-tf32` has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """Whether matrix products and convolutions may round their float32 operands to TF32, within."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before
