/* libFuzzer's entry: any bytes as a mount's status, and as the one before it, as shufflefs-top
 * reads them. Nothing in it may be taken for more than it is: shares stay shares, texts stay within
 * the screen. With FUZZ_SEEDS=DIR some good ones are written there. */
#include "../../top/figures.h"
#include "../../top/snapshot.h"
#include "../../top/text.h"
#include "seeds.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Two readings, parted by a NUL. */
static const char before[] =
    "{\"version\":\"1\",\"uptime_s\":5.5,\"reads\":10,\"bytes\":1000,\"pushed\":5,\"hits\":7,"
    "\"storage\":{\"reads\":3,\"bytes\":4,\"direct_reads\":1,\"seconds\":0.1,\"failed\":0},"
    "\"readers\":[{\"path\":\"current/rank-0\",\"epoch\":1,\"rank\":0,\"world\":2,"
    "\"position\":5,\"length\":50,\"samples_per_s\":10.0,\"bytes_per_s\":1e6,"
    "\"in_order\":true,\"idle_s\":0.1,\"hit_rate\":0.9,\"wait_share\":0.01}],"
    "\"errors\":{\"a.tar\":1},\"warnings\":[\"memory is short\"]}";
static const char now[] =
    "{\"uptime_s\":6.5,\"reads\":20,\"bytes\":3000,\"pushed\":9,\"hits\":17,\"storage\":{},"
    "\"readers\":[{\"path\":\"current/rank-0\",\"position\":15,\"in_order\":false},{},null]}";

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    const char *folder = getenv("FUZZ_SEEDS");
    char both[sizeof before + sizeof now];

    (void)count;
    (void)arguments;
    if (!folder)
        return 0;
    memcpy(both, before, sizeof before);
    memcpy(both + sizeof before, now, sizeof now);
    seed_write(folder, "status", 0, both, sizeof both);
    return 0;
}

static void check_share(double share)
{
    if (!isnan(share) && !(share >= 0 && share <= 1))
        abort();
}

static void look(const struct snapshot *earlier, const struct snapshot *later)
{
    struct rates rates = snapshot_rates(earlier, later);
    struct top_reader *readers = NULL;
    size_t count = snapshot_readers(earlier, later, &readers);
    json_t *json = snapshot_to_json(earlier, later, "/mnt");

    check_share(rates.hit_rate);
    check_share(rates.storage_direct_share);
    for (size_t i = 0; i < count; i++) {
        check_share(readers[i].progress);
        check_share(readers[i].hit_rate);
    }
    snapshot_sum(later, "errors");
    snapshot_member(later, "errors", "a.tar");
    json_decref(json);
    free(readers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *middle = memchr(data, 0, size);
    size_t first = middle ? (size_t)(middle - data) : size;
    struct snapshot earlier = {0}, later = {0};
    bool both = snapshot_parse(&earlier, (const char *)data, first, 1) == 0;

    if (both)
        look(NULL, &earlier);
    if (middle && snapshot_parse(&later, (const char *)middle + 1, size - first - 1, 2) == 0)
        look(both ? &earlier : NULL, &later);
    snapshot_close(&earlier);
    snapshot_close(&later);
    return 0;
}
