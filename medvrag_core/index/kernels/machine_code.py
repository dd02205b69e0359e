"""From the text of a kernel to a function that can be called; LLVM comes with the package llvmlite."""

from __future__ import annotations

import ctypes
import re
from functools import cache
from typing import Any

from medvrag_core.index.kernels.text import FLOATS, INTS, LANES

_DECLARED = f"""declare {INTS} @llvm.smax.v{LANES}i32({INTS}, {INTS})
declare {FLOATS} @llvm.maxnum.v{LANES}f32({FLOATS}, {FLOATS})
"""
_TYPES = {"ptr": ctypes.c_void_p, "i64": ctypes.c_int64, "float": ctypes.c_float}
_ENGINES: list[Any] = []
"""The owners of compiled code, which must outlive it."""


def function(source: str) -> Any:
    """The one function that ``source`` defines, compiled for this processor; a call lets other threads run."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3, jit=True
    )
    engine = llvm.create_mcjit_compiler(_optimized(source, machine), machine)
    engine.finalize_object()
    _ENGINES.append(engine)
    found = re.search(r"^define void @(\w+)\((.*)\)", source, flags=re.MULTILINE)
    assert found is not None
    arguments = [_TYPES[parameter.split()[0]] for parameter in found.group(2).split(", ")]
    return ctypes.CFUNCTYPE(None, *arguments)(engine.get_function_address(found.group(1)))


@cache
def reads_halves() -> bool:
    """Whether this processor can read float16; without, LLVM calls a function that is not there."""
    import llvmlite.binding as llvm

    triple = llvm.get_process_triple()
    return triple.startswith(("aarch64", "arm64")) or bool(llvm.get_host_cpu_features().get("f16c"))


def assembly(source: str, *, triple: str, cpu: str) -> str:
    """What ``source`` becomes on another processor, to look at."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=3)
    return str(machine.emit_assembly(_optimized(source, machine)))


def _optimized(source: str, machine: Any) -> Any:
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(_DECLARED + source)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    return module
