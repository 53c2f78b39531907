/* libshuffleload: files in order to batches.
 *
 * A loader opens one rank's share of an epoch: a shufflefs mount, a tar stream, a folder or a list.
 * It reads the samples in their order, decodes and augments images (or takes bytes as they are),
 * and hands out batches in that order. It works on any folder or tar; a mount is not needed.
 *
 *     struct sl_config config = SL_CONFIG_INIT;
 *     struct sl_loader *loader;
 *     struct sl_batch *batch;
 *     int status;
 *
 *     config.path = "/mnt/imagenet";  config.rank = 3;  config.world = 8;
 *     config.batch_size = 256;        config.output = SL_FLOAT32_NCHW;
 *     if (sl_open(&loader, &config) < 0)
 *         errx(1, "%s", sl_error(NULL));
 *     for (uint64_t epoch = 0; epoch < 90; epoch++) {
 *         sl_set_epoch(loader, epoch);
 *         while ((status = sl_next(loader, &batch, -1)) >= 0 && status != SL_END) {
 *             train(batch->data, batch->labels, batch->count);
 *             sl_release(loader, batch);
 *         }
 *         if (status < 0)
 *             errx(1, "%s", sl_error(loader));
 *     }
 *     sl_close(loader);
 *
 * Results. 0: done. SL_PARTIAL, SL_END, SL_TIMEOUT (positive): done, and something to know. A
 * negative errno: an error; sl_error() has a text that names the file and the fault.
 *
 * Threads. One thread at a time calls sl_next(). Every other function may be called from any thread
 * at any time, but for sl_close(), which comes last. sl_set_epoch() and sl_seek() may not run
 * beside sl_next(): sl_cancel() ends one that waits. Several loaders in a process know nothing of
 * each other. The loader's own threads block all signals.
 *
 * Fork. A child made by fork() has none of the loader's threads: there every function returns
 * -EOWNERDEAD (sl_close() does nothing), and nothing waits. The parent is not affected. Open the
 * loader after the fork.
 *
 * GPUs. With config.device, batches are made on a GPU: bytes are copied there from pinned memory,
 * on a stream of the loader's own, and made floats by a kernel; the bits are those of the host.
 * `data` and `mask` are then device memory. sl_next() returns before they are filled:
 * sl_batch_wait() makes a stream wait for them, and sl_batch_release() gives the batch back behind
 * what the stream does with it. Labels, lengths, names and the like are in the host's memory, and
 * there at once. The library is built with CUDA's runtime in it and needs nothing but the driver,
 * and neither where no GPU is used. Where CUDA reports a fault, sl_next() gives its text, and the
 * loader can only be closed.
 *
 * Memory. Everything is allocated by sl_open(); the slots' pages are touched there, so that too
 * little memory shows at the start. Afterwards only an epoch's list of names is made anew, by
 * sl_set_epoch() on a mount. A batch lies in a slot that belongs to the caller from sl_next() to
 * sl_release(), and is not written to in between, whatever the loader does. Batches are released in
 * any order.
 *
 * What is the same. The bytes of every batch are a function of the samples, the configuration and
 * (seed, epoch, position in the global order): never of the number of workers, of timing, or of how
 * the samples are split over ranks. */
#ifndef SHUFFLELOAD_H
#define SHUFFLELOAD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SL_API __attribute__((visibility("default")))

/* Results that are no errors. */
enum {
    SL_PARTIAL = 1, /* a batch of fewer than batch_size samples */
    SL_END = 2,     /* the epoch is over; sl_set_epoch() starts another */
    SL_TIMEOUT = 3, /* no batch within the time given; nothing is lost */
};

/* Where samples come from. */
enum sl_source {
    /* What `path` is decides: a folder with .control/fingerprint in it is a mount, another folder
     * a folder; a file whose name ends in .tar (or .tar.gz, .tgz, .tar.zst, .tar.xz, .tar.bz2,
     * .tar.lz4), a fifo or a socket is a tar; another file is a list. */
    SL_SOURCE_AUTO = 0,
    SL_SOURCE_MOUNT = 1,     /* a mount's root: rank folders, epoch-E/rank-R-of-W */
    SL_SOURCE_MOUNT_TAR = 2, /* a mount's root: its streams, epoch-E/rank-R-of-W.tar */
    /* A folder and those in it; or a mount's rank folder, rank-R[-of-W][.part-K-of-M[.by-B]] or its
     * .keys, under current/ or epoch-E/: the same of another epoch is then found by itself (.tar
     * and .list are as good). A mount's other folders are refused: those that have all ranks, and
     * .classes, which have an order of their own. */
    SL_SOURCE_FOLDER = 3,
    SL_SOURCE_TAR = 4,  /* a tar, read once from start to end */
    SL_SOURCE_LIST = 5, /* a text file: PATH, blank, LABEL a line, an integer of 64 bits */
};

