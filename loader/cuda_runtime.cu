/* CUDA's runtime behind the table, and the kernels. The only file that CUDA's compiler sees, and
 * the only one that includes its headers. Nothing happens here but what the table's caller asks
 * for.
 *
 * The one that converts reads 3 bytes a pixel, and writes 12 (float32) or 6 (float16, bfloat16): 15
 * or 9 bytes of memory traffic a pixel, each byte once, in words of 4 and 16 (or 8) bytes that
 * neighbouring threads read and write side by side. Those that resize do a value or three a thread,
 * columns then rows; what is between the two goes through memory. */
#include "cuda_table.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include <atomic>

namespace
{

constexpr unsigned THREADS = 256;
constexpr unsigned ROWS_MOST = 65535;  /* of a grid, in its second dimension */
constexpr unsigned BLOCKS_MOST = 4096; /* for one picture's resize; a thread takes more then */

template <enum pixels_format format>
__global__ void __launch_bounds__(THREADS) convert_kernel(const struct pixels_job job)
{
    const uint32_t groups = job.pixels / PIXELS_GROUP + (job.pixels % PIXELS_GROUP != 0);
    const uint32_t group = blockIdx.x * THREADS + threadIdx.x;

    if (group >= groups)
        return;
    for (uint32_t image = blockIdx.y; image < job.images; image += gridDim.y)
        pixels_do_group(&job, image, group, format);
}

__global__ void __launch_bounds__(THREADS) column_kernel(const struct resize_job job)
{
    for (uint32_t number = blockIdx.y; number < job.count; number += gridDim.y) {
        const struct resize_picture picture = job.pictures[number];
        const uint32_t items = resize_column_items(&picture);

        for (uint32_t item = blockIdx.x * THREADS + threadIdx.x; item < items;
             item += gridDim.x * THREADS)
            resize_do_column(&picture, item);
    }
}

__global__ void __launch_bounds__(THREADS) row_kernel(const struct resize_job job)
{
    for (uint32_t number = blockIdx.y; number < job.count; number += gridDim.y) {
        const struct resize_picture picture = job.pictures[number];
        const uint32_t items = resize_row_items(&picture);

        for (uint32_t item = blockIdx.x * THREADS + threadIdx.x; item < items;
             item += gridDim.x * THREADS)
            resize_do_row(&picture, item);
    }
}

int device_count(int *count)
{
    *count = 0; /* an error leaves it as it was */
    return cudaGetDeviceCount(count);
}

int device_get(int *device)
{
    return cudaGetDevice(device);
}

/* One of the driver's functions, which the runtime has found; the driver itself is not linked. */
template <typename Function> int driver_function(const char *name, Function *function)
{
    cudaDriverEntryPointQueryResult found;
    void *address = nullptr;
#if CUDART_VERSION >= 12050
    const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &address, 11000,
                                                               cudaEnableDefault, &found);
#else
    const cudaError_t error = cudaGetDriverEntryPoint(name, &address, cudaEnableDefault, &found);
#endif

    if (error != cudaSuccess)
        return error;
    if (found != cudaDriverEntryPointSuccess || !address)
        return cudaErrorSymbolNotFound;
    *function = reinterpret_cast<Function>(address);
    return cudaSuccess;
}

/* Found by context_take(), before anybody pushes; the same for all threads. */
std::atomic<CUresult (*)(CUcontext)> push;
std::atomic<CUresult (*)(CUcontext *)> pop;

/* CUresult and cudaError_t have one number for one fault, where both have it. */
int context_take(int device, void **context)
{
    CUresult (*get)(CUdevice *, int);
    CUresult (*retain)(CUcontext *, CUdevice);
    CUresult (*found_push)(CUcontext);
    CUresult (*found_pop)(CUcontext *);
    CUdevice handle;
    int error = driver_function("cuDeviceGet", &get);

    if (!error)
        error = driver_function("cuDevicePrimaryCtxRetain", &retain);
    if (!error)
        error = driver_function("cuCtxPushCurrent", &found_push);
    if (!error)
        error = driver_function("cuCtxPopCurrent", &found_pop);
    if (!error)
        error = get(&handle, device);
    if (error)
        return error;
    push = found_push;
    pop = found_pop;
    return retain(reinterpret_cast<CUcontext *>(context), handle);
}

int context_give(int device)
{
    CUresult (*get)(CUdevice *, int);
    CUresult (*release)(CUdevice);
    CUdevice handle;
    int error = driver_function("cuDeviceGet", &get);

    if (!error)
        error = driver_function("cuDevicePrimaryCtxRelease", &release);
    if (!error)
        error = get(&handle, device);
    return error ? error : release(handle);
}

int context_push(void *context)
{
    return push.load()(static_cast<CUcontext>(context));
}

int context_pop()
{
    CUcontext context;

    return pop.load()(&context);
}

int device_wait()
{
    return cudaDeviceSynchronize();
}

