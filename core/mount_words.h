/* The words of mount(8) and fstab that a mount takes besides its own options: which go on to
 * libfuse, which mean nothing here, which are refused. One thread at a time. */
#ifndef SHUFFLEFS_MOUNT_WORDS_H
#define SHUFFLEFS_MOUNT_WORDS_H

struct mount_word;

/* NULL: no word of mount's. */
const struct mount_word *mount_word_find(const char *name);

/* Why the word is refused; NULL: it is not. */
const char *mount_word_refusal(const struct mount_word *word);

/* Adds the word to `options`, the comma-separated words for libfuse (NULL: none; owned by the
 * caller), or takes its opposite away: the last of two words counts, and none is there twice.
 * Returns 0 or -ENOMEM, not reported. */
int mount_word_apply(const struct mount_word *word, char **options);

#endif
