/* Sessions: completions, the descriptor, errors of operations, and forked children. */
#define _POSIX_C_SOURCE 200809L

#include <farwood.h>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

enum { COUNT = 300 };

static fw_index *numbers(fw_pool *pool) {
    fw_index *index;
    fw_index_options options = fw_index_options_default();
    options.key_kind = FW_U64;
    options.value_kind = FW_U64;
    OK(fw_index_create(pool, "numbers", &options, &index));
    return index;
}

static fw_op op_of(const fw_index *index, int32_t code, const uint8_t *key) {
    fw_op op;
    memset(&op, 0, sizeof op);
    op.index = index;
    op.code = code;
    op.key = key;
    op.key_len = 8;
    op.tag = fw_u64_of_key(key);
    return op;
}

/* Waits by the descriptor alone, and returns the completions in `done`, at most `cap` at a time. */
static size_t collect(fw_session *session, fw_done *done, size_t cap) {
    size_t count = 0;
    struct pollfd event;
    memset(&event, 0, sizeof event);
    OK(fw_fd(session, &event.fd));
    event.events = POLLIN;
    while (count == 0) {
        CHECK(poll(&event, 1, 60000) == 1);
        OK(fw_poll(session, done, cap, &count));
    }
    return count;
}

static void test_puts_and_gets(fw_session *session, fw_index *index) {
    static uint8_t keys[COUNT][8];
    static unsigned char seen[COUNT];
    fw_done done[7];
    size_t i, ended, count, left;
    int pass;
    for (i = 0; i < COUNT; i++) {
        fw_key_u64be(i, keys[i]);
    }
    for (pass = 0; pass < 2; pass++) {
        memset(seen, 0, sizeof seen);
        for (i = 0; i < COUNT; i++) {
            fw_op op = op_of(index, pass == 0 ? FW_OP_PUT : FW_OP_GET, keys[i]);
            op.value = keys[i];
            op.value_len = 8;
            OK(fw_submit(session, &op, 1));
        }
        for (ended = 0; ended < COUNT; ended += count) {
            count = collect(session, done, 7);
            for (i = 0; i < count; i++) {
                CHECK(done[i].status == FW_OK && !seen[done[i].tag]++);
                CHECK(pass == 0 || fw_u64_of_key(done[i].value) == done[i].tag);
            }
        }
        OK(fw_in_flight(session, &left));
        CHECK(left == 0);
    }
    OK(fw_wait(session, done, 7, -1, &count));
    CHECK(count == 0);
}

/* Executes one operation. */
static fw_done run(fw_session *session, fw_op op) {
    fw_done done;
    size_t count = 0;
    OK(fw_submit(session, &op, 1));
    OK(fw_wait(session, &done, 1, 60000, &count));
    CHECK(count == 1 && done.tag == op.tag && done.code == op.code);
    return done;
}

static void test_other_operations(fw_session *session, fw_index *index) {
    uint8_t key[8], new_key[8];
    fw_op op;
    fw_done done;
    fw_range range = fw_range_default();
    size_t entries = 0;
    fw_key_u64be(7, key);
    fw_key_u64be(COUNT + 7, new_key);
    op = op_of(index, FW_OP_INSERT, key);
    op.value = key, op.value_len = 8;
    CHECK(run(session, op).status == FW_EXISTS);
    op.code = FW_OP_PUT;
    CHECK(run(session, op).status == FW_REPLACED);
    op = op_of(index, FW_OP_UPDATE, new_key);
    op.value = key, op.value_len = 8;
    CHECK(run(session, op).status == FW_NOT_FOUND);
    op.code = FW_OP_COMPARE_EXCHANGE;
    CHECK(run(session, op).status == FW_OK);
    done = run(session, op);
    CHECK(done.status == FW_MISMATCH && done.value_len == 8 && fw_u64_of_key(done.value) == 7);
    op.code = FW_OP_FETCH_ADD, op.number = 5;
    CHECK(run(session, op).before == 7 && run(session, op).before == 12);
    CHECK(run(session, op_of(index, FW_OP_REMOVE, new_key)).status == FW_OK);
    CHECK(run(session, op_of(index, FW_OP_REMOVE, new_key)).status == FW_NOT_FOUND);
    op = op_of(index, FW_OP_SCAN, key);
    range.lower = key, range.lower_len = 8, range.limit = 5;
    op.range = &range;
    done = run(session, op);
    CHECK(done.status == FW_OK && done.scan != NULL);
    while (fw_scan_next(done.scan) == FW_OK) {
        entries++;
    }
    OK(fw_scan_close(done.scan));
    CHECK(entries == 5);
}

