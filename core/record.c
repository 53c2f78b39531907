/* The records of an index. */
#include "record.h"

#include <xxhash.h>

static const char *const problem_names[INDEX_PROBLEM_KINDS] = {
    [INDEX_LITTER] = "litter",
    [INDEX_METADATA] = "metadata",
    [INDEX_NO_EXTENSION] = "no-extension",
    [INDEX_LONG_EXTENSION] = "long-extension",
    [INDEX_UNSAFE_PATH] = "unsafe-path",
    [INDEX_SPLIT_SAMPLE] = "split-sample",
    [INDEX_DUPLICATE_FIELD] = "duplicate-field",
    [INDEX_LINK] = "link",
    [INDEX_NOT_A_FILE] = "not-a-file",
    [INDEX_SPARSE] = "sparse",
    [INDEX_EMPTY] = "empty",
    [INDEX_TRUNCATED] = "truncated",
    [INDEX_CORRUPT_HEADER] = "corrupt-header",
    [INDEX_GLOBAL_HEADER] = "global-header",
    [INDEX_NO_TRAILER] = "no-trailer",
    [INDEX_LONE_ZERO_BLOCK] = "lone-zero-block",
    [INDEX_TRAILING_DATA] = "trailing-data",
    [INDEX_COMPRESSED] = "compressed",
    [INDEX_CORRUPT_STREAM] = "corrupt-stream",
    [INDEX_NOT_A_TAR] = "not-a-tar",
    [INDEX_FIELD_MISSING] = "field-missing",
    [INDEX_NO_LABEL] = "no-label",
};

const char *index_problem_name(enum index_problem problem)
{
    return problem_names[problem];
}

uint16_t index_header_check(const void *header)
{
    return (uint16_t)XXH3_64bits(header, INDEX_HEADER_BYTES);
}
