/*
 * Two processes share an ordered map: the parent counts words, a child counts them, too, and the parent lists those
 * that begin with a prefix.
 *
 *   cc -std=c99 words.c $(pkg-config --cflags --libs farwood) -o words && ./words
 */
#define _POSIX_C_SOURCE 200809L

#include <farwood.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Ends the program if a call has failed. */
static void check(int32_t code, const char *call) {
    char text[512];
    if (code >= 0) {
        return;
    }
    fw_last_error(text, sizeof text);
    fprintf(stderr, "%s: %s: %s\n", call, fw_strerror(code), text);
    exit(1);
}

/* Opens the pool and the index. Every process does this for itself. */
static void open_words(const char *url, fw_pool **pool, fw_index **words) {
    fw_index_options options = fw_index_options_default();
    options.structure = FW_RADIX;
    options.key_kind = FW_TEXT;
    options.value_kind = FW_U64;
    check(fw_pool_open(url, pool), "fw_pool_open");
    check(fw_index_open_or_create(*pool, "words", &options, words), "fw_index_open_or_create");
}

static void close_words(fw_pool *pool, fw_index *words) {
    check(fw_index_close(words), "fw_index_close");
    check(fw_pool_close(pool), "fw_pool_close");
}

static void count_words(const char *url, const char *const *text) {
    fw_pool *pool;
    fw_index *words;
    open_words(url, &pool, &words);
    for (; *text != NULL; text++) {
        check(fw_fetch_add(words, *text, strlen(*text), 1, NULL), "fw_fetch_add");
    }
    close_words(pool, words);
}

static int print_word(void *context, const void *key, size_t key_len, const void *value, size_t value_len) {
    (void)value_len;
    printf("%.*s %llu\n", (int)key_len, (const char *)key, (unsigned long long)fw_u64_of_key(value));
    ++*(int *)context;
    return 0;
}

int main(void) {
    static const char *const first[] = {"far", "farm", "forest", "far", "farwood", NULL};
    static const char *const second[] = {"far", "wood", "farm", NULL};
    char url[64];
    int found = 0, status = 0;
    fw_pool *pool;
    fw_index *words;
    fw_pool_options options = fw_pool_options_default();
    fw_range range = fw_range_default();
    pid_t child;

    snprintf(url, sizeof url, "shm://words-%ld", (long)getpid());
    options.memory_bytes = 64 << 20;
    check(fw_pool_create(url, &options), "fw_pool_create");
    child = fork();
    if (child == 0) {
        count_words(url, second);
        return 0;
    }
    count_words(url, first);
    waitpid(child, &status, 0);

    open_words(url, &pool, &words);
    range.prefix = "far";
    range.prefix_len = 3;
    check(fw_scan_each(words, &range, print_word, &found), "fw_scan_each");
    close_words(pool, words);
    check(fw_pool_remove(url), "fw_pool_remove");
    return found == 3 && status == 0 ? 0 : 1;
}
