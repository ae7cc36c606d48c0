/*
 * The C interface of Farwood: ordered and spatial indexes in shared and far memory, which processes share.
 *
 * Every call that returns int32_t returns FW_OK (0), another expected outcome above 0 (FW_NOT_FOUND, FW_EXISTS, ..), or
 * an error below 0, whose text and remedy fw_last_error stores. No call prints, and no panic or exception leaves one.
 *
 * Pools and indexes may be used by any number of threads at the same time; iterators, items and sessions by one at a
 * time. An object is closed once, by the function of its type, and NULL may be closed. Buffers belong to the caller:
 * the library keeps no pointer to them after a call. A key or a value of no bytes may be NULL, except where NULL has
 * another meaning. docs/c.md is the guide.
 *
 * A test generates this file from the sources with cbindgen; do not edit it.
 */
#ifndef FARWOOD_H
#define FARWOOD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/**
 * Incremented when a program that was compiled with an older header no longer works with the library.
 */
#define FW_ABI_VERSION 0

/**
 * The call has succeeded.
 */
#define FW_OK 0

/**
 * The key or the item does not exist. Nothing was changed.
 */
#define FW_NOT_FOUND 1

/**
 * The key exists already. Nothing was changed.
 */
#define FW_EXISTS 2

/**
 * The result does not fit into the buffer of the caller; its length was stored.
 */
#define FW_TOO_SMALL 3

/**
 * The iterator has no further entry.
 */
#define FW_END 4

/**
 * The key has another value than the expected one. Nothing was changed.
 */
#define FW_MISMATCH 5

/**
 * The entry was stored in the place of another one. Only batches and sessions distinguish it from `FW_OK`.
 */
#define FW_REPLACED 6

/**
 * A callback has ended the call.
 */
#define FW_STOPPED 7

/**
 * The pool or the index does not exist.
 */
#define FW_ERR_NOT_FOUND (-1)

/**
 * The pool or the index exists already, or the index of a bulk load has entries.
 */
#define FW_ERR_EXISTS (-2)

/**
 * The pool, its directory, its client table, the memory of a machine or a file system is full.
 */
#define FW_ERR_FULL (-3)

/**
 * Another client holds a lock, the index or the file. The call may succeed later.
 */
#define FW_ERR_BUSY (-4)

/**
 * A memory node, the server of an index or etcd does not answer, or was lost. The call may succeed later.
 */
#define FW_ERR_UNREACHABLE (-5)

/**
 * The time limit of the call has passed.
 */
#define FW_ERR_TIMED_OUT (-6)

/**
 * Another client considered this one crashed and revoked it. Open the pool again.
 */
#define FW_ERR_REVOKED (-7)

/**
 * A forked child uses an iterator or a session of its parent, or cannot open the pool of its parent again.
 */
#define FW_ERR_FORKED (-8)

/**
 * The operating system, a memory node, the server of an index or etcd denies access.
 */
#define FW_ERR_PERMISSION_DENIED (-9)

/**
 * The index stores other types.
 */
#define FW_ERR_TYPE_MISMATCH (-10)

/**
 * An argument is invalid: a null pointer, a name, a size, a URL, or a key or value that does not fit.
 */
#define FW_ERR_INVALID_ARGUMENT (-11)

/**
 * The pool or the index has another format, or the library was built without what the call needs.
 */
#define FW_ERR_UNSUPPORTED (-12)

/**
 * The pool or the index is damaged or lost.
 */
#define FW_ERR_DAMAGED (-13)

/**
 * The operating system refuses a call or a resource.
 */
#define FW_ERR_SYSTEM (-14)

/**
 * None of the other errors.
 */
#define FW_ERR_OTHER (-15)

/**
 * A defect of the library ended the call; the pool may be used further. Report the text of the error.
 */
#define FW_ERR_PANIC (-16)

/**
 * The call changes something, and the pool was opened for reading only, or its token permits only reads. Nothing was
 * changed.
 */
#define FW_ERR_READ_ONLY (-17)

/**
 * A call that failed has changed nothing.
 */
#define FW_EFFECT_NONE 0

/**
 * A call that failed may have made its change, wholly or in part.
 */
#define FW_EFFECT_UNKNOWN 1

/**
 * Keys or values are byte strings.
 */
#define FW_BYTES 0

/**
 * Keys or values are unsigned numbers of 64 bits, as `fw_key_u64be` encodes them.
 */
#define FW_U64 1

/**
 * Keys or values are UTF-8 texts without NUL. Their lengths do not contain a NUL at the end.
 */
#define FW_TEXT 2

/**
 * Keys or values are signed numbers of 64 bits, as `fw_key_i64be` encodes them.
 */
#define FW_I64 3

/**
 * Keys or values are floating-point numbers of 64 bits, as `fw_key_f64be` encodes them.
 */
#define FW_F64 4

/**
 * Keys or values are one byte, 0 or 1.
 */
