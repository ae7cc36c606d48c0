/* Calls on ordered indexes: single keys, batches, scans, texts, numbers and errors. */
#include <farwood.h>

#include "test.h"

static fw_index *text_index(fw_pool *pool, const char *name, int32_t structure) {
    fw_index *index;
    fw_index_options options = fw_index_options_default();
    options.structure = structure;
    options.key_kind = FW_TEXT;
    options.key_bytes = structure == FW_BTREE ? 16 : 0;
    OK(fw_index_create(pool, name, &options, &index));
    return index;
}

static void test_single_keys(fw_pool *pool, const char *name, int32_t structure) {
    fw_index *index = text_index(pool, name, structure);
    char buf[8];
    size_t len = 99;
    uint64_t count = 0;
    EXPECT(FW_NOT_FOUND, fw_get(index, "ant", 3, buf, sizeof buf, &len));
    OK(fw_put(index, "ant", 3, "1", 1));
    OK(fw_put(index, "ant", 3, "one", 3));
    EXPECT(FW_EXISTS, fw_insert(index, "ant", 3, "2", 1));
    OK(fw_insert(index, "bee", 3, "a long value", 12));
    EXPECT(FW_NOT_FOUND, fw_update(index, "cat", 3, "3", 1));
    OK(fw_get(index, "ant", 3, buf, sizeof buf, &len));
    CHECK(len == 3 && memcmp(buf, "one", 3) == 0);
    buf[0] = '!';
    EXPECT(FW_TOO_SMALL, fw_get(index, "bee", 3, buf, sizeof buf, &len));
    CHECK(len == 12 && buf[0] == '!');
    EXPECT(FW_TOO_SMALL, fw_get(index, "bee", 3, NULL, 0, NULL));
    OK(fw_put(index, "empty", 5, NULL, 0));
    OK(fw_get(index, "empty", 5, NULL, 0, &len));
    CHECK(len == 0);
    OK(fw_count(index, &count));
    CHECK(count == 3);
    OK(fw_remove(index, "bee", 3));
    EXPECT(FW_NOT_FOUND, fw_remove(index, "bee", 3));
    OK(fw_index_close(index));
    OK(fw_index_drop(pool, name));
}

static void test_exchange(fw_pool *pool) {
    fw_index *index = text_index(pool, "exchange", FW_RADIX);
    char buf[8];
    size_t len = 0;
    OK(fw_compare_exchange(index, "k", 1, NULL, 0, "1", 1, NULL, 0, NULL));
    EXPECT(FW_MISMATCH, fw_compare_exchange(index, "k", 1, NULL, 0, "2", 1, buf, sizeof buf, &len));
    CHECK(len == 1 && buf[0] == '1');
    EXPECT(FW_MISMATCH, fw_compare_exchange(index, "k", 1, "", 0, "2", 1, NULL, 0, NULL));
    OK(fw_compare_exchange(index, "k", 1, "1", 1, "", 0, NULL, 0, NULL));
    OK(fw_compare_exchange(index, "k", 1, "", 0, NULL, 0, NULL, 0, NULL));
    EXPECT(FW_NOT_FOUND, fw_compare_exchange(index, "k", 1, "1", 1, "2", 1, buf, sizeof buf, &len));
    EXPECT(FW_ERR_TYPE_MISMATCH, fw_fetch_add(index, "k", 1, 1, NULL));
    OK(fw_index_close(index));
}

static fw_index *number_index(fw_pool *pool, const char *name, int32_t key_kind, int32_t value_kind) {
    fw_index *index;
    fw_index_options options = fw_index_options_default();
    options.key_kind = key_kind;
    options.value_kind = value_kind;
    OK(fw_index_open_or_create(pool, name, &options, &index));
    return index;
}

