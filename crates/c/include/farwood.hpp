// The C++ interface of Farwood (C++17): objects that close themselves, and exceptions, over farwood.h.
//
// A call throws farwood::Error for each error of the library. Expected outcomes are results: an empty std::optional, or
// false. Objects move and are not copied. The rules of threads and forks are those of farwood.h, and docs/c.md is the
// guide.
#ifndef FARWOOD_HPP
#define FARWOOD_HPP

#include "farwood.h"

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace farwood {

// An error of the library. what() has its text with the remedy.
class Error : public std::runtime_error {
public:
    explicit Error(std::int32_t code)
        : std::runtime_error(text()), code_(code), effect_(fw_last_effect()), retryable_(fw_last_retryable() != 0) {}

    // FW_ERR_NOT_FOUND or another code below 0.
    std::int32_t code() const noexcept { return code_; }
    // Whether the call may have made its change.
    bool may_have_changed() const noexcept { return effect_ == FW_EFFECT_UNKNOWN; }
    // Whether the same call may succeed later.
    bool retryable() const noexcept { return retryable_; }

private:
    static std::string text() {
        std::string made(fw_last_error(nullptr, 0), '\0');
        fw_last_error(made.data(), made.size() + 1);
        return made;
    }

    std::int32_t code_, effect_;
    bool retryable_;
};

// Returns a code of 0 or more, and throws an error.
inline std::int32_t check(std::int32_t code) {
    if (code < 0) throw Error(code);
    return code;
}

template <auto close>
struct Closer {
    template <class T>
    void operator()(T *object) const noexcept { close(object); }
};

template <class T, auto close>
using Handle = std::unique_ptr<T, Closer<close>>;

// Encoded numbers: keys and values of the kinds FW_U64, FW_I64 and FW_F64.
inline std::string u64(std::uint64_t number) {
    std::string made(8, '\0');
    fw_key_u64be(number, reinterpret_cast<std::uint8_t *>(made.data()));
    return made;
}
inline std::string i64(std::int64_t number) {
    std::string made(8, '\0');
    fw_key_i64be(number, reinterpret_cast<std::uint8_t *>(made.data()));
    return made;
}
inline std::string f64(double number) {
    std::string made(8, '\0');
    fw_key_f64be(number, reinterpret_cast<std::uint8_t *>(made.data()));
    return made;
}
// The numbers of encoded bytes, which must be 8.
inline const std::uint8_t *number_bytes(std::string_view bytes) {
    if (bytes.size() != 8) throw std::invalid_argument("an encoded number has 8 bytes");
    return reinterpret_cast<const std::uint8_t *>(bytes.data());
}
inline std::uint64_t to_u64(std::string_view bytes) { return fw_u64_of_key(number_bytes(bytes)); }
inline std::int64_t to_i64(std::string_view bytes) { return fw_i64_of_key(number_bytes(bytes)); }
inline double to_f64(std::string_view bytes) { return fw_f64_of_key(number_bytes(bytes)); }

// The views of the current entry of a scan. They are valid until the scan moves.
struct Entry {
    std::string_view key, value;
};

class Scan {
public:
    explicit Scan(fw_scan *scan) : scan_(scan) {}

    // Moves to the next entry; returns nothing at the end.
    std::optional<Entry> next() {
        if (check(fw_scan_next(scan_.get())) == FW_END) return std::nullopt;
        const std::uint8_t *key = nullptr, *value = nullptr;
        std::size_t key_len = 0, value_len = 0;
        check(fw_scan_key(scan_.get(), &key, &key_len));
        check(fw_scan_value(scan_.get(), &value, &value_len));
        auto view = [](const std::uint8_t *bytes, std::size_t len) {
            return std::string_view(reinterpret_cast<const char *>(bytes), len);
        };
        return Entry{view(key, key_len), view(value, value_len)};
    }

private:
    Handle<fw_scan, fw_scan_close> scan_;
};

// A range of keys. The keys must live until the scan is opened.
struct Range {
    fw_range raw = fw_range_default();

    Range &from(std::string_view key) { return raw.lower = key.data(), raw.lower_len = key.size(), *this; }
    Range &to(std::string_view key) { return raw.upper = key.data(), raw.upper_len = key.size(), *this; }
    Range &prefix(std::string_view key) { return raw.prefix = key.data(), raw.prefix_len = key.size(), *this; }
    Range &after(std::string_view key) { return raw.after = key.data(), raw.after_len = key.size(), *this; }
    Range &limit(std::uint64_t entries) { return raw.limit = entries, *this; }
    Range &reverse() { return raw.flags |= FW_REVERSE, *this; }
};

class Index {
public:
    explicit Index(fw_index *index) : index_(index) {}

    std::optional<std::string> get(std::string_view key) const {
        std::string value(64, '\0');
        for (;;) {
            std::size_t len = 0;
            auto code = check(fw_get(raw(), key.data(), key.size(), value.data(), value.size(), &len));
            if (code == FW_NOT_FOUND) return std::nullopt;
            value.resize(len);
            if (code == FW_OK) return value;
        }
    }
    void put(std::string_view key, std::string_view value) {
        check(fw_put(raw(), key.data(), key.size(), value.data(), value.size()));
    }
    // Stores a new key; returns false if it exists.
    bool insert(std::string_view key, std::string_view value) {
        return check(fw_insert(raw(), key.data(), key.size(), value.data(), value.size())) == FW_OK;
    }
    // Replaces the value of a key; returns false if there is none.
    bool update(std::string_view key, std::string_view value) {
        return check(fw_update(raw(), key.data(), key.size(), value.data(), value.size())) == FW_OK;
    }
    bool remove(std::string_view key) { return check(fw_remove(raw(), key.data(), key.size())) == FW_OK; }
    // Replaces `expected` by `desired`, where nothing stands for an absent key; returns whether it did.
    bool compare_exchange(std::string_view key, std::optional<std::string_view> expected,
                          std::optional<std::string_view> desired) {
        auto data = [](const auto &value) { return !value ? nullptr : value->data() ? value->data() : ""; };
        auto size = [](const auto &value) { return value ? value->size() : 0; };
        return check(fw_compare_exchange(raw(), key.data(), key.size(), data(expected), size(expected), data(desired),
                                         size(desired), nullptr, 0, nullptr)) == FW_OK;
    }
    // Adds to a number; returns the number before.
    std::int64_t fetch_add(std::string_view key, std::int64_t by) {
        std::int64_t before = 0;
        check(fw_fetch_add(raw(), key.data(), key.size(), by, &before));
        return before;
    }
    Scan scan(const Range &range = {}) const {
        fw_scan *scan = nullptr;
        check(fw_scan_open(raw(), &range.raw, &scan));
        return Scan(scan);
    }
    std::uint64_t count() const {
        std::uint64_t entries = 0;
        check(fw_count(raw(), &entries));
        return entries;
    }
    fw_index *raw() const noexcept { return index_.get(); }

private:
    Handle<fw_index, fw_index_close> index_;
};

class Spatial {
public:
    explicit Spatial(fw_spatial *spatial) : spatial_(spatial) {}

    void insert(const fw_item &item) { check(fw_spatial_insert(raw(), &item)); }
    void insert(const std::vector<fw_item> &items) { check(fw_spatial_insert_many(raw(), items.data(), items.size())); }
    void bulk_load(const std::vector<fw_item> &items, double fill_factor = 0) {
        check(fw_spatial_bulk_load(raw(), items.data(), items.size(), fill_factor));
    }
    bool remove(const fw_item &item) { return check(fw_spatial_remove(raw(), &item)) == FW_OK; }
    bool move(const fw_item &item, const fw_rect &to) { return check(fw_spatial_move(raw(), &item, &to)) == FW_OK; }
    std::vector<fw_item> search(const fw_rect &window, std::int32_t relation = FW_INTERSECTS) const {
        fw_items *items = nullptr;
        check(fw_spatial_search(raw(), &window, relation, &items));
        return collect(items);
    }
    // The items nearest to a point, nearest first.
    std::vector<fw_item> nearest(double x, double y, std::size_t count) const {
        fw_items *items = nullptr;
        check(fw_spatial_nearest(raw(), x, y, count, &items));
        return collect(items);
    }
    fw_spatial *raw() const noexcept { return spatial_.get(); }

private:
    static std::vector<fw_item> collect(fw_items *found) {
        Handle<fw_items, fw_items_close> items(found);
        std::vector<fw_item> all;
        fw_item item;
        while (check(fw_items_next(items.get(), &item, nullptr)) == FW_OK) all.push_back(item);
        return all;
    }

    Handle<fw_spatial, fw_spatial_close> spatial_;
};

class Pool {
public:
    explicit Pool(fw_pool *pool) : pool_(pool) {}

    static void create(const std::string &url, const fw_pool_options &options = fw_pool_options_default()) {
        check(fw_pool_create(url.c_str(), &options));
    }
    static Pool open(const std::string &url) {
        fw_pool *pool = nullptr;
        check(fw_pool_open(url.c_str(), &pool));
        return Pool(pool);
    }
    static Pool anonymous(std::uint64_t memory_bytes) {
        fw_pool *pool = nullptr;
        check(fw_pool_anonymous(memory_bytes, &pool));
        return Pool(pool);
    }
    static void remove(const std::string &url) { check(fw_pool_remove(url.c_str())); }

    Index open_index(const std::string &name) const {
        fw_index *index = nullptr;
        check(fw_index_open(raw(), name.c_str(), nullptr, &index));
        return Index(index);
    }
    Index open_or_create(const std::string &name, const fw_index_options &options) const {
        fw_index *index = nullptr;
        check(fw_index_open_or_create(raw(), name.c_str(), &options, &index));
        return Index(index);
    }
    Spatial open_spatial(const std::string &name) const {
        fw_spatial *spatial = nullptr;
        check(fw_spatial_open(raw(), name.c_str(), &spatial));
        return Spatial(spatial);
    }
    Spatial create_spatial(const std::string &name,
                           const fw_spatial_options &options = fw_spatial_options_default()) const {
        fw_spatial *spatial = nullptr;
        check(fw_spatial_create(raw(), name.c_str(), &options, &spatial));
        return Spatial(spatial);
    }
    // Drops an index of any structure.
    void drop(const std::string &name) const { check(fw_index_drop(raw(), name.c_str())); }
    fw_pool *raw() const noexcept { return pool_.get(); }

private:
    Handle<fw_pool, fw_pool_close> pool_;
};

}  // namespace farwood

#endif  // FARWOOD_HPP