#define FW_BOOL 5

/**
 * Keys or values are of another type of the library, such as a tuple; this interface treats them as byte strings.
 */
#define FW_STRUCTURED 6

/**
 * A B-link tree: keys of one length.
 */
#define FW_BTREE 0

/**
 * A radix tree with a cache of nodes: keys and values of any length.
 */
#define FW_RADIX 1

/**
 * A radix tree with a hash table and a small filter: keys and values of any length.
 */
#define FW_HASHED 2

/**
 * A spatial index; `fw_pool_indexes` reports it.
 */
#define FW_SPATIAL 3

/**
 * An index that this version cannot read; `fw_pool_indexes` reports it.
 */
#define FW_UNREADABLE 4

/**
 * Of a range: the lower bound itself is not in the range.
 */
#define FW_LOWER_EXCLUSIVE 1

/**
 * Of a range: the upper bound itself is in the range.
 */
#define FW_UPPER_INCLUSIVE 2

/**
 * Of a range: the entries are returned by decreasing key.
 */
#define FW_REVERSE 4

/**
 * Of a range: all entries are read when the scan is opened, as of one moment. B-link trees only, up to 32 leaves.
 */
#define FW_SNAPSHOT 8

/**
 * Of `fw_pool_options`: all memory is allocated when the pool is created.
 */
#define FW_RESERVE_MEMORY 1

/**
 * Rectangles that share a point with the window.
 */
#define FW_INTERSECTS 0

/**
 * Rectangles inside the window.
 */
#define FW_WITHIN 1

/**
 * Rectangles that contain the window.
 */
#define FW_CONTAINS 2

/**
 * The meaning of the coordinates is not stated.
 */
#define FW_COORDINATES_UNSTATED 0

/**
 * The coordinates are those of a plane.
 */
#define FW_COORDINATES_PLANAR 1

/**
 * The coordinates are degrees: x is a longitude from -180 to 180, y a latitude from -90 to 90.
 */
#define FW_COORDINATES_DEGREES 2

/**
 * Reads the value of a key.
 */
#define FW_OP_GET 1

/**
 * Stores a value under a key.
 */
#define FW_OP_PUT 2

/**
 * Stores a value under a key that does not exist.
 */
#define FW_OP_INSERT 3

/**
 * Replaces the value of a key that exists.
 */
#define FW_OP_UPDATE 4

/**
 * Removes a key.
 */
#define FW_OP_REMOVE 5

/**
 * Replaces the expected value of a key.
 */
#define FW_OP_COMPARE_EXCHANGE 6

/**
 * Adds to a number.
 */
#define FW_OP_FETCH_ADD 7

/**
 * Reads the entries of a range.
 */
#define FW_OP_SCAN 8

/**
 * Finds the items of a window.
 */
#define FW_OP_SEARCH 9

/**
 * Finds the items nearest to a point.
 */
#define FW_OP_NEAREST 10

/**
 * Adds an item.
 */
#define FW_OP_ITEM_INSERT 11

/**
 * Removes an item.
 */
#define FW_OP_ITEM_REMOVE 12

/**
 * Moves an item to other bounds.
 */
#define FW_OP_ITEM_MOVE 13

/**
 * An ordered index. Any number of threads may use it.
 */
typedef struct fw_index fw_index;

/**
 * Items that a search has found. One thread at a time may use it.
 */
typedef struct fw_items fw_items;

/**
 * A pool: this process's attachment to its memory nodes. Any number of threads may use it. Indexes keep it attached
 * after it is closed.
 */
typedef struct fw_pool fw_pool;

/**
 * An iterator over entries. One thread at a time may use it.
 */
typedef struct fw_scan fw_scan;

/**
 * Operations in flight, and those that have ended. One thread at a time may use it.
 */
typedef struct fw_session fw_session;

/**
 * A spatial index. Any number of threads may use it.
 */
typedef struct fw_spatial fw_spatial;

/**
 * The options of an ordered index. Create it with `fw_index_options_default`, or set all bytes to 0 and `size` to
 * `sizeof(fw_index_options)`. A field that is 0 has its default.
 */
typedef struct fw_index_options {
    /**
     * The size of this struct in bytes.
     */
    size_t size;
    /**
     * The bytes of a key in a B-link tree, 8 to 1024; required for byte strings and texts, and 0 for numbers.
     */
    uint64_t key_bytes;
    /**
     * The bytes of a value in a B-link tree, up to 4096; 0: numbers have their own length, and byte strings and texts
     * have any length up to 16 MiB.
     */
    uint64_t value_bytes;
    /**
     * The bytes of a node of a B-link tree; the default is 1 KiB.
     */
    uint64_t node_bytes;
    /**
     * The budget of this process's cache of nodes or filter in bytes, if the call creates the index.
     */
    uint64_t cache_bytes;
    /**
     * The longest duration of a call in milliseconds, which then fails with `FW_ERR_TIMED_OUT`; 0: no limit.
     */
    uint64_t timeout_ms;
    /**
     * `FW_BTREE`, `FW_RADIX` or `FW_HASHED`. `fw_index_open` ignores it.
     */
    int32_t structure;
    /**
     * The kind of the keys: `FW_BYTES`, `FW_U64`, `FW_TEXT`, `FW_I64`, `FW_F64`, `FW_BOOL` or `FW_STRUCTURED`.
     */
    int32_t key_kind;
    /**
     * The kind of the values.
     */
    int32_t value_kind;
    /**
     * Must be 0.
     */
    uint32_t reserved;
} fw_index_options;

