/* How fast a reader goes. Owns nothing. */
#include "pace.h"

void pace_begin(struct pace *pace, uint64_t now)
{
    *pace = (struct pace){.met = now, .rated = now, .hit_rate = -1};
}

void pace_pass(struct pace *pace, uint64_t samples, uint64_t files, uint64_t bytes)
{
    pace->sums.samples += samples;
    pace->sums.files += files;
    pace->sums.bytes += bytes;
}

static void start_anew(struct pace *pace, uint64_t now)
{
    pace->rated = now;
    pace->at_rated = pace->sums;
}

void pace_meet(struct pace *pace, uint64_t now)
{
    struct pace_sums *sums = &pace->sums, *last = &pace->at_rated;
    double seconds = (double)(now - pace->rated) / 1e9;
    uint64_t files = sums->files - last->files, missed = sums->missed - last->missed;

    if (now - pace->met > PACE_PAUSE_NS) {
        start_anew(pace, now);
    } else if (now - pace->rated >= PACE_RATE_NS) {
        pace->samples_per_s = (double)(sums->samples - last->samples) / seconds;
        pace->bytes_per_s = (double)(sums->bytes - last->bytes) / seconds;
        /* A file is asked for before it is passed, so that at most all of them are missed. */
        if (files)
            pace->hit_rate = missed < files ? (double)(files - missed) / (double)files : 0;
        pace->wait_share = (double)(sums->waited_ns - last->waited_ns) / 1e9 / seconds;
        start_anew(pace, now);
    }
    pace->met = now;
}

struct pace pace_at(const struct pace *pace, uint64_t now)
{
    struct pace seen = *pace;

    if (now - pace->met > PACE_PAUSE_NS)
        seen.samples_per_s = seen.bytes_per_s = seen.wait_share = 0;
    return seen;
}
