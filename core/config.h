/* What a mount is asked for: one struct, filled from an ini file (inih) and from
 * `-o key=value,...`, later settings over earlier ones. Every key and value that means nothing is
 * refused by name.
 *
 * The ini file has one section, [shufflefs] (a file without a section line is read as that
 * section). Its keys are the options of `-o`, and `shards`, which may stand several times, each one
 * name as on the command line (core/shards.h), relative to the ini file's folder; `log` likewise.
 * Any other key twice in a file is refused. `key = value` or `key: value`; a switch needs a value,
 * too (`strict = yes`); blanks before a key mean nothing. A comment is a line that starts with `;`
 * or `#`, or the rest of a line from a `;` that follows a blank: anywhere else both belong to the
 * value (a shard named `a ;b.tar` is written `a \;b.tar`). A line of more than inih's 198 bytes is
 * refused: long patterns go to a list, `shards = @FILE`.
 *
 * One thread at a time. */
#ifndef SHUFFLEFS_CONFIG_H
#define SHUFFLEFS_CONFIG_H

#include "order.h"
#include "plan.h"
#include "reader.h"
#include "shards.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum config_label {
    CONFIG_LABEL_AUTO,
    CONFIG_LABEL_CLS,
    CONFIG_LABEL_DIR,
    CONFIG_LABEL_SHARD,
    CONFIG_LABEL_JSON,
    CONFIG_LABEL_NONE,
};

#define CONFIG_LABEL_KEY_MAX 255

#define CONFIG_ID_UNSET ((uid_t)-1)

struct config {
    struct shard_list shards; /* as given by the file; the command line appends its own */
    uint64_t world;           /* 1..PLAN_WORLD_MAX; default 1 */
    uint64_t epoch;           /* 0..ORDER_EPOCH_MAX */
    struct order_spec order;  /* seed 0, torch; 0 in what was not asked for */
    struct plan_deal deal;    /* pad; `runs` and `window` by config_settle() */
    char *weights;            /* the absolute path of a file, or "balanced"; NULL: none. Owned */
    char *lengths;            /* the absolute path of a file, or "size"; NULL: none. Owned */
    char *fields;             /* as given, checked for form; NULL: all. Owned */
    enum config_label label;  /* auto */
    char *label_key;          /* of CONFIG_LABEL_JSON: dots for nested objects. Owned */
    uint64_t readahead, readahead_total; /* most bytes pushed but unread: of one reader (256M), of
                                            all (0: a quarter of memory) */
    enum reader_direct direct;           /* auto */
    uint64_t prime; /* names one listing instantiates; 0: the default for the privilege at hand */
    uid_t uid;      /* owners of the files; CONFIG_ID_UNSET: the mounting user */
    gid_t gid;
    char *unpacked; /* where compressed shards are unpacked: an absolute path, "none": nowhere;
                       NULL: the user's cache folder (core/unpack.h). Owned */
    uint64_t unpacked_size; /* most bytes there; 0: half of what is free */
    bool strict;
    bool allow_other;
    bool debug;
    char *index;         /* absolute path of the saved index, or of a folder for many; "none": in
                            memory; NULL: the user's cache folder (core/store.h). Owned */
    char *log;           /* absolute path, or NULL: syslog when in the background. Owned */
    char *mount_options; /* the rest that mount(8) understands, comma-separated, for libfuse; NULL:
                            none. Owned */
};

void config_init(struct config *config);
void config_close(struct config *config);

/* Sets one option. `value` is NULL for a bare word (`strict`); `=yes|no|true|false|1|0|on|off` is
 * taken too for switches. `origin` says where it stands ("-o", "FILE:7") and starts the message;
 * `base` is the absolute folder that relative paths start from. Returns 0, or -EINVAL (or -ENOMEM)
 * after a line that names origin, key and value, and for a value also what is allowed.
 *
 * Numbers are decimal, without sign and blanks; sizes may have K, M, G or T after them, for powers
 * of 1024.
 *   world, prime       1..2^32
 *   seed, epoch        0..2^63-1
 *   order              a name of core/order.h
 *   epoch_samples      1..2^62
 *   weights, lengths   a file, or `balanced`, or `size`; both relative to `base`
 *   bucket, window     1..2^31
 *   streams            1..2^20
 *   block              a size of at least 1
 *   remainder          pad, drop, keep; the bare word drop_last is remainder=drop (drop_last=no, as
 *                      torch's drop_last=False, is remainder=pad)
 *   fields             EXT[/EXT...][:EXT...]: no empty name, none twice, none that begins with a
 *                      dot or has blanks; lower-cased
 *   label              cls, dir, shard, json:KEY, none, auto
 *   readahead, readahead_total, unpacked_size
 *                      sizes; readahead 0: none
 *   direct             auto, always, never
 *   strict, allow_other, debug
 *                      switches
 *   uid, gid           a number or a name (getpwnam, getgrnam)
 *   log                a file; index: a file, a folder, or none; unpacked: a folder, or none
 *
 * Words of mount(8) and fstab are taken (core/mount_words.c): dev nodev suid nosuid exec noexec
 * noatime sync dirsync auto_unmount are passed on in mount_options; what is the default (rw, atime,
 * async) or unknown to libfuse 3.14 (nodiratime, norelatime and their opposites) is dropped; `ro`
 * is refused: control files would not work, and the view is read-only anyway; fsname=, subtype=,
 * max_read= are refused (the program sets them); auto noauto user users nouser owner group nofail
 * _netdev defaults default_permissions comment=... x-... are dropped silently. */
int config_set(struct config *config, const char *key, const char *value, const char *origin,
               const char *base);

/* `text` is the argument of one -o: key[=value],... ; a comma in a value is written `\,`, a
 * backslash `\\` (one before anything else stands for itself). Empty options are skipped. Errors as
 * config_set(). */
int config_set_options(struct config *config, const char *text, const char *base);

/* Reads an ini file. `path` absolute or relative to `base`. Faults name file and line; the first
 * one ends it. Returns 0 or a negative errno, reported. */
int config_read(struct config *config, const char *path, const char *base);

/* Once all is set: what the order needs of the other options, and which of them mean nothing with
 * it. Fills in what was not asked for (block=8M, window=64, streams=64). Returns 0, or -EINVAL
 * after a line that names the option. Twice is fine. */
int config_settle(struct config *config);

/* A decimal number in canonical spelling (no sign, no leading zeros but "0" itself), at most
 * `most`. Shared with the path grammar. False for anything else. */
bool config_number(const char *text, size_t length, uint64_t most, uint64_t *value);

#endif
