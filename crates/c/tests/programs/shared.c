/* Writes an index with numbers, whose keys are of kind i64 and whose values are of kind f64, and one with texts, into
 * the pool of the argument. The test reads them with the library of Rust, and has written the index "of-rust". */
#include <farwood.h>

#include "test.h"

static void write_numbers(fw_pool *pool) {
    fw_index *index;
    fw_index_options options = fw_index_options_default();
    uint8_t key[8], value[8];
    int64_t number;
    options.key_kind = FW_I64;
    options.value_kind = FW_F64;
    OK(fw_index_create(pool, "numbers", &options, &index));
    for (number = -3; number <= 3; number++) {
        fw_key_i64be(number, key);
        fw_key_f64be((double)number / 2, value);
        OK(fw_put(index, key, 8, value, 8));
    }
    OK(fw_index_close(index));
}

static void write_texts(fw_pool *pool) {
    fw_index *index;
    fw_index_options options = fw_index_options_default();
    options.key_kind = FW_TEXT;
    options.key_bytes = 16;
    options.value_kind = FW_TEXT;
    OK(fw_index_create(pool, "texts", &options, &index));
    OK(fw_put(index, "ant", 3, "Ameise", 6));
    OK(fw_index_close(index));
}

static void read_rust(fw_pool *pool) {
    fw_index *index;
    char value[8];
    size_t len;
    OK(fw_index_open(pool, "of-rust", NULL, &index));
    OK(fw_get(index, "key", 3, value, sizeof value, &len));
    CHECK(len == 8 && fw_u64_of_key((const uint8_t *)value) == 7);
    OK(fw_index_close(index));
}

int main(int argc, char **argv) {
    fw_pool *pool;
    CHECK(argc == 2);
    OK(fw_pool_open(argv[1], &pool));
    write_numbers(pool);
    write_texts(pool);
    read_rust(pool);
    OK(fw_pool_close(pool));
    return 0;
}
