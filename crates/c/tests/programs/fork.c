/* A forked child uses pool and indexes of its parent, also through a session of its own. */
#define _POSIX_C_SOURCE 200809L

#include <farwood.h>

#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static fw_done run(fw_session *session, const fw_index *index, int32_t code) {
    fw_op op;
    fw_done done;
    size_t count = 0;
    memset(&op, 0, sizeof op);
    op.index = index, op.code = code, op.key = "key", op.key_len = 3, op.value = "value", op.value_len = 5;
    OK(fw_submit(session, &op, 1));
    OK(fw_wait(session, &done, 1, 60000, &count));
    CHECK(count == 1);
    return done;
}

static void test_child(fw_pool *pool, fw_index *index, fw_spatial *spatial, const fw_item *item) {
    char value[8];
    size_t len = 0;
    int i;
    fw_session *session;
    fw_index *same;
    uint64_t count = 0;
    OK(fw_get(index, "key", 3, value, sizeof value, &len));
    CHECK(len == 5);
    OK(fw_put(index, "child", 5, "1", 1));
    OK(fw_session_open(&session));
    for (i = 0; i < 3; i++) {
        CHECK(run(session, index, FW_OP_GET).status == FW_OK);
    }
    CHECK(run(session, index, FW_OP_INSERT).status == FW_EXISTS);
    OK(fw_session_close(session));
    OK(fw_count(index, &count));
    CHECK(count == 2);
    OK(fw_spatial_insert(spatial, item));
    OK(fw_spatial_close(spatial));
    OK(fw_index_open(pool, "index", NULL, &same));
    OK(fw_index_close(same));
    OK(fw_index_close(index));
    OK(fw_pool_close(pool));
}

static fw_index *create(fw_pool *pool) {
    fw_index *index;
    fw_index_options options = fw_index_options_default();
    options.structure = FW_RADIX;
    OK(fw_index_create(pool, "index", &options, &index));
    OK(fw_put(index, "key", 3, "value", 5));
    return index;
}

static void test_parent(const char *url) {
    fw_pool *pool;
    fw_index *index;
    fw_spatial *spatial;
    fw_session *session;
    fw_item item = {{1, 2, 3, 4}, 5};
    uint64_t count = 0;
    int status = 0;
    pid_t child;
    OK(fw_pool_open(url, &pool));
    index = create(pool);
    OK(fw_spatial_create(pool, "places", NULL, &spatial));
    OK(fw_session_open(&session));
    CHECK(run(session, index, FW_OP_GET).status == FW_OK);
    child = fork();
    if (child == 0) {
        test_child(pool, index, spatial, &item);
        /* Another program ends well: valgrind would report the memory of threads that the child does not have. */
        execl("/bin/true", "true", (char *)NULL);
        _exit(2);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    EXPECT(FW_TOO_SMALL, fw_get(index, "child", 5, NULL, 0, NULL));
    CHECK(run(session, index, FW_OP_GET).status == FW_OK);
    OK(fw_spatial_count(spatial, &item.bounds, FW_INTERSECTS, &count));
    CHECK(count == 1);
    OK(fw_session_close(session));
    OK(fw_spatial_close(spatial));
    OK(fw_index_close(index));
    OK(fw_pool_close(pool));
}

int main(void) {
    char url[64];
    fw_pool_options options = fw_pool_options_default();
    snprintf(url, sizeof url, "shm://c-fork-%ld", (long)getpid());
    options.memory_bytes = 64 << 20;
    OK(fw_pool_create(url, &options));
    test_parent(url);
    OK(fw_pool_remove(url));
    return 0;
}
