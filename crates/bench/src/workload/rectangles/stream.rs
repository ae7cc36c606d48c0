//! The requests of one client.

use std::sync::Arc;

use farwood_index::catfish::{Item, Query, Rectangle};

use super::{INSERT_RANGE, Scale, SpatialMix, at, by_power_law, window};
use crate::workload::random::Generator;

/// A request to a spatial index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RectangleRequest {
    /// Search for the items that intersect a window.
    Search(Query),
    /// Insert an item.
    Insert(Item),
}

/// One of this number of requests of a mix with inserts is an insert.
const REQUESTS_PER_INSERT: u64 = 10;

/// The unbounded stream of one client's requests.
#[derive(Clone, Debug)]
pub struct RequestStream {
    generator: Generator,
    mix: SpatialMix,
    scale: Scale,
    /// Windows to choose from, for [`Scale::Hundred`].
    windows: Arc<[Rectangle]>,
    next_id: u64,
    clients: u64,
}

impl RequestStream {
    /// The stream of client `client` of `clients`. It numbers its inserts from `first_id` with numbers that no other
    /// client uses. `windows` must not be empty if the scale chooses from them.
    pub fn new(
        (mix, scale): (SpatialMix, Scale),
        windows: Arc<[Rectangle]>,
        (client, clients): (u64, u64),
        first_id: u64,
        seed: u64,
    ) -> RequestStream {
        assert!(scale != Scale::Hundred || !windows.is_empty(), "the scale needs windows to choose from");
        let generator = Generator::for_client(seed, client);
        RequestStream { generator, mix, scale, windows, next_id: first_id + client, clients }
    }

    /// Draws the next request.
    pub fn next_request(&mut self) -> RectangleRequest {
        if self.mix == SpatialMix::Mixed && self.generator.below(REQUESTS_PER_INSERT) == 0 {
            return RectangleRequest::Insert(self.insert());
        }
        let window = match self.scale {
            Scale::Hundred => self.windows[self.generator.below(self.windows.len() as u64) as usize],
            scale => {
                let edge_max = scale.draw(&mut self.generator);
                window(&mut self.generator, edge_max)
            }
        };
        RectangleRequest::Search(Query::intersecting(window))
    }

    fn insert(&mut self) -> Item {
        let id = self.next_id;
        self.next_id += self.clients;
        let edge_max = self.scale.draw(&mut self.generator);
        let corner = [0, 1].map(|_| {
            let place = by_power_law(&mut self.generator, INSERT_RANGE);
            if self.generator.below(2) == 0 { place } else { 1.0 - place }
        });
        Item { bounds: at(&mut self.generator, corner, edge_max), id }
    }
}
