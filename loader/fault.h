/* The text of an error, made once where the fault is seen, and carried to whoever asks. Owns
 * nothing; a fault belongs to one thread at a time. */
#ifndef SHUFFLELOAD_FAULT_H
#define SHUFFLELOAD_FAULT_H

struct fault {
    char text[512];
};

/* Writes the text (cut where it is too long) and returns `code`. `fault` may be NULL. */
int fault_set(struct fault *fault, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for -errno on a file: "PATH: No such file or directory". */
int fault_file(struct fault *fault, int code, const char *path);

/* What an errno means; the same text for every thread. */
const char *fault_meaning(int code);

#endif