/* What a batch holds. Sizes: N samples, C = 3 (red, green, blue), H rows, W columns. */
enum sl_output {
    SL_UINT8_NHWC = 0,    /* images, 0 to 255, not normalised */
    SL_FLOAT32_NCHW = 1,  /* images, (x / 255 - mean) / deviation */
    SL_FLOAT16_NCHW = 2,  /* the same in IEEE half precision, rounded to nearest even */
    SL_BYTES = 3,         /* any files, as they are, padded to length_most */
    SL_BFLOAT16_NCHW = 4, /* as SL_FLOAT32_NCHW in bfloat16, rounded to nearest even */
};

/* How an image becomes H x W. */
enum sl_crop {
    SL_CROP_RANDOM_RESIZED = 0, /* torchvision's RandomResizedCrop */
    SL_CROP_CENTRE = 1,         /* the shorter side to `shorter`, then the middle H x W */
    SL_STRETCH = 2,             /* the whole image, whatever its shape */
};

/* What is done about a sample that cannot be read or decoded. All are counted (sl_stats), and the
 * batch's `statuses` show them. Where what the samples are on is gone (a mount that has died or was
 * taken away: ENOTCONN, ECONNABORTED, ESHUTDOWN, ENODEV; a stale folder: ESTALE), no sample is bad:
 * whatever is chosen here, sl_next() returns that error where the batch would be. */
enum sl_bad {
    /* Its place is taken by the next good sample of the same batch (past the last one, the first);
     * batches keep their size. A batch without a good sample is an error. */
    SL_BAD_REPLACE = 0,
    /* It is left out: the batch has fewer samples. */
    SL_BAD_SKIP = 1,
    /* sl_next() returns an error where its batch would be. */
    SL_BAD_FAIL = 2,
};

/* The label of a sample that has none. Every other 64-bit integer, the negative ones too, can be a
 * sample's: -1 and torch's ignore_index, -100, are what somebody wrote. */
#define SL_NO_LABEL INT64_MIN

/* Of one sample in a batch; below 0: a negative errno, why it is bad. -EBADMSG: damaged beyond
 * decoding; -ENOTSUP: a kind that is not decoded, or in a tar a link to another member, whose bytes
 * a mount would show; -EFBIG: over a limit; else what reading gave. */
enum sl_sample_status {
    SL_SAMPLE_GOOD = 0,
    SL_SAMPLE_DAMAGED = 1,  /* decoded, but data were missing or wrong: parts may be grey */
    SL_SAMPLE_REPLACED = 2, /* a bad sample's place and name, with another's content and label */
    SL_SAMPLE_CUT = 3,      /* bytes: longer than length_most */
};

/* Where batches are made: config.device. In a batch: where it is, never SL_DEVICE_AUTO. */
enum {
    SL_DEVICE_AUTO = -1, /* the calling thread's current GPU (CUDA's number 0, if none was set);
                            where none can be used, the host: said once a process on standard
                            error, and by sl_error(loader) until the first error */
    SL_DEVICE_HOST = 0,
};
#define SL_DEVICE_CUDA(index)   ((index) + 1) /* GPU 0, 1, ... as CUDA counts them */
#define SL_DEVICE_INDEX(device) ((device)-1)  /* and back */

