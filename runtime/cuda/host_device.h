/// Marks functions that are compiled for host and device.
#pragma once

#if defined(__CUDACC__)
#define RANNC_HOST_DEVICE __host__ __device__
#else
#define RANNC_HOST_DEVICE
#endif
