/* The layout of shufflefs-top's screen. Owns nothing but the text it makes.
 *
 * What must be seen comes first; a narrow screen loses columns, a low one lines from the end of the
 * lists, with a count of what is not shown. */
#include "screen.h"

#include "figures.h"
#include "text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* From this width on, the figures have room for their totals beside the rates. */
#define WIDTH_FOR_TOTALS 72

static const char *or_dash(const char *text)
{
    return text ? text : "-";
}

/* `share` of a bar of `cells` cells with its brackets; `room` bytes in `bar` are enough for it. */
static void draw_bar(char *bar, size_t room, double share, size_t cells)
{
    size_t inner, full;

    if (cells >= room)
        cells = room - 1;
    inner = cells - 2;
    full = share > 0 ? (size_t)(share >= 1 ? (double)inner : share * (double)inner) : 0;
    memset(bar, '-', cells);
    memset(bar + 1, '#', full);
    bar[0] = '[';
    bar[cells - 1] = ']';
    bar[cells] = '\0';
}

static void put_title(struct text *text, const struct screen *screen)
{
    const struct snapshot *now = screen->now;
    char *rest = NULL, *mount = NULL;
    size_t room = text_cells(text, screen->mount);
    int length = now ? asprintf(&rest, "  shufflefs %s  up %s",
                                or_dash(snapshot_text(now, "version")),
                                figure_span(snapshot_number(now, "uptime_s")).text)
                     : asprintf(&rest, "  shufflefs");

    if (length < 0)
        return;
    /* The end of the path is worth more than the version, but not all of the line. */
    if (screen->width && room + (size_t)length > screen->width)
        room = screen->width > (size_t)length + 10 ? screen->width - (size_t)length : 10;
    mount = text_fit(text, screen->mount, room);
    text_line(text, "%s%s", or_dash(mount), rest);
    free(mount);
    free(rest);
}

static void put_data_set(struct text *text, const struct snapshot *now)
{
    const json_t *epoch = json_object_get(now->root, "epoch");
    const json_t *after = json_object_get(now->root, "after");
    double samples = snapshot_number(now, "samples"), shards = snapshot_number(now, "shards");
    char number[64] = "-";

    /* An epoch has up to 63 bits, more than a double holds. */
    if (json_is_integer(epoch) && json_integer_value(after) > 0)
        snprintf(number, sizeof number, "%lld after %lld", (long long)json_integer_value(epoch),
                 (long long)json_integer_value(after));
    else if (json_is_integer(epoch))
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(epoch));
    text_line(text, "epoch %s  ranks %s  %s  %s sample%s, %s in %s shard%s", number,
              figure_count(snapshot_number(now, "world")).text,
              or_dash(snapshot_text(now, "order")), figure_count(samples).text,
              samples == 1 ? "" : "s", figure_bytes(snapshot_number(now, "member_bytes")).text,
              figure_count(shards).text, shards == 1 ? "" : "s");
}

/* One row of the table of figures; `detail` is the rest of the line. */
static void put_row(struct text *text, bool totals, const char *label, double count_per_s,
                    double bytes_per_s, double count, double bytes, const char *detail)
{
    if (totals)
        text_line(text, "%-8s %9s %10s %13s %10s   %s", label, figure_count(count_per_s).text,
                  figure_bytes(bytes_per_s).text, figure_count(count).text,
                  figure_bytes(bytes).text, detail);
    else
        text_line(text, "%-8s%9s %10s  %s", label, figure_count(count_per_s).text,
                  figure_bytes(bytes_per_s).text, detail);
}

static void put_figures(struct text *text, const struct screen *screen, const struct rates *rates)
{
    const struct snapshot *now = screen->now;
    bool totals = !screen->width || screen->width >= WIDTH_FOR_TOTALS;
    double unread = snapshot_number(now, "pushed_unread");
    double limit = snapshot_number(now, "pushed_limit");
    char detail[128], bar[20];

    if (totals)
        text_line(text, "%-8s %9s %10s %13s %10s", "", "/s", "bytes/s", "since start", "bytes");
    else
        text_line(text, "%-8s%9s %10s", "", "/s", "bytes/s");
    snprintf(detail, sizeof detail, "hits %s", figure_share(rates->hit_rate).text);
    put_row(text, totals, "reads", rates->reads_per_s, rates->bytes_per_s,
            snapshot_number(now, "reads"), snapshot_number(now, "bytes"), detail);
    snprintf(detail, sizeof detail, "direct %s", figure_share(rates->storage_direct_share).text);
    put_row(text, totals, "storage", rates->storage_reads_per_s, rates->storage_bytes_per_s,
            snapshot_number(now, "storage.reads"), snapshot_number(now, "storage.bytes"), detail);
    snprintf(detail, sizeof detail, "lost %s", figure_count(rates->pushed_lost).text);
    put_row(text, totals, "pushed", rates->pushed_files_per_s, rates->pushed_bytes_per_s,
            snapshot_number(now, "pushed_files"), snapshot_number(now, "pushed"), detail);
    draw_bar(bar, sizeof bar, limit > 0 ? unread / limit : 0, 12);
    text_line(text, "%-8s %s%s%s of %s", "unread", limit > 0 ? bar : "", limit > 0 ? " " : "",
              figure_bytes(unread).text, figure_bytes(limit).text);
    text_line(text, "%-8s p50 %s  p99 %s  max %s  storage %s", "latency",
              figure_micros(snapshot_number(now, "read_latency.p50_us")).text,
              figure_micros(snapshot_number(now, "read_latency.p99_us")).text,
              figure_micros(snapshot_number(now, "read_latency.max_us")).text,
              figure_micros(rates->storage_read_us).text);
}

