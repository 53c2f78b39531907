/* Tar headers by libarchive's writers, one archive for each: a writer cannot change from ustar to
 * PAX in between. Making one takes a few microseconds. */
#include "header.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS_MOST INT64_C(077777777777) /* eleven octal digits */

static la_ssize_t gather(struct archive *archive, void *context, const void *bytes, size_t size)
{
    struct pack_header *header = context;

    if (header->whole)
        return (la_ssize_t)size;
    if (header->size + size > header->room) {
        size_t room = (header->size + size) * 2;
        uint8_t *larger = realloc(header->bytes, room);
        if (!larger) {
            archive_set_error(archive, ENOMEM, "out of memory");
            return -1;
        }
        header->bytes = larger;
        header->room = room;
    }
    memcpy(header->bytes + header->size, bytes, size);
    header->size += size;
    return (la_ssize_t)size;
}

/* 0; -ENOMEM; -EINVAL: this format cannot hold it. */
static int write_header(struct pack_header *header, struct archive_entry *entry,
                        int (*format)(struct archive *))
{
    struct archive *archive = archive_write_new();
    int fault = 0, result;

    if (!archive)
        return -ENOMEM;
    header->size = 0;
    header->whole = false;
    format(archive);
    /* Every write comes at once: nothing is held back for a block of its own. */
    archive_write_set_bytes_per_block(archive, 0);
    result = archive_write_open2(archive, header, NULL, gather, NULL, NULL);
    if (result == ARCHIVE_OK)
        result = archive_write_header(archive, entry);
    /* ARCHIVE_WARN: a name that is no UTF-8 stands in the PAX header as it is. */
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN) {
        fault = archive_errno(archive) == ENOMEM ? -ENOMEM : -EINVAL;
        snprintf(header->why, sizeof header->why, "%s",
                 archive_error_string(archive) ? archive_error_string(archive) : "no reason told");
    }
    /* The member's bytes are ours to write. libarchive now fills it up with zeros, which nobody
     * keeps: a microsecond for a picture, 50 ms for 9 GiB. archive_write_fail(), which would end it
     * at once, leaks memory in libarchive 3.6. */
    header->whole = true;
    archive_write_free(archive);
    return fault;
}

/* A name with other letters than ASCII's: in the C locale libarchive puts it into a PAX header as
 * bytes of no known character set, `hdrcharset=BINARY`, which GNU tar does not know. In a UTF-8
 * locale, of this thread alone, it is UTF-8 where it is valid. Where there is no such locale,
 * BINARY it is. */
static int write_pax(struct pack_header *header, struct archive_entry *entry)
{
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0), before = (locale_t)0;
    int fault;

    if (utf8)
        before = uselocale(utf8);
    fault = write_header(header, entry, archive_write_set_format_pax_restricted);
    if (utf8) {
        uselocale(before);
        freelocale(utf8);
    }
    return fault;
}

int pack_header_make(struct pack_header *header, const char *name, uint64_t size, int64_t seconds)
{
    struct archive_entry *entry = archive_entry_new();
    int fault;

    if (!entry)
        return -ENOMEM;
    if (seconds < 0)
        seconds = 0;
    if (seconds > SECONDS_MOST)
        seconds = SECONDS_MOST;
    archive_entry_set_pathname(entry, name);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, (la_int64_t)size);
    archive_entry_set_mtime(entry, (time_t)seconds, 0);
    fault = write_header(header, entry, archive_write_set_format_ustar);
    header->pax = fault == -EINVAL;
    if (header->pax)
        fault = write_pax(header, entry);
    archive_entry_free(entry);
    return fault;
}

void pack_header_close(struct pack_header *header)
{
    free(header->bytes);
}

uint64_t pack_blocks(uint64_t bytes)
{
    return (bytes + PACK_BLOCK - 1) / PACK_BLOCK * PACK_BLOCK;
}
