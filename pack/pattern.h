/* The names of the shards to be written: `train-%06d.tar`. */
#ifndef SHUFFLEFS_PACK_PATTERN_H
#define SHUFFLEFS_PACK_PATTERN_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pack_pattern {
    char folder[PATH_MAX];                   /* "." where the pattern has none */
    char text[NAME_MAX];                     /* the base name as given */
    char prefix[NAME_MAX], suffix[NAME_MAX]; /* of the base name, around the number */
    int width;                               /* the number is padded with zeros to this */
};

/* Takes `%d` or `%0Wd` (W is 1 to 18) in the base name, exactly once, and no other `%`. 0 or
 * -EINVAL, reported: what is wrong with it. Looks at no file. */
int pack_pattern_parse(struct pack_pattern *pattern, const char *text);

/* The base name of a shard; `name` has PACK_NAME_MAX bytes. */
#define PACK_NAME_MAX (NAME_MAX + 1)
void pack_pattern_name(const struct pack_pattern *pattern, uint64_t number, char *name);

/* How many shards, from number 0 on, have names that sort as their numbers do. */
uint64_t pack_pattern_sorted(const struct pack_pattern *pattern);

/* Is this the base name of a shard, as pack_pattern_name() spells it? */
bool pack_pattern_number(const struct pack_pattern *pattern, const char *name, uint64_t *number);

#endif
