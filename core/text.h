/* Numbers and file names as people read them. */
#ifndef SHUFFLEFS_TEXT_H
#define SHUFFLEFS_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TEXT_NUMBER 40

/* Whole, with a comma between thousands. Returns `text`, which has room for TEXT_NUMBER bytes. */
char *text_count(char *text, uint64_t value);

/* Three digits that count, or whole with commas from 100 up; `-` for what is no number. */
char *text_number(char *text, double value);

/* Copies a name, cut to fit `room`, with `?` for control characters and for bytes that are no
 * UTF-8: fit for a terminal, JSON and XML. Returns `text`. */
char *text_name(char *text, size_t room, const char *name);

/* Writes a name, as text_name() shows it and of at most TEXT_XML bytes, as the text of an XML
 * element or attribute. */
void text_write_xml(FILE *file, const char *name);
#define TEXT_XML 99

#endif
