// The objects of farwood.hpp, and spatial indexes.
#include <farwood.hpp>

#include "test.h"

namespace {

farwood::Index create_words(farwood::Pool &pool) {
    auto options = fw_index_options_default();
    options.structure = FW_HASHED;
    options.key_kind = FW_TEXT;
    return pool.open_or_create("words", options);
}

void test_index(farwood::Pool &pool) {
    auto words = create_words(pool);
    auto same = create_words(pool);
    CHECK(!words.get("ant"));
    words.put("ant", std::string(1000, 'x'));
    CHECK(same.get("ant")->size() == 1000);
    CHECK(words.insert("bee", "2") && !words.insert("bee", "3") && words.update("bee", "4"));
    CHECK(!words.update("cat", "5") && words.compare_exchange("cat", std::nullopt, "5"));
    CHECK(!words.compare_exchange("cat", "", "6") && words.compare_exchange("cat", "5", std::nullopt));
    words.put("bear", "7");
    std::string found;
    auto scan = words.scan(farwood::Range().prefix("b").reverse());
    while (auto entry = scan.next()) found += std::string(entry->key) + "=" + std::string(entry->value) + ";";
    CHECK(found == "bee=4;bear=7;");
    CHECK(words.remove("bear") && !words.remove("bear") && words.count() == 2);
    auto moved = std::move(words);
    CHECK(moved.get("bee") == "4");
}

void test_numbers(farwood::Pool &pool) {
    auto options = fw_index_options_default();
    options.key_kind = options.value_kind = FW_U64;
    auto counters = pool.open_or_create("counters", options);
    CHECK(counters.fetch_add(farwood::u64(1), 5) == 0 && counters.fetch_add(farwood::u64(1), 1) == 5);
    CHECK(farwood::to_u64(*counters.get(farwood::u64(1))) == 6);
    CHECK(farwood::to_f64(farwood::f64(-0.5)) == -0.5 && farwood::to_i64(farwood::i64(-7)) == -7);
}

void test_errors(farwood::Pool &pool) {
    try {
        pool.open_index("none");
        CHECK(false);
    } catch (const farwood::Error &error) {
        CHECK(error.code() == FW_ERR_NOT_FOUND && !error.retryable() && !error.may_have_changed());
        CHECK(std::string(error.what()).find("none") != std::string::npos);
    }
}

std::int32_t stop_at_two(void *context, const fw_item *item) {
    CHECK(item->bounds.x_max == 1);
    return ++*static_cast<int *>(context) == 2;
}

void test_spatial(farwood::Pool &pool) {
    auto options = fw_spatial_options_default();
    options.coordinates = FW_COORDINATES_PLANAR;
    auto places = pool.create_spatial("places", options);
    fw_rect unit{0, 0, 1, 1};
    places.insert(fw_item{unit, 1});
    places.insert({fw_item{unit, 2}, fw_item{unit, 3}, fw_item{{5, 5, 6, 6}, 4}});
    CHECK(places.search(unit).size() == 3 && places.search({0, 0, 9, 9}, FW_WITHIN).size() == 4);
    CHECK(places.search({0.2, 0.2, 0.3, 0.3}, FW_CONTAINS).size() == 3);
    CHECK(places.remove({unit, 2}) && !places.remove({unit, 2}));
    CHECK(places.move({unit, 3}, {20, 20, 20, 20}) && !places.move({unit, 3}, unit));
    auto near = pool.open_spatial("places").nearest(19, 19, 2);
    CHECK(near.size() == 2 && near[0].id == 3 && near[1].id == 4);

    places.insert(fw_item{unit, 5});
    places.insert(fw_item{unit, 6});
    int count = 0;
    EXPECT(FW_STOPPED, fw_spatial_search_each(places.raw(), &unit, FW_INTERSECTS, stop_at_two, &count));
    CHECK(count == 2);
    std::uint64_t all = 0;
    OK(fw_spatial_count(places.raw(), &unit, FW_INTERSECTS, &all));
    CHECK(all == 3);
    fw_item gone[] = {{unit, 5}, {unit, 5}};
    std::int32_t statuses[2];
    OK(fw_spatial_remove_many(places.raw(), gone, 2, statuses));
    CHECK(statuses[0] == FW_OK && statuses[1] == FW_NOT_FOUND);
    fw_items *items = nullptr;
    double distance = -1;
    std::size_t left = 0;
    OK(fw_spatial_nearest(places.raw(), 23, 24, 1, &items));
    OK(fw_items_left(items, &left));
    OK(fw_items_next(items, nullptr, &distance));
    EXPECT(FW_END, fw_items_next(items, nullptr, nullptr));
    OK(fw_items_close(items));
    CHECK(left == 1 && distance == 25);
    fw_item wrong{{1, 0, 0, 1}, 9};
    EXPECT(FW_ERR_INVALID_ARGUMENT, fw_spatial_insert(places.raw(), &wrong));
    EXPECT(FW_ERR_INVALID_ARGUMENT, fw_spatial_search(places.raw(), &unit, 77, &items));
}

}  // namespace

int main() {
    auto pool = farwood::Pool::anonymous(256 << 20);
    test_index(pool);
    test_numbers(pool);
    test_errors(pool);
    test_spatial(pool);
    return 0;
}