/* The columns of the readers' table, in the order in which they stand. */
enum column { NAME, EPOCH, BAR, DONE, SAMPLES, BYTES, HITS, WAIT, LEFT, COLUMNS };

static const struct {
    const char *title;
    size_t cells;
} columns[COLUMNS] = {
    [NAME] = {"READER", 12}, [EPOCH] = {"EPOCH", 6},        [BAR] = {"", 12},
    [DONE] = {"DONE", 8},    [SAMPLES] = {"SAMPLES/S", 10}, [BYTES] = {"BYTES/S", 11},
    [HITS] = {"HITS", 8},    [WAIT] = {"WAIT", 8},          [LEFT] = {"LEFT", 10},
};

struct table {
    size_t cells[COLUMNS]; /* 0: not shown */
};

/* Which columns fit: those that tell most first, and the bar and long names out of what is left. */
static struct table lay_out(const struct text *text, size_t width, const struct top_reader *readers,
                            size_t count)
{
    enum { NEEDED = 3, NAME_GOOD = 24, BAR_MOST = 40 };
    static const enum column wanted[] = {DONE, SAMPLES, LEFT, WAIT, HITS, BYTES, EPOCH, BAR};
    struct table table = {0};
    size_t longest = columns[NAME].cells, good, used = 0;

    for (size_t i = 0; i < count; i++) {
        size_t cells = text_cells(text, readers[i].path);
        longest = cells > longest ? cells : longest;
    }
    good = width && longest > NAME_GOOD ? NAME_GOOD : longest;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        size_t cells = columns[wanted[i]].cells;
        if (width && used + cells + (i < NEEDED ? columns[NAME].cells : good) > width)
            continue;
        table.cells[wanted[i]] = cells;
        used += cells;
    }
    table.cells[NAME] = width && longest > width - used ? width - used : longest;
    used += table.cells[NAME];
    if (table.cells[BAR] && used < width) {
        table.cells[BAR] += width - used;
        if (table.cells[BAR] > BAR_MOST)
            table.cells[BAR] = BAR_MOST;
    }
    return table;
}

static struct figure time_left(const struct top_reader *reader)
{
    struct figure figure;
    double idle = reader->idle_s;

    if (reader->progress >= 1)
        strcpy(figure.text, "done");
    else if (!reader->idle && reader->random)
        strcpy(figure.text, "random");
    else if (!reader->idle)
        return figure_span(reader->eta_s);
    else if (idle < 120)
        snprintf(figure.text, sizeof figure.text, "idle %.0f s", floor(idle));
    else if (idle < 7200)
        snprintf(figure.text, sizeof figure.text, "idle %.0f m", floor(idle / 60));
    else
        snprintf(figure.text, sizeof figure.text, "idle %.4g h", floor(idle / 3600));
    return figure;
}

/* Writes a reader's cells after its name; without a reader, the titles. */
static void put_reader(struct text *text, const struct table *table,
                       const struct top_reader *reader)
{
    char cells[256], bar[64] = "", epoch[32] = "-";
    struct figure figures[COLUMNS] = {0};
    size_t used = 0;
    char *name = text_fit(text, reader ? reader->path : columns[NAME].title, table->cells[NAME]);

    if (reader) {
        if (!isnan(reader->epoch))
            snprintf(epoch, sizeof epoch, reader->epoch < 1e15 ? "%.0f" : "%.3g", reader->epoch);
        memcpy(figures[EPOCH].text, epoch, sizeof epoch);
        figures[DONE] = figure_share(reader->progress);
        figures[SAMPLES] = figure_count(reader->samples_per_s);
        figures[BYTES] = figure_bytes(reader->bytes_per_s);
        figures[HITS] = figure_share(reader->hit_rate);
        figures[WAIT] = figure_share(reader->wait_share);
        figures[LEFT] = time_left(reader);
    }
    cells[0] = '\0';
    for (int column = EPOCH; column < COLUMNS && name; column++) {
        const char *shown = reader ? figures[column].text : columns[column].title;
        size_t wide = table->cells[column];
        if (!wide)
            continue;
        if (column == BAR && reader) {
            draw_bar(bar, sizeof bar, reader->progress, wide - 2);
            shown = bar;
        }
        used += (size_t)snprintf(cells + used, sizeof cells - used, "%*s", (int)wide, shown);
        if (used >= sizeof cells)
            break;
    }
    if (name)
        text_line(text, "%s%s", name, cells);
    free(name);
}