static void test_spatial(fw_session *session, fw_pool *pool) {
    fw_item item = {{0, 0, 1, 1}, 7}, found;
    fw_rect moved = {8, 8, 9, 9};
    fw_spatial *spatial;
    fw_op op;
    fw_done done;
    double distance_squared = 0;
    OK(fw_spatial_create(pool, "places", NULL, &spatial));
    memset(&op, 0, sizeof op);
    op.spatial = spatial, op.item = &item, op.code = FW_OP_ITEM_INSERT;
    CHECK(run(session, op).status == FW_OK);
    op.code = FW_OP_ITEM_MOVE, op.bounds = &moved;
    CHECK(run(session, op).status == FW_OK && run(session, op).status == FW_NOT_FOUND);
    op.code = FW_OP_SEARCH, op.number = FW_INTERSECTS;
    done = run(session, op);
    CHECK(done.status == FW_OK && fw_items_next(done.items, &found, NULL) == FW_OK && found.id == 7);
    OK(fw_items_close(done.items));
    moved.x_min = 12, moved.y_min = 13, op.code = FW_OP_NEAREST, op.number = 3;
    done = run(session, op);
    OK(fw_items_next(done.items, &found, &distance_squared));
    CHECK(found.id == 7 && distance_squared == 25);
    OK(fw_items_close(done.items));
    item.bounds = found.bounds, op.code = FW_OP_ITEM_REMOVE;
    CHECK(run(session, op).status == FW_OK);
    op.code = FW_OP_GET;
    CHECK(run(session, op).status == FW_ERR_INVALID_ARGUMENT);
    OK(fw_spatial_close(spatial));
}

static void test_errors(fw_session *session, fw_index *index) {
    uint8_t key[8];
    fw_op op;
    fw_done done;
    fw_key_u64be(1, key);
    op = op_of(index, FW_OP_GET, key);
    op.key_len = 3;
    done = run(session, op);
    CHECK(done.status == FW_ERR_INVALID_ARGUMENT && done.effect == FW_EFFECT_NONE);
    CHECK(strstr((const char *)done.value, "needs exactly 8") && strlen((const char *)done.value) == done.value_len);
    op = op_of(NULL, FW_OP_GET, key);
    CHECK(run(session, op).status == FW_ERR_INVALID_ARGUMENT);
    op = op_of(index, 99, key);
    CHECK(run(session, op).status == FW_ERR_INVALID_ARGUMENT);
}

static void test_fork(fw_session *session, fw_index *index) {
    int status = 0;
    uint8_t key[8];
    fw_op op;
    fw_scan *scan;
    pid_t child;
    fw_key_u64be(1, key);
    op = op_of(index, FW_OP_GET, key);
    OK(fw_scan_open(index, NULL, &scan));
    OK(fw_scan_next(scan));
    OK(fw_submit(session, &op, 1));
    child = fork();
    if (child == 0) {
        size_t count;
        fw_done done;
        if (fw_poll(session, &done, 1, &count) != FW_ERR_FORKED || fw_submit(session, &op, 1) != FW_ERR_FORKED) {
            _exit(1);
        }
        if (fw_scan_next(scan) != FW_ERR_FORKED) {
            _exit(2);
        }
        if (fw_session_close(session) != FW_OK || fw_scan_close(scan) != FW_OK) {
            _exit(3);
        }
        /* Another program ends well: valgrind would report the memory of the thread that the child does not have. */
        execl("/bin/true", "true", (char *)NULL);
        _exit(4);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    OK(fw_scan_next(scan));
    OK(fw_scan_close(scan));
    {
        fw_done done;
        CHECK(collect(session, &done, 1) == 1 && done.status == FW_OK);
    }
}

/* An index and a session may be closed while operations are in flight. */
static void test_close(fw_pool *pool, fw_session *session, fw_index *index) {
    uint8_t key[8];
    fw_op op;
    int i;
    fw_key_u64be(2, key);
    op = op_of(index, FW_OP_PUT, key);
    op.value = key, op.value_len = 8;
    for (i = 0; i < 50; i++) {
        OK(fw_submit(session, &op, 1));
    }
    OK(fw_index_close(index));
    OK(fw_index_drop(pool, "numbers"));
    OK(fw_session_close(session));
}

/* The argument is the URL of a pool over a network, in which no process serves spatial indexes. */
int main(int argc, char **argv) {
    fw_pool *pool;
    fw_session *session;
    fw_index *index;
    if (argc == 1) {
        OK(fw_pool_anonymous(64 << 20, &pool));
    } else {
        OK(fw_pool_open(argv[1], &pool));
    }
    OK(fw_session_open(&session));
    index = numbers(pool);
    test_puts_and_gets(session, index);
    test_other_operations(session, index);
    if (argc == 1) {
        test_spatial(session, pool);
    }
    test_errors(session, index);
    test_fork(session, index);
    test_close(pool, session, index);
    OK(fw_pool_close(pool));
    return 0;
}