/**
 * The options for creating a pool in shared memory. Create it with `fw_pool_options_default`, or set all bytes to 0
 * and `size` to `sizeof(fw_pool_options)`. A field that is 0 has its default.
 */
typedef struct fw_pool_options {
    /**
     * The size of this struct in bytes.
     */
    size_t size;
    /**
     * The memory of each memory node in bytes, a multiple of 8 MiB; the default is 1 GiB.
     */
    uint64_t memory_bytes;
    /**
     * The device memory of each memory node in bytes, which holds the locks; the default is 256 KiB.
     */
    uint64_t device_bytes;
    /**
     * The name or number of a group of users that shares the pool; the default is none.
     */
    const char *group;
    /**
     * The number of memory nodes, 1 to 256; the default is 1.
     */
    uint32_t nodes;
    /**
     * `FW_RESERVE_MEMORY` or 0.
     */
    uint32_t flags;
    /**
     * The permissions of the files of the pool, such as 0640 for a group that reads it; the default is 0600, or 0660
     * with a group.
     */
    uint32_t mode;
    /**
     * Must be 0.
     */
    uint32_t reserved;
} fw_pool_options;

/**
 * An index in the directory of a pool.
 */
typedef struct fw_index_info {
    /**
     * The size of this struct in bytes.
     */
    size_t size;
    /**
     * The name. It is valid during the callback.
     */
    const char *name;
    /**
     * The bytes of a key; 0: any length.
     */
    uint64_t key_bytes;
    /**
     * The bytes of a value; 0: any length, or values without bytes.
     */
    uint64_t value_bytes;
    /**
     * `FW_BTREE`, `FW_RADIX`, `FW_HASHED`, `FW_SPATIAL` or `FW_UNREADABLE`.
     */
    int32_t structure;
    /**
     * The kind of the keys, such as `FW_U64`; `FW_BYTES` for a spatial index.
     */
    int32_t key_kind;
    /**
     * The kind of the values, such as `FW_U64`; `FW_BYTES` for a spatial index.
     */
    int32_t value_kind;
} fw_index_info;

/**
 * Receives an index of a pool. A result other than 0 ends the call with `FW_STOPPED`.
 */
typedef int32_t (*fw_index_info_fn)(void *context, const struct fw_index_info *info);

/**
 * A range of keys. Create it with `fw_range_default`, or set all bytes to 0 and `size` to `sizeof(fw_range)`, which
 * stands for all entries by increasing key.
 */
typedef struct fw_range {
    /**
     * The size of this struct in bytes.
     */
    size_t size;
    /**
     * The lower bound, which is in the range unless `flags` has `FW_LOWER_EXCLUSIVE`; NULL: no bound.
     */
    const void *lower;
    /**
     * The bytes of the lower bound.
     */
    size_t lower_len;
    /**
     * The upper bound, which is not in the range unless `flags` has `FW_UPPER_INCLUSIVE`; NULL: no bound.
     */
    const void *upper;
    /**
     * The bytes of the upper bound.
     */
    size_t upper_len;
    /**
     * The beginning of all keys of the range; NULL: any beginning. Not together with `lower` or `upper`.
     */
    const void *prefix;
    /**
     * The bytes of the prefix.
     */
    size_t prefix_len;
    /**
     * The key after which the entries begin, in the direction of the scan: for the next page, the last key of the page
     * before. NULL: the range from its start.
     */
    const void *after;
    /**
     * The bytes of that key.
     */
    size_t after_len;
    /**
     * The largest number of entries; 0: no limit.
     */
    uint64_t limit;
    /**
     * `FW_LOWER_EXCLUSIVE`, `FW_UPPER_INCLUSIVE`, `FW_REVERSE` and `FW_SNAPSHOT`.
     */
    uint32_t flags;
    /**
     * Must be 0.
     */
    uint32_t reserved;
} fw_range;

/**
 * Receives an entry. A result other than 0 ends the scan with `FW_STOPPED`. Key and value are valid during the
 * callback, which may use the library.
 */
typedef int32_t (*fw_entry_fn)(void *context, const void *key, size_t key_len, const void *value, size_t value_len);

/**
 * A rectangle. Its edges are finite numbers, and belong to it.
 */
