/* libFuzzer's entry: any bytes as a tar stream. Every sample's bytes are read. */
#include "../../loader/tarstream.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY = 1 << 16 };

static void *take(void *context, size_t size)
{
    return size <= MEMORY ? context : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sl_config config = SL_CONFIG_INIT;
    static uint8_t memory[MEMORY];
    struct tarstream_memory room = {take, memory};
    struct settings settings;
    struct tarstream *stream;
    struct sample sample;
    struct fault fault = {""};
    volatile uint8_t seen = 0;

    /* The first byte chooses the configuration. */
    if (!size)
        return 0;
    config.path = "fuzz.tar";
    config.output = data[0] & 1 ? SL_BYTES : SL_UINT8_NHWC;
    config.file_most = MEMORY;
    config.workers = 1;
    if (settings_make(&settings, &config, &fault))
        return 0;
    if (tarstream_open_bytes(&stream, data + 1, size - 1, &settings, &fault) == 0) {
        for (int pass = 0; pass < 2; pass++) {
            while (tarstream_next(stream, &room, &sample, &fault) == 1) {
                if (strlen(sample.name) >= sizeof sample.name)
                    abort();
                for (size_t i = 0; i < sample.size; i++)
                    seen = (uint8_t)(seen ^ sample.bytes[i]);
            }
            if (data[0] & 2)
                room.take = NULL;
            tarstream_rewind(stream, &fault);
        }
        tarstream_close(stream);
    }
    settings_free(&settings);
    return 0;
}
