//! What one client asks, one request after the other.

use std::sync::Arc;

use farwood_index::catfish::{Item, Query, Rectangle};

use super::{INSERT_PLACES, Mix, Scale, at, by_power_law, window};
use crate::random::Generator;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Asked {
    /// What meets a window.
    Search(Query),
    /// One more item.
    Insert(Item),
}

/// Of so many requests of a mix one is an insert.
const REQUESTS_PER_INSERT: u64 = 10;

/// One client's requests, without end.
#[derive(Clone, Debug)]
pub struct RequestStream {
    chance: Generator,
    mix: Mix,
    scale: Scale,
    /// Windows to choose from, for [`Scale::Hundred`].
    windows: Arc<[Rectangle]>,
    next_id: u64,
    clients: u64,
}

impl RequestStream {
    /// The stream of client `client` of `clients`. Its inserts have numbers from `first_id` on that no other client
    /// gives. `windows` must not be empty where the scale chooses from them.
    pub fn new(
        (mix, scale): (Mix, Scale),
        windows: Arc<[Rectangle]>,
        (client, clients): (u64, u64),
        first_id: u64,
        seed: u64,
    ) -> RequestStream {
        assert!(scale != Scale::Hundred || !windows.is_empty(), "there are windows to choose from");
        let chance = Generator::for_client(seed, client);
        RequestStream { chance, mix, scale, windows, next_id: first_id + client, clients }
    }

    /// The next request.
    pub fn ask(&mut self) -> Asked {
        if self.mix == Mix::Mixed && self.chance.below(REQUESTS_PER_INSERT) == 0 {
            return Asked::Insert(self.insert());
        }
        let window = match self.scale {
            Scale::Hundred => self.windows[self.chance.below(self.windows.len() as u64) as usize],
            scale => {
                let edge_max = scale.draw(&mut self.chance);
                window(&mut self.chance, edge_max)
            }
        };
        Asked::Search(Query::intersecting(window))
    }

    fn insert(&mut self) -> Item {
        let id = self.next_id;
        self.next_id += self.clients;
        let edge_max = self.scale.draw(&mut self.chance);
        let corner = [0, 1].map(|_| {
            let place = by_power_law(&mut self.chance, INSERT_PLACES);
            if self.chance.below(2) == 0 { place } else { 1.0 - place }
        });
        Item { bounds: at(&mut self.chance, corner, edge_max), id }
    }
}