/* Where JPEGs are decoded: config.decode. What else is decoded, the host does. */
enum sl_decode {
    SL_DECODE_HOST = 0,
    /* On the batches' GPU, by nvJPEG, which is opened at run time (libnvjpeg.so.13 or .12, or what
     * SHUFFLELOAD_NVJPEG in the environment names): for few cores. Where it cannot be used the host
     * decodes: said once a process on standard error, and by sl_error(loader) until the first
     * error.
     *
     * The crop and the flip are those of the host, and so is the resize, of the whole picture's
     * pixels as with `exact`; but two decoders' pixels differ by some levels here and there. Left
     * to the host, one by one and counted (sl_stats), are pictures that are not plain (progressive,
     * 12 bits, CMYK and RGB, a PNG, one that EXIF turns with `orient`, one that is cut short),
     * those that decode_bytes has no room for, and those that nvJPEG refuses; the same ones each
     * time. A bit that is wrong within a plain one's data, for which the host would say
     * SL_SAMPLE_DAMAGED, nvJPEG may not notice.
     *
     * Files stay in the host's memory until their batch is decoded: in address space that is taken
     * at the start, and used as far as the largest batch so far has needed. */
    SL_DECODE_DEVICE = 1,
};

/* Where functions take a stream (a cudaStream_t; NULL: the batch's device's default stream): none.
 * The calling thread itself waits, or has finished. */
#define SL_STREAM_HOST ((void *)-1)

/* Configuration. Start from SL_CONFIG_INIT (or sl_config_init()). 0 or NULL is every member's
 * default; where 0 would be a value of its own, that is said. `size` tells the library which
 * members the program knows: programs built with an older header go on working. */
struct sl_config {
    size_t size; /* sizeof(struct sl_config) */

    /* The samples. */
    const char *path;
    enum sl_source source;
    enum sl_output output;
    /* The sample's content: the field (extension; without case, without the first dot) to take,
     * several as "jpg/jpeg/png". NULL: for images jpg/jpeg/png; for SL_BYTES any but cls and json,
     * the first one of each sample. */
    const char *field;
    /* Which share: of a mount, the rank and the world to read, as in rank-R-of-W (world 0: the
     * mount's own). Elsewhere `path` is this rank's share already, and these only place it in the
     * global order, on which random numbers hang: its sample i is global sample
     * start + rank + i * world. */
    uint64_t rank, world;
    uint64_t epoch; /* the first one; of a mount's rank folder or stream, 0 is the folder's own */
    /* Where the first epoch starts, for a checkpoint's resumption: see sl_seek(). Where epoch and
     * this are 0, a mount's rank folder that was resumed itself (`7 after 40000`) starts there. */
    uint64_t after;
    uint64_t start; /* not for mounts */
    uint64_t seed;  /* of the random numbers; the order has its own in the mount */

    /* Batches. */
    uint64_t batch_size; /* 1 to 65536; 0: 1 */
    int drop_last;       /* not 0: the epoch's last batch is left out where it is partial. (A
                            mount's remainder= is another thing: it makes ranks even.) */
    enum sl_bad bad;
    int damaged_is_bad; /* not 0: SL_SAMPLE_DAMAGED is treated as bad */

    /* Images. */
    int width, height; /* 1 to 16384; 0: 224 */
    enum sl_crop crop;
    int shorter; /* pixels, not below either; 0: 8/7 of the larger of width and height */
    double area_least, area_most;   /* shares of the image; both 0: 0.08 and 1 */
    double ratio_least, ratio_most; /* width / height; both 0: 3/4 and 4/3 */
    double flip;                    /* probability of a left-right flip: 0 to 1 */
    float mean[3], deviation[3];    /* of x / 255; all deviations 0: 1 */
    int orient;                     /* not 0: EXIF orientation is applied */
    int exact;                      /* not 0: no DCT scaling: slower, as PIL within 1 level */
    uint64_t pixels_most;           /* larger images are -EFBIG; 0: 178,956,970, as PIL */
    int scans_most;                 /* progressive JPEGs with more are -EFBIG; 0: 500 */

    /* Bytes. */
    uint64_t length_most; /* bytes a sample at most; 0: 65536 */
    int padding;          /* the byte after a sample's end */
    int mask;             /* not 0: batches have a mask */

    /* Work. */
    int workers;           /* threads; 0: the cores this process may use (affinity and cgroup),
                              divided by LOCAL_WORLD_SIZE; at most 1024 */
    int prefetch;          /* batches made ahead of sl_next(); 0: 2 */
    int hold;              /* batches that the caller may hold at once; 0: 1 */
    uint64_t file_most;    /* a larger file is -EFBIG; 0: 64 MiB */
    uint64_t stream_bytes; /* read ahead of the workers in a tar; 0: what 4 batches or 64 MiB
                              suggest; at least twice file_most is taken */
    int device;            /* SL_DEVICE_AUTO, SL_DEVICE_HOST or SL_DEVICE_CUDA(index) */

