/* Threads that use one index at the same time, more of them than have connections of their own over a network. */
#include <farwood.h>

#include <pthread.h>

#include "test.h"

enum { THREADS = 6, ROUNDS = 200 };

static void *work(void *argument) {
    fw_index *index = (fw_index *)argument;
    uint8_t shared[8], key[8], value[8];
    uint64_t round;
    size_t len;
    int64_t first = 0;
    char text[64];
    fw_key_u64be(0, shared);
    for (round = 1; round <= ROUNDS; round++) {
        OK(fw_fetch_add(index, shared, 8, 1, &first));
        fw_key_u64be((uint64_t)first + 1, key);
        OK(fw_insert(index, key, 8, key, 8));
        OK(fw_get(index, key, 8, value, 8, &len));
        CHECK(len == 8 && memcmp(key, value, 8) == 0);
    }
    /* The text of an error belongs to its thread. */
    CHECK(fw_last_error(text, sizeof text) == 0);
    EXPECT(FW_ERR_INVALID_ARGUMENT, fw_get(index, key, 3, value, 8, &len));
    CHECK(fw_last_error(text, sizeof text) > 0);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    fw_pool *pool;
    fw_index *index;
    fw_index_options options = fw_index_options_default();
    uint8_t shared[8], value[8];
    uint64_t count = 0;
    int i;
    if (argc == 1) {
        OK(fw_pool_anonymous(64 << 20, &pool));
    } else {
        OK(fw_pool_open(argv[1], &pool));
    }
    options.key_kind = FW_U64;
    options.value_kind = FW_U64;
    OK(fw_index_create(pool, "threads", &options, &index));
    for (i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, work, index) == 0);
    }
    for (i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    fw_key_u64be(0, shared);
    OK(fw_get(index, shared, 8, value, 8, NULL));
    CHECK(fw_u64_of_key(value) == THREADS * ROUNDS);
    OK(fw_count(index, &count));
    CHECK(count == THREADS * ROUNDS + 1);
    OK(fw_index_close(index));
    OK(fw_pool_close(pool));
    return 0;
}