static void test_numbers(fw_pool *pool) {
    static const double numbers[] = {-1e300, -2.5, -0.0, 0.0, 1e-9, 7.0};
    fw_index *index = number_index(pool, "numbers", FW_F64, FW_I64);
    fw_scan *scan;
    uint8_t key[8], value[8];
    const uint8_t *found;
    int64_t before = 1;
    size_t i, len;
    for (i = 0; i < 6; i++) {
        fw_key_f64be(numbers[5 - i], key);
        fw_key_i64be(-(int64_t)i, value);
        OK(fw_put(index, key, 8, value, 8));
    }
    EXPECT(FW_ERR_INVALID_ARGUMENT, fw_put(index, key, 7, value, 8));
    OK(fw_scan_open(index, NULL, &scan));
    for (i = 0; i < 6; i++) {
        OK(fw_scan_next(scan));
        OK(fw_scan_key(scan, &found, &len));
        CHECK(len == 8 && fw_f64_of_key(found) == numbers[i]);
        OK(fw_scan_value(scan, &found, &len));
        CHECK(fw_i64_of_key(found) == -(int64_t)(5 - i));
    }
    EXPECT(FW_END, fw_scan_next(scan));
    EXPECT(FW_END, fw_scan_next(scan));
    EXPECT(FW_ERR_INVALID_ARGUMENT, fw_scan_key(scan, &found, &len));
    OK(fw_scan_close(scan));
    fw_key_f64be(8.0, key);
    OK(fw_fetch_add(index, key, 8, -5, &before));
    CHECK(before == 0);
    OK(fw_fetch_add(index, key, 8, 2, &before));
    CHECK(before == -5);
    OK(fw_index_close(index));
}

static void test_batches(fw_pool *pool) {
    enum { COUNT = 200 };
    static uint8_t keys[COUNT][8], bufs[COUNT][8];
    const void *key_starts[COUNT];
    void *buf_starts[COUNT];
    size_t lens[COUNT], caps[COUNT];
    int32_t statuses[COUNT];
    fw_index *index = number_index(pool, "batches", FW_U64, FW_U64);
    uint64_t i, loaded = 0;
    for (i = 0; i < COUNT; i++) {
        fw_key_u64be(i, keys[i]);
        key_starts[i] = keys[i];
        buf_starts[i] = bufs[i];
        lens[i] = 8;
        caps[i] = i == 5 ? 7 : 8;
    }
    OK(fw_bulk_load(index, COUNT / 2, key_starts, lens, key_starts, lens, 0, &loaded));
    CHECK(loaded == COUNT / 2);
    OK(fw_put_many(index, COUNT, key_starts, lens, key_starts, lens, statuses));
    CHECK(statuses[0] == FW_REPLACED && statuses[COUNT - 1] == FW_OK);
    OK(fw_remove_many(index, 10, key_starts + 10, lens, statuses));
    OK(fw_remove_many(index, 1, key_starts + 10, lens, statuses));
    CHECK(statuses[0] == FW_NOT_FOUND);
    OK(fw_get_many(index, COUNT, key_starts, lens, buf_starts, caps, lens, statuses));
    for (i = 0; i < COUNT; i++) {
        int32_t expected = i == 5 ? FW_TOO_SMALL : i >= 10 && i < 20 ? FW_NOT_FOUND : FW_OK;
        CHECK(statuses[i] == expected);
        CHECK(statuses[i] != FW_OK || fw_u64_of_key(bufs[i]) == i);
    }
    OK(fw_get_many(index, 0, NULL, NULL, NULL, NULL, NULL, NULL));
    lens[3] = 2;
    EXPECT(FW_ERR_INVALID_ARGUMENT, fw_put_many(index, COUNT, key_starts, lens, key_starts, caps, NULL));
    CHECK(fw_last_effect() == FW_EFFECT_NONE);
    OK(fw_index_close(index));
}

/* Appends the first byte of a key to the text in the context, up to 4 bytes. */
static int32_t append(void *context, const void *key, size_t key_len, const void *value, size_t value_len) {
    char *text = (char *)context;
    CHECK(key_len == 2 && value_len == 1 && ((const char *)value)[0] == 'v');
    strncat(text, (const char *)key, 1);
    return strlen(text) == 4;
}

static void expect_keys(fw_index *index, const fw_range *range, const char *keys) {
    char found[8] = "";
    int32_t code = fw_scan_each(index, range, append, found);
    CHECK(code == (strlen(keys) == 4 ? FW_STOPPED : FW_OK));
    if (strcmp(found, keys) != 0) {
        fprintf(stderr, "expected %s, found %s\n", keys, found);
        exit(1);
    }
}

