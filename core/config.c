/* Options (see config.h): one table of keys, each with what sets it. It owns the
 * strings of struct config; it knows no FUSE, and checks no more than one value by itself. */
#include "config.h"

#include "config_keys.h"
#include "mount_words.h"
#include "report.h"
#include "store.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SEED_MAX  (((uint64_t)1 << 63) - 1)
#define PRIME_MAX ((uint64_t)1 << 32)
/* Of options of orders; far above what makes sense, and no sum of them overflows. */
#define BUCKET_MAX  ((uint64_t)1 << 31)
#define WINDOW_MAX  ((uint64_t)1 << 31)
#define STREAMS_MAX ((uint64_t)1 << 20)

struct setting;

struct key {
    const char *name;
    const char *sets; /* the key of the same thing: what an ini file may set once */
    int (*set)(struct config *config, const struct setting *setting);
    size_t field;         /* of struct config, for set_number (uint64_t) and set_switch (bool) */
    uint64_t least, most; /* for set_number and set_size */
};

/* One key=value, and where it stands. */
struct setting {
    const char *name;
    const char *value; /* NULL: a bare word */
    const char *origin;
    const char *base;
    const struct key *key; /* NULL: not one of ours */
};

__attribute__((format(printf, 2, 3))) static int refuse(const struct setting *setting,
                                                        const char *format, ...)
{
    char *text = NULL;
    va_list arguments;

    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        text = NULL;
    va_end(arguments);
    report_error("%s: %s%s%s: %s", setting->origin, setting->name,
                 setting->value != NULL ? "=" : "", setting->value != NULL ? setting->value : "",
                 text != NULL ? text : strerror(ENOMEM));
    free(text);
    return -EINVAL;
}

static int refuse_memory(const struct setting *setting)
{
    report_error("%s: %s: %s", setting->origin, setting->name, strerror(ENOMEM));
    return -ENOMEM;
}

bool config_number(const char *text, size_t length, uint64_t most, uint64_t *value)
{
    uint64_t number = 0;

    if (length == 0 || (text[0] == '0' && length > 1))
        return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(text[i] - '0'), &number))
            return false;
    }
    if (number > most)
        return false;
    *value = number;
    return true;
}

#define SIZE_MOST ((uint64_t)1 << 50)

static int set_number(struct config *config, const struct setting *setting)
{
    const char *value = setting->value;
    const struct key *key = setting->key;
    uint64_t number;

    if (value == NULL || !config_number(value, strlen(value), key->most, &number) ||
        number < key->least)
        return refuse(setting,
                      "takes a decimal number from %" PRIu64 " to %" PRIu64
                      ", without sign or leading zeros",
                      key->least, key->most);
    memcpy((char *)config + key->field, &number, sizeof number);
    return 0;
}

/* A size: a number with K, M, G or T after it for powers of 1024. */
static int set_size(struct config *config, const struct setting *setting)
{
    static const char units[] = "KMGT";
    const char *value = setting->value ? setting->value : "";
    size_t length = strlen(value);
    const char *unit = length ? strchr(units, toupper((unsigned char)value[length - 1])) : NULL;
    unsigned shift = unit && *unit ? 10 * (unsigned)(unit - units + 1) : 0;
    uint64_t number;

    if (!config_number(value, length - (shift != 0), setting->key->most >> shift, &number) ||
        number << shift < setting->key->least)
        return refuse(setting, setting->key->least
                                   ? "takes a size: a decimal number above 0, with K, M, G or T "
                                     "after it"
                                   : "takes a size: a decimal number, with K, M, G or T after it");
    number <<= shift;
    memcpy((char *)config + setting->key->field, &number, sizeof number);
    return 0;
}

