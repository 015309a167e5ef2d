#pragma once
// SCALAI_HOST_DEVICE marks a function that is also compiled for the GPU, where nvcc is the compiler; elsewhere it is
// nothing. What is marked uses no memory but its own, no library but <bit>, <cmath> and <cstring>, and no exception.

#if defined(__CUDACC__)
#define SCALAI_HOST_DEVICE __host__ __device__
#else
#define SCALAI_HOST_DEVICE
#endif

// For functions that take functions: a call on the GPU would put what those refer to into memory.
#if defined(__CUDA_ARCH__)
#define SCALAI_ALWAYS_INLINE __forceinline__
#else
#define SCALAI_ALWAYS_INLINE inline
#endif
