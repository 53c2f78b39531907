/* shufflefs-bench: measures what a training job would see. Each subcommand is a module of its own,
 * in measure/. */
#include "../measure/load.h"
#include "../measure/read.h"

#include "../core/output.h"
#include "../core/report.h"
#include "../core/version.h"

#include <stdio.h>
#include <string.h>

enum { EXIT_FAULT = 1, EXIT_USAGE = 2 };

static const struct {
    const char *name, *summary;
    int (*run)(int count, char **arguments);
} commands[] = {
    {"read", "measure reading a mount, a folder, a tar", read_command},
    {"load", "measure loading: decoding, batches, and what limits it", load_command},
};

static void print_help(void)
{
    fputs("usage: shufflefs-bench COMMAND [OPTION]... PATH...\n\n", stdout);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        printf("  %-8s %s\n", commands[i].name, commands[i].summary);
    fputs("\n"
          "`shufflefs-bench COMMAND --help` tells more.\n"
          "  -h, --help         this help        -V, --version   the version\n",
          stdout);
}

int main(int count, char **arguments)
{
    const char *command = count > 1 ? arguments[1] : "";

    output_open();
    report_program("shufflefs-bench");
    if (strcmp(command, "-h") == 0 || strcmp(command, "--help") == 0) {
        print_help();
        return output_end() ? EXIT_FAULT : 0;
    }
    if (strcmp(command, "-V") == 0 || strcmp(command, "--version") == 0) {
        printf("shufflefs-bench %s\n", SHUFFLEFS_VERSION);
        return output_end() ? EXIT_FAULT : 0;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(command, commands[i].name) == 0)
            return commands[i].run(count - 1, arguments + 1);
    if (*command)
        report_error("%s: there is no such command; `shufflefs-bench --help` lists them", command);
    else
        report_error("no command given; `shufflefs-bench --help` lists them");
    return EXIT_USAGE;
}