typedef struct fw_rect {
    /**
     * The least x.
     */
    double x_min;
    /**
     * The least y.
     */
    double y_min;
    /**
     * The greatest x, at least `x_min`.
     */
    double x_max;
    /**
     * The greatest y, at least `y_min`.
     */
    double y_max;
} fw_rect;

/**
 * A rectangle with a number that the caller chooses. Several items may have equal rectangles, numbers, or both.
 */
typedef struct fw_item {
    /**
     * The rectangle.
     */
    struct fw_rect bounds;
    /**
     * The number.
     */
    uint64_t id;
} fw_item;

/**
 * An operation. Set all bytes to 0 before you set the fields that it needs. Its keys and values are copied: they need
 * not outlive `fw_submit`.
 */
typedef struct fw_op {
    /**
     * A number of the caller, which the completion has, too.
     */
    uint64_t tag;
    /**
     * The ordered index; NULL for an operation on a spatial index.
     */
    const struct fw_index *index;
    /**
     * The spatial index; NULL for an operation on an ordered index.
     */
    const struct fw_spatial *spatial;
    /**
     * The key.
     */
    const void *key;
    /**
     * The bytes of the key.
     */
    size_t key_len;
    /**
     * The value of `FW_OP_PUT`, `FW_OP_INSERT` and `FW_OP_UPDATE`; the new value of `FW_OP_COMPARE_EXCHANGE`, or NULL.
     */
    const void *value;
    /**
     * The bytes of the value.
     */
    size_t value_len;
    /**
     * The expected value of `FW_OP_COMPARE_EXCHANGE`, or NULL for a key that must not exist.
     */
    const void *expected;
    /**
     * The bytes of the expected value.
     */
    size_t expected_len;
    /**
     * The range of `FW_OP_SCAN`; NULL: all entries. Give it a limit.
     */
    const struct fw_range *range;
    /**
     * The item of `FW_OP_ITEM_INSERT`, `FW_OP_ITEM_REMOVE` and `FW_OP_ITEM_MOVE`.
     */
    const struct fw_item *item;
    /**
     * The window of `FW_OP_SEARCH`; the new bounds of `FW_OP_ITEM_MOVE`; the point of `FW_OP_NEAREST`, `x_min` and
     * `y_min`.
     */
    const struct fw_rect *bounds;
    /**
     * The summand of `FW_OP_FETCH_ADD`; the number of items of `FW_OP_NEAREST`; the relation of `FW_OP_SEARCH`, such
     * as `FW_INTERSECTS`.
     */
    int64_t number;
    /**
     * `FW_OP_GET` or another operation.
     */
    int32_t code;
    /**
     * Must be 0.
     */
    uint32_t reserved;
} fw_op;

/**
 * The completion of an operation.
 */
typedef struct fw_done {
    /**
     * The tag of the operation.
     */
    uint64_t tag;
    /**
     * The value that the operation has found (`FW_OP_GET`; `FW_OP_COMPARE_EXCHANGE` with `FW_MISMATCH`); after an
     * error its text, with a NUL at its end. It is valid until the next call of `fw_poll`, `fw_wait` or
     * `fw_session_close`.
     */
    const void *value;
    /**
     * The bytes of the value, or of the text without NUL.
     */
    size_t value_len;
    /**
     * The entries of `FW_OP_SCAN`, or NULL. Close it with `fw_scan_close`.
     */
    struct fw_scan *scan;
    /**
     * The items of `FW_OP_SEARCH` and `FW_OP_NEAREST`, or NULL. Close them with `fw_items_close`.
     */
    struct fw_items *items;
    /**
     * The number before `FW_OP_FETCH_ADD`.
     */
    int64_t before;
    /**
     * The code that the call of the same name would have returned. That of `FW_OP_PUT` may be `FW_REPLACED`.
     */
    int32_t status;
    /**
     * The operation.
     */
    int32_t code;
    /**
     * Of an error: `FW_EFFECT_NONE` or `FW_EFFECT_UNKNOWN`.
     */
    int32_t effect;
    /**
     * Of an error: 1 if the operation may succeed later without a remedy.
     */
    int32_t retryable;
} fw_done;

/**
 * The options of a spatial index. Create it with `fw_spatial_options_default`, or set all bytes to 0 and `size` to
 * `sizeof(fw_spatial_options)`. A field that is 0 has its default.
 */
typedef struct fw_spatial_options {
    /**
     * The size of this struct in bytes.
     */
    size_t size;
    /**
     * The largest size of a node in bytes, 384 to 20,544; the default is 1,984.
     */
    uint64_t node_bytes;
    /**
     * The memory node of the tree.
     */
    uint32_t memory_node;
    /**
     * The meaning of the coordinates, such as `FW_COORDINATES_PLANAR`.
     */
    int32_t coordinates;
} fw_spatial_options;

/**
 * Receives an item. A result other than 0 ends the call with `FW_STOPPED`.
 */