static int read_switch(const struct setting *setting, bool *on)
{
    static const struct {
        const char *word;
        bool on;
    } words[] = {{"yes", true}, {"no", false}, {"true", true}, {"false", false},
                 {"1", true},   {"0", false},  {"on", true},   {"off", false}};

    if (setting->value == NULL) {
        *on = true;
        return 0;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(setting->value, words[i].word) == 0) {
            *on = words[i].on;
            return 0;
        }
    }
    return refuse(setting, "takes yes or no (true, false, on, off, 1, 0), or nothing for yes");
}

static int set_switch(struct config *config, const struct setting *setting)
{
    return read_switch(setting, (bool *)((char *)config + setting->key->field));
}

static int set_order(struct config *config, const struct setting *setting)
{
    const char *value = setting->value;
    enum order_kind kind;

    if (value == NULL || !order_kind_from(value, &kind))
        return refuse(setting, "takes torch, sequential, contiguous, weighted, resampled, block, "
                               "feistel or length");
    config->order.kind = kind;
    return 0;
}

static int set_remainder(struct config *config, const struct setting *setting)
{
    if (setting->value != NULL && plan_remainder_from(setting->value, &config->deal.remainder))
        return 0;
    return refuse(setting, "takes pad, drop or keep");
}

/* torch's own switch: drop_last=False is padding. */
static int set_drop_last(struct config *config, const struct setting *setting)
{
    bool on;
    int error = read_switch(setting, &on);

    if (error == 0)
        config->deal.remainder = on ? PLAN_DROP : PLAN_PAD;
    return error;
}

/* One of some words; false: none of them. */
struct choice {
    const char *word;
    int means;
};

static bool choose(const struct setting *setting, const struct choice *choices, size_t count,
                   int *chosen)
{
    for (size_t i = 0; setting->value != NULL && i < count; i++) {
        if (strcmp(setting->value, choices[i].word) == 0) {
            *chosen = choices[i].means;
            return true;
        }
    }
    return false;
}

/* NAME or NAME.NAME..., for an object's value and for those of objects in it. */
static int set_label_key(struct config *config, const struct setting *setting, const char *key)
{
    size_t length = strlen(key);

    if (length == 0 || key[0] == '.' || key[length - 1] == '.' || strstr(key, "..") != NULL)
        return refuse(setting, "takes a key behind json:, and a name on each side of its dots");
    if (length > CONFIG_LABEL_KEY_MAX)
        return refuse(setting, "takes a key of at most %d bytes", CONFIG_LABEL_KEY_MAX);
    char *copy = strdup(key);
    if (copy == NULL)
        return refuse_memory(setting);
    free(config->label_key);
    config->label_key = copy;
    config->label = CONFIG_LABEL_JSON;
    return 0;
}

static int set_label(struct config *config, const struct setting *setting)
{
    static const struct choice labels[] = {{"auto", CONFIG_LABEL_AUTO},
                                           {"cls", CONFIG_LABEL_CLS},
                                           {"dir", CONFIG_LABEL_DIR},
                                           {"shard", CONFIG_LABEL_SHARD},
                                           {"none", CONFIG_LABEL_NONE}};
    const char *value = setting->value;
    int chosen;

    if (choose(setting, labels, sizeof labels / sizeof labels[0], &chosen)) {
        config->label = (enum config_label)chosen;
        return 0;
    }
    if (value != NULL && strncmp(value, "json:", 5) == 0)
        return set_label_key(config, setting, value + 5);
    return refuse(setting, "takes cls, dir, shard, json:KEY, none or auto");
}

static int set_direct(struct config *config, const struct setting *setting)
{
    static const struct choice ways[] = {{"auto", READER_DIRECT_AUTO},
                                         {"always", READER_DIRECT_ALWAYS},
                                         {"never", READER_DIRECT_NEVER}};
    int chosen;

    if (!choose(setting, ways, sizeof ways / sizeof ways[0], &chosen))
        return refuse(setting, "takes auto, always or never");
    config->direct = (enum reader_direct)chosen;
    return 0;
}

