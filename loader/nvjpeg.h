/* Decoding on a GPU by nvJPEG: a batch's kept JPEGs, each to the pixels of its row, cropped,
 * resized and mirrored as on the host.
 *
 * All memory is taken at open: config.decode_bytes on the device and three sixteenths of that
 * pinned; nvJPEG's own comes out of it too. What has no room there, and what nvJPEG does not want,
 * is left to the host, picture by picture; the same ones each time.
 *
 * nvJPEG's hardware decoder writes when it is called, whatever its stream still has to do (pytorch
 * vision 9606, torchcodec 1634: an event that the stream waits for does not help, one that the host
 * waits for does). So the calling thread waits for the stream before each decoding, and after it.
 * One decoding at a time; the thread sleeps meanwhile. */
#ifndef SHUFFLELOAD_NVJPEG_H
#define SHUFFLELOAD_NVJPEG_H

#include "fault.h"
#include "kept.h"

struct cuda;
struct nvjpeg;

/* The loader's device has to be the thread's (cuda_enter()), here and for the end. 0; or -ENOMEM or
 * what CUDA reported, with its text. *out is NULL with 0, too, where nvJPEG cannot be used: `why`.
 */
int nvjpeg_open(struct nvjpeg **out, struct cuda *cuda, struct fault *why, struct fault *fault);

/* Gives back all that is the device's: after its work was waited for. */
void nvjpeg_end(struct nvjpeg *nvjpeg);
/* The rest; without nvjpeg_end(), what is the device's stays to the process's end. NULL is fine. */
void nvjpeg_free(struct nvjpeg *nvjpeg);

/* Decodes those of `count` that wait, each to its row of `rows` (on the device, width * height * 3
 * bytes apart); the rows are written on the loader's stream. 0, each one's state says what became
 * of it; or what CUDA reported. Any thread. */
int nvjpeg_decode(struct nvjpeg *nvjpeg, uint8_t *rows, struct kept *kept, size_t count,
                  struct fault *fault);

#endif