typedef int32_t (*fw_item_fn)(void *context, const struct fw_item *item);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Looks up `count` keys together: `keys[i]` has `key_lens[i]` bytes, and its value is copied into `bufs[i]`, which has
 * `caps[i]` bytes. `lens[i]` receives the length of the value, and `statuses[i]` `FW_OK`, `FW_NOT_FOUND` or
 * `FW_TOO_SMALL`. `lens` may be NULL. [1 round trip for 64 keys]
 *
 * Returns `FW_OK` if all keys were looked up, whatever their statuses are. After an error the arrays are unchanged.
 */
int32_t fw_get_many(const struct fw_index *index,
                    size_t count,
                    const void *const *keys,
                    const size_t *key_lens,
                    void *const *bufs,
                    const size_t *caps,
                    size_t *lens,
                    int32_t *statuses);

/**
 * Stores `count` entries together, those of one key in their order. Each is one atomic change; the batch is not.
 * `statuses[i]` receives `FW_OK`, or `FW_REPLACED` if the key existed; `statuses` may be NULL. [2 round trips for 64
 * keys]
 *
 * After an error some of the entries may be stored, unless `fw_last_effect` returns `FW_EFFECT_NONE`.
 */
int32_t fw_put_many(const struct fw_index *index,
                    size_t count,
                    const void *const *keys,
                    const size_t *key_lens,
                    const void *const *values,
                    const size_t *value_lens,
                    int32_t *statuses);

/**
 * Removes `count` keys together. `statuses[i]` receives `FW_OK`, or `FW_NOT_FOUND` if the key did not exist;
 * `statuses` may be NULL. Otherwise as `fw_put_many`.
 */
int32_t fw_remove_many(const struct fw_index *index,
                       size_t count,
                       const void *const *keys,
                       const size_t *key_lens,
                       int32_t *statuses);

/**
 * Loads `count` entries, whose keys increase strictly, into an empty index. `fill_factor` is the part of a node that
 * is filled, 0.5 to 1; 0 stands for the default, 0.8. `loaded` receives the number of entries, unless it is NULL.
 * After an error the index is still empty. [1 round trip for 64 nodes]
 */
int32_t fw_bulk_load(const struct fw_index *index,
                     size_t count,
                     const void *const *keys,
                     const size_t *key_lens,
                     const void *const *values,
                     const size_t *value_lens,
                     double fill_factor,
                     uint64_t *loaded);

/**
 * Creates an index and opens it.
 */
int32_t fw_index_create(const struct fw_pool *pool,
                        const char *name,
                        const struct fw_index_options *options,
                        struct fw_index **index);

/**
 * Opens an index, or creates it if it does not exist. Several processes may do this at once. An existing index must
 * have the structure and the kinds of the options, and the lengths that they state; otherwise the call fails with
 * `FW_ERR_TYPE_MISMATCH`.
 */
int32_t fw_index_open_or_create(const struct fw_pool *pool,
                                const char *name,
                                const struct fw_index_options *options,
                                struct fw_index **index);

/**
 * Opens an existing index. `options` may be NULL: the index is then opened whatever its types are. Otherwise it must
 * have the kinds of the options and the lengths that they state, and `timeout_ms` limits the calls of this handle.
 */
int32_t fw_index_open(const struct fw_pool *pool,
                      const char *name,
                      const struct fw_index_options *options,
                      struct fw_index **index);

/**
 * Closes an index; NULL is permitted. The call waits for operations of sessions on the index that have begun. Open
 * iterators keep the index open in this process until they are closed.
 */
int32_t fw_index_close(struct fw_index *index);

/**
 * Stores the kinds of the keys and the values, such as `FW_U64`. Each pointer may be NULL.
 */
int32_t fw_index_kinds(const struct fw_index *index, int32_t *key_kind, int32_t *value_kind);

/**
 * Stores the largest lengths of keys and values in bytes: with these buffers no call returns `FW_TOO_SMALL`. Each
 * pointer may be NULL.
 */
int32_t fw_index_lengths(const struct fw_index *index, size_t *key_max, size_t *value_max);

/**
 * Copies the value of a key into `buf`. `len` receives its length, unless it is NULL. [1 round trip]
 *
 * Returns `FW_NOT_FOUND`; `FW_TOO_SMALL` if the value has more than `cap` bytes: `buf` is then unchanged.
 */
int32_t fw_get(const struct fw_index *index, const void *key, size_t key_len, void *buf, size_t cap, size_t *len);

/**
 * Stores a value under a key, whether or not the key exists. [2 round trips]
 */
int32_t fw_put(const struct fw_index *index, const void *key, size_t key_len, const void *value, size_t value_len);

/**
 * Stores a value under a key that does not exist. Returns `FW_EXISTS` if it does. [2 round trips]
 */
int32_t fw_insert(const struct fw_index *index, const void *key, size_t key_len, const void *value, size_t value_len);