    /* Decoding on the GPU (not with SL_DEVICE_HOST, nor SL_BYTES: -EINVAL). */
    uint64_t decode_bytes; /* of its memory, taken by sl_open(): half of it for pictures, which are
                              3 bytes a pixel; and three sixteenths of that pinned. At least 4 MiB;
                              0: 4 MiB a sample of a batch, from 128 MiB to 2 GiB */
    enum sl_decode decode;
};

#define SL_CONFIG_INIT                                                                             \
    {                                                                                              \
        .size = sizeof(struct sl_config)                                                           \
    }

/* The same for languages without the macro: `size` is what the caller's struct has. */
SL_API void sl_config_init(struct sl_config *config, size_t size);

/* A batch. It and all it points to belong to the caller until sl_release(). Later versions add
 * members at the end; only the library makes one. Row i is sample i in every array. */
struct sl_batch {
    uint64_t count; /* good rows: 0 to batch_size, 0 only where all were skipped */
    uint64_t asked; /* samples it was made of: count, and the skipped ones */
    uint64_t epoch;
    uint64_t number; /* within the epoch (after a seek: since that) */
    /* Samples of the global order that the job has done once this batch and all before it are:
     * what sl_seek() takes. See sl_position(). */
    uint64_t after;

    enum sl_output output;
    /* The content, aligned to 64 bytes; row i starts at i * strides[0] elements, an element being
     * 1, 4 or 2 bytes (bytes: 1). shape: NHWC {N, H, W, 3}; NCHW {N, 3, H, W}; bytes {N, L}, L the
     * longest sample's length in this batch. Images are dense; rows of bytes have length_most
     * rounded up to 64 as their stride. N is count. */
    void *data;
    int dimensions;
    int64_t shape[4];
    int64_t strides[4]; /* in elements */

    const int64_t *labels;  /* SL_NO_LABEL: the sample has none */
    const int64_t *lengths; /* bytes: of each sample, as far as it was kept; images: NULL */
    const uint8_t *mask;    /* bytes, where asked for: 1 in content, 0 in padding; as data's shape
                               and strides */
    /* `asked` entries each; the skipped ones come last, in their order. Names are the path within
     * the folder, the tar or the list, its end where it is longer than 255 bytes. */
    const char *const *names;
    const int32_t *statuses;   /* enum sl_sample_status, or a negative errno */
    const uint64_t *positions; /* in the global order */

    /* SL_DEVICE_HOST or SL_DEVICE_CUDA(index): what memory `data` and `mask` are in. The next two
     * are copies of labels and lengths in the same memory; NULL on the host, and where there are
     * none. */
    int device;
    const int64_t *device_labels, *device_lengths;
};

struct sl_loader;

/* Opens a loader and starts its threads; batches are made from here on. The configuration is
 * copied. Returns 0; -EINVAL (a member out of range, named in the text), -ENOENT, -EACCES,
 * -ENOTSUP, -ENOMEM, -ENODATA (no sample), or what reading gave. On an error *loader is NULL, and
 * sl_error(NULL) has the text. Where the source is a fifo, does not wait for its writer's data. */
SL_API int sl_open(struct sl_loader **loader, const struct sl_config *config);

/* The next batch, in order. Waits up to `milliseconds` (below 0: for ever; 0: not at all).
 *   0            *batch is a whole batch
 *   SL_PARTIAL   *batch has fewer samples: the epoch's last, or samples were skipped
 *   SL_END       the epoch is over; so says every further call until sl_set_epoch()
 *   SL_TIMEOUT   none yet
 *   -EBUSY       the caller holds `hold` batches: release one first
 *   -ECANCELED   after sl_cancel(), until sl_set_epoch()
 *   -EBADMSG     bad samples, where the configuration does not allow them; a tar that is none; one
 *                that is cut short, after all samples before the cut
 *   another      what reading the source gave
 * Errors stay until sl_set_epoch(), but for -EBUSY. *batch is NULL where there is none. */
SL_API int sl_next(struct sl_loader *loader, struct sl_batch **batch, int milliseconds);

/* Gives a batch back; it may be overwritten from here on. 0, or -EINVAL: it is not held. On a GPU
 * as sl_batch_release() on each stream that sl_batch_wait() was called with for this batch; those
 * streams have to be there still. */
