/* libFuzzer's entry: any bytes as a list, as a rank folder's labels, as a .cls, and as the names
 * that paths are made of. With FUZZ_SEEDS=DIR the lists to begin from are written there. */
#include "../../loader/catalog.h"
#include "../../loader/place.h"
#include "seeds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const seeds[] = {
    "n01/a.jpg 0\nn02/b.jpg 1\n",
    "# a list\n\r\n  \na b c.jpg\t12 \r\n./x.jpg\n",
    "../epoch-0/rank-0/0000.jpg 7\n../epoch-0/rank-0/0002.jpg\n../epoch-0/rank-0/0003.x 8",
    "/abs/olute.tar.gz 18446744073709551616\nx 9223372036854775807\n 5\n",
    " 42 \n",
    "18446744073709551615",
    "._a.jpg 1\n__b__ 2\n.c 3\n",
};

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    const char *folder = getenv("FUZZ_SEEDS");

    (void)count;
    (void)arguments;
    for (size_t i = 0; folder && i < sizeof seeds / sizeof *seeds; i++)
        seed_write(folder, "list", i, seeds[i], strlen(seeds[i]));
    return 0;
}

/* Of the exact size and one byte more, as the catalog asks for. */
static char *copy(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

static void check(const struct catalog *catalog, size_t size)
{
    for (uint64_t i = 0; i < catalog_count(catalog); i++) {
        int64_t label;
        const char *name = catalog_name(catalog, i);

        if (!*name || strlen(name) > size || !catalog_knows_label(catalog, i, &label))
            abort();
    }
}

/* Each line that is not empty and no remark is a sample: none is lost. */
static uint64_t count_lines(const uint8_t *data, size_t size)
{
    uint64_t lines = 0;

    for (size_t at = 0; at < size; at++) {
        bool blank = true, remark = data[at] == '#';

        for (; at < size && data[at] != '\n'; at++)
            blank &= data[at] == ' ' || data[at] == '\t' || data[at] == '\r';
        lines += !blank && !remark;
    }
    return lines;
}

static void check_words(const char *text, size_t size)
{
    struct sample sample;
    const char *end;
    uint64_t number;
    int64_t label;

    sample_parse_label(text, size, &label);
    place_number(text, &end, &number);
    if (strlen(sample_extension(text, true)) > strlen(sample_extension(text, false)))
        abort();
    sample_is_litter(text);
    sample_set_name(&sample, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct catalog *catalog;
    struct fault fault = {""};
    char *text = copy(data, size), *labels;
    int error;

    check_words(text, size);
    /* An empty folder: names lead nowhere, but for what the machine's root has. */
    error = catalog_open_text(&catalog, "/proc/self/fdinfo", text, size, &fault);
    free(text);
    if (error) {
        if (error > 0 || !fault.text[0])
            abort();
        return 0;
    }
    if (catalog_count(catalog) != count_lines(data, size))
        abort();
    check(catalog, size);
    /* The list's own lines, some of them passed over, as labels of what it lists. */
    labels = copy(data + size / 3, size - size / 3);
    catalog_take_labels(catalog, labels, size - size / 3);
    free(labels);
    check(catalog, size);
    catalog_close(catalog);
    return 0;
}