/**
 * Replaces the value of a key that exists. Returns `FW_NOT_FOUND` if it does not. [2 round trips]
 */
int32_t fw_update(const struct fw_index *index, const void *key, size_t key_len, const void *value, size_t value_len);

/**
 * Removes a key. Returns `FW_NOT_FOUND` if it does not exist. [2 round trips]
 */
int32_t fw_remove(const struct fw_index *index, const void *key, size_t key_len);

/**
 * Replaces the value `expected` of a key by `desired`, in one atomic step. `expected` is NULL for a key that must not
 * exist; a `desired` of NULL removes the key. [2 round trips]
 *
 * Returns `FW_NOT_FOUND` if the key does not exist; `FW_MISMATCH` if it has another value, which is copied into `buf`
 * if it fits into `cap` bytes. `len` receives the length of that value. `buf` and `len` may be NULL.
 */
int32_t fw_compare_exchange(const struct fw_index *index,
                            const void *key,
                            size_t key_len,
                            const void *expected,
                            size_t expected_len,
                            const void *desired,
                            size_t desired_len,
                            void *buf,
                            size_t cap,
                            size_t *len);

/**
 * Adds `by` to the number of a key, which is 0 if the key does not exist, in one atomic step. The values are of kind
 * `FW_U64` or `FW_I64`; a sum of unsigned numbers has the same bits. `before` receives the number before, unless it is
 * NULL. [2 round trips]
 */
int32_t fw_fetch_add(const struct fw_index *index, const void *key, size_t key_len, int64_t by, int64_t *before);

/**
 * Counts the entries of the index, which takes as long as a scan. The count is not of one moment.
 */
int32_t fw_count(const struct fw_index *index, uint64_t *count);

/**
 * Encodes a number for an index with keys or values of kind `FW_U64`.
 *
 * `key` has 8 bytes.
 */
void fw_key_u64be(uint64_t number, uint8_t *key);

/**
 * Encodes a number for an index with keys or values of kind `FW_I64`.
 *
 * `key` has 8 bytes.
 */
void fw_key_i64be(int64_t number, uint8_t *key);

/**
 * Encodes a number for an index with keys or values of kind `FW_F64`. The order is that of the numbers, with -0 below
 * 0 and NaN at the ends.
 *
 * `key` has 8 bytes.
 */
void fw_key_f64be(double number, uint8_t *key);

/**
 * Decodes a number of kind `FW_U64`.
 *
 * `key` has 8 bytes.
 */
uint64_t fw_u64_of_key(const uint8_t *key);

/**
 * Decodes a number of kind `FW_I64`.
 *
 * `key` has 8 bytes.
 */
int64_t fw_i64_of_key(const uint8_t *key);

/**
 * Decodes a number of kind `FW_F64`.
 *
 * `key` has 8 bytes.
 */
double fw_f64_of_key(const uint8_t *key);

/**
 * Creates a pool in shared memory, `shm://NAME`. A pool over a network is created by starting its memory nodes
 * (`farwood serve`). `options` may be NULL.
 */
int32_t fw_pool_create(const char *url, const struct fw_pool_options *options);

/**
 * Attaches this process to a pool: `shm://NAME`, `tcp://HOST:PORT,..`, `rdma://..` or `etcd://..`. New memory nodes
 * over a network become a pool. Close it with `fw_pool_close`.
 */
int32_t fw_pool_open(const char *url, struct fw_pool **pool);

/**
 * Attaches this process to an existing pool, as `fw_pool_open`, but does not make new memory nodes a pool.
 */
int32_t fw_pool_find(const char *url, struct fw_pool **pool);

/**
 * Attaches this process to an existing pool for reading only. The permission to read its files is enough, or the token
 * for reading. Calls that change something fail with `FW_ERR_READ_ONLY`, and other processes do not see this one.
 */
int32_t fw_pool_open_read_only(const char *url, struct fw_pool **pool);

/**
 * Creates a pool for this process alone, without a name, with one memory node of `memory_bytes` bytes, a multiple of 8
 * MiB. It vanishes when it and its indexes are closed, or the process ends.
 */
int32_t fw_pool_anonymous(uint64_t memory_bytes, struct fw_pool **pool);

/**
 * Closes a pool; NULL is permitted. The process stays attached until the indexes of the pool are closed, too.
 */
int32_t fw_pool_close(struct fw_pool *pool);

/**
 * Removes a pool in shared memory. No live process may be attached to it, including the calling one.
 */
int32_t fw_pool_remove(const char *url);

/**
 * Removes a pool in shared memory in any state. Calls of attached processes fail with `FW_ERR_DAMAGED`.
 */
int32_t fw_pool_remove_by_force(const char *url);

/**
 * Passes the indexes of the pool to `receive`, by name.
 */
int32_t fw_pool_indexes(const struct fw_pool *pool, fw_index_info_fn receive, void *context);

