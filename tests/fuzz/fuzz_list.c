/* libFuzzer's entry: any bytes as a list, as a .cls, and as the names that paths are made of. */
#include "../../loader/catalog.h"
#include "../../loader/place.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct catalog *catalog;
    struct sample sample;
    struct fault fault = {""};
    char *text = malloc(size + 1);
    const char *end;
    uint64_t number;
    int64_t label;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    sample_parse_label(text, size, &label);
    place_number(text, &end, &number);
    if (strlen(sample_extension(text, true)) > strlen(sample_extension(text, false)))
        abort();
    sample_is_litter(text);
    sample_set_name(&sample, text);
    /* An empty folder: names lead nowhere, but for what the machine's root has. */
    if (catalog_open_text(&catalog, "/proc/self/fdinfo", text, size, &fault) == 0) {
        for (uint64_t i = 0; i < catalog_count(catalog); i++) {
            const char *name = catalog_name(catalog, i, &label);
            if (!*name || strlen(name) > size || label < SAMPLE_NO_LABEL)
                abort();
        }
        catalog_close(catalog);
    }
    free(text);
    return 0;
}
