/* The orders against torch's own output: tests/data/torch-order.json, made with torch 2.15 (what
 * its fields mean is told there and in the README). */
#include "unit.h"

#include "../../core/order_table.h"
#include "../../core/plan.h"
#include "../../core/weights.h"

#include <errno.h>
#include <jansson.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BASIS(n) (&(struct order_basis){.samples = (n)})

static json_t *load_vectors(void)
{
    const char *path = getenv("TORCH_ORDER_JSON");
    json_error_t error;
    json_t *root = json_load_file(path ? path : "tests/data/torch-order.json", 0, &error);

    cr_assert(root != NULL, "tests/data/torch-order.json: %s", error.text);
    return root;
}

static uint64_t number(const json_t *object, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

/* What is compared: the first indices, how many, and the SHA-256 of all as little-endian int64. */
struct digest {
    struct sha256_ctx hash;
    uint64_t length;
    const json_t *first;
    bool differs;
};

static struct digest digest_of(const json_t *vector)
{
    struct digest digest = {.first = json_object_get(vector, "first")};
    sha256_init(&digest.hash);
    return digest;
}

static void digest_add(struct digest *digest, uint64_t sample)
{
    uint8_t bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(sample >> (8 * i));
    sha256_update(&digest->hash, sizeof bytes, bytes);
    if (digest->length < json_array_size(digest->first) &&
        (uint64_t)json_integer_value(json_array_get(digest->first, digest->length)) != sample)
        digest->differs = true;
    digest->length++;
}

static void digest_check(struct digest *digest, const json_t *vector, const char *what)
{
    uint8_t bytes[SHA256_DIGEST_SIZE];
    char text[2 * SHA256_DIGEST_SIZE + 1];

    cr_assert(!digest->differs, "%s: the first indices differ", what);
    sha256_digest(&digest->hash, sizeof bytes, bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        sprintf(text + 2 * i, "%02x", bytes[i]);
    cr_assert_str_eq(text, json_string_value(json_object_get(vector, "sha256")), "%s: %s", what,
                     "the hash of all indices differs");
}

Test(order, equals_torch_randperm)
{
    json_t *root = load_vectors(), *vectors = json_object_get(root, "randperm"), *vector;
    size_t i;

    cr_assert(json_array_size(vectors) > 0);
    json_array_foreach(vectors, i, vector)
    {
        struct order_spec spec = {.kind = ORDER_TORCH, .seed = number(vector, "seed")};
        struct digest digest = digest_of(vector);
        uint64_t n = number(vector, "n");
        struct order *order;
        char what[64];

        snprintf(what, sizeof what, "randperm(%llu), seed %llu", (unsigned long long)n,
                 (unsigned long long)spec.seed);
        cr_assert_eq(order_open(&order, &spec, BASIS(n), 0), 0);
        for (uint64_t p = 0; p < n; p++)
            digest_add(&digest, order_sample(order, p));
        order_close(order);
        digest_check(&digest, vector, what);
    }
    json_decref(root);
}

/* The weights of a vector: a list, or "1..N". */
static double *weights_of(const json_t *vector, uint64_t *n)
{
    const json_t *given = json_object_get(vector, "weights");
    double *weights;

    *n = json_is_string(given) ? strtoull(strstr(json_string_value(given), "..") + 2, NULL, 10)
                               : json_array_size(given);
    weights = calloc(*n, sizeof *weights);
    cr_assert(weights != NULL);
    for (size_t i = 0; i < *n; i++)
        weights[i] = json_is_string(given) ? (double)(i + 1)
                                           : json_number_value(json_array_get(given, i));
    return weights;
}

static void check_draws(const json_t *vector, const struct order_spec *spec, uint64_t epoch,
                        const struct order_basis *basis)
{
    struct digest digest = digest_of(vector);
    struct order *order;

    cr_assert_eq(order_open(&order, spec, basis, epoch), 0);
    cr_assert_eq(order_places(order), number(vector, "num_samples"));
    for (uint64_t p = 0; p < order_places(order); p++)
        digest_add(&digest, order_sample(order, p));
    order_close(order);
    digest_check(&digest, vector, order_kind_name(spec->kind));
}

/* Those with equal weights by order=resampled too; seed and epoch by their sum. */
Test(order, equals_torch_weighted_random_sampler)
{
    json_t *root = load_vectors(), *vectors = json_object_get(root, "weighted"), *vector;
    size_t i, equal = 0;

    cr_assert(json_array_size(vectors) > 0);
    json_array_foreach(vectors, i, vector)
    {
        struct order_spec spec = {.kind = ORDER_WEIGHTED,
                                  .seed = number(vector, "seed"),
                                  .epoch_samples = number(vector, "num_samples")};
        struct order_basis basis = {0};
        double *weights = weights_of(vector, &basis.samples);
        bool is_even = weights[0] == weights[1] && weights[0] == weights[basis.samples - 1];
        weights_accumulate(weights, basis.samples);
        basis.cumulative = weights;
        check_draws(vector, &spec, 0, &basis);
        basis.cumulative = NULL;
        for (uint64_t epoch = 0; is_even && epoch <= spec.seed; epoch++) {
            struct order_spec even = spec;
            even.kind = ORDER_RESAMPLED;
            even.seed -= epoch;
            check_draws(vector, &even, epoch, &basis);
        }
        equal += is_even;
        free(weights);
    }
    cr_assert(equal > 0);
    json_decref(root);
}

/* Both sides of the border where torch changes its algorithm: 860 MB a table, so only where there
 * is room, and not under the sanitizers. */
Test(order, equals_torch_randperm_where_its_algorithm_changes)
{
    json_t *root = load_vectors(), *vectors = json_object_get(root, "randperm_large"), *vector;
    size_t i;

    if (getenv("UNIT_SKIP_LARGE") ||
        sysconf(_SC_AVPHYS_PAGES) < (2l << 30) / sysconf(_SC_PAGESIZE)) {
        json_decref(root);
        cr_skip_test("needs 2 GiB of free memory, and no sanitizer");
    }
    json_array_foreach(vectors, i, vector)
    {
        struct order_spec spec = {.kind = ORDER_TORCH, .seed = number(vector, "seed")};
        const json_t *first = json_object_get(vector, "first"),
                     *last = json_object_get(vector, "last");
        uint64_t n = number(vector, "n");
        struct order *order;

        cr_assert_eq(order_open(&order, &spec, BASIS(n), 0), 0);
        for (size_t k = 0; k < json_array_size(first); k++)
            cr_assert_eq(order_sample(order, k),
                         (uint64_t)json_integer_value(json_array_get(first, k)));
        for (size_t k = 0; k < json_array_size(last); k++)
            cr_assert_eq(order_sample(order, n - json_array_size(last) + k),
                         (uint64_t)json_integer_value(json_array_get(last, k)));
        order_close(order);
    }
    json_decref(root);
}

Test(order, the_algorithm_changes_where_torch_changes_it)
{
    cr_assert(!order_torch_is_large(214748363));
    cr_assert(order_torch_is_large(214748364));
}

Test(order, plans_equal_torch_distributed_sampler)
{
    json_t *root = load_vectors(), *vectors = json_object_get(root, "distributed"), *vector, *rank;
    size_t i, k, checked = 0;

    json_array_foreach(vectors, i, vector)
    {
        bool shuffle = json_is_true(json_object_get(vector, "shuffle"));
        bool drop = json_is_true(json_object_get(vector, "drop_last"));
        struct order_spec spec = {.kind = shuffle ? ORDER_TORCH : ORDER_SEQUENTIAL,
                                  .seed = number(vector, "seed")};
        uint64_t n = number(vector, "n"), world = number(vector, "world");
        struct order *order;

        cr_assert_eq(order_open(&order, &spec, BASIS(n), number(vector, "epoch")), 0);
        json_array_foreach(json_object_get(vector, "ranks"), k, rank)
        {
            struct digest digest = digest_of(rank);
            struct plan plan;
            char what[96];

            snprintf(what, sizeof what, "n %llu, rank %llu of %llu, epoch %llu",
                     (unsigned long long)n, (unsigned long long)number(rank, "rank"),
                     (unsigned long long)world, (unsigned long long)number(vector, "epoch"));
            cr_assert(plan_open(&plan, n,
                                &(struct plan_share){.rank = number(rank, "rank"), .world = world},
                                &(struct plan_deal){.remainder = drop ? PLAN_DROP : PLAN_PAD}));
            cr_assert_eq(plan.length, number(rank, "len"), "%s", what);
            for (uint64_t p = 0; p < plan.length; p++)
                digest_add(&digest, order_sample(order, plan_global(&plan, p)));
            digest_check(&digest, rank, what);
            checked++;
        }
        order_close(order);
    }
    cr_assert(checked > 100);
    json_decref(root);
}

Test(order, seed_and_epoch_count_by_their_sum_and_its_low_32_bits)
{
    struct order_spec one = {.kind = ORDER_TORCH, .seed = 7},
                      two = {.kind = ORDER_TORCH, .seed = 2},
                      far = {.kind = ORDER_TORCH, .seed = 7 + ((uint64_t)1 << 32)},
                      other = {.kind = ORDER_TORCH, .seed = 8};
    struct order *a, *b, *c, *d;
    uint64_t differing = 0;

    cr_assert_eq(order_open(&a, &one, BASIS(1000), 0), 0);
    cr_assert_eq(order_open(&b, &two, BASIS(1000), 5), 0);
    cr_assert_eq(order_open(&c, &far, BASIS(1000), 0), 0);
    cr_assert_eq(order_open(&d, &other, BASIS(1000), 0), 0);
    for (uint64_t p = 0; p < 1000; p++) {
        cr_assert_eq(order_sample(a, p), order_sample(b, p));
        cr_assert_eq(order_sample(a, p), order_sample(c, p));
        differing += order_sample(a, p) != order_sample(d, p);
    }
    cr_assert(differing > 900);
    order_close(a);
    order_close(b);
    order_close(c);
    order_close(d);
}

Test(order, position_is_the_inverse_of_sample)
{
    static const uint64_t sizes[] = {1, 2, 3, 1000, 65537};
    static const enum order_kind kinds[] = {ORDER_TORCH, ORDER_SEQUENTIAL};

    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct order_spec spec = {.kind = kinds[k], .seed = 3};
            struct order *order;
            cr_assert_eq(order_open(&order, &spec, BASIS(sizes[i]), 4), 0);
            for (uint64_t p = 0; p < sizes[i]; p++) {
                uint64_t back;
                cr_assert_eq(order_place_of(order, order_sample(order, p), &back), 0);
                cr_assert_eq(back, p);
            }
            order_close(order);
        }
    }
}

Test(order, refuses_what_it_cannot_hold)
{
    struct order_spec spec = {.kind = ORDER_TORCH, .seed = 0};
    struct order *order;

    cr_assert_eq(order_open(&order, &spec, BASIS(ORDER_SAMPLES_MAX + 1), 0), -EINVAL);
    cr_assert_eq(order_open(&order, &spec, BASIS(10), ORDER_EPOCH_MAX + 1), -EINVAL);
    cr_assert_eq(order_open(&order, &spec, BASIS(ORDER_SAMPLES_MAX), 0), -ENOMEM);
}

Test(order, an_empty_order_is_one)
{
    struct order_spec spec = {.kind = ORDER_TORCH, .seed = 0};
    struct order *order;

    cr_assert_eq(order_open(&order, &spec, BASIS(0), 0), 0);
    cr_assert_eq(order_places(order), 0);
    order_close(order);
}
