/* The table of mount's words (see mount_words.h) and the list that libfuse is given. It owns
 * neither that list nor any other state, and reports nothing. */
#include "mount_words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum word_use {
    WORD_PASS, /* to libfuse */
    WORD_DROP, /* the default, or nothing that libfuse 3.14 knows or this view has */
    WORD_REFUSE
};

struct mount_word {
    const char *word;
    const char *opposite; /* NULL: none; of a WORD_REFUSE: why */
    enum word_use use;
};

static const struct mount_word mount_words[] = {
    {"dev", "nodev", WORD_PASS},
    {"nodev", "dev", WORD_PASS},
    {"suid", "nosuid", WORD_PASS},
    {"nosuid", "suid", WORD_PASS},
    {"exec", "noexec", WORD_PASS},
    {"noexec", "exec", WORD_PASS},
    {"noatime", "atime", WORD_PASS},
    {"atime", "noatime", WORD_DROP},
    {"sync", "async", WORD_PASS},
    {"async", "sync", WORD_DROP},
    {"dirsync", NULL, WORD_PASS},
    {"auto_unmount", NULL, WORD_PASS},
    {"diratime", NULL, WORD_DROP},
    {"nodiratime", NULL, WORD_DROP},
    {"relatime", NULL, WORD_DROP},
    {"norelatime", NULL, WORD_DROP},
    {"rw", NULL, WORD_DROP},
    {"auto", NULL, WORD_DROP},
    {"noauto", NULL, WORD_DROP},
    {"user", NULL, WORD_DROP},
    {"users", NULL, WORD_DROP},
    {"nouser", NULL, WORD_DROP},
    {"owner", NULL, WORD_DROP},
    {"group", NULL, WORD_DROP},
    {"nofail", NULL, WORD_DROP},
    {"_netdev", NULL, WORD_DROP},
    {"defaults", NULL, WORD_DROP},
    {"default_permissions", NULL, WORD_DROP},
    {"ro", "the files are read-only anyway, and the control files must be written", WORD_REFUSE},
    {"fsname", "the program sets it", WORD_REFUSE},
    {"subtype", "the program sets it", WORD_REFUSE},
    {"max_read", "the program sets it", WORD_REFUSE},
};

const struct mount_word *mount_word_find(const char *name)
{
    for (size_t i = 0; i < sizeof mount_words / sizeof mount_words[0]; i++) {
        if (strcmp(mount_words[i].word, name) == 0)
            return &mount_words[i];
    }
    return NULL;
}

const char *mount_word_refusal(const struct mount_word *word)
{
    return word->use == WORD_REFUSE ? word->opposite : NULL;
}

/* The comma-separated `words` without `word`, in place. */
static void remove_word(char *words, const char *word)
{
    size_t length = strlen(word);
    char *out = words;

    for (char *at = words; *at != '\0';) {
        size_t here = strcspn(at, ",");
        char *next = at + here + (at[here] == ',');
        if (here != length || memcmp(at, word, length) != 0) {
            if (out > words)
                *out++ = ',';
            memmove(out, at, here);
            out += here;
        }
        at = next;
    }
    *out = '\0';
}

int mount_word_apply(const struct mount_word *word, char **options)
{
    char *longer;

    if (*options != NULL) {
        remove_word(*options, word->word);
        if (word->opposite != NULL)
            remove_word(*options, word->opposite);
    }
    const char *kept = *options != NULL ? *options : "";
    const char *added = word->use == WORD_PASS ? word->word : "";
    const char *comma = kept[0] != '\0' && added[0] != '\0' ? "," : "";
    if (kept[0] == '\0' && added[0] == '\0')
        longer = NULL;
    else if (asprintf(&longer, "%s%s%s", kept, comma, added) < 0)
        return -ENOMEM;
    free(*options);
    *options = longer;
    return 0;
}