/**
 * Drops an index of any structure and frees its memory. No process may have it open, including the calling one.
 */
int32_t fw_index_drop(const struct fw_pool *pool, const char *name);

/**
 * Stores the state of the pool as JSON, without a NUL: an object with the arrays `nodes`, `clients` and `indexes`.
 *
 * Returns `FW_TOO_SMALL` if the text has more than `cap` bytes. `len` receives its length, unless it is NULL.
 *
 * `buf` has `cap` bytes, or is NULL and `cap` is 0.
 */
int32_t fw_pool_stats_json(const struct fw_pool *pool, char *buf, size_t cap, size_t *len);

/**
 * Begins a scan of a range; NULL stands for all entries. The range and its keys need not outlive the call. The scan
 * returns every key that exists during the whole scan, and is not of one moment unless the range has `FW_SNAPSHOT`. It
 * reads ahead in growing batches: give a limit if you need few entries. [1 round trip for up to 32 leaves]
 */
int32_t fw_scan_open(const struct fw_index *index, const struct fw_range *range, struct fw_scan **scan);

/**
 * Moves to the next entry; the first call moves to the first one. Returns `FW_END` if there is none.
 */
int32_t fw_scan_next(struct fw_scan *scan);

/**
 * Stores the address and the length of the key of the current entry. They are valid until the next call of
 * `fw_scan_next` or `fw_scan_close`.
 */
int32_t fw_scan_key(const struct fw_scan *scan, const uint8_t **key, size_t *len);

/**
 * Stores the address and the length of the value of the current entry, as `fw_scan_key`.
 */
int32_t fw_scan_value(const struct fw_scan *scan, const uint8_t **value, size_t *len);

/**
 * Closes an iterator; NULL is permitted.
 */
int32_t fw_scan_close(struct fw_scan *scan);

/**
 * Passes the entries of a range to `receive`; NULL stands for all entries. Otherwise as `fw_scan_open`.
 */
int32_t fw_scan_each(const struct fw_index *index, const struct fw_range *range, fw_entry_fn receive, void *context);

/**
 * Opens a session, which may submit operations on any indexes. A thread of the pool executes them; it starts with the
 * first operation.
 */
int32_t fw_session_open(struct fw_session **session);

/**
 * Closes a session; NULL is permitted. Operations in flight end as they would have ended, and their completions are
 * forgotten.
 */
int32_t fw_session_close(struct fw_session *session);

/**
 * Stores a descriptor (an eventfd) that is readable when completions may be available, for poll, epoll, io_uring or an
 * event loop. Only watch it: `fw_poll` reads it. It is valid until the session is closed.
 */
int32_t fw_fd(const struct fw_session *session, int *fd);

/**
 * Begins `count` operations, which run at the same time and end in any order. An operation with invalid arguments ends
 * with an error as its status. The number of operations in flight has no limit but memory; 16 to 64 keep a network
 * busy.
 */
int32_t fw_submit(struct fw_session *session, const struct fw_op *ops, size_t count);

/**
 * Stores up to `cap` completions in `done`, and their number in `count`, without waiting. The values of the
 * completions before become invalid.
 */
int32_t fw_poll(struct fw_session *session, struct fw_done *done, size_t cap, size_t *count);

/**
 * As `fw_poll`, but waits for a completion: up to `timeout_ms` milliseconds, or without a limit if that is negative.
 * `count` receives 0 if the time has passed, or no operation is in flight.
 */
int32_t fw_wait(struct fw_session *session, struct fw_done *done, size_t cap, int64_t timeout_ms, size_t *count);

/**
 * Stores the number of operations that have not ended.
 */
int32_t fw_in_flight(const struct fw_session *session, size_t *count);

/**
 * Creates a spatial index and opens it. `options` may be NULL.
 */
int32_t fw_spatial_create(const struct fw_pool *pool,
                          const char *name,
                          const struct fw_spatial_options *options,
                          struct fw_spatial **spatial);

/**
 * Opens a spatial index.
 */
int32_t fw_spatial_open(const struct fw_pool *pool, const char *name, struct fw_spatial **spatial);

/**
 * Closes a handle of a spatial index; NULL is permitted. The process has the index open until it closes the pool and
 * all indexes of it. The call waits for operations of sessions on the handle that have begun.
 */
int32_t fw_spatial_close(struct fw_spatial *spatial);

/**
 * Adds an item. A process that serves the index makes the change; in shared memory this process makes it if there is
 * none. Use `fw_spatial_insert_many` for many items.
 */
int32_t fw_spatial_insert(const struct fw_spatial *spatial, const struct fw_item *item);

/**
 * Removes one item with this rectangle and number. Returns `FW_NOT_FOUND` if there is none.
 */
int32_t fw_spatial_remove(const struct fw_spatial *spatial, const struct fw_item *item);

/**
 * Moves an item to other bounds in one atomic step. Returns `FW_NOT_FOUND` if there is no item with its rectangle and
 * number.
 */
