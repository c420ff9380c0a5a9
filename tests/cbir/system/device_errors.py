"""What torch, CUDA and FAISS raise, as they raise it."""

from types import ModuleType

import pytest


def _torch() -> ModuleType:
    return pytest.importorskip("torch")


FAISS_FULL = (
    "Error in virtual void* faiss::gpu::StandardGpuResourcesImpl::allocMemory(const faiss::gpu::AllocRequest&) at "
    "faiss/gpu/StandardGpuResources.cpp:518: Error: 'err == cudaSuccess' failed: StandardGpuResources: alloc fail "
    "type FlatData dev 0 space Device stream 0x55 size 858993459200 bytes (cudaMalloc error out of memory [2])\n"
)
ERRORS = {
    "memory": lambda: _torch().OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 2.00 GiB. Of 79.11 GiB, 1 MiB is free."
    ),
    "kernel": lambda: _torch().AcceleratorError(
        "CUDA error: no kernel image is available for execution on the device\nCUDA kernel errors might be "
        "asynchronously reported at some other API call"
    ),
    "sticky": lambda: RuntimeError("CUDA error: an illegal memory access was encountered"),
    "cublas": lambda: RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
    "cudnn": lambda: RuntimeError("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"),
    "driver": lambda: RuntimeError("No CUDA GPUs are available"),
    "build": lambda: AssertionError("Torch not compiled with CUDA enabled"),
    "faiss": lambda: RuntimeError(FAISS_FULL),
    "faiss_kernel": lambda: RuntimeError(
        "Error in void faiss::gpu::runL2Norm() at faiss/gpu/impl/L2Norm.cu:120: CUDA error 209 no kernel image is "
        "available for execution on the device\n"
    ),
    "host": lambda: MemoryError(),
    "missing": lambda: OSError("libcublas.so.12: cannot open shared object file: No such file or directory"),
}  # fmt: skip


def failing(error):
    """Return a function that raises `error`, whatever it is called with."""

    def fail(*_, **__):
        raise ERRORS[error]()

    return fail
