/* What the read-ahead's threads are reading from the shards right now, so that a READ which asks
 * for the same waits for those bytes instead of reading them a second time: the other read began
 * first, and on storage that is busy or slow both would take longer.
 *
 * A thread of the read-ahead waits for nothing of ours but storage while its flight is in the air,
 * so who waits for it waits no longer than storage takes. A flight has a slot, one a thread. */
#ifndef SHUFFLEFS_FLIGHTS_H
#define SHUFFLEFS_FLIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct flights;

int flights_open(struct flights **out, unsigned slots);
void flights_close(struct flights *flights); /* NULL is fine; nobody may be using it */

/* A thread starts to read: files of the members [first, end), or a piece of a stream. */
void flights_start_members(struct flights *flights, unsigned slot, uint64_t first, uint64_t end);
void flights_start_piece(struct flights *flights, unsigned slot, uint64_t inode, uint64_t from,
                         size_t size);
/* The bytes are there: all of these members' files; the piece's. They stay until flights_end(), and
 * so do the arrays. */
void flights_land_members(struct flights *flights, unsigned slot, const uint64_t *members,
                          char *const *data, const uint64_t *sizes, size_t count);
void flights_land_piece(struct flights *flights, unsigned slot, const char *data);
/* Whether somebody took all bytes of a member, or of the piece: then they need no pushing. */
bool flights_took_member(struct flights *flights, unsigned slot, size_t which);
bool flights_took_piece(struct flights *flights, unsigned slot);
/* The bytes go, or never came; waits for those who are copying them. */
void flights_end(struct flights *flights, unsigned slot);

/* Copies the bytes of a member's file, whose pages are about to be dropped: the next READ of it is
 * answered from here, for storage may not answer. The last FLIGHTS_KEPT are kept. Returns success.
 */
#define FLIGHTS_KEPT 8
bool flights_keep(struct flights *flights, uint64_t member, const char *data, size_t size);

/* Up to `size` bytes of a member's file, or exactly `size` of a stream, from byte `from` on, if
 * they are in the air: waits for them. -1 or false: they are not, or did not come. */
ssize_t flights_take_member(struct flights *flights, uint64_t member, char *buffer, size_t size,
                            uint64_t from);
bool flights_take_piece(struct flights *flights, uint64_t inode, char *buffer, size_t size,
                        uint64_t from);

#endif
