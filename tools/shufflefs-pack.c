/* shufflefs-pack: a folder, or shards, to tar shards. Owns nothing but its output; pack/ does the
 * work. */
#include "../core/output.h"
#include "../core/report.h"
#include "../core/version.h"
#include "../pack/run.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { EXIT_FAULT = 1, EXIT_USAGE = 2 };

static json_t *left_out_by_kind(const struct pack_summary *summary)
{
    json_t *kinds = json_object();

    for (int kind = 0; kind < INDEX_PROBLEM_KINDS; kind++)
        if (summary->left_out[kind])
            json_object_set_new(kinds, index_problem_name((enum index_problem)kind),
                                json_integer((json_int_t)summary->left_out[kind]));
    return kinds;
}

static void print_json(const struct pack_summary *summary)
{
    const struct pack_counts *counts = &summary->counts;
    json_t *root = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:f}", "shards",
        (json_int_t)summary->shards, "taken_up", (json_int_t)summary->taken_up, "samples",
        (json_int_t)counts->samples, "members", (json_int_t)counts->members, "bytes",
        (json_int_t)counts->bytes, "resized", (json_int_t)counts->resized, "converted",
        (json_int_t)counts->converted, "passed", (json_int_t)counts->passed, "labels",
        (json_int_t)counts->made, "damaged", (json_int_t)counts->damaged, "samples_left_out",
        (json_int_t)counts->samples_left_out, "pax", (json_int_t)counts->pax, "left_out",
        left_out_by_kind(summary), "seconds", summary->seconds);

    json_dumpf(root, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(root);
}

static void print_part(uint64_t count, const char *what)
{
    if (count)
        printf(", %llu %s", (unsigned long long)count, what);
}

static void print_text(const struct pack_summary *summary)
{
    const struct pack_counts *counts = &summary->counts;
    uint64_t left_out = counts->samples_left_out;

    for (int kind = 0; kind < INDEX_PROBLEM_KINDS; kind++)
        left_out += summary->left_out[kind];
    printf("%llu samples in %llu shard%s, %llu bytes, %.1f s", (unsigned long long)counts->samples,
           (unsigned long long)summary->shards, summary->shards == 1 ? "" : "s",
           (unsigned long long)counts->bytes, summary->seconds);
    print_part(summary->taken_up, "shards taken up from an earlier run");
    print_part(counts->resized, "resized");
    print_part(counts->converted, "converted");
    print_part(counts->made, "labels made");
    print_part(counts->damaged, "damaged");
    print_part(counts->pax, "with a PAX header, for a name or size that ustar cannot hold");
    print_part(left_out, "left out");
    putchar('\n');
}

/* Ends as the signal would have ended it, so that a shell's loop ends, too. */
static void die_by(int number)
{
    signal(number, SIG_DFL);
    raise(number);
}

int main(int count, char **arguments)
{
    struct pack_options options;
    struct pack_summary summary;
    int number;

    output_open();
    report_program("shufflefs-pack");
    if (!pack_options_parse(&options, count, arguments))
        return EXIT_USAGE;
    if (options.help || options.version) {
        if (options.help)
            fputs(pack_usage, stdout);
        else
            printf("shufflefs-pack %s\n", SHUFFLEFS_VERSION);
        return output_end() ? EXIT_FAULT : 0;
    }
    if (pack_run(&options, &summary, &number)) {
        if (number)
            die_by(number);
        return EXIT_FAULT;
    }
    if (options.json)
        print_json(&summary);
    else
        print_text(&summary);
    if (output_end())
        return EXIT_FAULT;
    return summary.counts.damaged ? EXIT_FAULT : 0;
}