int host_take(void **memory, size_t bytes)
{
    return cudaHostAlloc(memory, bytes, cudaHostAllocPortable);
}

int host_give(void *memory)
{
    return cudaFreeHost(memory);
}

int device_take(void **memory, size_t bytes)
{
    return cudaMalloc(memory, bytes);
}

int device_give(void *memory)
{
    return cudaFree(memory);
}

int stream_make(void **stream)
{
    return cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t *>(stream),
                                     cudaStreamNonBlocking);
}

int stream_end(void *stream)
{
    return cudaStreamDestroy(static_cast<cudaStream_t>(stream));
}

int stream_wait(void *stream, void *event)
{
    return cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), static_cast<cudaEvent_t>(event),
                               0);
}

int stream_finish(void *stream)
{
    return cudaStreamSynchronize(static_cast<cudaStream_t>(stream));
}

int event_make(void **event)
{
    return cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t *>(event),
                                    cudaEventDisableTiming | cudaEventBlockingSync);
}

int event_end(void *event)
{
    return cudaEventDestroy(static_cast<cudaEvent_t>(event));
}

int event_record(void *event, void *stream)
{
    return cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(stream));
}

int event_finish(void *event)
{
    return cudaEventSynchronize(static_cast<cudaEvent_t>(event));
}

int copy_in(void *device, const void *pinned, size_t bytes, void *stream)
{
    return cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice,
                           static_cast<cudaStream_t>(stream));
}

int copy_within(void *to, const void *from, size_t bytes, void *stream)
{
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                           static_cast<cudaStream_t>(stream));
}

/* The kernel's address: launched by that, as the <<<>>> form needs the C++ runtime's library. */
const void *kernel_of(enum pixels_format format)
{
    switch (format) {
    case PIXELS_FLOAT32:
        return reinterpret_cast<const void *>(&convert_kernel<PIXELS_FLOAT32>);
    case PIXELS_FLOAT16:
        return reinterpret_cast<const void *>(&convert_kernel<PIXELS_FLOAT16>);
    case PIXELS_BFLOAT16:
        return reinterpret_cast<const void *>(&convert_kernel<PIXELS_BFLOAT16>);
    }
    return nullptr;
}

int convert(const struct pixels_job *job, void *stream)
{
    const uint32_t groups = job->pixels / PIXELS_GROUP + (job->pixels % PIXELS_GROUP != 0);
    const dim3 grid((groups + THREADS - 1) / THREADS,
                    job->images < ROWS_MOST ? job->images : ROWS_MOST);
    struct pixels_job copy = *job;
    void *arguments[] = {&copy};
    const void *kernel = kernel_of(job->format);

    if (job->images == 0 || job->pixels == 0)
        return cudaSuccess;
    if (!kernel)
        return cudaErrorInvalidValue;
    return cudaLaunchKernel(kernel, grid, dim3(THREADS), arguments, 0,
                            static_cast<cudaStream_t>(stream));
}

/* Enough blocks for every item of the largest picture, up to a number that fills any device. */
int launch_resize(const void *kernel, const struct resize_job *job, uint32_t items, void *stream)
{
    const uint32_t blocks = (items + THREADS - 1) / THREADS;
    const dim3 grid(blocks < BLOCKS_MOST ? blocks : BLOCKS_MOST,
                    job->count < ROWS_MOST ? job->count : ROWS_MOST);
    struct resize_job copy = *job;
    void *arguments[] = {&copy};

    return cudaLaunchKernel(kernel, grid, dim3(THREADS), arguments, 0,
                            static_cast<cudaStream_t>(stream));
}

int resize(const struct resize_job *job, void *stream)
{
    int error;

    if (job->count == 0 || job->column_items == 0 || job->row_items == 0)
        return cudaSuccess;
    error = launch_resize(reinterpret_cast<const void *>(&column_kernel), job, job->column_items,
                          stream);
    if (error)
        return error;
    return launch_resize(reinterpret_cast<const void *>(&row_kernel), job, job->row_items, stream);
}

int kernel_check()
{
    cudaFuncAttributes attributes;

    return cudaFuncGetAttributes(&attributes, kernel_of(PIXELS_FLOAT32));
}

const char *error_name(int error)
{
    return cudaGetErrorName(static_cast<cudaError_t>(error));
}

const char *error_text(int error)
{
    return cudaGetErrorString(static_cast<cudaError_t>(error));
}

const struct cuda_table table = {
    device_count, device_get,   context_take, context_give,  context_push, context_pop,
    device_wait,  kernel_check, host_take,    host_give,     device_take,  device_give,
    stream_make,  stream_end,   stream_wait,  stream_finish, event_make,   event_end,
    event_record, event_finish, copy_in,      copy_within,   convert,      resize,
    error_name,   error_text,
};

} // namespace

const struct cuda_table *cuda_runtime_table(void)
{
    return &table;
}