SL_API int sl_release(struct sl_loader *loader, struct sl_batch *batch);

/* Makes a stream wait: what is enqueued on it from here on finds the batch's content. Returns at
 * once; with SL_STREAM_HOST, once the content is there. The stream may be of any device. For a
 * batch in the host's memory there is nothing to wait for. 0; -EINVAL: the batch is not held; -EIO,
 * -ENOMEM, -ENODEV: what CUDA reported, its text with sl_error(). */
SL_API int sl_batch_wait(struct sl_batch *batch, void *stream);

/* Gives a batch back behind all that is on the stream by now (SL_STREAM_HOST: at once): it stays as
 * it is, its arrays in pinned memory too, until that is done. What other streams do with it has to
 * be waited for by this one. The stream is of the batch's device. Results as of sl_batch_wait(); it
 * is given back with an error of CUDA's as well, and then never overwritten. */
SL_API int sl_batch_release(struct sl_batch *batch, void *stream);

/* The arrays of a batch. */
enum sl_array {
    SL_ARRAY_DATA = 0,
    SL_ARRAY_LABELS = 1,
    SL_ARRAY_LENGTHS = 2,
    SL_ARRAY_MASK = 3,
    SL_ARRAY_STATUSES = 4,
    SL_ARRAY_POSITIONS = 5,
    SL_ARRAY_DEVICE_LABELS = 6,
    SL_ARRAY_DEVICE_LENGTHS = 7,
};

/* How sl_export() does it: bits, or 0. */
enum {
    SL_EXPORT_VERSIONED = 1, /* a DLManagedTensorVersioned (DLPack 1.0), not a DLManagedTensor */
    SL_EXPORT_COPY = 2,      /* in memory of its own, which keeps nothing of the loader; not of what
                                is in a GPU's memory (-ENOTSUP) */
    SL_EXPORT_PINNED_AS_CPU = 4, /* pinned memory is called the CPU's (kDLCPU), not kDLCUDAHost,
                                    which some consumers do not know */
};

/* An array of a held batch as a DLPack tensor, for numpy, torch and others that take one: the same
 * memory, its shape and strides, and a deleter, which the consumer calls. While tensors of a batch
 * are alive its slot is not written to, and counts as held, also after sl_release() of the batch;
 * and from such a batch more tensors can be made. Any thread may call a deleter, at any time, also
 * after sl_close(): until the last one the batches' memory stays (and the loader, for this function
 * alone), while threads and files end at once. In a child of fork() a deleter frees the tensor
 * and nothing of the loader. On a GPU as sl_batch_export() with stream NULL. 0; -EINVAL: the batch
 * is not held, or has no such array; -ENOMEM; what CUDA reported. */
SL_API int sl_export(struct sl_loader *loader, const struct sl_batch *batch, enum sl_array array,
                     unsigned how, void **tensor);

/* The same with the stream on which the consumer uses the tensor, a handshake as of __dlpack__():
 * the stream waits for the batch as with sl_batch_wait(), and what is on it when the deleter is
 * called keeps the batch as sl_batch_release() does; so it has to be there until then. */
SL_API int sl_batch_export(const struct sl_batch *batch, enum sl_array array, unsigned how,
                           void *stream, void **tensor);

/* The content as a DLManagedTensorVersioned: SL_ARRAY_DATA with SL_EXPORT_VERSIONED. */
SL_API int sl_batch_dlpack(const struct sl_batch *batch, void *stream, void **tensor);

/* Starts `epoch` from its beginning: what was made ahead is dropped, batches held stay as they are.
 * On a mount that is the folder of that epoch, under epoch-E/: no control file is touched, and what
 * others read does not move. Elsewhere the order is the same in each epoch, and only the random
 * numbers change. A tar is read from its start (-ESPIPE where it cannot). Where the epoch is the
 * one already running and nothing was taken from it yet, nothing is done again. Errors as of
 * sl_open(); the loader then gives that error until a call that succeeds. */
SL_API int sl_set_epoch(struct sl_loader *loader, uint64_t epoch);

