"""The facts of this CPU that decide how 8-bit products are added up."""

import platform
from functools import cache
from pathlib import Path


@cache
def cpu_flags() -> frozenset[str] | None:
    """Read the instruction sets that Linux lists for an x86 CPU; None where it lists none."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    flags = next((line for line in lines if line.startswith("flags")), None)
    return frozenset(flags.partition(":")[2].split()) if flags else None


@cache
def cpu_name() -> str:
    """Read the CPU's model name where Linux gives it; otherwise give the architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def saturates_8bit_products() -> bool | None:
    """Say whether u8 x s8 products are added in pairs with 16-bit saturation (x86 without VNNI).

    None where the CPU's instruction sets cannot be read.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    flags = cpu_flags()
    if flags is None:
        return None
    return "avx2" in flags and not flags & {"avx_vnni", "avx512_vnni", "avx_vnni_int8"}