/* What is wrong with the field name at name[0..length), NULL: nothing. `before` are those already
 * seen, each with a separator behind it. */
static const char *field_fault(const char *name, size_t length, const char *before)
{
    if (length == 0)
        return "one of the names is empty";
    if (name[0] == '.')
        return "a name starts with a dot: jpg, not .jpg";
    for (size_t i = 0; i < length; i++) {
        if (isspace((unsigned char)name[i]))
            return "a name has a blank";
    }
    for (const char *other = before; other < name; other += strcspn(other, "/:") + 1) {
        if (strcspn(other, "/:") == length && memcmp(other, name, length) == 0)
            return "a name is there twice";
    }
    return NULL;
}

static const char *fields_fault(const char *fields)
{
    const char *name = fields;

    while (true) {
        size_t length = strcspn(name, "/:");
        const char *fault = field_fault(name, length, fields);
        if (fault != NULL || name[length] == '\0')
            return fault;
        name += length + 1;
    }
}

static int set_fields(struct config *config, const struct setting *setting)
{
    static const char form[] = "takes names as in jpg/jpeg/png:cls";

    if (setting->value == NULL)
        return refuse(setting, "%s", form);
    char *fields = strdup(setting->value);
    if (fields == NULL)
        return refuse_memory(setting);
    for (char *byte = fields; *byte != '\0'; byte++) {
        if (*byte >= 'A' && *byte <= 'Z')
            *byte = (char)(*byte - 'A' + 'a');
    }
    const char *fault = fields_fault(fields);
    if (fault != NULL) {
        free(fields);
        return refuse(setting, "%s; %s", fault, form);
    }
    free(config->fields);
    config->fields = fields;
    return 0;
}

/* `found` is the id of the user or group of that name, CONFIG_ID_UNSET: there is none. */
static int read_id(const struct setting *setting, const char *what, uid_t found, uid_t *id)
{
    const char *value = setting->value;
    uint64_t number;

    if (value != NULL && config_number(value, strlen(value), CONFIG_ID_UNSET - 1, &number))
        *id = (uid_t)number;
    else if (found != CONFIG_ID_UNSET)
        *id = found;
    else
        return refuse(setting, "takes the name of a %s of this machine, or a number up to %u", what,
                      CONFIG_ID_UNSET - 1);
    return 0;
}

static int set_uid(struct config *config, const struct setting *setting)
{
    const struct passwd *user = setting->value != NULL ? getpwnam(setting->value) : NULL;

    return read_id(setting, "user", user != NULL ? user->pw_uid : CONFIG_ID_UNSET, &config->uid);
}

static int set_gid(struct config *config, const struct setting *setting)
{
    const struct group *group = setting->value != NULL ? getgrnam(setting->value) : NULL;

    return read_id(setting, "group", group != NULL ? group->gr_gid : CONFIG_ID_UNSET, &config->gid);
}

char *config_absolute(const char *base, const char *path)
{
    char *joined;

    if (path[0] == '/')
        return strdup(path);
    const char *slash = base[0] != '\0' && base[strlen(base) - 1] == '/' ? "" : "/";
    return asprintf(&joined, "%s%s%s", base, slash, path) < 0 ? NULL : joined;
}

/* Sets `*to` to the absolute path that the value is. */
static int set_path(const struct setting *setting, const char *what, char **to)
{
    if (setting->value == NULL || setting->value[0] == '\0')
        return refuse(setting, "takes the path of a %s", what);
    char *path = config_absolute(setting->base, setting->value);
    if (path == NULL)
        return refuse_memory(setting);
    free(*to);
    *to = path;
    return 0;
}

/* A path, or a word; a file that is called so is `./WORD`. */
static int set_path_or(const struct setting *setting, const char *word, const char *what, char **to)
{
    if (setting->value == NULL || strcmp(setting->value, word) != 0)
        return set_path(setting, what, to);
    char *copy = strdup(setting->value);
    if (copy == NULL)
        return refuse_memory(setting);
    free(*to);
    *to = copy;
    return 0;
}

