/* Standard output. Owns nothing but what stands in for streams that were closed. */
#include "output.h"

#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void output_open(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        /* Reading only: a write says EBADF, as to the closed one. */
        int mode = fd == STDOUT_FILENO ? O_RDONLY : O_RDWR;
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", mode) < 0)
            return; /* Nothing can be opened, so nothing takes its number. */
    }
}

int output_flush(void)
{
    bool lost = ferror(stdout);

    if (fflush(stdout) == 0 && !lost)
        return 0;
    return errno ? -errno : -EIO;
}

int output_complain(int fault)
{
    report_error("standard output: %s", fault == -EBADF ? "it is closed" : strerror(-fault));
    return fault;
}

int output_end(void)
{
    int fault = output_flush();

    return fault == 0 || fault == -EPIPE ? 0 : output_complain(fault);
}
