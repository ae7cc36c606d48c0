//! Moving objects: tasks of a tokio runtime move them while other tasks look for the nearest ones. A thread of this
//! program serves the index; on another machine, `farwood serve --spatial` does.
//!
//! `cargo run --example spatial_async`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use farwood::spatial::{AsyncSpatial, IdKind, Query, RTree, Record, RecordId, Rectangle, ServeOptions};
use farwood::{Pool, PoolOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const DRIVERS: u64 = 8;
const PASSENGERS: u64 = 8;
const STEPS: u64 = 100;
/// The side of the city.
const SIDE: u64 = 1_000;

/// A pseudo-random place.
fn place(number: u64) -> [f64; 2] {
    [0x9e37_79b9, 0xc2b2_ae35]
        .map(|factor: u64| (number.wrapping_mul(factor) >> 8) % SIDE)
        .map(|at| at as f64)
}

fn at(point: [f64; 2]) -> Rectangle {
    Rectangle::point(point).expect("two finite numbers")
}

/// A taxi that moves one step at a time.
async fn drive(taxis: AsyncSpatial, number: u64) -> Result<(), Failure> {
    let id = RecordId::from(number);
    let [mut x, mut y] = place(number);
    let payload = format!("taxi {number}").into_bytes();
    taxis.put(Record { id: id.clone(), bounds: at([x, y]), payload }).await?;
    for step in 0..STEPS {
        let [to_x, to_y] = place(number + step / 20);
        (x, y) = (x + (to_x - x).signum(), y + (to_y - y).signum());
        // The rectangle and the payload change in one commit: no search finds the taxi twice, or not at all.
        if !taxis.move_to(&id, at([x, y])).await? {
            return Err(format!("taxi {number} is lost").into());
        }
    }
    Ok(())
}

/// A passenger who looks for the nearest taxis.
async fn look(taxis: AsyncSpatial, number: u64) -> Result<usize, Failure> {
    let mut found = 0;
    for step in 0..STEPS {
        let nearest = taxis.nearest_records(place(1_000 * number + step), 3);
        // A late answer is of no use: the passenger asks again from another place.
        if let Ok(nearest) = timeout(Duration::from_millis(100), nearest).await {
            found += nearest?.len();
        }
    }
    Ok(found)
}

#[tokio::main]
async fn run(taxis: AsyncSpatial) -> Result<(), Failure> {
    let drivers: JoinSet<_> = (0..DRIVERS).map(|number| drive(taxis.clone(), number)).collect();
    let passengers: JoinSet<_> = (0..PASSENGERS).map(|number| look(taxis.clone(), number)).collect();
    drivers.join_all().await.into_iter().collect::<Result<(), _>>()?;
    let found: usize = passengers.join_all().await.into_iter().sum::<Result<_, _>>()?;
    let city = Rectangle::new([0.0; 2], [SIDE as f64; 2]).expect("its edges are in order");
    let count = taxis.count(&Query::intersecting(city)).await?;
    assert_eq!(count, DRIVERS);
    println!("{count} taxis moved {STEPS} times each, while {PASSENGERS} passengers found {found} of them");
    let finished = taxis.finished();
    drop(taxis);
    finished.await;
    Ok(())
}

/// Stops the server, also if the tasks panic.
struct StopsOnDrop<'s>(&'s AtomicBool);

impl Drop for StopsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn main() -> Result<(), Failure> {
    let url = format!("shm://example-taxis-{}", std::process::id());
    Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
    let config = RTree::new().ids(IdKind::Number);
    let served = Pool::open(&url)?.create_spatial("taxis", &config)?;
    let stop = AtomicBool::new(false);
    let (ready, is_ready) = channel::<()>();
    let done = std::thread::scope(|scope| {
        let stops = StopsOnDrop(&stop);
        let server = scope.spawn(|| served.serve(&ServeOptions::default(), stops.0, move || drop(ready)));
        // The sender is dropped when the server answers, or has failed.
        let _ = is_ready.recv();
        let done = Pool::open(&url)
            .and_then(|pool| Arc::new(pool.open_spatial("taxis")?).to_async())
            .map_err(Failure::from)
            .and_then(run);
        drop(stops);
        server.join().expect("the server does not panic")?;
        done
    });
    drop(served);
    Pool::remove_by_force(&url)?;
    done
}
