#pragma once
// SCALAI_HOST_DEVICE marks a function that nvcc compiles for the GPU, too; for other compilers it is empty. Such a
// function uses no memory but its own, no library but <bit>, <cmath> and <cstring>, and no exceptions.

#if defined(__CUDACC__)
#define SCALAI_HOST_DEVICE __host__ __device__
#else
#define SCALAI_HOST_DEVICE
#endif

// For functions with function parameters: a call on the GPU would put captured variables into memory.
#if defined(__CUDA_ARCH__)
#define SCALAI_ALWAYS_INLINE __forceinline__
#else
#define SCALAI_ALWAYS_INLINE inline
#endif
