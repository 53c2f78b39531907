/* The consumer on a GPU. */
#include "consumer.h"

#include <cuda_runtime.h>

#include <stdint.h>
#include <stdio.h>

static __device__ uint64_t now_ns()
{
    uint64_t now;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

static __global__ void busy_kernel(uint64_t ns)
{
    const uint64_t start = now_ns();

    while (now_ns() - start < ns) {
    }
}

int consumer_begin(void)
{
    return cudaFree(nullptr); /* makes the context, so that nothing measured does */
}

int consumer_end(void)
{
    return cudaDeviceSynchronize();
}

int consumer_name(char *name, size_t size)
{
    cudaDeviceProp properties;
    const cudaError_t error = cudaGetDeviceProperties(&properties, 0);

    if (error == cudaSuccess)
        snprintf(name, size, "%s, compute capability %d.%d", properties.name, properties.major,
                 properties.minor);
    return error;
}

int consumer_stream_make(void **stream)
{
    return cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t *>(stream),
                                     cudaStreamNonBlocking);
}

int consumer_stream_end(void *stream)
{
    return cudaStreamDestroy(static_cast<cudaStream_t>(stream));
}

int consumer_busy(void *stream, unsigned microseconds)
{
    int processors = 0;
    const cudaError_t error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                                                     0);
    uint64_t ns = (uint64_t)microseconds * 1000;
    void *arguments[] = {&ns};

    if (error != cudaSuccess)
        return error;
    return cudaLaunchKernel(reinterpret_cast<const void *>(&busy_kernel), dim3(processors),
                            dim3(256), arguments, 0, static_cast<cudaStream_t>(stream));
}

int consumer_copy_out(void *host, const void *device, size_t bytes, void *stream)
{
    const cudaStream_t on = static_cast<cudaStream_t>(stream);
    const cudaError_t error = cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, on);

    return error != cudaSuccess ? error : cudaStreamSynchronize(on);
}

int consumer_finish(void *stream)
{
    return cudaStreamSynchronize(static_cast<cudaStream_t>(stream));
}