static void test_ranges(fw_pool *pool, const char *name, int32_t structure) {
    static const char *const keys[] = {"a1", "b1", "c1", "d1", "e1", "f1"};
    fw_index *index = text_index(pool, name, structure);
    fw_range range = fw_range_default();
    size_t i;
    for (i = 0; i < 6; i++) {
        OK(fw_put(index, keys[i], 2, "v", 1));
    }
    expect_keys(index, NULL, "abcd");
    range.lower = "b1", range.lower_len = 2, range.upper = "d1", range.upper_len = 2;
    expect_keys(index, &range, "bc");
    range.flags = FW_LOWER_EXCLUSIVE | FW_UPPER_INCLUSIVE;
    expect_keys(index, &range, "cd");
    range.flags = FW_REVERSE | FW_UPPER_INCLUSIVE;
    expect_keys(index, &range, "dcb");
    range.after = "d1", range.after_len = 2, range.limit = 1;
    expect_keys(index, &range, "c");
    if (structure == FW_BTREE) {
        range.flags |= FW_SNAPSHOT;
        expect_keys(index, &range, "c");
    }
    range.prefix = "e", range.prefix_len = 1;
    EXPECT(FW_ERR_INVALID_ARGUMENT, fw_scan_each(index, &range, append, NULL));
    range.lower = range.upper = range.after = NULL, range.flags = 0;
    expect_keys(index, &range, "e");
    range.flags = 1u << 31;
    EXPECT(FW_ERR_INVALID_ARGUMENT, fw_scan_each(index, &range, append, NULL));
    OK(fw_index_close(index));
}

static int32_t count_infos(void *context, const fw_index_info *info) {
    CHECK(info->size == sizeof *info && strlen(info->name) > 0);
    if (strcmp(info->name, "numbers") == 0) {
        CHECK(info->structure == FW_BTREE && info->key_kind == FW_F64 && info->value_kind == FW_I64);
        CHECK(info->key_bytes == 8 && info->value_bytes == 8);
    }
    ++*(int *)context;
    return 0;
}

static void test_directory(fw_pool *pool) {
    int count = 0;
    char json[4096];
    size_t len = 0, key_max = 0;
    fw_index *index = NULL;
    int32_t key_kind = -1, value_kind = -1;
    fw_index_options options = fw_index_options_default();
    OK(fw_pool_indexes(pool, count_infos, &count));
    CHECK(count >= 4);
    EXPECT(FW_TOO_SMALL, fw_pool_stats_json(pool, NULL, 0, &len));
    CHECK(len > 0 && len < sizeof json);
    OK(fw_pool_stats_json(pool, json, sizeof json, &len));
    json[len] = '\0';
    CHECK(strstr(json, "\"name\":\"numbers\"") != NULL);
    EXPECT(FW_ERR_TYPE_MISMATCH, fw_index_open(pool, "exchange", &options, &index));
    options.key_kind = FW_TEXT;
    EXPECT(FW_ERR_TYPE_MISMATCH, fw_index_open_or_create(pool, "exchange", &options, &index));
    options.structure = FW_RADIX;
    options.key_bytes = 16;
    EXPECT(FW_ERR_INVALID_ARGUMENT, fw_index_create(pool, "lengths", &options, &index));
    options.key_bytes = 0;
    OK(fw_index_open_or_create(pool, "exchange", &options, &index));
    OK(fw_index_close(index));
    OK(fw_index_open(pool, "exchange", &options, &index));
    OK(fw_index_close(index));
    index = NULL;
    options.value_kind = FW_U64;
    EXPECT(FW_ERR_TYPE_MISMATCH, fw_index_open(pool, "exchange", &options, &index));
    CHECK(index == NULL);
    OK(fw_index_open(pool, "exchange", NULL, &index));
    OK(fw_index_kinds(index, &key_kind, &value_kind));
    OK(fw_index_lengths(index, &key_max, NULL));
    CHECK(key_kind == FW_TEXT && value_kind == FW_BYTES && key_max == 4096);
    EXPECT(FW_ERR_BUSY, fw_index_drop(pool, "exchange"));
    OK(fw_index_close(index));
    OK(fw_index_drop(pool, "exchange"));
    EXPECT(FW_ERR_NOT_FOUND, fw_index_open(pool, "exchange", NULL, &index));
}

