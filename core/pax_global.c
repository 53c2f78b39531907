/* Looks into global headers. Owns nothing. */
#include "pax_global.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK       INDEX_HEADER_BYTES
#define SIZE_OFFSET 124
#define SIZE_LENGTH 12
#define KIND_OFFSET 156

static bool begins(const char *key, const char *with)
{
    return strncmp(key, with, strlen(with)) == 0;
}

/* Records are `LENGTH KEY=VALUE\n`; the length counts all of that. */
static bool says_much(const char *text, size_t size)
{
    const char *end = text + size;

    while (text < end) {
        char *key;
        unsigned long length = strtoul(text, &key, 10);
        if (*key++ != ' ' || length <= (size_t)(key - text) || length > (size_t)(end - text))
            return false;
        if (begins(key, "path=") || begins(key, "size=") || begins(key, "linkpath=") ||
            begins(key, "GNU.sparse."))
            return true;
        text += length;
    }
    return false;
}

bool pax_global_matters(struct shard_file *file, uint64_t from, uint64_t end)
{
    char scratch[BLOCK], digits[SIZE_LENGTH + 1] = "", text[PAX_GLOBAL_MOST + 1];
    bool matters = false;

    while (from < end && !matters) {
        const char *block = shard_file_bytes(file, from, BLOCK, scratch), *body;
        char kind = block ? block[KIND_OFFSET] : '\0';
        uint64_t size;
        if (!block)
            return false;
        memcpy(digits, block + SIZE_OFFSET, SIZE_LENGTH);
        size = strtoull(digits, NULL, 8);
        if (size > end - from) /* a member's own, of a form with more blocks behind it */
            return false;
        from += BLOCK;
        if (kind == 'g' && size && size <= end - from) {
            size_t some = size < PAX_GLOBAL_MOST ? (size_t)size : PAX_GLOBAL_MOST;
            body = shard_file_bytes(file, from, some, text);
            if (!body)
                return false;
            if (body != text)
                memcpy(text, body, some);
            text[some] = '\0';
            matters = says_much(text, some);
        }
        from += (size + BLOCK - 1) / BLOCK * BLOCK;
    }
    return matters;
}