/* The same, from the `after`th sample of the epoch's global order on: how a job goes on from a
 * checkpoint, on as many ranks or others. Each rank then reads every world'th sample from there.
 * On a mount that is rank-R-of-W.after-G. Where the mount has no such folder, or the source is no
 * mount, `after` - start has to be a multiple of the world (-EINVAL), and the first samples are
 * passed over (in a tar they are read all the same). At the epoch's end nothing is left, which is
 * no error; past it is one (-EINVAL), of a tar from sl_next(), as its end is not known before. */
SL_API int sl_seek(struct sl_loader *loader, uint64_t epoch, uint64_t after);

/* For a checkpoint. The members are in step on all ranks that took as many batches; and so are they
 * on all parts of ranks (rank-R.part-K-of-M.by-B): `after` is where the job is once each part has
 * taken as many, and where batches end within runs of B, the last end of a run before. */
struct sl_position {
    size_t size; /* sizeof(struct sl_position), set by the caller */
    uint64_t epoch;
    uint64_t after;   /* samples of the global order in batches taken by sl_next() and before */
    uint64_t taken;   /* this rank's samples in batches taken in this epoch (since a seek) */
    uint64_t samples; /* this rank's in this epoch (since a seek); UINT64_MAX: not known yet */
    uint64_t batches; /* that they make; UINT64_MAX likewise */
    uint64_t batches_taken;
};
SL_API int sl_position(struct sl_loader *loader, struct sl_position *position);

/* Counts since sl_open(), and where time went, in nanoseconds. The workers' times are sums over all
 * workers and add up to workers_ns, their life so far; a stage under way counts when it ends. */
struct sl_stats {
    size_t size;      /* sizeof(struct sl_stats), set by the caller */
    uint64_t wall_ns; /* since sl_open() */
    uint64_t workers; /* threads */

    uint64_t batches, samples; /* handed out by sl_next(): samples as `count` has them */
    uint64_t decoded;          /* samples done by workers */
    uint64_t bytes;            /* of samples, as read */
    uint64_t bad;              /* could not be read or decoded */
    uint64_t replaced, skipped;
    uint64_t damaged, cut, unlabelled;

    uint64_t workers_ns;
    uint64_t wait_storage_ns;  /* blocked in reads, or waiting for the stream's reader */
    uint64_t read_ns;          /* copying bytes in, system calls; as in the stages below, with what
                                  others had of the core meanwhile */
    uint64_t decode_ns;        /* entropy decoding to pixels; bytes: collating */
    uint64_t resize_ns;        /* crop, resize and flip */
    uint64_t normalise_ns;     /* to floats */
    uint64_t wait_consumer_ns; /* all slots were full or held */
    uint64_t idle_ns;          /* nothing was left of the epoch */
    uint64_t other_ns;         /* the rest: taking work, settling batches */

    uint64_t stream_read_ns;   /* the stream's reader: in reads and parsing */
    uint64_t stream_wait_ns;   /* and waiting for room */
    uint64_t consumer_wait_ns; /* in sl_next(), waiting for a batch */

    char last_bad[512]; /* name of the last bad sample, and why; "" */

    /* With SL_DECODE_DEVICE: pictures that the GPU has decoded, and those that were left to the
     * host, because of their kind, because decode_bytes has no room, because nvJPEG refuses. */
    uint64_t device_decoded, fallbacks;
    uint64_t fallbacks_kind, fallbacks_large, fallbacks_refused;
    char last_fallback[512]; /* name of the last of these, and why; "" */
};
SL_API int sl_stats(struct sl_loader *loader, struct sl_stats *stats);

/* Ends a waiting sl_next(), and all further ones, with -ECANCELED; workers stop. sl_set_epoch()
 * or sl_seek() starts anew. Any thread; not from a signal handler. */
SL_API void sl_cancel(struct sl_loader *loader);

/* Stops the threads and frees everything, batches that are held too, but for those with tensors
 * (sl_export()). NULL is fine. Returns when all threads have ended: after the reads under way; on a
 * GPU after all that its streams have been given to do. */
SL_API void sl_close(struct sl_loader *loader);

/* The text of the last error of a loader; NULL: of the last sl_open() of this thread. Valid until
 * this thread's next call of sl_error(). Never NULL. */
SL_API const char *sl_error(struct sl_loader *loader);

/* "0", "partial", "end", "timeout", or the errno's text. */
SL_API const char *sl_status_text(int status);

/* The library's version, as "0.1.0". */
SL_API const char *sl_version(void);

#ifdef __cplusplus
}
#endif
#endif
