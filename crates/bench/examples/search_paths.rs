//! Measures searches of a served spatial index by messages, by READs, and by the automatic choice, in turn.
//!
//! ```sh
//! farwood create shm://paths/places --index catfish --memory 256MiB
//! farwood serve shm://paths --spatial places &
//! cargo run --release -p farwood-bench --example search_paths -- shm://paths/places
//! ```
#![expect(clippy::print_stdout, reason = "the example prints its measurements")]

use farwood::spatial::{Item, Query, Rectangle, SearchMode, SearchOptions, Spatial};
use farwood::{Pool, Url};
use std::error::Error;
use std::time::{Duration, Instant};

const RECTANGLES: u64 = 200_000;
/// The longest edge of a window, where all coordinates are between 0 and 1.
const WINDOW: f64 = 0.000_01;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(700);

/// A generator of numbers between 0 and 1 (Marsaglia's xorshift).
struct Numbers(u64);

impl Numbers {
    fn draw(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn rectangle(&mut self, edge: f64) -> Rectangle {
        let min = [self.draw(), self.draw()];
        let max = [min[0] + edge * self.draw(), min[1] + edge * self.draw()];
        Rectangle::new(min, max).expect("the edges are in order")
    }
}

/// Searches per second of `threads` threads during one round.
fn measure(spatial: &Spatial, threads: u64, round: usize) -> f64 {
    let searches: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let mut numbers = Numbers(0x9E37_79B9 + thread * 1_000 + round as u64);
                    let (begun, mut searches) = (Instant::now(), 0);
                    while begun.elapsed() < ROUND {
                        let query = Query::intersecting(numbers.rectangle(WINDOW));
                        spatial.search(&query).expect("the search succeeds");
                        searches += 1;
                    }
                    searches
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("the thread ends")).sum()
    });
    searches as f64 / ROUND.as_secs_f64()
}

fn main() -> Result<(), Box<dyn Error>> {
    let url: Url = std::env::args().nth(1).ok_or("give the URL of a spatial index")?.parse()?;
    let pool = Pool::open(url.pool_url())?;
    let open = || pool.open_spatial(url.index().unwrap_or("places"));
    if open()?.is_empty()? {
        let mut numbers = Numbers(7);
        let items: Vec<_> =
            (0..RECTANGLES).map(|id| Item { bounds: numbers.rectangle(0.0001), id }).collect();
        let places = open()?;
        if places.takes_bulk()? {
            places.bulk_load(&items, 0.7)?;
        } else {
            places.insert_many(&items)?;
        }
    }
    let modes = [SearchMode::Reads, SearchMode::Message, SearchMode::Auto];
    println!("{:>8}  {:>12}  {:>12}  {:>12}  auto / better", "threads", "reads", "message", "auto");
    for threads in [1, 16] {
        let handles = modes
            .map(|mode| open()?.with_search(SearchOptions { mode, ..SearchOptions::default() }))
            .into_iter()
            .collect::<Result<Vec<_>, farwood::Error>>()?;
        let mut rates = vec![Vec::new(); modes.len()];
        for round in 0..ROUNDS {
            for (handle, rates) in handles.iter().zip(&mut rates) {
                rates.push(measure(handle, threads, round));
            }
        }
        let medians: Vec<_> = rates
            .iter_mut()
            .map(|rates| {
                rates.sort_unstable_by(f64::total_cmp);
                rates[ROUNDS / 2]
            })
            .collect();
        let ratio = medians[2] / medians[0].max(medians[1]);
        println!(
            "{threads:>8}  {:>12.0}  {:>12.0}  {:>12.0}  {ratio:.2}   {:?}",
            medians[0],
            medians[1],
            medians[2],
            handles[2].search_stats()
        );
    }
    Ok(())
}
