/* Per-channel means of a data set, on the GPU that the batches are on: means PATH [BATCH].
 *
 * The loop never waits for the device: sl_batch_wait() makes the stream wait for a batch, the
 * kernel is launched, and sl_batch_release() gives the batch back behind it. Where no GPU can be
 * used, batches are in the host's memory, and the same sums are made there. */
#include <shuffleload.h>

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

/* Adds up one channel of all pictures a block; values of NCHW. */
static __global__ void add_channels(double *sums, const float *images, unsigned count,
                                    unsigned pixels)
{
    __shared__ double partial[256];
    const unsigned channel = blockIdx.y;
    double sum = 0;

    for (unsigned image = blockIdx.x; image < count; image += gridDim.x)
        for (unsigned i = threadIdx.x; i < pixels; i += blockDim.x)
            sum += images[((size_t)image * 3 + channel) * pixels + i];
    partial[threadIdx.x] = sum;
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            partial[threadIdx.x] += partial[threadIdx.x + half];
    }
    if (threadIdx.x == 0)
        atomicAdd(&sums[channel], partial[0]);
}

static void add_on_host(double sums[3], const sl_batch *batch)
{
    const float *images = static_cast<const float *>(batch->data);

    for (uint64_t image = 0; image < batch->count; image++)
        for (int channel = 0; channel < 3; channel++)
            for (int64_t i = 0; i < batch->strides[1]; i++)
                sums[channel] += *images++;
}

static int failed(cudaError_t error)
{
    if (error != cudaSuccess)
        std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
    return error != cudaSuccess;
}

int main(int count, char **arguments)
{
    struct sl_config config = SL_CONFIG_INIT;
    double sums[3] = {}, *device_sums = nullptr;
    cudaStream_t stream = nullptr;
    sl_loader *loader;
    sl_batch *batch;
    uint64_t images = 0, pixels = 0;
    int status;

    config.path = count > 1 ? arguments[1] : nullptr;
    config.batch_size = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 128;
    config.output = SL_FLOAT32_NCHW;
    config.device = SL_DEVICE_AUTO;
    if (sl_open(&loader, &config) < 0) {
        std::fprintf(stderr, "%s\n", sl_error(nullptr));
        return 1;
    }
    while ((status = sl_next(loader, &batch, -1)) >= 0 && status != SL_END) {
        images += batch->count;
        pixels = (uint64_t)batch->strides[1];
        if (batch->device == SL_DEVICE_HOST) {
            add_on_host(sums, batch);
        } else {
            if (!stream && (failed(cudaSetDevice(SL_DEVICE_INDEX(batch->device))) ||
                            failed(cudaStreamCreate(&stream)) ||
                            failed(cudaMalloc(&device_sums, sizeof sums)) ||
                            failed(cudaMemset(device_sums, 0, sizeof sums))))
                return 1;
            status = sl_batch_wait(batch, stream);
            if (status < 0)
                break;
            add_channels<<<dim3(128, 3), 256, 0, stream>>>(
                device_sums, static_cast<const float *>(batch->data), (unsigned)batch->count,
                (unsigned)pixels);
            if (failed(cudaGetLastError()))
                return 1;
        }
        status = sl_batch_release(batch, stream);
        if (status < 0)
            break;
    }
    if (status < 0) {
        std::fprintf(stderr, "%s\n", sl_error(loader));
        return 1;
    }
    if (stream &&
        (failed(cudaMemcpyAsync(sums, device_sums, sizeof sums, cudaMemcpyDeviceToHost, stream)) ||
         failed(cudaStreamSynchronize(stream))))
        return 1;
    std::printf("%llu images, %s: %.4f %.4f %.4f\n", static_cast<unsigned long long>(images),
                stream ? "on a GPU" : "on the host", sums[0] / (double)(images * pixels),
                sums[1] / (double)(images * pixels), sums[2] / (double)(images * pixels));
    sl_close(loader);
    return 0;
}
