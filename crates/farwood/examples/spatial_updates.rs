//! Rectangles that threads move while others search: single changes, groups that searches see as a whole, and a search
//! that counts its items without storing them.
//!
//! `cargo run --example spatial_updates`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use farwood::Pool;
use farwood::spatial::{Change, Item, Query, RTree, Rectangle, SearchSink, Spatial};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const CARS: u64 = 200;
const ROUNDS: u64 = 50;

/// The place of a car: all cars drive in one row, which moves.
fn place(car: u64, round: u64) -> Rectangle {
    Rectangle::point([car as f64, round as f64]).expect("two finite numbers")
}

/// Counts the items of a search by the row in which they are.
#[derive(Default)]
struct Rows(std::collections::BTreeMap<u64, u64>);

impl SearchSink for Rows {
    fn item(&mut self, item: Item) {
        *self.0.entry(item.bounds.min()[1] as u64).or_default() += 1;
    }

    fn restart(&mut self) {
        self.0.clear();
    }
}

/// Moves all cars to the next row, in one group.
fn drive(cars: &Spatial) -> farwood::Result<()> {
    for round in 0..ROUNDS {
        let step = |car| Change::Update(Item { bounds: place(car, round), id: car }, place(car, round + 1));
        let changes: Vec<_> = (0..CARS).map(step).collect();
        cars.change(|editor| editor.apply(&changes))?;
    }
    Ok(())
}

fn main() -> farwood::Result<()> {
    let pool = Pool::anonymous(64 << 20)?;
    let cars = pool.create_spatial("cars", &RTree::new())?;
    cars.insert_many(&(0..CARS).map(|id| Item { bounds: place(id, 0), id }).collect::<Vec<_>>())?;
    let road =
        Query::intersecting(Rectangle::new([0.0; 2], [CARS as f64, 100.0]).expect("its edges are in order"));

    let (done, mut searches) = (AtomicBool::new(false), 0);
    thread::scope(|scope| {
        let driver = scope.spawn(|| {
            let driven = drive(&cars);
            done.store(true, Ordering::Release);
            driven
        });
        while !done.load(Ordering::Acquire) {
            let mut rows = Rows::default();
            cars.search_into(&road, &mut rows)?;
            assert_eq!(rows.0.values().copied().collect::<Vec<_>>(), [CARS], "all cars are in one row");
            searches += 1;
        }
        driver.join().expect("the driver does not panic")
    })?;
    let nearest = cars.nearest([17.2, 100.0], 1)?;
    println!(
        "{searches} searches saw all cars in one row; car {} is nearest to (17.2, 100)",
        nearest[0].item.id
    );
    assert_eq!(nearest[0].item.id, 17);
    Ok(())
}