static void test_errors(void) {
    char text[256], cut[8];
    size_t len;
    fw_pool *pool = NULL;
    fw_index *index;
    fw_index_options options = fw_index_options_default();
    CHECK(fw_abi_version() == FW_ABI_VERSION && strlen(fw_version()) >= 5);
    EXPECT(FW_ERR_NOT_FOUND, fw_pool_open("shm://no-pool-of-this-name", &pool));
    len = fw_last_error(text, sizeof text);
    CHECK(len == strlen(text) && strstr(text, "fw_pool_create") != NULL && !fw_last_retryable());
    CHECK(fw_last_error(cut, sizeof cut) == len && strlen(cut) == sizeof cut - 1);
    EXPECT(FW_ERR_INVALID_ARGUMENT, fw_pool_open(NULL, &pool));
    EXPECT(FW_ERR_INVALID_ARGUMENT, fw_pool_open("shm://x", NULL));
    EXPECT(FW_ERR_INVALID_ARGUMENT, fw_pool_open("\xff", &pool));
    EXPECT(FW_ERR_INVALID_ARGUMENT, fw_get(NULL, "k", 1, NULL, 0, NULL));
    OK(fw_pool_close(NULL));
    OK(fw_index_close(NULL));
    OK(fw_pool_anonymous(16 << 20, &pool));
    EXPECT(FW_ERR_INVALID_ARGUMENT, fw_index_create(pool, "i", NULL, &index));
    options.size = 4;
    EXPECT(FW_ERR_INVALID_ARGUMENT, fw_index_create(pool, "i", &options, &index));
    OK(fw_pool_close(pool));
}

/* A struct of a newer header is accepted if it states nothing that this version does not know. */
static void test_newer_struct(void) {
    struct {
        fw_pool_options known;
        uint64_t newer;
    } options;
    options.known = fw_pool_options_default();
    options.known.size = sizeof options;
    options.known.memory_bytes = 1;
    options.newer = 1;
    EXPECT(FW_ERR_INVALID_ARGUMENT, fw_pool_create("shm://newer", &options.known));
    options.newer = 0;
    EXPECT(FW_ERR_INVALID_ARGUMENT, fw_pool_create("shm://newer", &options.known));
}

/* Permissions that no pool may have. */
static void test_mode(void) {
    fw_pool_options options = fw_pool_options_default();
    options.memory_bytes = 16 << 20;
    options.mode = 0777;
    EXPECT(FW_ERR_INVALID_ARGUMENT, fw_pool_create("shm://mode", &options));
    options.mode = 0;
    options.reserved = 1;
    EXPECT(FW_ERR_INVALID_ARGUMENT, fw_pool_create("shm://mode", &options));
}

/* A struct of an older header lacks the last fields, which then have their defaults. */
static void test_older_struct(fw_pool *pool) {
    fw_index *index;
    int32_t value_kind = -1;
    fw_index_options options = fw_index_options_default();
    options.size = offsetof(fw_index_options, value_kind);
    options.key_kind = FW_U64;
    options.value_kind = 77;
    OK(fw_index_create(pool, "older", &options, &index));
    OK(fw_index_kinds(index, NULL, &value_kind));
    CHECK(value_kind == FW_BYTES);
    OK(fw_index_close(index));
}

int main(void) {
    fw_pool *pool;
    OK(fw_pool_anonymous(256 << 20, &pool));
    test_single_keys(pool, "single", FW_BTREE);
    test_single_keys(pool, "single", FW_RADIX);
    test_single_keys(pool, "single", FW_HASHED);
    test_exchange(pool);
    test_numbers(pool);
    test_batches(pool);
    test_ranges(pool, "ranges-btree", FW_BTREE);
    test_ranges(pool, "ranges-radix", FW_RADIX);
    test_directory(pool);
    test_older_struct(pool);
    OK(fw_pool_close(pool));
    test_errors();
    test_newer_struct();
    test_mode();
    return 0;
}