static int set_log(struct config *config, const struct setting *setting)
{
    return set_path(setting, "file", &config->log);
}

static int set_index(struct config *config, const struct setting *setting)
{
    return set_path_or(setting, STORE_NONE, "file, of a folder, or " STORE_NONE, &config->index);
}

static int set_unpacked(struct config *config, const struct setting *setting)
{
    return set_path_or(setting, "none", "folder, or none", &config->unpacked);
}

static int set_weights(struct config *config, const struct setting *setting)
{
    return set_path_or(setting, "balanced", "file, or balanced", &config->weights);
}

static int set_lengths(struct config *config, const struct setting *setting)
{
    return set_path_or(setting, "size", "file, or size", &config->lengths);
}

static const struct key keys[] = {
    {"world", "world", set_number, offsetof(struct config, world), 1, PLAN_WORLD_MAX},
    {"seed", "seed", set_number, offsetof(struct config, order.seed), 0, SEED_MAX},
    {"epoch", "epoch", set_number, offsetof(struct config, epoch), 0, ORDER_EPOCH_MAX},
    {"order", "order", set_order, 0, 0, 0},
    {"remainder", "remainder", set_remainder, 0, 0, 0},
    {"drop_last", "remainder", set_drop_last, 0, 0, 0},
    {"epoch_samples", "epoch_samples", set_number, offsetof(struct config, order.epoch_samples), 1,
     ORDER_SAMPLES_MAX},
    {"weights", "weights", set_weights, 0, 0, 0},
    {"lengths", "lengths", set_lengths, 0, 0, 0},
    {"bucket", "bucket", set_number, offsetof(struct config, order.bucket), 1, BUCKET_MAX},
    {"block", "block", set_size, offsetof(struct config, order.block), 1, SIZE_MOST},
    {"window", "window", set_number, offsetof(struct config, order.window), 1, WINDOW_MAX},
    {"streams", "streams", set_number, offsetof(struct config, order.streams), 1, STREAMS_MAX},
    {"fields", "fields", set_fields, 0, 0, 0},
    {"label", "label", set_label, 0, 0, 0},
    {"prime", "prime", set_number, offsetof(struct config, prime), 1, PRIME_MAX},
    {"readahead", "readahead", set_size, offsetof(struct config, readahead), 0, SIZE_MOST},
    {"readahead_total", "readahead_total", set_size, offsetof(struct config, readahead_total), 0,
     SIZE_MOST},
    {"direct", "direct", set_direct, 0, 0, 0},
    {"unpacked", "unpacked", set_unpacked, 0, 0, 0},
    {"unpacked_size", "unpacked_size", set_size, offsetof(struct config, unpacked_size), 0,
     SIZE_MOST},
    {"strict", "strict", set_switch, offsetof(struct config, strict), 0, 0},
    {"uid", "uid", set_uid, 0, 0, 0},
    {"gid", "gid", set_gid, 0, 0, 0},
    {"allow_other", "allow_other", set_switch, offsetof(struct config, allow_other), 0, 0},
    {"debug", "debug", set_switch, offsetof(struct config, debug), 0, 0},
    {"log", "log", set_log, 0, 0, 0},
    {"index", "index", set_index, 0, 0, 0},
};
#define KEY_COUNT (sizeof keys / sizeof keys[0])
_Static_assert(KEY_COUNT <= CONFIG_KEYS_MOST, "each key has its place in a file's list");

static const struct key *find_key(const char *name)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (strcmp(keys[i].name, name) == 0)
            return &keys[i];
    }
    return NULL;
}

const char *config_sets(const char *name, size_t *number)
{
    const struct key *key = find_key(name);

    if (key == NULL)
        return NULL;
    *number = (size_t)(find_key(key->sets) - keys);
    return key->sets;
}

