/* Philox4x64-10: see random.h. */
#include "random.h"

#include <string.h>

/* The constants and the round are the paper's. */
#define MULTIPLIER_0 UINT64_C(0xD2E7470EE14C6C93)
#define MULTIPLIER_1 UINT64_C(0xCA5A826395121157)
#define WEYL_0       UINT64_C(0x9E3779B97F4A7C15)
#define WEYL_1       UINT64_C(0xBB67AE8584CAA73B)
#define ROUNDS       10

__extension__ typedef unsigned __int128 wide;

static void fill(struct random_stream *random)
{
    uint64_t c[4], key0 = random->key[0], key1 = random->key[1];

    memcpy(c, random->counter, sizeof c);
    for (int round = 0; round < ROUNDS; round++) {
        wide a = (wide)MULTIPLIER_0 * c[0], b = (wide)MULTIPLIER_1 * c[2];
        c[0] = (uint64_t)(b >> 64) ^ c[1] ^ key0;
        c[1] = (uint64_t)b;
        c[2] = (uint64_t)(a >> 64) ^ c[3] ^ key1;
        c[3] = (uint64_t)a;
        key0 += WEYL_0;
        key1 += WEYL_1;
    }
    memcpy(random->words, c, sizeof c);
    random->counter[0]++;
    random->used = 0;
}

void random_start(struct random_stream *random, uint64_t seed, uint64_t epoch, uint64_t position,
                  uint64_t stream)
{
    *random = (struct random_stream){
        .key = {seed, 0}, .counter = {0, position, epoch, stream}, .used = 4};
}

uint64_t random_word(struct random_stream *random)
{
    if (random->used == 4)
        fill(random);
    return random->words[random->used++];
}

double random_unit(struct random_stream *random)
{
    return (double)(random_word(random) >> 11) * 0x1p-53;
}

uint64_t random_below(struct random_stream *random, uint64_t n)
{
    return (uint64_t)((wide)random_word(random) * n >> 64);
}
