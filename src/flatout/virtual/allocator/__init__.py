"""PyTorch's CUDA caching allocator as a model: which memory each request gets, what is reserved, when it runs out."""

from __future__ import annotations

from flatout.virtual.allocator.blocks import Block
from flatout.virtual.allocator.caching import CachingAllocator
from flatout.virtual.allocator.configuration import AllocatorConfiguration
from flatout.virtual.allocator.device import DeviceMemory
from flatout.virtual.allocator.out_of_memory import OutOfDeviceMemory, format_size, out_of_memory_message

__all__ = [
    "AllocatorConfiguration",
    "Block",
    "CachingAllocator",
    "DeviceMemory",
    "OutOfDeviceMemory",
    "format_size",
    "out_of_memory_message",
]