/* Letters to insert, delete or change from one word to the other; `b` has at most 15. */
static size_t distance(const char *a, const char *b)
{
    size_t row[16], length = strlen(b);

    for (size_t i = 0; i <= length; i++)
        row[i] = i;
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < length; j++) {
            size_t change = diagonal + (a[i] != b[j]);
            size_t shift = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;
            diagonal = row[j + 1];
            row[j + 1] = change < shift ? change : shift;
        }
    }
    return row[length];
}

static int refuse_key(const struct setting *setting)
{
    const char *nearest = NULL;
    size_t least = 3; /* further away is another word */

    for (size_t i = 0; i < KEY_COUNT && strlen(setting->name) < 16; i++) {
        size_t away = distance(setting->name, keys[i].name);
        if (away < least && away < strlen(keys[i].name) - 1) {
            least = away;
            nearest = keys[i].name;
        }
    }
    if (strcmp(setting->name, "shards") == 0)
        report_error("%s: shards: is not an option but an argument, or a key of an ini file",
                     setting->origin);
    else if (nearest != NULL)
        report_error("%s: %s: there is no such option; did you mean %s?", setting->origin,
                     setting->name, nearest);
    else
        report_error("%s: %s: there is no such option (see shufflefs --help)", setting->origin,
                     setting->name);
    return -EINVAL;
}

static int set_mount_word(struct config *config, const struct mount_word *word,
                          const struct setting *setting)
{
    const char *refusal = mount_word_refusal(word);
    bool on;

    if (refusal != NULL)
        return refuse(setting, "%s", refusal);
    if (read_switch(setting, &on) < 0)
        return -EINVAL;
    if (!on)
        return refuse(setting, "leave it out instead");
    return mount_word_apply(word, &config->mount_options) < 0 ? refuse_memory(setting) : 0;
}

void config_init(struct config *config)
{
    *config = (struct config){
        .world = 1,
        .order = {.kind = ORDER_TORCH},
        .deal = {.remainder = PLAN_PAD},
        .label = CONFIG_LABEL_AUTO,
        .readahead = (uint64_t)256 << 20,
        .uid = CONFIG_ID_UNSET,
        .gid = CONFIG_ID_UNSET,
    };
}

void config_close(struct config *config)
{
    shards_close(&config->shards);
    free(config->weights);
    free(config->lengths);
    free(config->fields);
    free(config->label_key);
    free(config->index);
    free(config->unpacked);
    free(config->log);
    free(config->mount_options);
    config_init(config);
}

int config_set(struct config *config, const char *key, const char *value, const char *origin,
               const char *base)
{
    const struct key *known = find_key(key);
    const struct mount_word *word = mount_word_find(key);
    struct setting setting = {key, value, origin, base, known};

    if (known != NULL)
        return known->set(config, &setting);
    if (word != NULL)
        return set_mount_word(config, word, &setting);
    /* Notes in fstab, for others. */
    if (strcmp(key, "comment") == 0 || strncmp(key, "x-", 2) == 0)
        return 0;
    return refuse_key(&setting);
}

int config_set_options(struct config *config, const char *text, const char *base)
{
    char *option = malloc(strlen(text) + 1);
    int error = 0;

    if (option == NULL) {
        report_error("-o: %s", strerror(ENOMEM));
        return -ENOMEM;
    }
    while (*text != '\0' && error == 0) {
        char *out = option;
        for (; *text != '\0' && *text != ','; text++) {
            if (text[0] == '\\' && (text[1] == ',' || text[1] == '\\'))
                text++;
            *out++ = *text;
        }
        *out = '\0';
        text += *text == ',';
        if (option[0] == '\0')
            continue;
        char *value = strchr(option, '=');
        if (value != NULL)
            *value++ = '\0';
        error = config_set(config, option, value, "-o", base);
    }
    free(option);
    return error;
}
