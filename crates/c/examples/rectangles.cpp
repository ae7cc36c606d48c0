// A spatial index: it loads the squares of a grid, moves one of them, searches a window, and finds the nearest squares.
//
//   c++ -std=c++17 rectangles.cpp $(pkg-config --cflags --libs farwood) -o rectangles && ./rectangles
#include <farwood.hpp>

#include <cstdio>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

constexpr int columns = 100;

fw_rect square(double x, double y) { return {x, y, x + 0.5, y + 0.5}; }

void run(const std::string &url) {
    auto pool = farwood::Pool::open(url);
    auto squares = pool.create_spatial("squares");
    std::vector<fw_item> items;
    for (int y = 0; y < columns; y++) {
        for (int x = 0; x < columns; x++) items.push_back({square(x, y), static_cast<std::uint64_t>(y * columns + x)});
    }
    squares.bulk_load(items);

    auto in_window = squares.search({10, 10, 14.2, 12.2});
    std::printf("%zu squares share a point with the window\n", in_window.size());

    if (!squares.move(items[0], square(-50, -50))) throw std::runtime_error("the first square is missing");
    for (const auto &item : squares.nearest(-40, -40, 2)) {
        std::printf("square %llu is near\n", static_cast<unsigned long long>(item.id));
    }
    if (in_window.size() != 15) throw std::runtime_error("the search has found other squares");
    if (squares.nearest(-40, -40, 1).at(0).id != 0) throw std::runtime_error("the first square was not moved");
}

}  // namespace

int main() {
    auto url = "shm://rectangles-" + std::to_string(getpid());
    auto options = fw_pool_options_default();
    options.memory_bytes = 64 << 20;
    int result = 0;
    try {
        farwood::Pool::create(url, options);
        run(url);
        farwood::Pool::remove(url);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        fw_pool_remove_by_force(url.c_str());
        result = 1;
    }
    return result;
}
