/* What becomes of one value of a pixel, for the host's tables and for a kernel on a GPU alike: C
 * and CUDA both compile this. Each step is rounded to float, none is fused with another (the host
 * is built with -ffp-contract=off, CUDA is told by name), so that both give what torchvision's
 * ToTensor and Normalize give: ((v / 255) - mean) / std. */
#ifndef SHUFFLELOAD_PIXELS_BODY_H
#define SHUFFLELOAD_PIXELS_BODY_H

#ifdef __CUDACC__
#define PIXELS_BODY static __host__ __device__ __forceinline__
#else
#define PIXELS_BODY static inline
#endif

PIXELS_BODY float pixels_normalise(unsigned char value, float mean, float deviation)
{
#ifdef __CUDA_ARCH__
    return __fdiv_rn(__fsub_rn(__fdiv_rn((float)value, 255.0f), mean), deviation);
#else
    return ((float)value / 255.0f - mean) / deviation;
#endif
}

#endif