/* Lines that tell of faults and oddities; `most` at most. */
struct list {
    struct text *text; /* NULL: only counts */
    size_t count, most;
};

static bool wants_line(struct list *list)
{
    return list->count++ < list->most && list->text;
}

static void list_troubles(struct list *list, const struct screen *screen, const struct rates *rates)
{
    static const struct {
        const char *key, *one, *several;
    } counts[] = {
        {"repeated_epochs", "epoch was read again", "epochs were read again"},
        {"failed_ahead", "read ahead failed", "reads ahead failed"},
        {"storage.failed", "read of storage failed", "reads of storage failed"},
        {"undone_stores", "store to a read-only file was undone",
         "stores to read-only files were undone"},
    };
    json_t *root = screen->now->root, *value;
    const char *name;
    size_t i;

    json_array_foreach(json_object_get(root, "warnings"), i,
                       value) if (json_is_string(value) && wants_line(list))
        text_line(list->text, "! %s", json_string_value(value));
    json_object_foreach(json_object_get(root, "errors"), name,
                        value) if (json_is_number(value) && wants_line(list))
    {
        double before = screen->before && !rates->restarted
                            ? snapshot_member(screen->before, "errors", name)
                            : json_number_value(value);
        double more = json_number_value(value) - (isnan(before) ? 0 : before);
        text_line(list->text, "! errors %s%s%s  %s", figure_count(json_number_value(value)).text,
                  more > 0 ? " +" : "", more > 0 ? figure_count(more).text : "", name);
    }
    for (i = 0; i < sizeof counts / sizeof *counts; i++) {
        double count = snapshot_number(screen->now, counts[i].key);
        if (count > 0 && wants_line(list))
            text_line(list->text, "! %s %s", figure_count(count).text,
                      count == 1 ? counts[i].one : counts[i].several);
    }
    json_object_foreach(json_object_get(root, "bad_shards"), name, value) if (wants_line(list))
        text_line(list->text, "! left out whole: %s: %s", name, or_dash(json_string_value(value)));
    json_object_foreach(json_object_get(root, "left_out"), name,
                        value) if (json_is_number(value) && wants_line(list))
        text_line(list->text, "! odd members: %s %s", figure_count(json_number_value(value)).text,
                  name);
}

static void put_troubles(struct text *text, const struct screen *screen, const struct rates *rates,
                         size_t count, size_t room)
{
    struct list list = {.text = text, .most = count > room ? room - 1 : count};

    if (!room)
        return;
    list_troubles(&list, screen, rates);
    if (count > list.most)
        text_line(text, "! and %zu more", count - list.most);
}

static void put_readers(struct text *text, const struct screen *screen,
                        const struct top_reader *readers, size_t count, size_t room)
{
    struct table table = lay_out(text, screen->width, readers, count);
    size_t shown = count;

    if (room < 2)
        return;
    put_reader(text, &table, NULL);
    if (count > room - 1)
        shown = room - 2;
    for (size_t i = 0; i < shown; i++)
        put_reader(text, &table, &readers[i]);
    if (!count)
        text_line(text, "(no reader lately)");
    else if (shown < count)
        text_line(text, "and %zu more", count - shown);
}

static void put_all(struct text *text, const struct screen *screen)
{
    enum { FIXED_LINES = 10 }; /* the title to the blank line before the readers */
    struct rates rates = snapshot_rates(screen->before, screen->now);
    struct list troubles = {0};
    struct top_reader *readers;
    size_t count = snapshot_readers(screen->before, screen->now, &readers);
    size_t room = (size_t)-1, for_readers, for_troubles;
    const char *note = screen->note;

    if (!note && rates.restarted)
        note = "mounted again since the last snapshot";
    list_troubles(&troubles, screen, &rates);
    if (screen->height)
        room = screen->height > FIXED_LINES ? screen->height - FIXED_LINES : 0;
    /* Troubles get a third, and what the readers leave. */
    for_troubles = count + 2 < room - room / 3 ? room - count - 2 : room / 3;
    for_readers = room - (troubles.count < for_troubles ? troubles.count : for_troubles);

    put_title(text, screen);
    put_data_set(text, screen->now);
    text_line(text, "%s", note ? note : "");
    put_figures(text, screen, &rates);
    text_line(text, "%s", "");
    put_readers(text, screen, readers, count, for_readers);
    put_troubles(text, screen, &rates, troubles.count, for_troubles);
    free(readers);
}

/* Cuts the text after its first `height` lines. */
static void cut_height(char *text, size_t height)
{
    for (char *end; height && (end = strchr(text, '\n')); height--)
        text = end + 1;
    *text = '\0';
}

int screen_render(const struct screen *screen, char **out)
{
    struct text text;
    int fault = text_open(&text, screen->width, screen->utf8);

    if (fault)
        return fault;
    if (screen->now) {
        put_all(&text, screen);
    } else {
        put_title(&text, screen);
        text_line(&text, "%s", screen->note ? screen->note : "");
    }
    fault = text_close(&text, out);
    if (!fault && screen->height)
        cut_height(*out, screen->height);
    return fault;
}