int32_t fw_spatial_move(const struct fw_spatial *spatial, const struct fw_item *item, const struct fw_rect *bounds);

/**
 * Adds `count` items in batches, each of which is one change of the index.
 */
int32_t fw_spatial_insert_many(const struct fw_spatial *spatial, const struct fw_item *items, size_t count);

/**
 * Removes `count` items in batches. `statuses[i]` receives `FW_OK` or `FW_NOT_FOUND`; `statuses` may be NULL.
 */
int32_t fw_spatial_remove_many(const struct fw_spatial *spatial,
                               const struct fw_item *items,
                               size_t count,
                               int32_t *statuses);

/**
 * Loads `count` items into an empty index. `fill_factor` is the part of a node that is filled, 0.5 to 1; 0 stands for
 * 0.8. In shared memory no other process may serve the index; over TCP a process must.
 */
int32_t fw_spatial_bulk_load(const struct fw_spatial *spatial,
                             const struct fw_item *items,
                             size_t count,
                             double fill_factor);

/**
 * Finds the items whose rectangles have the relation `FW_INTERSECTS`, `FW_WITHIN` or `FW_CONTAINS` to the window, as
 * of one moment during the call, in no particular order.
 */
int32_t fw_spatial_search(const struct fw_spatial *spatial,
                          const struct fw_rect *window,
                          int32_t relation,
                          struct fw_items **items);

/**
 * Passes the items that `fw_spatial_search` would find to `receive`.
 */
int32_t fw_spatial_search_each(const struct fw_spatial *spatial,
                               const struct fw_rect *window,
                               int32_t relation,
                               fw_item_fn receive,
                               void *context);

/**
 * Counts the items that `fw_spatial_search` would find.
 */
int32_t fw_spatial_count(const struct fw_spatial *spatial,
                         const struct fw_rect *window,
                         int32_t relation,
                         uint64_t *count);

/**
 * Finds the `count` items whose rectangles are nearest to a point, nearest first.
 */
int32_t fw_spatial_nearest(const struct fw_spatial *spatial, double x, double y, size_t count, struct fw_items **items);

/**
 * Stores the next item, and the square of its distance from the point of `fw_spatial_nearest` (0 for a search of a
 * window). Returns `FW_END` if there is none. Each pointer may be NULL.
 */
int32_t fw_items_next(struct fw_items *items, struct fw_item *item, double *distance_squared);

/**
 * Stores the number of items that `fw_items_next` has not returned.
 */
int32_t fw_items_left(const struct fw_items *items, size_t *count);

/**
 * Closes the items; NULL is permitted.
 */
int32_t fw_items_close(struct fw_items *items);

/**
 * Returns the version of the library, such as "0.1.0". The text is never freed.
 */
const char *fw_version(void);

/**
 * Returns `FW_ABI_VERSION` of the library: compare it with that of the header.
 */
int32_t fw_abi_version(void);

/**
 * Returns a short text for a code that a call has returned. The text is never freed.
 */
const char *fw_strerror(int32_t code);

/**
 * Stores the text of the last error of this thread: the operation, its object, the cause and the remedy. A text that
 * does not fit into `cap` bytes is cut; the stored text ends with a NUL. Calls that succeed keep the last error.
 *
 * Returns the length of the whole text without NUL, as snprintf does; 0 if no call of this thread has failed.
 *
 * `buf` has `cap` bytes, or is null.
 */
size_t fw_last_error(char *buf, size_t cap);

/**
 * Returns `FW_EFFECT_NONE` if the last call of this thread that failed has changed nothing, and `FW_EFFECT_UNKNOWN` if
 * its change may have been made, wholly or in part.
 */
int32_t fw_last_effect(void);

/**
 * Returns 1 if the last call of this thread that failed may succeed later without a remedy, and 0 otherwise.
 */
int32_t fw_last_retryable(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

/**
 * Returns a fw_pool_options with all defaults.
 */
static inline fw_pool_options fw_pool_options_default(void) {
    fw_pool_options made;
    memset(&made, 0, sizeof made);
    made.size = sizeof made;
    return made;
}

/**
 * Returns a fw_index_options with all defaults.
 */
static inline fw_index_options fw_index_options_default(void) {
    fw_index_options made;
    memset(&made, 0, sizeof made);
    made.size = sizeof made;
    return made;
}

/**
 * Returns a fw_range with all defaults.
 */
static inline fw_range fw_range_default(void) {
    fw_range made;
    memset(&made, 0, sizeof made);
    made.size = sizeof made;
    return made;
}

/**
 * Returns a fw_spatial_options with all defaults.
 */
static inline fw_spatial_options fw_spatial_options_default(void) {
    fw_spatial_options made;
    memset(&made, 0, sizeof made);
    made.size = sizeof made;
    return made;
}

#endif /* FARWOOD_H */
